"""Reads parts of a log: a page, the last lines, or the lines that contain a text.

A position counts every byte that was ever written, including bytes that were removed later, so it denotes the same line
before and after the log is shortened.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator
from types import TracebackType
from typing import NamedTuple, Self

from .logs import GAP_LENGTH, gap_of, no_log

_BLOCK = 2**20
_LONGEST_LINE = 65536  # a longer line is split
_MOST_COUNTED = 64 * 2**20  # bytes in which lines are numbered
_AROUND = 200  # characters on each side of a match


class LogPart(NamedTuple):
    """Lines of a log: their start and end positions, the size of the log, and the number of the first line."""

    text: str
    start: int
    end: int
    size: int
    line: int | None  # None beyond the numbered part


class Match(NamedTuple):
    """One matching line."""

    line: int
    position: int
    text: str


class LogMatches(NamedTuple):
    """The matching lines, and whether the whole log was searched."""

    matches: tuple[Match, ...]
    is_all: bool


def part(path: str | os.PathLike[str], position: int, most: int = 65536) -> LogPart:
    """Whole lines from a position, up to `most` bytes; a longer or unfinished line is split."""
    with _Log(path) as log:
        start = min(log.offset(max(position, 0)), log.size)
        data = log.read(start, most)
        if start + len(data) < log.size and b"\n" in data:
            data = data[: data.rindex(b"\n") + 1]
        if start < log.gap_at < start + len(data) < log.gap_at + GAP_LENGTH:
            data = data[: log.gap_at - start]  # do not split the line that stands for removed bytes
        return log.part(start, data)


def lines_before(path: str | os.PathLike[str], position: int, most: int) -> LogPart:
    """The whole lines that end at a position, up to `most` bytes."""
    with _Log(path) as log:
        end = min(log.offset(max(position, 0)), log.size)
        start = max(end - most, 0)
        data = log.read(start, end - start)
        if start:
            start += data.find(b"\n") + 1
            data = data[data.find(b"\n") + 1 :]
        return log.part(start, data)


def last_lines(path: str | os.PathLike[str], lines: int, most: int = 65536) -> LogPart:
    """The last lines of a log, up to `most` bytes."""
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


def search(path: str | os.PathLike[str], text: str, n: int, most: int = _MOST_COUNTED) -> LogMatches:
    """The first n lines that contain a text, ignoring case, in the first `most` bytes of a log."""
    pattern, found = text.lower(), []
    with _Log(path) as log:
        for number, offset, data in log.lines(most):
            line = data.decode("utf-8", "replace")
            at = line.lower().find(pattern)
            if at >= 0:
                found.append(Match(number, log.position(offset), _around(line.rstrip("\n"), at, len(pattern))))
                if len(found) == n:
                    return LogMatches(tuple(found), is_all=False)
        return LogMatches(tuple(found), log.size <= most)


def _around(line: str, at: int, length: int) -> str:
    low, high = max(at - _AROUND, 0), at + length + _AROUND
    return "…" * (low > 0) + line[low:high] + "…" * (high < len(line))


class _Log:
    """An open log with its size at that time."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        try:
            # The caller has resolved links and seen a regular file; do not follow or block on a replacement.
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            raise no_log(path) from None
        self._file = open(handle, "rb", buffering=0)  # noqa: SIM115 - closed by __exit__
        self.size = os.fstat(handle).st_size
        self.gap_at, self._left_out = gap_of(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    def offset(self, position: int) -> int:
        """The file offset of a position."""
        if not self.gap_at or position < self.gap_at:
            return position
        if position < self.gap_at + self._left_out:
            return self.gap_at
        return position - self._left_out + GAP_LENGTH

    def position(self, offset: int) -> int:
        """The position of a file offset."""
        if not self.gap_at or offset <= self.gap_at:
            return offset
        return max(offset - GAP_LENGTH, self.gap_at) + self._left_out

    def read(self, offset: int, most: int) -> bytes:
        """Up to `most` bytes; none that were written after the log was opened."""
        return os.pread(self._file.fileno(), max(min(most, self.size - offset), 0), offset)

    def part(self, offset: int, data: bytes) -> LogPart:
        """These bytes as text, without an incomplete character at the end."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        text = decoder.decode(data)
        rest = len(decoder.getstate()[0])
        if rest and rest == len(data):
            text, rest = decoder.decode(b"", final=True), 0
        end = offset + len(data) - rest
        return LogPart(text, self.position(offset), self.position(end), self.position(self.size), self._number(offset))

    def lines(self, most: int) -> Iterator[tuple[int, int, bytes]]:
        """The number, file offset and bytes of each line in the first `most` bytes."""
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
