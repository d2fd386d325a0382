"""The past: what did the warehouse look like when it broke?"""

from __future__ import annotations

from datetime import UTC, datetime

from opendataflow import Store
from opendataflow.insight.explain_then import explain_then
from opendataflow.insight.lineage import lineage
from opendataflow.insight.past import chunk_list_then, overview_then
from opendataflow.insight.why_then import why_then
from tests.support.flows import change, claim_one, dataset, drain, fold_in, job

DAYS = [f"2026-11-{day}" for day in (11, 12, 13)]
JOBS = ("clean", "join", "tell")


def test_what_did_the_warehouse_look_like_on_friday_at_six(store: Store) -> None:
    """Friday evening the network went away in the middle of a run, and somebody set a delivery aside. By Monday all of it is
    mended: the chunk was made again, the delivery replaced, and one that never should have been was forgotten. Then the
    auditors ask what the report of Friday was made from, and why it was late. The statuses of now say nothing any more about
    it; the history does.
    """
    store.register(
        [dataset(name, "day") for name in ("orders", "cleaned", "customers", "joined", "report")],
        [
            job("clean", "orders", writes="cleaned"),
            job("join", "cleaned", "customers latest", writes="joined"),
            job("tell", "joined", writes="report"),
        ],
    )
    store.announce("orders", DAYS[:2])
    store.announce("customers", [DAYS[0]])
    drain(store, *JOBS)
    thursday = datetime.now(UTC)

    store.announce("orders", [DAYS[2]])
    store.announce("customers", ["2026-11-14"])  # a test delivery, of tomorrow
    change(store, "orders", DAYS[1], "HOLD")
    fold_in(store)
    store.fail(claim_one(store, "clean"), detail="network is unreachable")
    friday = datetime.now(UTC)

    store.forget("customers", ["2026-11-14"])
    store.release("orders", [DAYS[1]])
    store.announce("orders", [DAYS[1]], again=True)
    store.resubmit("cleaned", DAYS[1:])
    store.resubmit("joined", [DAYS[1]])
    drain(store, *JOBS)
    assert store.views.status_counts()["report"] == {"READY": 3}

    # The matrix of Friday: what failed, what was set aside, and what is gone since.
    was = {(chunk.datasetid, chunk.dataid): chunk.status for chunk in chunk_list_then(store, friday)}
    assert was["cleaned", DAYS[2]] == "FAILED"
    assert was["orders", DAYS[1]] == "HOLD"
    assert was["customers", "2026-11-14"] == "READY"
    assert ("report", DAYS[2]) not in was
    found = {(each.datasetid, each.status): each.n for each in overview_then(store, friday).exceptions}
    assert found == {("cleaned", "FAILED"): 1, ("orders", "HOLD"): 1}
    assert overview_then(store, thursday).exceptions == ()

    # Why there was no report of Friday: one step up each time, to the cause.
    waits = why_then(store, "tell", DAYS[2], friday)
    assert (waits.verdict, waits.decision) == ("DATA_NOT_READY", None)
    cause = explain_then(store, "cleaned", DAYS[2], friday)
    assert [run.detail for run in cause.runs] == ["network is unreachable"]
    assert cause.decisions[-1].verdict == "YES", "it was allowed to run, and then failed"

    # What the report of Thursday was made from on Friday, and is made from now.
    then = {node.id for node in lineage(store, "joined", DAYS[1], at=friday).nodes if node.distance < 0}
    now = {node.id for node in lineage(store, "joined", DAYS[1]).nodes if node.distance < 0}
    assert then == {f"cleaned/{DAYS[1]}@1", f"orders/{DAYS[1]}@1", f"customers/{DAYS[0]}@1"}
    assert now == {f"cleaned/{DAYS[1]}@2", f"orders/{DAYS[1]}@2", f"customers/{DAYS[0]}@1"}
    old = {node.id: node.is_current for node in lineage(store, "report", DAYS[1]).nodes}
    assert old[f"report/{DAYS[1]}@1"]
    assert not old[f"joined/{DAYS[1]}@1"], "the report still stands on what was there before"
