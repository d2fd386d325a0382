"""What stops a run from outside: its script executes no further command, and its chunk goes to the next worker."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import psycopg
import pytest

from opendataflow.run.process.process_tree import processes, with_descendants
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
# A shell runs its trap, and then its next command, as soon as its child has ended.
_TRAPPING = """set +e
[ ! -e calm ] || exit 0
trap 'rm -f lock' INT TERM
echo $$ >> begun
bash -c 'trap : TERM; sleep 100; touch swapped'
touch swapped"""


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


def test_a_script_that_traps_term_executes_no_further_command_after_a_takeover(shell: Shell) -> None:
    shell.dml(*BOB, announce("1"))
    shell.script("loadbob.sh", _TRAPPING)
    first = shell.start("run", "--dataid", "1", "./loadbob.sh")
    until(begun(shell.folder), first)
    shell.dml("update datastatus set status = 'RESUBMIT' where datasetid = 'bobout'")
    shell.write("calm", "")
    shell.runjob("./loadbob.sh")
    first.communicate(timeout=240)
    assert first.returncode == 16
    assert not (shell.folder / "swapped").exists()


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


@pytest.mark.parametrize("stop", [_by_cancel, _by_kill])
def test_a_script_that_traps_term_is_killed_with_its_child(
    home: Shell, stop: Callable[[Shell, subprocess.Popen[str]], None]
) -> None:
    home.write(
        "dataflow.toml", '[dataset.bobin]\n[dataset.bobout]\n[job.loadbob]\nreads = ["bobin"]\nwrites = ["bobout"]\n'
    )
    home.odf("apply", "--yes")
    home.odf("ready", "bobin", "1")
    home.script("loadbob.sh", _TRAPPING)
    running = home.start("run", "--dataid", "1", "./loadbob.sh")
    until(begun(home.folder))
    stop(home, running)
    running.communicate(timeout=240)
    pid = int((home.folder / "begun").read_text())
    until(lambda: not Path(f"/proc/{pid}").exists())
    assert not (home.folder / "swapped").exists()


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


@pytest.mark.parametrize("words", [("run", "./loadbob.sh"), ("start", "loadbob")])
def test_a_claim_that_a_signal_meets_is_given_back(shell: Shell, words: tuple[str, ...]) -> None:
    shell.dml(*BOB, announce("1"))
    shell.script("loadbob.sh", "true")
    at = shell.folder / "at"
    running = shell.start(*words, ODF_FAULT="after claim", ODF_FAULT_FILE=str(at))
    until(at.exists, running)
    running.send_signal(signal.SIGINT)
    running.send_signal(signal.SIGINT)
    at.unlink()
    _, err = running.communicate(timeout=240)
    assert (running.returncode, "Traceback" in err) == (130, False), err
    assert statuses(shell) == {("bobin", "1"): "READY"}
    [run] = shell.odf("runs", "loadbob", "--json").data
    assert run["outcome"] == "GIVEN_BACK"
    assert "stopped by SIGINT" in run["detail"]
    shell.runjob("./loadbob.sh")
    assert statuses(shell)["bobout", "1"] == "READY"


_INTERRUPTED_IMPORTS = """
import os, signal, sys

class Interrupts:
    is_on = False

    def find_spec(self, name, path=None, target=None):
        self.is_on = self.is_on or name == sys.argv[1]
        if self.is_on and name.startswith("opendataflow."):
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
from opendataflow.cli import main
main(["status"])
"""


@pytest.mark.parametrize("module", ["opendataflow.cli.door", "opendataflow.cli.group"])
def test_an_interrupt_while_the_program_is_imported_prints_no_traceback(tmp_path: Path, module: str) -> None:
    """Every import from that module on is interrupted, also those of the report of the first interrupt."""
    command = [sys.executable, "-c", _INTERRUPTED_IMPORTS, module]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (130, False), done.stderr


def test_a_second_signal_waits_until_the_end_of_the_run_is_stored(tmp_path: Path, fresh_postgres_url: str) -> None:
    shell = Shell(tmp_path, fresh_postgres_url)
    shell.dml(*BOB, announce("1"))
    shell.script("loadbob.sh", "true")
    at = shell.folder / "at"
    running = shell.start("run", "./loadbob.sh", ODF_FAULT="in admit", ODF_FAULT_FILE=str(at))
    until(at.exists, running)
    with psycopg.connect(fresh_postgres_url) as person, psycopg.connect(fresh_postgres_url, autocommit=True) as other:
        person.execute("select from datastatus where datasetid = 'bobout' for update")
        running.send_signal(signal.SIGINT)
        until(lambda: other.execute("select 1 from pg_locks where not granted").fetchall(), running)
        running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=240)
    assert (running.returncode, "Traceback" in err) == (130, False), err
    [row] = shell.odf("sql", "select status, tries from datastatus where datasetid = 'bobout'", "--json").data
    assert row == {"status": "RESUBMIT", "tries": 0}


def test_a_signal_ends_a_claim_that_waits_for_a_store_that_another_process_holds(home: Shell) -> None:
    home.dml(*BOB, announce("1"))
    home.script("loadbob.sh", "true")
    with closing(sqlite3.connect(home.folder / "dataflow.db", isolation_level=None)) as person:
        person.execute("begin immediate")
        at = home.folder / "at"
        running = home.start("run", "./loadbob.sh", ODF_FAULT="before claim", ODF_FAULT_FILE=str(at))
        until(at.exists, running)
        running.send_signal(signal.SIGINT)
        at.unlink()
        _, err = running.communicate(timeout=240)
        assert (running.returncode, "STORE_UNREACHABLE" in err, "Traceback" in err) == (130, False, False), err
    assert statuses(home) == {("bobin", "1"): "READY"}


def _three_chunks(shell: Shell, script: str) -> None:
    shell.dml(*BOB, announce("1"), announce("2"), announce("3"))
    shell.script("jobs/loadbob.sh", script)


def test_a_drain_lets_running_chunks_finish_after_the_first_signal_and_takes_no_more(shell: Shell) -> None:
    _three_chunks(shell, "echo $$ >> begun; until [ -e go ]; do sleep 0.05; done")
    drain = shell.start("drain", "--workers", "1", "--follow")
    until(begun(shell.folder), drain)
    drain.send_signal(signal.SIGTERM)
    assert drain.stderr is not None
    until(lambda: "no more chunks are claimed" in drain.stderr.readline(), drain)  # type: ignore[union-attr]
    shell.write("go", "")
    drain.communicate(timeout=240)
    assert drain.returncode == 130
    assert {dataid: status for (name, dataid), status in statuses(shell).items() if name == "bobout"} == {"1": "READY"}


def test_a_drain_begins_no_chunk_after_a_signal_although_chunks_end_sooner_than_it_looks(shell: Shell) -> None:
    shell.dml(*BOB, *(announce(str(number)) for number in range(1, 11)))
    shell.script(
        "jobs/loadbob.sh",
        'echo $$ >> begun; until [ -e pid ]; do sleep 0.01; done; [ -e sent ] || { touch sent; kill -TERM "$(cat pid)"; }\n'
        "sleep 0.05",
    )
    drain = shell.start("drain", "--workers", "1", "--follow")
    shell.write("pid.unfinished", str(drain.pid)).rename(shell.folder / "pid")
    drain.communicate(timeout=240)
    assert drain.returncode == 130
    done = len((shell.folder / "begun").read_text().split())
    assert done <= 2, "a script starts beside the signal at most"
    assert list(statuses(shell).values()).count("READY") == 10 + done
    assert "RUNNING" not in statuses(shell).values()


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


@pytest.mark.parametrize("signals", [(signal.SIGHUP, signal.SIGHUP), (signal.SIGINT, signal.SIGTERM)], ids=str)
def test_a_second_signal_of_any_kind_ends_running_chunks(home: Shell, signals: tuple[signal.Signals, ...]) -> None:
    first, second = signals
    _three_chunks(home, "echo $$ >> begun; sleep 100")
    drain = home.start("drain", "--workers", "2", "--grace", "1000")
    until(begun(home.folder, 2), drain)
    drain.send_signal(first)
    assert drain.stderr is not None
    until(lambda: "a second signal ends them" in drain.stderr.readline(), drain)  # type: ignore[union-attr]
    time.sleep(0.5)  # sooner it may belong to the first
    drain.send_signal(second)
    out, err = drain.communicate(timeout=240)
    assert drain.returncode == 130
    assert "2 STOPPED in" in out, (out, err)


def _below(pid: int) -> list[int]:
    """The processes that descend from this one, the youngest first."""
    table = processes()
    return sorted((each.pid for each in with_descendants(table, [table[pid]]) if each.pid != pid), reverse=True)


@pytest.mark.parametrize("order", ["worker first", "scripts first"])
@pytest.mark.parametrize(
    "words", [("drain", "--workers", "2", "--grace", "60"), ("run", "loadbob")], ids=lambda words: words[0]
)
def test_a_signal_to_every_process_of_a_service_gives_the_chunks_back(
    shell: Shell, words: tuple[str, ...], order: str
) -> None:
    """As systemd sends SIGTERM without KillMode=mixed."""
    _three_chunks(shell, "echo $$ >> begun; sleep 100")
    n = 2 if words[0] == "drain" else 1
    worker = shell.start(*words)
    until(begun(shell.folder, n), worker)
    until(lambda: len(_below(worker.pid)) >= 3 * n, worker)  # a reaper, a script and its command for each
    pids = [worker.pid, *_below(worker.pid)]
    for pid in pids if order == "worker first" else [*pids[1:], worker.pid]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    out, err = worker.communicate(timeout=240)
    assert worker.returncode == 130, (out, err)
    rows = shell.odf("sql", "select status, tries from datastatus where datasetid = 'bobout'", "--json").data
    assert rows == [{"status": "RESUBMIT", "tries": 0}] * n, (out, err)
    assert {run["outcome"] for run in shell.odf("runs", "loadbob", "--json").data} == {"STOPPED"}


def test_a_script_that_ends_of_a_signal_which_its_worker_did_not_get_is_failed(home: Shell) -> None:
    _three_chunks(home, "kill -TERM $$")
    assert "signal 15 (SIGTERM)" in home.runjob("loadbob", code=1).err
    assert statuses(home)["bobout", "1"] == "FAILED"


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
