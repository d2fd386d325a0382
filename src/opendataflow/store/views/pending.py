"""Work out in memory what the next claim will fold in: a look shows it, and neither writes nor locks anything."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from ...errors import BadDataid, BadId
from ...model import (
    CLAIMABLE,
    DEFERRED,
    FAILED,
    IN,
    OUT,
    READY,
    RESUBMIT,
    RUNNING,
    WAITING,
    Catalogue,
    Job,
    sort_key,
    takes_all,
)
from .. import records
from ..drivers.base import PendingRows, Row, Transaction
from ..engine import announcing, candidates
from ..engine.candidates import PairId
from ..engine.inputs import ChunkId
from ..engine.steering import recalled_versions
from ..rows import CandidateRow, Note, Status, compact

_MOST = 10_000  # notes, periods, and pairs of a job that a look works out
_AFTER_ALL = "\x7f"  # sorts after every position


@dataclass
class Pending:
    """What the next claim will fold in, as far as a look needs it."""

    catalogue: Catalogue
    changes: int = 0  # typed as SQL
    periods: int = 0  # of calendars, over and not announced yet
    is_partial: bool = False  # there is more than a look works out
    statuses: dict[ChunkId, Status] = field(default_factory=dict)  # rows that the fold itself changes or adds
    ready: dict[str, list[tuple[str, str]]] = field(default_factory=dict)  # by dataset, positions of noted READY chunks
    released: set[PairId] = field(default_factory=set)  # their IN rows no longer lock
    lost: set[int] = field(default_factory=set)  # runs that lost their chunk
    before: dict[PairId, str] = field(default_factory=dict)  # states of stored candidates that the fold derives again
    after: dict[PairId, CandidateRow | None] = field(default_factory=dict)

    @property
    def words(self) -> tuple[str, ...]:
        """What is pending, in one line for each kind."""
        lines = []
        if self.changes:
            verbs = "change typed as SQL is", "changes typed as SQL are"
            lines.append(_line(self.changes, verbs, "applies"))
        if self.periods:
            verbs = "calendar period is over and", "calendar periods are over and"
            lines.append(_line(self.periods, verbs, "announces"))
        if self.is_partial:
            lines.append("too much is pending for a look: what can run is shown without a part of it")
        return tuple(lines)

    def over(self, tx: Transaction) -> Transaction:
        """The same transaction, with answers as after the fold."""
        return PendingTransaction(tx, self) if self.before or self.after or self.statuses else tx

    def of_job(self, jobid: str, *states: str) -> list[CandidateRow]:
        """The candidates of a job that the fold will write, in these states."""
        return [row for row in self.after.values() if row and row.jobid == jobid and row.state in states]

    def n_before(self, jobid: str) -> int:
        """How many stored candidates of a job the fold derives again."""
        return sum(pair[0] == jobid for pair in self.before)


def _line(n: int, words: tuple[str, str], will: str) -> str:
    them = "it" if n == 1 else "them"
    return f"{n:,} {words[n != 1]} pending: the next claim {will} {them}"


def read_pending(tx: Transaction, catalogue: Catalogue, now: float) -> Pending:
    """What the next claim will fold in and announce; bounded, whatever was typed."""
    found = Pending(catalogue)
    due = announcing.due_by_clock(tx, catalogue, now)
    if not (due or tx.value("changes_wait")):
        return found
    look = PendingTransaction(tx, found)
    notes = tx.fetch(Note._make, "notes_page", n=_MOST + 1)
    found.is_partial = len(notes) > _MOST
    found.changes = tx.value("notes_typed")
    pairs = _pairs_of_notes(tx, found, notes[:_MOST])
    changed = {str(note.datasetid) for note in notes if note.datasetid is not None} | due.keys()
    periods = [(name, dataid) for name, dataids in due.items() for dataid in dataids]
    found.periods, found.is_partial = len(periods), found.is_partial or len(periods) > _MOST
    for chunk in periods[:_MOST]:
        _note_status(found, Status(*chunk, READY, None, None))
    pairs |= candidates.affected_pairs(catalogue, periods[:_MOST])
    jobs = {str(note.jobid): None for note in notes if note.datasetid is None} | _jobs_of_datasets(catalogue, notes)
    if jobs:
        changed |= catalogue.datasets.keys()
    jobs |= dict.fromkeys(_repaired(tx, catalogue))
    for jobid in jobs:
        pairs |= dict.fromkeys(_pairs_of_job(tx, found, jobid))
    for row in tx.fetch(CandidateRow._make, "candidates_due_page", n=_MOST):
        pairs.setdefault((row.jobid, row.dataid))
    found.before = dict(_states(tx, pairs))
    found.after |= candidates.foreseen(look, catalogue, pairs)
    waiting = candidates.dynamic_consumers(catalogue, changed) | candidates.consumers_of_all(catalogue, changed)
    dynamic = {pair: None for job in waiting.values() for pair in _pairs_of_dynamic(tx, found, job)}
    found.before |= _states(tx, dynamic)
    found.after |= candidates.foreseen(look, catalogue, dynamic)
    return found


def _pairs_of_notes(tx: Transaction, found: Pending, notes: Sequence[Note]) -> dict[PairId, None]:
    """The pairs that typed changes of chunks affect; notes what else the fold will change."""
    catalogue = found.catalogue
    typed = [note for note in notes if note.dataid is not None]
    if not typed:
        return {}
    chunks = list(dict.fromkeys(_chunk(note) for note in typed if note.locktype == OUT))
    rows = _statuses(tx, chunks)
    recalled = recalled_versions(tx, [chunk for chunk, row in rows.items() if row.status == READY])
    for row in rows.values():
        is_recalled = row.status == READY and (row.datasetid, row.dataid, row.version) in recalled
        _note_status(found, row._replace(status=RESUBMIT) if is_recalled else row)
    deleted = {_chunk(note): note for note in typed if note.locktype == OUT and note.after is None and note.who}
    _end_lost_runs(tx, found, rows, deleted)
    again = {chunk for chunk, row in rows.items() if row.status == RESUBMIT} | (deleted.keys() - rows.keys())
    siblings = {(name, dataid): None for datasetid, dataid in again for name in _outputs_with(catalogue, datasetid)}
    others = _statuses(tx, list(siblings.keys() - again))
    for row in others.values():
        if row.status in (READY, FAILED):
            _note_status(found, row._replace(status=RESUBMIT))
            chunks.append((row.datasetid, row.dataid))
    pairs = candidates.affected_pairs(catalogue, chunks)
    for note in typed:
        for job, item in catalogue.consumers(str(note.datasetid)) if note.locktype == IN else ():
            if job.jobid == note.jobid and not item.mapping.is_dynamic:
                outputs = catalogue.outputs_of_all(job, item, [str(note.dataid)])
                pairs |= {(job.jobid, output): None for output in outputs}
    return pairs


def _end_lost_runs(tx: Transaction, found: Pending, rows: dict[ChunkId, Status], deleted: dict[ChunkId, Note]) -> None:
    catalogue = found.catalogue
    removed = {(note.jobid, dataid) for (_, dataid), note in deleted.items()}
    held_by = {row.runid for row in rows.values() if row.status != RUNNING}
    lost = [
        run
        for run in tx.fetch(records.run, "runs_running")
        if run.runid in held_by or (run.jobid, run.dataid) in removed
    ]
    for run in lost:
        outputs = catalogue.jobs[run.jobid].outputs if run.jobid in catalogue.jobs else ()
        for row in _statuses(tx, [(name, run.dataid) for name in outputs]).values():
            if row.status == RUNNING and row.runid == run.runid:
                _note_status(found, row._replace(status=FAILED))
    found.lost = {run.runid for run in lost}
    found.released = {(run.jobid, run.dataid) for run in lost}
    for datasetid, dataid in deleted:
        producer = catalogue.producer(datasetid)
        found.released |= {(producer.jobid, dataid)} if producer else set()


def _note_status(found: Pending, row: Status) -> None:
    """Note a row as it will stand, and the position of a READY chunk, which typed rows lack."""
    catalogue = found.catalogue
    found.statuses[row.datasetid, row.dataid] = row
    if row.status == READY and row.datasetid in catalogue.datasets:
        with suppress(BadDataid, BadId):
            key = sort_key(catalogue.datasets[row.datasetid].partition, row.dataid)
            found.ready.setdefault(row.datasetid, []).append((key, row.dataid))


def _statuses(tx: Transaction, chunks: Sequence[ChunkId]) -> dict[ChunkId, Status]:
    rows = tx.fetch(Status._make, "statuses_given", chunks=compact(chunks)) if chunks else []
    return {(row.datasetid, row.dataid): row for row in rows}


def _outputs_with(catalogue: Catalogue, datasetid: str) -> tuple[str, ...]:
    """Every dataset that is written by the runs that write this one."""
    producer = catalogue.producer(datasetid)
    return producer.outputs if producer else ()


def _jobs_of_datasets(catalogue: Catalogue, notes: Sequence[Note]) -> dict[str, None]:
    """The jobs that read or write a dataset whose definition was typed."""
    typed = {str(note.datasetid) for note in notes if note.datasetid and note.dataid is None and note.who is not None}
    jobs: dict[str, None] = {}
    for datasetid in typed & catalogue.datasets.keys():
        producer = catalogue.producer(datasetid)
        jobs |= dict.fromkeys(job.jobid for job, _ in catalogue.consumers(datasetid))
        jobs |= {producer.jobid: None} if producer else {}
    return jobs


def _repaired(tx: Transaction, catalogue: Catalogue) -> Iterator[str]:
    """The jobs that are recorded as broken, and load by now."""
    for mark in tx.values("broken_marks"):
        jobid = str(mark).partition(" ")[0]
        if ("job", jobid) not in catalogue.broken:
            yield jobid


def _pairs_of_job(tx: Transaction, found: Pending, jobid: str) -> Iterator[PairId]:
    """The pairs of a job whose definition changed; the candidates that it has now go, if they are not among them."""
    catalogue = found.catalogue
    if ("job", jobid) in catalogue.broken:
        return
    job = catalogue.jobs.get(jobid)
    every = (pair for pairs in candidates.pairs_of_job(tx, catalogue, job) for pair in pairs) if job else iter(())
    pairs = dict.fromkeys(islice(every, _MOST))
    found.is_partial |= next(every, None) is not None
    stored = [(jobid, row[0]) for row in tx.rows("candidates_sample", jobid=jobid, n=_MOST)]
    found.after |= {pair: None for pair in stored if pair not in pairs}
    found.before |= _states(tx, stored)
    yield from pairs


def _pairs_of_dynamic(tx: Transaction, found: Pending, job: Job) -> Iterator[PairId]:
    """The pairs of a job that reads what depends on which chunks exist."""
    if takes_all(job):
        yield job.jobid, "all"
    rows = tx.rows("candidates_sample", jobid=job.jobid, n=_MOST + 1)
    found.is_partial |= len(rows) > _MOST
    yield from ((job.jobid, row[0]) for row in rows[:_MOST])
    yield from [pair for pair in found.after if pair[0] == job.jobid]


def _states(tx: Transaction, pairs: Iterable[PairId]) -> dict[PairId, str]:
    """The states of the stored candidates among these pairs."""
    given = list(pairs)
    return {(row[0], row[1]): row[2] for row in tx.rows("candidates_given", pairs=compact(given))} if given else {}


def _chunk(note: Note) -> ChunkId:
    return str(note.datasetid), str(note.dataid)


class PendingTransaction(Transaction):
    """A read-only transaction whose answers about candidates, and about statuses that decide them, are as after the fold.

    A query that has a method `_answer_` of its name is answered by it, every other one by the store.
    """

    def __init__(self, tx: Transaction, found: Pending) -> None:
        self._tx, self._catalogue, self._pending = tx, found.catalogue, found

    def rows(self, query: str, /, **parameters: Any) -> list[Row]:
        answer: Callable[..., list[Row]] | None = getattr(self, f"_answer_{query}", None)
        return self._tx.rows(query, **parameters) if answer is None else answer(**parameters)

    def send(self, query: str, /, **parameters: Any) -> PendingRows:
        return (
            self._tx.send(query, **parameters)
            if not hasattr(self, f"_answer_{query}")
            else super().send(query, **parameters)
        )

    def run(self, query: str, /, **parameters: Any) -> None:
        self._tx.run(query, **parameters)

    def lock(self, query: str, /, **parameters: Any) -> None:
        self._tx.lock(query, **parameters)

    def sync(self) -> None:
        self._tx.sync()

    def columns(self, table: str) -> list[str]:
        return self._tx.columns(table)

    def everything(self, table: str) -> Iterator[Row]:
        return self._tx.everything(table)

    def fill(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        self._tx.fill(table, columns, rows)

    # Candidates: what is stored, without the pairs that are derived again, and what is derived of them ------------------

    def _page(self, query: str, jobid: str, n: int, **rest: Any) -> list[Row]:
        """The stored rows of a page that stay: (dataid, …)."""
        rows = self._tx.rows(query, jobid=jobid, n=n + self._pending.n_before(jobid), **rest)
        return [row for row in rows if (jobid, row[0]) not in self._pending.after]

    def _in_order(self, query: str, states: Sequence[str], jobid: str, n: int, **rest: Any) -> list[Row]:
        derived = [(row.dataid, row.rank, row.sort_key) for row in self._pending.of_job(jobid, *states)]
        return sorted([*self._page(query, jobid, n, **rest), *derived], key=lambda row: (row[1], row[2], row[0]))[:n]

    def _answer_candidates_page(self, jobid: str, n: int) -> list[Row]:
        return self._in_order("candidates_page", [CLAIMABLE], jobid, n)

    def _answer_candidates_first(self, jobid: str, n: int, most: int) -> list[Row]:
        return self._in_order("candidates_first", [CLAIMABLE, WAITING], jobid, n, most=most)

    def _answer_candidates_sample(self, jobid: str, n: int) -> list[Row]:
        derived = [
            (row.dataid, row.state, compact(row.inputs)) for row in self._pending.of_job(jobid, CLAIMABLE, WAITING)
        ]
        return sorted([*self._page("candidates_sample", jobid, n), *derived], key=lambda row: row[0])[:n]

    def _answer_candidates_deferred_page(self, jobid: str, n: int) -> list[Row]:
        return self._page("candidates_deferred_page", jobid, n)[:n]

    def _answer_candidates_deferred(self, n: int) -> list[Row]:
        rows = self._tx.rows("candidates_deferred", n=n + len(self._pending.before))
        return [row for row in rows if (row[0], row[1]) not in self._pending.after][:n]

    def _answer_candidate_row(self, jobid: str, dataid: str) -> list[Row]:
        if (jobid, dataid) not in self._pending.after:
            return self._tx.rows("candidate_row", jobid=jobid, dataid=dataid)
        row = self._pending.after[jobid, dataid]
        return [(row.state, row.rank, row.not_before)] if row else []

    def _changes(self) -> Counter[tuple[str, str]]:
        """By job and state, how many candidates there are more or less."""
        more: Counter[tuple[str, str]] = Counter((row.jobid, row.state) for row in self._pending.after.values() if row)
        more.subtract((jobid, state) for (jobid, _), state in self._pending.before.items())
        return more

    def _answer_candidate_counts(self) -> list[Row]:
        counts = self._changes()
        counts.update({(row[0], row[1]): row[2] for row in self._tx.rows("candidate_counts")})
        return [(*key, n) for key, n in sorted(counts.items()) if n]

    def _answer_deferred_counts(self) -> list[Row]:
        more = self._changes()
        rows = ((jobid, n + more[jobid, DEFERRED]) for jobid, n in self._tx.rows("deferred_counts"))
        return [row for row in rows if row[1]]

    def _answer_claimable_counts(self, most: int) -> list[Row]:
        more = self._changes()
        rows = self._tx.rows("claimable_counts", most=most + len(self._pending.before))
        return [(jobid, min(n + more[jobid, CLAIMABLE], most)) for jobid, n in rows]

    def _answer_claimable_count(self, jobid: str, most: int) -> list[Row]:
        n: int = self._tx.value("claimable_count", jobid=jobid, most=most + self._pending.n_before(jobid))
        return [(min(n + self._changes()[jobid, CLAIMABLE], most),)]

    def _answer_unfinished_of_job(self, jobid: str) -> list[Row]:
        if not self._tx.value("unfinished_of_job", jobid=jobid):
            outputs = self._catalogue.jobs[jobid].outputs if jobid in self._catalogue.jobs else ()
            changed = (row for row in self._pending.statuses.values() if row.datasetid in outputs)
            return [(bool(self._pending.of_job(jobid, CLAIMABLE)) or any(row.status != READY for row in changed),)]
        if not self._pending.lost and not self._pending.n_before(jobid):
            return [(True,)]
        running = (run for run in self._tx.fetch(records.run, "runs_running") if run.jobid == jobid)
        unfinished = (
            self._answer_claimable_count(jobid, 1)[0][0]
            or self._answer_candidates_deferred_page(jobid, 1)
            or any(run.runid not in self._pending.lost for run in running)
            or any(self._unsettled(name) for name in self._catalogue.job(jobid).outputs)
        )
        return [(bool(unfinished),)]

    def _unsettled(self, datasetid: str) -> bool:
        """Whether any chunk of a dataset is not READY."""
        ((_, *counts),) = self._tx.rows("span_counts", spans=compact([(datasetid, "", _AFTER_ALL)]), most=1)
        return any(counts)

    # Statuses --------------------------------------------------------------------------------------------------------

    def _answer_statuses_given(self, chunks: str) -> list[Row]:
        rows = {(row[0], row[1]): row for row in self._tx.rows("statuses_given", chunks=chunks)}
        changed = self._pending.statuses
        return [
            changed.get(chunk) or rows[chunk]
            for chunk in map(tuple, json.loads(chunks))
            if chunk in changed or chunk in rows
        ]

    def _answer_chunks_in_order(self, datasetid: str) -> list[Row]:
        rows = {row[0]: row[1] for row in self._tx.rows("chunks_in_order", datasetid=datasetid)}
        changed = (row for row in self._pending.statuses.values() if row.datasetid == datasetid)
        return list((rows | {row.dataid: row.status for row in changed}).items())

    def _answer_newest_ready(self, datasetid: str, until_key: str) -> list[Row]:
        noted = self._pending.statuses
        ready = self._pending.ready.get(datasetid, ())
        found = [each for each in ready if each[0] <= until_key and noted[datasetid, each[1]].status == READY]
        for (dataid,) in self._tx.rows("newest_ready", datasetid=datasetid, until_key=until_key):
            if (datasetid, dataid) not in noted:
                found.append((sort_key(self._catalogue.datasets[datasetid].partition, dataid), dataid))
        return [(max(found)[1],)] if found else []

    def _answer_readings_given(self, jobid: str, chunks: str) -> list[Row]:
        released = self._pending.released
        left = [chunk for chunk in json.loads(chunks) if (jobid, chunk[2]) not in released]
        return self._tx.rows("readings_given", jobid=jobid, chunks=compact(left))

    def _answer_reads_of_pairs(self, reads: str) -> list[Row]:
        rows = self._tx.rows("reads_of_pairs", reads=reads)
        return [row for row in rows if (row[0], row[1]) not in self._pending.released]
