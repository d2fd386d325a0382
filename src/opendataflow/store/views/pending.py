"""Work out in memory what the next claim will fold in: a look shows it, and neither writes nor locks anything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice

from ...errors import BadDataid, BadId
from ...model import (
    FAILED,
    IN,
    OUT,
    READY,
    RESUBMIT,
    RUNNING,
    Catalogue,
    Job,
    sort_key,
    takes_all,
)
from .. import records
from ..drivers.base import Transaction
from ..engine import announcing, candidates
from ..engine.candidates import PairId
from ..engine.inputs import ChunkId
from ..engine.transition import recalled_versions
from ..rows import CandidateRow, CandidateState, Note, Status, compact
from .pending_transaction import PendingTransaction

_MOST = 10_000  # notes, periods, and pairs of a job that a look works out


@dataclass
class Pending:
    """What the next claim will fold in, as far as a look needs it."""

    catalogue: Catalogue
    changes: int = 0  # of statuses, typed as SQL
    periods: int = 0  # of calendars, over and not announced yet
    is_partial: bool = False  # there is more than a look works out
    statuses: dict[ChunkId, Status] = field(default_factory=dict)  # rows that the fold itself changes or adds
    placed: dict[str, list[tuple[str, str, str]]] = field(default_factory=dict)  # typed rows, which get their position
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
        found.statuses[chunk] = Status(*chunk, READY, None, None)
    pairs |= candidates.affected_pairs(catalogue, periods[:_MOST])
    jobs = {str(note.jobid): None for note in notes if note.datasetid is None} | _jobs_of_datasets(catalogue, notes)
    if jobs:
        changed |= catalogue.datasets.keys()
    jobs |= dict.fromkeys(_repaired(tx, catalogue))
    for jobid in jobs:
        pairs |= dict.fromkeys(_pairs_of_job(tx, found, jobid))
    for row in tx.fetch(CandidateRow._make, "candidates_due_page", n=_MOST):
        pairs.setdefault((row.jobid, row.dataid))
    found.before |= _states(tx, pairs)
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
    inserted = {_chunk(note) for note in typed if note.locktype == OUT and note.before is None and note.after}
    _place(found, [row for chunk, row in rows.items() if chunk in inserted])
    for row in rows.values():
        is_recalled = row.status == READY and (row.datasetid, row.dataid, row.version) in recalled
        found.statuses[row[:2]] = row._replace(status=RESUBMIT) if is_recalled else row
    deleted = {_chunk(note): note for note in typed if note.locktype == OUT and note.after is None and note.who}
    _end_lost_runs(tx, found, rows, deleted)
    again = {chunk for chunk, row in rows.items() if row.status == RESUBMIT} | (deleted.keys() - rows.keys())
    siblings = {(name, dataid): None for datasetid, dataid in again for name in _outputs_with(catalogue, datasetid)}
    others = _statuses(tx, list(siblings.keys() - again))
    for row in others.values():
        if row.status in (READY, FAILED):
            found.statuses[row[:2]] = row._replace(status=RESUBMIT)
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
                found.statuses[row[:2]] = row._replace(status=FAILED)
    found.lost = {run.runid for run in lost}
    found.released = {(run.jobid, run.dataid) for run in lost}
    for datasetid, dataid in deleted:
        producer = catalogue.producer(datasetid)
        found.released |= {(producer.jobid, dataid)} if producer else set()


def _place(found: Pending, rows: Sequence[Status]) -> None:
    """Give typed rows the positions that the fold gives them."""
    for datasetid, dataid, status, _, _ in rows:
        with suppress(BadDataid, BadId, KeyError):
            key = sort_key(found.catalogue.datasets[datasetid].partition, dataid)
            found.placed.setdefault(datasetid, []).append((key, dataid, str(status)))
    for placed in found.placed.values():
        placed.sort()


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
    for jobid in tx.values("broken_jobs"):
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
    stored = [(jobid, row.dataid) for row in tx.fetch(records.sample, "candidates_sample", jobid=jobid, n=_MOST + 1)]
    if next(every, None) is None and len(stored) <= _MOST:
        found.after |= {pair: None for pair in stored if pair not in pairs}
        found.before |= _states(tx, stored)
    else:
        found.is_partial = True
    yield from pairs


def _pairs_of_dynamic(tx: Transaction, found: Pending, job: Job) -> Iterator[PairId]:
    """The pairs of a job that reads what depends on which chunks exist."""
    if takes_all(job):
        yield job.jobid, "all"
    rows = tx.fetch(records.sample, "candidates_sample", jobid=job.jobid, n=_MOST + 1)
    found.is_partial |= len(rows) > _MOST
    yield from ((job.jobid, row.dataid) for row in rows[:_MOST])
    yield from [pair for pair in found.after if pair[0] == job.jobid]


def _states(tx: Transaction, pairs: Iterable[PairId]) -> dict[PairId, str]:
    """The states of the stored candidates among these pairs."""
    given = list(pairs)
    rows = tx.fetch(CandidateState._make, "candidates_given", pairs=compact(given)) if given else []
    return {(row.jobid, row.dataid): row.state for row in rows}


def _chunk(note: Note) -> ChunkId:
    return str(note.datasetid), str(note.dataid)
