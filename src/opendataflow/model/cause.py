"""Cause: what a failure says, without what differs from chunk to chunk, so that equal causes compare equal."""

from __future__ import annotations

import re
from collections.abc import Iterable

from .printable import clean

ANYTHING = "#"  # stands for whatever was taken out
_MOST = 2000  # of a message; what a traceback repeats further down tells no cause apart

_QUOTED = re.compile(r"""(?<!\w)(?:'[^'\n]*'|"[^"\n]*"|`[^`\n]*`|‘[^’\n]*’|“[^”\n]*”|«[^»\n]*»)(?!\w)""")
_LOCATION = re.compile(
    r"""(?<![\w./~\\-])(?:
        [A-Za-z][A-Za-z0-9+.-]*://[^\s,;()\[\]<>]+      # an address
      | (?:~|\.{1,2})?/[^\s,;()\[\]<>]+                 # a path from somewhere
      | [A-Za-z]:\\[^\s,;()\[\]<>]+
      | [\w.-]+(?:/[\w.-]+)*/[\w-]+\.\w+                # a file in a folder
      | [\w.-]+(?:/[\w.-]+){2,}/?
    )""",
    re.VERBOSE,
)
_WITH_DIGITS = re.compile(r"(?<![\w./:@=+-])[\w./:@=+-]*?\d[\w./:@=+-]*")
_HEX = re.compile(r"\b[0-9a-fA-F]{8,}\b")
_ENDS = re.compile(r"[.:]+$")
_MANY = re.compile(rf"{ANYTHING}(?:[\s,;:/=@.-]+(?:and )?{ANYTHING})+")


def cause_key(text: str | None, names: Iterable[str] = ()) -> str:
    """A message without its numbers, ids, dates, locations, quoted names and hex, and without these names.

    Two failures have the same cause when their keys are equal.
    """
    key = clean(text or "")[:_MOST]
    key = _QUOTED.sub(ANYTHING, key)
    key = _LOCATION.sub(_kept_end, key)
    key = _without(key, names)
    key = _WITH_DIGITS.sub(_kept_end, key)
    key = _HEX.sub(ANYTHING, key)
    return _MANY.sub(ANYTHING, " ".join(key.split()))


def _kept_end(found: re.Match[str]) -> str:
    """What is taken out of a sentence leaves its full stop or colon."""
    end = _ENDS.search(found[0])
    return ANYTHING + (end[0] if end else "")


def _without(text: str, names: Iterable[str]) -> str:
    """The text without these names where they stand as words of their own."""
    words = sorted({name for name in names if name and name in text}, key=len, reverse=True)
    if not words:
        return text
    return re.sub(rf"(?<![\w.=-])(?:{'|'.join(map(re.escape, words))})(?![\w=-]|\.\w)", ANYTHING, text)
