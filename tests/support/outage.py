"""A big flow in levels, and a night in which it breaks; for scenarios and benchmarks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from random import Random

from opendataflow import Pool, Store
from opendataflow.model import RetryRule
from tests.support.flows import dataset, job

SAID = "could not connect to db{}.example port 5432: network is unreachable (attempt {})"


def days(n: int, last: str = "2025-11-14") -> list[str]:
    """So many days up to and including a Friday."""
    end = date.fromisoformat(last)
    return [(end - timedelta(days=n - 1 - each)).isoformat() for each in range(n)]


class Flow:
    """Jobs in levels: the first reads the feed, each further one two jobs of the level before it."""

    def __init__(self, jobs: int = 700, levels: int = 6) -> None:
        width = -(-jobs // levels)
        ids = [f"job{n:03d}" for n in range(jobs)]
        self.levels: list[list[str]] = [ids[start : start + width] for start in range(0, jobs, width)]
        self.jobids = ids

    def out(self, jobid: str) -> str:
        """The dataset that a job writes."""
        return f"out-{jobid}"

    def reads(self, jobid: str) -> tuple[str, ...]:
        """The datasets that a job reads."""
        level = next(n for n, jobs in enumerate(self.levels) if jobid in jobs)
        if not level:
            return ("feed",)
        above, place = self.levels[level - 1], self.levels[level].index(jobid)
        return tuple(dict.fromkeys((self.out(above[place % len(above)]), self.out(above[(place + 1) % len(above)]))))

    def register(self, store: Store, *, retry: RetryRule | None = None) -> None:
        """Declare all of it, in one pool."""
        store.register(
            [dataset("feed", "day"), *(dataset(self.out(jobid), "day") for jobid in self.jobids)],
            [
                job(jobid, *self.reads(jobid), writes=self.out(jobid), pool="etl", retry=retry or RetryRule())
                for jobid in self.jobids
            ],
            [Pool("etl")],
        )


def run_level(store: Store, jobids: Iterable[str], breaks: Random, share: float) -> int:
    """Runs what the jobs of one level can take; so large a share of it fails, and is counted."""
    failed = 0
    for jobid in jobids:
        claims = store.claim(jobid, n=100)
        bad = [claim for claim in claims if breaks.random() < share]
        store.commit_many([(claim, {}, 0) for claim in claims if claim not in bad])
        for claim in bad:
            store.fail(claim, detail=SAID.format(failed % 7, claim.tries), exit_code=1)
        failed += len(bad)
    return failed


def break_down(store: Store, flow: Flow, dataids: Sequence[str], shares: Sequence[float], seed: int = 1) -> int:
    """A whole night: everything is delivered and runs once, and of each level such a share fails."""
    store.announce("feed", dataids)
    breaks = Random(seed)
    return sum(run_level(store, jobids, breaks, share) for jobids, share in zip(flow.levels, shares, strict=True))
