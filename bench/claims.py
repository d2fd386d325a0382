"""Claims: what a full claim and commit costs, against bare SQL through the same driver, and that it does not grow.

The bare loop runs the very statements of the engine, with parameters that are ready made, so that the ratio is the price of
everything that is not SQL. Both sides alternate in short rounds on the same store: machines are noisy.
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

from bench._report import bar, figure, finish
from opendataflow.model import Dataset, Input, Job, Partition
from opendataflow.store import Store, open_store
from tests.support.postgres import start_postgres

NUMBER = Partition("number")
RECEIPT = json.dumps(
    {"jobid": "load", "verdict": "YES"}
    | {name: {"yes": True, "evidence": {"x": 1}} for name in ("ready", "right", "place", "validated", "safe")}
)


def define(store: Store, prefix: str = "") -> None:
    """A job with one input and a consumer, and a job with three inputs."""
    names = ("raw", "clean", "report", "one", "two", "three", "joined")
    store.register(
        [Dataset(prefix + name, partition=NUMBER) for name in names],
        [
            Job(prefix + "load", (Input(prefix + "raw"),), (prefix + "clean",), lease=3600),
            Job(prefix + "sum", (Input(prefix + "clean"),), (prefix + "report",), lease=3600),
            Job(
                prefix + "join",
                tuple(Input(prefix + each) for each in ("one", "two", "three")),
                (prefix + "joined",),
                lease=3600,
            ),
        ],
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
            take = {
                "dataid": dataid,
                "epoch": epoch,
                "sort_key": key,
                "tries": 1,
                "before": None,
                "receipt": RECEIPT,
                "inputs": inputs,
            }
            runid = tx.rows(
                "claim_take",
                jobid="load",
                takes=json.dumps([take]),
                pool="",
                owner="bare",
                lease=3600,
                forced=False,
                why=None,
            )[0][0]
        with self.backend.writing() as tx:
            end = {
                "runid": runid,
                "jobid": "load",
                "dataid": dataid,
                "epoch": epoch,
                "owner": "bare",
                "inputs": inputs,
                "outputs": '["clean"]',
                "kind": "published",
                "run_status": "READY",
                "out_status": "READY",
                "in_status": "DONE",
                "outcome": "READY",
                "detail": None,
                "exit_code": None,
            }
            manifest = f'[{{"datasetid":"clean","dataid":"{dataid}","version":{epoch},"jobid":"load","runid":{runid},"location":"","format":"","passed":true,"body":"{{}}"}}]'
            pairs = f'[["load","{dataid}",[["raw","{dataid}"]],[["raw","{dataid}"]]],["sum","{dataid}",[["clean","{dataid}"]],[["clean","{dataid}"]]]]'
            tx.lock("lock_definitions")
            tx.rows("revision")
            tx.rows("end_run", **end)
            tx.run("manifest_put", manifests=manifest)
            tx.lock("lock_pairs", pairs=pairs)
            tx.rows("pair_facts", pairs=pairs)
            tx.run("candidates_drop", jobid="load", dataids=f'["{dataid}"]')
            tx.run(
                "candidates_put",
                candidates=f'[["sum","{dataid}","{key}",1,"CLAIMABLE",0,"[[\\"clean\\",\\"{dataid}\\"]]"]]',
            )


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

FILL = {
    "postgres": """
        insert into datastatus (datasetid, dataid, jobid, locktype, status, epoch, version, sort_key, seal)
            select d, i::text, 'outside', 'OUT', 'READY', 1, 1, lpad(i::text, 18, '0'), 1 from generate_series(1, {n}) i, unnest(array['raw', 'one', 'two', 'three']) d;
        insert into run (jobid, dataid, epoch, status, inputs) select j, i::text, 1, 'READY', '[]' from generate_series(1, {n} / 2) i, unnest(array['load', 'join']) j;
        insert into datastatus (datasetid, dataid, jobid, locktype, status, epoch, version, sort_key, seal)
            select d, i::text, j, 'OUT', 'READY', 1, 1, lpad(i::text, 18, '0'), 1 from generate_series(1, {n} / 2) i, (values ('clean', 'load'), ('joined', 'join')) x (d, j);
        insert into datastatus (datasetid, dataid, jobid, locktype, status, epoch, version, seal)
            select d, i::text, j, 'IN', 'DONE', 1, 1, 1 from generate_series(1, {n} / 2) i, (values ('raw', 'load'), ('one', 'join'), ('two', 'join'), ('three', 'join')) x (d, j);
        insert into data_manifest (datasetid, dataid, version, jobid) select d, i::text, 1, 'x' from generate_series(1, {n} / 2) i, unnest(array['clean', 'joined']) d;
        insert into event (kind, datasetid, dataid, after) select 'published', d, i::text, 'READY' from generate_series(1, {n} / 2) i, unnest(array['clean', 'joined']) d;
        insert into candidate (jobid, dataid, sort_key, state, inputs)
            select 'load', i::text, lpad(i::text, 18, '0'), 'CLAIMABLE', '[["raw","' || i || '"]]' from generate_series({n} / 2 + 1, {n}) i;
        insert into candidate (jobid, dataid, sort_key, state, inputs)
            select 'join', i::text, lpad(i::text, 18, '0'), 'CLAIMABLE', '[["one","' || i || '"],["two","' || i || '"],["three","' || i || '"]]' from generate_series({n} / 2 + 1, {n}) i;
    """,
    "sqlite": """
        create temp table number as with recursive i (i) as (select 1 union all select i + 1 from i where i < {n}) select i, cast(i as text) as t, printf('%018d', i) as k from i;
        insert into datastatus (datasetid, dataid, jobid, locktype, status, epoch, version, sort_key, seal)
            select d.value, t, 'outside', 'OUT', 'READY', 1, 1, k, 1 from json_each('["raw","one","two","three"]') d cross join number;
        insert into run (jobid, dataid, epoch, status, inputs) select j.value, t, 1, 'READY', '[]' from json_each('["load","join"]') j cross join number where i <= {n} / 2;
        insert into datastatus (datasetid, dataid, jobid, locktype, status, epoch, version, sort_key, seal)
            select x.value ->> 0, t, x.value ->> 1, 'OUT', 'READY', 1, 1, k, 1 from json_each('[["clean","load"],["joined","join"]]') x cross join number where i <= {n} / 2;
        insert into datastatus (datasetid, dataid, jobid, locktype, status, epoch, version, seal)
            select x.value ->> 0, t, x.value ->> 1, 'IN', 'DONE', 1, 1, 1 from json_each('[["raw","load"],["one","join"],["two","join"],["three","join"]]') x cross join number where i <= {n} / 2;
        insert into data_manifest (datasetid, dataid, version, jobid) select d.value, t, 1, 'x' from json_each('["clean","joined"]') d cross join number where i <= {n} / 2;
        insert into event (kind, datasetid, dataid, after) select 'published', d.value, t, 'READY' from json_each('["clean","joined"]') d cross join number where i <= {n} / 2;
        insert into candidate (jobid, dataid, sort_key, state, inputs) select 'load', t, k, 'CLAIMABLE', '[["raw","' || t || '"]]' from number where i > {n} / 2;
        insert into candidate (jobid, dataid, sort_key, state, inputs)
            select 'join', t, k, 'CLAIMABLE', '[["one","' || t || '"],["two","' || t || '"],["three","' || t || '"]]' from number where i > {n} / 2;
    """,
}


def filled(url: str, chunks: int) -> Store:
    """A store in which half of the chunks of each job are done."""
    store = open_store(url, create=True)
    define(store)
    store.fold_in()  # folds the definitions in
    dialect = url.partition(":")[0].removesuffix("ql")
    store.dml(FILL[dialect].format(n=chunks))
    if dialect == "postgres":
        store.dml("analyze")
    return store


def growth(small: Store, large: Store, label: str) -> None:
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
        figure(f"{label}_claim_{inputs}_input_at_1000000", many * 1e3, "ms")
        bar(f"{label}_claim_{inputs}_input_growth", many / few, 1.5, at_least=False)


def announce(store: Store, label: str) -> None:
    chunks = 100_000
    store.register(
        [Dataset(name, partition=NUMBER) for name in ("src", "left", "right")],
        [Job("a", (Input("src"),), ("left",)), Job("b", (Input("src"),), ("right",))],
    )
    start = time.perf_counter()
    store.announce("src", [str(number) for number in range(1, chunks + 1)])
    spent = time.perf_counter() - start
    bar(f"{label}_announce_chunks_per_second", chunks / spent, 10_000, at_least=True)


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


def main() -> None:
    chunks = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder, start_postgres() as server:
        imports()
        for label, make in (
            ("sqlite", lambda name: f"sqlite:///{folder}/{name}.db"),
            ("postgres", lambda name: server.create_database()),
        ):
            url = make("rate")
            store = open_store(url, create=True)
            define(store)
            store.announce("raw", [str(number) for number in range(60_000)])
            bare, full, ratio = alternate(store)
            figure(f"{label}_bare_1_process", bare, "runs/s")
            figure(f"{label}_full_1_process", full, "runs/s")
            bar(f"{label}_full_over_bare_1_process", ratio, 0.5, at_least=True)
            if label == "postgres":
                bare, full, ratio = alternate_processes(url, 4)
                figure("postgres_bare_4_processes", bare, "runs/s")
                figure("postgres_full_4_processes", full, "runs/s")
                bar("postgres_full_over_bare_4_processes", ratio, 0.5, at_least=True)
            store.close()
            store = open_store(make("bulk"), create=True)
            announce(store, label)
            resubmit(store, label)
            store.close()
            small, large = filled(make("small"), 1000), filled(make("large"), chunks)
            growth(small, large, label)
            small.close()
            large.close()
    finish()


if __name__ == "__main__":
    main()
