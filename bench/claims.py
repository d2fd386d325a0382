"""Claims: what a full claim and commit costs, against two bare sides, what bulk costs, and that nothing of it grows.

./dev bench claims                every part
./dev bench claims ceiling bulk   only these
./dev bench claims growth 20000   with so many chunks instead of 1,000,000

| part | what is compared |
| --- | --- |
| imports | `import opendataflow` with a Python that imports nothing |
| ceiling | a run with the least that a claim and a commit can be: bench/_ceiling.py |
| engine | a run with the very statements of the engine and ready-made parameters: the price of everything that is not SQL |
| bulk | announcing with bare set-based inserts of the same rows: bench/_bulk.py; and what a resubmit of 10,000 chunks takes |
| growth | a claim in a store of 1,000,000 chunks with a claim in one of 1,000 |

Both sides take turns in short rounds: machines are noisy.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench._bulk import announce_into_postgres, announce_into_sqlite
from bench._ceiling import ceiling as minimal
from bench._crew import ratio, take_turns
from bench._filled import NUMBER, define, filled
from bench._report import bar, figure, finish
from opendataflow.model import Dataset, Input, Job
from opendataflow.store import Store, open_store
from tests.support.postgres import Cluster, start_postgres

RECEIPT = json.dumps(
    {"jobid": "load", "verdict": "YES"}
    | {name: {"yes": True, "evidence": {"x": 1}} for name in ("ready", "right", "place", "validated", "safe")}
)


# The bare side ------------------------------------------------------------------------------------------------------


class Bare:
    """The engine's statements and nothing else."""

    def __init__(self, store: Store) -> None:
        self.backend: Any = store._backend

    def run(self) -> None:
        with self.backend.writing() as tx:
            row = tx.rows("claim_pick", jobid="load", n=1)[0]
            dataid, _, key, epoch = row[4:8]
            inputs = f'[["raw","{dataid}",1]]'
            one = {"jobid": "load", "dataid": dataid, "epoch": epoch}
            how = {"pool": "", "owner": "bare", "lease": 3600, "forced": False, "why": None}
            take = {"sort_key": key, "tries": 1, "before": None, "receipt": RECEIPT, "inputs": inputs}
            runid = tx.rows("claim_take_one", **one, **how, **take)[0][0]
        with self.backend.writing() as tx:
            end = {
                "owner": "bare",
                "outputs": '["clean"]',
                "kind": "published",
                "run_status": "READY",
                "out_status": "READY",
                "in_status": "DONE",
                "outcome": "READY",
                "detail": None,
                "exit_code": None,
            }
            unknown = dict.fromkeys(("bytes", "rows", "span_lower", "span_upper", "fingerprint"))
            manifest = {"datasetid": "clean", "dataid": dataid, "version": epoch, "jobid": "load", "runid": runid}
            manifest |= {"location": "", "format": "", "passed": True, "body": "{}", **unknown}
            chunks = f'[["raw","{dataid}"],["clean","{dataid}"],["report","{dataid}"]]'
            tx.lock("lock_definitions")
            tx.rows("revision")
            tx.send("end_run", runid=runid, **one, **end)
            tx.run("manifest_put", **manifest)
            tx.lock("lock_pairs", pairs=f'[["load","{dataid}"],["sum","{dataid}"]]')
            tx.run("candidate_drop", jobid="load", dataid=dataid)
            tx.send("statuses_given", chunks=chunks)
            tx.rows("reads_of_pairs", reads=f'[["sum","{dataid}","clean","{dataid}"]]')
            candidate = {"jobid": "sum", "dataid": dataid, "sort_key": key, "rank": 1, "state": "CLAIMABLE"}
            tx.run("candidate_put", **candidate, not_before=0, inputs=f'[["clean","{dataid}"]]')


def ours(store: Store) -> None:
    """One full claim and commit."""
    store.commit(store.claim("load")[0])


def rate(work: Callable[[], None], runs: int) -> float:
    start = time.perf_counter()
    for _ in range(runs):
        work()
    return runs / (time.perf_counter() - start)


def alternate(store: Store, rounds: int = 12, runs: int = 60) -> tuple[float, float, float]:
    """(bare, ours, ratio) in runs a second: the median of rounds that follow one another directly."""
    bare = Bare(store)
    for _ in range(20):
        ours(store)
        bare.run()
    pairs = [(rate(bare.run, runs), rate(lambda: ours(store), runs)) for _ in range(rounds)]
    return (
        statistics.median(pair[0] for pair in pairs),
        statistics.median(pair[1] for pair in pairs),
        statistics.median(pair[1] / pair[0] for pair in pairs),
    )


def _process(url: str, kind: str, seconds: float, start_at: float) -> int:
    store = open_store(url)
    bare = Bare(store)
    work = bare.run if kind == "bare" else lambda: ours(store)
    for _ in range(5):
        work()
    time.sleep(max(0.0, start_at - time.time()))
    done = 0
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        work()
        done += 1
    store.close()
    return done


def alternate_processes(url: str, processes: int, rounds: int = 3, seconds: float = 3.0) -> tuple[float, float, float]:
    with get_context("spawn").Pool(processes) as pool:
        found = []
        for _ in range(rounds):
            pair = [
                sum(pool.starmap(_process, [(url, kind, seconds, time.time() + 2.5)] * processes)) / seconds
                for kind in ("bare", "ours")
            ]
            found.append(pair)
    return (
        statistics.median(pair[0] for pair in found),
        statistics.median(pair[1] for pair in found),
        statistics.median(pair[1] / pair[0] for pair in found),
    )


# Growth -------------------------------------------------------------------------------------------------------------


def growth(small: Store, large: Store, label: str, chunks: int) -> None:
    for jobid in ("load", "join"):
        times: dict[str, list[float]] = {"small": [], "large": []}
        for round_ in range(15):
            for name, store in (("small", small), ("large", large)):
                for _ in range(12):
                    start = time.perf_counter()
                    claim = store.claim(jobid)[0]
                    spent = time.perf_counter() - start
                    if round_ > 1:
                        times[name].append(spent)
                    store.commit(claim)
        few, many = statistics.median(times["small"]), statistics.median(times["large"])
        inputs = {"load": "one", "join": "three"}[jobid]
        figure(f"{label}_claim_{inputs}_input_at_1000", few * 1e3, "ms")
        figure(f"{label}_claim_{inputs}_input_at_{chunks}", many * 1e3, "ms")
        bar(f"{label}_claim_{inputs}_input_growth", many / few, 1.2, at_least=False)


def announce(make: Callable[[str], str], label: str, rounds: int = 3) -> None:
    dataids = [str(number) for number in range(1, 100_001)]
    pairs = []
    for round_ in range(rounds):
        url = make(f"announce{round_}")
        store = open_store(url, create=True)
        store.register(
            [Dataset(name, partition=NUMBER) for name in ("src", "left", "right")],
            [Job("a", (Input("src"),), ("left",)), Job("b", (Input("src"),), ("right",))],
        )
        path = url.removeprefix("sqlite:///")
        sqlite = label == "sqlite"
        bare = announce_into_sqlite(path, dataids) if sqlite else announce_into_postgres(url, dataids)
        start = time.perf_counter()
        store.announce("src", dataids)
        pairs.append((bare, time.perf_counter() - start))
        store.close()
    figure(f"{label}_bare_bulk_insert", len(dataids) / statistics.median(pair[0] for pair in pairs), "chunks/s")
    figure(f"{label}_announce", len(dataids) / statistics.median(pair[1] for pair in pairs), "chunks/s")
    over = statistics.median(pair[0] / pair[1] for pair in pairs)
    bar(f"{label}_announce_over_bare_bulk_insert", over, 0.4, at_least=True)


def resubmit(store: Store, label: str) -> None:
    store.register(
        [Dataset(name, partition=NUMBER) for name in ("in", "out")], [Job("again", (Input("in"),), ("out",))]
    )
    store.announce("in", [str(number) for number in range(10_000)])
    while claims := store.claim("again", 500):
        store.commit_many([(claim, {}, None) for claim in claims])
    start = time.perf_counter()
    store.dml("UPDATE job_status SET status = 'RESUBMIT' WHERE datasetid = 'out'")
    assert store.claim("again")[0].was_resubmit
    bar(f"{label}_resubmit_10000_and_claim_seconds", time.perf_counter() - start, 5.0, at_least=False)


def imports() -> None:
    def once(code: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - start

    pairs = [(once("pass"), once("import opendataflow")) for _ in range(15)]
    figure("bare_python", statistics.median(pair[0] for pair in pairs) * 1e3, "ms")
    bar(
        "import_opendataflow_over_bare_python",
        statistics.median(pair[1] / pair[0] for pair in pairs),
        5.0,
        at_least=False,
    )
    for name in ("pyspark", "psycopg"):
        code = f"import sys, opendataflow; sys.exit({name!r} in sys.modules)"
        bar(
            f"import_opendataflow_imports_{name}",
            subprocess.run([sys.executable, "-c", code]).returncode,
            0,
            at_least=False,
        )


# The ceiling --------------------------------------------------------------------------------------------------------


def _ours(url: str) -> Callable[[], None]:
    store = open_store(url)
    return lambda: ours(store)


def _minimal(address: str) -> Callable[[], None]:
    return minimal(address).run


def over_ceiling(make: Callable[[str], str], label: str, server: Cluster) -> None:
    for processes in (1,) if label == "sqlite" else (1, 4):
        url, address = make(f"ours{processes}"), make(f"ceiling{processes}")
        store = open_store(url, create=True)
        define(store)
        store.announce("raw", [str(number) for number in range(60_000)])
        store.close()
        minimal(address).fill(150_000)
        on_server = label == "postgres"
        cpu = server.cpu_seconds if on_server else lambda: 0.0
        costs = take_turns(processes, {"ours": (_ours, url), "ceiling": (_minimal, address)}, cpu)
        named = label if label == "sqlite" else f"{label}_{processes}_process{'es' * (processes > 1)}"
        for name, cost in costs.items():
            cost.show(f"{named}_{name}", on_server=on_server)
        mine, least = costs["ours"], costs["ceiling"]
        figure(f"{named}_client_cpu_over_ceiling", mine.client_per_run / least.client_per_run, "times")
        tail = named.removeprefix(label)
        bar(f"{label}_over_ceiling{tail}", ratio(mine, least), 0.45 if on_server else 0.4, at_least=True)
        if on_server:
            over = mine.server_per_run / least.server_per_run
            bar(f"{label}_server_cpu_over_ceiling{tail}", over, 2.5, at_least=False)


def over_engine(make: Callable[[str], str], label: str) -> None:
    url = make("rate")
    store = open_store(url, create=True)
    define(store)
    store.announce("raw", [str(number) for number in range(60_000)])
    bare, full, over = alternate(store)
    figure(f"{label}_bare_1_process", bare, "runs/s")
    figure(f"{label}_full_1_process", full, "runs/s")
    bar(f"{label}_full_over_bare_1_process", over, 0.5, at_least=True)
    if label == "postgres":
        bare, full, over = alternate_processes(url, 4)
        figure("postgres_bare_4_processes", bare, "runs/s")
        figure("postgres_full_4_processes", full, "runs/s")
        bar("postgres_full_over_bare_4_processes", over, 0.5, at_least=True)
    store.close()


def main() -> None:
    words = [word for word in sys.argv[1:] if not word.isdecimal()]
    chunks = next((int(word) for word in sys.argv[1:] if word.isdecimal()), 1_000_000)
    parts = words or ["imports", "ceiling", "engine", "bulk", "growth"]
    if "imports" in parts:
        imports()
    with tempfile.TemporaryDirectory() as folder, start_postgres() as server:
        for label, make in (
            ("sqlite", lambda name: f"sqlite:///{folder}/{name}.db"),
            ("postgres", lambda name: server.create_database()),
        ):
            if "ceiling" in parts:
                over_ceiling(make, label, server)
            if "engine" in parts:
                over_engine(make, label)
            if "bulk" in parts:
                announce(make, label)
                store = open_store(make("resubmit"), create=True)
                resubmit(store, label)
                store.close()
            if "growth" in parts:
                small, large = filled(make("small"), 1000), filled(make("large"), chunks)
                growth(small, large, label, chunks)
                small.close()
                large.close()
    finish()


if __name__ == "__main__":
    main()
