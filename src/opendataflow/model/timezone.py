"""Look up time zones by name."""

from __future__ import annotations

from datetime import UTC, tzinfo
from functools import cache

from ..errors import BadDefinition
from .definitions.ids import shown


@cache
def time_zone(name: str, where: str = "") -> tzinfo:
    """The time zone of this name; BadDefinition, prefixed by `where`, if it does not exist."""
    if name == "UTC":
        return UTC
    from zoneinfo import ZoneInfo  # imported here: only few zones need it

    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        problem = f"{where}{': ' if where else ''}there is no time zone {shown(name)}"
        raise BadDefinition(problem, hint="Write for instance Europe/Paris.") from None
