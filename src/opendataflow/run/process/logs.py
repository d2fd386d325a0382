"""Writes and reads the logs of runs: one private file each, whose middle is removed if it grows too long.

A log is plain text for `less` and `tail -F`. Its first line has a fixed length; in a shortened log it says how many bytes
are left out after which byte, so that readers can convert positions. Shortening writes a new file and renames it, so that
the path always leads to a complete log.
"""

from __future__ import annotations

import codecs
import errno
import fcntl
import os
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from ...errors import BadConfig, BadId, InvalidPath, UnknownRun, UsageError
from ...pause import pause
from ...secrets import Key, Redactor
from .pruning import KEEP_BYTES, KEEP_DAYS, MARK, NEW, prune_daily

LIMIT = 16 * 2**20
SPARK_UI = "Spark UI: "  # prefix of the log line with the address of the Spark UI

_SMALLEST = 64 * 1024  # the header must always fit into the quarter that is kept
_LONGEST_NAME = 250  # file systems allow 255 bytes; a log that is being shortened has a 4-byte suffix
_FIRST = MARK + rb": (\d{15}) bytes left out after byte (\d{15})\n"
_FULL = (errno.ENOSPC, errno.EDQUOT)


def log_path(folder: str | os.PathLike[str], *, jobid: str, dataid: str, epoch: int, runid: str) -> Path:
    """The path of the log of a run: `<folder>/<jobid>/<dataid>.<epoch>.<runid>.log`."""
    from ...model.definitions.ids import check_id  # lazy: imports the model

    job, data, run = check_id("job", jobid), check_id("chunk", dataid), check_id("run", runid)
    name = f"{data}.{int(epoch)}.{run}.log"
    if len(name) > _LONGEST_NAME:
        raise BadId(f"dataid and run are too long for the name of a log: {len(name)} characters")
    # Defence in depth: the grammar of ids forbids this already.
    if os.sep in job + name or job in (os.curdir, os.pardir):
        raise BadId(f"the log of run {run} would lie outside {folder}")
    return (folder if isinstance(folder, Path) else Path(folder)).joinpath(job, name)


def log_of(folder: str | os.PathLike[str], path: str) -> Path:
    """The log at the path in the store, which must lie in the log folder: the store cannot open other files."""
    real = "" if "\0" in path else os.path.realpath(path)
    if real and not os.path.exists(real):  # the project folder may have been moved
        moved = os.path.realpath(os.path.join(folder, *Path(path).parts[-2:]))
        real = moved if os.path.exists(moved) else real
    is_log = real.startswith(os.path.realpath(folder) + "/") and real.endswith(".log")
    if not is_log or (os.path.exists(real) and not os.path.isfile(real)):
        raise InvalidPath(
            f"{path} is not a log in {os.fspath(folder)}",
            hint="Run the command in the project and on the machine of the run. odf runs shows its owner.",
        )
    return Path(real)


class LogFile:
    """The log of one run, written by one thread; errors of the log do not fail the job.

    `failed` is the error that ended the log, or None. `write` takes bytes that are already redacted, with one Redactor from
    `redactor()` per stream; all other text is redacted here. `secrets` may grow while the log is open.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        jobid: str,
        dataid: str,
        epoch: int,
        runid: str,
        attempt: int = 1,
        secrets: Sequence[str | Key] = (),
        limit: int = LIMIT,
    ) -> None:
        self.path = log_path(folder, jobid=jobid, dataid=dataid, epoch=epoch, runid=runid)
        self.failed: OSError | None = None
        self._secrets = secrets
        self._facts = {"run": runid, "job": jobid, "dataid": dataid, "epoch": str(epoch), "attempt": str(attempt)}
        self._limit = max(limit, _SMALLEST)
        self._quarter = self._limit // 4
        self._size = self._body = self._left_out = self._gap_at = 0
        self._mid_line = False
        self._unwritten = b""
        self._handle = -1
        try:
            self._handle = _create(folder, self.path)
            self._append(_first_line(0, 0))
        except OSError as error:
            if error.errno not in _FULL:
                raise BadConfig(f"no log can be written to {self.path.parent}: {error.strerror}") from None
            self._cut(error)
        self._body = self._size
        prune_daily(folder)

    def redactor(self) -> Redactor:
        """A new Redactor of this run's secrets, for one stream."""
        return Redactor(self._secrets)

    def begin(self, argv: Sequence[str], cwd: str | os.PathLike[str]) -> None:
        """Write the header: the run, its chunk, the command and the start time."""
        command = shlex.join(self._redact(word) for word in argv)
        facts = {**self._facts, "started": _now(), "argv": command, "cwd": os.fspath(cwd)}
        self._write_text("".join(f"# {name:<8} {_one_line(self._redact(value))}\n" for name, value in facts.items()))
        self._body = self._size

    def write(self, data: bytes) -> None:
        """Append output of the job, which must be redacted already."""
        if self.failed is not None or self._handle < 0 or not data:
            return
        try:
            for start in range(0, len(data), self._quarter):
                part = data[start : start + self._quarter]
                if self._size + len(part) > self._limit:
                    self._shorten()
                self._append(part)
        except OSError as error:
            self._cut(error)

    def note(self, text: str) -> None:
        """Append a remark, on separate lines that begin with `#`."""
        self._write_text("".join(f"# {line}\n" for line in self._redact(text).splitlines()))

    def end(self, verdict: str) -> None:
        """Write the footer: the result and the end time."""
        self.note(f"ended    {_now()}: {verdict}")

    def close(self) -> None:
        """Close the file; afterwards it may be pruned."""
        if self._handle >= 0:
            handle, self._handle = self._handle, -1
            with suppress(OSError):
                os.close(handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _redact(self, text: str) -> str:
        return self.redactor().redact(text) if self._secrets else text

    def _write_text(self, text: str) -> None:
        data = ("\n" * self._mid_line + text).encode("utf-8", "replace")
        if self.failed is None:
            self.write(data)
        else:
            self._force(data)

    def _append(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            # Not O_APPEND: _force must be able to overwrite the end of the file on a full disk.
            count = os.pwrite(self._handle, rest, self._size)
            self._size += count
            rest = rest[count:]
        self._mid_line = not data.endswith(b"\n")

    def _cut(self, error: OSError) -> None:
        self.failed = error
        self._force(f"\n# the log is cut here: {error.strerror}\n".encode())

    def _force(self, data: bytes) -> None:
        """Append, or overwrite the end if the disk is full."""
        self._unwritten += data
        if self._handle < 0:
            return
        try:
            self._append(data)
        except OSError:
            start = max(self._body, self._size - len(self._unwritten))
            with suppress(OSError):
                os.pwrite(self._handle, self._unwritten[: self._size - start], start)
        self._mid_line = False

    def _shorten(self) -> None:
        """Replace the log by a new file with its first and last quarter."""
        tail_at = self._line_after(self._size - self._quarter)
        if self._gap_at:
            left_out, gap_at = self._left_out + tail_at - self._gap_at - GAP_LENGTH, self._gap_at
        else:
            gap_at = self._line_after(max(self._quarter, self._body))
            left_out = tail_at - gap_at
        new = self.path.with_name(self.path.name + NEW)
        old_handle, old_size = self._handle, self._size
        handle = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        try:
            _lock(handle)
            self._handle, self._size = handle, 0
            self._append(_first_line(left_out, gap_at))
            self._copy(old_handle, self._size, gap_at)
            self._append(_gap(left_out))
            self._copy(old_handle, tail_at, old_size)
            os.replace(new, self.path)
        except BaseException:
            self._handle, self._size = old_handle, old_size
            with suppress(OSError):
                os.close(handle)
            with suppress(OSError):
                os.unlink(new)
            raise
        self._left_out, self._gap_at = left_out, gap_at
        os.close(old_handle)

    def _copy(self, source: int, start: int, end: int) -> None:
        while start < end and (data := os.pread(source, min(end - start, 2**20), start)):
            self._append(data)
            start += len(data)

    def _line_after(self, offset: int) -> int:
        """The offset of the first line at or after this offset, or the offset itself if no line begins within 4 KiB."""
        line_end = os.pread(self._handle, 4096, offset).find(b"\n")
        return offset + line_end + 1


def read(path: str | os.PathLike[str]) -> Iterator[str]:
    """The lines of a log with their line ends; a line of more than 64 KiB is split."""
    try:
        with open(path, encoding="utf-8", errors="replace", newline="\n") as file:
            while piece := file.readline(65536):
                yield piece
    except FileNotFoundError:
        raise no_log(path) from None


def tail(path: str | os.PathLike[str], most: int = 65536) -> str:
    """The last whole lines of a log, up to `most` bytes."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - most, 0))
        data = file.read(most)
    if size > most:
        data = data.partition(b"\n")[2] or data
    return data.decode("utf-8", "replace").replace("\0", "")


def follow(path: str | os.PathLike[str], is_over: Callable[[], bool], *, poll: float = 0.2) -> Iterator[str]:
    """The text of a growing log, in pieces that need not be whole lines, until the run is over."""
    while not os.path.exists(path):
        if is_over() and not os.path.exists(path):
            raise no_log(path)
        pause(poll)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    file, gap_at, left_out = _reopen(path)
    try:
        while True:
            over, idle = is_over(), True
            while data := file.read(65536):
                idle = False
                yield decoder.decode(data)
            if not _same(path, file):
                # The old file is final now; read what was written before the rename.
                while data := file.read(65536):
                    yield decoder.decode(data)
                seen = file.tell()
                seen += left_out - GAP_LENGTH if gap_at else 0
                file.close()
                file, gap_at, left_out = _reopen(path)
                file.seek(gap_at if seen < gap_at + left_out else seen - left_out + GAP_LENGTH if gap_at else seen)
            elif over:
                break
            elif idle:
                pause(poll)
    finally:
        file.close()
    if rest := decoder.decode(b"", final=True):
        yield rest


def _create(folder: str | os.PathLike[str], path: Path) -> int:
    for _ in range(10):
        if os.path.islink(os.path.dirname(path)):
            raise BadConfig(f"{path.parent} points outside the log folder")
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        except FileNotFoundError:  # the job has no folder, or its folder was just pruned
            Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
            path.parent.mkdir(mode=0o700, exist_ok=True)
            continue
        except FileExistsError:
            raise UsageError(f"the log exists already: {path}") from None
        _lock(handle)
        return handle
    raise BadConfig(f"{path.parent} is removed repeatedly")


def _lock(handle: int) -> None:
    # Held while this process lives, so that pruning skips the log. File systems without locks rely on the age alone.
    with suppress(OSError):
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)


def gap_of(file: BinaryIO) -> tuple[int, int]:
    """The offset in a log at which bytes are left out, and their number; 0 and 0 if none are."""
    first = re.match(_FIRST, os.pread(file.fileno(), 256, 0))
    return (int(first[2]), int(first[1])) if first else (0, 0)


def _reopen(path: str | os.PathLike[str]) -> tuple[BinaryIO, int, int]:
    file = open(path, "rb", buffering=0)  # noqa: SIM115 - follow closes it
    return file, *gap_of(file)


def _same(path: str | os.PathLike[str], file: BinaryIO) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(file.fileno()))
    except FileNotFoundError:
        return True  # removed: there is no newer file


def _first_line(left_out: int, gap_at: int) -> bytes:
    line = MARK + b": %015d bytes left out after byte %015d\n" % (left_out, gap_at)
    return line if left_out else MARK.ljust(len(line) - 1) + b"\n"


def _gap(left_out: int) -> bytes:
    return f"\n… {left_out:15d} bytes left out …\n".encode()


GAP_LENGTH = len(_gap(0))  # of the line that stands for removed bytes


def _now() -> str:
    from ...model.moment import written  # lazy: imports the model

    return written(datetime.now(UTC))


def _one_line(text: str) -> str:
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text[:4001])
    return shown if len(shown) <= 4000 else shown[:4000] + "…"


def no_log(path: str | os.PathLike[str]) -> UnknownRun:
    """The error for a log that does not exist."""
    kept = f"Logs are kept for {KEEP_DAYS:.0f} days, the newest {KEEP_BYTES // 2**30} GiB of them"
    return UnknownRun(f"there is no log {os.fspath(path)}", hint=f"{kept}. The store keeps the runs themselves.")
