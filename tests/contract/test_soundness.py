"""The auditor of a store finds every promise that is broken, and nothing where none is; and it changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from opendataflow import Store
from opendataflow.model import RetryRule
from opendataflow.store.views import soundness
from tests.support.flows import chain, change, claim_one, dump, fold_in, produce

EVENT = "insert into event (kind, datasetid, dataid, jobid, runid, epoch, before, after)"


@pytest.fixture
def worked(store: Store) -> Store:
    """A store with everything that is ordinary: published, failed, given back, waiting, running, typed by hand."""
    chain(store, retry=RetryRule(1, backoff=60))
    store.announce("raw", [str(number) for number in range(1, 9)])
    produce(store, "make", "1")
    produce(store, "make", "2")
    store.fail(claim_one(store, "make"))
    store.give_back(claim_one(store, "make"), None, "nobody began it", wait=0)
    produce(store, "use", "1")
    claim_one(store, "make")
    change(store, "product", "2", "RESUBMIT")
    return store


def test_what_is_ordinary_breaks_no_promise_and_nothing_is_changed_by_asking(worked: Store) -> None:
    fold_in(worked)
    before = dump(worked)
    assert worked.breaches() == []
    assert dump(worked) == before


def test_a_run_whose_lease_ran_out_is_swept_before_anything_is_asked(worked: Store) -> None:
    worked.dml("update run set lease_until = 1 where status = 'RUNNING'")
    assert worked.breaches() == []
    assert len(worked.views.running()) == 1, "asking sweeps nothing for good"


@pytest.mark.parametrize(("dataid", "force"), [("8", False), ("1", True)])
def test_a_run_that_a_signal_stopped_breaks_no_promise(worked: Store, dataid: str, force: bool) -> None:
    (claim,) = worked.claim("make", dataid=dataid, force=force)
    assert worked.fail(claim, "STOPPED", "stopped by SIGTERM") == "RESUBMIT"
    assert worked.breaches() == []


@pytest.mark.parametrize(("dataid", "force"), [("8", False), ("1", True)])
def test_a_run_that_a_person_sets_aside_breaks_no_promise(worked: Store, dataid: str, force: bool) -> None:
    (claim,) = worked.claim("make", dataid=dataid, force=force)
    assert worked.fail(claim, "STOPPED", "ended HOLD", hold=True) == "HOLD"
    assert worked.claim("make", dataid=dataid) == []
    assert worked.breaches() == []
    worked.release("product", [dataid])
    (again,) = worked.claim("make", dataid=dataid)
    assert again.tries == 1
    assert worked.breaches() == []


SABOTAGE: dict[str, tuple[str, str]] = {
    "an event that does not begin where the last one ended": (
        soundness.UNBROKEN,
        f"{EVENT} values ('held', 'product', '1', 'make', null, 1, 'FAILED', 'READY')",
    ),
    "a status of which no event says anything": (
        soundness.UNBROKEN,
        "update datastatus set status = 'FAILED', seal = seal + 1 where datasetid = 'product' and dataid = '1' and locktype = 'OUT'",
    ),
    "an attempt published twice": (
        soundness.PUBLISHED_ONCE,
        f"{EVENT} values ('published', 'product', '1', 'make', 1, 1, 'RUNNING', 'READY')",
    ),
    "a version without a manifest": (
        soundness.WHOLE,
        "delete from data_manifest where datasetid = 'product' and dataid = '1'",
    ),
    "a version that nobody published": (
        soundness.WHOLE,
        "update datastatus set version = 7, seal = seal + 1 where datasetid = 'report' and locktype = 'OUT'",
    ),
    "a version that went back": (
        soundness.STAYS,
        "update datastatus set version = 0, seal = seal + 1 where datasetid = 'report' and locktype = 'OUT'",
    ),
    "a chunk that vanished": (
        soundness.STAYS,
        f"{EVENT} values ('announced', 'raw', '99', 'outside', null, 1, null, 'READY')",
    ),
    "a run that vanished": (
        soundness.ONE_END,
        f"{EVENT} values ('claimed', 'product', '8', 'make', 99, 1, null, 'RUNNING')",
    ),
    "a chunk that is RUNNING without a run": (
        soundness.ONE_LOCK,
        "update run set status = 'LOST' where status = 'RUNNING'",
    ),
    "a run without a chunk": (
        soundness.ONE_LOCK,
        "update run set status = 'RUNNING' where runid = 1",
    ),
    "two runs of one chunk": (
        soundness.ONE_LOCK,
        "insert into run (jobid, dataid, epoch, status, owner, lease) values ('make', '4', 9, 'RUNNING', 'me', 1)",
    ),
    "an epoch that shrinks": (
        soundness.GROWING,
        "insert into run (jobid, dataid, epoch, status, owner, lease) values ('make', '1', 0, 'LOST', 'me', 1)",
    ),
    "a run that ended twice": (
        soundness.ONE_END,
        f"{EVENT} values ('failed', 'product', '1', 'make', 1, 1, 'RUNNING', 'FAILED')",
    ),
    "a run that ended without a word": (
        soundness.ONE_END,
        "insert into run (jobid, dataid, epoch, status, owner, lease) values ('make', '8', 9, 'LOST', 'me', 1)",
    ),
    "a run that read what was not published": (
        soundness.ONLY_PUBLISHED,
        "update run_input set version = 5 where runid = 1",
    ),
    "a candidate that is not there": (
        soundness.DERIVED,
        "delete from candidate where jobid = 'make' and dataid = '8'",
    ),
    "a candidate that should not be there": (
        soundness.DERIVED,
        "insert into candidate (jobid, dataid, sort_key, rank, state, inputs) "
        """values ('make', '1', '1', 1, 'CLAIMABLE', '[["raw","1"]]')""",
    ),
}


@pytest.mark.parametrize("what", SABOTAGE)
def test_a_broken_promise_is_found_and_named(worked: Store, what: str) -> None:
    promise, statement = SABOTAGE[what]
    fold_in(worked)
    worked.dml(statement)
    assert promise in {breach.promise for breach in worked.breaches()}


def test_every_promise_of_the_store_can_be_broken() -> None:
    assert {promise for promise, _ in SABOTAGE.values()} | {soundness.SWEPT} == set(soundness.PROMISES)


def test_a_lease_that_survives_a_sweep_is_found(worked: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    fold_in(worked)
    worked.dml("update run set lease_until = 1 where status = 'RUNNING'")
    nothing: Callable[..., list[object]] = lambda *_, **__: []  # noqa: E731
    monkeypatch.setattr("opendataflow.store.views.soundness.run_end.rescue", nothing)
    assert {breach.promise for breach in worked.breaches()} == {soundness.SWEPT}
