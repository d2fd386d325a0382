"""Row 2: workers die again and again while chunks drain, and with PostgreSQL the server too; every chunk is made all the same."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from itertools import count

import pytest

from tests.support.broken import Flow
from tests.support.crew import Crew
from tests.support.postgres import Cluster

pytestmark = pytest.mark.fault(2)

LEASE = "10s"  # longer than a busy machine keeps a heartbeat waiting: only who died loses a chunk
LONGEST = 3600.0


@pytest.fixture
def chance() -> random.Random:
    """Where and when somebody dies: ODF_SEED plays it again."""
    seed = int(os.environ.get("ODF_SEED", time.time_ns() % 1_000_000))
    print(f"seed {seed}")
    return random.Random(seed)


def assert_only_the_dead_lost_chunks(flow: Flow, killed: list[int]) -> int:
    """Each attempt too many is one that a killed worker held, and each worker held only as many as it could run or claim.

    Returns how many there are.
    """
    rows = flow.shell.odf(
        "sql",
        "select owner, jobid, dataid, epoch, outcome, detail from run where outcome not in ('READY', 'GIVEN_BACK')",
        "--json",
    ).data
    living = [row for row in rows if not row["owner"].endswith(tuple(f":{pid}" for pid in killed))]
    assert not living, ("somebody else lost a chunk", living)
    failed = [row for row in rows if row["outcome"] != "LEASE_LOST"]
    assert not failed, failed
    extra = flow.attempts() - 2 * len(flow.dataids)
    assert extra <= len(killed) + len(rows), "kills + chunks that were running"
    return extra


@pytest.mark.timeout(LONGEST)
def test_every_chunk_is_made_while_workers_die_every_2_s_and_the_server_every_10(
    flow: Flow,
    chance: random.Random,
    soak: bool,
    request: pytest.FixtureRequest,
    record_property: Callable[[str, object], None],
) -> None:
    """Each of the first processes also dies after so many points of its own, wherever that is."""
    chunks, workers, at_points = (500, 4, 40) if soak else (40, 3, 9)
    server: Cluster | None = request.getfixturevalue("cluster") if flow.shell.store_url else None
    flow.prepare(range(chunks), lease=LEASE, retries=100)
    began = worker_died = time.monotonic()
    server_died, servers = began - 8, 0
    number = count()
    crew = Crew(
        flow.shell,
        workers,
        "--workers",
        str(workers),
        at=lambda: f"*:{chance.randint(1, 60)}" if next(number) < at_points else "",
    )
    request.addfinalizer(crew.close)
    while crew.tend():
        now = time.monotonic()
        assert now - began < LONGEST
        if now - worker_died >= 2 and (soak or len(crew.killed) < at_points):
            worker_died = now
            crew.kill_one(chance)
        if server and now - server_died >= 10:
            server.kill(chance.choice([signal.SIGKILL, signal.SIGQUIT]))
            server.start()
            servers, server_died = servers + 1, time.monotonic()
        time.sleep(0.05)
    seconds = time.monotonic() - began
    assert len(crew.killed) >= workers
    extra = assert_only_the_dead_lost_chunks(flow, crew.killed)
    figures = {"chunks": 2 * len(flow.dataids), "seconds": round(seconds), "worker_kills": len(crew.killed)}
    for name, value in (figures | {"server_kills": servers, "extra_attempts": extra}).items():
        record_property(f"{'postgres' if server else 'sqlite'}_{name}", value)
    flow.audit()
