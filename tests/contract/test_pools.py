"""Pools: how many may run at the same time, over all jobs and machines."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from opendataflow import Pool, Store
from opendataflow.errors import BadDefinition
from opendataflow.model import Receipt, RetryRule
from tests.support.flows import chain, claim_one, dataset, end_leases, job
from tests.support.workers import Workers


@pytest.fixture
def pooled(store: Store) -> Store:
    """A store with ten chunks to make in a pool of two slots."""
    chain(store, pools=[Pool("db", 2)], pool="db")
    store.announce("raw", [str(n) for n in range(10)])
    return store


def test_a_pool_has_as_many_places_as_it_says(pooled: Store) -> None:
    assert [claim.dataid for claim in pooled.claim("make", n=5)] == ["0", "1"]
    assert pooled.claim("make") == []
    assert pooled.claim("make", dataid="7") == []
    assert pooled.views.slots_taken("db") == 2


def test_a_forced_run_takes_a_place_and_waits_for_none(pooled: Store) -> None:
    forced = claim_one(pooled, "make", dataid="7", force=True)
    assert pooled.views.slots_taken("db") == 1
    assert len(pooled.claim("make", n=5)) == 1
    claim_one(pooled, "make", dataid="8", force=True)
    assert pooled.views.slots_taken("db") == 3
    pooled.commit(forced)
    assert pooled.claim("make") == [], "two still run"


def test_places_come_back(pooled: Store) -> None:
    first, second = pooled.claim("make", n=2)
    pooled.commit(first)
    third = claim_one(pooled, "make")
    assert pooled.claim("make") == []
    pooled.fail(second)
    fourth = claim_one(pooled, "make")
    pooled.give_back(fourth, Receipt("make", fourth.dataid), "no")
    claim_one(pooled, "make")
    pooled.hold("product", [third.dataid], force=True)
    claim_one(pooled, "make")
    assert pooled.views.slots_taken("db") == 2


def test_places_of_the_dead_come_back(pooled: Store) -> None:
    pooled.claim("make", n=2)
    assert pooled.claim("make") == []
    end_leases(pooled)
    assert len(pooled.claim("make", n=5)) == 2


def test_zero_places_is_a_pause(pooled: Store) -> None:
    claim = claim_one(pooled, "make")
    pooled.register(pools=[Pool("db", 0)])
    assert pooled.claim("make", n=5) == []
    pooled.commit(claim)
    assert pooled.claim("make", n=5) == [], "what runs ends in peace, and nothing new begins"
    pooled.dml("update pool set slots = 1 where poolid = 'db'")
    assert len(pooled.claim("make", n=5)) == 1


def test_the_limit_can_be_changed_at_any_time(pooled: Store, open_again: Callable[..., Store]) -> None:
    claims = pooled.claim("make", n=5)
    other = open_again()
    other.register(pools=[Pool("db", 4)])
    claims += pooled.claim("make", n=5)
    assert len(claims) == 4
    other.register(pools=[Pool("db", 1)])
    for claim in claims[:3]:
        pooled.commit(claim)
        assert other.claim("make") == []
    pooled.commit(claims[3])
    assert len(other.claim("make", n=5)) == 1


def test_a_pool_without_a_limit_limits_nothing(store: Store) -> None:
    chain(store, pools=[Pool("free")], pool="free")
    store.announce("raw", [str(n) for n in range(10)])
    assert len(store.claim("make", n=20)) == 10


def test_jobs_share_a_pool(store: Store) -> None:
    store.register(
        [dataset("raw"), dataset("a"), dataset("b"), dataset("c")],
        [
            job("one", "raw", writes="a", pool="db"),
            job("two", "raw", writes="b", pool="db"),
            job("free", "raw", writes="c"),
        ],
        [Pool("db", 3)],
    )
    store.announce("raw", [str(n) for n in range(10)])
    assert len(store.claim("one", n=2)) == 2
    assert len(store.claim("two", n=2)) == 1
    assert store.claim("one") == []
    assert len(store.claim("free", n=20)) == 10


def test_a_pool_that_does_not_exist_is_refused(store: Store) -> None:
    with pytest.raises(BadDefinition):
        chain(store, pool="nosuch")
    assert "make" not in store.catalogue().jobs


# Hours ----------------------------------------------------------------------------------------------------------------


def hours(store: Store, slots: int, *lines: str) -> None:
    store.register(pools=[Pool("db", slots, {"hours": list(lines)})])


def test_hours_hold_at_every_claim(pooled: Store, open_again: Callable[..., Store]) -> None:
    hours(pooled, 1, "00:00-24:00 -> 3")
    assert len(pooled.claim("make", n=5)) == 3
    assert [(each.slots, each.taken) for each in pooled.views.limits("make")] == [(3, 3)]
    hours(open_again(), 1, "Mon-Sun 00:00-12:00 → 5", "12:00-00:00 → 5")
    assert len(pooled.claim("make", n=5)) == 2
    open_again().dml("""update pool set options = '{"hours": ["00:00-24:00 -> unlimited"]}'""")
    assert len(pooled.claim("make", n=99)) == 5


def test_zero_places_is_a_pause_whatever_the_hours_say(pooled: Store) -> None:
    hours(pooled, 0, "00:00-24:00 -> 3")
    assert pooled.claim("make") == []
    assert pooled.views.pool_now("db") == (0, None)


def test_a_pool_says_when_it_changes(pooled: Store) -> None:
    hours(pooled, 7, "Mon 00:00-24:00 -> 3", "Tue-Sun 00:00-24:00 -> 4")
    now, change = pooled.views.pool_now("db")
    assert change is not None
    assert {now, change[1]} == {3, 4}
    assert 0 < change[0] - time.time() < 7 * 86400


def test_hours_typed_by_sql_that_make_no_sense_are_refused_by_name(pooled: Store) -> None:
    pooled.dml("""update pool set options = '{"hours": ["whenever"]}'""")
    with pytest.raises(BadDefinition, match="pool db"):
        pooled.claim("make")


# Readers of a dataset -------------------------------------------------------------------------------------------------


@pytest.fixture
def limited(store: Store) -> Store:
    """Three jobs, in no pool or one, of which two read db, which takes three readers."""
    store.register(
        [dataset("db", options={"readers": 3}), *map(dataset, ("other", "a", "b", "c"))],
        [
            job("one", "db", writes="a"),
            job("two", "db", "other", writes="b", pool="etl"),
            job("free", "other", writes="c"),
        ],
        [Pool("etl", 2)],
    )
    store.announce("db", [str(n) for n in range(10)])
    store.announce("other", [str(n) for n in range(10)])
    return store


def test_a_dataset_has_as_many_readers_as_it_says(limited: Store) -> None:
    two = limited.claim("two", n=9)
    assert len(two) == 2, "the pool of the job holds as well"
    one = limited.claim("one", n=9)
    assert len(one) == 1
    assert limited.claim("one", dataid="7") == []
    assert limited.views.readers_running("db") == 3
    assert len(limited.claim("free", n=99)) == 10, "who does not read it is not counted"
    limited.commit(two[0])
    assert len(limited.claim("one", n=9)) == 1
    assert [(each.what, each.name, each.slots, each.taken) for each in limited.views.limits("two")] == [
        ("pool", "etl", 2, 1),
        ("dataset", "db", 3, 3),
    ]


def test_a_forced_run_takes_a_place_of_a_reader(limited: Store) -> None:
    forced = claim_one(limited, "one", dataid="9", force=True)
    assert limited.views.readers_running("db") == 1
    assert len(limited.claim("one", n=9)) == 2
    limited.fail(forced)
    assert len(limited.claim("one", n=9)) == 1


def test_places_of_dead_readers_come_back(limited: Store) -> None:
    assert len(limited.claim("one", n=9)) == 3
    end_leases(limited)
    assert len(limited.claim("one", n=9)) == 3


def test_the_limit_of_readers_can_be_changed_at_any_time(limited: Store, open_again: Callable[..., Store]) -> None:
    assert len(limited.claim("one", n=9)) == 3
    open_again().register([dataset("db", options={"readers": 5})])
    assert len(limited.claim("one", n=9)) == 2
    open_again().register([dataset("db", options={"readers": 0})])
    assert limited.claim("one") == []
    open_again().register([dataset("db")])
    assert len(limited.claim("one", n=99)) == 5


def test_who_shares_a_chunk_counts_for_himself(store: Store) -> None:
    store.register([dataset("db", options={"readers": 2}), dataset("out")], [job("sum", "db window 3", writes="out")])
    store.announce("db", [str(n) for n in range(9)])
    claims = store.claim("sum", n=9)
    assert len(claims) == 2
    store.commit(claims[1])
    assert store.views.readers_running("db") == 1
    assert len(store.claim("sum", n=9)) == 1


def test_processes_never_read_together_more_than_the_limit(store: Store, store_url: str) -> None:
    store.register(
        [dataset("db", options={"readers": 2}), dataset("out")],
        [job("read", "db", writes="out", pool="pool")],
        [Pool("pool")],
    )
    store.announce("db", [str(n) for n in range(200)])
    seen = [n for each in Workers(store_url, *[("hold_places", "read", "40", "0.002")] * 4).go() for n in each]
    assert seen
    assert max(seen) <= 2


@pytest.mark.parametrize("readers", [-1, "4", True, 1.5])
def test_a_limit_of_readers_is_a_whole_number(store: Store, readers: object) -> None:
    with pytest.raises(BadDefinition, match="readers"):
        dataset("db", options={"readers": readers})


def test_a_dead_worker_s_chunk_comes_back_at_once_when_its_lease_was_longer_than_the_pause(store: Store) -> None:
    chain(store, retry=RetryRule(retries=3, backoff=0.2), lease=0.4)
    store.announce("raw", ["1"])
    claim_one(store, "make")
    time.sleep(0.5)
    assert claim_one(store, "make").tries == 2
