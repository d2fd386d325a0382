"""Parse sizes: 512KiB, 64MiB, 2GiB."""

from __future__ import annotations

import re

from ..errors import BadDefinition
from .definitions.ids import shown

_BYTES = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_is_written = re.compile(r"([0-9]{1,12}) ?(|B|KiB|MiB|GiB)").fullmatch


def bytes_of(size: object, where: str) -> int:
    """The bytes of a size; a plain number is in bytes."""
    if is_size(size):
        parts = _is_written(str(size))
        return int(parts[1]) * _BYTES[parts[2]] if parts else 0
    raise BadDefinition(f"{where}: {shown(size)} is not a size", hint="Write for instance 512KiB, 64MiB or 2GiB.")


def is_size(value: object) -> bool:
    """Whether a value is a size of at least one byte."""
    if not isinstance(value, (str, int)) or isinstance(value, bool):
        return False
    parts = _is_written(str(value))
    return parts is not None and int(parts[1]) > 0
