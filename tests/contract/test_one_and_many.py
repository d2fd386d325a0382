"""One chunk and many: what is done for one has statements of its own, which write exactly what the lists for many write."""

from __future__ import annotations

from typing import Any

import pytest

import opendataflow
from opendataflow import Manifest, Store
from opendataflow.errors import LeaseLost
from opendataflow.model import CheckResult
from tests.support.flows import change, dataset, dump, job

# What is counted up or told by a clock differs between any two runs.
COLUMNS = {
    "datastatus": "datasetid, jobid, locktype, status, epoch, version, tries, held, sort_key, seal",
    "run": "jobid, epoch, status, pool, owner, lease, forced, outcome, detail, exit_code",
    "run_facts": "jobid, epoch, inputs",
    "event": "kind, datasetid, jobid, epoch, before, after, who, why, receipt",
    "data_manifest": "datasetid, version, jobid, location, format, bytes, rows, fingerprint, passed, body",
    "made_from": "in_datasetid, in_dataid, in_version, datasetid, version",
    "candidate": "jobid, sort_key, rank, state, inputs",
}


def rows_of(store: Store, dataid: str) -> dict[str, list[Any]]:
    """Everything that the store knows of one dataid, with its number as N."""
    told = {}
    for table, columns in COLUMNS.items():
        found = store.sql(f"select {columns} from {table} where dataid = '{dataid}'")[1]
        told[table] = sorted(repr(row).replace(dataid, "N") for row in found)
    return told


@pytest.fixture
def flow(store: Store) -> Store:
    names = ("raw", "side", "product", "extra", "report")
    store.register(
        [dataset(name) for name in names],
        [
            job("make", "raw", "side", writes=("product", "extra"), lease=3600),
            job("use", "product", "extra", writes="report"),
        ],
    )
    store.announce("raw", ["11", "22", "33"])
    store.announce("side", ["11", "22", "33"])
    return store


def manifest(dataid: str) -> dict[str, Manifest]:
    return {name: Manifest(location=f"/{name}/{dataid}", bytes=3, rows=2) for name in ("product", "extra")}


@pytest.mark.parametrize("again", [False, True], ids=["new", "resubmitted"])
def test_one_chunk_is_claimed_and_published_as_many_are(flow: Store, again: bool) -> None:
    if again:
        claims = flow.claim("make", n=3)
        flow.commit_many([(claim, manifest(claim.dataid), 0) for claim in claims])
        change(flow, "product", "11", "RESUBMIT")
        change(flow, "product", "22", "RESUBMIT")
        change(flow, "product", "33", "RESUBMIT")
    (one,) = flow.claim("make")
    many = flow.claim("make", n=2)
    assert [claim.dataid for claim in (one, *many)] == ["11", "22", "33"]
    claimed = [rows_of(flow, claim.dataid) for claim in (one, *many)]
    assert claimed[0] == claimed[1] == claimed[2]

    flow.commit(one, manifest(one.dataid), exit_code=0)
    flow.commit_many([(claim, manifest(claim.dataid), 0) for claim in many])
    published = [rows_of(flow, claim.dataid) for claim in (one, *many)]
    assert published[0] == published[1] == published[2]
    assert [claim.dataid for claim in flow.claim("use", n=5)] == ["11", "22", "33"]


def test_runs_of_several_jobs_end_together_each_with_its_own_words(flow: Store) -> None:
    first = flow.claim("make", n=2)
    flow.commit_many([(claim, manifest(claim.dataid), 0) for claim in first])
    done = [*flow.claim("use", n=2), *flow.claim("make")]
    warned = {"product": Manifest(checks=(CheckResult("rows", "rows", "warn"),))}
    flow.commit_many([(done[0], {}, 0), (done[1], {}, None), (done[2], warned, 7)])
    ended = [flow.views.run(claim.runid) for claim in done]
    assert [(run.jobid, run.dataid, run.status, run.exit_code) for run in ended] == [
        ("use", "11", "READY", 0),
        ("use", "22", "READY", None),
        ("make", "33", "READY", 7),
    ]
    assert [bool(run.detail) for run in ended] == [False, False, True]
    assert [why for (why,) in flow.sql("select why from event where kind = 'published' and dataid = '33'")[1]] == [
        ended[2].detail
    ] * 2


@pytest.mark.parametrize(
    "changed",
    [
        "update run set status = 'LOST' where runid = {runid}",
        "update datastatus set status = 'HOLD' where datasetid = 'extra' and dataid = '{dataid}' and locktype = 'OUT'",
        "update datastatus set epoch = 9 where datasetid = 'extra' and dataid = '{dataid}' and locktype = 'OUT'",
        "update datastatus set runid = {other} where datasetid = 'extra' and dataid = '{dataid}' and locktype = 'OUT'",
    ],
    ids=["run", "status", "epoch", "holder"],
)
def test_of_several_runs_one_that_lost_a_chunk_lets_none_end(flow: Store, changed: str) -> None:
    claims = flow.claim("make", n=3)
    flow.dml(changed.format(runid=claims[1].runid, dataid=claims[1].dataid, other=claims[0].runid))
    before = dump(flow)
    with pytest.raises(LeaseLost, match=f"run {claims[1].runid} "):
        flow.commit_many([(claim, manifest(claim.dataid), 0) for claim in claims])
    assert dump(flow) == before


def test_a_consumer_that_is_registered_meanwhile_gets_its_candidate(flow: Store, store_url: str) -> None:
    (claim,) = flow.claim("make")
    with opendataflow.open(store_url) as second:
        second.register([dataset("late")], [job("later", "product", writes="late")])
    flow.commit(claim, manifest(claim.dataid))
    assert [claim.dataid for claim in flow.claim("later")] == ["11"]
