"""What stops a run from outside: its script executes no further command, and its chunk goes to the next worker."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.acceptance.test_runjob import BOB, announce
from tests.support.shell import Shell, statuses

# Each of these shells would go on with its next command if its child, which is younger than all shells, died first.
_NESTED = """set +e
[ ! -e calm ] || exit 0
rm -f go
for number in 1 2 3 4 5 6 7 8; do
    sh -c 'until [ -e go ]; do sleep 0.02; done; sleep 100; touch swapped' &
done
sleep 0.1; touch go; sleep 0.2
echo $$ >> begun
bash -c 'sleep 100; touch swapped'
touch swapped"""
_TRIES = 3


@pytest.fixture(autouse=True)
def _default_sighup() -> Iterator[None]:
    """Under nohup the test session ignores SIGHUP, and its children would inherit that."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def until(condition: Callable[[], object], process: subprocess.Popen[str] | None = None) -> None:
    """Wait for a condition, as long as the process that is to bring it about lives."""
    deadline = time.monotonic() + 240
    while not condition():
        assert process is None or process.poll() is None, process and process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def begun(folder: Path, number: int = 1) -> Callable[[], bool]:
    """Whether so many scripts began."""
    file = folder / "begun"
    return lambda: file.exists() and len(file.read_text().split()) >= number


def test_a_script_whose_chunk_was_taken_over_executes_no_further_command(shell: Shell) -> None:
    shell.dml(*BOB, announce("1"))
    shell.script("loadbob.sh", _NESTED)
    for number in range(1, _TRIES + 1):
        first = shell.start("run", "--dataid", "1", "./loadbob.sh")
        until(begun(shell.folder, number), first)
        shell.dml("update datastatus set status = 'RESUBMIT' where datasetid = 'bobout'")
        shell.write("calm", "")
        shell.runjob("./loadbob.sh")
        first.communicate(timeout=240)
        assert first.returncode == 16
        assert not (shell.folder / "swapped").exists(), f"in try {number}"
        (shell.folder / "calm").unlink()
        shell.dml("update datastatus set status = 'RESUBMIT' where datasetid = 'bobout'")


def _by_cancel(shell: Shell, running: subprocess.Popen[str]) -> None:
    shell.odf("cancel", "loadbob", "1")


def _by_signal(shell: Shell, running: subprocess.Popen[str]) -> None:
    running.send_signal(signal.SIGTERM)


def _by_timeout(shell: Shell, running: subprocess.Popen[str]) -> None:
    """It comes by itself."""


def _by_kill(shell: Shell, running: subprocess.Popen[str]) -> None:
    running.kill()


@pytest.mark.parametrize("stop", [_by_cancel, _by_signal, _by_timeout, _by_kill])
def test_a_script_that_is_ended_executes_no_further_command(
    home: Shell, stop: Callable[[Shell, subprocess.Popen[str]], None]
) -> None:
    timeout = 'timeout = "2s"\n' if stop is _by_timeout else ""
    home.write(
        "dataflow.toml",
        f'[dataset.bobin]\n[dataset.bobout]\n[job.loadbob]\nreads = ["bobin"]\nwrites = ["bobout"]\nlease = "3s"\n{timeout}',
    )
    home.odf("apply", "--yes")
    home.odf("ready", "bobin", "1")
    home.script("loadbob.sh", _NESTED)
    for number in range(1, _TRIES + 1):
        running = home.start("run", "--dataid", "1", "./loadbob.sh")
        until(begun(home.folder, number))
        stop(home, running)
        running.communicate(timeout=240)
        pid = int((home.folder / "begun").read_text().split()[-1])
        until(lambda: not Path(f"/proc/{pid}").exists())  # noqa: B023
        assert not (home.folder / "swapped").exists(), f"in try {number}"
        until(lambda: home.odf("rescue") and statuses(home)["bobout", "1"] != "RUNNING")
        home.odf("resubmit", "bobout", "1", "--yes", code=None)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_runjob_that_a_signal_stops_gives_its_chunk_to_the_next_one(shell: Shell, number: signal.Signals) -> None:
    shell.dml(*BOB, announce("1"))
    shell.script("loadbob.sh", "trap 'touch tidied; exit 3' TERM; echo $$ > begun; sleep 100 & wait")
    running = shell.start("run", "./loadbob.sh")
    until(begun(shell.folder), running)
    running.send_signal(number)
    _, err = running.communicate(timeout=240)
    assert running.returncode == 130
    assert f"STOPPED: stopped by {number.name}" in err
    assert (shell.folder / "tidied").exists(), "the script had time to end"
    [row] = shell.odf("sql", "select status, tries from datastatus where datasetid = 'bobout'", "--json").data
    assert row == {"status": "RESUBMIT", "tries": 0}
    [run] = shell.odf("runs", "loadbob", "--json").data
    assert (run["status"], run["outcome"]) == ("LOST", "STOPPED")
    [event] = [
        each for each in shell.odf("history", "bobout", "1", "--json").data["events"] if each["kind"] == "stopped"
    ]
    assert event["who"] == run["owner"]
    assert f"stopped by {number.name}" in event["why"]
    shell.script("loadbob.sh", "true")
    shell.runjob("./loadbob.sh")
    assert statuses(shell)["bobout", "1"] == "READY"


def _three_chunks(shell: Shell, script: str) -> None:
    shell.dml(*BOB, announce("1"), announce("2"), announce("3"))
    shell.script("jobs/loadbob.sh", script)


def test_a_drain_lets_running_chunks_finish_after_the_first_signal_and_takes_no_more(shell: Shell) -> None:
    _three_chunks(shell, "echo $$ >> begun; until [ -e go ]; do sleep 0.05; done")
    drain = shell.start("drain", "--workers", "1", "--follow")
    until(begun(shell.folder), drain)
    drain.send_signal(signal.SIGTERM)
    assert drain.stderr is not None
    until(lambda: "no more chunks are taken" in drain.stderr.readline(), drain)  # type: ignore[union-attr]
    shell.write("go", "")
    drain.communicate(timeout=240)
    assert drain.returncode == 130
    assert {dataid: status for (name, dataid), status in statuses(shell).items() if name == "bobout"} == {"1": "READY"}


@pytest.mark.parametrize("grace", ["0", "1000"])
def test_a_drain_ends_running_chunks_after_the_grace_time_or_at_a_second_signal(shell: Shell, grace: str) -> None:
    _three_chunks(shell, "echo $$ >> begun; sleep 100")
    drain = shell.start("drain", "--workers", "2", "--grace", grace)
    until(begun(shell.folder, 2), drain)
    drain.send_signal(signal.SIGINT)
    if grace != "0":
        assert drain.stderr is not None
        until(lambda: "a second signal ends them" in drain.stderr.readline(), drain)  # type: ignore[union-attr]
        drain.send_signal(signal.SIGINT)
    out, err = drain.communicate(timeout=240)
    assert drain.returncode == 130
    assert "2 STOPPED in" in out, (out, err)
    rows = shell.odf("sql", "select status, tries from datastatus where datasetid = 'bobout'", "--json").data
    assert rows == [{"status": "RESUBMIT", "tries": 0}] * 2
    shell.script("jobs/loadbob.sh", "true")
    shell.odf("drain")
    assert set(statuses(shell).values()) == {"READY"}


def test_the_end_of_a_drain_in_a_wide_outage_is_short_and_leads_to_recover(home: Shell) -> None:
    names = [f"load_{number}" for number in range(40)]
    jobs = (f'[dataset.{name}_out]\n[job.{name}]\nreads = ["raw"]\nwrites = ["{name}_out"]\n' for name in names)
    home.write("dataflow.toml", "[dataset.raw]\n" + "".join(jobs))
    for name in names:
        home.script(f"jobs/{name}.sh", "echo 'connection to server db1 refused'; exit 1")
    home.odf("apply", "--yes")
    home.odf("ready", "raw", "1")
    ended = home.odf("drain", code=1)
    lines = ended.out.splitlines()
    assert any(line.startswith("40 × 40 jobs JOB_FAILED: ") for line in lines), ended.out
    assert any(line.startswith("left of 40 jobs: 40 chunks FAILED; see: odf recover") for line in lines), ended.out
    assert lines[-1] == "  odf recover"
    assert len(lines) < 20
    assert "40 chunks" in home.odf("recover").out
