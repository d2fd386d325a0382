"""Doors answer alike: which chunks are MISSING, how long a job usually takes, and what a run would refuse."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from opendataflow import Store
from opendataflow.insight.absent import LOOK_BACK
from tests.support.console import SITES, console
from tests.support.flows import chain, claim_one, dataset, job, produce
from tests.support.odf import Odf

API = "/api/v1"


def _api(odf: Odf, path: str) -> Any:
    """What the console answers, from a store that is read anew."""
    client = console(odf.folder, odf.store_url)
    SITES[-1].kept.forget()
    return client.get(f"{API}{path}").json()


def _missing_in(lines: list[dict[str, Any]]) -> dict[str, int]:
    found = {line["datasetid"]: line["counts"].get("MISSING", 0) for line in lines}
    return {name: n for name, n in found.items() if n}


def _days_ago(days: int) -> str:
    return (datetime.now(UTC) - timedelta(days=days)).strftime("%Y-%m-%d")


def _hours_ago(hours: int) -> str:
    return (datetime.now(UTC) - timedelta(hours=hours)).strftime("%Y-%m-%dT%H")


@pytest.mark.parametrize(
    ("first", "last"),
    [(None, None), (900, 500), (1200, None), (None, 700), (30, 20), (2000, 1900)],
    ids=["all", "long ago", "from", "to", "lately", "before the first"],
)
def test_missing_chunks_are_the_same_at_every_door(store: Store, odf: Odf, first: int | None, last: int | None) -> None:
    hourly = {"expected": True}
    store.register(
        [dataset("raw", "hour", options=hourly), dataset("few", "hour", options=hourly), dataset("none", "hour")]
    )
    store.announce("raw", [_hours_ago(hours) for hours in (1000, 600, 25, 3)])
    store.announce("few", [_hours_ago(hours) for hours in (28, 26)])
    store.announce("none", [_hours_ago(1000)])
    store.refuse_arrival("raw", _hours_ago(24), "NOT_VALIDATED", "too few rows")
    ends = [(word, _hours_ago(hours)) for word, hours in (("from", first), ("to", last)) if hours is not None]
    seen = odf("status", *(part for word, dataid in ends for part in (f"--{word}", dataid)), "--json").data
    by_terminal = _missing_in([line for block in seen["blocks"] for line in block["lines"]])
    query = "&".join(f"{word}={dataid}" for word, dataid in ends)
    matrix = _api(odf, f"/matrix?{query}")
    assert _missing_in([line for block in matrix["blocks"] for line in block["lines"]]) == by_terminal
    ranges = {each["datasetid"]: each for each in seen["exceptions"] if each["status"] == "MISSING"}
    assert {name: each["n"] for name, each in ranges.items()} == by_terminal
    if first is None and last is None:
        assert by_terminal["raw"] == LOOK_BACK - 3, "those two that are there, and the refused one"
        sheet = _api(odf, "/datasets/raw/sheet")
        assert {sign["word"]: sign["n"] for sign in sheet["signs"]}["MISSING"] == by_terminal["raw"]
    else:
        assert ("raw" in by_terminal) == (first != 2000), "the end of a window says how far is looked back"
    for name, each in ranges.items():
        begin = each["ranges"][0][0]
        assert "it is expected by now" in odf("explain", name, begin).out
        assert _api(odf, f"/chunks/{name}/{begin}/sheet")["sign"] == "MISSING"


def test_missing_chunks_of_a_job_are_the_same_at_every_door(store: Store, odf: Odf) -> None:
    made = dataset("made", "day", start=_days_ago(5), options={"expected": True})
    store.register([dataset("raw", "day"), made], [job("make", "raw", writes="made")])
    store.announce("raw", [_days_ago(4)])
    produce(store, "make", _days_ago(4))
    seen = odf("status", "--json").data
    by_terminal = _missing_in([line for block in seen["blocks"] for line in block["lines"]])
    assert by_terminal == {"made": 4}
    assert _missing_in([line for block in _api(odf, "/matrix")["blocks"] for line in block["lines"]]) == by_terminal
    assert {sign["word"]: sign["n"] for sign in _api(odf, "/datasets/made/sheet")["signs"]}["MISSING"] == 4
    assert [(each["sign"], each["dataid"]) for each in odf("late", "--json").data["late"]] == [
        ("MISSING", _days_ago(days)) for days in (5, 3, 2, 1)
    ]
    assert _api(odf, f"/chunks/made/{_days_ago(1)}/sheet")["sign"] == "MISSING"
    assert _api(odf, f"/chunks/made/{_days_ago(0)}/sheet")["sign"] is None
    assert odf("recover", "--json").data["by_hand"] == [], "its job makes it, as soon as its input is there"


def test_a_job_usually_takes_the_same_at_every_door(store: Store, odf: Odf) -> None:
    chain(store)
    store.announce("raw", [str(n) for n in range(60)])
    for seconds in (20, 40, 90):
        run = produce(store, "make").runid
        store.dml(
            f"update run set started = '2026-01-01 00:00:00', ended = '2026-01-01 00:0{seconds // 60}:{seconds % 60:02}' "
            f"where runid = {run}"
        )
    for _ in range(30):
        store.fail(claim_one(store, "make"), detail="no")
    claim = claim_one(store, "make")
    (now,) = _api(odf, "/now")["runs"]
    sheet = _api(odf, "/jobs/make/sheet")
    usual = {
        "now": now["usual"],
        "job": sheet["series"][0]["usual_seconds"],
        "running": sheet["running"][0]["usual"],
        "run": _api(odf, f"/runs/{claim.runid}/sheet")["usual"],
    }
    assert {name: round(seconds) for name, seconds in usual.items()} == dict.fromkeys(usual, 40)
    assert "so far, usually 40 s" in odf("runs", "make", "-n", "1").out
    assert "usually 40 s" in odf("why", "make", claim.dataid, code=None).out
    store.dml(f"update run set started = '2026-01-01 00:00:00' where runid = {claim.runid}")
    assert ", usually 40 s" in odf("check", code=None).out
    store.dml("update datastatus set status = 'RESUBMIT' where status = 'FAILED'")
    plan = odf("recover", "--json").data
    assert "make" not in plan["estimate"]["unknown"]


SPANS = """
[environment.dev]
roots = ["./data"]

[dataset.raw]
location = "raw/{dataid}.csv"
partition = "day"

[dataset.used]
partition = "day"

[job.use]
reads = ["raw"]
writes = ["used"]
"""


def test_rows_of_another_day_are_wrong_data_before_a_run_as_in_it(odf: Odf) -> None:
    (odf.folder / "dataflow.toml").write_text(SPANS)
    (odf.folder / "data/raw").mkdir(parents=True)
    (odf.folder / "data/raw/2026-01-01.csv").write_text("a\n1\n")
    (odf.folder / "jobs").mkdir()
    script = odf.folder / "jobs/use.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    odf("migrate")
    odf("apply", "--yes")
    odf("ready", "raw", "2026-01-01")
    odf("dml", "update data_manifest set span_lower = '2026-01-01T10:00:00', span_upper = '2026-01-02T00:20:00'")
    wrong = "raw 2026-01-01 holds 2026-01-01T10:00:00 to 2026-01-02T00:20:00"
    right = "Is it the data that its dataid promises?"
    assert f"no         {right}  {wrong}" in odf("explain", "raw", "2026-01-01").out
    sheet = _api(odf, "/chunks/raw/2026-01-01/sheet")
    assert wrong in str(sheet["answers"])
    before = odf("why", "use", "2026-01-01", "--json").data
    assert before["verdict"] == "WRONG_DATA"
    assert wrong in odf("run", "use", code=11).err
    assert odf("why", "use", "2026-01-01", "--json").data["verdict"] == before["verdict"]
