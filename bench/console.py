"""The console: what its pages cost the server at 1,000,000 chunks, what they weigh, and what watching browsers cost a drain.

./dev bench console                 both stores
./dev bench console sqlite 100000   only this one, with so many chunks
./dev bench console watching        only the drain beside watching browsers
"""

from __future__ import annotations

import http.client
import re
import selectors
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench._forensics import dataid_of, filled, hours_of
from bench._report import bar, figure, finish
from bench.telling import drained, of_sqlite, prepared
from opendataflow.store import open_store
from tests.support.browser import Console
from tests.support.ports import free_port
from tests.support.postgres import start_postgres
from tests.support.shell import Shell

ROUNDS, WARM_UP = 200, 20
PAIRS, WATCHERS = 7, 50
EMPTY = "/about"


# Pages ---------------------------------------------------------------------------------------------------------------


def pages(url: str, chunks: int) -> dict[str, str]:
    """What a person opens: the middle of everything, where the past is longest."""
    hours = hours_of(chunks)
    chunk = dataid_of(hours // 2 // 20 * 20 + 7, hours)
    with open_store(url) as store:
        runid = max(run.runid for run in store.views.runs())
    return {
        "empty": EMPTY,
        "overview": "/",
        "chunk": f"/chunk/joined_3/{chunk}",
        "flow": "/flow",
        "dataset": "/dataset/joined_3",
        "job": "/job/join_3",
        "run": f"/run/{runid}",
        "recovery": "/recovery",
        "timeline": "/timeline",
        "history": "/history",
        "report": "/report",
        "search": "/search?q=joined",
    }


BARRED = ("overview", "chunk", "flow")


class Visitor:
    """One browser's connection: it stays open, and keeps its session."""

    def __init__(self, url: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=300)
        self._headers: dict[str, str] = {"Accept": "text/html"}

    def get(self, path: str) -> tuple[float, bytes]:
        """How long one page takes, and what it is."""
        start = time.perf_counter()
        self._connection.request("GET", path, headers=self._headers)
        answer = self._connection.getresponse()
        body = answer.read()
        spent = time.perf_counter() - start
        if answer.status != 200:
            sys.exit(f"GET {path}: {answer.status}: {body[:500]!r}")
        if cookie := answer.getheader("Set-Cookie"):
            self._headers["Cookie"] = cookie.partition(";")[0]
        return spent, body

    def weigh(self, body: bytes) -> int:
        """What a browser loads for one page: itself, and its style sheets, scripts and pictures."""
        parts = set(re.findall(r'(?:src|href)="(/static/[^"]+)"', body.decode()))
        return len(body) + sum(len(self.get(part)[1]) for part in parts)


def opened(label: str, console: Console, url: str, found: dict[str, str]) -> None:
    """Every page in its turn, again and again, over one connection."""
    visitor = Visitor(console.url)
    for path in found.values():
        visitor.get(path)
    figure(f"{label}_memory_after_one_of_each", _memory(console.pid, "VmRSS"), "MB")
    times: dict[str, list[float]] = {name: [] for name in ("empty", *BARRED)}
    for round_ in range(WARM_UP + ROUNDS):
        for name, each in times.items():
            spent, _ = visitor.get(found[name])
            if round_ >= WARM_UP:
                each.append(spent)
    worst = {name: _p95(each) for name, each in times.items()}
    for name, each in times.items():
        figure(f"{label}_{name}_median", 1e3 * statistics.median(each), "ms")
        figure(f"{label}_{name}_p95", 1e3 * worst[name], "ms")
    for name in BARRED:
        bar(f"{label}_{name}_over_empty_p95", worst[name] / worst["empty"], 4, at_least=False)
    for name in found.keys() - times.keys():
        figure(f"{label}_{name}_median", 1e3 * statistics.median(visitor.get(found[name])[0] for _ in range(10)), "ms")
    for name in BARRED:
        figure(f"{label}_{name}_after_a_change", 1e3 * statistics.median(_changed(visitor, url, found[name])), "ms")
    for name in found:
        weight = visitor.weigh(visitor.get(found[name])[1]) / 1000
        bar(f"{label}_{name}_weight_kB", weight, 300, at_least=False)
    bar(f"{label}_server_memory_MB", _memory(console.pid, "VmHWM"), 200, at_least=False)


def _changed(visitor: Visitor, url: str, path: str) -> Iterator[float]:
    """How long a page takes when something has changed since the last look, and nothing that was kept is true any more."""
    with open_store(url) as store:
        for _ in range(7):
            store.announce("raw_0", [dataid_of(1, hours_of(1000))], again=True)
            time.sleep(1.5)  # the console asks the store at most so often whether something changed
            yield visitor.get(path)[0]


def _p95(times: list[float]) -> float:
    return statistics.quantiles(times, n=20)[-1]


def _memory(pid: int, what: str) -> float:
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith(what))
    return int(line.split()[1]) / 1024


def bare_server(port: int, ready: Any) -> None:
    """A server that answers everything with an empty page."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import HTMLResponse
    from starlette.routing import Route

    @asynccontextmanager
    async def started(app: Starlette) -> AsyncIterator[None]:
        ready.set()
        yield

    def nothing(request: Request) -> HTMLResponse:
        return HTMLResponse("<!doctype html><title>empty</title>")

    app = Starlette(routes=[Route("/", nothing)], lifespan=started)
    uvicorn.run(app, port=port, http="h11", log_level="error", access_log=False)


def bare() -> None:
    """What the server itself costs, without a console in it."""
    spawn = get_context("spawn")
    port, ready = free_port(), spawn.Event()
    process = spawn.Process(target=bare_server, args=(port, ready), daemon=True)
    process.start()
    ready.wait()
    time.sleep(1)  # it listens right after
    visitor = Visitor(f"http://127.0.0.1:{port}")
    times = [visitor.get("/")[0] for _ in range(WARM_UP + ROUNDS)][WARM_UP:]
    figure("bare_starlette_empty_median", 1e3 * statistics.median(times), "ms")
    figure("bare_starlette_empty_p95", 1e3 * _p95(times), "ms")
    process.terminate()
    process.join()


# Watching ------------------------------------------------------------------------------------------------------------


def watch(url: str, watchers: int, ready: Any, over: Any, heard: Any) -> None:
    """So many clients of the live stream, in a process of its own; how many bytes each heard."""
    where = urlsplit(url)
    ears = selectors.DefaultSelector()
    bytes_heard = 0
    for _ in range(watchers):
        client = socket.create_connection((where.hostname or "", where.port or 0))
        client.sendall(f"GET /live HTTP/1.1\r\nHost: {where.netloc}\r\nAccept: text/event-stream\r\n\r\n".encode())
        first = client.recv(65536)
        if not first.startswith(b"HTTP/1.1 200"):
            sys.exit(f"GET /live: {first!r}")
        ears.register(client, selectors.EVENT_READ)
    ready.set()
    while not over.is_set():
        for key, _ in ears.select(0.1):
            part = key.fileobj.recv(65536)  # type: ignore[union-attr]
            if not part:
                sys.exit("the server hung up")
            bytes_heard += len(part)
    heard.put(bytes_heard / max(watchers, 1))


@contextmanager
def served(url: str, watchers: int, heard: list[float]) -> Iterator[None]:
    """A console on this store, with so many watching."""
    spawn = get_context("spawn")
    ready, over, queue = spawn.Event(), spawn.Event(), spawn.Queue()
    with tempfile.TemporaryDirectory() as folder:
        console = Console(Shell(Path(folder), url))
        process = spawn.Process(target=watch, args=(console.url, watchers, ready, over, queue))
        process.start()
        while not ready.wait(0.1):
            assert process.is_alive(), "nobody can watch"
        try:
            yield
        finally:
            over.set()
            heard.append(queue.get())
            process.join()
            console.stop()


def watching(label: str, urls: Iterator[str]) -> None:
    """The same drain without a console, with one that nobody looks at, and with fifty who watch, one after the other, several times."""
    rates: dict[int | None, list[float]] = {None: [], 0: [], WATCHERS: []}
    heard: list[float] = []
    with get_context("spawn").Pool(1) as spawn, tempfile.TemporaryDirectory() as folder:
        for round_ in range(1 + PAIRS):
            for watchers, found in rates.items():
                url = next(urls)
                prepared(url).close()
                with ExitStack() as stack:
                    if watchers is not None:
                        stack.enter_context(served(url, watchers, heard if watchers else []))
                    rate, *_ = spawn.apply(drained, (url, folder, [], False))
                if round_:
                    found.append(rate)
    for watchers, found in rates.items():
        name = "without_console" if watchers is None else f"with_{watchers}_watching"
        figure(f"{label}_drain_{name}", statistics.median(found), "chunks/s")
    figure(f"{label}_each_heard", statistics.median(heard) / 1000, "kB")
    for base, name in ((0, "over_none_watching"), (None, "over_no_console")):
        pairs = zip(rates[base], rates[WATCHERS], strict=True)
        ratio = statistics.median(watched / alone for alone, watched in pairs)
        bar(f"{label}_drain_rate_with_50_watching_{name}", ratio, 0.95, at_least=True)


# ---------------------------------------------------------------------------------------------------------------------


def main() -> None:
    words = sys.argv[1:]
    chunks = next((int(word) for word in words if word.isdigit()), 1_000_000)
    stores = [name for name in ("sqlite", "postgres") if name in words] or ["sqlite", "postgres"]
    parts = [name for name in ("pages", "watching") if name in words] or ["pages", "watching"]
    if "pages" in parts:
        bare()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        server = stack.enter_context(start_postgres("max_wal_size=8GB")) if "postgres" in stores else None
        for label in stores:
            urls = of_sqlite(name) if label == "sqlite" or server is None else iter(server.create_database, "")
            if "pages" in parts:
                url = next((word for word in words if "://" in word), "")  # one that was filled before
                if not url:
                    url = next(urls)
                    start = time.perf_counter()
                    filled(url, chunks).close()
                    figure(f"{label}_fill_{chunks}", time.perf_counter() - start, "s")
                home = Path(name) / label
                home.mkdir()
                console = Console(Shell(home, url))
                opened(label, console, url, pages(url, chunks))
                console.stop()
            if "watching" in parts:
                watching(label, urls)
    finish()


if __name__ == "__main__":
    main()
