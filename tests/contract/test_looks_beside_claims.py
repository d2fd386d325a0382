"""A look that takes its time, while hand-typed SQL waits to be folded in: no claim waits for it, on either store."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from opendataflow import Store
from tests.support.flows import chain, change, claim_one, following, kinds, produce, status

pytestmark = pytest.mark.fault(41)
LONGEST = 60.0  # for a claim that waits for nothing: the test fails by it, and never passes by it


@pytest.fixture
def typed(store: Store) -> Store:
    """raw 1 and 2 → make → product 1, which somebody typed to be made again."""
    chain(store)
    store.announce("raw", ["1", "2"])
    produce(store, "make", "1")
    change(store, "product", "1", "RESUBMIT")
    return store


def beside(work: Callable[[], object]) -> None:
    """Do it in another thread, which must come back while we go on holding what we hold."""
    problems: list[BaseException] = []

    def tried() -> None:
        try:
            work()
        except BaseException as problem:
            problems.append(problem)

    thread = threading.Thread(target=tried, daemon=True)
    thread.start()
    thread.join(LONGEST)
    assert not thread.is_alive(), "it waits for the look"
    assert problems == []


def test_claims_and_commits_go_on_while_somebody_looks(typed: Store, open_again: Callable[..., Store]) -> None:
    looker = open_again()
    with looker.looking() as is_folded, looker.at_once():
        assert is_folded
        assert looker.views.next_dataids("make") == ["1", "2"]
        beside(lambda: produce(typed, "make", "1"))
        beside(lambda: change(typed, "product", "1", "HOLD"))
        beside(lambda: produce(typed, "make", "2"))
        assert looker.views.next_dataids("make") == ["1", "2"], "a look is of one moment"
    assert status(typed, "product", "1") == "HOLD"
    assert status(typed, "product", "2") == "READY"


def test_what_is_typed_while_somebody_looks_is_found_by_the_next_look(
    typed: Store, open_again: Callable[..., Store]
) -> None:
    looker = open_again()
    with looker.looking(), looker.at_once():
        beside(lambda: change(typed, "product", "1", "HOLD"))
    with looker.looking():
        assert looker.views.next_dataids("make") == ["2"]


def test_a_look_adds_nothing_to_the_history(typed: Store) -> None:
    before = kinds(typed, "product", "1")
    with typed.looking():
        assert status(typed, "product", "1") == "RESUBMIT"
    assert kinds(typed, "product", "1") == before == ["claimed", "published", "sql"]
    assert following(typed, "make") == ["1", "2"]
    assert claim_one(typed, "make").dataid == "1"
