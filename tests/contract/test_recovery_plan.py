"""The recovery plan against brute force: on small random flows, the real engine heals as much by no smaller set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, note, settings
from hypothesis import strategies as st

import opendataflow
from opendataflow import Manifest, Store
from opendataflow.errors import BadTransition, Locked
from opendataflow.insight.recovery import RecoveryPlan, plan
from opendataflow.model import RetryRule
from opendataflow.store import Claim
from tests.support.flows import dataset, fold_in, job
from tests.support.folders import quick_folder

DAYS = ("1", "2", "3")
FEEDS = ("feed", "rates")
MAPPINGS = ("", "", "", "lag 1", "window 2", "latest", "all")
MOST_FAILED = 6

Chunk = tuple[str, str]


@st.composite
def flows(draw: st.DrawFn) -> dict[str, Any]:
    """A few jobs: what each reads and how, and what it writes."""
    jobs, known = {}, list(FEEDS)
    for number in range(draw(st.integers(1, 4))):
        first, *others = draw(st.lists(st.sampled_from(known), min_size=1, max_size=2, unique=True))
        reads = [f"{first} {draw(st.sampled_from(('', '', 'lag 1', 'window 2')))}".strip()]
        reads += [f"{other} {draw(st.sampled_from(MAPPINGS))}".strip() for other in others]
        writes = [f"out{number}"] + [f"also{number}"] * draw(st.booleans())
        jobs[f"job{number}"] = (reads, writes, draw(st.integers(0, 1)))
        known += writes
    return jobs


DEEDS = st.tuples(
    st.sampled_from(
        [*["commit"] * 6, *["fail"] * 6, "wrong", "hang", "lose", "lose", "resubmit", "resubmit", "hold", "bad", "bad"]
    ),
    st.integers(0, 30),
)


class Night:
    """One flow in one store, and what happened to it."""

    def __init__(self, store: Store, jobs: dict[str, Any]) -> None:
        self.store, self.jobs = store, jobs
        names = [*FEEDS, *(name for _, writes, _ in jobs.values() for name in writes)]
        store.register(
            [dataset(name, start="1", end="3") for name in names],
            [
                job(
                    jobid,
                    *reads,
                    writes=writes,
                    lease=1000.0,
                    retry=RetryRule(retries, backoff=1000.0, on=("JOB_FAILED",)),
                )
                for jobid, (reads, writes, retries) in jobs.items()
            ],
        )
        self.names = names
        self.running: list[Claim] = []
        self.mended: set[Chunk] = set()  # what a person put right before he said RESUBMIT

    def claim(self, which: int) -> Claim | None:
        """The next chunk of any job, beginning with this one."""
        jobids = list(self.jobs)
        for n in range(len(jobids)):
            if claims := self.store.claim(jobids[(which + n) % len(jobids)]):
                return claims[0]
        return None

    def happen(self, deed: str, which: int) -> None:
        """One thing that happens at night."""
        chunk = (self.names[which % len(self.names)], DAYS[which // len(self.names) % 3])
        try:
            if deed in ("resubmit", "hold"):
                getattr(self.store, deed)(chunk[0], [chunk[1]])
                if deed == "resubmit":
                    self.mended |= {
                        (jobid, chunk[1]) for jobid, (_, writes, _) in self.jobs.items() if chunk[0] in writes
                    }
            elif deed == "bad":
                self.store.fail_chunks(chunk[0], [chunk[1]])
            elif claim := self.claim(which):
                if deed == "commit":
                    commit(self.store, claim)
                elif deed in ("fail", "wrong"):
                    self.mended.discard((claim.jobid, claim.dataid))
                    self.store.fail(claim, "WRONG_DATA" if deed == "wrong" else "JOB_FAILED", f"no {which}")
                elif deed == "lose":
                    self.store.dml(f"update run set lease_until = 1 where runid = {claim.runid}")
                else:
                    self.running.append(claim)
        except (BadTransition, Locked):
            pass


def content(datasetid: str, dataid: str, runid: int = 0) -> Manifest:
    """A content that no other version has: what was made from it is wrong again."""
    return Manifest(fingerprint=f"{datasetid} {dataid} {runid}")


def commit(store: Store, claim: Claim) -> None:
    store.commit(claim, {name: content(name, claim.dataid, claim.runid) for name in claim.outputs})


def finish(store: Store, night: Night) -> set[Chunk]:
    """Everything that can run does, as long as it takes; what was wrong data is wrong again from the same inputs."""
    for claim in night.running:
        if store.views.holds(claim.runid):
            commit(store, claim)
    while True:
        store.dml("update candidate set not_before = 1 where state = 'DEFERRED'")
        claims = [claim for jobid in night.jobs for claim in store.claim(jobid, n=10)]
        for claim in claims:
            before = [
                run for run in store.views.runs(jobid=claim.jobid, dataid=claim.dataid) if run.runid != claim.runid
            ]
            is_mended = (claim.jobid, claim.dataid) in night.mended
            if before and before[0].outcome == "WRONG_DATA" and before[0].inputs == claim.inputs and not is_mended:
                store.fail(claim, "WRONG_DATA")
            else:
                commit(store, claim)
        if not claims:
            return {
                (chunk.datasetid, chunk.dataid)
                for name in night.names
                for chunk in store.views.all_chunks(name, status="READY")
            }


@contextmanager
def copies(store: Store, folder: Path) -> Iterator[Any]:
    """Opens copies of a store, one after the other."""
    opened: list[Store] = []

    def another() -> Store:
        path = folder / f"copy{len(opened)}.db"
        store.back_up(path)
        opened.append(opendataflow.open(f"sqlite:///{path}"))
        return opened[-1]

    yield another
    for each in opened:
        each.close()


def failed_runs(store: Store) -> list[Chunk]:
    """One FAILED chunk of each run that somebody could resubmit."""
    jobs = store.catalogue().jobs.values()
    found: list[Chunk] = []
    for each in jobs:
        failed = {
            c.dataid: (name, c.dataid) for name in each.outputs for c in store.views.all_chunks(name, status="FAILED")
        }
        found += failed.values()
    return found


@pytest.mark.slow
@settings(
    max_examples=settings().max_examples * 4 // 10,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    jobs=flows(),
    there=st.lists(st.tuples(st.sampled_from(FEEDS), st.sampled_from(DAYS)), min_size=4, max_size=6, unique=True),
    deeds=st.lists(DEEDS, min_size=8, max_size=20),
    paused=st.integers(0, 30),
)
@example(  # a run of a paused job goes on
    jobs={"job0": (["feed"], ["out0"], 0), "job1": (["out0"], ["out1"], 0)},
    there=[("feed", "1")],
    deeds=[("commit", 0), ("commit", 1), ("resubmit", 0), ("hang", 0), ("bad", 3)],
    paused=0,
)
@example(  # all of a dataset without a chunk is not there
    jobs={
        "job0": (["feed"], ["out0"], 0),
        "job1": (["feed window 2"], ["out1"], 0),
        "job2": (["feed", "out1 all"], ["out2"], 0),
    },
    there=[("feed", "1"), ("feed", "2")],
    deeds=[("commit", 0), ("commit", 0), ("resubmit", 0)],
    paused=0,
)
@example(  # a run goes on although its input is to be delivered again
    jobs={"job0": (["feed"], ["out0"], 0), "job1": (["out0"], ["out1"], 0)},
    there=[("feed", "1"), ("feed", "2")],
    deeds=[("commit", 0), ("commit", 1), ("resubmit", 2), ("hang", 0), ("bad", 3), ("resubmit", 0)],
    paused=7,
)
def test_no_smaller_set_of_resubmits_heals_as_much(
    jobs: dict[str, Any], there: list[Chunk], deeds: list[tuple[str, int]], paused: int
) -> None:
    with (
        TemporaryDirectory(dir=quick_folder()) as folder,
        opendataflow.open(f"sqlite:///{folder}/night.db", create=True) as store,
    ):
        night = Night(store, jobs)
        for datasetid, dataid in there:
            store.announce(datasetid, [dataid], manifests={dataid: content(datasetid, dataid)})
        for deed, which in deeds:
            night.happen(deed, which)
        if f"job{paused}" in jobs:
            store.pause(f"job{paused}")
        with store.looking():
            made = plan(store)
        note(f"{made.resubmit} then {made.follows}; by hand {made.by_hand}")
        with copies(store, Path(folder)) as another:

            def healed(chunks: Iterable[Chunk]) -> set[Chunk]:
                copy = another()
                copy.recover(chunks)
                return finish(copy, night)

            other = another()
            fold_in(other)
            other.rescue()
            universe = failed_runs(other)
            everything = healed(universe)
            compare(made, universe, everything, healed)


def compare(made: RecoveryPlan, universe: list[Chunk], everything: set[Chunk], healed: Any) -> None:
    """The plan heals what can be healed, foresees it, and none of its chunks is too many."""
    assert healed(made.resubmit) == everything
    assert set(made.follows) <= everything
    smaller = [set(made.resubmit) - {chunk} for chunk in made.resubmit]
    if len(universe) <= 4:
        smaller = [set(chosen) for n in range(len(made.resubmit)) for chosen in combinations(universe, n)]
    for chosen in smaller[: MOST_FAILED**2]:
        assert healed(chosen) < everything, chosen
