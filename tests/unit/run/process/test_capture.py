"""What job code prints and logs is in the log of its own run."""

from __future__ import annotations

import logging
import sys
import threading
from pathlib import Path

import pytest

from opendataflow.run.process.capture import captured_output
from opendataflow.run.process.logs import LogFile


def log_of(tmp_path: Path, dataid: str) -> LogFile:
    return LogFile(tmp_path, jobid="job", dataid=dataid, epoch=1, runid=dataid, secrets=["sesame"])


def test_runs_that_speak_at_the_same_time_are_heard_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = threading.Barrier(2)

    def speak(dataid: str) -> None:
        with log_of(tmp_path, dataid) as log, captured_output(log, is_shown=False):
            both.wait(240)
            print("printed by", dataid, "ses", end="")
            print("ame")
            print("to stderr by", dataid, file=sys.stderr)
            logging.getLogger("mine").info("logged by %s", dataid)
            logging.getLogger("py4j").info("of no interest")
            both.wait(240)

    threads = [threading.Thread(target=speak, args=(dataid,)) for dataid in ("1", "2")]
    for thread in threads:
        thread.start()
    print("said by nobody in particular")
    for thread in threads:
        thread.join()
    assert capsys.readouterr() == ("said by nobody in particular\n", "")
    for own, other in (("1", "2"), ("2", "1")):
        text = (tmp_path / f"job/{own}.1.{own}.log").read_text()
        for words in (f"printed by {own} [redacted]\n", f"to stderr by {own}\n", f"INFO mine: logged by {own}\n"):
            assert words in text
        assert f"by {other}" not in text
        assert "of no interest" not in text
    assert logging.getLogger().level == logging.WARNING


def test_a_run_that_is_watched_is_heard_on_the_terminal_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with log_of(tmp_path, "1") as log, captured_output(log, is_shown=True):
        print("open sesame")
    assert capsys.readouterr().out == "open [redacted]\n"
