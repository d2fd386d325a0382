"""Row 5: the clock of a machine steps by an hour and more; no lease ends early or late, and nobody stumbles."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

import opendataflow
from opendataflow import Store
from opendataflow.store.drivers.sqlite import SqliteBackend
from tests.support.broken import Flow
from tests.support.flows import chain, claim_one, status

pytestmark = pytest.mark.fault(5)

# The wall clock of one process, and of what it starts, is as many seconds off as a file says at that moment.
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static long step(void) {
    char text[32] = {0};
    int file = open(getenv("CLOCK_STEP"), O_RDONLY);
    if (file < 0) return 0;
    if (read(file, text, sizeof text - 1) < 0) text[0] = 0;
    close(file);
    return atol(text);
}
int clock_gettime(clockid_t which, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int answer = real(which, at);
    if (!answer && which == CLOCK_REALTIME) at->tv_sec += step();
    return answer;
}
int gettimeofday(struct timeval *at, void *zone) {
    struct timespec now;
    int answer = clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return answer;
}
time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    """The address of a SQLite store."""
    return f"sqlite:///{tmp_path}/store.db"


def backend(store: Store) -> SqliteBackend:
    found = store._backend
    assert isinstance(found, SqliteBackend)
    return found


@pytest.fixture
def clock(flow: Flow, tmp_path: Path) -> Path:
    """The file by which the clock of everything that is typed steps."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler, for a clock that steps")
    (tmp_path / "clock.c").write_text(SHIM)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", "clock.so", "clock.c", "-ldl"], cwd=tmp_path, check=True)
    path = tmp_path / "step"
    path.write_text("0")
    flow.shell.extra |= {"LD_PRELOAD": str(tmp_path / "clock.so"), "CLOCK_STEP": str(path)}
    return path


@pytest.mark.fault(5)
@pytest.mark.parametrize("steps", [(3600, -3600), (-3 * 3600, 3 * 3600), (400 * 86400, 0)])
def test_the_clock_steps_under_a_drain_and_its_run_is_its_own(flow: Flow, clock: Path, steps: tuple[int, ...]) -> None:
    flow.prepare([1, 2], lease="30s")
    moved = int(time.time()) + steps[0]
    flow.hold_script()
    drain = flow.start("drain", "--workers", "1")
    flow.writing(drain)
    for step in steps:
        clock.write_text(str(step))
        assert flow.shell.odf("rescue", "--json").data == [], "no lease ended early"
        assert drain.poll() is None
    clock.write_text(str(steps[0]))
    told = subprocess.run(["date", "+%s"], env=flow.shell.environment, capture_output=True, text=True, check=True)
    assert int(told.stdout) >= moved, "the clock really stepped"
    flow.release_script()
    out, said = drain.communicate(timeout=240)
    assert drain.returncode == 0, (out, said)
    flow.heal()
    assert flow.attempts() == 2 * len(flow.dataids), "nothing had to be tried again"
    flow.audit()


@pytest.mark.parametrize("step", [3600, -3600])
def test_a_worker_that_died_before_a_step_is_noticed_after_it(flow: Flow, clock: Path, step: int) -> None:
    flow.prepare([1])
    flow.hold_script()
    worker = flow.start("run", "jobs/make.sh")
    flow.writing(worker)
    worker.send_signal(signal.SIGKILL)
    worker.communicate()
    clock.write_text(str(step))
    flow.heal()
    assert flow.attempts() == 3
    flow.audit()


@pytest.mark.parametrize("step", [3600.0, -3600.0])
def test_a_clock_that_steps_ends_no_lease(url: str, step: float, monkeypatch: pytest.MonkeyPatch) -> None:
    with opendataflow.open(url, create=True) as store:
        chain(store, lease=30.0)
        store.announce("raw", ["1"])
        claim = claim_one(store, "make")
        real = time.time
        monkeypatch.setattr(time, "time", lambda: real() + step)
        assert store.rescue() == []
        with opendataflow.open(url) as other:
            assert other.rescue() == [], "a process that started after the step sees the same clock"
            assert other.claim("make") == []
            assert other.heartbeat(claim) == pytest.approx(store.heartbeat(claim), abs=abs(step) / 2)
        store.commit(claim)
        assert status(store, "product", "1") == "READY"
        assert store.breaches() == []


@pytest.mark.parametrize("step", [3600.0, -3600.0])
def test_a_lease_ends_in_time_although_the_clock_stepped(
    url: str, step: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opendataflow.open(url, create=True) as store:
        chain(store, lease=0.05)
        store.announce("raw", ["1"])
        claim = claim_one(store, "make")
        real = time.time
        monkeypatch.setattr(time, "time", lambda: real() + step)
        time.sleep(0.1)
        assert [rescued[0] for rescued in store.rescue()] == [claim.runid]
        assert store.breaches() == []


def test_after_a_reboot_the_clock_goes_on_from_the_wall(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from opendataflow.store.drivers import sqlite

    with opendataflow.open(url, create=True) as store:
        chain(store, lease=0.05)
        store.announce("raw", ["1"])
        claim = claim_one(store, "make")
    monkeypatch.setattr(sqlite, "boot_id", lambda: "another boot")
    uptime = time.monotonic()
    real = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: real() - uptime)
    time.sleep(0.1)
    with opendataflow.open(url) as store:
        assert [rescued[0] for rescued in store.rescue()] == [claim.runid]
        assert store.breaches() == []


@pytest.mark.fault(5)
@pytest.mark.parametrize("step", [3 * 3600.0, -3 * 3600.0])
def test_a_busy_neighbour_is_waited_for_although_every_clock_jumps(
    url: str, step: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A monotonic clock that was set back behind its beginning makes the system refuse to sleep until a moment of it."""
    with opendataflow.open(url, create=True) as store, opendataflow.open(url) as other:
        chain(store)
        backend(other)._connection.execute("begin immediate")
        real, refused = time.monotonic, []

        def refuse(seconds: float) -> None:
            refused.append(seconds)
            monkeypatch.setattr(time, "monotonic", lambda: real() + step)
            if len(refused) == 3:
                backend(other)._connection.execute("commit")
            raise OSError(22, "Invalid argument")

        monkeypatch.setattr(time, "sleep", refuse)
        store.announce("raw", ["1"])
        assert len(refused) == 3, "it waited until the neighbour was done"
    with opendataflow.open(url) as store:
        assert status(store, "raw", "1") == "READY"
        assert store.breaches() == []
