"""Clean untrusted text of control characters and of characters that no store can hold."""

from __future__ import annotations

import re

from ..errors import InvalidPath

# C0 except tab and newline, DEL and C1, direction marks and overrides, line separators, lone surrogates.
_UNPRINTABLE = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"


# A lone surrogate as JSON escapes it, also in JSON inside JSON; a surrogate pair is a valid character.
_HALF_IN_JSON = r"(\\+ud[89ab][0-9a-f]{2}\\+ud[c-f][0-9a-f]{2})|(\\+)ud[89a-f][0-9a-f]{2}"


def storable(text: str) -> str:
    """Text or JSON with U+FFFD for each byte that was not UTF-8: stores cannot hold lone surrogates."""
    if not text.isascii():
        text = re.sub(r"[\ud800-\udfff]", "\ufffd", text)
    if "\\ud" in text and text.startswith(("[", "{")):
        text = re.sub(_HALF_IN_JSON, lambda found: found[1] or f"{found[2]}ufffd", text)
    return text


def check_utf8(path: str) -> None:
    """Refuse a path that is not UTF-8: a manifest or store could not hold it."""
    try:
        path.encode()
    except UnicodeEncodeError:
        raise InvalidPath(f"the name {path!r} is not UTF-8", hint="Rename the file or folder.") from None


def clean(text: str) -> str:
    """The text without control characters and characters that change the writing direction."""
    return text if text.isprintable() else re.sub(_UNPRINTABLE, "", text)


def one_line(text: object) -> str:
    """Like `clean`, and without line breaks."""
    return clean(" ".join(str(text).split("\n")).replace("\t", " "))


def visible(text: str) -> str:
    """The text with control characters made visible: an escape is ␛, others are \\u202e and the like."""
    return re.sub(_UNPRINTABLE, _shown, text.replace("\r\n", "\n"))


def _shown(found: re.Match[str]) -> str:
    number = ord(found[0])
    if number < 0x20:
        return chr(0x2400 + number)
    return "␡" if number == 0x7F else f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"
