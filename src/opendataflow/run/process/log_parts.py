"""Parts of a log: a page of it, its last lines, the lines that hold a text. No more is read or kept than is asked for.

A position counts every byte that was ever written, also those that were left out since: it leads to the same line
before and after the log was shortened.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from ...shapes import NamedTuple
from .logs import GAP_LENGTH, gap_of, no_log

_BLOCK = 2**20
_LONGEST_LINE = 65536  # a longer one comes in pieces
_MOST_COUNTED = 64 * 2**20  # bytes whose lines are numbered; our own logs are much shorter
_AROUND = 200  # characters on each side of what was found


class Part(NamedTuple):
    """Some lines of a log: from which position to which, where the log ends now, and the number of the first line."""

    text: str
    start: int
    end: int
    size: int
    line: int | None  # None where nobody counted so far


class Match(NamedTuple):
    """One line that holds what was looked for."""

    line: int
    position: int
    text: str


class Found(NamedTuple):
    """The lines that hold a text; is_all says whether the whole log was looked through."""

    matches: tuple[Match, ...]
    is_all: bool


def part(path: str | os.PathLike[str], position: int, most: int = 65536) -> Part:
    """Whole lines from a position on, at most so many bytes; a line that is longer, or still written, comes in pieces."""
    with _Log(path) as log:
        start = min(log.offset(max(position, 0)), log.size)
        data = log.read(start, most)
        if start + len(data) < log.size and b"\n" in data:
            data = data[: data.rindex(b"\n") + 1]
        if start < log.gap_at < start + len(data) < log.gap_at + GAP_LENGTH:
            data = data[: log.gap_at - start]  # the line that says what is left out stays whole
        return log.part(start, data)


def lines_before(path: str | os.PathLike[str], position: int, most: int) -> Part:
    """The whole lines that end at a position, at most so many bytes."""
    with _Log(path) as log:
        end = min(log.offset(max(position, 0)), log.size)
        start = max(end - most, 0)
        data = log.read(start, end - start)
        if start:
            start += data.find(b"\n") + 1
            data = data[data.find(b"\n") + 1 :]
        return log.part(start, data)


def last_lines(path: str | os.PathLike[str], lines: int, most: int = 65536) -> Part:
    """The last so many lines of a log, at most so many bytes."""
    with _Log(path) as log:
        start = max(log.size - most, 0)
        data = log.read(start, most)
        if start and b"\n" in data[:-1]:
            data = data[data.index(b"\n") + 1 :]
        at = len(data) - data.endswith(b"\n")
        for _ in range(max(lines, 1)):
            at = data.rfind(b"\n", 0, at)
            if at < 0:
                break
        data = data[at + 1 :]
        return log.part(log.size - len(data), data)


def search(path: str | os.PathLike[str], text: str, n: int, most: int = _MOST_COUNTED) -> Found:
    """The first n lines that hold a text, whatever its case, among the first bytes of a log."""
    wanted, found = text.lower(), []
    with _Log(path) as log:
        for number, offset, data in log.lines(most):
            line = data.decode("utf-8", "replace")
            at = line.lower().find(wanted)
            if at >= 0:
                found.append(Match(number, log.position(offset), _around(line.rstrip("\n"), at, len(wanted))))
                if len(found) == n:
                    return Found(tuple(found), is_all=False)
        return Found(tuple(found), log.size <= most)


def _around(line: str, at: int, length: int) -> str:
    low, high = max(at - _AROUND, 0), at + length + _AROUND
    return "…" * (low > 0) + line[low:high] + "…" * (high < len(line))


class _Log:
    """A log that is open at one moment."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        try:
            # Whoever asks has followed all links and seen a file; what was put there since is not followed or waited for.
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            raise no_log(path) from None
        self._file = open(handle, "rb", buffering=0)  # noqa: SIM115 - closed when we are left
        self.size = os.fstat(handle).st_size
        self.gap_at, self._left_out = gap_of(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    def offset(self, position: int) -> int:
        """Where in the file a position is."""
        if not self.gap_at or position < self.gap_at:
            return position
        if position < self.gap_at + self._left_out:
            return self.gap_at
        return position - self._left_out + GAP_LENGTH

    def position(self, offset: int) -> int:
        """The position of a byte of the file."""
        if not self.gap_at or offset <= self.gap_at:
            return offset
        return max(offset - GAP_LENGTH, self.gap_at) + self._left_out

    def read(self, offset: int, most: int) -> bytes:
        """At most so many bytes; none of what was written since the log was opened."""
        return os.pread(self._file.fileno(), max(min(most, self.size - offset), 0), offset)

    def part(self, offset: int, data: bytes) -> Part:
        """These bytes as text; what ends in the middle of a letter waits for the rest of it."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        text = decoder.decode(data)
        rest = len(decoder.getstate()[0])
        if rest and rest == len(data):
            text, rest = decoder.decode(b"", final=True), 0
        end = offset + len(data) - rest
        return Part(text, self.position(offset), self.position(end), self.position(self.size), self._number(offset))

    def lines(self, most: int) -> Iterator[tuple[int, int, bytes]]:
        """The number, the place in the file and the bytes of each line among the first so many bytes."""
        number, offset = 1, 0
        self._file.seek(0)
        with open(self._file.fileno(), "rb", buffering=_BLOCK, closefd=False) as buffered:
            while offset < min(most, self.size) and (data := buffered.readline(_LONGEST_LINE)):
                yield number, offset, data
                number += data.endswith(b"\n")
                offset += len(data)

    def _number(self, offset: int) -> int | None:
        if offset > _MOST_COUNTED:
            return None
        count, at = 1, 0
        while at < offset and (data := self.read(at, min(_BLOCK, offset - at))):
            count += data.count(b"\n")
            at += len(data)
        return count
