"""One side of bench/peers.py, in a process of its own: fills its queue when told to, empties it when told to, and says what that took.

It reads `fill N` and `run` from its input and answers each with one line. Every side has one process and empty work, and is used as
its documentation recommends for throughput:

| side | settings |
| --- | --- |
| ours | one claim and one commit after the other |
| drain WORKERS | `odf drain` in process, with so many workers, which claims ahead and commits together by itself |
| procrastinate | its worker with concurrency 1 over psycopg's binary build, an async task, LISTEN/NOTIFY on, finished jobs kept |
| pgqueuer BATCH | drain mode with that batch_size over one asyncpg connection and uvloop, durable tables, its own autovacuum settings, no limit on tasks at a time |
| luigi | `luigi.build` with its local scheduler and one worker in process; it stores nothing |
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


class Meter:
    """What it took from the first chunk to the last: how a side starts, and how it finds that nothing is left, is not counted."""

    def __init__(self) -> None:
        self.runs = 0

    def tick(self) -> None:
        """A chunk is being worked on."""
        if not self.runs:
            self._start, self._cpu = time.perf_counter(), time.process_time()
        self.seconds, self.cpu = time.perf_counter() - self._start, time.process_time() - self._cpu
        self.runs += 1

    def all_of(self, work: Callable[[], int]) -> None:
        """The whole of some work, which says how many chunks that was."""
        self._start, self._cpu = time.perf_counter(), time.process_time()
        self.runs = work()
        self.seconds, self.cpu = time.perf_counter() - self._start, time.process_time() - self._cpu

    def answer(self) -> dict[str, float]:
        """For the other end."""
        return {"runs": self.runs, "seconds": self.seconds, "cpu": self.cpu}


def _commands() -> Iterator[tuple[str, int]]:
    for line in sys.stdin:
        word, _, number = line.partition(" ")
        yield word.strip(), int(number or 0)


def _say(answer: dict[str, float]) -> None:
    print(json.dumps(answer), flush=True)


def _serve(fill: Callable[[int], None], run: Callable[[Meter], None]) -> None:
    for word, number in _commands():
        meter = Meter()
        if word == "fill":
            fill(number)
        else:
            run(meter)
        _say(meter.answer() if word == "run" else {})


async def _serve_async(fill: Callable[[int], Awaitable[Any]], run: Callable[[Meter], Awaitable[Any]]) -> None:
    for word, number in _commands():
        meter = Meter()
        await (fill(number) if word == "fill" else run(meter))
        _say(meter.answer() if word == "run" else {})


def ours(url: str, workers: int | None = None) -> None:
    """Claim and commit, or a drain."""
    from bench._filled import define
    from bench.drain import Around, project_in, spent
    from opendataflow.run.drain import Drain
    from opendataflow.store import open_store

    store = open_store(url, create=True)
    define(store)
    filled = 0

    def fill(number: int) -> None:
        nonlocal filled
        store.announce("raw", [str(each) for each in range(filled, filled + number)])
        filled += number

    def loop(meter: Meter) -> None:
        while claims := store.claim("load"):
            meter.tick()
            store.commit(claims[0])

    def drain(meter: Meter) -> None:
        (last,) = store.sql("select coalesce(max(runid), 0) from run")[1][0]
        meter.all_of(lambda: Drain(store, worker, ["load"], workers=workers or 1).run().done.total())
        meter.runs, meter.seconds = spent(store, "load", int(last))

    # Logs stay as long as the side does, as they do with users: ext4 searches long for room among what was just deleted.
    with tempfile.TemporaryDirectory() as folder:
        worker = Around(store, project_in(folder, url), None, echo=False)
        _serve(fill, drain if workers else loop)


async def procrastinate(url: str) -> None:
    from procrastinate import App, PsycopgConnector

    app = App(connector=PsycopgConnector(conninfo=url))
    meters = [Meter()]

    @app.task(name="empty")
    async def empty(number: int) -> None:
        meters[-1].tick()

    async def run(meter: Meter) -> None:
        meters.append(meter)
        await app.run_worker_async(wait=False, concurrency=1, install_signal_handlers=False)

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await _serve_async(lambda n: empty.batch_defer_async(*({"number": each} for each in range(n))), run)


async def pgqueuer(url: str, batch: int) -> None:
    import asyncpg
    from pgqueuer import PgQueuer
    from pgqueuer.types import QueueExecutionMode

    async def connect() -> tuple[Any, PgQueuer]:
        connection = await asyncpg.connect(url)
        return connection, PgQueuer.from_asyncpg_connection(connection)

    async def fill(number: int) -> None:
        await queries.enqueue(["empty"] * number, [b""] * number, [0] * number)

    async def run(meter: Meter) -> None:
        connection, queue = await connect()

        @queue.entrypoint("empty")
        async def empty(job: Any) -> None:
            meter.tick()

        await queue.run(batch_size=batch, mode=QueueExecutionMode.drain)
        await connection.close()

    connection, queue = await connect()
    queries: Any = queue.queries
    await queries.install()
    await connection.execute(queries.qbe.build_optimize_autovacuum_query())
    await _serve_async(fill, run)


def luigi(url: str) -> None:
    from luigi import IntParameter, Task, build

    class Empty(Task):  # type: ignore[misc]
        number = IntParameter()
        is_done = False

        def run(self) -> None:
            self.is_done = True

        def complete(self) -> bool:
            return self.is_done

    tasks: list[Empty] = []
    filled = 0

    def fill(number: int) -> None:
        nonlocal filled
        tasks[:] = [Empty(number=each) for each in range(filled, filled + number)]
        filled += number

    def run(meter: Meter) -> None:
        meter.all_of(lambda: build(tasks, local_scheduler=True, workers=1, log_level="ERROR") and len(tasks))

    _serve(fill, run)


def main() -> None:
    name, url, *numbers = sys.argv[1:]
    logging.disable(logging.WARNING)
    if name in ("ours", "drain"):
        ours(url, *map(int, numbers))
    elif name == "luigi":
        luigi(url)
    elif name == "procrastinate":
        asyncio.run(procrastinate(url))
    else:
        import uvloop

        uvloop.run(pgqueuer(url, *map(int, numbers)))


if __name__ == "__main__":
    main()
