"""The matrix for a page: bounded rows and columns, zoom, filters, signs."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from opendataflow import Store
from opendataflow.errors import BadDataid, UnknownDataset, UnknownStatus
from opendataflow.insight.heat import Heat, MatrixFilter, heat
from opendataflow.insight.matrix import Block, Cell
from opendataflow.insight.stale import stale_now
from tests.support.flows import chain, change, claim_one, dataset, drain, fold_in, job, put

DAYS = [f"2026-{month:02d}-{day:02d}" for month in range(1, 7) for day in range(1, 29)]


@pytest.fixture
def flow(store: Store) -> Store:
    """raw → make → product → use → report by day, half a year of it."""
    chain(store, partition="day")
    store.announce("raw", DAYS)
    drain(store, "make", "use")
    return store


def block(seen: Heat, type_name: str = "day") -> Block:
    return next(each for each in seen.blocks if each.type == type_name)


def cells(seen: Heat, name: str) -> dict[str, Cell]:
    """The cells of a dataset by the labels of their columns."""
    for each in seen.blocks:
        for line in each.lines:
            if line.datasetid == name and line.cells:
                labels = [column.label for column in each.columns]
                return dict(zip(labels, line.cells, strict=True))
    return {}


def names(seen: Heat) -> list[str]:
    return [line.datasetid for each in seen.blocks for line in each.lines]


def test_an_empty_store_has_no_blocks(store: Store) -> None:
    assert heat(store) == Heat((), 0, 0, 0)


def test_datasets_without_a_chunk_are_named(store: Store) -> None:
    chain(store)
    seen = heat(store)
    assert (seen.blocks, seen.untouched) == ((), ("raw", "product", "report"))


def test_what_does_not_fit_is_shown_by_month_and_a_zoom_shows_each_day(flow: Store) -> None:
    seen = heat(flow, width=40)
    assert block(seen).each == "one month"
    assert cells(seen, "report")["2026-03"] == Cell("READY", 28, 28)
    closer = heat(flow, MatrixFilter(since="2026-03", until="2026-03"), width=40)
    assert len(block(closer).columns) == 31, "the whole month, whatever there is of it"
    assert cells(closer, "report")["2026-03-28"] == Cell("READY", 1, 1)
    assert cells(closer, "report")["2026-03-31"] == Cell(None, 0, 0)


def test_a_cell_shows_its_worst_status_and_how_many_have_it(flow: Store) -> None:
    change(flow, "product", "2026-03-05", "FAILED")
    change(flow, "product", "2026-03-06", "FAILED")
    change(flow, "product", "2026-03-07", "HOLD")
    seen = heat(flow)
    assert cells(seen, "product")["2026-03"] == Cell("FAILED", 2, 28)
    assert block(seen).lines[1].counts == {"READY": len(DAYS) - 3, "FAILED": 2, "HOLD": 1}


def test_rows_are_paged_and_all_pages_have_the_same_columns(flow: Store) -> None:
    flow.register([dataset(f"more_{n:02d}", "day") for n in range(20)])
    for n in range(20):
        flow.announce(f"more_{n:02d}", [DAYS[n]])
    first, second = heat(flow, rows=10), heat(flow, start=10, rows=10)
    assert (first.datasets, first.shown, first.more) == (23, 10, True)
    assert not {*names(first)} & {*names(second)}
    assert block(first).columns == block(second).columns
    last = heat(flow, start=20, rows=10)
    assert (last.shown, last.more) == (3, False)
    assert heat(flow, start=1000).blocks == ()


def test_filters_choose_datasets_by_name_by_job_and_by_text(flow: Store) -> None:
    assert names(heat(flow, MatrixFilter(dataset="raw"))) == ["raw"]
    assert names(heat(flow, MatrixFilter(job="use"))) == ["product", "report"]
    assert names(heat(flow, MatrixFilter(text="PORT"))) == ["report"]
    assert names(heat(flow, MatrixFilter(text="no such"))) == []
    with pytest.raises(UnknownDataset):
        heat(flow, MatrixFilter(dataset="nosuch"))


def test_a_status_chooses_the_datasets_that_have_it_in_the_window(flow: Store) -> None:
    change(flow, "product", "2026-03-05", "FAILED")
    assert names(heat(flow, MatrixFilter(status="error"))) == ["product"]
    assert names(heat(flow, MatrixFilter(status="FAILED", since="2026-04"))) == []
    assert names(heat(flow, MatrixFilter(status="ready"))) == ["raw", "product", "report"]
    with pytest.raises(UnknownStatus):
        heat(flow, MatrixFilter(status="purple"))


def test_a_window_that_no_dataset_has_is_refused(flow: Store) -> None:
    with pytest.raises(BadDataid):
        heat(flow, MatrixFilter(since="never"))


def test_stale_chunks_are_marked_and_can_be_asked_for(flow: Store) -> None:
    flow.resubmit("product", ["2026-03-05"])
    drain(flow, "make")
    seen = heat(flow)
    assert cells(seen, "report")["2026-03"].stale == 1
    assert names(heat(flow, MatrixFilter(status="stale"))) == ["report"]
    assert heat(flow, stale=stale_now(flow)) == seen


def test_numbers_are_shown_in_steps_that_people_know(store: Store) -> None:
    chain(store)
    store.announce("raw", [str(n) for n in range(1000)])
    seen = heat(store, width=40)
    assert block(seen, "number").each == "50 numbers"
    assert cells(seen, "raw")["50"] == Cell("READY", 50, 50)
    closer = heat(store, MatrixFilter(since="50", until="59"))
    assert [*cells(closer, "raw")] == [str(n) for n in range(50, 60)]


def test_text_is_shown_dataid_by_dataid_where_it_fits_and_counted_where_not(store: Store) -> None:
    store.register([dataset("few", "text"), dataset("lots", "text")])
    store.announce("few", ["a", "b"])
    store.announce("lots", [f"x{n}" for n in range(50)])
    put(store, "few", "c", "HOLD")
    fold_in(store)
    seen = heat(store, width=40)
    assert {label: cell.status for label, cell in cells(seen, "few").items()} == {
        "a": "READY",
        "b": "READY",
        "c": "HOLD",
    }
    assert names(seen) == ["few", "lots"]
    assert cells(seen, "lots") == {}


def test_missing_and_refused_chunks_have_their_signs(store: Store) -> None:
    store.register([dataset("raw", "day", options={"expected": True})])
    store.views.clock = lambda: datetime(2026, 11, 15, 7, tzinfo=UTC).timestamp()  # type: ignore[method-assign]
    store.announce("raw", ["2026-11-10", "2026-11-13"])
    store.refuse_arrival("raw", "2026-11-12", "NOT_VALIDATED", "too few rows")
    signs = {label: cell.status for label, cell in cells(heat(store), "raw").items()}
    assert signs == {
        "2026-11-10": "READY",
        "2026-11-11": "MISSING",
        "2026-11-12": "REFUSED",
        "2026-11-13": "READY",
        "2026-11-14": "MISSING",
    }
    assert names(heat(store, MatrixFilter(status="missing"))) == ["raw"]
    assert names(heat(store, MatrixFilter(status="refused"))) == ["raw"]


def test_a_running_chunk_is_seen_as_one(flow: Store) -> None:
    flow.announce("raw", ["2026-07-01"])
    claim_one(flow, "make")
    assert cells(heat(flow), "product")["2026-07"] == Cell("RUNNING", 1, 1)


def test_where_very_many_are_not_ready_they_are_counted_by_the_store(
    flow: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(flow, "product", "2026-03-05", "FAILED")
    change(flow, "product", "2026-03-06", "HOLD")
    fold_in(flow)
    exact = heat(flow)
    monkeypatch.setattr("opendataflow.insight.heat._MOST_UNSETTLED", 1)
    rough = heat(flow)
    assert cells(rough, "product") == cells(exact, "product")
    assert names(heat(flow, MatrixFilter(status="hold"))) == ["product"]
    assert block(rough).lines[1].at_least


def test_dataids_that_nobody_can_place_are_counted(flow: Store) -> None:
    put(flow, "raw", "typo", "HOLD")
    fold_in(flow)
    assert next(line.malformed for line in block(heat(flow)).lines if line.datasetid == "raw") == 1


def test_a_job_that_reads_two_kinds_of_partitions_gets_two_blocks(store: Store) -> None:
    store.register([dataset("hours", "hour"), dataset("days", "day")], [job("sum", "hours rollup", writes="days")])
    store.announce("hours", [f"2026-11-12T{hour:02d}" for hour in range(24)])
    drain(store, "sum")
    assert [(each.type, each.each) for each in heat(store, MatrixFilter(job="sum")).blocks] == [
        ("hour", "one hour"),
        ("day", "one day"),
    ]
