"""The sheets of a chunk and of a dataset: what their pages tell, by as many look-ups whatever the store holds."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from opendataflow import Manifest, Store
from opendataflow.errors import BadDataid, UnknownDataset, UnknownStatus
from opendataflow.insight.chunk_sheet import ChunkSheet, chunk_sheet
from opendataflow.insight.dataset_sheet import dataset_sheet
from opendataflow.project import without_file
from tests.support.flows import chain, claim_one, dataset, drain, job

NOWHERE = without_file(Path("/data"), None)
CHECK = {"check": "rows", "kind": "rows", "passed": True, "figures": {"rows": 7}}


def manifest(rows: int, **facts: Any) -> Manifest:
    return Manifest(location="/data/x", rows=rows, bytes=rows * 10, schema="a INT, b STRING", checks=(CHECK,), **facts)  # type: ignore[arg-type]


def announced(store: Store, *rows: int) -> None:
    dataids = [str(number) for number in range(1, len(rows) + 1)]
    found = {each: manifest(n, fingerprint=f"{each} {n}") for each, n in zip(dataids, rows, strict=True)}
    store.announce("raw", dataids, manifests=found)


def sheet_of(store: Store, *chunk: str, **how: Any) -> ChunkSheet:
    return chunk_sheet(store, NOWHERE, *chunk, **how)


def test_a_published_chunk_tells_what_it_is_and_what_it_is_made_of(store: Store) -> None:
    chain(store)
    announced(store, 10, 20, 30, 40)
    drain(store, "make", "use")
    sheet = sheet_of(store, "product", "2")
    assert (sheet.status, sheet.producer, sheet.reasons, sheet.stale) == ("READY", "make", (), ())
    assert (sheet.previous, sheet.next) == ("1", "3")
    assert [answer.answer for answer in sheet.answers if answer.question in ("ready", "safe")] == ["yes", "yes"]
    assert [(each.datasetid, each.dataid, each.version) for each in sheet.made_from] == [("raw", "2", 1)]
    assert [(each.datasetid, each.dataid, each.version, each.jobid) for each in sheet.made.made] == [
        ("report", "2", 1, "use")
    ]
    assert [tuple(each) for each in sheet.read_by] == [("use", "DONE", 1)]
    assert [run.status for run in sheet.runs] == ["READY"]
    assert sheet.askings[0].runid == sheet.runs[0].runid
    assert sheet.events[0].kind == "published"
    raw = sheet_of(store, "raw", "4")
    assert raw.current is not None
    assert raw.current.manifest.checks[0].figures == {"rows": 7}
    assert [each.rows for each in raw.rows.earlier] == [10, 20, 30]
    assert (raw.rows.own, raw.rows.usual, raw.rows.difference) == (40, 20, 1.0)


def test_a_new_version_of_an_input_is_told_on_every_side(store: Store) -> None:
    chain(store)
    announced(store, 10)
    drain(store, "make", "use")
    announced(store, 11)
    raw, product = sheet_of(store, "raw", "1"), sheet_of(store, "product", "1")
    assert [version.version for version in raw.versions] == [2, 1]
    assert [version.is_current for version in raw.versions] == [True, False]
    assert [(each.datasetid, each.version, each.is_stale, each.depth) for each in raw.made.made] == [
        ("product", 1, True, 1),
        ("report", 1, True, 2),
    ]
    assert (raw.made.chunks, raw.made.stale, raw.made.more) == (2, 2, False)
    assert product.stale
    assert [(each.version, each.version_now, each.is_other) for each in product.made_from] == [(1, 2, True)]
    store.recall("raw", "1", why="half of it", cascade=False)
    assert [each.why for each in sheet_of(store, "raw", "1").recalled] == ["half of it"]


def test_what_is_not_ready_says_why(store: Store) -> None:
    chain(store)
    announced(store, 10, 20, 30)
    store.fail(claim_one(store, "make"), "JOB_FAILED", "the disk is full")
    failed = sheet_of(store, "product", "1")
    assert failed.behind is not None
    assert (failed.behind.chunks, failed.behind.jobs, failed.behind.more) == ((("report", "1"),), ("use",), False)
    assert sheet_of(store, "raw", "1").behind is None
    assert (failed.status, failed.runs[0].outcome) == ("FAILED", "JOB_FAILED")
    assert "the disk is full" in failed.reasons[0].because[0]
    running = claim_one(store, "make")
    sheet = sheet_of(store, "product", "2")
    assert sheet.running is not None
    assert (sheet.running.runid, sheet.reasons[0].name) == (running.runid, "RUNNING")
    store.hold("product", ["3"], why="waiting for the vendor")
    assert "waiting for the vendor" in sheet_of(store, "product", "3").reasons[0].because[0]
    behind = sheet_of(store, "report", "1")
    assert (behind.status, behind.reasons[0].name) == (None, "DATA_NOT_READY")


def test_a_chunk_that_is_not_there_yet_says_who_should_bring_it(store: Store) -> None:
    chain(store)
    announced(store, 10)
    sheet = sheet_of(store, "raw", "9")
    assert (sheet.status, sheet.chunk, sheet.runs, sheet.events) == (None, None, (), ())
    assert (sheet.previous, sheet.next) == ("1", None)
    assert sheet.reasons[0].commands[0] == "odf ready raw 9"
    assert sheet_of(store, "product", "1").reasons[0].name == "YES"
    with pytest.raises(BadDataid):
        sheet_of(store, "raw", "x")
    with pytest.raises(UnknownDataset):
        sheet_of(store, "nosuch", "1")


def test_the_number_of_look_ups_does_not_grow(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    original = Store._do

    def counted(self: Store, *given: Any, **how: Any) -> Any:
        asked.append("")
        return original(self, *given, **how)

    store.register(
        [dataset("raw"), dataset("total"), dataset("product")],
        [job("make", "raw", writes="product"), job("add", "product window 50", writes="total")],
    )
    announced(store, *range(1, 81))
    drain(store, "make", "add")
    monkeypatch.setattr(Store, "_do", counted)

    def look_ups(*chunk: str) -> int:
        asked.clear()
        sheet_of(store, *chunk)
        return len(asked)

    few, many = look_ups("product", "2"), look_ups("total", "70")
    assert len(sheet_of(store, "total", "70").made_from) == 50
    assert many <= few
    assert max(few, look_ups("product", "60"), look_ups("raw", "60")) <= 20


def test_a_dataset_tells_its_definition_its_counts_and_its_chunks_from_the_last_one_back(store: Store) -> None:
    chain(store)
    announced(store, *range(101, 141))
    store.hold("raw", ["7"])
    store.fail_chunks("raw", ["8"])
    sheet = dataset_sheet(store, "raw", n=15)
    assert dict(sheet.definition)["Partition"] == "number"
    assert [tuple(each) for each in sheet.readers] == [("make", "the same number")]
    assert sheet.counts.chunks == 40
    assert dict(sheet.counts.by_status) == {"READY": 38, "FAILED": 1, "HOLD": 1}
    assert [line.rows for line in sheet.recent][-1] == 140
    assert (sheet.usual_rows, sheet.usual_bytes) == (120.5, 1205)
    met = []
    before: str | None = None
    while True:
        page = dataset_sheet(store, "raw", before=before, n=15)
        met += [line.dataid for line in page.lines]
        before = page.older
        if before is None:
            break
    assert met == [str(number) for number in range(40, 0, -1)]
    assert [line.dataid for line in dataset_sheet(store, "raw", status="hold").lines] == ["7"]
    assert [line.dataid for line in dataset_sheet(store, "raw", status="READY", n=2).lines] == ["40", "39"]
    with pytest.raises(UnknownStatus):
        dataset_sheet(store, "raw", status="nosuch")
    with pytest.raises(BadDataid):
        dataset_sheet(store, "raw", before="x")


def test_columns_are_told_from_where_they_changed(store: Store) -> None:
    chain(store)
    schemas = ["a INT, b STRING"] * 3 + ["a INT, b STRING, c DATE"] * 2 + ["a BIGINT, b STRING, c DATE"]
    store.announce(
        "raw",
        [str(n) for n in range(1, 7)],
        manifests={str(n): Manifest(schema=schema, fingerprint=str(n)) for n, schema in enumerate(schemas, 1)},
    )
    since = dataset_sheet(store, "raw").columns
    assert [(each.dataid, each.differs) for each in since] == [
        ("6", ("a was INT and is BIGINT",)),
        ("4", ("c DATE added",)),
        ("1", ()),
    ]


def test_an_empty_dataset_has_a_sheet_too(store: Store) -> None:
    chain(store)
    sheet = dataset_sheet(store, "product")
    assert (sheet.lines, sheet.recent, sheet.columns, sheet.counts.chunks) == ((), (), (), 0)
    assert (sheet.usual_rows, sheet.producer, sheet.older) == (None, "make", None)


def test_a_look_at_once_is_of_one_moment(store: Store, open_again: Any) -> None:
    chain(store)
    announced(store, 10)
    with open_again() as other:
        with store.at_once():
            assert sheet_of(store, "raw", "1").status == "READY"
            other.hold("raw", ["1"])
            with store.at_once():
                assert sheet_of(store, "raw", "1").status == "READY"
        assert sheet_of(store, "raw", "1").status == "HOLD"


def test_a_dataset_knows_what_is_missing_refused_stale_and_late(store: Store) -> None:
    store.register(
        [dataset("raw", "day", options={"expected": True}), dataset("report", "day", options={"deadline": "06:00"})],
        [job("make", "raw", writes="report")],
    )
    store.views.clock = lambda: datetime(2026, 11, 15, 7, tzinfo=UTC).timestamp()  # type: ignore[method-assign]
    for content in ("a", "b"):
        store.announce("raw", ["2026-11-10"], manifests={"2026-11-10": Manifest(fingerprint=content)})
        drain(store, *(("make",) if content == "a" else ()))
    store.refuse_arrival("raw", "2026-11-12", "WRONG_DATA", "half of it")
    raw, report = dataset_sheet(store, "raw"), dataset_sheet(store, "report")
    assert {each.word: each.n for each in raw.signs} == {"MISSING": 3, "REFUSED": 1}
    assert {each.word: each.n for each in report.signs} == {"STALE": 1, "LATE": 4}
    assert dict(raw.definition)["Expected"] == "at the end of its period"
    missing = dataset_sheet(store, "raw", status="missing", n=2)
    assert [(line.dataid, line.status) for line in missing.lines] == [
        ("2026-11-14", "MISSING"),
        ("2026-11-13", "MISSING"),
    ]
    rest = dataset_sheet(store, "raw", status="missing", n=2, before=missing.older)
    assert ([line.dataid for line in rest.lines], rest.older) == (["2026-11-11"], None)
    assert [(line.dataid, line.status) for line in dataset_sheet(store, "report", status="STALE").lines] == [
        ("2026-11-10", "READY")
    ]
    assert [line.dataid for line in dataset_sheet(store, "report", status="LATE", n=1).lines] == ["2026-11-14"]
