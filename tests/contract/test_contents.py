"""The same content under two dataids: refused by the commit itself, however many publish at once."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from opendataflow import Manifest, Store
from opendataflow.errors import WrongData
from tests.support.flows import chain, claim_one, dataset, status


def rows(content: str) -> dict[str, Manifest]:
    return {"product": Manifest(rows=3, fingerprint=content)}


def test_a_commit_with_the_content_of_another_chunk_is_refused(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2"])
    store.commit(claim_one(store, "make"), rows("a"))
    claim = claim_one(store, "make")
    with pytest.raises(WrongData, match="product 1"):
        store.commit(claim, rows("a"))
    assert status(store, "product", "2") == "RUNNING", "nothing happened"
    assert store.manifests("product", "2") == []
    store.fail(claim, "WRONG_DATA")
    store.resubmit("product", ["2"])
    store.commit(claim_one(store, "make"), rows("b"))


def test_repeats_that_are_declared_and_contents_that_nobody_knows_are_fine(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2", "3", "4"])
    for _ in range(2):
        store.commit(claim_one(store, "make"), {"product": Manifest(rows=0, fingerprint="nothing")})
    store.register([dataset("product", options={"repeats": True})])
    for _ in range(2):
        store.commit(claim_one(store, "make"), rows("a"))


def test_two_chunks_of_one_transaction_are_compared_too(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2"])
    with pytest.raises(WrongData):
        store.commit_many([(claim, rows("a"), 0) for claim in store.claim("make", n=2)])
    assert status(store, "product", "1") == "RUNNING"


def test_two_days_that_were_mixed_up_can_be_mended(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2"])
    for content in ("b", "a"):
        store.commit(claim_one(store, "make"), rows(content))
    store.resubmit("product", ["1", "2"])
    for content in ("a", "b"):
        store.commit(claim_one(store, "make"), rows(content))
    assert (status(store, "product", "1"), status(store, "product", "2")) == ("READY", "READY")


def test_of_many_that_publish_the_same_at_once_one_succeeds(open_again: Callable[..., Store]) -> None:
    stores = [open_again() for _ in range(6)]
    chain(stores[0])
    stores[0].announce("raw", [str(number) for number in range(1, 7)])
    claims = stores[0].claim("make", n=6)
    start, outcomes = threading.Barrier(6), []

    def publish(number: int) -> None:
        start.wait()
        try:
            stores[number].commit(claims[number], rows("a"))
            outcomes.append("READY")
        except WrongData:
            outcomes.append("WRONG_DATA")

    threads = [threading.Thread(target=publish, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["READY", *["WRONG_DATA"] * 5]
