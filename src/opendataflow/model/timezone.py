"""Time zones by name: the only lookup there is."""

from __future__ import annotations

from datetime import UTC, tzinfo
from functools import cache

from ..errors import BadDefinition
from .ids import shown


@cache
def time_zone(name: str, where: str = "") -> tzinfo:
    """The time zone of this name; BadDefinition, with who asks for it, when there is none."""
    if name == "UTC":
        return UTC
    from zoneinfo import ZoneInfo  # here, since few need another zone and all import the model

    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        problem = f"{where}{': ' if where else ''}there is no time zone {shown(name)}"
        raise BadDefinition(problem, hint="Write for instance Europe/Paris.") from None
