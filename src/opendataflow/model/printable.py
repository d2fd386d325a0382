"""Printable: text that others wrote, without what could steer the terminal that shows it."""

from __future__ import annotations

import re

# C0 but tab and newline, DEL and C1, marks and overrides of direction, line separators, half surrogates.
_UNPRINTABLE = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"


def clean(text: str) -> str:
    """The text without what could steer a terminal: control characters, and those that turn the direction of writing."""
    return text if text.isprintable() else re.sub(_UNPRINTABLE, "", text)


def one_line(text: object) -> str:
    """The same for text that must not begin a line of its own."""
    return clean(" ".join(str(text).split("\n")).replace("\t", " "))


def visible(text: str) -> str:
    """The text with what could steer a terminal shown instead: an escape is ␛, others are \\u202e and the like."""
    return re.sub(_UNPRINTABLE, _shown, text.replace("\r\n", "\n"))


def _shown(found: re.Match[str]) -> str:
    number = ord(found[0])
    if number < 0x20:
        return chr(0x2400 + number)
    return "␡" if number == 0x7F else f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"
