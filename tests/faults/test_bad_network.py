"""Rows 6 and 7: a server that restarts again and again, and a network that holds up, loses and cuts, below real workers.

Only with a store on a server: there is nothing between a SQLite file and its workers.
"""

from __future__ import annotations

import random
import re
import signal
import subprocess
import time
from collections.abc import Iterator

import psycopg
import pytest

from tests.support.broken import Flow, alive, until
from tests.support.postgres import Cluster
from tests.support.proxy import COMMIT, LOSE_ANSWER, LOSE_QUESTION, PASS, Proxy

pytestmark = [pytest.mark.postgres, pytest.mark.parametrize("flow", ["postgres"], indirect=True)]

DOORS = {"RunJob": ("run", "jobs/make.sh"), "drain": ("drain", "make")}
SEED = 20260729


@pytest.fixture
def proxy(cluster: Cluster) -> Iterator[Proxy]:
    """What lies between the server and the workers."""
    proxy = Proxy(cluster.port)
    yield proxy
    proxy.close()


class Stalled:
    """Whether something was held up since."""

    def __init__(self, proxy: Proxy) -> None:
        self.proxy, self.before = proxy, proxy.held_up

    def __call__(self) -> bool:
        return self.proxy.held_up > self.before


def behind(proxy: Proxy, flow: Flow, *arguments: str, at: str = "") -> subprocess.Popen[str]:
    """A worker that reaches the store through the proxy only."""
    through = re.sub(r"127\.0\.0\.1:\d+", f"127.0.0.1:{proxy.port}", flow.store_url)
    return flow.start(*arguments, at=at, hold=bool(at), ODF_STORE=through)


def at_work(flow: Flow, worker: subprocess.Popen[str]) -> subprocess.Popen[str]:
    """A worker that was told to wait before its first look: it has its connection now. Until then a store that is away ends it."""
    flow.reached(worker)
    flow.go_on()
    return worker


def ended(worker: subprocess.Popen[str]) -> str:
    """What a worker said that ended well."""
    out, said = worker.communicate(timeout=240)
    assert worker.returncode == 0, (out, said)
    assert "Traceback" not in said
    return out + said


@pytest.mark.fault(7)
@pytest.mark.parametrize("held", ["question", "answer"])
def test_a_commit_that_is_held_up_on_its_way_happens_once(flow: Flow, proxy: Proxy, held: str, repetition: int) -> None:
    """The COMMIT of a claim, of an admission and of a publish: before it reaches the server, or when it has happened there."""
    flow.prepare([10], lease="60s")
    flow.heal()
    for number, step in enumerate(["in claim", "in admit", "in commit"]):
        flow.arrive([number])
        worker = behind(proxy, flow, *DOORS["drain" if number % 2 else "RunJob"], at=step)
        flow.reached(worker)
        proxy.stall_at(COMMIT, after=held == "answer")
        stalled = Stalled(proxy)
        flow.go_on()
        until(stalled, "the stall")
        (proxy.go_on if (number + repetition) % 2 else proxy.cut)()
        ended(worker)
    flow.heal()
    flow.audit()
    assert flow.attempts() == 2 * len(flow.dataids), "no attempt was lost by it"


@pytest.mark.fault(7, 34)
@pytest.mark.parametrize(("door", "then"), [("RunJob", "goes on"), ("drain", "is cut")])
def test_a_worker_whose_store_falls_silent_for_longer_than_its_lease_publishes_nothing(
    flow: Flow, proxy: Proxy, door: str, then: str, repetition: int
) -> None:
    flow.prepare([1])
    flow.hold_script()
    worker = behind(proxy, flow, *DOORS[door])
    script = flow.writing(worker)
    proxy.stall()
    until(lambda: proxy.held_up, "a heartbeat that nobody hears")
    (flow.folder / "hold").rename(
        flow.folder / "held"
    )  # for those who come later: this one goes on when the file is back
    flow.shell.script("jobs/make.sh", 'exec >"$made_location"; echo "made of"; cat "$raw_location"')
    ended(flow.start("drain", "make"))
    assert not alive(script), "the successor on the same host ended it"
    (proxy.go_on if then == "goes on" else proxy.cut)()
    out, said = worker.communicate(timeout=240)
    assert "LEASE_LOST" in out + said
    flow.heal()
    flow.audit()
    assert flow.attempts() == 3


@pytest.mark.fault(7)
def test_somebody_who_waits_for_a_silent_store_can_end_that(flow: Flow, proxy: Proxy) -> None:
    """Also where the server, or what stands before it, accepts the connection and the question, and does not answer that."""
    flow.prepare([1])
    for silent_from in (b"set search_path", b"begin"):
        proxy.stall_at(silent_from)
        stalled = Stalled(proxy)
        looks = behind(proxy, flow, "status")
        until(stalled, "the stall")
        looks.send_signal(signal.SIGINT)
        out, said = looks.communicate(timeout=240)
        assert looks.returncode == 130, (out, said)
        assert "Traceback" not in said
        proxy.cut()
    flow.heal()
    flow.audit()


@pytest.mark.fault(7)
@pytest.mark.soak  # half a minute of waiting; test_lost_connections.py has the short version
@pytest.mark.parametrize("door", DOORS)
def test_a_worker_whose_store_is_silent_for_ever_can_be_ended(flow: Flow, proxy: Proxy, door: str) -> None:
    flow.prepare([1])
    flow.hold_script()
    worker = behind(proxy, flow, *DOORS[door])
    script = flow.writing(worker)
    proxy.stall()
    until(lambda: proxy.held_up, "a heartbeat that nobody hears")
    worker.send_signal(signal.SIGINT)
    out, said = worker.communicate(timeout=240)
    assert worker.returncode in (75, 130), (out, said)
    assert "STORE_UNREACHABLE" in said
    assert not alive(script)
    proxy.cut()
    flow.heal()
    flow.audit()


@pytest.mark.fault(7)
def test_a_drain_on_a_bad_network_publishes_everything_once(flow: Flow, proxy: Proxy, soak: bool) -> None:
    """At random moments something is held up, for less and for more than a lease, lost or cut."""
    chunks, least = (200, 60) if soak else (12, 6)
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    flow.prepare(range(chunks), lease="3s", retries=50)
    drain = at_work(flow, behind(proxy, flow, "drain", "--workers", "3", at="before look"))
    faults = dict.fromkeys(["stall", "cut", LOSE_QUESTION, LOSE_ANSWER], 0)
    while drain.poll() is None or sum(faults.values()) < least:
        if drain.poll() is not None:  # a fast machine: more to do
            ended(drain)
            flow.arrive(range(len(flow.dataids), len(flow.dataids) + chunks))
            drain = at_work(flow, behind(proxy, flow, "drain", "--workers", "3", at="before look"))
        fault = chance.choice(list(faults))
        faults[fault] += 1
        if fault == "stall":
            proxy.stall()
            time.sleep(chance.choice([0.1, 0.5, 4.0]))
            chance.choice([proxy.go_on, proxy.cut])()
        elif fault == "cut":
            proxy.cut()
        else:
            proxy.lose_commit(fault)
        time.sleep(chance.uniform(0.1, 1.0))
        proxy.decide = lambda question: PASS
    ended(drain)
    flow.audit()
    extra = flow.attempts() - 2 * len(flow.dataids)
    print(f"bad network: {len(flow.dataids)} chunks, {sum(faults.values())} faults {faults}, {extra} extra attempts")


@pytest.mark.fault(6)
def test_a_drain_whose_server_restarts_every_few_seconds_does_everything_once(
    flow: Flow, cluster: Cluster, soak: bool
) -> None:
    chunks, restarts = (150, 20) if soak else (6, 2)
    flow.prepare(range(chunks), lease="120s")
    held = "while [ -e hold ]; do sleep 0.1; done; sleep 1"
    flow.shell.script("jobs/make.sh", f'exec >"$made_location"; echo "made of"; {held}; cat "$raw_location"')
    flow.hold_script()
    drains = [at_work(flow, flow.start("drain", "--workers", "2", at="before look", hold=True)) for _ in range(2)]
    with psycopg.connect(flow.store_url, autocommit=True) as look:
        until(lambda: look.execute("select 1 from dataflow.run where status = 'RUNNING'").fetchone(), "the first run")
    done = 0
    while done < restarts and None in [drain.poll() for drain in drains]:
        if done:
            time.sleep(2.5)
        cluster.kill()
        flow.release_script()
        cluster.start()
        done += 1
    said = [ended(drain) for drain in drains]
    flow.audit()
    assert flow.attempts() == 2 * chunks, "what a server forgets costs no attempt"
    waited = "".join(said)
    assert done
    assert "waiting for the store: " in waited
    assert " is back after " in waited
    print(f"restarts: {chunks} chunks, {done} restarts, 0 extra attempts")
