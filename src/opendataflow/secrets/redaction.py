"""Redaction: secrets leave no trace in texts and streams."""

from __future__ import annotations

import base64
import html
import json
import re
from bisect import bisect_right
from collections.abc import Iterable
from urllib.parse import quote, quote_plus

from .key import Key, passphrase_of, to_bytes

REDACTED = "[redacted]"

_SHORT = 4


class Redactor:
    """Removes secrets, by value and in their usual encodings, from texts and from one stream of bytes.

    A secret shorter than four characters is removed only where it stands as a whole word, since it would otherwise
    shred every text; an empty one is ignored. Overlapping secrets are removed together as one. One Redactor per stream.
    """

    def __init__(self, secrets: Iterable[str | Key]) -> None:
        forms: set[bytes] = set()
        words: set[bytes] = set()
        for secret in secrets:
            raw = passphrase_of(secret) if isinstance(secret, Key) else to_bytes(secret)
            text = raw.decode("utf-8", "surrogateescape")
            (words if len(text) < _SHORT else forms).update(_encodings(text, raw))
        words -= forms
        branches = {form: re.escape(form) for form in forms}
        branches |= {word: rb"(?<!\w)" + re.escape(word) + rb"(?!\w)" for word in words}
        longest_first = [branches[form] for form in sorted(branches, key=lambda form: (-len(form), form))]
        self._pattern = re.compile(b"|".join(longest_first)) if longest_first else None
        # A word is decided only by the byte after it, so for holding back it is one byte longer.
        self._awaited = sorted([*forms, *(word + b" " for word in words)])
        self._longest = max(map(len, self._awaited), default=1)
        self._first_bytes = {form[0] for form in self._awaited}
        # _data[:_start] is shown already, _data[_start:_done] lies under a mark shown already, the rest is held back.
        self._data, self._start, self._done = b"", 0, 0

    def redact(self, text: str) -> str:
        """Return the text with every secret replaced; leaves the stream alone."""
        # Surrogates that no environment could hold must not make a log line fail.
        errors = "surrogatepass" if re.search("[\ud800-\udc7f\udd00-\udfff]", text) else "surrogateescape"
        data = text.encode("utf-8", errors)
        return self._scan(data, 0, 0, len(data))[0].decode("utf-8", errors)

    def feed(self, chunk: bytes) -> bytes:
        """Return what can be shown so far, holding back only a tail that may turn out to begin a secret."""
        data = self._data + chunk
        hold = self._hold_from(data)
        shown, done = self._scan(data, self._start, self._done, hold)
        # The last byte shown stays as what a whole word looks back at.
        cut = max(hold - 1, 0)
        self._data, self._start, self._done = data[cut:], hold - cut, done - cut
        return shown

    def flush(self) -> bytes:
        """Return what was held back, and begin anew."""
        shown, _ = self._scan(self._data, self._start, self._done, len(self._data))
        self._data, self._start, self._done = b"", 0, 0
        return shown

    def _hold_from(self, data: bytes) -> int:
        """Where the earliest tail begins that more bytes could make a secret."""
        for start in range(max(self._start, len(data) - self._longest + 1), len(data)):
            if data[start] in self._first_bytes:
                tail = data[start:]
                after = bisect_right(self._awaited, tail)
                if after < len(self._awaited) and self._awaited[after].startswith(tail):
                    return start
        return len(data)

    def _scan(self, data: bytes, start: int, done: int, hold: int) -> tuple[bytes, int]:
        """Redact data[done:hold], and tell how far that reaches, which is past hold if a secret does."""
        out: list[bytes] = []
        # Searching on from the next byte, not from the end of the match, finds secrets that overlap.
        while self._pattern and (match := self._pattern.search(data, start)) and match.start() < hold:
            if match.start() >= done:
                out += data[done : match.start()], REDACTED.encode()
            done = max(done, match.end())
            start = match.start() + 1
        out.append(data[done:hold])
        return b"".join(out), max(done, hold)


def _encodings(text: str, raw: bytes) -> set[bytes]:
    """The value itself and the ways in which programs commonly print it."""
    quoted = {quote(raw, safe=""), quote(raw), quote_plus(raw)}
    quoted |= {re.sub("%..", lambda escape: escape[0].lower(), form) for form in quoted}
    encoded = {base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode()}
    encoded |= {form.rstrip("=") for form in encoded}
    escaped = {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], repr(text)[1:-1], html.escape(text)}
    # Three ways of a shell: Python's and POSIX quotes, and the backslashes of printf %q.
    shell = {text.replace("'", "'\"'\"'"), text.replace("'", "'\\''"), re.sub(r"([^\w@%+=:,./-])", r"\\\1", text)}
    return ({raw} | {to_bytes(form) for form in quoted | encoded | escaped | shell}) - {b""}
