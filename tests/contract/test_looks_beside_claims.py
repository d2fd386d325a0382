"""A look while hand-typed SQL waits to be folded in: it writes nothing, and neither it nor a claim waits for the other."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

from opendataflow import Store
from opendataflow.insight.axis import FIRST_KEY, LAST_KEY
from opendataflow.store.drivers.base import Transaction
from opendataflow.store.engine import folding
from opendataflow.store.views import pending as working_out
from tests.support.flows import (
    chain,
    change,
    claim_one,
    dataset,
    dump,
    fold_in,
    following,
    job,
    kinds,
    produce,
    put,
    status,
)

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


CLAIM = """
import sys, opendataflow
with opendataflow.open(sys.argv[1]) as store:
    [claim] = store.claim("make")
    assert claim.dataid == sys.argv[2]
    store.commit(claim)
"""


def claim_elsewhere(store: Store, dataid: str) -> None:
    """Claims and publishes this chunk, which must be the next one, in another process."""
    subprocess.run([sys.executable, "-c", CLAIM, store.url, dataid], check=True, timeout=LONGEST)


def test_claims_and_commits_go_on_while_a_look_is_open(typed: Store, open_again: Callable[..., Store]) -> None:
    looker = open_again()
    with looker.at_once(), looker.looking() as pending:
        assert pending.words == ("1 change typed as SQL is pending: the next claim applies it",)
        assert looker.views.next_dataids("make") == ["1", "2"]
        beside(lambda: claim_elsewhere(typed, "1"))
        beside(lambda: change(typed, "product", "1", "HOLD"))
        beside(lambda: claim_elsewhere(typed, "2"))
        time.sleep(2)
        beside(lambda: typed.announce("raw", ["3"]))
        assert looker.views.next_dataids("make") == ["1", "2"], "a look is of one moment"
    assert status(typed, "product", "1") == "HOLD"
    assert status(typed, "product", "2") == "READY"


def test_a_look_answers_while_the_transaction_of_a_claim_is_open(
    typed: Store, open_again: Callable[..., Store]
) -> None:
    seen: list[object] = []
    typed.dml(
        "delete from meta where name = 'clock'"
    )  # on SQLite, the first transaction of a boot stores it: not a look

    def look() -> None:
        looker = open_again()
        with looker.looking() as pending:
            seen.append((pending.changes, looker.views.next_dataids("make"), looker.views.claimable("make", 9)))
            facts = looker.views.facts("make", "1")
            seen.append([item.status for item in facts.outputs])

    def hold(tx: Transaction) -> None:
        folding.fold(tx, typed._locked_catalogue(tx))
        assert tx.value("lease_clock")  # on PostgreSQL, what was queued is sent: its locks are held
        beside(look)

    typed.write(hold)
    look()
    assert seen == [(1, ["1", "2"], 2), ["RESUBMIT"], (0, ["1", "2"], 2), ["RESUBMIT"]]


def test_a_look_cannot_write(store: Store, open_again: Callable[..., Store]) -> None:
    before = dump(store)
    with pytest.raises(Exception, match=r"(?i)read-only|only reads"):
        open_again().read(lambda tx: tx.value("revision_next"))
    assert dump(store) == before


def test_a_look_stays_bounded_whatever_was_typed(typed: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(working_out, "_MOST", 2)
    typed.announce("raw", ["3", "4"])
    typed.dml("update datastatus set status = 'HOLD' where datasetid = 'raw' and locktype = 'OUT'")
    with typed.looking() as pending:
        assert pending.words == (
            "5 changes typed as SQL are pending: the next claim applies them",
            "too much is pending for a look: what can run is shown without a part of it",
        )
        assert typed.views.next_dataids("make"), "what is beyond the bound is shown as it stands"
    monkeypatch.undo()
    assert following(typed, "make") == []


def test_what_is_typed_while_somebody_looks_is_found_by_the_next_look(
    typed: Store, open_again: Callable[..., Store]
) -> None:
    looker = open_again()
    with looker.at_once(), looker.looking():
        beside(lambda: change(typed, "product", "1", "HOLD"))
    with looker.looking():
        assert looker.views.next_dataids("make") == ["2"]


def test_a_changed_definition_counts_at_once(typed: Store) -> None:
    typed.register(
        [dataset("raw"), dataset("more"), dataset("product")], [job("make", "raw", "more", writes="product")]
    )
    with typed.looking() as pending:
        assert pending.changes == 1, "a definition may come from odf apply"
        assert typed.views.candidate_counts() == {"make": {"WAITING": 2}, "use": {"WAITING": 1}}
        assert typed.views.claimable("make", 9) == 0
    assert following(typed, "make") == []
    assert typed.views.candidate_counts() == {"make": {"WAITING": 2}, "use": {"WAITING": 1}}


def test_a_typed_row_is_shown_at_its_position(typed: Store) -> None:
    put(typed, "raw", "10", "READY")
    put(typed, "raw", "4", "FAILED")
    spans = [("raw", FIRST_KEY, LAST_KEY)]

    def placed() -> list[object]:
        (counts,) = typed.views.span_counts(spans, 100)
        between = [(each.dataid, each.status) for each in typed.views.chunks_between("raw", FIRST_KEY, LAST_KEY, 9)]
        newest = typed.views.newest_dataids("raw", FIRST_KEY, LAST_KEY, 3)
        malformed = typed.views.span_chunks([("raw", "", "")], 9)
        unsettled = typed.views.unsettled_between(spans, 9)
        return [counts, between, newest, malformed, unsettled, typed.views.ends_given(spans)]

    with typed.looking():
        foreseen = placed()
    fold_in(typed)
    assert placed() == foreseen
    assert foreseen[2] == ["10", "4", "2"]


def test_a_look_changes_nothing(typed: Store) -> None:
    before = dump(typed)
    with typed.looking():
        assert status(typed, "product", "1") == "RESUBMIT"
        assert typed.views.candidate_counts() == {"make": {"CLAIMABLE": 2}, "use": {"WAITING": 1}}
    assert dump(typed) == before
    assert kinds(typed, "product", "1") == ["claimed", "published", "sql"]
    assert following(typed, "make") == ["1", "2"]
    assert claim_one(typed, "make").dataid == "1"
