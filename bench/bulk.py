"""Bulk: what it costs to resubmit, apply and shard many chunks at once, each with the first claim after it, beside bare SQL.

./dev bench bulk [CHUNKS]

| part | the bare side, in copies of the same tables with the same rows but without triggers (bench/_bulk.py) |
| --- | --- |
| resubmit by a verb, and typed as SQL | one UPDATE of the OUT rows, one insert of the events, one of the candidates |
| apply: a new job reads what is READY | one insert of the candidates |
| shard | one insert each of the OUT rows with their bounds, the events, the manifests and the candidates |

Announcing has its place in `./dev bench claims bulk`.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench._bulk import copied
from bench._report import bar, figure, finish
from opendataflow.model import Dataset, Input, Job, Partition
from opendataflow.run.sharding import NewChunk, Sharding, announce
from opendataflow.store import Store, open_store
from tests.support.flows import fold_in
from tests.support.postgres import start_postgres

NUMBER = Partition("number")

CANDIDATES = """
    insert into candidate (jobid, dataid, sort_key, rank, state, inputs)
    select '{jobid}', dataid, sort_key, {rank}, 'CLAIMABLE', '[["{reads}","' || dataid || '"]]'
    from datastatus where datasetid = '{of}' and locktype = 'OUT';
"""
RESUBMIT = """
    update datastatus set status = 'RESUBMIT', seal = seal + 1 where datasetid = 'out' and locktype = 'OUT';
    insert into event (kind, datasetid, dataid, jobid, epoch, before, after, who)
        select 'resubmitted', datasetid, dataid, jobid, epoch, 'READY', 'RESUBMIT', 'somebody@somewhere:1'
        from datastatus where datasetid = 'out' and locktype = 'OUT';
""" + CANDIDATES.format(jobid="again", rank=0, reads="in", of="out")
APPLY = CANDIDATES.format(jobid="more", rank=1, reads="in", of="in")
SHARD = """
    insert into datastatus (datasetid, dataid, jobid, locktype, status, epoch, version, sort_key, lowerbound, upperbound, seal)
        select 'table', dataid, 'outside', 'OUT', 'READY', 1, 1, sort_key, dataid, dataid, 1
        from datastatus where datasetid = 'in' and locktype = 'OUT';
    insert into event (kind, datasetid, dataid, jobid, epoch, after, who, why)
        select 'announced', datasetid, dataid, jobid, epoch, 'READY', 'somebody@somewhere:1', 'sharded by key'
        from datastatus where datasetid = 'table' and locktype = 'OUT';
    insert into data_manifest (datasetid, dataid, version, jobid, body)
        select datasetid, dataid, version, jobid, '{"extra":{"sharded_by":"key","bounds":["' || dataid || '","' || dataid || '"],"rows":1000}}'
        from datastatus where datasetid = 'table' and locktype = 'OUT';
""" + CANDIDATES.format(jobid="load", rank=1, reads="table", of="table")


def seconds(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def beside(store: Store, label: str, name: str, bare: str, act: Callable[[], object], jobid: str) -> None:
    """One bulk change with the first claim after it, beside the bare rows of the change."""
    other = copied(store.url, bare)
    spent = seconds(act)
    first = seconds(lambda: claimed(store, jobid))
    figure(f"{label}_bare_{name}", other, "s")
    figure(f"{label}_{name}", spent, "s")
    figure(f"{label}_first_claim_after_{name}", first, "s")
    bar(f"{label}_{name}_and_claim_over_bare_rows", other / (spent + first), 0.05, at_least=True)


def claimed(store: Store, jobid: str) -> None:
    (claim,) = store.claim(jobid)
    store.fail(claim)


def play(store: Store, label: str, chunks: int) -> None:
    dataids = [str(number) for number in range(1, chunks + 1)]
    store.register(
        [Dataset(name, partition=NUMBER) for name in ("in", "out")], [Job("again", (Input("in"),), ("out",))]
    )
    store.announce("in", dataids)
    while claims := store.claim("again", 5000):
        store.commit_many([(claim, {}, None) for claim in claims])
    beside(store, label, "resubmit", RESUBMIT, lambda: store.resubmit("out", dataids), "again")
    store.dml("UPDATE job_status SET status = 'READY' WHERE datasetid = 'out'")
    fold_in(store)
    typed = "UPDATE job_status SET status = 'RESUBMIT' WHERE datasetid = 'out'"
    beside(store, label, "resubmit_by_sql", RESUBMIT, lambda: store.dml(typed), "again")
    more = Job("more", (Input("in"),), ("extra",))
    apply = lambda: store.register([Dataset("extra", partition=NUMBER)], [more])  # noqa: E731
    beside(store, label, "apply", APPLY, apply, "more")
    table = Dataset("table", partition=Partition("range", "key"))
    store.register(
        [table, Dataset("loaded", partition=Partition("range"))], [Job("load", (Input("table"),), ("loaded",))]
    )
    fold_in(store)
    shards = tuple(NewChunk(dataid, dataid, dataid, 1000) for dataid in dataids)
    sharding = Sharding(table, "key", "long", 1000 * chunks, chunks, 0, shards, False)
    beside(store, label, "shard", SHARD, lambda: announce(store, sharding), "load")


def main() -> None:
    chunks = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as folder, start_postgres() as server:
        for label, url in (("sqlite", f"sqlite:///{folder}/bulk.db"), ("postgres", server.create_database())):
            with open_store(url, create=True) as store:
                play(store, label, chunks)
    finish()


if __name__ == "__main__":
    main()
