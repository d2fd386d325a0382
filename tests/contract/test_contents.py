"""The same content under two dataids: the commit itself decides whether it is wrong, however many publish at once."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from opendataflow import Manifest, Store
from opendataflow.errors import LeaseLost, WrongData
from tests.support.flows import chain, claim_one, dataset, job, status


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
    assert store.views.manifests("product", "2") == []
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


def arrive(store: Store, contents: dict[str, str]) -> None:
    """Chunks of raw, each with a content that the store knows."""
    store.announce(
        "raw", list(contents), manifests={name: Manifest(rows=3, fingerprint=contents[name]) for name in contents}
    )


def warned(store: Store) -> list[str]:
    return [chunk.remark for chunk in store.views.remarked()]


def test_a_product_that_repeats_is_published_with_a_remark_where_its_inputs_differ(store: Store) -> None:
    chain(store)
    arrive(store, {"1": "monday", "2": "tuesday"})
    assert store.commit(claim_one(store, "make"), rows("a")) == ""
    remark = "product: warning: repeats: same_content_as 1"
    assert store.commit(claim_one(store, "make"), rows("a")) == remark
    assert (status(store, "product", "2"), warned(store)) == ("READY", [remark])
    published = store.views.manifest("product", "2")
    assert published is not None
    assert [result.kind for result in published.manifest.checks] == ["repeats"]
    claims = store.claim("use", n=2)
    read = store.input_chunks(claims)
    assert [chunk.same_as for claim in claims for chunk in read[claim.runid]] == [None, None], "its readers may read it"


def test_a_product_that_repeats_is_refused_where_its_inputs_repeat_too(store: Store) -> None:
    chain(store)
    store.register([dataset("raw", options={"repeats": True})])
    arrive(store, {"1": "monday", "2": "monday", "3": "tuesday"})
    store.commit(claim_one(store, "make"), rows("a"))
    with pytest.raises(WrongData, match="product 1"):
        store.commit(claim_one(store, "make"), rows("a"))
    assert warned(store) == []
    store.commit(claim_one(store, "make"), rows("a"))
    assert warned(store) == ["product: warning: repeats: same_content_as 1"]


def test_a_dataset_that_declares_no_repeats_is_strict(store: Store) -> None:
    chain(store)
    store.register([dataset("product", options={"repeats": False})])
    arrive(store, {"1": "monday", "2": "tuesday"})
    store.commit(claim_one(store, "make"), rows("a"))
    with pytest.raises(WrongData, match="product 1"):
        store.commit(claim_one(store, "make"), rows("a"))


def test_readers_are_refused_once_a_dataset_declares_no_repeats(store: Store) -> None:
    chain(store)
    arrive(store, {"1": "monday", "2": "tuesday"})
    for _ in range(2):
        store.commit(claim_one(store, "make"), rows("a"))
    store.register([dataset("product", options={"repeats": False})])
    claim = claim_one(store, "use")
    assert [chunk.same_as for chunk in store.input_chunks([claim])[claim.runid]] == ["2"]


def test_products_of_one_transaction_get_a_remark_or_are_refused_as_any_others(store: Store) -> None:
    chain(store)
    arrive(store, {"1": "monday", "2": "tuesday"})
    store.commit_many([(claim, rows("a"), 0) for claim in store.claim("make", n=2)])
    assert warned(store) == ["product: warning: repeats: same_content_as 1"]


def test_what_else_was_read_tells_products_apart_too(store: Store) -> None:
    store.register(
        [dataset(name) for name in ("raw", "rates", "product")],
        [job("make", "raw", "rates", writes="product")],
    )
    store.register([dataset("raw", options={"repeats": True}), dataset("rates", options={"repeats": True})])
    arrive(store, {"1": "monday", "2": "monday", "3": "monday"})
    for dataid, content in (("1", "low"), ("2", "high"), ("3", "low")):
        store.announce("rates", [dataid], manifests={dataid: Manifest(rows=1, fingerprint=content)})
    for _ in range(2):
        store.commit(claim_one(store, "make"), rows("a"))
    assert warned(store) == ["product: warning: repeats: same_content_as 1"]
    with pytest.raises(WrongData, match="product 1"):
        store.commit(claim_one(store, "make"), rows("a"))


def test_a_run_that_lost_its_chunk_is_answered_so_also_where_its_product_repeats(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2"])
    store.commit(claim_one(store, "make"), rows("a"))
    claim = claim_one(store, "make")
    store.cancel(claim.runid)
    with pytest.raises(LeaseLost):
        store.commit(claim, rows("a"))


def test_what_arrives_from_outside_is_refused_when_it_repeats(store: Store) -> None:
    chain(store)
    arrive(store, {"1": "monday"})
    with pytest.raises(WrongData, match="raw 1"):
        arrive(store, {"2": "monday"})


def test_a_version_that_repeats_another_product_can_be_rolled_back_to(store: Store) -> None:
    chain(store)
    arrive(store, {"1": "monday", "2": "tuesday"})
    for content in ("a", "a"):
        store.commit(claim_one(store, "make"), rows(content))
    store.resubmit("product", ["2"])
    store.commit(claim_one(store, "make"), rows("b"))
    store.rollback("product", "2")
    assert store.views.chunk("product", "2").version == 1  # type: ignore[union-attr]
