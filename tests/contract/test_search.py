"""What a few typed words may mean."""

from __future__ import annotations

import pytest

from opendataflow import Store
from opendataflow.insight.search import Hit, search
from tests.support.flows import chain, claim_one, dataset, dump, produce


@pytest.fixture
def flow(store: Store) -> Store:
    """raw → make → product → use → report, with three chunks, and a dataset by hours."""
    chain(store)
    store.register([dataset("hours", "hour"), dataset("make_belief")])
    store.announce("raw", ["1", "2", "77"])
    store.announce("hours", [f"2026-11-12T{hour:02d}" for hour in range(24)])
    produce(store, "make", "1")
    return store


def names(store: Store, text: str, n: int = 20) -> list[tuple[str, str]]:
    return [(hit.kind, hit.name) for hit in search(store, text, n)]


def test_nothing_means_nothing(flow: Store) -> None:
    assert [search(flow, text) for text in ("", "   ", "nosuchthing", "<script>", "'; drop table run; --")] == [()] * 5


def test_the_whole_name_comes_before_its_beginning_and_that_before_a_part_of_it(flow: Store) -> None:
    assert names(flow, "make") == [("job", "make"), ("dataset", "make_belief")]
    assert names(flow, "MAKE")[0] == ("job", "make")
    assert names(flow, "r") == [("dataset", "raw"), ("dataset", "report"), ("dataset", "hours"), ("dataset", "product")]


def test_a_number_is_a_run_and_a_dataid(flow: Store) -> None:
    assert names(flow, "1") == [("run", "run 1"), ("chunk", "product 1"), ("chunk", "raw 1")]
    for text in ("run 1", "#1", "run #1", "RUN1"):
        assert names(flow, text)[0] == ("run", "run 1")
    assert names(flow, "77") == [("chunk", "raw 77")]
    assert names(flow, "9" * 18) == []


def test_a_chunk_is_found_by_its_dataset_and_dataid_however_they_are_put(flow: Store) -> None:
    found = Hit("chunk", "product 1", "product", "1", status="READY")
    assert [search(flow, text)[0] for text in ("product 1", "product:1", "product/1", "  prod   1 ")] == [found] * 4
    assert names(flow, "product 999") == []


def test_a_period_finds_the_chunks_that_lie_in_it(flow: Store) -> None:
    assert names(flow, "hours 2026-11-12", 3) == [("chunk", f"hours 2026-11-12T0{hour}") for hour in range(3)]
    assert names(flow, "hours 2026-11-12T05") == [("chunk", "hours 2026-11-12T05")]


def test_a_hit_tells_where_it_belongs(flow: Store) -> None:
    assert search(flow, "product")[0].told == "written by make"
    assert search(flow, "raw")[0].told == "from outside"
    assert search(flow, "use")[0].told == "writes report"
    assert search(flow, "run 1")[0].told == "make 1"


def test_there_are_never_more_than_were_asked_for_and_nothing_is_written(flow: Store) -> None:
    before = dump(flow)
    assert len(search(flow, "r", 2)) == 2
    assert len(search(flow, "x" * 10_000)) == 0
    assert dump(flow) == before


def test_what_runs_is_found_too(flow: Store) -> None:
    claim = claim_one(flow, "make")
    assert search(flow, f"run {claim.runid}")[0].status == "RUNNING"
    assert search(flow, f"product {claim.dataid}")[0].status == "RUNNING"


def test_a_broken_job_is_found(flow: Store) -> None:
    flow.dml("update dataset set partition = 'purple' where datasetid = 'raw'")
    assert names(flow, "raw") == [("dataset", "raw")]
    assert names(flow, "make")[0] == ("job", "make")
