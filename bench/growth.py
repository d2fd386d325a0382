"""Growth: what claim, commit, announce, status, why, check-lease, prove of one chunk, a second vacuum and a chunk on disk cost from 1,000 to 1,000,000 chunks, and from 1 to 1,000 jobs.

Nothing may grow faster than the logarithm of what there is: a figure at 1,000,000 chunks is at most twice that at 1,000, since
log(1,000,000) / log(1,000) = 2, and at 1,000 jobs at most three times that at 10. A claim may grow by a fifth. Where the answer
itself grows with the jobs, one part of it counts: announce for each job that reads the chunk, status for each dataset that it
shows, and reading the definitions, which every process does once, and `odf apply` for each job. A matrix counts only so many
chunks and draws only so many columns; both limits are reached at 100,000 chunks, and from there it may grow by a fifth.

Times are CPU times, of our process and of the server's together: what else runs on the machine does not count, and what a disk adds
is the same at every size. The stores of all sizes take turns, and the best of all rounds counts.

./dev bench growth                    everything, and the pictures in docs/images
./dev bench growth sqlite chain 100   only this store and this shape, up to 100 jobs, and no pictures
./dev bench growth chunks 10000       both stores, up to 10,000 chunks
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench._growth import SHAPES, SOURCE, Size, dataid, filled, names, project
from bench._growth_picture import Curve, Plot, picture
from bench._report import bar, figure, finish
from opendataflow.insight.matrix import overview
from opendataflow.insight.prove import prove
from opendataflow.insight.why import why
from opendataflow.project import without_file
from opendataflow.run.vacuum import plan, vacuum
from opendataflow.store import Store, open_store
from tests.support.postgres import Server, start_postgres

CHUNKS = (1_000, 10_000, 100_000, 1_000_000)
JOBS = (1, 10, 100, 1_000)
IMAGES = Path(__file__).resolve().parents[1] / "docs/images"
WIDTH = 160
WORK, LOOKS = 30, 7  # rounds

_T = TypeVar("_T")


class Clock:
    """The CPU time that this process and the server's for this store have used."""

    def __init__(self, store: Store) -> None:
        self._server: Path | None = None
        if store.url.startswith("postgresql"):
            ((pid,),) = store.sql("select pg_backend_pid()")[1]
            self._server = Path(f"/proc/{pid}")

    def now(self) -> float:
        """In seconds, by the nanosecond."""
        ours = time.process_time()
        return ours if self._server is None else ours + int((self._server / "schedstat").read_text().split()[0]) / 1e9

    def of_gone(self) -> float:
        """The same of all processes that are over: commands that we waited for, and what the server ran for them."""
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        ours = used.ru_utime + used.ru_stime
        if self._server is None:
            return ours
        (parent,) = re.findall(r"PPid:\s+(\d+)", (self._server / "status").read_text())
        ticks = Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()[13:15]
        return ours + sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


class Grown:
    """One store of a given size, and what it costs to use it."""

    def __init__(self, url: str, size: Size) -> None:
        self.url, self.size = url, size
        self.store = filled(url, size)
        ((chunks,),) = self.store.sql("select count(*) from datastatus where locktype = 'OUT'")[1]
        self.chunks = int(str(chunks))
        self.disk = _bytes(url, self.store) / self.chunks
        self._times: dict[str, list[float]] = {}
        self._newest = size.done + size.waiting
        self.clock = Clock(self.store)
        self._runid = 0
        self._project = without_file(Path(tempfile.gettempdir()), url)

    def work(self) -> None:
        """One run, and one chunk that arrives, as it goes all day."""
        jobid = names(self.size)[0].jobid
        (claim,) = self._timed("claim", self.clock, lambda: self.store.claim(jobid))
        self._runid = claim.runid
        self._timed("commit", self.clock, lambda: self.store.commit(claim))
        self._newest += 1
        self._timed("announce", self.clock, lambda: self.store.announce(SOURCE, [dataid(self.size, self._newest)]))

    def look(self) -> None:
        """One look of each kind, with a store that knows nothing yet, as from the shell."""
        flow = names(self.size)
        jobid = flow[len(flow) // 2].jobid
        done = dataid(self.size, self.size.done - 40)
        done = done[:7] if self.size.shape == "rollup" else done
        with open_store(self.url) as store:
            clock = Clock(store)
            with store.at_once():
                self._timed("definitions", clock, store.catalogue)
                self._timed("status", clock, lambda: overview(store, width=WIDTH))
                self._timed("why", clock, lambda: why(store, jobid))
                self._timed("why_chunk", clock, lambda: why(store, jobid, done))
            self._timed("holds", clock, lambda: store.views.holds(self._runid))
            self._timed("prove_chunk", clock, lambda: prove(store, self._project, flow[0].made, done))
            self._timed("vacuum", clock, lambda: vacuum(store, self._project, plan(store, self._project)))

    def _timed(self, name: str, clock: Clock, act: Callable[[], _T]) -> _T:
        start = clock.now()
        answer = act()
        self._times.setdefault(name, []).append(clock.now() - start)
        return answer

    def ms(self, name: str) -> float:
        """What one of these costs."""
        return 1e3 * min(self._times[name])

    def parts(self, name: str) -> int:
        """How many parts an answer has, where it grows with the jobs."""
        if name == "announce":
            return 1 if self.size.shape == "chain" else self.size.jobs
        return {"status": self.size.jobs + 1, "definitions": self.size.jobs}.get(name, 1)


def _bytes(url: str, store: Store) -> int:
    if url.startswith("sqlite"):
        return Path(url.removeprefix("sqlite:///")).stat().st_size
    ours = "select sum(pg_total_relation_size(oid)) from pg_class where relkind = 'r' and relnamespace = 'dataflow'::regnamespace"
    return int(str(store.sql(ours)[1][0][0]))


def grown(urls: Iterator[str], sizes: Sequence[Size]) -> list[Grown]:
    """Stores of these sizes, used in turn."""
    stores = [Grown(next(urls), size) for size in sizes]
    for rounds, act in ((WORK, Grown.work), (LOOKS, Grown.look)):
        for _ in range(rounds):
            for each in stores:
                act(each)
    return stores


# Chunks --------------------------------------------------------------------------------------------------------------


def by_chunks(label: str, urls: Iterator[str], most: int) -> dict[str, Curve]:
    """One flow of two jobs, half of whose periods wait: the curves by the number of chunks."""
    counts = [chunks for chunks in CHUNKS if chunks <= most]
    stores = grown(urls, [Size("chain", 2, chunks // 4, chunks // 4, period="hour") for chunks in counts])
    curves = {
        name: [(each.chunks, each.ms(name)) for each in stores]
        for name in ("claim", "commit", "announce", "status", "why", "why_chunk", "holds", "prove_chunk", "vacuum")
    }
    curves["disk"] = [(each.chunks, each.disk) for each in stores]
    for name, curve in curves.items():
        for chunks, value in curve:
            figure(f"{label}_{name}_at_{chunks}_chunks", value, "bytes a chunk" if name == "disk" else "ms")
    for name, curve in curves.items():
        before = curve[-2] if name == "status" else curve[0]
        limit = 1.2 if name in ("claim", "status") else 2
        bar(f"{label}_{name}_growth_by_chunks", curve[-1][1] / before[1], limit, at_least=False)
    return curves


# Jobs ----------------------------------------------------------------------------------------------------------------


def by_jobs(label: str, shape: str, urls: Iterator[str], most: int) -> dict[str, Curve]:
    """So many jobs in one shape, over 1,000 days: the curves by the number of jobs."""
    waiting, kept = (1000, 200) if shape == "rollup" else (60, 1000 if shape == "chain" else 100)
    stores = grown(urls, [Size(shape, jobs, 1000, waiting, kept) for jobs in JOBS if jobs <= most])
    curves: dict[str, Curve] = {}
    for name in ("claim", "commit", "announce", "definitions", "status", "why", "why_chunk"):
        curves[name] = [(each.size.jobs, each.ms(name) / each.parts(name)) for each in stores]
        of = " for each part" if stores[-1].parts(name) > 1 else ""
        for jobs, value in curves[name]:
            figure(f"{label}_{shape}_{name}_at_{jobs}_jobs", value, f"ms{of}")
    for name, curve in curves.items():
        limit = 1.2 if name == "claim" else 3
        bar(f"{label}_{shape}_{name}_growth_by_jobs", curve[-1][1] / curve[1][1], limit, at_least=False)
    if shape == "chain":
        figure(f"{label}_chain_chunks_at_{stores[-1].size.jobs}_jobs", stores[-1].chunks, "chunks")
        curves |= applied(label, stores, urls)
    return curves


def applied(label: str, stores: Sequence[Grown], urls: Iterator[str]) -> dict[str, Curve]:
    """`odf apply` of a new project, of one that changed one job, and the first claim after it, over all the chunks that there are."""
    curves: dict[str, Curve] = {"apply": [], "apply_change": [], "first_claim": []}
    for each in stores:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "dataflow.toml"
            file.write_text(project(each.size))
            new = next(urls)
            open_store(new, create=True).close()
            curves["apply"].append((each.size.jobs, 1e3 * odf(each.clock, folder, "apply", "--yes", "--store", new)))
            times: dict[str, list[float]] = {"apply_change": [], "first_claim": []}
            for retries in range(1, 4):
                file.write_text(project(each.size, retries))
                times["apply_change"].append(odf(each.clock, folder, "apply", "--yes", "--store", each.url))
                with open_store(each.url) as store:
                    clock = Clock(store)
                    start = clock.now()
                    (claim,) = store.claim(names(each.size)[0].jobid)
                    times["first_claim"].append(clock.now() - start)
                    store.commit(claim)
            for name, found in times.items():
                curves[name].append((each.size.jobs, 1e3 * min(found)))
    for name, curve in curves.items():
        for jobs, value in curve:
            figure(f"{label}_{name}_at_{jobs}_jobs", value, "ms")
        if len(curve) < 3:
            continue
        (one, cheap), (some, more), (many, dear) = curve[0], *curve[-2:]
        rise = (dear - cheap) / (many - one) / ((more - cheap) / (some - one))
        bar(f"{label}_{name}_of_one_more_job", rise, 1.5, at_least=False)
    return curves


def odf(clock: Clock, folder: str, *words: str) -> float:
    """What one command costs."""
    start = clock.of_gone()
    subprocess.run([sys.executable, "-m", "opendataflow", *words], cwd=folder, check=True, capture_output=True)
    return clock.of_gone() - start


# Pictures ------------------------------------------------------------------------------------------------------------

STORES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}
BY_CHUNKS = {
    "claim": "claim, ms",
    "commit": "commit, ms",
    "announce": "announce, ms",
    "status": "status, ms",
    "why": "why, ms",
    "disk": "disk, bytes a chunk",
}
BY_JOBS = {
    "claim": "claim, ms",
    "announce": "announce, ms for each reader",
    "status": "status, ms for each dataset",
    "why": "why, ms",
}


def draw(curves: dict[str, dict[str, dict[str, Curve]]]) -> None:
    """The pictures of the page about growth."""
    chunks = curves["chunks"]
    plots = [
        Plot(title, {STORES[label]: found[name] for label, found in chunks.items()})
        for name, title in BY_CHUNKS.items()
    ]
    _save("growth-by-chunks", picture("Costs by the number of chunks", plots, 3))
    plots = [
        Plot(f"{STORES[label]}: {title}", {shape: curves[shape][label][name] for shape in SHAPES})
        for name, title in BY_JOBS.items()
        for label in STORES
    ]
    _save("growth-by-jobs", picture("Costs by the number of jobs, in four shapes", plots, 2))


def _save(name: str, drawn: str) -> None:
    (IMAGES / f"{name}.svg").write_text(drawn, encoding="utf-8")


# ---------------------------------------------------------------------------------------------------------------------


def fresh(label: str, folder: str, server: Server) -> Iterator[str]:
    """Addresses of stores that are not there yet."""
    number = 0
    while True:
        number += 1
        yield f"sqlite:///{folder}/{number}.db" if label == "sqlite" else server.create_database()


def main() -> None:
    words = sys.argv[1:]
    most = next((int(word) for word in words if word.isdigit()), 1_000_000)
    labels = [name for name in ("sqlite", "postgres") if name in words] or ["sqlite", "postgres"]
    parts = [name for name in ("chunks", *SHAPES) if name in words] or ["chunks", *SHAPES]
    curves: dict[str, dict[str, dict[str, Curve]]] = {part: {} for part in parts}
    for part in parts:
        for label in labels:
            with ExitStack() as stack:
                folder = stack.enter_context(tempfile.TemporaryDirectory())
                server = stack.enter_context(start_postgres("max_wal_size=8GB"))
                urls = fresh(label, folder, server)
                curves[part][label] = (
                    by_chunks(label, urls, most) if part == "chunks" else by_jobs(label, part, urls, most)
                )
    if not words:
        draw(curves)
    finish()


if __name__ == "__main__":
    main()
