"""Hours of a pool: which slots hold when, over midnight, over the week, and where clocks are changed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendataflow.errors import BadDefinition
from opendataflow.model import Pool
from opendataflow.model.definitions.hours import DAYS, WeekWindow, next_change, parse_window, slots_at
from opendataflow.model.timezone import time_zone

PARIS = ZoneInfo("Europe/Paris")
ZONES = st.sampled_from(["UTC", "Europe/Paris", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe"]).map(
    time_zone
)
MOMENTS = st.floats(min_value=0, max_value=4e9)
WINDOWS = st.lists(
    st.builds(
        WeekWindow,
        st.frozensets(st.integers(0, 6)),
        st.integers(0, 1439),
        st.integers(1, 1440),
        st.none() | st.integers(0, 9),
    ).filter(lambda window: window.start != window.end),
    max_size=4,
).map(tuple)


def at(text: str, where=PARIS) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=where).timestamp()


def etl(*hours: str, slots: int | None = 20, timezone: str = "Europe/Paris") -> Pool:
    return Pool("etl", slots, {"hours": list(hours), "timezone": timezone})


@pytest.mark.parametrize(
    ("text", "days", "start", "end", "slots"),
    [
        ("Mon-Fri 08:00-18:00 -> 4", {0, 1, 2, 3, 4}, 480, 1080, 4),
        ("Mon-Fri 08:00-18:00 → 4", {0, 1, 2, 3, 4}, 480, 1080, 4),
        ("mon-fri 8:00-18:00->4", {0, 1, 2, 3, 4}, 480, 1080, 4),
        ("Sat,Sun 22:30-06:00 -> unlimited", {5, 6}, 1350, 360, None),
        ("Fri-Mon, Wed 00:00-24:00 -> 0", {4, 5, 6, 0, 2}, 0, 1440, 0),
        ("00:00-23:59 -> 1", {0, 1, 2, 3, 4, 5, 6}, 0, 1439, 1),
    ],
)
def test_a_window_is_one_line(text, days, start, end, slots):
    assert parse_window(text) == WeekWindow(frozenset(days), start, end, slots)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "4",
        "Mon-Fri -> 4",
        "08:00-18:00",
        "Mon-Fry 08:00-18:00 -> 4",
        "08:00-18:00 -> -1",
        "08:00-25:00 -> 4",
        "08:60-18:00 -> 4",
        "24:00-08:00 -> 4",
        "08:00-08:00 -> 4",
        "08:00-18:00 -> four",
        8,
        None,
        ["08:00-18:00 -> 4"],
    ],
)
def test_what_is_no_window_is_refused(text):
    with pytest.raises(BadDefinition):
        parse_window(text)
    with pytest.raises(BadDefinition, match="pool etl"):
        Pool("etl", 1, {"hours": [text]})


@pytest.mark.parametrize("options", [{"hours": "x"}, {"timezone": "Mars/Base"}, {"timezone": 1}])
def test_a_pool_refuses_hours_that_make_no_sense(options):
    with pytest.raises(BadDefinition, match="pool etl"):
        Pool("etl", 1, options)


def test_concurrency_goes_down_in_the_morning_and_up_at_night():
    pool = etl("Mon-Fri 08:00-18:00 -> 4")
    for moment, slots in (
        ("2026-11-16 07:59:59", 20),
        ("2026-11-16 08:00", 4),
        ("2026-11-16 17:59:59", 4),
        ("2026-11-16 18:00", 20),
        ("2026-11-15 12:00", 20),
    ):
        assert pool.slots_at(at(moment)) == slots
    assert pool.next_change(at("2026-11-16 07:00")) == (at("2026-11-16 08:00"), 4)
    assert pool.next_change(at("2026-11-16 12:00")) == (at("2026-11-16 18:00"), 20)
    assert pool.next_change(at("2026-11-13 19:00")) == (at("2026-11-16 08:00"), 4)


def test_what_begins_in_the_evening_ends_the_next_morning():
    pool = etl("Fri 22:00-06:00 -> 50")
    for moment, slots in (("2026-11-13 23:00", 50), ("2026-11-14 05:59", 50), ("2026-11-14 06:00", 20)):
        assert pool.slots_at(at(moment)) == slots
    assert pool.slots_at(at("2026-11-13 05:00")) == 20, "that is still Thursday's night"


def test_the_first_window_that_fits_wins():
    pool = etl("Mon 12:00-13:00 -> 8", "Mon-Fri 08:00-18:00 -> 4")
    assert [pool.slots_at(at(f"2026-11-16 {hour}:30")) for hour in (11, 12, 13)] == [4, 8, 4]


def test_zero_slots_is_a_pause_whatever_the_hours_say():
    pool = etl("00:00-24:00 -> 4", slots=0)
    assert pool.slots_at(0) == 0
    assert pool.next_change(0) is None


def test_hours_are_meant_in_the_pool_s_time_zone():
    assert etl("08:00-18:00 -> 4", timezone="Asia/Tokyo").slots_at(at("2026-11-16 23:30", UTC)) == 4
    assert Pool("etl", 20, {"hours": ["08:00-18:00 -> 4"]}).slots_at(at("2026-11-16 23:30", UTC)) == 20


def test_an_hour_that_does_not_exist_is_left_out():
    pool = etl("02:15-02:45 -> 4", "02:45-12:00 -> 6")
    assert pool.next_change(at("2026-03-29 01:00")) == (at("2026-03-29 03:00"), 6)


@given(st.none() | st.integers(0, 9), WINDOWS, ZONES, MOMENTS)
def test_the_slots_are_those_of_the_first_window_that_holds(slots, windows, where, now):
    local = datetime.fromtimestamp(now, where)
    minute = local.hour * 60 + local.minute
    expected = slots
    if slots != 0:
        for window in windows:
            length = (window.end - window.start) % 1440 or 1440
            begins = [(day * 1440 + window.start) for day in window.days]
            if any((local.weekday() * 1440 + minute - begin) % (7 * 1440) < length for begin in begins):
                expected = window.slots
                break
    assert slots_at(slots, windows, where, now) == expected


@given(st.none() | st.integers(0, 9), WINDOWS, ZONES, MOMENTS, st.floats(0, 1))
def test_nothing_changes_before_the_next_change(slots, windows, where, now, part):
    holds = slots_at(slots, windows, where, now)
    change = next_change(slots, windows, where, now)
    end = change[0] if change else now + timedelta(days=8).total_seconds()
    assert slots_at(slots, windows, where, min(now + (end - now) * part, end - 0.001) if end > now else now) == holds
    if change:
        assert change[0] > now
        assert change[1] == slots_at(slots, windows, where, change[0]) != holds


def test_every_day_has_a_name():
    assert [parse_window(f"{day} 01:00-02:00 -> 1").days for day in DAYS] == [frozenset({n}) for n in range(7)]
