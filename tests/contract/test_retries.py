"""The retry rule: how often, how soon, after what; and what a person's RESUBMIT means for it."""

from __future__ import annotations

import pytest

from opendataflow import Store
from opendataflow.model import RetryRule
from tests.support.flows import chain, change, claim_one, end_leases, end_waits, following, produce, status


def test_a_job_is_tried_again_as_often_as_its_rule_says(store: Store) -> None:
    chain(store, retry=RetryRule(retries=2, backoff=0))
    store.announce("raw", ["1"])
    tries = []
    outcomes = []
    for _ in range(3):
        claim = claim_one(store, "make")
        tries.append(claim.tries)
        outcomes.append(store.fail(claim))
    assert tries == [1, 2, 3]
    assert outcomes == ["RESUBMIT", "RESUBMIT", "FAILED"]
    assert status(store, "product", "1") == "FAILED"
    assert store.claim("make") == []
    assert [run.status for run in store.views.runs(jobid="make")] == ["FAILED"] * 3


@pytest.mark.parametrize("how", ["sql", "verb"])
def test_a_resubmit_by_a_person_gives_fresh_tries(store: Store, how: str) -> None:
    chain(store, retry=RetryRule(retries=1, backoff=0))
    store.announce("raw", ["1"])
    for expected in ("RESUBMIT", "FAILED"):
        assert store.fail(claim_one(store, "make")) == expected
    if how == "sql":
        change(store, "product", "1", "RESUBMIT")
    else:
        store.resubmit("product", ["1"])
    claim = claim_one(store, "make")
    assert claim.tries == 1
    assert store.fail(claim) == "RESUBMIT"
    assert claim_one(store, "make").tries == 2


def test_success_gives_fresh_tries(store: Store) -> None:
    chain(store, retry=RetryRule(retries=1, backoff=0))
    store.announce("raw", ["1"])
    store.fail(claim_one(store, "make"))
    produce(store, "make", "1")
    store.resubmit("product", ["1"])
    assert claim_one(store, "make").tries == 1


def test_a_retry_waits_for_its_backoff_and_others_go_first(store: Store) -> None:
    chain(store, retry=RetryRule(retries=3, backoff=600))
    store.announce("raw", ["1", "2"])
    assert store.fail(claim_one(store, "make")) == "RESUBMIT"
    assert store.views.candidate_counts()["make"] == {"CLAIMABLE": 1, "DEFERRED": 1}
    assert produce(store, "make").dataid == "2"
    end_waits(store)
    assert claim_one(store, "make").dataid == "1"


def test_the_backoff_is_not_over_before_its_time(store: Store) -> None:
    chain(store, retry=RetryRule(retries=3, backoff=30))
    store.announce("raw", ["1"])
    store.fail(claim_one(store, "make"))
    assert store.claim("make") == []
    assert following(store, "make") == []
    assert status(store, "product", "1") == "RESUBMIT"


def test_a_person_need_not_wait_for_the_backoff(store: Store) -> None:
    chain(store, retry=RetryRule(retries=3, backoff=30))
    store.announce("raw", ["1"])
    store.fail(claim_one(store, "make"))
    assert claim_one(store, "make", dataid="1").tries == 2


@pytest.mark.parametrize("how", ["sql", "verb"])
def test_a_resubmit_by_a_person_ends_the_backoff(store: Store, how: str) -> None:
    chain(store, retry=RetryRule(retries=3, backoff=30))
    store.announce("raw", ["1"])
    store.fail(claim_one(store, "make"))
    if how == "sql":
        change(store, "product", "1", "RESUBMIT")
    else:
        again = [("product", "1", "RESUBMIT", "RESUBMIT")]
        assert store.resubmit("product", ["1"], dry_run=True) == again
        assert following(store, "make") == []
        assert store.resubmit("product", ["1"], why="mended") == again
        assert store.views.events("product", "1")[-1].why == "mended"
        assert store.resubmit("product", ["1"]) == []
    assert claim_one(store, "make").tries == 1


def test_the_backoff_doubles_up_to_its_limit(store: Store) -> None:
    chain(store, retry=RetryRule(retries=9, backoff=100, backoff_max=300))
    store.announce("raw", ["1"])
    waits = []
    for _ in range(4):
        claim = claim_one(store, "make", dataid="1")
        before = store.views.clock()
        store.fail(claim)
        after = store.views.clock()
        [(not_before,)] = store.sql("select not_before from candidate where jobid = 'make' and dataid = '1'")[1]
        waits.append((not_before - after, not_before - before))
    for (shortest, longest), least in zip(waits, (100, 200, 300, 300), strict=True):
        assert least <= longest
        assert shortest <= least * 1.25


@pytest.mark.parametrize(
    ("outcome", "expected"), [("TIMED_OUT", "RESUBMIT"), ("JOB_FAILED", "FAILED"), ("NO_SPACE", "RESUBMIT")]
)
def test_only_the_named_outcomes_are_tried_again(store: Store, outcome: str, expected: str) -> None:
    chain(store, retry=RetryRule(retries=5, backoff=0, on=("TIMED_OUT", "NO_SPACE")))
    store.announce("raw", ["1"])
    assert store.fail(claim_one(store, "make"), outcome) == expected
    assert status(store, "product", "1") == expected


def test_a_crash_is_tried_again_by_default_and_not_for_ever(store: Store) -> None:
    chain(store, retry=RetryRule(retries=0, backoff=0))
    store.announce("raw", ["1"])
    for expected in ("RESUBMIT", "RESUBMIT", "FAILED"):
        claim = claim_one(store, "make")
        end_leases(store)
        assert store.rescue() == [(claim.runid, "make", "1", expected)]


def test_a_retry_goes_before_what_is_new(store: Store) -> None:
    chain(store, retry=RetryRule(retries=1, backoff=0))
    store.announce("raw", ["1", "2", "3"])
    store.fail(claim_one(store, "make", dataid="3"))
    assert [claim.dataid for claim in store.claim("make", n=3)] == ["3", "1", "2"]


def test_a_forced_run_is_not_tried_again_by_itself(store: Store) -> None:
    chain(store, retry=RetryRule(retries=5, backoff=0))
    claim = claim_one(store, "make", dataid="1", force=True)
    assert claim.forced
    assert store.fail(claim) == "FAILED"


def test_what_went_wrong_is_kept(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    claim = claim_one(store, "make", owner="worker 7")
    store.log(claim.runid, "/logs/7.log")
    store.fail(claim, "TIMED_OUT", "ran for 3600 s", exit_code=-9)
    run = store.views.run(claim.runid)
    assert (run.status, run.outcome, run.detail, run.exit_code, run.owner, run.log) == (
        "FAILED",
        "TIMED_OUT",
        "ran for 3600 s",
        -9,
        "worker 7",
        "/logs/7.log",
    )
    assert run.started is not None
    assert run.ended is not None
    assert run.ended >= run.started
    event = store.views.events("product", "1")[-1]
    assert (event.kind, event.before, event.after, event.why, event.runid) == (
        "failed",
        "RUNNING",
        "FAILED",
        "ran for 3600 s",
        claim.runid,
    )
