"""Drain: what a whole drain costs beside the bare claim loop, how soon limits hold, what a second drain and a kill -9 cost.

./dev bench drain             every part
./dev bench drain rate pool   only these
./dev bench drain rate=400    quickly, with so many chunks in each turn instead of 2,000
"""

from __future__ import annotations

import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench._crew import Cost, ratio
from bench._filled import define
from bench._migration import migration
from bench._report import bar, figure, finish, say
from opendataflow.model import Job, Manifest
from opendataflow.project import Environment, Project
from opendataflow.run.drain import Drain
from opendataflow.run.heartbeat import Heartbeat
from opendataflow.run.process.logs import LogFile
from opendataflow.run.records import Attempt, ExecutorResult
from opendataflow.run.worker import Worker
from opendataflow.store import Store, open_store
from tests.support.flows import fold_in
from tests.support.postgres import Cluster, Server, start_postgres

ODF = [sys.executable, "-m", "opendataflow"]


# Drains in this program: the whole way of a chunk, from claim over gate and heartbeat to commit, around work of our own --


class Pause:
    """An executor whose work is a pause."""

    on_spark = False

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def execute(self, attempts: Sequence[Attempt], heartbeat: Heartbeat, log: LogFile) -> dict[int, ExecutorResult]:
        if self.seconds:
            time.sleep(self.seconds)
        return {attempt.claim.runid: ExecutorResult() for attempt in attempts}

    def audit(self, attempt: Attempt, done: ExecutorResult) -> dict[str, Manifest]:
        return {}

    def settle(self, attempt: Attempt, manifests: dict[str, Manifest]) -> None:
        """Nothing was written."""


class Around(Worker):
    """The worker as it is, but that the middle of a chunk's way is a pause."""

    pause = 0.0

    def needs_spark(self, job: Job) -> bool:
        return False

    def executor(self, job: Job) -> Pause:
        return Pause(self.pause)


def project_in(folder: str, url: str) -> Project:
    environment = Environment("bench", (folder,), (), url)
    here = Path(folder)
    return Project(here, None, "bench", (here / "jobs",), environment, ("bench",), here / "logs")


def drain_process(
    url: str, jobid: str, workers: int, pause: float, start_at: float, seconds: float
) -> tuple[int, float]:
    """(chunks done, MB at most) of one drain, which ends by itself or after some seconds."""
    with tempfile.TemporaryDirectory() as folder, open_store(url) as store:
        worker = Around(store, project_in(folder, url), None, echo=False)
        worker.pause = pause
        time.sleep(max(0.0, start_at - time.time()))
        if seconds:
            threading.Timer(seconds, worker.cancelled.set).start()
        done = sum(Drain(store, worker, [jobid], workers=workers).run().done.values())
    return done, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def drains(pool: Any, url: str, *each: tuple[str, int, float, float]) -> list[tuple[int, float]]:
    """Several drains at once, each (jobid, workers, pause, seconds)."""
    at = time.time() + 2.5
    found: list[tuple[int, float]] = pool.starmap(
        drain_process, [(url, jobid, workers, pause, at, seconds) for jobid, workers, pause, seconds in each], 1
    )
    return found


def prepared(server: Server, chunks: int) -> tuple[str, Store]:
    url = server.create_database()
    store = open_store(url, create=True)
    define(store)
    fold_in(store)  # folds the definitions in
    store.announce("raw", [str(number) for number in range(chunks)])
    return url, store


def spent(store: Store, jobid: str, after: int) -> tuple[int, float]:
    """How many later runs of a job are published, and the seconds from the first claim to the last commit."""
    seconds = "extract(epoch from max(ended) - min(started))"
    if store.url.startswith("sqlite"):
        seconds = "(julianday(max(ended)) - julianday(min(started))) * 86400"
    where = f"jobid = '{jobid}' and status = 'READY' and runid > {after}"
    count, took = store.sql(f"select count(*), {seconds} from run where {where}")[1][0]
    return int(count), float(took)


# Parts --------------------------------------------------------------------------------------------------------------


def serve(connection: Connection, url: str) -> None:
    """A process that works through all chunks there are as often as it is told, by a drain or by the bare claim loop."""
    with tempfile.TemporaryDirectory() as folder, open_store(url) as store:
        worker = Around(store, project_in(folder, url), None, echo=False)
        connection.send(None)
        while (workers := connection.recv()) is not None:
            cpu = time.process_time()
            if workers:
                Drain(store, worker, ["load"], workers=workers).run()
            else:
                while claims := store.claim("load"):
                    store.commit(claims[0])
            connection.send((time.process_time() - cpu, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))


class Flock:
    """Such processes on a store of their own, and what the chunks cost that they work through together."""

    def __init__(self, url: str, server: Cluster | None, processes: int) -> None:
        self.store, self.server, self.filled, self.memory = open_store(url, create=True), server, 0, 0.0
        define(self.store)
        context = get_context("spawn")
        self.pipes = [context.Pipe() for _ in range(processes)]
        self.members = [context.Process(target=serve, args=(there, url)) for _, there in self.pipes]
        for member, (here, _) in zip(self.members, self.pipes, strict=True):
            member.start()
            here.recv()

    def turn(self, cost: Cost, workers: int, chunks: int) -> None:
        """Announce so many chunks and have them worked through; workers are the threads of each drain, 0 is the claim loop."""
        self.store.announce("raw", [str(self.filled + number) for number in range(chunks)])
        self.filled += chunks
        (last,) = self.store.sql("select coalesce(max(runid), 0) from run")[1][0]
        on_server = self.server.cpu_seconds() if self.server else 0.0
        for here, _ in self.pipes:
            here.send(workers)
        answers = [here.recv() for here, _ in self.pipes]
        on_server = self.server.cpu_seconds() - on_server if self.server else 0.0
        self.memory = max(self.memory, *(megabytes for _, megabytes in answers))
        # By the runs themselves: a drain that has nothing left looks after those of others before it ends.
        done, seconds = spent(self.store, "load", int(last))
        assert done == chunks, done
        cost.add(done, seconds, sum(cpu for cpu, _ in answers), on_server)

    def close(self) -> None:
        for member, (here, _) in zip(self.members, self.pipes, strict=True):
            here.send(None)
            member.join()
        self.store.close()


def rate(server: Cluster, chunks: int = 2000, rounds: int = 5) -> None:
    """Empty chunks (no script is started) through drains, in turns with the bare claim loop (store.claim, store.commit) in as many processes."""
    for label in ("sqlite", "postgres"):
        for processes, workers, name in ((4, 1, "4_processes"), (1, 4, "1_process_4_threads")):
            with tempfile.TemporaryDirectory() as folder:
                on_server = label == "postgres"
                url = server.create_database() if on_server else f"sqlite:///{folder}/store.db"
                flock = Flock(url, server if on_server else None, processes)
                drain, loop = Cost(), Cost()
                for threads in (workers, 0):
                    flock.turn(Cost(), threads, 200)  # connections, plans, caches
                for _ in range(rounds):
                    flock.turn(drain, workers, chunks)
                    flock.turn(loop, 0, chunks)
                flock.close()
            drain.show(f"{label}_drain_{name}", on_server=on_server)
            loop.show(f"{label}_claim_loop_{processes}_process{'es' * (processes > 1)}", on_server=on_server)
            if processes > 1:
                bar(f"{label}_drain_one_worker_memory_mb", flock.memory, 150, at_least=False)
            limit = 0.8 if processes > 1 else 1.0
            bar(f"{label}_drain_{name}_over_claim_loop", ratio(drain, loop), limit, at_least=True)


def second(server: Server) -> None:
    """What a second drain costs the first one, on chunks that wait rather than compute: the cost is that of the store."""
    url, store = prepared(server, 40_000)
    seconds = 5.0
    one = ("load", 4, 0.25, seconds)
    with get_context("spawn").Pool(2) as pool:
        drains(pool, url, one, one)  # both processes warm
        pairs = []
        for _ in range(5):
            alone = drains(pool, url, one)[0][0]
            both = drains(pool, url, one, one)
            pairs.append((alone, both[0][0], both[1][0]))
    store.close()
    figure("first_drain_alone", statistics.median(pair[0] for pair in pairs) / seconds, "chunks/s")
    figure("first_drain_beside_a_second", statistics.median(pair[1] for pair in pairs) / seconds, "chunks/s")
    ratio = statistics.median(pair[1] / pair[0] for pair in pairs)
    bar("rate_of_the_first_drain_beside_a_second", ratio, 0.9, at_least=True)


# Real `odf drain` processes with scripts ----------------------------------------------------------------------------


class Flow:
    """A project of one script job in a pool, on a store of its own."""

    def __init__(
        self, server: Server, folder: Path, chunks: int, script: str, rules: str = "", slots: int = 10
    ) -> None:
        self.folder, self.url = folder, server.create_database()
        (folder / "jobs").mkdir(parents=True)
        (folder / "dataflow.toml").write_text(
            f'[project]\nname = "bench"\n[store]\nurl = "{self.url}"\n[pool.etl]\nslots = {slots}\n'
            '[dataset.raw]\npartition = "number"\n[dataset.out]\npartition = "number"\n'
            f'[job.work]\nreads = ["raw"]\nwrites = ["out"]\npool = "etl"\n{rules}\n'
        )
        path = folder / "jobs" / "work.sh"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        self.odf("migrate")
        self.odf("apply", "--yes")
        self.store = open_store(self.url)
        self.store.announce("raw", [str(number) for number in range(chunks)])

    def odf(self, *words: str) -> None:
        subprocess.run([*ODF, *words], cwd=self.folder, check=True, capture_output=True)

    def drain(self, *words: str) -> subprocess.Popen[bytes]:
        log = (self.folder / "drain.log").open("ab")
        return subprocess.Popen(
            [*ODF, "drain", *words], cwd=self.folder, stdout=log, stderr=log, start_new_session=True
        )

    def count(self, where: str) -> int:
        return int(self.store.sql(f"select count(*) from {where}")[1][0][0])

    def auditor(self, name: str, chunks: int) -> None:
        """Every chunk is published, and none twice."""
        published = self.count("event where kind = 'published'")
        distinct = self.count("(select distinct dataid from event where kind = 'published') p")
        bar(f"{name}_lost", chunks - distinct, 0, at_least=False)
        bar(f"{name}_published_twice", published - distinct, 0, at_least=False)


@contextmanager
def flow(server: Server, chunks: int, script: str, rules: str = "", slots: int = 10) -> Iterator[Flow]:
    with tempfile.TemporaryDirectory() as folder:
        made = Flow(server, Path(folder) / "flow", chunks, script, rules, slots)
        try:
            yield made
        finally:
            made.store.close()


def until(what: Callable[[], bool], seconds: float = 120.0) -> float:
    """Seconds until something is so."""
    start = time.monotonic()
    while not what():
        if time.monotonic() - start > seconds:
            raise TimeoutError
        time.sleep(0.02)
    return time.monotonic() - start


def pool(server: Server) -> None:
    """A pool of 10 → 20 → 4 → 0 → 10 slots, set from another process while two drains work: how soon each limit holds."""
    with flow(server, 400, "sleep 1", "lease = 10") as found:
        both = [found.drain("--workers", "16") for _ in range(2)]
        until(lambda: found.store.views.slots_taken("etl") == 10)
        worst, above = 0.0, 0
        for slots in (20, 4, 0, 10):
            before = found.store.views.slots_taken("etl")
            found.odf("pool", "set", "etl", str(slots))
            reached = (lambda n: n >= slots) if slots > before else (lambda n: n <= slots)
            took = until(lambda: reached(found.store.views.slots_taken("etl")))
            figure(f"pool_{before}_to_{slots}_holds_after", took, "s")
            worst = max(worst, took)
            end = time.monotonic() + 4
            while time.monotonic() < end:
                above = max(above, found.store.views.slots_taken("etl") - slots)
                time.sleep(0.02)
        found.odf("pool", "set", "etl", "unlimited")
        for process in both:
            process.wait(120)
        bar("pool_change_holds_seconds", worst, 5, at_least=False)
        bar("pool_most_above_the_limit", above, 0, at_least=False)
        bar("pool_chunks_disturbed", found.count("run where status <> 'READY' or epoch > 1"), 0, at_least=False)
        found.auditor("pool", 400)


def kill(server: Server) -> None:
    """kill -9 of either of two drains in the middle: nothing is lost, nothing is published twice."""
    for victim in (0, 1):
        with flow(server, 150, "sleep 0.2", "lease = 3\nretries = 1\nbackoff = 1") as found:
            both = [found.drain("--workers", "4") for _ in range(2)]
            until(lambda: found.count("run where status = 'READY'") >= 40)
            os.kill(both[victim].pid, signal.SIGKILL)
            took = until(lambda: both[1 - victim].poll() is not None)
            both[victim].wait()
            figure(f"kill_of_drain_{victim + 1}_other_ends_after", took, "s")
            figure(f"kill_of_drain_{victim + 1}_attempts_lost", found.count("run where status <> 'READY'"), "runs")
            found.auditor(f"kill_of_drain_{victim + 1}", 150)


def rescue(server: Server) -> None:
    """With the default lease of 30 s: how long after a kill -9 the chunk runs again, through a drain that had nothing to do."""
    with flow(server, 1, "sleep 20", "retries = 1") as found:
        first = found.drain()
        until(lambda: found.count("run where status = 'RUNNING'") == 1)
        other = found.drain("--follow")
        time.sleep(12)  # a heartbeat has been; the next one will not come
        cpu = _cpu(other.pid)
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        took = until(lambda: found.count("run where epoch = 2") == 1)
        figure("idle_drain_cpu", 100 * (_cpu(other.pid) - cpu) / took, "% of a core")
        bar("kill_9_to_running_again_seconds", took, 45, at_least=False)
        until(lambda: found.count("run where status = 'READY'") == 1)
        other.terminate()
        other.wait(60)
        found.auditor("rescue", 1)


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def scripts(server: Server) -> None:
    """`odf drain` with a script that does nothing, as a user runs it, beside a loop that only starts the script, from start to end."""
    chunks = 200
    for workers in (1, 4):
        with flow(server, chunks, ":", slots=10) as work:
            begun = time.monotonic()
            work.drain("--workers", str(workers)).wait()
            seconds = time.monotonic() - begun
            work.auditor(f"scripts_{workers}_workers", chunks)
            begun = time.monotonic()
            for _ in range(chunks):
                subprocess.run([work.folder / "jobs" / "work.sh"], check=True)
            bare = time.monotonic() - begun
        figure(f"odf_drain_of_scripts_{workers}_workers", chunks / seconds, "chunks/s")
        figure(f"the_scripts_alone_{workers}_workers", chunks / bare, "chunks/s")


PARTS: dict[str, Callable[[Cluster], None]] = {
    "rate": rate,
    "scripts": scripts,
    "second": second,
    "pool": pool,
    "kill": kill,
    "rescue": rescue,
    "migration": migration,
}


def main() -> None:
    words = sys.argv[1:] or list(PARTS)
    with start_postgres() as server:
        for word in words:
            name, _, chunks = word.partition("=")
            say(f"{name}: {PARTS[name].__doc__}")
            if chunks:
                rate(server, int(chunks))
            else:
                PARTS[name](server)
    finish()


if __name__ == "__main__":
    main()
