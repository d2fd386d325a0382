"""Lineage as people ask for it: up and down, by depth, bounded, and as it was then."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from opendataflow import Store
from opendataflow.errors import BadDataid, UnknownDataset, UnknownVersion
from opendataflow.insight import lineage as lineage_module
from opendataflow.insight.flow_of import Reach, flow
from opendataflow.insight.lineage import VersionLineage, lineage
from opendataflow.insight.then import StoreAsOf
from tests.support.flows import chain, claim_one, dataset, drain, job, produce


def distances(found: VersionLineage) -> dict[str, int]:
    return {node.id: node.distance for node in found.nodes}


def edges(found: VersionLineage) -> set[tuple[str, str]]:
    return {(edge.source, edge.target) for edge in found.edges}


def remade(store: Store) -> datetime:
    """raw 1 → product 1 (twice) → report 1 of the first one; answers a moment before the second."""
    chain(store)
    store.announce("raw", ["1"])
    drain(store, "make", "use")
    between = datetime.now(UTC)
    store.resubmit("product", ["1"])
    produce(store, "make")
    return between


def test_a_chunk_in_the_middle_knows_both_ends(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    drain(store, "make", "use")
    found = lineage(store, "product", "1")
    assert distances(found) == {"product/1@1": 0, "raw/1@1": -1, "report/1@1": 1}
    assert edges(found) == {("raw/1@1", "product/1@1"), ("product/1@1", "report/1@1")}
    assert (found.root, found.is_whole, found.remarks) == ("product/1@1", True, ())
    root = found.nodes[0]
    assert (root.jobid, root.runid, root.status, root.is_current, root.at is not None) == (
        "make",
        1,
        "READY",
        True,
        True,
    )
    assert distances(lineage(store, "product", "1", reach=Reach(down=False))).keys() == {"product/1@1", "raw/1@1"}
    assert distances(lineage(store, "product", "1", reach=Reach(up=False))).keys() == {"product/1@1", "report/1@1"}


def test_versions_are_kept_apart(store: Store) -> None:
    remade(store)
    assert distances(lineage(store, "product", "1")) == {"product/1@2": 0, "raw/1@1": -1}
    old = lineage(store, "product", "1", 1)
    assert distances(old) == {"product/1@1": 0, "raw/1@1": -1, "report/1@1": 1}
    assert [(node.version, node.current, node.is_current) for node in old.nodes[:1]] == [(1, 2, False)]
    assert distances(lineage(store, "report", "1"))["product/1@1"] == -1


def test_what_is_not_there_is_a_fact_and_what_cannot_be_an_error(store: Store) -> None:
    chain(store)
    found = lineage(store, "raw", "7")
    assert [(node.version, node.status) for node in found.nodes] == [(0, None)]
    assert found.remarks == ("no version of raw 7 was published yet",)
    with pytest.raises(UnknownDataset):
        lineage(store, "nosuch", "1")
    with pytest.raises(BadDataid):
        lineage(store, "raw", "x")
    with pytest.raises(UnknownVersion):
        lineage(store, "raw", "7", 3)


def test_depth_says_where_it_goes_on(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    drain(store, "make", "use")
    found = lineage(store, "raw", "1", reach=Reach(depth=1))
    assert [(node.id, node.has_more) for node in found.nodes] == [("raw/1@1", False), ("product/1@1", True)]
    assert not found.is_whole
    assert "--depth" in found.remarks[0]
    assert lineage(store, "raw", "1", reach=Reach(depth=2)).is_whole


def test_a_job_that_reads_its_own_previous_chunk_makes_a_long_chain(store: Store) -> None:
    store.register([dataset("raw"), dataset("sum", start="1")], [job("add", "raw", "sum lag 1", writes="sum")])
    store.announce("raw", [str(n) for n in range(1, 31)])
    drain(store, "add")
    found = lineage(store, "sum", "30", reach=Reach(depth=10))
    assert min(distances(found).values()) == -10
    assert not found.is_whole
    whole = lineage(store, "sum", "30", reach=Reach(depth=1000))
    assert whole.is_whole
    assert distances(whole)["sum/1@1"] == -29


def test_the_number_of_versions_is_limited_and_says_so(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lineage_module, "MOST_VERSIONS", 5)
    store.register(
        [dataset("raw"), dataset("rates", "text"), dataset("out")], [job("make", "raw", "rates all", writes="out")]
    )
    store.announce("rates", ["eur"])
    store.announce("raw", [str(n) for n in range(1, 10)])
    drain(store, "make")
    found = lineage(store, "rates", "eur")
    assert len(found.nodes) == 5
    assert (found.is_whole, found.nodes[0].has_more) == (False, True)
    assert "only 5 versions" in found.remarks[0]


def test_as_it_was_then(store: Store) -> None:
    between = remade(store)
    then = lineage(store, "raw", "1", at=between)
    assert distances(then) == {"raw/1@1": 0, "product/1@1": 1, "report/1@1": 2}
    assert all(node.is_current for node in then.nodes)
    assert distances(lineage(store, "product", "1", at=between))["product/1@1"] == 0
    with pytest.raises(UnknownVersion):
        lineage(store, "product", "1", 2, at=between)
    long_ago = lineage(store, "product", "1", at=datetime(2020, 1, 1, tzinfo=UTC))
    assert long_ago.remarks == ("no version of product 1 was published by then",)


# The flow -----------------------------------------------------------------------------------------------------------


def test_the_flow_around_a_dataset_counts_its_chunks(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2", "3"])
    produce(store, "make")
    store.fail(claim_one(store, "make"))
    claim = claim_one(store, "make")
    found = flow(store.views, "product")
    assert {node.id: node.distance for node in found.nodes} == {
        "dataset product": 0,
        "job make": -1,
        "job use": 1,
        "dataset raw": -2,
        "dataset report": 2,
    }
    counts = {node.name: node.counts for node in found.nodes if node.kind == "dataset"}
    assert counts == {"raw": {"READY": 3}, "product": {"READY": 1, "RUNNING": 1, "FAILED": 1}, "report": {}}
    assert ("dataset raw", "job make", "identity") in {(edge.source, edge.target, edge.mapping) for edge in found.edges}
    then = datetime.now(UTC)
    store.commit(claim)
    past = flow(StoreAsOf(store, then), "product", at=then)
    assert {node.name: node.counts for node in past.nodes if node.kind == "dataset"} == counts
    assert {node.name for node in flow(store.views, "product", Reach(down=False)).nodes} == {"product", "make", "raw"}
    with pytest.raises(UnknownDataset):
        flow(store.views, "nosuch")


def test_a_flow_that_reads_itself_ends_and_a_cut_one_says_so(store: Store) -> None:
    store.register(
        [dataset("raw"), dataset("sum", start="1"), dataset("end")],
        [job("add", "raw", "sum lag 1", writes="sum"), job("tell", "sum", writes="end")],
    )
    assert flow(store.views, "sum").is_whole
    cut = flow(store.views, "raw", Reach(depth=1))
    assert (cut.is_whole, {node.name for node in cut.nodes}) == (False, {"raw", "add", "sum"})
    assert cut.remarks == ("it goes on beyond 1 job; --depth N follows it further",)
