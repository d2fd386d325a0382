"""Parse durations: 90s, 15m, 36h, 7d."""

from __future__ import annotations

import re
import sys

from ..errors import BadDefinition
from .definitions.ids import shown
from .plain import within

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
PATTERN = r"([0-9]{1,9}(?:\.[0-9]{1,6})?) ?([smhdw])"


def seconds(duration: object, where: str = "") -> float:
    """The seconds of a duration; a plain number is in seconds."""
    if isinstance(duration, (int, float)) and not isinstance(duration, bool) and 0 < duration <= sys.float_info.max:
        return float(duration)
    parts = re.fullmatch(PATTERN, duration) if isinstance(duration, str) else None
    length = float(parts[1]) * _SECONDS[parts[2]] if parts else 0.0
    if length > 0:
        return length
    raise BadDefinition(
        f"{within(where)}{shown(duration)} is not a duration", hint="Write for instance 90s, 15m, 36h or 7d."
    )
