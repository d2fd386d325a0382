"""Periods in addresses: times as people write them, in the project's zone, and links to the periods beside one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from ..model.moment import moved, parse_moment
from ..shapes import NamedTuple
from .site import Site


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
    length = until - since
    yield Beside("Earlier", written(site, moved(since, -length)), written(site, since))
    if until + timedelta(seconds=1) < datetime.now(UTC):
        yield Beside("Later", written(site, until), written(site, moved(until, length)))


def written(site: Site, moment: datetime) -> str:
    """A moment as an address has it."""
    return moment.astimezone(site.zone).strftime("%Y-%m-%dT%H:%M:%S")
