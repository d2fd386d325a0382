"""Short words for what the contract tests say again and again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from opendataflow import Dataset, Input, Job, Mapping, Partition, Pool, Store
from opendataflow.project import Project
from opendataflow.store import Claim
from opendataflow.store.drivers.base import Transaction
from opendataflow.store.engine import folding

TABLES = (
    "dataset",
    "pinned_schema",
    "job",
    "broken_job",
    "applied_job",
    "jobrule",
    "pool",
    "datastatus",
    "run",
    "run_input",
    "data_manifest",
    "remake",
    "recalled",
    "stale",
    "event",
    "candidate",
    "note",
    "counter",
    "meta",
)


def dataset(datasetid: str, partition: str = "number", **rest: Any) -> Dataset:
    """A dataset that is only tracked; the bounds of its partition may be given."""
    options = {name: rest.pop(name) for name in ("options", "checks", "kind", "location") if name in rest}
    return Dataset(datasetid, partition=Partition(partition, **rest), **options)


def job(jobid: str, *reads: str, writes: str | Iterable[str] = (), **rest: Any) -> Job:
    """A job whose inputs are written like "flights" or "flights rollup"."""
    words = (each.partition(" ") for each in reads)
    inputs = tuple(Input(datasetid, Mapping.from_data(mapping)) for datasetid, _, mapping in words)
    return Job(jobid, inputs, (writes,) if isinstance(writes, str) else tuple(writes), **rest)


def chain(store: Store, *, pools: Iterable[Pool] = (), partition: str = "number", **rest: Any) -> None:
    """Registers raw → make → product → use → report; what is given goes to both jobs."""
    datasets = [dataset(name, partition) for name in ("raw", "product", "report")]
    jobs = [job("make", "raw", writes="product", **rest), job("use", "product", writes="report", **rest)]
    store.register(datasets, jobs, pools)


def claim_one(store: Store, jobid: str, **how: Any) -> Claim:
    """The claim that must be there."""
    claims = store.claim(jobid, **how)
    assert len(claims) == 1, f"{jobid} got {len(claims)} chunks"
    return claims[0]


def produce(store: Store, jobid: str, dataid: str | None = None) -> Claim:
    """Claims and publishes the next chunk, which must be this one when it is named."""
    claim = claim_one(store, jobid)
    assert dataid is None or claim.dataid == dataid
    store.commit(claim)
    return claim


def drain(store: Store, *jobids: str, n: int = 100) -> list[tuple[str, str]]:
    """Publishes all that these jobs can take, round and round as a scheduler does; (jobid, dataid) in order."""
    done: list[tuple[str, str]] = []
    while True:
        before = len(done)
        for jobid in jobids:
            claims = store.claim(jobid, n=n)
            store.commit_many([(claim, {}, 0) for claim in claims])
            done += [(claim.jobid, claim.dataid) for claim in claims]
        if len(done) == before:
            return done


def fold_in(store: Store) -> None:
    """Folds in what was typed as SQL and makes claimable what is due, as the next claim does."""

    def fold(tx: Transaction) -> None:
        folding.fold(tx, store._locked_catalogue(tx))
        tx.run("candidates_due")

    store.write(fold)


def following(store: Store, jobid: str, n: int = 100) -> list[str]:
    """What a job would take next, with what was typed as SQL and what is due again by now: a look foresees what a fold does."""
    with store.looking():
        foreseen = store.views.next_dataids(jobid, n)
    fold_in(store)
    assert store.views.next_dataids(jobid, n) == foreseen
    return foreseen


def end_leases(store: Store) -> None:
    """The leases of all that runs are over, as after a long silence."""
    store.dml("update run set lease_until = 1 where status = 'RUNNING'")


def end_waits(store: Store) -> None:
    """What is to wait before it is tried again has waited long enough."""
    store.dml("update candidate set not_before = 1 where not_before > 1")


def put(
    store: Store, datasetid: str, dataid: str, status: str, *, jobid: str = "somebody", locktype: str = "OUT"
) -> None:
    """A status row as a person types it."""
    store.dml(
        "insert into datastatus (datasetid, dataid, jobid, locktype, status) "
        f"values ('{datasetid}', '{dataid}', '{jobid}', '{locktype}', '{status}')"
    )


def change(store: Store, datasetid: str, dataid: str, status: str) -> None:
    """A changed status as a person types it."""
    assert (
        store.dml(
            f"update datastatus set status = '{status}' "
            f"where datasetid = '{datasetid}' and dataid = '{dataid}' and locktype = 'OUT'"
        )
        >= 1
    )


def status(store: Store, datasetid: str, dataid: str) -> str | None:
    """The status of a chunk; None when there is no row."""
    chunk = store.views.chunk(datasetid, dataid)
    return chunk.status if chunk else None


def in_status(store: Store, datasetid: str, dataid: str, jobid: str) -> str | None:
    """The status of one job's relation to a chunk; None when there is no row."""
    row = store.views.input_row(datasetid, dataid, jobid)
    return row.status if row else None


def dump(store: Store) -> dict[str, list[Any]]:
    """Every row of every table: two equal dumps mean that nothing was written."""
    return {table: sorted(map(repr, store.sql(f"select * from {table}")[1])) for table in TABLES}


def kinds(store: Store, datasetid: str, dataid: str) -> list[str]:
    """The kinds of a chunk's events, oldest first."""
    return [event.kind for event in store.views.events(datasetid, dataid)]


def declaring(project: Project, store: Store) -> Project:
    """The project as one that declares everything that is registered."""
    catalogue = store.catalogue()
    return replace(project, datasets=tuple(catalogue.datasets.values()), jobs=tuple(catalogue.jobs.values()))
