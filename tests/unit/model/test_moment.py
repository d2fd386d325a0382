"""Moments as people write them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from opendataflow.errors import BadTime
from opendataflow.model.moment import parse_moment, parse_past
from opendataflow.model.timezone import time_zone

PARIS = time_zone("Europe/Paris")
NOW = datetime(2026, 11, 14, 2, 30, tzinfo=UTC)  # 03:30 in Paris


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("now", "2026-11-14T03:30+01:00"),
        ("2026-11-14", "2026-11-14T00:00+01:00"),
        ("2026-07-14", "2026-07-14T00:00+02:00"),
        ("2026-11-14T03:00", "2026-11-14T03:00+01:00"),
        ("2026-11-14 03:00:05", "2026-11-14T03:00:05+01:00"),
        ("2026-11-14T03:00Z", "2026-11-14T03:00+00:00"),
        ("2026-11-14 03:00:05 CET", "2026-11-14T03:00:05+01:00"),
        ("2026-10-25 02:30 CEST", "2026-10-25T02:30+02:00"),
        ("2026-10-25 02:30 CET", "2026-10-25T02:30+01:00"),
        ("2026-11-14 CET", "2026-11-14T00:00+01:00"),
        ("2026-10-25 CEST", "2026-10-25T00:00+02:00"),
        ("2026-10-25 CET", "2026-10-25T00:00+02:00"),
        ("03:00", "2026-11-14T03:00+01:00"),
        ("3:00", "2026-11-14T03:00+01:00"),
        ("23:30", "2026-11-13T23:30+01:00"),
        ("03:00:05 CET", "2026-11-14T03:00:05+01:00"),
        ("23:30 CET", "2026-11-13T23:30+01:00"),
        ("2026-11-14 CET 03:00:05", "2026-11-14T03:00:05+01:00"),
        ("2026-10-25 CEST 02:30:00", "2026-10-25T02:30+02:00"),
        ("2026-10-25 CET 02:30:00", "2026-10-25T02:30+01:00"),
        ("2h", "2026-11-14T01:30+01:00"),
        ("90m ago", "2026-11-14T02:00+01:00"),
        ("3d", "2026-11-11T03:30+01:00"),
        ("today", "2026-11-14T00:00+01:00"),
        (" yesterday ", "2026-11-13T00:00+01:00"),
    ],
)
def test_a_moment_is_meant_in_the_zone_of_the_project(text: str, moment: str):
    assert parse_moment(text, NOW, PARIS).timestamp() == datetime.fromisoformat(moment).timestamp()


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-14", "2026-11-15T00:00+01:00"),
        ("yesterday", "2026-11-14T00:00+01:00"),
        ("2026-11-14T03:00", "2026-11-14T03:00+01:00"),
        ("2h", "2026-11-14T01:30+01:00"),
        ("2026-11-14 03:00:05 CET", "2026-11-14T03:00:05.999999+01:00"),
        ("2026-11-14T03:00:05Z", "2026-11-14T03:00:05.999999+00:00"),
        ("02:00:05", "2026-11-14T02:00:05.999999+01:00"),
        ("02:00:05 CET", "2026-11-14T02:00:05.999999+01:00"),
        ("2026-11-14 CET 02:00:05", "2026-11-14T02:00:05.999999+01:00"),
        ("2026-11-14 03:00:05.25", "2026-11-14T03:00:05.25+01:00"),
        ("2026-11-14 CET", "2026-11-15T00:00+01:00"),
    ],
)
def test_a_day_or_second_can_be_meant_to_its_end(text: str, moment: str):
    assert parse_moment(text, NOW, PARIS, end=True) == datetime.fromisoformat(moment)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "soon",
        "2026-13-01",
        "25:00",
        "2026-11",
        "0h",
        "-2h",
        "9999999999d",
        "999999999w",
        "2026-11-14T",
        "3",
        "2026-11-14 03:00 EST",
        "2026-11-14 EST",
        "03:00 EST",
        "2026-11-14 EST 03:00",
    ],
)
def test_what_is_no_moment_is_named(text: str):
    with pytest.raises(BadTime) as problem:
        parse_moment(text, NOW, PARIS)
    assert "yesterday" in problem.value.hint


@pytest.mark.parametrize(
    "text", ["0001-01-01", "0001-01-01T00:00+14:00", "9999-12-31T23:00-12:00", "9999-12-31T23:00Z"]
)
@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
def test_a_moment_that_does_not_exist_in_every_zone_is_none(zone: str, text: str):
    with pytest.raises(BadTime):
        parse_moment(text, NOW, time_zone(zone))


@pytest.mark.parametrize("text", ["0001-01-03", "9999-12-29", "738000d"])
@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
def test_any_other_moment_can_be_told_in_every_zone(zone: str, text: str):
    moment = parse_moment(text, NOW, time_zone(zone))
    for other in ("UTC", "Pacific/Kiritimati", "Etc/GMT+12"):
        assert moment.astimezone(time_zone(other)) == moment


def test_a_look_back_at_a_second_sees_all_of_it() -> None:
    now = NOW.replace(second=7, microsecond=300_000)
    assert parse_past("2026-11-14 02:30:06 UTC", now, PARIS) == now.replace(second=6, microsecond=999_999)
    assert parse_past("2026-11-14 02:30:07 UTC", now, PARIS) == now, "as far as it has come"
    assert parse_past("2026-11-14", now, PARIS) == datetime(2026, 11, 14, tzinfo=PARIS)
    with pytest.raises(BadTime, match="in the future"):
        parse_past("2026-11-14 02:30:08 UTC", now, PARIS)
