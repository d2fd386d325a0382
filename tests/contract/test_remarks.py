"""What was published with a remark, and what came and was refused, can be found again."""

from __future__ import annotations

from opendataflow import Manifest, Store
from opendataflow.model import CheckResult
from tests.support.flows import chain, claim_one, dataset, produce

ASIDE = CheckResult(
    "quarantine", "quarantine", "error", True, {"rejected": 1, "of": 20, "max": "10 %", "because": {"span": 1}}
)


def test_rejected_rows_are_in_the_run_and_name_the_run_that_made_them(store: Store) -> None:
    chain(store)
    store.register([dataset("product__rejected", options={"repeats": True})])
    store.announce("raw", ["1", "2"])
    claim = claim_one(store, "make")
    store.commit(
        claim, {"product": Manifest(rows=19, checks=(ASIDE,))}, rejected={"product__rejected": Manifest(rows=1)}
    )
    produce(store, "make")
    told = "1 of 20 rows rejected (max 10 %): span=1"
    assert [run.detail for run in store.views.runs()] == [None, f"product: {told}"]
    (remarked,) = store.views.remarked()
    assert (remarked.datasetid, remarked.dataid, remarked.remark) == ("product", "1", f"product: {told}")
    aside = store.views.manifest("product__rejected", "1")
    assert aside is not None
    assert (aside.jobid, aside.runid) == ("make", claim.runid)
    (event,) = store.views.events("product__rejected", "1")
    assert (event.jobid, event.runid, event.why) == ("make", claim.runid, f"rejected by run {claim.runid} of make")
    store.resubmit("product", ["1"])
    assert store.views.remarked() == [], "what is produced again is not READY with a remark"


def test_a_refused_arrival_is_remembered_once_until_something_else_happens(store: Store) -> None:
    chain(store)
    for _ in range(2):
        store.refuse_arrival("raw", "1", "NOT_VALIDATED", "no rows")
    store.refuse_arrival("raw", "2", "WRONG_DATA", "the content of raw 1")
    refused = [(event.dataid, event.after, event.why) for event in store.views.refusals()]
    assert refused == [("2", "WRONG_DATA", "the content of raw 1"), ("1", "NOT_VALIDATED", "no rows")]
    assert store.views.refusals(n=1)[0].dataid == "2"
    assert store.views.chunk("raw", "1") is None, "nothing changed"
    store.announce("raw", ["1"])
    assert [event.dataid for event in store.views.refusals()] == ["2"]
