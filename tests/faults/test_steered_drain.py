"""Row 13: the limit of a pool goes up and down during a drain in which one chunk of a hundred fails, and nothing is killed."""

from __future__ import annotations

import time
from collections import Counter

import pytest

import opendataflow
from opendataflow import Store
from tests.support.broken import Flow, until
from tests.support.crew import Crew

pytestmark = pytest.mark.fault(13)

PROJECT = """
[environment.dev]
roots = ["./data"]
[pool.etl]
slots = 1
[dataset.raw]
partition = "number"
[dataset.clean]
partition = "number"
[job.clean]
reads = ["raw"]
writes = ["clean"]
pool = "etl"
"""
# Waits until chunks up to its own may end: so the test, not the machine, says how far the drains are.
SCRIPT = """
while [ "$dataid" -ge "$(cat until)" ]; do sleep 0.1; done
if [ $((dataid % 100)) = 7 ] && [ ! -e mended ]; then exit 3; fi
"""
MOST = 32
BAR = 5.0
LONGEST = 7200.0


def let_end(flow: Flow, chunks: int) -> None:
    """So many chunks may end, the first ones."""
    flow.shell.write("until.new", str(chunks)).rename(flow.folder / "until")


def steered(flow: Flow, store: Store, slots: int) -> float:
    """Somebody else sets the limit, and what runs may end; how long until it holds."""
    flow.shell.odf("pool", "set", "etl", str(slots))
    began = time.monotonic()
    let_end(flow, begun(store))
    until(lambda: store.views.slots_taken("etl") <= slots, f"{slots} slots")
    return time.monotonic() - began


def begun(store: Store) -> int:
    return int(store.sql("select count(*) from run")[1][0][0])


def holds(flow: Flow, store: Store, slots: int, more: int) -> int:
    """The limit holds until so many more chunks have begun; the most that ran at once."""
    first, most = begun(store), store.views.slots_taken("etl")
    let_end(flow, first + more)

    def so_many_more() -> bool:
        nonlocal most
        most = max(most, store.views.slots_taken("etl"))
        assert most <= slots
        return begun(store) >= first + more

    until(so_many_more, f"{more} more chunks")
    return most


@pytest.mark.timeout(LONGEST)
def test_the_limit_of_a_pool_moves_under_a_drain_and_nothing_is_killed(
    flow: Flow, soak: bool, request: pytest.FixtureRequest
) -> None:
    chunks = 10_000 if soak else 300
    step = chunks // 30
    flow.shell.write("dataflow.toml", PROJECT)
    flow.shell.script("jobs/clean.sh", SCRIPT)
    let_end(flow, 0)
    flow.shell.odf("apply", "--yes")
    flow.shell.odf("ready", "raw", f"0..{chunks - 1}")
    with opendataflow.open(flow.store_url) as store:
        crew = Crew(flow.shell, 2, "--workers", str(MOST // 2), code=1)
        request.addfinalizer(crew.close)
        holds(flow, store, 1, step)
        took = {MOST: steered(flow, store, MOST)}
        until(lambda: store.views.slots_taken("etl") > 4, "more at once")
        assert holds(flow, store, MOST, 3 * step) > 4
        took[4] = steered(flow, store, 4)
        holds(flow, store, 4, step)
        took[0] = steered(flow, store, 0)
        stood = begun(store)
        assert "paused" in flow.shell.odf("why", "clean").out
        flow.shell.odf("status")
        assert (store.views.slots_taken("etl"), begun(store)) == (0, stood), "nothing begins in a pause"
        let_end(flow, chunks)
        flow.shell.odf("pool", "set", "etl", str(MOST))
        until(lambda: not crew.tend(), "the end of the drains", LONGEST)
        assert crew.killed == []
        failed = chunks // 100
        assert store.views.status_counts()["clean"] == {"READY": chunks - failed, "FAILED": failed}
        flow.shell.write("mended", "")
        flow.shell.odf("resubmit", "--failed", "--yes")
        flow.shell.patience = 600
        flow.shell.odf("drain")
        assert store.views.status_counts()["clean"] == {"READY": chunks}
        # What a drain on a busy machine claimed and could not begin, it gives back.
        runs = Counter(store.sql("select outcome, exit_code from run where outcome <> 'GIVEN_BACK'")[1])
        assert runs == {("READY", 0): chunks, ("JOB_FAILED", 3): failed}
    for slots, seconds in took.items():
        print(f"limit {slots} held after {seconds:.1f} s (bar {BAR:.0f} s) {'ok' if seconds <= BAR else 'MISS'}")
    flow.audit(golden=False)  # the chunks are only tracked: they have no bytes
