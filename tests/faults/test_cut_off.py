"""Row 34: a host that is cut off the network for longer than its lease, then back.

Only with a store on a server: a SQLite file has no network between itself and its workers. A host is a namespace of
processes, names and network devices; both share a disk.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broken import Flow, alive, until
from tests.support.network import NETWORK, Network, network
from tests.support.postgres import Cluster, start_postgres
from tests.support.shell import Shell, statuses

pytestmark = [pytest.mark.postgres, pytest.mark.fault(34)]

# Says who it is, and waits in the middle of its output while its host is told to.
MAKE = """
exec >"$made_location"
echo "made of"
if [ -e "hold.$(uname -n)" ]; then
  echo $$ >"writing.new"; mv writing.new "writing.$(uname -n)"
  while [ -e "hold.$(uname -n)" ]; do sleep 0.05; done
fi
cat "$raw_location"
"""
DOORS = {"RunJob": ("run", "jobs/make.sh"), "drain": ("drain", "make")}
ENDS_WITH = {"RunJob": 16, "drain": 0}  # LEASE_LOST; a drain has nothing left to do


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Where there is time: every door, and every step."""
    names, all_of = metafunc.fixturenames, metafunc.config.getoption("--soak")
    if "door" in names:
        metafunc.parametrize(
            "door", DOORS if all_of else ["RunJob" if "comes_back" in metafunc.function.__name__ else "drain"]
        )
    if "step" in names:
        metafunc.parametrize("step", ["in claim", "in admit", "in commit"] if all_of else ["in commit"])


@pytest.fixture
def hosts() -> Iterator[Network]:
    """Two hosts that reach what runs here, and not each other's processes."""
    try:
        with network() as made:
            yield made
    except OSError as problem:
        pytest.skip(f"no network of our own: {problem}")


@pytest.fixture(scope="module")
def server(soak: bool) -> Iterator[Cluster]:
    """A server that the hosts reach, too."""
    # By its own means a server needs 50 s to notice that a client fell silent; where there is no time it ends its transaction sooner.
    sooner = () if soak else ("idle_in_transaction_session_timeout=4s",)
    with start_postgres("fsync=off", "listen_addresses=*", *sooner) as cluster:
        cluster.let_in(NETWORK)
        yield cluster


@pytest.fixture
def flow(server: Cluster, hosts: Network, tmp_path: Path) -> Iterator[Flow]:
    """The flow, in a folder that both hosts share."""
    folder = tmp_path / "flow"
    folder.mkdir()
    flow = Flow(Shell(folder, server.create_database()))
    flow.shell.odf("migrate")
    flow.prepare([1])
    flow.shell.script("jobs/make.sh", MAKE)
    yield flow
    hosts.crash()
    flow.close()


def on(hosts: Network, flow: Flow, host: str, *arguments: str, at: str = "") -> subprocess.Popen[str]:
    """A command on one of the hosts, which waits at a point."""
    store = flow.store_url.replace("127.0.0.1", hosts.address)
    fault = {"ODF_FAULT": at, "ODF_FAULT_FILE": str(flow.at)} if at else {}
    flow.started.append(hosts.start(flow.shell, host, *arguments, ODF_STORE=store, **fault))
    return flow.started[-1]


def begin(hosts: Network, flow: Flow, door: str) -> tuple[subprocess.Popen[str], int]:
    """A worker on the left host whose script is in the middle of its output, and the process of that script."""
    (flow.folder / "hold.left").touch()
    worker = on(hosts, flow, "left", *DOORS[door])
    writing = flow.folder / "writing.left"
    until(lambda: writing.exists() or worker.poll() is not None, "the script")
    assert writing.exists(), worker.communicate()
    return worker, hosts.pid("left", int(writing.read_text()))


def take_over(hosts: Network, flow: Flow) -> None:
    """The right host does what the left one, which is cut off, had begun."""
    other = on(hosts, flow, "right", "drain", "make")
    out, said = other.communicate(timeout=240)
    assert other.returncode == 0, (out, said)
    assert statuses(flow.shell)["made", "1"] == "READY"


def check_published_by_the_right_one(flow: Flow, attempts: int = 2) -> None:
    """Nothing of the left host is published, by what the history says; what the right one published is whole."""
    rows = flow.shell.odf("sql", "select who from event where kind = 'published' order by eventid", "--json").data
    assert [row["who"].rpartition("@")[2].partition(":")[0] for row in rows] == ["right"]
    flow.heal()
    flow.audit()
    assert flow.attempts() == attempts + 1, "and one of use"


def test_a_host_that_comes_back_ends_what_it_was_doing(hosts: Network, flow: Flow, door: str, repetition: int) -> None:
    worker, script = begin(hosts, flow, door)
    hosts.cut("left")
    take_over(hosts, flow)
    assert alive(script), "else it proves nothing"
    assert worker.poll() is None
    hosts.mend("left")
    out, said = worker.communicate(timeout=240)
    assert not alive(script)
    assert "LEASE_LOST" in out + said
    assert worker.returncode == ENDS_WITH[door], (out, said)
    check_published_by_the_right_one(flow)


def test_what_a_host_finished_while_it_was_cut_off_is_not_published(
    hosts: Network, flow: Flow, door: str, repetition: int
) -> None:
    worker, script = begin(hosts, flow, door)
    hosts.cut("left")
    (flow.folder / "hold.left").unlink()
    until(lambda: not alive(script), "the end of the script")
    take_over(hosts, flow)
    assert worker.poll() is None, "what a job has done is not thrown away as long as nobody knows"
    hosts.mend("left")
    out, said = worker.communicate(timeout=240)
    assert "LEASE_LOST" in out + said
    assert worker.returncode == ENDS_WITH[door], (out, said)
    check_published_by_the_right_one(flow)


def test_a_host_that_is_cut_off_inside_a_transaction_holds_up_nobody_for_long(
    hosts: Network, flow: Flow, step: str
) -> None:
    worker = on(hosts, flow, "left", *DOORS["drain"], at=step)
    flow.reached(worker)
    hosts.cut("left")
    flow.go_on()
    take_over(hosts, flow)
    hosts.mend("left")
    out, said = worker.communicate(timeout=240)
    assert worker.returncode == 0, (out, said)
    assert "Traceback" not in said
    check_published_by_the_right_one(flow, attempts=1 if step == "in claim" else 2)


def test_somebody_at_a_host_that_is_cut_off_can_end_what_runs_there(hosts: Network, flow: Flow, soak: bool) -> None:
    if not soak:
        pytest.skip("half a minute of waiting: --soak")
    worker, script = begin(hosts, flow, "drain")
    hosts.cut("left")
    [odf] = Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text().split()
    os.kill(int(odf), signal.SIGINT)
    until(lambda: not alive(script), "the end of the script")
    worker.communicate(timeout=240)
    assert worker.returncode == 130
    take_over(hosts, flow)
    hosts.mend("left")
    check_published_by_the_right_one(flow)
