"""The whole flow at a glance: what is the matter with each dataset and job."""

from __future__ import annotations

import pytest

from opendataflow import Store
from opendataflow.errors import UnknownDataset
from opendataflow.insight.flow_picture import Picture, chunks_of_node, flow_picture
from tests.support.flows import chain, claim_one, dataset, drain, job, produce


def states(picture: Picture) -> dict[str, str | None]:
    return {node.id: node.state for node in picture.nodes}


def arrows(picture: Picture) -> set[tuple[str, str]]:
    return {(arrow.source, arrow.target) for arrow in picture.edges}


def test_datasets_and_jobs_are_there_before_any_chunk_is(store: Store) -> None:
    assert flow_picture(store).nodes == ()
    chain(store)
    found = flow_picture(store)
    assert states(found) == dict.fromkeys(
        ("dataset raw", "dataset product", "dataset report", "job make", "job use"), None
    )
    assert arrows(found) == {
        ("dataset raw", "job make"),
        ("job make", "dataset product"),
        ("dataset product", "job use"),
        ("job use", "dataset report"),
    }
    assert (found.total, found.not_well) == (5, 0)
    assert {node.words for node in found.nodes} == {"no chunks"}


def test_a_node_shows_the_worst_that_is_the_matter_with_it(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2", "3", "4"])
    produce(store, "make", "1")
    store.fail(claim_one(store, "make"), "JOB_FAILED", "no")
    claim_one(store, "make")
    store.hold("raw", ["4"])
    found = flow_picture(store)
    assert states(found) == {
        "dataset raw": "HOLD",
        "job make": "FAILED",
        "dataset product": "FAILED",
        "job use": None,
        "dataset report": None,
    }
    by_id = {node.id: node for node in found.nodes}
    assert by_id["dataset product"].counts == {"FAILED": 1, "RUNNING": 1}
    assert by_id["dataset product"].words == "1 FAILED, 1 RUNNING"
    assert not by_id["dataset product"].is_well
    assert found.not_well == 3


def test_what_runs_and_what_is_ready_is_well(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2"])
    produce(store, "make", "1")
    claim_one(store, "make")
    assert states(flow_picture(store)) == {
        "dataset raw": "READY",
        "job make": "RUNNING",
        "dataset product": "RUNNING",
        "job use": None,
        "dataset report": None,
    }
    assert flow_picture(store).not_well == 0
    assert flow_picture(store, only_not_well=True).nodes == ()


def test_stale_paused_refused_and_missing_are_shown(store: Store) -> None:
    chain(store)
    store.register([dataset("daily", "day", start="2020-01-01", end="2020-01-03", options={"expected": True})])
    store.announce("raw", ["1"])
    drain(store, "make", "use")
    store.announce("raw", ["1"], again=True)
    store.pause("use", why="wait")
    found = {node.id: node for node in flow_picture(store).nodes}
    assert found["dataset product"].state == "STALE"
    assert found["dataset report"].counts == {"STALE": 1}
    assert found["job use"].state == "PAUSED"
    assert found["job make"].state == "READY"
    assert (found["dataset daily"].state, found["dataset daily"].counts) == ("MISSING", {"MISSING": 3})


def test_a_definition_that_does_not_load_is_shown_as_broken(store: Store) -> None:
    chain(store)
    store.dml("update job set itemvalue = 'sideways' where jobid = 'make' and itemtype = 'IN'")
    found = flow_picture(store)
    assert states(found)["job make"] == "BROKEN"
    assert ("job make", "dataset product") in arrows(found)
    assert states(found)["job use"] is None
    assert chunks_of_node(store, "job make").datasets == ()


def test_the_picture_can_be_that_of_what_is_around_a_node(store: Store) -> None:
    names = [f"d{n}" for n in range(6)]
    jobs = [job(f"j{n}", f"d{n}", writes=f"d{n + 1}") for n in range(5)]
    store.register([*map(dataset, names), dataset("beside")], [*jobs, job("other", "d2", writes="beside")])
    found = flow_picture(store, around="d3", depth=1)
    assert set(states(found)) == {"dataset d2", "job j2", "dataset d3", "job j3", "dataset d4"}
    assert {node.id for node in found.nodes if node.has_more} == {"dataset d2", "dataset d4"}
    assert (found.around, found.depth, found.total) == ("dataset d3", 1, 13)
    assert set(states(flow_picture(store, around="job j0", depth=1))) == {
        "dataset d0",
        "job j0",
        "dataset d1",
        "job j1",
    }
    assert flow_picture(store, around="job:j0", depth=1).around == "job j0"
    with pytest.raises(UnknownDataset):
        flow_picture(store, around="nothing")


def test_the_picture_can_be_that_of_what_is_not_well(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    store.fail(claim_one(store, "make"), "JOB_FAILED", "no")
    found = flow_picture(store, only_not_well=True)
    assert set(states(found)) == {"job make", "dataset product"}
    assert arrows(found) == {("job make", "dataset product")}


def test_counting_stops_and_says_so(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    from opendataflow.insight import flow_picture as module

    monkeypatch.setattr(module, "MOST_COUNTED", 3)
    chain(store)
    store.announce("raw", list("12345"))
    store.hold("raw", list("12345"))
    found = {node.id: node for node in flow_picture(store).nodes}["dataset raw"]
    assert (found.counts, found.words) == ({"HOLD": 3}, "3+ HOLD")


def test_the_chunks_of_a_node_are_those_that_are_not_ready_and_the_last_ones(store: Store) -> None:
    chain(store)
    store.announce("raw", [str(n) for n in range(1, 31)])
    produce(store, "make", "1")
    store.fail(claim_one(store, "make"), "JOB_FAILED", "no")
    found = chunks_of_node(store, "product")
    assert [(chunk.dataid, chunk.status) for chunk in found.not_ready] == [("2", "FAILED")]
    assert [chunk.dataid for chunk in found.last] == ["2", "1"]
    assert (found.datasets, found.jobs, found.chunks, found.at_least) == (("product",), ("make", "use"), 2, False)
    raw = chunks_of_node(store, "dataset raw")
    assert [chunk.dataid for chunk in raw.last] == [str(n) for n in range(30, 20, -1)]
    make = chunks_of_node(store, "job make")
    assert (make.node.kind, make.datasets, make.next[:2]) == ("job", ("product",), ("3", "4"))
    with pytest.raises(UnknownDataset):
        chunks_of_node(store, "nothing")
