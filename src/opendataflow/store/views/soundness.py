"""Check the invariants of the store by its own rows, without changing anything."""

from __future__ import annotations

from typing import NamedTuple

from ...model import Catalogue
from ..drivers.base import Transaction
from ..engine import candidates, folding, run_end
from ..rows import Expired


class Breach(NamedTuple):
    """A broken promise, and the rows that break it."""

    promise: str
    what: str


class DerivedCandidate(NamedTuple):
    """A candidate as stored or as derived again."""

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
STAYS = "what was published stays until it is changed on purpose"
GROWING = "the epochs of a chunk only grow"
ONE_END = "a run that began ends once in the history"
ONLY_PUBLISHED = "a run reads only what was published before"
SWEPT = "no lease that ran out survives a sweep"
UNBROKEN = "each event of a chunk begins with the status at which the last one ended"
DERIVED = "candidates are what the statuses say"

# By the query that finds what breaks it.
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
    "reads_of_nothing_published": ONLY_PUBLISHED,
    "versions_that_went_back": STAYS,
    "chunks_that_vanished": STAYS,
    "gaps_in_history": UNBROKEN,
    "statuses_without_history": UNBROKEN,
}
PROMISES = (PUBLISHED_ONCE, WHOLE, STAYS, ONE_LOCK, GROWING, ONE_END, ONLY_PUBLISHED, SWEPT, UNBROKEN, DERIVED)


def breaches(tx: Transaction, catalogue: Catalogue) -> list[Breach]:
    """Every promise that the rows break, after a fold and a sweep; the caller rolls the transaction back."""
    folding.fold(tx, catalogue)
    run_end.rescue(tx, catalogue)
    tx.run("candidates_due")
    found = [Breach(SWEPT, f"run {row.runid} of {row.jobid} {row.dataid}") for row in _expired(tx)]
    for query, promise in _ROWS.items():
        found += [Breach(promise, what) for what in tx.values(query)]
    before = _candidates(tx)
    for jobid in catalogue.jobs:
        candidates.rebuild(tx, catalogue, jobid)
    candidates.derive(tx, catalogue, before)  # WAITING candidates whose inputs are not READY
    after = _candidates(tx)
    for pair in sorted(before.keys() | after.keys()):
        if before.get(pair) != after.get(pair):
            found.append(Breach(DERIVED, f"{' '.join(pair)} is {before.get(pair)}, should be {after.get(pair)}"))
    return found


def _expired(tx: Transaction) -> list[Expired]:
    return tx.fetch(Expired._make, "runs_expired", n=1000)


def _candidates(tx: Transaction) -> dict[tuple[str, str], DerivedCandidate]:
    return {row[:2]: row for row in tx.fetch(DerivedCandidate._make, "all_candidates")}
