"""Stale: a chunk that was made from a version which is no longer current; what its job wants done about it; and when it is none."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import opendataflow
from opendataflow import Manifest, Store
from opendataflow.insight import stale as looking
from opendataflow.insight.stale import stale_among, stale_of_outputs, why_stale
from tests.support.flows import chain, claim_one, dataset, drain, dump, fold_in, job, kinds, produce, put, status

JOBS = ("make", "use")


def deliver(store: Store, dataid: str, content: str, datasetid: str = "raw") -> None:
    """Something outside delivers a chunk, again if it is there."""
    store.announce(datasetid, [dataid], manifests={dataid: Manifest(fingerprint=content)})


def publish(store: Store, jobid: str, content: str | None = None) -> str:
    """The next chunk of a job is published with this content."""
    claim = claim_one(store, jobid)
    store.commit(claim, {claim.outputs[0]: Manifest(fingerprint=content)} if content else None)
    return claim.dataid


def stale(store: Store) -> list[tuple[str, str, bool]]:
    return sorted((row.datasetid, row.dataid, row.is_direct) for row in store.views.stale())


def made(store: Store, **rest: Any) -> None:
    """raw 1 and 2 are delivered, and everything is made of them."""
    chain(store, **rest)
    for dataid in ("1", "2"):
        deliver(store, dataid, f"raw {dataid} a")
        publish(store, "make", f"product {dataid} a")
        publish(store, "use", f"report {dataid} a")


def test_what_was_made_from_an_older_version_is_stale_at_any_distance(store: Store) -> None:
    made(store)
    assert stale(store) == []
    deliver(store, "1", "raw 1 b")
    assert stale(store) == [("product", "1", True), ("report", "1", False)]
    assert [str(mark) for mark in store.views.stale_marks([("product", "1"), ("report", "1")])] == [
        "raw 1 is version 2 now, and version 1 was read"
    ]
    assert status(store, "product", "1") == "READY", "it is shown, and nothing happens by itself"
    assert store.claim("make") == []


def test_the_same_content_delivered_again_makes_nothing_stale(store: Store) -> None:
    made(store)
    store.announce("raw", ["1"], manifests={"1": Manifest(fingerprint="raw 1 a")}, again=True)
    assert stale(store) == []
    deliver(store, "1", "raw 1 b")
    assert stale(store) == [("product", "1", True), ("report", "1", False)]
    store.announce("raw", ["1"], manifests={"1": Manifest(fingerprint="raw 1 a")}, again=True)
    assert stale(store) == [], "what was read stands there again"


def test_without_a_fingerprint_a_new_version_is_other_content(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    drain(store, *JOBS)
    store.announce("raw", ["1"], again=True)
    assert stale(store) == [("product", "1", True), ("report", "1", False)]


def test_made_again_it_is_not_stale(store: Store) -> None:
    made(store)
    deliver(store, "1", "raw 1 b")
    store.resubmit("product", ["1"])
    publish(store, "make", "product 1 b")
    assert stale(store) == [("report", "1", True)]
    store.resubmit("report", ["1"])
    publish(store, "use", "report 1 b")
    assert stale(store) == []
    assert store.sql("select * from stale")[1] == []


def test_an_input_published_while_a_run_reads_the_older_version(store: Store) -> None:
    chain(store)
    deliver(store, "1", "a")
    running = claim_one(store, "make")
    deliver(store, "1", "b")
    store.commit(running)
    assert stale(store) == [("product", "1", True)]


def test_a_rollback_makes_stale_what_was_made_from_the_newer_version(store: Store) -> None:
    made(store)
    store.resubmit("product", ["1"])
    publish(store, "make", "product 1 b")
    store.resubmit("report", ["1"])
    publish(store, "use", "report 1 b")
    store.rollback("product", "1")
    assert stale(store) == [("report", "1", True)]
    store.rollback("product", "1", to=2)
    assert stale(store) == []


def test_a_job_that_ignores_new_versions_stops_it(store: Store) -> None:
    made(store, options={"on_new_version": "ignore"})
    deliver(store, "1", "raw 1 b")
    assert stale(store) == []


def test_a_job_that_reruns_is_resubmitted_with_the_new_version(store: Store) -> None:
    made(store, options={"on_new_version": "rerun"})
    deliver(store, "1", "raw 1 b")
    assert (status(store, "product", "1"), status(store, "report", "1")) == ("RESUBMIT", "READY")
    assert store.views.last_events("product", "1")[0].why == "raw 1 has a new version"
    publish(store, "make", "product 1 b")
    assert status(store, "report", "1") == "RESUBMIT"
    publish(store, "use", "report 1 b")
    assert stale(store) == []
    assert drain(store, *JOBS) == []


def test_equal_content_stops_the_cascade(store: Store) -> None:
    made(store, options={"on_new_version": "rerun"})
    deliver(store, "1", "raw 1 b")
    publish(store, "make", "product 1 a")
    assert (status(store, "product", "1"), status(store, "report", "1")) == ("READY", "READY")
    assert drain(store, *JOBS) == []
    assert stale(store) == []


def test_a_run_that_read_the_older_version_is_run_again_by_its_rule(store: Store) -> None:
    chain(store, options={"on_new_version": "rerun"})
    deliver(store, "1", "a")
    running = claim_one(store, "make")
    deliver(store, "1", "b")
    store.commit(running)
    assert status(store, "product", "1") == "RESUBMIT"
    again = claim_one(store, "make")
    assert again.inputs[0].version == 2
    store.commit(again)
    assert drain(store, *JOBS) == [("use", "1")]


def test_all_that_is_stale_is_made_again_upstream_first_and_once(store: Store) -> None:
    made(store)
    deliver(store, "1", "raw 1 b")
    before = dump(store)
    planned = store.remake([(row.datasetid, row.dataid) for row in store.views.stale()], dry_run=True)
    assert {change[:2] for change in planned} == {("product", "1"), ("report", "1")}
    assert dump(store) == before
    store.remake([(row.datasetid, row.dataid) for row in store.views.stale()], why="corrected")
    assert drain(store, "use", "make") == [("make", "1"), ("use", "1")]
    assert stale(store) == []


def test_what_comes_out_the_same_keeps_those_behind_it_without_a_run(store: Store) -> None:
    made(store)
    deliver(store, "1", "raw 1 b")
    store.remake([(row.datasetid, row.dataid) for row in store.views.stale()])
    assert status(store, "report", "1") == "RESUBMIT"
    publish(store, "make", "product 1 a")
    assert status(store, "report", "1") == "READY"
    assert kinds(store, "report", "1")[-1] == "kept"
    assert drain(store, *JOBS) == []
    assert (stale(store), store.sql("select * from remake")[1]) == ([], [])


def test_a_chunk_is_kept_only_when_all_that_it_was_made_from_is_as_it_was(store: Store) -> None:
    store.register(
        [dataset(name) for name in ("raw", "left", "right", "sum", "page")],
        [
            job("to_left", "raw", writes="left"),
            job("to_right", "raw", writes="right"),
            job("add", "left", "right", writes="sum"),
            job("show", "sum", writes="page"),
        ],
    )
    deliver(store, "1", "a")
    for jobid, content in (("to_left", "l"), ("to_right", "r"), ("add", "s"), ("show", "p")):
        publish(store, jobid, content)
    deliver(store, "1", "b")
    store.remake([(row.datasetid, row.dataid) for row in store.views.stale()])
    publish(store, "to_left", "l")
    assert status(store, "sum", "1") == "RESUBMIT", "the other input is still to come"
    publish(store, "to_right", "r")
    assert (status(store, "sum", "1"), status(store, "page", "1")) == ("READY", "READY")
    deliver(store, "1", "c")
    store.remake([(row.datasetid, row.dataid) for row in store.views.stale()])
    publish(store, "to_left", "l")
    publish(store, "to_right", "r2")
    assert drain(store, "show", "add") == [("add", "1"), ("show", "1")]


@pytest.mark.parametrize("how", ["released", "typed"])
def test_a_chunk_is_kept_as_soon_as_the_last_of_its_inputs_is_ready_again(store: Store, how: str) -> None:
    store.register(
        [dataset(name) for name in ("left", "right", "sum")],
        [job("add", "left", "right", writes="sum", options={"on_new_version": "rerun"})],
    )
    deliver(store, "1", "a", "left")
    deliver(store, "1", "a", "right")
    publish(store, "add")
    deliver(store, "1", "b", "left")
    assert status(store, "sum", "1") == "RESUBMIT"
    store.hold("right", ["1"])
    deliver(store, "1", "a", "left")
    assert status(store, "sum", "1") == "RESUBMIT", "the other input is set aside"
    if how == "released":
        store.release("right", ["1"])
    else:
        store.dml("update datastatus set status = 'READY' where datasetid = 'right' and locktype = 'OUT'")
    assert store.claim("add") == []
    assert status(store, "sum", "1") == "READY"
    assert kinds(store, "sum", "1")[-1] == "kept"


def test_what_somebody_resubmits_runs_with_everything_that_its_run_writes(store: Store) -> None:
    store.register(
        [dataset(name) for name in ("raw", "good", "bad")],
        [job("split", "raw", writes=("good", "bad"), options={"on_new_version": "rerun"})],
    )
    deliver(store, "1", "a")
    claim = claim_one(store, "split")
    store.commit(claim)
    deliver(store, "1", "b")
    store.dml("update job_status set status = 'RESUBMIT' where datasetid = 'good'")
    store.rescue()  # folds it in
    deliver(store, "1", "a")
    assert [status(store, name, "1") for name in ("good", "bad")] == ["RESUBMIT", "RESUBMIT"], "none is kept alone"
    assert drain(store, "split") == [("split", "1")]


def test_a_chunk_is_kept_when_its_input_is_rolled_back_to_what_it_was_made_from(store: Store) -> None:
    made(store)
    deliver(store, "1", "raw 1 b")
    store.announce("raw", ["1"], manifests={"1": Manifest(fingerprint="raw 1 a")}, again=True)
    store.remake([("product", "1")])
    store.rollback("raw", "1", 1)
    assert status(store, "product", "1") == "READY"
    assert kinds(store, "product", "1")[-1] == "kept"


def test_a_resubmit_that_is_typed_is_not_undone_by_an_input_that_comes_out_the_same(store: Store) -> None:
    made(store, options={"on_new_version": "rerun"})
    deliver(store, "1", "raw 1 b")
    store.dml("update job_status set status = 'RESUBMIT' where datasetid = 'product' and dataid = '1'")
    deliver(store, "1", "raw 1 a")  # folds nothing in
    assert status(store, "product", "1") == "RESUBMIT"
    assert publish(store, "make") == "1"
    assert store.views.unfit_notes(9) == []


def test_what_is_typed_on_the_row_of_a_reader_decides_nothing_about_the_chunk(store: Store) -> None:
    made(store, options={"on_new_version": "rerun"})
    deliver(store, "1", "raw 1 b")
    store.dml(
        "update datastatus set status = 'FAILED' where datasetid = 'product' and dataid = '1' and locktype = 'IN'"
    )
    deliver(store, "1", "raw 1 a")
    assert status(store, "product", "1") == "READY"


@pytest.mark.parametrize("word", ["HOLD", "RUNNING"])
def test_what_upstream_publishes_takes_nothing_along_that_is_set_aside_or_runs(store: Store, word: str) -> None:
    store.register(
        [dataset(name) for name in ("raw", "good", "bad")],
        [job("split", "raw", writes=("good", "bad"), options={"on_new_version": "rerun"})],
    )
    deliver(store, "1", "a")
    store.commit(claim_one(store, "split"))
    store.dml(f"update datastatus set status = '{word}' where datasetid = 'bad'")
    store.rescue()  # folds it in
    deliver(store, "1", "b")
    assert [status(store, name, "1") for name in ("good", "bad")] == ["READY", word]
    assert ("good", "1", True) in stale(store), "it is shown"


def test_what_upstream_publishes_is_not_refused_because_of_a_bound_downstream(store: Store) -> None:
    made(store, options={"on_new_version": "rerun"})
    store.register([dataset("product", start="2"), dataset("report", start="2")], [])
    deliver(store, "1", "raw 1 b")
    assert status(store, "product", "1") == "READY"


def test_whoever_says_resubmit_gets_a_run_also_where_nothing_changed(store: Store) -> None:
    made(store)
    deliver(store, "1", "raw 1 b")
    store.remake([("product", "1"), ("report", "1")])
    store.resubmit("report", ["1"])
    publish(store, "make", "product 1 a")
    assert drain(store, *JOBS) == [("use", "1")]


def test_outputs_of_one_run_are_made_again_and_kept_together(store: Store) -> None:
    store.register(
        [dataset(name) for name in ("raw", "mid", "left", "right")],
        [job("first", "raw", writes="mid"), job("both", "mid", writes=("left", "right"))],
    )
    deliver(store, "1", "a")
    publish(store, "first", "m")
    produce(store, "both")
    deliver(store, "1", "b")
    store.remake([(row.datasetid, row.dataid) for row in store.views.stale()])
    assert (status(store, "left", "1"), status(store, "right", "1")) == ("RESUBMIT", "RESUBMIT")
    publish(store, "first", "m")
    assert (status(store, "left", "1"), status(store, "right", "1")) == ("READY", "READY")
    assert store.claim("both") == []


def test_a_job_that_reads_its_own_previous_chunk_is_stale_along_its_chain(store: Store) -> None:
    store.register([dataset("raw"), dataset("total", start="1")], [job("add", "raw", "total lag 1", writes="total")])
    for dataid in ("1", "2", "3"):
        deliver(store, dataid, f"a{dataid}")
        produce(store, "add", dataid)
    deliver(store, "1", "b1")
    assert stale(store) == [("total", "1", True), ("total", "2", False), ("total", "3", False)]
    store.remake([(row.datasetid, row.dataid) for row in store.views.stale()])
    assert drain(store, "add") == [("add", "1"), ("add", "2"), ("add", "3")]
    assert stale(store) == []


def test_what_is_stale_is_bounded(store: Store) -> None:
    made(store)
    deliver(store, "1", "b1")
    deliver(store, "2", "b2")
    assert len(store.views.stale(n=3)) == 3


def test_descendants_are_what_stands_now(store: Store) -> None:
    made(store)
    deliver(store, "1", "raw 1 b")
    found = store.views.descendants("raw", "1", 100)
    assert [(row.in_datasetid, row.in_version, row.datasetid, row.version, row.jobid) for row in found] == [
        ("raw", 1, "product", 1, "make"),
        ("product", 1, "report", 1, "use"),
    ]
    assert len(store.views.descendants("raw", "1", 1)) == 1


@pytest.mark.parametrize("mapping", ["raw", "raw latest"])
def test_a_new_version_and_its_reader_that_publish_at_the_same_moment(store: Store, mapping: str) -> None:
    """Whichever of the two commits first, the other one sees it."""
    store.register(
        [dataset("days"), dataset("raw"), dataset("product")], [job("make", "days", mapping, writes="product")]
    )
    store.announce("days", list(map(str, range(1, 16))))
    with opendataflow.open(store.url) as other:
        for dataid in map(str, range(1, 16)):
            deliver(store, dataid, f"a{dataid}")
            claim = claim_one(store, "make", dataid=dataid)
            with ThreadPoolExecutor(2) as threads:
                new = threads.submit(deliver, other, dataid, f"b{dataid}")
                threads.submit(store.commit, claim).result()
                new.result()
            assert ("product", dataid, True) in stale(store)


def test_a_run_whose_job_was_removed_meanwhile_is_marked_too(store: Store) -> None:
    datasets = [dataset("raw"), dataset("product")]
    store.register(datasets, [job("make", "raw", writes="product")])
    deliver(store, "1", "a")
    claim = claim_one(store, "make")
    store.register(datasets, [], prune=True)
    deliver(store, "1", "b")
    store.commit(claim)
    assert ("product", "1", True) in stale(store)


def test_whether_chunks_are_stale_is_asked_upstream_of_them_alone(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain(store)
    store.announce("raw", ["1", "2"], manifests={"1": Manifest(fingerprint="a"), "2": Manifest(fingerprint="b")})
    drain(store, "make", "use")
    asked = [("raw", "1"), ("product", "1"), ("report", "1"), ("report", "2"), ("report", "9")]
    assert stale_among(store, asked) == set()
    store.announce("raw", ["1"], manifests={"1": Manifest(fingerprint="c")}, again=True)
    assert stale_among(store, asked) == {("product", "1"), ("report", "1")}
    assert stale_of_outputs(store, ["report"]) == ([("report", "1")], True)
    assert why_stale(store, "report", "2") == ()
    (why,) = why_stale(store, "report", "1")
    assert why.startswith("it was made from product 1, and ")
    monkeypatch.setattr(looking, "_FEW", 1)
    assert stale_of_outputs(store, ["report"]) == ([("report", "1")], False), (
        "where very many are, the last are looked at"
    )
    monkeypatch.setattr(looking, "_NEAR", -9)
    assert stale_among(store, asked) == {("product", "1"), ("report", "1")}, "a long chain is followed from the marks"
    assert why_stale(store, "report", "1") == (why,)


def test_a_tracked_chunk_that_was_forgotten_never_gets_a_version_again_that_somebody_read(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    drain(store, *JOBS)
    store.forget("raw", ["1"])
    store.announce("raw", ["1"])
    chunk = store.views.chunk("raw", "1")
    assert chunk is not None
    assert chunk.version == 2
    assert stale(store) == [("product", "1", True), ("report", "1", False)]


def test_what_was_written_as_ready_by_sql_makes_stale_when_it_is_delivered(store: Store) -> None:
    chain(store)
    put(store, "raw", "1", "READY")
    drain(store, *JOBS)
    store.announce("raw", ["1"], again=True)
    assert stale(store) == [("product", "1", True), ("report", "1", False)]


def test_resubmit_by_sql_has_a_run_as_resubmit_by_the_verb_has(store: Store) -> None:
    made(store)
    deliver(store, "1", "raw 1 b")
    store.remake([("product", "1"), ("report", "1")])
    store.dml("update job_status set status = 'RESUBMIT' where datasetid = 'report'  and dataid = '1'")
    fold_in(store)
    publish(store, "make", "product 1 a")
    assert drain(store, *JOBS) == [("use", "1")]


def test_what_no_job_can_make_again_stays_as_it_is(store: Store) -> None:
    made(store)
    deliver(store, "1", "raw 1 b")
    catalogue = store.catalogue()
    kept = [each for each in catalogue.datasets.values() if each.datasetid != "today"]
    store.register(kept, [catalogue.jobs["make"]], prune=True)
    changed = store.remake([(row.datasetid, row.dataid) for row in store.views.stale()])
    assert [change[:2] for change in changed] == [("product", "1")]
    assert status(store, "report", "1") == "READY"


def test_a_version_that_a_person_went_back_to_stays_whatever_the_rule(store: Store) -> None:
    made(store, options={"on_new_version": "rerun"})
    deliver(store, "1", "raw 1 b")
    publish(store, "make", "product 1 b")
    publish(store, "use", "report 1 b")
    store.rollback("product", "1")
    assert (status(store, "product", "1"), status(store, "report", "1")) == ("READY", "RESUBMIT")


@pytest.mark.parametrize("how", ["resubmit", "remake"])
def test_whoever_waits_for_all_goes_on_when_what_was_made_again_changes_nothing_behind_it(
    store: Store, how: str
) -> None:
    store.register(
        [dataset("raw"), dataset("a"), dataset("w"), dataset("total", "text")],
        [job("mk", "raw", writes="a"), job("win", "a", writes="w"), job("sum", "w all", writes="total")],
    )
    store.announce("raw", ["1"])
    drain(store, "mk", "win")
    store.resubmit("a", ["1"]) if how == "resubmit" else store.remake([("a", "1")])
    assert store.claim("sum") == []
    drain(store, "mk")
    assert [claim.dataid for claim in store.claim("sum")] == ["all"]
