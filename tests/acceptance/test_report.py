"""odf report: text, JSON and a page of HTML."""

from __future__ import annotations

from pathlib import Path

from opendataflow import Manifest, Store
from tests.support.flows import chain, claim_one, produce
from tests.support.odf import Odf


def a_night(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2", "3"], manifests={str(day): Manifest(rows=day * 100) for day in (1, 2, 3)})
    produce(store, "make")
    store.fail(claim_one(store, "make"), detail="no space left on <disk> 7")
    store.resubmit("product", ["2"], why="the disk is cleaned")


def test_a_report_as_text(store: Store, odf: Odf) -> None:
    a_night(store)
    said = odf("report").out
    assert "2 runs: 1 READY, 1 failed; before: 0 runs, 0 failed" in said
    assert "no space left on <disk> 7" in said
    assert "the disk is cleaned" in said
    assert "▃▆█" in said


def test_a_report_as_data(store: Store, odf: Odf) -> None:
    a_night(store)
    data = odf("report", "--since", "2h", "--job", "make", "--json").data
    assert data["counts"] == {"runs": 2, "ready": 1, "failed": 1, "refused": 0, "running": 0, "forced": 0, "stopped": 0}
    assert data["selected"] == ["--job", "make"]
    assert data["causes"][0]["still_open"] == 1
    assert len(data["slices"]) == 24


def test_a_report_as_a_page(store: Store, odf: Odf, tmp_path: Path) -> None:
    a_night(store)
    page = tmp_path / "night.html"
    assert odf("report", "--html", str(page)).out == ""
    html = page.read_text(encoding="utf-8")
    assert html.startswith("<!DOCTYPE html>")
    assert "no space left on &lt;disk&gt; 7" in html
    assert odf("report", "--html", "-").out.startswith("<!DOCTYPE html>")


def test_an_empty_store_and_wrong_words_are_answered(store: Store, odf: Odf, tmp_path: Path) -> None:
    assert "nothing ran; before: 0 runs, 0 failed" in odf("report").out
    assert odf("report", "--since", "soon", code=2).err.startswith("BAD_TIME")
    assert odf("report", "--job", "nosuch", code=2).err.startswith("UNKNOWN_JOB")
    assert odf("report", "nosuch", code=2).err.startswith("UNKNOWN_DATASET")
    assert odf("report", "--html", str(tmp_path / "no/such.html"), code=2).err.startswith("BAD_CONFIG")
