"""Outages: what broke on one day heals by one statement, in order, through the scheduler's ordinary calls."""

from __future__ import annotations

import pytest

from opendataflow import Store
from tests.support.flows import claim_one, dataset, drain, job, status

JOBS = ("extract", "transform", "load")
LEGEND = "UPDATE job_status SET status = 'RESUBMIT' WHERE dataid = '2025-11-12'"


def three_jobs(store: Store) -> None:
    store.register(
        [dataset(name, "day") for name in ("source", "extracted", "transformed", "loaded")],
        [
            job("extract", "source", writes="extracted"),
            job("transform", "extracted", writes="transformed"),
            job("load", "transformed", writes="loaded"),
        ],
    )
    store.announce("source", ["2025-11-11", "2025-11-12", "2025-11-13"])


def test_the_legend_moment_after_every_job_went_wrong(store: Store) -> None:
    three_jobs(store)
    drain(store, *JOBS)
    assert store.dml(LEGEND) == 3
    assert status(store, "source", "2025-11-12") == "READY", "what no job produces is not resubmitted"
    assert store.claim("load") == []
    assert store.claim("transform") == []
    # The scheduler asks in whatever order it likes.
    assert drain(store, "load", "transform", "extract") == [(jobid, "2025-11-12") for jobid in JOBS]
    assert store.views.status_counts() == {
        name: {"READY": 3} for name in ("source", "extracted", "transformed", "loaded")
    }
    versions = {chunk.dataid: chunk.version for chunk in store.views.all_chunks("loaded")}
    assert versions == {"2025-11-11": 1, "2025-11-12": 2, "2025-11-13": 1}
    loaded = store.views.manifest("loaded", "2025-11-12")
    assert loaded is not None
    assert [tuple(item) for item in store.views.inputs_of(loaded.runid)] == [("transformed", "2025-11-12", 2)]


def test_the_legend_moment_after_the_first_job_failed(store: Store) -> None:
    three_jobs(store)
    for claim in store.claim("extract", n=3):
        if claim.dataid == "2025-11-12":
            store.fail(claim, detail="network is unreachable")
        else:
            store.commit(claim)
    drain(store, *JOBS)
    assert store.views.status_counts()["loaded"] == {"READY": 2}
    assert store.dml(LEGEND) == 1
    assert drain(store, *JOBS) == [(jobid, "2025-11-12") for jobid in JOBS]
    assert store.views.status_counts()["loaded"] == {"READY": 3}


def test_the_legend_moment_while_the_jobs_still_run(store: Store) -> None:
    three_jobs(store)
    first = claim_one(store, "extract", dataid="2025-11-12")
    assert store.dml(LEGEND) == 1
    assert claim_one(store, "extract").dataid == "2025-11-12", "resubmitted goes first"
    assert store.views.run(first.runid).status == "LOST"


def test_the_same_statement_twice_changes_nothing(store: Store) -> None:
    three_jobs(store)
    drain(store, *JOBS)
    store.dml(LEGEND)
    store.dml(LEGEND)
    assert len(drain(store, *JOBS)) == 3
    assert drain(store, *JOBS) == []


def test_resubmitted_chunks_go_before_new_ones(store: Store) -> None:
    three_jobs(store)
    drain(store, *JOBS)
    store.announce("source", ["2025-11-10", "2025-11-14"])
    store.dml(LEGEND)
    order = [claim_one(store, "extract").dataid for _ in range(3)]
    assert order == ["2025-11-12", "2025-11-10", "2025-11-14"]


@pytest.mark.slow
def test_700_jobs_fail_on_one_weekend(store: Store) -> None:
    jobs = [f"job{number:03d}" for number in range(700)]
    servers = [f"server{number % 6}" for number in range(700)]
    store.register(
        [dataset("feed", "day"), *(dataset(f"out-{jobid}", "day") for jobid in jobs)],
        [job(jobid, "feed", writes=f"out-{jobid}") for jobid in jobs],
    )
    store.announce("feed", ["2025-11-14"])
    for jobid, server in zip(jobs, servers, strict=True):
        store.fail(claim_one(store, jobid, owner=server), detail="network is unreachable", exit_code=255)
    assert sum(counts.get("FAILED", 0) for counts in store.views.status_counts().values()) == 700
    assert [jobid for jobid in jobs[::50] if store.claim(jobid)] == []
    # Monday: the network is back. One statement, then the scheduler does what it does every day.
    assert store.dml("UPDATE job_status SET status = 'RESUBMIT' WHERE status = 'FAILED'") == 700
    for jobid in jobs:
        store.commit(claim_one(store, jobid))
    counts = store.views.status_counts()
    assert {name: counts[name] for name in counts if name != "feed"} == {f"out-{jobid}": {"READY": 1} for jobid in jobs}
    # Who asks on Monday what happened on Friday gets it from the store.
    failed = store.views.runs(jobid="job123", dataid="2025-11-14")[-1]
    assert (failed.status, failed.detail, failed.owner, failed.exit_code) == (
        "FAILED",
        "network is unreachable",
        "server3",
        255,
    )


@pytest.mark.slow
def test_a_migration_with_one_percent_failures_is_fire_and_forget(store: Store) -> None:
    count = 2_000
    store.register(
        [
            dataset("table", "range", count=count, lower="0", upper="1000000"),
            dataset("file", "range", count=count),
            dataset("lake", "range", count=count),
        ],
        [job("extract", "table", writes="file"), job("load", "file", writes="lake")],
    )
    store.announce("table", [str(n) for n in range(1, count + 1)])
    failing = {str(n) for n in range(50, count + 1, 100)}
    while True:
        extracting, loading = store.claim("extract", n=100), store.claim("load", n=100)
        if not extracting and not loading:
            break
        done = [
            claim
            for claim in extracting + loading
            if (claim.jobid, claim.dataid) not in {("extract", n) for n in failing}
        ]
        store.commit_many([(claim, {}, 0) for claim in done])
        for claim in extracting:
            if claim not in done:
                assert store.fail(claim, detail="task attempt lost") == "FAILED"
    assert store.views.status_counts()["file"] == {"FAILED": 20, "READY": count - 20}
    assert store.views.status_counts()["lake"] == {"READY": count - 20}
    # Five minutes a day: restart any that failed.
    assert store.dml("update job_status set status = 'RESUBMIT' where status = 'FAILED'") == 20
    again = drain(store, "extract", "load")
    assert [dataid for jobid, dataid in again if jobid == "extract"] == sorted(failing, key=int)
    assert store.views.status_counts() == {name: {"READY": count} for name in ("table", "file", "lake")}
    assert store.views.running() == []
    assert drain(store, "extract", "load") == []
