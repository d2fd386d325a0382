"""A process that lost its lease can neither commit nor damage what its successor wrote."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import pytest

from opendataflow import Dataset, Input, Job, Manifest, Store
from opendataflow.errors import LeaseLost
from opendataflow.model import Receipt, RetryRule
from opendataflow.store import Claim
from tests.support.flows import chain, change, claim_one, dump, fold_in, following, in_status, kinds, produce, status

LEASE = 0.05


def expire(store: Store, claim: Claim) -> None:
    time.sleep(LEASE * 2)


def resubmit_by_sql(store: Store, claim: Claim) -> None:
    change(store, "product", claim.dataid, "RESUBMIT")


def resubmit_by_force(store: Store, claim: Claim) -> None:
    store.resubmit("product", [claim.dataid], force=True)


def forget_by_force(store: Store, claim: Claim) -> None:
    store.forget("product", [claim.dataid], force=True)


def hold_and_release(store: Store, claim: Claim) -> None:
    store.hold("product", [claim.dataid], force=True)
    store.release("product", [claim.dataid])
    assert status(store, "product", claim.dataid) == "FAILED"
    store.resubmit("product", [claim.dataid])


TAKEN_AWAY = [expire, resubmit_by_sql, resubmit_by_force, forget_by_force, hold_and_release]


@pytest.fixture(params=TAKEN_AWAY, ids=lambda how: how.__name__)
def zombie(request: pytest.FixtureRequest, store: Store) -> tuple[Claim, str]:
    """The claim of a process whose chunk was taken away, and how."""
    short = request.param is expire
    chain(store, retry=RetryRule(retries=1 if short else 0, backoff=0), lease=LEASE if short else 30.0)
    store.announce("raw", ["1"])
    claim = claim_one(store, "make", owner="zombie")
    request.param(store, claim)
    return claim, request.param.__name__


def try_everything(store: Store, claim: Claim) -> None:
    """Nothing that a zombie tries is done, and nothing is written."""
    before = dump(store)
    with pytest.raises(LeaseLost):
        store.heartbeat(claim)
    with pytest.raises(LeaseLost):
        store.commit(claim, {"product": Manifest(location="/zombie")})
    with pytest.raises(LeaseLost):
        store.fail(claim)
    with pytest.raises(LeaseLost):
        store.give_back(claim, Receipt("make", claim.dataid), "late")
    assert dump(store) == before


def test_it_is_refused_while_its_successor_runs(
    store: Store, zombie: tuple[Claim, str], open_again: Callable[..., Store]
) -> None:
    claim, _ = zombie
    other = open_again()
    successor = claim_one(other, "make", owner="successor")
    assert successor.dataid == claim.dataid
    assert successor.epoch > claim.epoch
    try_everything(store, claim)
    other.commit(successor, {"product": Manifest(location="/successor")})
    try_everything(store, claim)
    published = store.views.manifest("product", "1")
    assert published is not None
    assert (published.version, published.manifest.location) == (successor.epoch, "/successor")
    assert len(store.views.manifests("product", "1")) == 1


def test_the_runs_and_events_tell_the_story(store: Store, zombie: tuple[Claim, str]) -> None:
    claim, how = zombie
    produce(store, "make", "1")
    newest, oldest = store.views.runs(jobid="make", dataid="1")
    assert (oldest.runid, oldest.status, oldest.outcome, oldest.owner) == (claim.runid, "LOST", "LEASE_LOST", "zombie")
    assert (newest.status, newest.epoch) == ("READY", 2)
    middle = {
        "expire": ["rescued"],
        "resubmit_by_sql": ["sql"],
        "resubmit_by_force": ["resubmitted"],
        "forget_by_force": ["forgotten"],
        "hold_and_release": ["held", "released", "resubmitted"],
    }[how]
    story = [kind for kind in kinds(store, "product", "1") if kind != "lost"]
    assert story == ["claimed", *middle, "claimed", "published"]


def test_its_consumers_read_what_the_successor_published(store: Store, zombie: tuple[Claim, str]) -> None:
    claim, _ = zombie
    successor = produce(store, "make", "1")
    with pytest.raises(LeaseLost):
        store.commit(claim)
    assert tuple(claim_one(store, "use").inputs[0]) == ("product", "1", successor.epoch)


@pytest.mark.parametrize("act", ["commit", "fail", "heartbeat"])
def test_it_is_refused_before_anybody_noticed_that_a_person_took_its_chunk(store: Store, act: str) -> None:
    chain(store)
    store.announce("raw", ["1"])
    claim = claim_one(store, "make")
    change(store, "product", "1", "HOLD")
    before = dump(store)
    with pytest.raises(LeaseLost):
        getattr(store, act)(claim)
    assert dump(store) == before
    assert status(store, "product", "1") == "HOLD"


def test_a_claim_ends_once(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2"])
    claim = claim_one(store, "make")
    store.commit(claim)
    try_everything(store, claim)
    assert status(store, "product", "1") == "READY"
    failed = claim_one(store, "make")
    store.fail(failed)
    try_everything(store, failed)
    assert status(store, "product", "2") == "FAILED"


def test_several_commits_are_all_or_nothing(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2", "3"])
    claims = store.claim("make", n=3)
    change(store, "product", "2", "RESUBMIT")
    with pytest.raises(LeaseLost):
        store.commit_many([(claim, {}, 0) for claim in claims])
    assert [status(store, "product", dataid) for dataid in "123"] == ["RUNNING", "RESUBMIT", "RUNNING"]
    assert store.claim("use") == []
    store.commit_many([(claims[0], {}, 0), (claims[2], {}, 0)])
    assert [claim.dataid for claim in store.claim("use", n=3)] == ["1", "3"]


def test_an_expired_lease_that_is_not_to_be_tried_again_is_failed(store: Store) -> None:
    chain(store, lease=LEASE, retry=RetryRule(on=("JOB_FAILED",)))
    store.announce("raw", ["1"])
    claim = claim_one(store, "make")
    expire(store, claim)
    assert store.rescue() == [(claim.runid, "make", "1", "FAILED")]
    assert store.rescue() == []
    assert (status(store, "product", "1"), in_status(store, "raw", "1", "make")) == ("FAILED", "FAILED")
    assert store.claim("make") == []
    assert store.views.running() == []


def test_an_expired_lease_is_found_by_any_claim_of_any_job(store: Store) -> None:
    chain(store, lease=LEASE)
    store.announce("raw", ["1"])
    expire(store, claim_one(store, "make"))
    assert store.claim("use") == []
    assert status(store, "product", "1") == "RESUBMIT"


def test_a_heartbeat_keeps_the_chunk(store: Store, open_again: Callable[..., Store]) -> None:
    chain(store, lease=3600)
    store.announce("raw", ["1"])
    claim = claim_one(store, "make")
    other = open_again()
    for _ in range(6):
        store.dml("update run set lease_until = lease_until - 2400")  # so much time goes by
        store.heartbeat(claim)
        assert other.rescue() == []
    store.commit(claim)
    assert status(store, "product", "1") == "READY"


def test_who_claims_more_does_not_lose_what_it_works_on(store: Store, open_again: Callable[..., Store]) -> None:
    """Both stood still for longer than a lease; one of them goes on, and claims before it says that it lives."""
    chain(store, lease=1000.0, retry=RetryRule(retries=1, backoff=0.0))
    store.announce("raw", ["1", "2", "3"])
    ours, theirs = claim_one(store, "make"), claim_one(open_again(who="other"), "make")
    store.dml("update run set lease_until = 1")
    assert [claim.dataid for claim in store.claim("make", 3, held=[ours])] == ["2", "3"]
    assert (store.views.run(ours.runid).status, store.views.run(theirs.runid).status) == ("RUNNING", "LOST")
    store.commit(ours)
    assert status(store, "product", "1") == "READY"


def test_nobody_waits_for_a_chunk_that_was_given_back(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    claim = claim_one(store, "make")
    assert store.claim("use", dataid="1") == [], "it waits for what is being made"
    store.give_back(claim, None, "nobody began it", wait=0)
    assert store.views.candidate_counts() == {"make": {"CLAIMABLE": 1}}
    assert store.breaches() == []


def test_epochs_only_grow(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    epochs = []
    for end in ("fail", "commit", "forget", "refuse", "commit"):
        claim = claim_one(store, "make")
        epochs.append(claim.epoch)
        if end == "fail":
            store.fail(claim)
            store.resubmit("product", ["1"])
        elif end == "refuse":
            store.give_back(claim, Receipt("make", "1"), "no", wait=0)
        elif end == "forget":
            store.forget("product", ["1"], force=True)
        else:
            store.commit(claim)
            store.forget("product", ["1"])
    assert epochs == [1, 2, 3, 4, 5]
    assert [published.version for published in store.views.manifests("product", "1")] == [5, 2]


def test_epochs_grow_past_what_was_announced(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    for n in range(3):
        store.announce("product", ["1"], manifests={"1": Manifest(fingerprint=f"f{n}")})
    chunk = store.views.chunk("product", "1")
    assert chunk is not None
    assert chunk.version == 3
    store.resubmit("product", ["1"])
    assert produce(store, "make", "1").epoch == 4
    store.forget("product", ["1"])
    assert store.announce("product", ["1"]).ready == ("1",)
    again = store.views.chunk("product", "1")
    assert again is not None
    assert again.version == 5


def test_a_running_row_that_somebody_changes_and_then_deletes_ends_its_run(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    claim = claim_one(store, "make")
    change(store, "product", "1", "RESUBMIT")
    store.dml("delete from datastatus where datasetid = 'product'")
    assert following(store, "make") == ["1"]
    assert store.views.run(claim.runid).status == "LOST"
    assert in_status(store, "raw", "1", "make") is None
    with pytest.raises(LeaseLost):
        store.commit(claim)


def test_what_was_given_back_for_no_time_is_next(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    claim = claim_one(store, "make")
    store.give_back(claim, Receipt("make", "1"), "no", wait=0)
    assert following(store, "make") == ["1"]


def test_a_running_row_that_somebody_deletes_is_as_if_it_had_never_been(store: Store) -> None:
    store.register([Dataset("raw"), Dataset("clean")], [Job("load", (Input("raw"),), ("clean",))])
    store.announce("raw", ["1"])
    claim = store.claim("load")[0]
    store.dml("delete from datastatus where datasetid = 'clean' and dataid = '1' and locktype = 'OUT'")
    again = store.claim("load")[0]
    assert (again.dataid, again.epoch) == ("1", 2)
    with pytest.raises(LeaseLost):
        store.commit(claim)
    store.commit(again)
    assert store.views.run(claim.runid).status == "LOST"


def test_a_claim_whose_status_was_changed_by_sql_is_not_given_back(store: Store) -> None:
    """The next claim has not acted on it yet: what the person wrote stays."""
    chain(store)
    store.announce("raw", ["1"])
    claim = claim_one(store, "make")
    change(store, "product", "1", "RESUBMIT")
    with pytest.raises(LeaseLost):
        store.give_back(claim, Receipt("make", "1"), "no", wait=0)
    fold_in(store)
    assert status(store, "product", "1") == "RESUBMIT"
    assert [again.dataid for again in store.claim("make")] == ["1"]


def lease_until(store: Store, claim: Claim) -> float:
    until = store.views.run(claim.runid).lease_until
    assert until is not None
    return until


def test_a_lease_lasts_as_long_as_the_job_says_from_the_claim_and_from_each_heartbeat(store: Store) -> None:
    chain(store, lease=100.0)
    store.announce("raw", ["1", "2", "3"])
    for claims in (store.claim("make"), store.claim("make", n=2)):
        for claim in claims:
            before = store.views.clock()
            assert lease_until(store, claim) <= before + 100
            assert store.heartbeat(claim) >= before + 100
            assert lease_until(store, claim) >= before + 100
    before = store.views.clock()
    other = claim_one(store, "make", dataid="4", force=True, lease=50.0)
    assert before + 50 <= lease_until(store, other) <= store.views.clock() + 50


def test_a_lease_of_the_claim_itself_is_whole(store: Store) -> None:
    chain(store, lease=100.0)
    store.announce("raw", ["1", "2", "3"])
    before = store.views.clock()
    assert all(lease_until(store, claim) >= before + 100 for claim in [*store.claim("make"), *store.claim("make", n=2)])


TAKES: dict[str, Callable[[Store], Sequence[object]]] = {
    "rescue": lambda store: store.rescue(),
    "claim": lambda store: store.claim("make"),
    "claim of a dataid": lambda store: store.claim("make", dataid="1"),
    "look": lambda store: store.views.expired(),
    "figures": lambda store: [count for count in store.views.figures_now().running if count.expired],
    "jobs": lambda store: [
        jobid for jobid in store.views.claimable_jobs() if not jobid
    ],  # "": a claim has work to do first
    "holds": lambda store: [run for run in store.views.running() if not store.views.holds(run.runid)],
}


@pytest.mark.parametrize("how", TAKES)
def test_nobody_takes_a_chunk_whose_lease_has_less_than_a_second_left(store: Store, how: str) -> None:
    chain(store, retry=RetryRule(retries=99, backoff=0))
    store.announce("raw", ["1"])
    for _ in range(20):  # a busy machine may need longer than that for one look
        if store.views.chunk("product", "1") is not None:
            store.resubmit("product", ["1"], force=True)
        claim = claim_one(store, "make")
        until = store.views.clock() + 0.9
        store.dml(f"update run set lease_until = {until!r} where runid = {claim.runid}")
        taken = TAKES[how](store)
        if is_in_time := store.views.clock() < until:
            break
    assert is_in_time, "no look ended before the lease did"
    assert taken == []
    store.dml(f"update run set lease_until = {store.views.clock() - 0.01!r} where runid = {claim.runid}")
    assert TAKES[how](store) != []
