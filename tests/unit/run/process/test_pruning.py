"""Logs that are too old or too many go by themselves, and nothing else does."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from opendataflow.run.process.logs import LogFile
from opendataflow.run.process.pruning import prune

STAMP = ".pruned"
SMALL = 64 * 1024


def new(folder: Path, runid: str = "7", **options) -> LogFile:
    return LogFile(folder, **{"jobid": "job", "dataid": "2025-11-12", "epoch": 3, "runid": runid, **options})


def age(path: Path, days: float) -> None:
    when = time.time() - days * 86400
    os.utime(path, (when, when))


def old_log(folder: Path, runid: str, days: float, size: int = 1000, **ids: str) -> Path:
    with new(folder, runid, **ids) as log:
        log.write(b"x" * (size - log.path.stat().st_size))
    age(log.path, days)
    return log.path


def test_old_logs_are_pruned_and_empty_folders_with_them(tmp_path: Path) -> None:
    old, young = old_log(tmp_path, "1", 31, jobid="a"), old_log(tmp_path, "2", 29, jobid="b")
    assert prune(tmp_path) == 1
    assert not old.parent.exists()
    assert young.exists()


def test_the_oldest_go_until_the_rest_is_small_enough(tmp_path: Path) -> None:
    paths = [old_log(tmp_path, str(number), 10 - number) for number in range(5)]
    assert prune(tmp_path, keep_bytes=2500) == 3
    assert [path.exists() for path in paths] == [False, False, False, True, True]
    assert prune(tmp_path, keep_bytes=None, keep_days=None) == 0
    assert prune(tmp_path, keep_bytes=0) == 2
    assert prune(tmp_path / "none") == 0


def test_a_log_in_use_and_foreign_files_are_never_pruned(tmp_path: Path) -> None:
    with new(tmp_path, limit=SMALL) as log:
        log.write(b"a line\n" * 40_000)  # shortened: it must be protected as a new file, too
        os.utime(log.path, (0, 0))
        (tmp_path / "job" / "notes.txt").write_text("mine")
        (tmp_path / "job" / "link.log").symlink_to(tmp_path / "job" / "notes.txt")
        (tmp_path / "top.log").write_text("mine")
        (tmp_path / "job" / "access.log").write_text("somebody else's")
        age(tmp_path / "job" / "access.log", 400)
        (tmp_path / "elsewhere").symlink_to(tmp_path / "job")
        assert prune(tmp_path, keep_bytes=0, keep_days=0) == 0
    assert prune(tmp_path, keep_bytes=0, keep_days=0) == 1
    assert sorted(os.listdir(tmp_path / "job")) == ["access.log", "link.log", "notes.txt"]


def test_what_a_crash_left_half_shortened_is_pruned(tmp_path: Path) -> None:
    path = old_log(tmp_path, "1", 40)
    os.rename(path, f"{path}.new")
    assert prune(tmp_path) == 1


def test_a_log_that_could_not_even_begin_is_pruned(tmp_path: Path) -> None:
    path = old_log(tmp_path, "1", 40)
    os.truncate(path, 0)
    age(path, 40)
    assert prune(tmp_path) == 1


def test_whoever_writes_a_log_prunes_once_a_day(tmp_path: Path) -> None:
    first = old_log(tmp_path, "1", 40)
    new(tmp_path, "2").close()
    assert first.exists(), "it was pruned today already"
    age(tmp_path / STAMP, 1.1)
    new(tmp_path, "3").close()
    assert sorted(path.name for path in (tmp_path / "job").iterdir()) == ["2025-11-12.3.2.log", "2025-11-12.3.3.log"]


def test_a_stamp_from_the_future_does_not_stop_the_pruning(tmp_path: Path) -> None:
    first = old_log(tmp_path, "1", 40)
    age(tmp_path / STAMP, -400)
    new(tmp_path, "2").close()
    assert not first.exists()


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_folder_in_which_no_stamp_can_be_made_is_no_trouble(tmp_path: Path) -> None:
    new(tmp_path, "1").close()
    (tmp_path / STAMP).unlink()
    tmp_path.chmod(0o500)
    new(tmp_path, "2").close()
    tmp_path.chmod(0o700)
    assert not (tmp_path / STAMP).exists()
