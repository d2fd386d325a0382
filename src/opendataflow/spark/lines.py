"""Lines: whether a text file has one that is too long to be held in memory, also inside of what is compressed.

Spark holds a whole line, and 3 MB of gzip can be one line of 3 GB: the application is out of memory, with every chunk
that it is working on. What is compressed must be unpacked to know it, block by block. What is not is looked at only here
and there: a line that is too long covers a whole window between two of these looks.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import IO, NamedTuple

import pyarrow as pa

from .. import files
from ..errors import InvalidPath, NotValidated
from ..files.listing import filesystem_at
from ..model import Dataset, ManifestFile
from ..model.size import bytes_of
from .formats import CSV, JSON, TEXT, declared_options, format_of

DEFAULT_MAX_LINE = "64MiB"

_BLOCK = 1 << 20
_LOOK = 1 << 14


class _Codec(NamedTuple):
    arrow: str  # its name where Arrow can unpack it
    ratio: int  # how many bytes one byte can become


# How Hadoop tells what is compressed.
_CODECS = {
    ".gz": _Codec("gzip", 1032),
    ".deflate": _Codec("gzip", 1032),
    ".bz2": _Codec("bz2", 1 << 20),
    ".zst": _Codec("zstd", 1 << 20),
    ".lz4": _Codec("", 255),
    ".snappy": _Codec("", 22),
}
_PLAIN = _Codec("", 1)


class _File(NamedTuple):
    path: str
    bytes: int
    mtime: float | None
    limit: int

    @property
    def codec(self) -> _Codec:
        return _CODECS.get(os.path.splitext(self.path)[1], _PLAIN)


_good: dict[_File, None] = {}  # what was looked at already: a chunk is read more than once
_MOST_GOOD = 10_000


def check_files(dataset: Dataset, location: str | list[str]) -> None:
    """Refuse local files that Spark should not touch: what is no regular file, and text with lines that are too long."""
    is_text = format_of(dataset) in (CSV, JSON, TEXT)
    for one in [location] if isinstance(location, str) else location:
        if not one.startswith("/"):
            continue
        listed = files.list_files(one)
        if listed is None:  # Spark would take the path for a pattern, and read what it matches
            raise InvalidPath(f"dataset {dataset.datasetid}: nothing is at {one}")
        if listed and is_text:
            _check_lines(dataset, one, listed)


def _check_lines(dataset: Dataset, location: str, listed: tuple[ManifestFile, ...]) -> None:
    limit = bytes_of(dataset.options.get("max_line", DEFAULT_MAX_LINE), f"dataset {dataset.datasetid}: max_line")
    is_one = os.path.isfile(location)
    paths = ((location if is_one else os.path.join(location, file.path), file) for file in listed)
    found = [_File(path, file.bytes, file.mtime, limit) for path, file in paths]
    # A file that cannot become longer than a line may be is not even opened.
    new = [file for file in found if file.bytes * file.codec.ratio > limit and file not in _good]
    if not new:
        return
    ends = _separators(dataset)
    with ThreadPoolExecutor(min(len(new), os.cpu_count() or 1)) as threads:
        for file, problem in zip(new, threads.map(lambda file: _problem(file, ends), new), strict=True):
            if problem:
                threads.shutdown(cancel_futures=True)
                raise NotValidated(
                    f"dataset {dataset.datasetid}: {file.path}: {problem}",
                    hint="If it is right, allow longer lines on the dataset and give Spark the memory for them: "
                    f'max_line = "{4 * limit >> 20 or 1}MiB"',
                )
    if len(_good) > _MOST_GOOD:
        _good.clear()
    _good.update(dict.fromkeys(new))


def _separators(dataset: Dataset) -> tuple[bytes, ...]:
    options = {name.lower(): value for name, value in declared_options(dataset).items()}
    declared = options.get("linesep")
    encoding = options.get("encoding") or options.get("charset") or "utf-8"
    try:
        return tuple(text.encode(encoding) for text in ((declared,) if declared else ("\n", "\r")))
    except (LookupError, UnicodeError):
        return (b"\n", b"\r")  # Spark says what it thinks of such an encoding


def _problem(file: _File, ends: tuple[bytes, ...]) -> str:
    """What is wrong with a file; empty for nothing."""
    with filesystem_at(file.path) as system, system.open(file.path) as raw:
        if file.codec is _PLAIN:
            is_too_long = _has_empty_window(raw, file, ends) and _has_long_line(raw, file.limit, ends)
        elif file.codec.arrow:
            try:
                with pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), file.codec.arrow) as unpacked:
                    is_too_long = _has_long_line(unpacked, file.limit, ends)
            except OSError as problem:
                return f"it cannot be unpacked: {problem}"
        else:
            return f"a line in it may be longer than {file.limit:,} bytes, and only Spark could unpack it"
    return f"a line is longer than {file.limit:,} bytes" if is_too_long else ""


def _has_empty_window(raw: IO[bytes], file: _File, ends: tuple[bytes, ...]) -> bool:
    """Whether no line ends for half as long as a line may be; cheap, since nearly always one ends right away."""
    window = max(file.limit // 2, 1)
    for start in range(0, file.bytes - window + 1, window):
        raw.seek(start)
        left = window
        while left > 0:
            block = raw.read(min(_LOOK, left))
            if not block or any(end in block for end in ends):
                break
            left -= len(block)
        else:
            raw.seek(0)
            return True
    return False


def _has_long_line(stream: IO[bytes], limit: int, ends: tuple[bytes, ...]) -> bool:
    length = 0  # of the line that has not ended yet
    size = min(_BLOCK, limit)
    while block := stream.read(size):
        first = min((at for end in ends if (at := block.find(end)) >= 0), default=-1)
        if first < 0:
            length += len(block)
        elif length + first > limit:
            return True
        else:
            length = len(block) - 1 - max(block.rfind(end) for end in ends)
        if length > limit:
            return True
    return False
