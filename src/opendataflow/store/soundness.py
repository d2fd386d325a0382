"""Soundness: whether the store keeps what it promises, asked of its own rows. Nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator

from ..shapes import NamedTuple
from . import candidates, endings, folding
from .backend import Transaction
from .records import consumed
from .rows import Expired
from .session import Session


class Breach(NamedTuple):
    """One promise that was broken, and by what."""

    promise: str
    what: str


class ChunkVersion(NamedTuple):
    """One version of a chunk that was published."""

    datasetid: str
    dataid: str
    version: int
    eventid: int


class Handed(NamedTuple):
    """What a run was given to read: the event of its claim, and its inputs."""

    runid: int
    inputs: str
    eventid: int


class Derived(NamedTuple):
    """One candidate, as it is or as it should be."""

    jobid: str
    dataid: str
    rank: int
    state: str
    inputs: str

    def __str__(self) -> str:
        return f"{self.state} with rank {self.rank} and inputs {self.inputs}"


PUBLISHED_ONCE = "an attempt publishes once"
WHOLE = "what is published has its manifest and its event"
ONE_LOCK = "a chunk is RUNNING while its one run is, and not longer"
STAYS = "what was published stays, until somebody says otherwise"
GROWING = "the epochs of a chunk only grow"
ONE_END = "a run that began ends once in the history"
ONLY_PUBLISHED = "a run reads only what was published before"
SWEPT = "no lease that ran out survives a sweep"
UNBROKEN = "each event of a chunk begins with the status at which the last one ended"
DERIVED = "candidates are what the statuses say"

# By query that finds what breaks it.
_ROWS = {
    "published_twice": PUBLISHED_ONCE,
    "published_without_manifest": WHOLE,
    "ready_without_history": WHOLE,
    "locks_without_a_run": ONE_LOCK,
    "runs_without_a_lock": ONE_LOCK,
    "two_runs_at_a_time": ONE_LOCK,
    "epochs_that_shrink": GROWING,
    "runs_without_one_end": ONE_END,
    "history_without_a_run": ONE_END,
    "versions_that_went_back": STAYS,
    "chunks_that_vanished": STAYS,
    "gaps_in_history": UNBROKEN,
    "statuses_without_history": UNBROKEN,
}
PROMISES = (PUBLISHED_ONCE, WHOLE, STAYS, ONE_LOCK, GROWING, ONE_END, ONLY_PUBLISHED, SWEPT, UNBROKEN, DERIVED)


class Soundness(Session):
    """Asks the rows of the store whether a promise was broken."""

    def breaches(self) -> list[Breach]:
        """Every promise that the rows break, after what people typed was folded in and what died was swept; all is undone."""

        def work(tx: Transaction) -> list[Breach]:
            catalogue = self._known(tx)
            folding.fold(tx, catalogue)
            endings.rescue(tx, catalogue)
            tx.run("candidates_due")
            found = [Breach(SWEPT, f"run {row.runid} of {row.jobid} {row.dataid}") for row in _expired(tx)]
            for query, promise in _ROWS.items():
                found += [Breach(promise, what) for what in tx.values(query)]
            found += _unpublished(tx)
            before = _candidates(tx)
            for jobid in catalogue.jobs:
                candidates.rebuild(tx, catalogue, jobid)
            candidates.derive(tx, catalogue, before)  # what waits for an input that is there, and not READY
            after = _candidates(tx)
            for pair in sorted(before.keys() | after.keys()):
                if before.get(pair) != after.get(pair):
                    told = f"is {before.get(pair)}, should be {after.get(pair)}"
                    found.append(Breach(DERIVED, f"{' '.join(pair)} {told}"))
            return found

        return self._do_or_try(work, dry_run=True)


def _expired(tx: Transaction) -> list[Expired]:
    return tx.fetch(Expired._make, "runs_expired", n=1000)


def _unpublished(tx: Transaction) -> Iterator[Breach]:
    published = {row[:3]: row.eventid for row in tx.fetch(ChunkVersion._make, "versions_of_history")}
    for run in tx.fetch(Handed._make, "handed_over"):
        for datasetid, dataid, version in consumed(run.inputs, run.runid):
            at = published.get((datasetid, dataid, version))
            if version and (at is None or at > run.eventid):  # what somebody typed READY has no version
                yield Breach(ONLY_PUBLISHED, f"run {run.runid} was given {datasetid} {dataid} version {version}")


def _candidates(tx: Transaction) -> dict[tuple[str, str], Derived]:
    return {row[:2]: row for row in tx.fetch(Derived._make, "all_candidates")}
