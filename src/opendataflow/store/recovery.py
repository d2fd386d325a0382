"""Recovery: what an outage left, read in a few looks, and the one transaction that has it made again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from ..model import FAILED, RESUBMIT, Catalogue
from ..shapes import NamedTuple
from . import candidates, endings, folding, records, status_rows
from .announcing import Act
from .backend import Transaction
from .freshness import SET_ASIDE_OR_RUNNING
from .inputs import ChunkId
from .records import Event, Rescued, Steered
from .rows import EventRow, OutRow, Standing, as_objects, compact
from .session import Session

_MOST = 100_000
_LAST_RUNS = 20_000


class Unsettled(NamedTuple):
    """One chunk that is not READY, and how its last run ended; inputs are those of a run that found wrong data."""

    datasetid: str
    dataid: str
    jobid: str
    status: str
    modified: datetime | None
    runid: int | None
    tries: int
    sort_key: str
    run_status: str | None
    outcome: str | None
    detail: str | None
    owner: str | None
    started: datetime | None
    lease_until: float | None
    inputs: str | None


class Postponed(NamedTuple):
    """One candidate of a job that is not tried before a moment of the clock of leases."""

    jobid: str
    dataid: str
    not_before: float


class Took(NamedTuple):
    """How long one good run of a job took."""

    jobid: str
    seconds: float


class Recovered(NamedTuple):
    """What a recovery did: chunks that are RESUBMIT now, chunks that were no longer FAILED, and runs that it ended."""

    changed: tuple[Steered, ...]
    skipped: tuple[Steered, ...]
    rescued: tuple[Rescued, ...]


class Recovery(Session):
    """What is not settled, whichever dataset it is of; and RESUBMIT for many chunks at once."""

    def unsettled(self, n: int = _MOST) -> list[Unsettled]:
        """At most n chunks that are not READY, with how their last run ended."""
        rows = self._fetch(Unsettled._make, "chunks_unsettled", n=n)
        moment = records.moment
        return [row._replace(modified=moment(row.modified), started=moment(row.started)) for row in rows]

    def postponed(self, n: int = _MOST) -> list[Postponed]:
        """At most n candidates that are deferred, of all jobs, the next one first."""
        return self._fetch(Postponed._make, "candidates_deferred", n=n)

    def took(self, jobids: Iterable[str], look_back: int = _LAST_RUNS, n: int = 20) -> list[Took]:
        """How many seconds the last good runs of these jobs took, among the last runs, at most n of each."""
        asked = compact(list(jobids))
        return self._fetch(Took._make, "runs_took_given", jobs=asked, look_back=look_back, n=n)

    def last_words(self, chunks: Sequence[ChunkId]) -> dict[ChunkId, Event]:
        """The last event of each of these chunks."""
        events = self._fetch(records.event, "last_events_given", chunks=compact(chunks)) if chunks else []
        return {(str(event.datasetid), str(event.dataid)): event for event in events}

    def recover(self, chunks: Iterable[ChunkId], *, why: str | None = None, dry_run: bool = False) -> Recovered:
        """Have FAILED chunks of any number of datasets produced again, in one transaction.

        Runs whose lease ran out are ended first. What is not FAILED any more is left alone: somebody else was here.
        """
        wanted = list(dict.fromkeys(chunks))

        def work(tx: Transaction) -> Recovered:
            catalogue = self._known(tx)
            folding.fold(tx, catalogue)
            rescued: list[Rescued] = []
            while not dry_run and (ended := endings.rescue(tx, catalogue)):
                rescued += ended
            recovered = _recover(tx, catalogue, wanted, rescued, Act(self._who, why), dry_run)
            folding.check(tx, recovered.changed)
            return recovered

        return self._do_or_try(work, dry_run)


def _recover(
    tx: Transaction, catalogue: Catalogue, wanted: Sequence[ChunkId], rescued: list[Rescued], act: Act, dry_run: bool
) -> Recovered:
    groups = {
        chunk: [(name, chunk[1]) for name in catalogue.written_together(chunk[0])]
        for chunk in wanted
        if chunk[0] in catalogue.datasets
    }
    everything = sorted({chunk for group in groups.values() for chunk in group})
    candidates.lock_rows(tx, candidates.touched(catalogue, everything))
    there = status_rows.standing(tx, everything)
    changes: dict[ChunkId, Standing] = {}
    skipped: list[Steered] = []
    for chunk in wanted:
        rows = [there[each] for each in groups.get(chunk, ()) if each in there]
        # One run writes them all: what somebody set aside, or runs now, keeps the others.
        if any(row.status == FAILED for row in rows) and all(row.status not in SET_ASIDE_OR_RUNNING for row in rows):
            changes |= {(row.datasetid, row.dataid): row for row in rows if row.status != RESUBMIT}
        else:
            now = there.get(chunk)
            skipped.append(Steered(*chunk, now.status if now else None, now.status if now else None))
    changed = [Steered(*chunk, row.status, RESUBMIT) for chunk, row in changes.items()]
    if changes and not dry_run:
        status_rows.put(
            tx,
            [
                OutRow(*chunk, row.jobid, RESUBMIT, row.epoch, row.version, None, row.sort_key)
                for chunk, row in changes.items()
            ],
        )
        events = [
            EventRow("resubmitted", *chunk, row.jobid, row.status, RESUBMIT, *act, row.epoch)
            for chunk, row in changes.items()
        ]
        tx.run("events_put", events=as_objects(events))
        candidates.settle(tx, catalogue, list(changes), by_person=True)
    return Recovered(tuple(changed), tuple(skipped), tuple(rescued))
