"""Many chunks at once are decided in groups: what comes out is what comes out of a few at a time."""

from __future__ import annotations

from collections import Counter
from typing import Any

from opendataflow import Store
from tests.support.flows import dataset, drain, fold_in, job

MANY = [str(number) for number in range(1, 301)]
FEW = 20  # so few that each is decided for itself
NAMES = ("raw", "other", "cut", "product", "joined", "smooth", "free", "left", "right")


def flow(store: Store) -> None:
    """Jobs with one input, with two, with none, with bounds, with two outputs, and by another mapping."""
    bounded = [dataset("cut", start="100", end="260"), dataset("left"), dataset("right", start="50")]
    store.register(
        [*(dataset(name) for name in NAMES if name not in ("cut", "left", "right")), *bounded],
        [
            job("make", "raw", writes="product"),
            job("join", "raw", "other", writes="joined"),
            job("split", "raw", "cut", writes=("left", "right")),
            job("average", "raw window 3", writes="smooth"),
            job("invent", writes="free"),
        ],
    )


def by_sql(store: Store, datasetid: str, status: str, where: str) -> None:
    store.dml(
        f"update datastatus set status = {status} where datasetid = '{datasetid}' and locktype = 'OUT' and {where}"
    )
    fold_in(store)


def candidates(store: Store) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in store.sql("select * from candidate order by jobid, dataid")[1]]


def assert_a_few_at_a_time_decide_the_same(store: Store) -> None:
    at_once = candidates(store)
    for name in NAMES:
        for start in range(0, len(MANY), FEW):
            some = ", ".join(f"'{dataid}'" for dataid in MANY[start : start + FEW])
            by_sql(store, name, "status", f"dataid in ({some})")
    assert candidates(store) == at_once


def test_announced_at_once_is_announced_one_by_one(store: Store) -> None:
    flow(store)
    store.announce("other", MANY[100:])
    store.announce("cut", MANY[99:260])
    store.announce("raw", MANY)
    assert store.views.candidate_counts() == {
        "make": {"CLAIMABLE": 300},
        "join": {"CLAIMABLE": 200, "WAITING": 100},
        "split": {"CLAIMABLE": 251},
        "average": {"CLAIMABLE": 298, "WAITING": 4},
    }
    assert_a_few_at_a_time_decide_the_same(store)


def test_whatever_became_of_the_outputs_and_of_what_was_read(store: Store) -> None:
    flow(store)
    for name in ("raw", "other"):
        store.announce(name, MANY)
    store.announce("cut", MANY[99:260])
    for jobid in ("make", "join", "split"):
        claims = store.claim(jobid, 120)
        store.commit_many([(claim, {}, None) for claim in claims[:60]])
        for claim in claims[60:80]:
            store.fail(claim, "JOB_FAILED", "no")
    store.resubmit("product", MANY[:20])
    by_sql(store, "joined", "'HOLD'", "length(dataid) = 1")
    by_sql(store, "joined", "'READY'", "status = 'FAILED'")
    store.announce("raw", MANY, again=True)
    store.announce("other", MANY, again=True)
    assert len(Counter((row[0], row[3], row[4]) for row in candidates(store))) > 4
    assert_a_few_at_a_time_decide_the_same(store)


def test_resubmitted_at_once_by_a_verb_and_by_sql(store: Store) -> None:
    flow(store)
    store.announce("raw", MANY)
    store.announce("cut", MANY[99:260])
    drain(store, "make", "split", "average")
    store.resubmit("product", MANY)
    by_sql(store, "left", "'RESUBMIT'", "true")
    by_sql(store, "raw", "'HOLD'", "length(dataid) = 2")
    counts = store.views.candidate_counts()
    assert counts["make"] == {"CLAIMABLE": 210, "WAITING": 90}
    assert counts["split"] == {"CLAIMABLE": 201, "WAITING": 50}
    assert_a_few_at_a_time_decide_the_same(store)
    assert [claim.was_resubmit for claim in store.claim("make", 3)] == [True] * 3


def test_a_new_job_finds_what_is_there_and_a_dataid_that_fits_nothing_is_left_out(store: Store) -> None:
    store.register([dataset("raw", "text"), dataset("copy", "text"), dataset("next"), dataset("number")])
    store.announce("raw", MANY)
    store.announce("number", MANY)
    store.dml(
        "insert into datastatus (datasetid, dataid, jobid, locktype, status) values ('number', 'x', 'me', 'OUT', 'READY')"
    )
    store.register(jobs=[job("copy", "raw", writes="copy"), job("count", "number", writes="next")])
    fold_in(store)
    assert store.views.candidate_counts() == {"copy": {"CLAIMABLE": 300}, "count": {"CLAIMABLE": 300}}
    assert store.claim("count")[0].dataid == "1"
