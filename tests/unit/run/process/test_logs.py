"""A log is private, bounded, readable at every moment, and never in the way of the job."""

from __future__ import annotations

import errno
import os
import re
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from opendataflow.errors import BadConfig, BadId, InvalidPath, UnknownRun, UsageError
from opendataflow.run.process import logs
from opendataflow.run.process.logs import LogFile, follow, log_of, log_path, read

SECRET = "hunter2-S3cret"
SMALL = 64 * 1024


def new(folder: Path, runid: str = "7", **options) -> LogFile:
    return LogFile(folder, **{"jobid": "job", "dataid": "2025-11-12", "epoch": 3, "runid": runid, **options})


def lines(count: int, begin: int = 0) -> bytes:
    return b"".join(b"line %08d\n" % number for number in range(begin, begin + count))


def test_a_log_lies_where_its_ids_say_and_is_private(tmp_path: Path) -> None:
    with new(tmp_path / "deep" / "logs") as log:
        pass
    assert log.path == tmp_path / "deep/logs/job/2025-11-12.3.7.log"
    assert [stat.S_IMODE(p.stat().st_mode) for p in (log.path, log.path.parent, log.path.parent.parent)] == [
        0o600,
        0o700,
        0o700,
    ]
    assert log.failed is None


@pytest.mark.parametrize(
    "bad", ["..", "../x", "/etc", "a/b", "", "-x", ".hidden", "a\0b", "a\nb", "x" * 129, "\u202eabc"]
)
@pytest.mark.parametrize("which", ["jobid", "dataid", "runid"])
def test_no_id_leads_out_of_the_folder(tmp_path: Path, which: str, bad: str) -> None:
    with pytest.raises(BadId):
        new(tmp_path / "logs", **{which: bad})
    assert not (tmp_path / "logs").exists()


def test_ids_too_long_for_a_file_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadId):
        log_path(tmp_path, jobid="j", dataid="d" * 128, epoch=1, runid="r" * 128)


def test_a_link_in_place_of_a_folder_or_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "logs/job").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadConfig):
        new(tmp_path / "logs")
    (tmp_path / "logs/other").mkdir()
    (tmp_path / "logs/other/2025-11-12.3.7.log").symlink_to(tmp_path / "target")
    with pytest.raises(UsageError):
        new(tmp_path / "logs", jobid="other")
    assert not list((tmp_path / "elsewhere").iterdir())
    assert not (tmp_path / "target").exists()


def test_a_run_has_one_log(tmp_path: Path) -> None:
    with new(tmp_path), pytest.raises(UsageError):
        new(tmp_path)


def test_a_folder_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadConfig) as caught:
        new(tmp_path / "file")
    assert str(tmp_path / "file") in caught.value.message


def test_header_notes_and_footer(tmp_path: Path) -> None:
    with new(tmp_path, attempt=2, secrets=[SECRET]) as log:
        log.begin(["bash", "a b", f"--pw={SECRET}", "two\nlines\x1b[31m"], "/tmp")
        log.write(b"out, no end of line")
        log.note(f"two\nnotes {SECRET}")
        log.end("exit code 0")
    text = log.path.read_text()
    assert SECRET not in text
    assert re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d( UTC|[+-]\d\d:\d\d)", "NOW", text).splitlines()[1:] == [
        "# run      7",
        "# job      job",
        "# dataid   2025-11-12",
        "# epoch    3",
        "# attempt  2",
        "# started  NOW",
        r"# argv     bash 'a b' '--pw=[redacted]' 'two\nlines\x1b[31m'",
        "# cwd      /tmp",
        "out, no end of line",
        "# two",
        "# notes [redacted]",
        "# ended    NOW: exit code 0",
    ]
    log.write(b"after the end")
    log.note("after the end")
    assert log.path.read_text() == text


def test_an_endless_command_line_is_shortened(tmp_path: Path) -> None:
    with new(tmp_path) as log:
        log.begin(["\x01" * 1_000_000], "/tmp")
    assert log.path.stat().st_size < 10_000


def test_a_log_is_written_at_once(tmp_path: Path) -> None:
    with new(tmp_path) as log:
        log.write(b"half a li")
        assert log.path.read_text().endswith("half a li")


@pytest.mark.parametrize("piece", [37, 1000, SMALL * 3])
def test_a_long_log_keeps_its_beginning_and_its_end(tmp_path: Path, piece: int) -> None:
    whole = lines(40_000)
    with new(tmp_path, limit=SMALL) as log:
        log.begin(["cmd"], "/")
        head = log.path.stat().st_size
        for start in range(0, len(whole), piece):
            log.write(whole[start : start + piece])
            assert log.path.stat().st_size <= SMALL
        log.end("exit code 0")
    text = log.path.read_text()
    kept, _, last = text.partition("\n…")
    gap, _, tail = last.partition("…\n")
    left_out = int(re.findall(r"\d+", gap)[0])
    body = kept[head:]
    tail, _, footer = tail.partition("# ended")
    assert footer
    assert whole.startswith(body.encode())
    assert whole.endswith(tail.encode())
    assert body.endswith("\n")
    assert tail.startswith("line ")
    assert len(body) + left_out + len(tail) == len(whole)
    assert len(body) > SMALL / 5 < len(tail)
    assert text.startswith(f"# odf log: {left_out:015d} bytes left out after byte {len(kept):015d}\n")
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600
    assert os.listdir(log.path.parent) == [log.path.name]


def test_a_log_says_that_something_is_left_out_only_when_it_is(tmp_path: Path) -> None:
    with new(tmp_path, limit=SMALL) as log:
        log.write(lines(10))
        whole = log.path.read_text()
        assert whole.partition("\n")[0].rstrip() == "# odf log"
        assert "left out" not in whole
        log.write(lines(6000, 10))
    first, _, rest = log.path.read_text().partition("\n")
    assert len(first) == len(whole.partition("\n")[0])
    assert re.fullmatch(r"# odf log: \d{15} bytes left out after byte \d{15}", first)
    assert rest.startswith("line 00000000\n")


def test_a_long_log_without_line_ends_is_bounded_too(tmp_path: Path) -> None:
    with new(tmp_path, limit=SMALL) as log:
        for _ in range(50):
            log.write("ü".encode() * 10_000)
    assert log.path.stat().st_size <= SMALL
    assert "".join(read(log.path)).count("ü") > 20_000


# -- a full disk -------------------------------------------------------------------------------------------------------


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch):
    """A disk that is full from a given byte of each file on; what is written already can be overwritten."""
    real, room = os.pwrite, [10**9]

    def pwrite(handle: int, data: memoryview | bytes, offset: int) -> int:
        fits = room[0] - offset
        if fits <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(handle, data[:fits], offset)

    monkeypatch.setattr(os, "pwrite", pwrite)
    return room


def test_a_full_disk_cuts_the_log_and_the_footer_still_appears(tmp_path: Path, disk: list[int]) -> None:
    with new(tmp_path) as log:
        log.begin(["cmd"], "/")
        disk[0] = 2000
        log.write(lines(1000))
        assert log.failed
        assert log.failed.errno == errno.ENOSPC
        log.write(lines(1000))
        log.note("a note")
        log.end("exit code 3 after 1 s")
    text = log.path.read_text()
    assert len(text) == 2000
    assert re.search(
        r"# the log is cut here: No space left on device\n# a note\n# ended .*exit code 3 after 1 s\n$", text
    )
    assert "# argv     cmd" in text


def test_a_log_that_cannot_even_begin_does_not_stop_the_job(tmp_path: Path, disk: list[int], monkeypatch) -> None:
    disk[0] = 0
    with new(tmp_path) as log:
        assert log.failed
        log.begin(["cmd"], "/")
        log.write(b"x")
        log.end("exit code 0")

    def mkdir(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", mkdir)
    with new(tmp_path / "new", "8") as log:
        log.begin(["cmd"], "/")
        log.write(b"x")
        log.end("exit code 0")
    assert log.failed
    assert not log.path.exists()


def test_no_room_to_shorten_cuts_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def replace(*_: object) -> None:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr(os, "replace", replace)
    with new(tmp_path, limit=SMALL) as log:
        for number in range(100):
            log.write(lines(100, number * 100))
        log.end("exit code 0")
    assert log.failed
    assert re.search(r"cut here: Disk quota exceeded\n# ended .*: exit code 0\n$", log.path.read_text())
    assert os.listdir(log.path.parent) == [log.path.name]


@pytest.mark.skipif(os.getuid() != 0, reason="mounting a small disk needs root")
def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(tmp_path)], capture_output=True
    ).returncode:
        pytest.skip("no right to mount")
    try:
        with new(tmp_path / "logs") as log:
            log.begin(["cmd"], "/")
            for number in range(500):
                log.write(lines(100, number * 100))
            log.end("exit code 3")
        assert log.failed
        assert log.failed.errno == errno.ENOSPC
        assert re.search(r"the log is cut here: No space.*\n# ended .*exit code 3\n$", log.path.read_text())
        with new(tmp_path / "logs", "8") as other:
            other.end("exit code 0")
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


# -- reading -----------------------------------------------------------------------------------------------------------


def test_reading_gives_lines_and_bounded_pieces_of_endless_ones(tmp_path: Path) -> None:
    with new(tmp_path) as log:
        log.write(b"one\r\n\xff two\n" + b"x" * 200_000)
    found = list(read(log.path))[1:]
    assert found[:2] == ["one\r\n", "\ufffd two\n"]
    assert [len(piece) for piece in found[2:]] == [65536, 65536, 65536, 200_000 - 3 * 65536]


def test_a_log_that_is_not_there_is_an_unknown_run(tmp_path: Path) -> None:
    with pytest.raises(UnknownRun):
        list(read(tmp_path / "no.log"))
    with pytest.raises(UnknownRun):
        list(follow(tmp_path / "no.log", lambda: True))


def test_following_shows_what_is_written_until_the_run_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = log_path(tmp_path, jobid="job", dataid="2025-11-12", epoch=3, runid="7")
    over: list[bool] = []

    def writing() -> Iterator[None]:
        yield  # the follower came before the log
        with new(tmp_path) as log:
            for byte in "grün\n".encode() * 20:
                log.write(bytes([byte]))
                yield
            log.write(b"the end")
            over.append(True)

    writer = writing()
    monkeypatch.setattr(logs, "pause", lambda seconds: next(writer, None))
    seen = list(follow(path, lambda: bool(over)))
    assert "".join(seen) == path.read_text()
    assert len(seen) == 1 + 20 * len("grün\n".encode())


@pytest.mark.parametrize("at_once", [10, 100])
def test_following_keeps_its_position_when_the_log_is_shortened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    log = new(tmp_path, limit=SMALL)
    begins = iter(range(0, 30_000, at_once * 10))
    over: list[bool] = []

    def write_more(seconds: float) -> None:
        begin = next(begins, None)
        if begin is None:
            over.append(True)
        else:
            for part in range(at_once):
                log.write(lines(10, begin + part * 10))

    monkeypatch.setattr(logs, "pause", write_more)  # not time.sleep: other threads call that too
    text = "".join(follow(log.path, lambda: bool(over)))
    log.close()
    numbers = [int(number) for number in re.findall(r"^line (\d{8})$", text, re.M)]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == 29_999
    assert at_once == 100 or numbers == list(range(30_000)), "who reads in time misses nothing"


def test_following_a_log_that_is_removed_ends_when_the_run_does(tmp_path: Path) -> None:
    with new(tmp_path) as log:
        pieces = follow(log.path, lambda: not log.path.exists(), poll=0.01)
        next(pieces)
        log.path.unlink()
        assert list(pieces) == []


def test_a_path_with_a_zero_byte_is_no_log(tmp_path: Path) -> None:
    with pytest.raises(InvalidPath):
        log_of(tmp_path, f"{tmp_path}/a\0b.log")
