"""What goes on now: runs with what is left of them, and rates of the last minutes."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from opendataflow import Store
from opendataflow.insight.now import now, rates
from tests.support.flows import chain, claim_one, produce


def test_nothing_goes_on_in_an_empty_store(store: Store) -> None:
    seen = now(store)
    assert (seen.running, seen.runs, seen.claimable, seen.deferred) == (0, (), 0, 0)
    assert seen.rates.published == 0
    assert seen.rates.per_minute(0) == 0


def test_rates_count_what_was_announced_published_and_failed(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2", "3"])
    produce(store, "make", "1")
    store.fail(claim_one(store, "make"), detail="no")
    seen = now(store).rates
    assert (seen.announced, seen.published, seen.failed, seen.refused) == (3, 1, 1, 0)
    assert seen.per_minute(seen.announced) == 3 * 60 / seen.seconds
    later = rates(store, store.views.clock() + 3600)
    assert (later.announced, later.published, later.failed) == (0, 0, 0)


def test_on_a_busy_store_the_period_is_shorter(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    chain(store)
    store.announce("raw", [str(n) for n in range(50)])
    monkeypatch.setattr("opendataflow.insight.now._MOST_EVENTS", 10)
    seen = rates(store, store.views.clock())
    assert seen.announced == 10
    assert seen.seconds < 300


def test_a_run_is_told_with_what_is_usual_and_what_is_left(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2", "3"])
    produce(store, "make", "1")
    claim = claim_one(store, "make")
    seen = now(store)
    (run,) = seen.runs
    assert (seen.running, seen.lost, seen.claimable) == (1, 0, 2)
    assert (run.runid, run.jobid, run.dataid, run.datasetid) == (claim.runid, "make", "2", "product")
    assert run.usual is not None
    assert run.left is not None
    assert run.part is not None
    assert 0 <= run.part <= 1
    assert not run.is_lost
    clock = store.views.clock()
    store.views.clock = lambda: clock + 10 * 86400  # type: ignore[method-assign]
    seen = now(store)
    assert (seen.lost, seen.runs[0].is_lost, seen.runs[0].left) == (1, True, 0)
    assert datetime.now(UTC) >= (seen.runs[0].started or datetime.max.replace(tzinfo=UTC))
