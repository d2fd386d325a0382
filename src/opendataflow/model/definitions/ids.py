"""Check the ids of datasets, jobs, dataids and pools."""

from __future__ import annotations

import re

from ...errors import BadId

ID_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._=-]{0,127}"

_is_id = re.compile(ID_PATTERN).fullmatch


def is_id(value: str) -> bool:
    """Whether a text is a valid id."""
    return _is_id(value) is not None


def shown(value: object, width: int = 60) -> str:
    """The repr of a value for a message, shortened."""
    text = repr(value[: width + 1]) if isinstance(value, str) else repr(value)
    return text if len(text) <= width else text[: width - 1] + "…"


def check_id(what: str, value: object) -> str:
    """The value if it is a valid id; BadId otherwise."""
    if isinstance(value, str) and _is_id(value):
        return value
    raise BadId(
        f"{shown(value)} cannot be {'a dataid' if what in ('data', 'dataid') else f'the id of a {what}'}",
        hint="An id consists of 1 to 128 letters (A-Z a-z), digits and . _ = - and begins with a letter or a digit.",
    )
