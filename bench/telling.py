"""Telling: what figures that are scraped every second, lineage to a file and to a server, and messages cost a drain of empty chunks.

./dev bench telling          both stores
./dev bench telling sqlite   only this one
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench._filled import define
from bench._report import bar, figure, finish
from bench.drain import Around, project_in
from opendataflow.notify.background import BackgroundNotifier
from opendataflow.project import Project
from opendataflow.project.notify import OCCASIONS, Notify, NotifyRule, NotifyTarget
from opendataflow.project.settings import LineageSettings
from opendataflow.run.drain import Drain
from opendataflow.secrets import Hidden
from opendataflow.store import Store, open_store
from tests.support.flows import fold_in
from tests.support.openlineage import lineage_server
from tests.support.postgres import start_postgres

CHUNKS, WORKERS, ROUNDS = 2000, 4, 7


def prepared(url: str) -> Store:
    store = open_store(url, create=True)
    define(store)
    fold_in(store)
    store.announce("raw", [str(number) for number in range(CHUNKS)])
    return store


PAGER = NotifyTarget("pager", url="json://127.0.0.1:9/nobody")
EVERYTHING = Notify({"pager": PAGER}, (NotifyRule(OCCASIONS, ("pager",)),))


def drained(url: str, folder: str, to: Sequence[str], with_people: bool) -> tuple[float, float, int, int]:
    """Chunks a second of one drain, its CPU time for each, and the lineage events that were sent and dropped."""
    with open_store(url) as store, ExitStack() as stack:
        project: Project = replace(project_in(folder, url), lineage=LineageSettings(tuple(to)))
        worker = Around(store, project, None, echo=False)
        if with_people:
            told = replace(project, notify=EVERYTHING)
            teller = BackgroundNotifier(lambda: open_store(url), told, None, Hidden(), say=print, with_late=True)
            teller.start()
            stack.callback(teller.finish)
        began, spent = time.perf_counter(), time.process_time()
        done = sum(Drain(store, worker, ["load"], workers=WORKERS).run().done.values())
        took, spent = time.perf_counter() - began, time.process_time() - spent
        assert done == CHUNKS, done
        worker.close()
        sent, dropped = store.views.added_up("lineage sent"), store.views.added_up("lineage dropped")
    return done / took, spent / done, sent, dropped


def served(ready: Any, over: Any) -> None:
    """A lineage server, in a process of its own."""
    with lineage_server() as server:
        ready.put(server.url)
        over.wait()


@contextmanager
def scraped(url: str, folder: str) -> Iterator[list[float]]:
    """Figures of this store are scraped every second; the seconds that each took."""
    words = [sys.executable, "-m", "opendataflow", "metrics", "--listen", "127.0.0.1:0", "--store", url]
    process = subprocess.Popen(words, cwd=folder, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    where = process.stderr.readline().split()[-1]
    over, times = threading.Event(), list[float]()

    def scrape() -> None:
        while not over.is_set():
            began = time.perf_counter()
            with urllib.request.urlopen(where, timeout=30) as answer:
                assert b"odf_up 1" in answer.read()
            times.append(time.perf_counter() - began)
            over.wait(1.0)

    thread = threading.Thread(target=scrape)
    thread.start()
    try:
        yield times
    finally:
        over.set()
        thread.join()
        process.terminate()
        process.communicate()


def one(spawn: Any, url: str, told: str, server: str) -> tuple[float, float, int, int, list[float]]:
    prepared(url).close()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        to = {"nothing": [], "file": ["lineage.jsonl"]}.get(told, ["lineage.jsonl", server])
        times = stack.enter_context(scraped(url, folder)) if told == "all" else []
        return (*spawn.apply(drained, (url, folder, to, told == "all")), times)


def measure(name: str, urls: Iterator[str], server: str) -> None:
    """The same drain, told to nobody, to a file, and to everybody, one after the other, several times."""
    rates: dict[str, list[float]] = {"nothing": [], "file": [], "all": []}
    cpu: dict[str, list[float]] = {told: [] for told in rates}
    sent = dropped = 0
    scrapes: list[float] = []
    with get_context("spawn").Pool(1) as spawn:
        one(spawn, next(urls), "all", server)  # warm
        for _ in range(ROUNDS):
            for told, found in rates.items():
                rate, spent, *events, times = one(spawn, next(urls), told, server)
                found.append(rate)
                cpu[told].append(spent)
                scrapes += times
                if told == "all":
                    sent, dropped = sent + events[0], dropped + events[1]
    for told, found in rates.items():
        figure(f"{name}_drain_told_to_{told}", statistics.median(found), "chunks/s")
        figure(f"{name}_drain_told_to_{told}_cpu", 1e6 * statistics.median(cpu[told]), "us/chunk")
    figure(f"{name}_scrape", 1000 * statistics.median(scrapes), "ms")
    figure(f"{name}_lineage_events_dropped", 100 * dropped / (sent + dropped), "%")
    pairs = zip(rates["nothing"], rates["all"], strict=True)
    ratio = statistics.median(told / alone for alone, told in pairs)
    bar(f"{name}_drain_rate_with_metrics_messages_and_lineage", ratio, 0.95, at_least=True)


def of_sqlite(folder: str) -> Iterator[str]:
    number = 0
    while True:
        number += 1
        yield f"sqlite:///{folder}/{number}.db"


def main() -> None:
    names = sys.argv[1:] or ["sqlite", "postgres"]
    spawn = get_context("spawn")
    ready, over = spawn.Queue(), spawn.Event()
    process = spawn.Process(target=served, args=(ready, over), daemon=True)
    process.start()
    server = ready.get()
    print(f"# telling: {json.dumps(measure.__doc__)}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        if "sqlite" in names:
            measure("sqlite", of_sqlite(folder), server)
    if "postgres" in names:
        with start_postgres() as cluster:
            measure("postgres", iter(cluster.create_database, ""), server)
    over.set()
    process.join(10)
    finish()


if __name__ == "__main__":
    main()
