"""Lists the encodings in which programs print a secret."""

from __future__ import annotations

import base64
import html
import json
import re
from functools import lru_cache
from html.entities import codepoint2name
from urllib.parse import quote, quote_plus

from .key import to_bytes

_percent = re.compile("%..")
_odd = re.compile(r"[^\x00-\x7f]")
_not_plain = re.compile(r"[^A-Za-z0-9]")
_any = re.compile(r".", re.DOTALL)
_marked = re.compile(r"""[&<>"']""")
_NUMBERS = ("&#{:d};", "&#x{:x};", "&#x{:X};")


@lru_cache(maxsize=1024)
def forms_of(text: str, raw: bytes, *, is_short: bool = False) -> frozenset[bytes]:
    """The secret itself and its common encodings.

    For a short secret, leave out encodings that could match a number or part of any other text.
    """
    quoted = {quote(raw, safe=""), quote(raw), quote_plus(raw)}
    quoted |= {_percent.sub(lambda escape: escape[0].lower(), form) for form in quoted}
    encoded = {base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode()}
    encoded |= {form.rstrip("=") for form in encoded}
    escaped = {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], repr(text)[1:-1]}
    # Three ways of a shell: Python's and POSIX quotes, and the backslashes of printf %q.
    shell = {text.replace("'", "'\"'\"'"), text.replace("'", "'\\''"), re.sub(r"([^\w@%+=:,./-])", r"\\\1", text)}
    doubled = {text.replace("'", "''"), text.replace('"', '""')}
    forms = quoted | encoded | escaped | shell | doubled | set(_entities(text))
    if not is_short:
        forms |= {raw.hex(), raw.hex().upper(), *_inside_base64(raw)}
    return frozenset({raw} | {to_bytes(form) for form in forms}) - {b""}


def _inside_base64(raw: bytes) -> set[str]:
    """The base64 characters of a secret inside a longer text, such as user:password, for each of the 3 offsets."""
    found = set()
    for before in range(3):
        # The characters that hold bits of the secret alone.
        first, end = (before * 8 + 5) // 6, (before + len(raw)) * 8 // 6
        padded = bytes(before) + raw
        found |= {encode(padded).decode()[first:end] for encode in (base64.b64encode, base64.urlsafe_b64encode)}
    return found


def _entities(text: str) -> set[str]:
    """HTML and XML entities: by name if the character has one, by number, and every character by number."""
    escaped = html.escape(text)
    forms = {escaped.replace("&#x27;", mark) for mark in ("&#x27;", "&#39;", "&apos;", "'")}
    forms |= {html.escape(text, quote=False)}
    forms |= {_odd.sub(_named, form) for form in forms}
    for number in _NUMBERS:
        forms |= {_numbered(_odd, number, form) for form in forms}
        forms |= {_numbered(which, number, text) for which in (_marked, _not_plain, _any)}
    return forms


def _numbered(which: re.Pattern[str], number: str, text: str) -> str:
    return which.sub(lambda found: number.format(ord(found[0])), text)


def _named(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"&{codepoint2name[code]};" if code in codepoint2name else f"&#{code};"
