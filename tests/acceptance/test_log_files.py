"""Logs while somebody writes them: a process that is killed, and readers that follow."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from opendataflow.run.process import logs
from opendataflow.run.process.logs import LogFile, follow, log_path
from opendataflow.run.process.pruning import prune

SMALL = 64 * 1024


def new(folder: Path, runid: str = "7", **options) -> LogFile:
    return LogFile(folder, **{"jobid": "job", "dataid": "2025-11-12", "epoch": 3, "runid": runid, **options})


def lines(count: int, begin: int = 0) -> bytes:
    return b"".join(b"line %08d\n" % number for number in range(begin, begin + count))


def test_a_log_of_a_killed_process_is_whole_at_every_moment(tmp_path: Path) -> None:
    code = (
        "import sys; from opendataflow.run.process.logs import LogFile\n"
        "log = LogFile(sys.argv[1], jobid='j', dataid='d', epoch=1, runid='r', limit=65536)\n"
        "while True: log.write(b'0123456789abcde\\n' * 1000)"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(logs.__file__).parents[3])}
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], env=env)
    path = tmp_path / "j/d.1.r.log"
    while not path.exists() or path.stat().st_size < SMALL / 2:
        time.sleep(0.01)
    for _ in range(200):
        assert path.read_bytes().startswith(b"# odf log")
    process.kill()
    process.wait()
    allowed = re.compile(r"# odf log.*|0123456789abcde|… +\d+ bytes left out …|")
    text = path.read_text()
    assert all(allowed.fullmatch(line) for line in text.split("\n")[:-1])
    assert prune(tmp_path, keep_bytes=0) >= 1


def test_following_shows_what_is_written_until_the_run_is_over(tmp_path: Path) -> None:
    path, over = log_path(tmp_path, jobid="job", dataid="2025-11-12", epoch=3, runid="7"), threading.Event()
    seen: list[str] = []

    def reader() -> None:
        seen.extend(follow(path, over.is_set, poll=0.01))

    thread = threading.Thread(target=reader)
    thread.start()
    time.sleep(0.05)  # the follower may come before the log
    with new(tmp_path) as log:
        for number in range(1, 21):
            for byte in "grün\n".encode():
                log.write(bytes([byte]))
                time.sleep(0.002)
            while "".join(seen).count("grün\n") < number:
                time.sleep(0.001)
        log.write(b"the end")
        over.set()
    thread.join()
    assert "".join(seen) == log.path.read_text()
    assert len(seen) > 5


@pytest.mark.parametrize("patient", [False, True])
def test_following_keeps_its_position_when_the_log_is_shortened(tmp_path: Path, patient: bool) -> None:
    over = threading.Event()
    seen: list[str] = []
    log = new(tmp_path, limit=SMALL)
    thread = threading.Thread(target=lambda: seen.extend(follow(log.path, over.is_set, poll=0.001)))
    thread.start()
    for number in range(300):
        log.write(lines(100, number * 100))
        while patient and number % 10 == 9 and f"line {number * 100 + 99:08d}" not in "".join(seen[-50:]):
            time.sleep(0.001)
    log.close()
    over.set()
    thread.join()
    numbers = [int(number) for number in re.findall(r"^line (\d{8})$", "".join(seen), re.M)]
    assert len(numbers) == len(set(numbers))
    assert numbers == sorted(numbers)
    assert numbers[-1] == 29_999
    if patient:
        assert numbers == list(range(30_000))
