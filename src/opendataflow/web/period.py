"""Periods in addresses: times as people write them, in the project's zone, and links to the periods beside one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from ..model.moment import moved, parse_moment
from .site import Site

_TICK = timedelta(microseconds=1)


class Period(NamedTuple):
    """One end of an address or the other, as it was written, and the moments that are meant."""

    since: str
    until: str
    begin: datetime | None
    end: datetime | None


class Beside(NamedTuple):
    """A link to another period."""

    words: str
    since: str
    until: str


def period_of(site: Site, since: str, until: str) -> Period:
    """The period that an address names; BAD_TIME when it names none."""
    now = datetime.now(UTC)
    begin = parse_moment(since, now, site.zone) if since.strip() else None
    end = parse_moment(until, now, site.zone, end=True) if until.strip() else None
    return Period(since.strip(), until.strip(), begin, end)


def beside(site: Site, since: datetime, until: datetime) -> Iterator[Beside]:
    """The periods of the same length before and after one; nothing comes after now."""
    length, following = until - since, moved(until, _TICK)
    yield Beside("Earlier", written(site, moved(since, -length)), written(site, since, end=True))
    if until + timedelta(seconds=1) < datetime.now(UTC):
        yield Beside("Later", written(site, following), written(site, moved(until, length), end=True))


def written(site: Site, moment: datetime, *, end: bool = False) -> str:
    """A moment as an address has it; as an end, where a second is meant to its end, so that it is read back as it was."""
    local = moment.astimezone(site.zone)
    if local.second == local.microsecond == 0:
        return local.strftime("%Y-%m-%dT%H:%M")
    return (moved(local, -_TICK) if end else local).strftime("%Y-%m-%dT%H:%M:%S")
