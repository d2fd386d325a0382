"""Verbs for data that arrives from outside: ready, discover."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from ..errors import OdfError, UsageError
from .app import App, table
from .common import verb
from .running import worker_of

if TYPE_CHECKING:
    from ..model import Dataset
    from ..run.arrival import Arrived

_MOST = 12  # lines that people read


@verb("ready")
@click.option("--why", metavar="TEXT", help="The reason, for the history.")
@click.option(
    "--again", is_flag=True, help="Accept what is there now as a new version, also where nothing seems to have changed."
)
@click.option("--unseen", is_flag=True, help="Announce without checking that something is there.")
@click.option("--dry-run", is_flag=True, help="Say what would be announced, and change nothing.")
@click.argument("dataset")
@click.argument("dataids", metavar="DATAID…|FROM..TO", nargs=-1, required=True)
def ready_verb(
    app: App, dataset: str, dataids: tuple[str, ...], why: str | None, again: bool, unseen: bool, dry_run: bool
) -> int:
    """Announce chunks that something outside produced: they become READY.

    First a look at the dataset's location: the data must be there, and it must not be the content of another chunk
    (WRONG_DATA). Announcing a chunk again changes nothing unless its content is new: a file that only has another time is
    the same file. To accept a file as it is now, whatever it was, say --again.

    \b
      odf ready flights_raw 2013-01-01
      odf ready flights_raw 2013-01-01..2013-01-31
      odf ready orders 1 2 3 --why "loaded by hand"
      odf ready --again flights_raw 2013-01-05 --why "corrected by hand"
    """
    from ..model import dataids as between
    from ..run.arrival import announce

    registered = app.store.catalogue().dataset(dataset)
    wanted: list[str] = []
    for word in dataids:
        first, dots, last = word.partition("..")
        wanted += between(registered.partition, first, last) if dots else [word]
    result = announce(worker_of(app), registered, wanted, look=not unseen, why=why, dry_run=dry_run, again=again)
    would = "would be " if dry_run else ""
    lines = [f"{dataset}: {len(result.ready)} {would}READY, {len(result.unchanged)} unchanged"]
    lines += [result.remarks] if result.remarks else []
    facts = {"dataset": dataset, "ready": result.ready, "unchanged": result.unchanged, "remarks": result.remarks}
    app.show({**facts, "dry_run": dry_run}, lambda: lines)
    return 0


@verb("discover")
@click.option(
    "--quiet-for",
    type=float,
    default=None,
    metavar="SECONDS",
    help="How long size and time must stay the same (default: the dataset's, or 2).",
)
@click.option("--all", "everything", is_flag=True, help="Every dataset that has a location and that no job writes.")
@click.option("--dry-run", is_flag=True, help="Say what would be announced, and change nothing.")
@click.argument("datasets", metavar="DATASET…", nargs=-1)
def discover_verb(app: App, datasets: tuple[str, ...], quiet_for: float | None, everything: bool, dry_run: bool) -> int:
    """Find chunks that arrived at a dataset's location, look at them, and announce them.

    A chunk has arrived when its marker file is there (ready = { marker = "{dataid}.done" } on the dataset), or when its
    size has not changed for some seconds. A chunk that is READY already is left alone unless its content is new. What is
    refused stops no other chunk and no other dataset; the exit code is that of the first refusal.
    A root that does not exist, or that is empty although chunks were found in it, is not mounted: INVALID_PATH.

    \b
      odf discover flights_raw
      odf discover flights_raw --quiet-for 60
      odf discover --all
    """
    from ..run.arrival import discover

    wanted = _to_look_at(app, datasets, everything)
    worker = worker_of(app)
    arrived: dict[str, list[Arrived]] = {}
    refused: dict[str, OdfError] = {}
    for dataset in wanted:
        try:
            arrived[dataset.datasetid] = discover(worker, dataset, quiet_for=quiet_for, dry_run=dry_run, say=app.say)
        except OdfError as error:
            if len(wanted) == 1:
                raise
            refused[dataset.datasetid] = error
            app.say(f"{dataset.datasetid}: {error.name}: {error.message}")
    app.show(
        [
            {"dataset": name, "dataid": chunk.dataid, "verdict": chunk.verdict, "why": chunk.why}
            for name, chunks in arrived.items()
            for chunk in chunks
        ],
        lambda: _told(arrived) or ([] if refused else ["nothing new arrived"]),
    )
    codes = [chunk.exit_code for chunks in arrived.values() for chunk in chunks]
    return next((code for code in (*codes, *(error.exit_code for error in refused.values())) if code), 0)


def _to_look_at(app: App, named: tuple[str, ...], everything: bool) -> list[Dataset]:
    catalogue = app.store.catalogue()
    if everything and named:
        raise UsageError("--all means every dataset, so none is named", hint="Leave out one of them.")
    if everything:
        return [each for name, each in catalogue.datasets.items() if each.location and catalogue.producer(name) is None]
    if not named:
        raise UsageError("which dataset?", hint="Name it, or look at all of them: odf discover --all")
    for name in named:
        if not catalogue.dataset(name).location:
            raise UsageError(
                f"dataset {name} has no location to look at",
                hint=f"Announce its chunks yourself: odf ready {name} DATAID",
            )
    return [catalogue.dataset(name) for name in named]


def _told(arrived: dict[str, list[Arrived]]) -> list[str]:
    """A line for each chunk; of many, only for those with something to say, and how many have which verdict."""
    chunks = [(name, chunk) for name, found in arrived.items() for chunk in found]
    is_long = len(chunks) > _MOST
    rows = [
        (name, chunk.dataid, chunk.verdict, chunk.why)
        for name, chunk in chunks
        if not is_long or chunk.exit_code or chunk.why
    ]
    first = 0 if len(arrived) > 1 else 1  # one dataset need not be named on every line
    lines = table(["dataset", "dataid", "verdict", "why"][first:], [row[first:] for row in rows]) if rows else []
    if is_long:
        lines.append(
            ", ".join(f"{n:,} {verdict}" for verdict, n in Counter(chunk.verdict for _, chunk in chunks).items())
        )
    return lines
