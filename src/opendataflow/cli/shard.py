"""Verbs for tables in ranges and for proof: shard, prove."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from ..errors import UsageError
from ..model.bounds import Size
from .app import App, Line, plain, table
from .common import Whole, confirm, verb
from .running import worker_of

if TYPE_CHECKING:
    from ..insight.proof import Proof, ProofRows
    from ..run.sharding import Sharding

_LISTED = 10
_MOST_CHUNKS = 1_000_000
_UNITS = {"": 0, "B": 0, "KB": 1, "MB": 2, "GB": 3, "TB": 4, "PB": 5}
_is_size = re.compile(r"([0-9]{1,15})\s*([A-Za-z]{0,3})").fullmatch


def bytes_of(word: str) -> int:
    """A size as people write it, 100MB or 64MiB, in bytes."""
    match = _is_size(word.strip())
    unit = match[2].upper() if match else ""
    name = unit.replace("I", "")
    if match is None or name not in _UNITS or int(match[1]) == 0:
        raise UsageError(f"{word[:40]!r} is not a size", hint="For instance 100MB, 64MiB or 1GB.")
    return int(match[1]) * int((1024 if "I" in unit else 1000) ** _UNITS[name])


@dataclass(frozen=True, slots=True)
class _Cut:
    """How a person wants the data cut: by which key, and how many chunks or how large; only new rows with extend."""

    by: str | None
    count: int | None
    rows: int | None
    size: str | None
    extend: bool

    @property
    def chunk_size(self) -> Size:
        """The one way that was named, if any."""
        if sum(given is not None for given in (self.count, self.rows, self.size)) > 1:
            raise UsageError("--count, --rows and --size exclude one another", hint="Give only one of them.")
        return Size(self.count, self.rows, bytes_of(self.size) if self.size else None)


@verb("shard")
@click.option("--by", metavar="COLUMN", help="The key column (default: the dataset's).")
@click.option("--count", type=Whole(1, _MOST_CHUNKS), metavar="N", help="Into this many chunks.")
@click.option("--rows", type=Whole(min=1), metavar="N", help="Chunks of this many rows.")
@click.option("--size", metavar="100MB", help="Chunks of about this many bytes, as stored.")
@click.option("--extend", is_flag=True, help="Add chunks for rows beyond the existing ones, which stay as they are.")
@click.option("--why", metavar="TEXT", help="The reason, for the history.")
@click.option("--master", metavar="URL", help="Where Spark runs.")
@click.option("--dry-run", is_flag=True, help="Show the chunks, and change nothing.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.argument("dataset")
def shard_verb(
    app: App, dataset: str, why: str | None, master: str | None, dry_run: bool, yes: bool, **cut: Any
) -> int:
    """Cut a table or file set into chunks of partition type range, evenly by its data, and announce them.

    The key is a number, a date, a timestamp, a text or a uuid. Spark computes the bounds: each chunk holds the keys from its
    lower bound up to, but not including, its upper bound, and the rows of one key stay together. Rows that come later are in
    no chunk until --extend makes new ones for them, as large as the others unless told otherwise.

    The bounds are computed anew each time, since the data may have changed: --dry-run takes as long as the announcement.
    Without --dry-run and --yes, the chunks are shown and announced after one look.

    \b
      odf shard orders_pg --count 10000
      odf shard orders_pg --size 100MB --dry-run
      odf shard orders_pg --extend --yes          every night
    """
    from ..run.sharding import announce, plan

    asked, worker, begun = _Cut(**cut), worker_of(app, master=master), time.monotonic()
    planned = plan(
        app.store,
        app.project,
        dataset,
        worker.spark,
        worker.vault.password,
        by=asked.by,
        size=asked.chunk_size,
        extend=asked.extend,
    )
    seconds = time.monotonic() - begun
    done = False
    if planned.chunks and not dry_run:
        if not yes:
            for line in _plan_lines(planned):
                app.say(str(line))
        confirm(app, f"announce {len(planned.chunks):,} chunks of {dataset}?", yes)
        announce(app.store, planned, why)
        done = True
    data = {
        "dataset": dataset,
        "column": planned.column,
        "kind": planned.kind,
        "rows": planned.rows,
        "asked": planned.asked,
        "known": planned.known,
        "dry_run": dry_run,
        "seconds": seconds,
        "chunks": planned.chunks,
    }
    app.show(data, lambda: [*_plan_lines(planned), *_after_lines(planned, done, seconds)])
    return 0


def _plan_lines(planned: Sharding) -> list[Line]:
    name = planned.dataset.datasetid
    if not planned.chunks:
        return [f"{name}: no rows beyond its {planned.known:,} chunks"]
    shown = [*planned.chunks[:_LISTED]]
    rows = [(chunk.dataid, _key(chunk.lower), _key(chunk.upper), f"{chunk.rows:,}") for chunk in shown]
    lines: list[Line] = [*table(["dataid", "from", "up to", "rows"], rows)]
    if len(planned.chunks) > _LISTED:
        last = planned.chunks[-1]
        lines.append(f"… up to {last.dataid}: {_key(last.lower)} up to {_key(last.upper)}, {last.rows:,} rows")
    counts = [chunk.rows for chunk in planned.chunks]
    lines.append(
        f"{name} by {planned.column} ({planned.kind}): {len(counts):,} chunks, {sum(counts):,} rows, "
        f"from {min(counts):,} to {max(counts):,} each"
    )
    if planned.is_short:
        lines.append(f"{planned.asked:,} chunks were asked for; the rows of one key stay together, so there are fewer")
    return lines


def _after_lines(planned: Sharding, done: bool, seconds: float) -> list[Line]:
    from ..insight.words import duration

    if not planned.chunks:
        return []
    if not done:
        return [
            f"nothing was changed; the data was read in {duration(seconds)}, and announcing the chunks reads it again. "
            "To read it once: leave out --dry-run, and answer after the chunks are shown"
        ]
    lines: list[Line] = [f"announced {len(planned.chunks):,} chunks; next: odf drain"]
    if planned.is_new_key:
        lines.append(f"the dataset {planned.dataset.datasetid} is now partitioned by column {planned.column}")
    return lines


def _key(text: str) -> str:
    """A key in a table: as it is when it is plain, else with its odd characters written out."""
    shown = text if text.isprintable() and text.strip() == text and text else repr(text)
    return shown if len(shown) <= 40 else shown[:39] + "…"


@verb("prove")
@click.option("--rows", is_flag=True, help="Compare rows and fingerprints with the source as well, on Spark.")
@click.option("--master", metavar="URL", help="Where Spark runs, for --rows.")
@click.argument("dataset")
@click.argument("dataids", metavar="[DATAID|FROM..TO]", required=False)
def prove_verb(app: App, dataset: str, dataids: str | None, rows: bool, master: str | None) -> int:
    """Show that the published chunks of a dataset cover its source exactly once, or name what is missing or duplicated.

    It compares the chunks that should be there, the bounds of ranges, the versions that were consumed (at every hop
    upstream; what latest or all would read now and was not there then counts as newer), and the files with what was
    published. With --rows Spark counts the source in one pass: for a copy, the rows and fingerprints of every chunk must be
    the same; for any other job, it shows the rows in, out and rejected.

    \b
      odf prove orders_lake
      odf prove orders_lake --rows
      odf prove flights_clean 2013-01-01..2013-01-31

    \b
    Exit codes: 0 proven, 10 DATA_NOT_READY chunks or rows are missing, 11 WRONG_DATA some are there twice or differ,
    13 NOT_VALIDATED what lies there is not what was published.
    """
    from ..insight.prove import prove

    first, dots, last = (dataids or "").partition("..")
    if dots and not (first and last):
        raise UsageError(f"{dataids!r} is not a range of dataids", hint="For instance 2013-01-01..2013-01-31.")
    worker = worker_of(app, master=master)
    proof = prove(
        app.store,
        app.project,
        dataset,
        first or None,
        last if dots else None,
        spark=worker.spark if rows else None,
        password=worker.vault.password,
    )
    data = {**plain(proof), "verdict": proof.verdict, "exit_code": proof.exit_code}
    app.show(data, lambda: _proof_lines(proof))
    return proof.exit_code


def _proof_lines(proof: Proof) -> list[Line]:
    span = f" {proof.first}..{proof.last}" if proof.first is not None else ""
    lines: list[Line] = [f"{proof.datasetid}{span}: {proof.published:,} of {proof.expected:,} chunks are published"]
    if proof.rows is not None:
        lines.append(_rows_line(proof.rows))
    lines += proof.notes
    for problem in proof.problems[:_LISTED]:
        shown = ", ".join(map(str, problem.ranges[:_LISTED]))
        more = f" and {len(problem.ranges) - _LISTED:,} more" if len(problem.ranges) > _LISTED else ""
        lines.append([(problem.name, "no"), (f": {problem.text}{f' ({shown}{more})' if shown else ''}", "")])
        lines += [[(f"  {problem.why}", "faint")]] if problem.why else []
        lines += [[("  ", ""), (command, "command")] for command in problem.commands]
    if len(proof.problems) > _LISTED:
        lines.append(f"… and {len(proof.problems) - _LISTED:,} more")
    of = f" {', '.join(proof.sources)}" if proof.sources else ""
    if proof.exit_code:
        lines.append([("NOT PROVEN", "no"), (f": {proof.verdict}", "")])
    else:
        lines.append([(proof.verdict, "yes"), (f": {proof.datasetid} covers{of or ' its range'} exactly once", "")])
    return lines


def _rows_line(rows: ProofRows) -> str:
    line = f"{rows.source:,} rows in the source, {rows.published:,} published, {rows.rejected:,} rejected"
    return f"{line}; {rows.fingerprints:,} chunks with the same fingerprint" if rows.is_copy else line
