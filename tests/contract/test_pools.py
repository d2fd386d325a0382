"""Pools: how many may run at the same time, over all jobs and machines."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from opendataflow import Pool, Store
from opendataflow.errors import BadDefinition
from opendataflow.model import Receipt
from tests.support.flows import chain, claim_one, dataset, job


@pytest.fixture
def pooled(store: Store) -> Store:
    """A store with ten chunks to make in a pool of two places."""
    chain(store, pools=[Pool("db", 2)], pool="db", lease=0.5)
    store.announce("raw", [str(n) for n in range(10)])
    return store


def test_a_pool_has_as_many_places_as_it_says(pooled: Store) -> None:
    assert [claim.dataid for claim in pooled.claim("make", n=5)] == ["0", "1"]
    assert pooled.claim("make") == []
    assert pooled.claim("make", dataid="7") == []
    assert pooled.places_taken("db") == 2


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
    assert pooled.places_taken("db") == 2


def test_places_of_the_dead_come_back(pooled: Store) -> None:
    pooled.claim("make", n=2)
    assert pooled.claim("make") == []
    time.sleep(0.6)
    assert len(pooled.claim("make", n=5)) == 2


def test_zero_places_is_a_pause(pooled: Store) -> None:
    claim = claim_one(pooled, "make")
    pooled.register(pools=[Pool("db", 0)])
    assert pooled.claim("make", n=5) == []
    pooled.commit(claim)
    assert pooled.claim("make", n=5) == [], "what runs ends in peace, and nothing new begins"
    pooled.dml("update pool set places = 1 where poolid = 'db'")
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
