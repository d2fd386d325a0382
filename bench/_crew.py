"""Processes that do one kind of work after another, in turns, and what one run of each costs in wall time and in CPU time."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from bench._report import figure

_WARM_UP = 20  # runs of each kind before anything is measured: connections, plans, caches


@dataclass
class Cost:
    """What the turns of one kind of work cost."""

    rates: list[float] = field(default_factory=list)  # runs a second, of each turn
    runs: int = 0
    client: float = 0.0  # CPU seconds
    server: float = 0.0

    @property
    def rate(self) -> float:
        """Runs a second: the median of the turns."""
        return statistics.median(self.rates)

    @property
    def client_per_run(self) -> float:
        """CPU seconds of all our processes."""
        return self.client / self.runs

    @property
    def server_per_run(self) -> float:
        """CPU seconds of all processes of the server."""
        return self.server / self.runs

    def add(self, runs: int, seconds: float, client: float, server: float) -> None:
        """One more turn."""
        self.rates.append(runs / seconds)
        self.runs += runs
        self.client += client
        self.server += server

    def show(self, name: str, *, on_server: bool) -> None:
        """Print it as figures."""
        figure(name, self.rate, "runs/s")
        figure(f"{name}_client_cpu", self.client_per_run * 1e3, "ms/run")
        if on_server:
            figure(f"{name}_server_cpu", self.server_per_run * 1e3, "ms/run")


def ratio(one: Cost, other: Cost) -> float:
    """How many times as fast as the other: the median over turns that followed one another directly."""
    return statistics.median(a / b for a, b in zip(one.rates, other.rates, strict=True))


Maker = Callable[[str], Callable[[], Any]]


def _work(connection: Connection, makers: Mapping[str, tuple[Maker, str]]) -> None:
    works = {name: make(address) for name, (make, address) in makers.items()}
    for work in works.values():
        for _ in range(_WARM_UP):
            work()
    connection.send("ready")
    while (turn := connection.recv()) is not None:
        name, seconds = turn
        work, done = works[name], 0
        cpu, until = time.process_time(), time.perf_counter() + seconds
        while time.perf_counter() < until:
            work()
            done += 1
        connection.send((done, time.process_time() - cpu))


@contextmanager
def _crew(processes: int, makers: Mapping[str, tuple[Maker, str]]) -> Iterator[list[Connection]]:
    context = get_context("spawn")
    members, connections = [], []
    for _ in range(processes):
        here, there = context.Pipe()
        members.append(context.Process(target=_work, args=(there, makers)))
        members[-1].start()
        there.close()  # so that a member that fails is heard of
        connections.append(here)
    try:
        for connection in connections:
            connection.recv()
        yield connections
    finally:
        for connection, member in zip(connections, members, strict=True):
            if member.is_alive():
                connection.send(None)
            member.join()


def take_turns(
    processes: int,
    makers: Mapping[str, tuple[Maker, str]],
    server_cpu: Callable[[], float] = lambda: 0.0,
    *,
    rounds: int = 10,
    seconds: float = 1.0,
) -> dict[str, Cost]:
    """What each kind of work costs when so many processes do it, in short turns; connections stay open in between."""
    costs = {name: Cost() for name in makers}
    with _crew(processes, makers) as connections:
        for round_ in range(rounds):
            for name in list(makers) if round_ % 2 else reversed(list(makers)):
                cpu, start = server_cpu(), time.perf_counter()
                for connection in connections:
                    connection.send((name, seconds))
                answers = [connection.recv() for connection in connections]
                spent, on_server = time.perf_counter() - start, server_cpu() - cpu
                runs, client = (sum(column) for column in zip(*answers, strict=True))
                costs[name].add(runs, spent, client, on_server)
    return costs
