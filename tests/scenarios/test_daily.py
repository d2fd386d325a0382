"""A job that runs once a day, because it reads the built-in dataset today."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from opendataflow import Dataset, Partition, Store
from opendataflow.errors import BadDataid, BadDefinition
from tests.support.flows import change, claim_one, dataset, job, produce, status

NOON = 1_763_035_200.0  # 2025-11-13, 12:00 UTC
DAY = 86_400.0


@pytest.fixture
def daily(store: Store) -> Store:
    """A store at noon with a job that reads today."""
    store._clock = lambda: NOON
    store.register([dataset("report", "day")], [job("daily", "today", writes="report")])
    return store


def test_it_runs_once_a_day(daily: Store) -> None:
    produce(daily, "daily", "2025-11-13")
    assert daily.claim("daily") == []
    daily._clock = lambda: NOON + DAY
    produce(daily, "daily", "2025-11-14")
    assert daily.claim("daily") == []
    assert [chunk.dataid for chunk in daily.views.all_chunks("report")] == ["2025-11-13", "2025-11-14"]


def test_it_runs_once_a_day_whoever_asks(daily: Store, open_again: Callable[..., Store]) -> None:
    produce(daily, "daily", "2025-11-13")
    other = open_again()
    other._clock = lambda: NOON + 60
    assert other.claim("daily") == []


def test_it_runs_again_the_same_day_when_somebody_says_resubmit(daily: Store) -> None:
    produce(daily, "daily", "2025-11-13")
    change(daily, "report", "2025-11-13", "RESUBMIT")
    assert produce(daily, "daily", "2025-11-13").epoch == 2
    assert daily.claim("daily") == []


def test_a_failed_day_is_made_up_for_after_the_next_one_began(daily: Store) -> None:
    daily.fail(claim_one(daily, "daily"))
    daily._clock = lambda: NOON + DAY
    daily.resubmit("report", ["2025-11-13"])
    assert [produce(daily, "daily").dataid for _ in range(2)] == ["2025-11-13", "2025-11-14"]


def test_a_day_on_which_nobody_asked_is_no_day(daily: Store) -> None:
    produce(daily, "daily", "2025-11-13")
    daily._clock = lambda: NOON + 3 * DAY
    produce(daily, "daily", "2025-11-16")
    assert daily.claim("daily") == []


def test_a_mistyped_dataid_does_not_cost_the_day(daily: Store) -> None:
    with pytest.raises(BadDataid):
        daily.claim("daily", dataid="tomorrow")
    produce(daily, "daily", "2025-11-13")


def test_today_is_a_day_in_the_time_zone_that_the_dataset_names(daily: Store) -> None:
    daily.register([Dataset("today", partition=Partition("day"), options={"timezone": "Pacific/Auckland"})])
    expected = datetime.fromtimestamp(NOON, ZoneInfo("Pacific/Auckland")).date().isoformat()
    assert expected == "2025-11-14"
    produce(daily, "daily", expected)


def test_a_time_zone_that_does_not_exist_is_named(daily: Store) -> None:
    daily.register([Dataset("today", partition=Partition("day"), options={"timezone": "Mars/Olympus"})])
    with pytest.raises(BadDefinition):
        daily.claim("daily")
    assert status(daily, "report", "2025-11-13") is None


def test_a_job_without_outputs_is_remembered_by_a_marker_of_its_name(store: Store) -> None:
    store._clock = lambda: NOON
    store.register([], [job("sweep", "today")])
    produce(store, "sweep", "2025-11-13")
    assert store.claim("sweep") == []
    assert status(store, "sweep", "2025-11-13") == "READY"


def test_a_daily_job_that_reads_a_feed_waits_for_both(store: Store) -> None:
    store._clock = lambda: NOON
    store.register([dataset("feed", "day"), dataset("report", "day")], [job("daily", "today", "feed", writes="report")])
    assert store.claim("daily") == []
    store.announce("feed", ["2025-11-12"])
    assert store.claim("daily") == [], "yesterday's feed has no today"
    store.announce("feed", ["2025-11-13"])
    produce(store, "daily", "2025-11-13")
