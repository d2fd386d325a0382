"""Rows 3 and 28: a worker is killed or frozen past its lease; its script ends or harms nobody, and only its successor publishes."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests.support.broken import Flow, alive, freeze, until
from tests.support.shell import ODF
from tests.support.stores import type_sql

# Its first attempt writes for ever, also from a daemon that left session, group and environment.
SCRIPT = """
if [ "$ODF_ATTEMPT" = 1 ]; then
  env -i setsid "$(command -v bash)" -c 'while :; do echo garbage >>"$0"; sleep 0.05; done' "$made_location" >/dev/null 2>&1 &
  echo $! >daemon.new; mv daemon.new daemon; echo $$ >script.new; mv script.new script
  while :; do echo garbage >>"$made_location"; sleep 0.05; done
fi
"$PYTHON" -m opendataflow check-lease
echo "made of" >"$made_LOCATION"
cat "$raw_location" >>"$made_LOCATION"
"""
DOORS = {"RunJob": ("run", "jobs/make.sh"), "drain": ("drain", "make")}
# Where a worker holds a chunk and no transaction is open: there it may stay for ever, and nobody has to wait for it.
MOMENTS = ["after claim", "after admit", "spawned", "exited", "audited", "before commit"]
INSIDE = ["in claim", "in admit", "settled", "in commit"]


def begun(flow: Flow, door: str) -> tuple[subprocess.Popen[str], list[int]]:
    """A first attempt that is at work, and the processes that it started."""
    flow.prepare([1])
    flow.shell.script("jobs/make.sh", SCRIPT)
    flow.shell.extra["PYTHON"] = sys.executable
    first = flow.start(*DOORS[door])
    names = [flow.folder / name for name in ("daemon", "script")]
    until(lambda: all(path.exists() for path in names) or first.poll() is not None)
    assert first.poll() is None, first.communicate()
    return first, [int(path.read_text()) for path in names]


def expired(flow: Flow) -> None:
    """The leases of all that runs run out, and somebody notices."""

    def lost() -> bool:
        flow.shell.odf("rescue")
        return not flow.shell.odf("sql", "select runid from run where status = 'RUNNING'", "--json").data

    until(lost, "the end of the leases")


def thawed(first: subprocess.Popen[str], door: str) -> None:
    """Who was frozen goes on, and is told that its chunk is not its own any more."""
    first.send_signal(signal.SIGCONT)
    out, said = first.communicate(timeout=240)
    if door == "RunJob":
        assert (first.returncode, "LEASE_LOST" in said) == (16, True), (out, said)
    else:
        assert "LEASE_LOST" in out + said


@pytest.mark.fault(12, 28)
@pytest.mark.parametrize("door", DOORS)
def test_after_kill_9_nothing_of_a_script_lives_on(flow: Flow, door: str) -> None:
    first, pids = begun(flow, door)
    first.kill()
    first.communicate()
    until(lambda: not any(map(alive, pids)), "the end of its processes")
    assert not (flow.folder / "data/made/1.csv").exists()
    flow.heal()
    flow.shell.odf("check-lease", "1", code=16)
    flow.audit()


DIES_AT_ONCE = """
import os, signal, subprocess, sys, time
from opendataflow.run.process import reaper
folder, above = sys.argv[1], os.getpid()
def begin(**how):
    line = f"env -i setsid sleep 1000 & echo $! >{folder}/daemon.new; mv {folder}/daemon.new {folder}/daemon; sleep 1000"
    script = subprocess.Popen(["bash", "-c", line], **how)
    while not os.path.exists(f"{folder}/daemon"):
        time.sleep(0.01)
    os.kill(above, signal.SIGKILL)
    while os.getppid() == above:
        time.sleep(0.01)
    return script
reaper.start(begin, None, "")
"""


@pytest.mark.fault(12, 28)
def test_a_worker_that_dies_before_it_hears_of_its_script_leaves_nothing_behind(tmp_path: Path) -> None:
    died = subprocess.run([sys.executable, "-c", DIES_AT_ONCE, str(tmp_path)], timeout=240)
    assert died.returncode == -signal.SIGKILL
    daemon = int((tmp_path / "daemon").read_text())
    until(lambda: not alive(daemon), "the end of its daemon")


@pytest.mark.fault(3, 12, 28)
@pytest.mark.parametrize("door", DOORS)
def test_a_successor_ends_the_script_of_a_frozen_worker_before_it_starts(flow: Flow, door: str) -> None:
    first, pids = begun(flow, door)
    freeze(first)
    expired(flow)
    assert all(map(alive, pids)), "nobody has ended them yet"
    flow.heal()
    assert not any(map(alive, pids))
    assert "of an earlier attempt is ended" in flow.shell.odf("log", "2").out
    flow.audit()
    thawed(first, door)
    assert flow.attempts() == 3, "a try more of one chunk, and none of it published twice"
    flow.audit()


@pytest.mark.fault(22, 28)
def test_an_epoch_of_trillions_typed_by_sql_delays_no_run_and_spares_no_predecessor(flow: Flow) -> None:
    first, pids = begun(flow, "RunJob")
    freeze(first)
    expired(flow)
    type_sql(flow.store_url, "update datastatus set epoch = 4000000000000 where datasetid = 'made' and dataid = '1'")
    flow.shell.odf("run", "jobs/make.sh")
    assert not any(map(alive, pids))
    [run] = flow.shell.odf("sql", "select epoch from run where status = 'READY'", "--json").data
    assert run["epoch"] == 4_000_000_000_001
    thawed(first, "RunJob")
    flow.heal()
    flow.audit()


@pytest.mark.fault(28)
def test_on_another_host_the_script_of_a_frozen_worker_is_harmless(flow: Flow) -> None:
    """A host of its own for the successor: it sees no process of ours, and has another name."""
    host = ["unshare", "--uts", "--pid", "--fork", "--mount-proc", "sh", "-c", 'hostname elsewhere; exec "$@"', "sh"]
    if shutil.which("unshare") is None or subprocess.run([*host, "true"], capture_output=True).returncode:
        pytest.skip("no right to make namespaces")
    first, pids = begun(flow, "RunJob")
    freeze(first)
    expired(flow)
    successor = subprocess.run(
        [*host, *ODF, "drain"],
        cwd=flow.folder,
        env=flow.shell.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert successor.returncode == 0, (successor.stdout, successor.stderr)
    assert any(map(alive, pids)), "one that is not on this host cannot be ended from here"
    thawed(first, "RunJob")
    until(lambda: not any(map(alive, pids)), "the end of its processes")
    flow.audit()


@pytest.mark.fault(3)
def test_who_is_frozen_at_any_moment_publishes_nothing_afterwards(flow: Flow) -> None:
    flow.prepare(range(len(MOMENTS)))
    frozen = []
    for number, moment in enumerate(MOMENTS):
        worker = flow.start("run", "--dataid", str(number), "jobs/make.sh", at=moment, hold=True)
        flow.reached(worker)
        freeze(worker)
        flow.go_on()
        frozen.append(worker)
    expired(flow)
    flow.heal()
    assert all(worker.poll() is None for worker in frozen)
    flow.audit()
    for worker in frozen:
        thawed(worker, "RunJob")
    flow.audit()
    assert flow.attempts() == 3 * len(MOMENTS), "a second try of each, and its consumer"
    assert [path for path in Path(flow.folder / "data/made").iterdir() if path.name.startswith(".")] == []


@pytest.mark.fault(3)
def test_who_is_frozen_inside_a_transaction_keeps_nobody_from_working_for_long(flow: Flow) -> None:
    """PostgreSQL ends its transaction after a while; a lock of SQLite is the system's, and held until it goes on."""
    flow.prepare([0])
    if flow.shell.store_url:
        with psycopg.connect(flow.shell.store_url, autocommit=True) as connection:
            name = connection.info.dbname
            connection.execute(f"alter database {name} set idle_in_transaction_session_timeout = '1s'".encode())
    for number, moment in enumerate(INSIDE):
        flow.arrive([1 + number])
        frozen = flow.start("run", "--dataid", str(1 + number), "jobs/make.sh", at=moment, hold=True)
        flow.reached(frozen)
        freeze(frozen)
        flow.go_on()
        other = flow.start("drain")
        if flow.shell.store_url:
            out, said = other.communicate(timeout=240)
            assert other.returncode == 0, (moment, out, said)
        frozen.send_signal(signal.SIGCONT)
        _, said = frozen.communicate(timeout=240)
        assert "Traceback" not in said, moment
        other.communicate(timeout=240)
        assert other.returncode == 0, moment
    flow.heal()
    flow.audit()
