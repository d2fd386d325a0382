"""Redacts secrets in texts and streams, as written and in their usual encodings."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from ..tokens import REDACTED, secrets_in
from .key import Key, passphrase_of, to_bytes

_SHORT = 4
_HEAD = 6  # bytes of each form in the search pattern; a false match is rare
# Base64 and hex are wrapped after at least this many characters; prose has no such lines. Compiled when needed.
_FULL_LINE = 48
_LINE = rb"[A-Za-z0-9+/=_-]{%d}" % _FULL_LINE
_WRAP = rb"\n(?:(?<=%s\n)|(?<=%s\r\n))" % (_LINE, _LINE)
_HALF_A_WRAP = rb"%s\r\Z" % _LINE


class Redactor:
    """Removes secrets, by value and in their usual encodings, from texts and from one stream of bytes.

    A secret shorter than four characters is removed only as a whole word, and an empty secret is ignored. Overlapping
    secrets are removed together. Use one Redactor per stream.
    """

    def __init__(self, secrets: Iterable[str | Key]) -> None:
        forms: set[bytes] = set()
        words: set[bytes] = set()
        for secret in secrets:
            from .encodings import forms_of  # lazy: most processes know no secret

            raw = passphrase_of(secret) if isinstance(secret, Key) else to_bytes(secret)
            text = raw.decode("utf-8", "surrogateescape")
            if len(text) < _SHORT:
                words |= forms_of(text, raw, is_short=True)
            else:
                forms |= forms_of(text, raw)
        self._words = words - forms
        self._by_first: dict[int, list[bytes]] = {}
        for form in sorted(forms | words, key=len, reverse=True):
            self._by_first.setdefault(form[0], []).append(form)
        shortest = min((len(form[:_HEAD]) for form in forms | words), default=0)
        # One byte class per position is ten times as fast as the forms themselves, which are compared only after a match.
        self._pattern = re.compile(b"".join(_class(forms | words, at) for at in range(shortest))) if shortest else None
        # The byte after a short secret decides whether it is a whole word, so one more byte is held back.
        self._awaited = sorted([*forms, *(word + b" " for word in self._words)])
        self._longest = max(map(len, self._awaited), default=1)
        first, *others = (_class(self._awaited, at) for at in range(4))
        self._begins = rb"%s(?=\Z|%s(?:\Z|%s(?:\Z|%s)))" % (first, *others)
        # _data[:_start] is written already, _data[_start:_done] is redacted already, the rest is held back.
        self._data, self._start, self._done = b"", 0, 0

    def redact(self, text: str) -> str:
        """Return the text with every secret replaced; does not affect the stream."""
        # Any surrogate may occur in a log line; encoding it must not fail.
        errors = "surrogatepass" if re.search("[\ud800-\udc7f\udd00-\udfff]", text) else "surrogateescape"
        data = text.encode("utf-8", errors)
        return self._scan(data, 0, 0, len(data))[0].decode("utf-8", errors)

    def feed(self, chunk: bytes) -> bytes:
        """Return the redacted bytes so far, except a tail that may be the beginning of a secret."""
        if not self._awaited:
            return chunk
        data = self._data + chunk
        hold = self._hold_from(data)
        shown, done = self._scan(data, self._start, self._done, hold)
        # Keep the last written bytes as context for whole words and wrapped lines.
        cut = max(hold - _FULL_LINE - 1, 0)
        self._data, self._start, self._done = data[cut:], hold - cut, done - cut
        return shown

    def flush(self) -> bytes:
        """Return the bytes that were held back, and reset the stream."""
        if not self._data:
            return b""
        shown, _ = self._scan(self._data, self._start, self._done, len(self._data))
        self._data, self._start, self._done = b"", 0, 0
        return shown

    def _hold_from(self, data: bytes) -> int:
        """The offset of the first tail that further bytes could complete to a secret."""
        hold = self._tail_from(data, self._start)
        unwrapped = _unwrapped(data, has_more=True)
        if unwrapped is None:
            return hold
        tail = self._tail_from(unwrapped.data, unwrapped.inner(self._start))
        return hold if tail == len(unwrapped.data) else min(hold, unwrapped.outer(tail))

    def _tail_from(self, data: bytes, start: int) -> int:
        for match in re.compile(self._begins).finditer(data, max(start, len(data) - self._longest + 1)):
            tail = data[match.start() :]
            after = bisect_right(self._awaited, tail)
            if after < len(self._awaited) and self._awaited[after].startswith(tail):
                return match.start()
        return len(data)

    def _scan(self, data: bytes, start: int, done: int, hold: int) -> tuple[bytes, int]:
        """Redact data[done:hold]; return it and the offset of its end, which is past hold if a secret crosses hold."""
        spans: Iterable[tuple[int, int]] = self._spans(data, start, hold)
        if (unwrapped := _unwrapped(data)) is not None:
            inside = self._spans(unwrapped.data, unwrapped.inner(start), unwrapped.inner(hold))
            spans = sorted([*spans, *((unwrapped.outer(begin), unwrapped.outer(end - 1) + 1) for begin, end in inside)])
        out: list[bytes] = []
        for begin, end in spans:
            if begin >= done:
                out += data[done:begin], REDACTED.encode()
            done = max(done, end)
        out.append(data[done:hold])
        return b"".join(out), max(done, hold)

    def _spans(self, data: bytes, start: int, hold: int) -> Iterator[tuple[int, int]]:
        """The spans of secrets that begin before hold, in order."""
        # Continuing at the next byte, not at the end of the match, finds overlapping secrets.
        while self._pattern and (match := self._pattern.search(data, start)) and (begin := match.start()) < hold:
            start = begin + 1
            for form in self._by_first[data[begin]]:
                end = begin + len(form)
                if data.startswith(form, begin) and (form not in self._words or _stands_alone(data, begin, end)):
                    yield begin, end
                    break


class _Unwrapped:
    """Data without the ends of wrapped lines, and the original offsets of its bytes."""

    def __init__(self, data: bytes, breaks: list[tuple[int, int]]) -> None:
        self._breaks = breaks
        parts, at, removed = [], 0, 0
        self._inner = []  # the offset of each break in the unwrapped data
        for begin, end in breaks:
            parts.append(data[at:begin])
            self._inner.append(begin - removed)
            at, removed = end, removed + end - begin
        self.data = b"".join([*parts, data[at:]])

    def inner(self, at: int) -> int:
        """The offset of a byte in the unwrapped data; for a byte of a break, that of the next byte."""
        return at - sum(min(at, end) - begin for begin, end in self._breaks if begin < at)

    def outer(self, at: int) -> int:
        """The original offset of a byte of the unwrapped data."""
        before = bisect_right(self._inner, at)
        return at + sum(end - begin for begin, end in self._breaks[:before])


def _unwrapped(data: bytes, *, has_more: bool = False) -> _Unwrapped | None:
    """The data without the ends of wrapped lines; None if no line is wrapped."""
    breaks = [(at - data.startswith(b"\r", at - 1), at + 1) for at in map(re.Match.start, re.finditer(_WRAP, data))]
    # A line that ends with a carriage return may still be a wrapped line.
    if has_more and data.endswith(b"\r") and re.search(_HALF_A_WRAP, data[-_FULL_LINE - 1 :]):
        breaks.append((len(data) - 1, len(data)))
    return _Unwrapped(data, breaks) if breaks else None


def _class(forms: Iterable[bytes], at: int) -> bytes:
    """A pattern for the bytes that any of these forms has at an offset; it never matches if there are none."""
    found = {re.escape(form[at : at + 1]) for form in forms} - {b""}
    return b"[%s]" % b"".join(sorted(found)) if found else b"(?!)"


def _stands_alone(data: bytes, begin: int, end: int) -> bool:
    return not re.match(rb"\w", data[begin - 1 : begin]) and not re.match(rb"\w", data[end : end + 1])


class Hidden:
    """The secrets that a process must not print; every decrypted secret is added."""

    def __init__(self, secrets: Iterable[str | Key] = ()) -> None:
        self.secrets: list[str | Key] = []
        self._made = 0, Redactor(())  # the number of secrets it covers; another thread may add a secret at any time
        for secret in secrets:
            self.add(secret)

    def add(self, secret: str | Key) -> None:
        """Redact this secret from now on."""
        if secret and secret not in self.secrets:
            self.secrets.append(secret)

    def add_address(self, address: str) -> None:
        """Redact every secret of this address from now on."""
        for secret in secrets_in(address):
            self.add(secret)

    def redact(self, text: str) -> str:
        """The text with every secret redacted."""
        if not self.secrets:
            return text
        count, redactor = self._made
        if count != len(self.secrets):
            known = list(self.secrets)
            redactor = Redactor(known)
            self._made = len(known), redactor
        return redactor.redact(text)
