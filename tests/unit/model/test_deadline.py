"""When a chunk is due: by the end of its period, in any zone, also where clocks are changed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from opendataflow.errors import BadDefinition
from opendataflow.model import Partition
from opendataflow.model.definitions.deadline import Deadline, due, end_of_period, parse_deadline, parse_expected
from opendataflow.model.timezone import time_zone

BERLIN, NEW_YORK = time_zone("Europe/Berlin"), time_zone("America/New_York")


def test_a_deadline_is_a_time_of_day_or_a_time_after_the_end() -> None:
    assert parse_deadline("06:00") == Deadline(minute=360)
    assert parse_deadline("+2h") == Deadline(after=7200.0)
    assert parse_deadline("+90m") == Deadline(after=5400.0)


@pytest.mark.parametrize(
    "rule", ["6:00", "24:00", "2h", "+", "+2", "06:00 ", "", None, 6, True, "+-2h", "+367d", "+999999d"]
)
def test_what_is_no_deadline_is_refused(rule: object) -> None:
    with pytest.raises(BadDefinition):
        parse_deadline(rule)


def test_a_chunk_is_expected_at_once_or_within_a_year() -> None:
    assert [parse_expected(rule) for rule in (True, "6h", 90, "366d")] == [0.0, 21600.0, 90.0, 366 * 86400.0]


@pytest.mark.parametrize("rule", [False, None, "", "+6h", -5, [1], {}, "367d", "999999d", 1e308, float("inf"), 10**400])
def test_what_says_nothing_of_when_a_chunk_is_expected_is_refused(rule: object) -> None:
    with pytest.raises(BadDefinition):
        parse_expected(rule)


@pytest.mark.parametrize(
    ("partition", "dataid", "rule", "moment"),
    [
        ("day", "2026-11-14", "06:00", "2026-11-15 06:00"),
        ("day", "2026-11-14", "00:00", "2026-11-15 00:00"),
        ("day", "2026-11-14", "+2h", "2026-11-15 02:00"),
        ("day", "2026-12-31", "06:00", "2027-01-01 06:00"),
        ("month", "2026-11", "06:00", "2026-12-01 06:00"),
        ("month", "2026-12", "+3d", "2027-01-04 00:00"),
        ("year", "2026", "06:00", "2027-01-01 06:00"),
        ("hour", "2026-11-14T05", "06:00", "2026-11-14 06:00"),
        ("hour", "2026-11-14T06", "06:00", "2026-11-15 06:00"),
        ("hour", "2026-11-14T23", "06:00", "2026-11-15 06:00"),
        ("hour", "2026-11-14T07", "+30m", "2026-11-14 08:30"),
    ],
)
def test_a_chunk_is_due_after_the_end_of_its_period(partition: str, dataid: str, rule: str, moment: str) -> None:
    for zone in (UTC, BERLIN, NEW_YORK):
        expected = datetime.fromisoformat(moment).replace(tzinfo=zone)
        assert due(Partition(partition), dataid, parse_deadline(rule), zone) == expected


def test_on_the_day_that_clocks_go_forward_the_day_is_an_hour_shorter() -> None:
    """In Berlin, 02:00 becomes 03:00 on 2026-03-29."""
    day = Partition("day")
    end = end_of_period(day, "2026-03-29", BERLIN)
    assert end - end_of_period(day, "2026-03-28", BERLIN) == timedelta(hours=23)
    # The deadline of the 28th falls on the morning of the change: 06:00 summer time is 04:00 UTC.
    assert due(day, "2026-03-28", parse_deadline("06:00"), BERLIN) == datetime(2026, 3, 29, 4, tzinfo=UTC)
    # Two hours after the end are two hours, whatever the clocks show.
    assert due(day, "2026-03-28", parse_deadline("+4h"), BERLIN) == datetime(2026, 3, 29, 3, tzinfo=UTC)
    # 02:30 does not exist on that day: as if the clocks had not been changed yet, which is 03:30 by the new ones.
    skipped = due(day, "2026-03-28", parse_deadline("02:30"), BERLIN)
    assert skipped == datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    assert skipped.astimezone(BERLIN).strftime("%H:%M") == "03:30"


def test_on_the_day_that_clocks_go_back_the_first_of_two_times_counts() -> None:
    """In Berlin, 03:00 becomes 02:00 on 2026-10-25."""
    day = Partition("day")
    assert end_of_period(day, "2026-10-25", BERLIN) - end_of_period(day, "2026-10-24", BERLIN) == timedelta(hours=25)
    assert due(day, "2026-10-24", parse_deadline("06:00"), BERLIN) == datetime(2026, 10, 25, 5, tzinfo=UTC)
    assert due(day, "2026-10-24", parse_deadline("02:30"), BERLIN) == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert due(day, "2026-10-24", parse_deadline("+4h"), BERLIN) == datetime(2026, 10, 25, 2, tzinfo=UTC)


def test_hours_around_a_change_of_clocks_end_when_the_next_one_begins() -> None:
    hour = Partition("hour")
    # 02 is skipped in spring: 01 ends, and 03 begins, at 01:00 UTC.
    assert end_of_period(hour, "2026-03-29T01", BERLIN) == datetime(2026, 3, 29, 1, tzinfo=UTC)
    assert end_of_period(hour, "2026-03-29T02", BERLIN) == datetime(2026, 3, 29, 1, tzinfo=UTC)
    # 02 comes twice in autumn and is over when 03 begins.
    assert end_of_period(hour, "2026-10-25T02", BERLIN) == datetime(2026, 10, 25, 2, tzinfo=UTC)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York", "Pacific/Kiritimati"])
@pytest.mark.parametrize("rule", ["00:00", "23:59", "+1s", "+366d"])
def test_at_the_ends_of_the_calendar_nothing_is_due(zone: str, rule: str) -> None:
    for partition, dataid in (
        ("hour", "0001-01-01T00"),
        ("hour", "9999-12-31T22"),
        ("hour", "9999-12-31T23"),
        ("day", "9998-12-31"),
        ("day", "9999-12-31"),
        ("month", "9999-11"),
        ("year", "9998"),
        ("year", "9999"),
    ):
        moment = due(Partition(partition), dataid, parse_deadline(rule), time_zone(zone))
        # What is due there all the same can be shown in every zone.
        assert moment is None or 1 < moment.year < 9999
    assert due(Partition("day"), "9999-12-31", parse_deadline(rule), time_zone(zone)) is None


def test_deadlines_of_following_days_follow_one_another() -> None:
    day, rule = Partition("day"), parse_deadline("02:30")
    days = [f"2026-{month}-{number:02d}" for month in ("03", "10") for number in range(20, 31)]
    for zone in (BERLIN, NEW_YORK):
        moments = [moment for each in days if (moment := due(day, each, rule, zone))]
        assert len(moments) == len(days)
        assert moments == sorted(set(moments))
