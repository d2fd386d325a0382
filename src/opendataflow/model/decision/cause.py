"""Reduce failure messages to keys that are equal for equal causes."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..printable import clean

ANYTHING = "#"  # replaces each removed part
_MOST = 2000  # characters of a message: later parts of a traceback do not distinguish causes

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
    """A message without numbers, ids, dates, locations, quoted names, hex and the given names.

    Two failures have the same cause if their keys are equal.
    """
    key = clean(text or "")[:_MOST]
    key = _QUOTED.sub(ANYTHING, key)
    key = _LOCATION.sub(_kept_end, key)
    key = _without(key, names)
    key = _WITH_DIGITS.sub(_kept_end, key)
    key = _HEX.sub(ANYTHING, key)
    return _MANY.sub(ANYTHING, " ".join(key.split()))


def _kept_end(found: re.Match[str]) -> str:
    """The full stop or colon at the end of a removed part is kept."""
    end = _ENDS.search(found[0])
    return ANYTHING + (end[0] if end else "")


def _without(text: str, names: Iterable[str]) -> str:
    """The text without these names where they are separate words."""
    words = sorted({name for name in names if name and name in text}, key=len, reverse=True)
    if not words:
        return text
    return re.sub(rf"(?<![\w.=-])(?:{'|'.join(map(re.escape, words))})(?![\w=-]|\.\w)", ANYTHING, text)
