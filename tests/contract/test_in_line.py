"""Which chunk is first in the way when none can be claimed, and that its no is stored once."""

from __future__ import annotations

from opendataflow import Store
from opendataflow.model import Answer, Receipt
from tests.support.flows import chain, claim_one, dataset, job, produce


def test_what_failed_upstream_is_in_the_way_until_it_is_made_again(store: Store) -> None:
    chain(store)
    assert store.views.first_in_line("use") is None
    store.announce("raw", ["1", "2"])
    bad, good = store.claim("make", 2)
    assert store.views.first_in_line("use") == "1", "it runs"
    store.fail(bad)
    store.commit(good)
    produce(store, "use", "2")
    assert (store.views.first_in_line("make"), store.views.first_in_line("use")) == ("1", "1")
    store.resubmit("product", ["1"])
    produce(store, "make", "1")
    produce(store, "use", "1")
    assert (store.views.first_in_line("make"), store.views.first_in_line("use")) == (None, None)


def test_what_is_done_is_not_in_the_way_whatever_becomes_of_its_input(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    produce(store, "make", "1")
    produce(store, "use", "1")
    store.hold("product", ["1"])
    assert store.views.first_in_line("use") is None
    assert store.views.first_in_line("make") == "1"


def test_numbers_come_in_their_order_and_what_is_resubmitted_comes_first(store: Store) -> None:
    store.register([dataset(name) for name in ("raw", "rates", "out")], [job("join", "raw", "rates", writes="out")])
    store.announce("raw", ["10", "9"])
    assert store.views.first_in_line("join") == "9"
    store.announce("rates", ["10", "9"])
    produce(store, "join", "9")
    produce(store, "join", "10")
    store.announce("raw", ["3"])
    store.hold("rates", ["10"])
    store.resubmit("out", ["10"])
    assert store.views.first_in_line("join") == "10"


def test_the_same_no_is_stored_again_only_when_that_is_asked_for(store: Store) -> None:
    chain(store)

    def no(why: str, **evidence: object) -> Receipt:
        return Receipt("make", "1", (Answer("ready", False, evidence, why),))

    store.refuse(no("raw 1 is FAILED", seconds=1), again=False)
    store.refuse(no("raw 1 is FAILED", seconds=2), again=False)
    assert len(store.views.receipts("make", "1")) == 1
    store.refuse(no("raw 1 is HOLD"), again=False)
    store.refuse(no("raw 1 is HOLD"))
    assert len(store.views.receipts("make", "1")) == 3
    store.announce("raw", ["1"])
    store.commit(claim_one(store, "make"))
    store.refuse(no("raw 1 is HOLD"), again=False)
    assert store.views.receipts("make", "1")[-1].kind == "refused", "a yes lies between"
