"""odf lineage, and --at on every verb that looks: through the command line, on both stores."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from opendataflow import Store
from tests.support.flows import chain, claim_one, drain, produce
from tests.support.odf import Odf


def moment() -> str:
    return datetime.now(UTC).isoformat()


@pytest.fixture
def between(store: Store) -> str:
    """raw 1 became product 1 and report 1; then product was made again. Answers the moment before that."""
    chain(store)
    store.announce("raw", ["1", "2"])
    drain(store, "make", "use")
    told = moment()
    store.resubmit("product", ["1"], why="a corrected script")
    produce(store, "make")
    return told


def test_the_tree_of_a_chunk_shows_versions_jobs_runs_and_what_is_old(odf: Odf, between: str) -> None:
    lines = odf("lineage", "raw", "1").out.splitlines()
    assert lines[0].startswith("raw 1 version 1  outside, ")
    assert lines[1] == "went into"
    assert re.fullmatch(r"├─ product 1 version 1  make, run 1, \S+ \S+ \S+  version 2 now", lines[2])
    assert re.fullmatch(r"│  └─ report 1 version 1  use, run \d+, \S+ \S+ \S+", lines[3])
    assert re.fullmatch(r"└─ product 1 version 2  make, run 5, \S+ \S+ \S+", lines[4])
    up = odf("lineage", "report", "1", "--up").out
    assert "made from\n└─ product 1 version 1" in up
    assert "\n   └─ raw 1 version 1" in up
    assert "went into" not in up


def test_a_printed_time_shows_what_happened_in_that_second(store: Store, odf: Odf) -> None:
    chain(store)
    store.announce("raw", ["1"])
    produce(store, "make")
    (event,) = (each for each in store.views.events() if each.kind == "published" and each.datasetid == "product")
    assert event.at is not None
    printed = f"{event.at:%Y-%m-%d %H:%M:%S} UTC"
    assert "\nproduct 1 version 1  make, run 1" in odf("lineage", "product", "1", "--at", printed).out
    assert odf("explain", "product", "1", "--at", printed, "--json").data["status"] == "READY"
    assert event.eventid in [each["eventid"] for each in odf("history", "--until", printed, "--json").data["events"]]
    day = odf("history").out.splitlines()[0][:10] + " UTC"
    assert odf("history", "--until", day, "--json").data["events"]


def test_json_has_nodes_and_edges(odf: Odf, between: str) -> None:
    data = odf("lineage", "product", "1", "--version", "1", "--json").data
    assert {node["id"]: node["is_current"] for node in data["nodes"]} == {
        "product/1@1": False,
        "raw/1@1": True,
        "report/1@1": True,
    }
    assert {(edge["source"], edge["target"], edge["jobid"]) for edge in data["edges"]} == {
        ("raw/1@1", "product/1@1", "make"),
        ("product/1@1", "report/1@1", "use"),
    }
    assert (data["root"], data["is_whole"], data["remarks"]) == ("product/1@1", True, [])


def test_the_flow_of_a_dataset_counts_statuses(odf: Odf, between: str) -> None:
    assert odf("lineage", "product").out.splitlines() == [
        "product  READY 2",
        "comes from",
        "└─ job make",
        "   └─ raw  READY 2",
        "goes to",
        "└─ job use",
        "   └─ report  READY 2",
    ]
    data = odf("lineage", "product", "--down", "--json").data
    assert [(node["kind"], node["name"]) for node in data["nodes"]] == [
        ("dataset", "product"),
        ("job", "use"),
        ("dataset", "report"),
    ]


def test_the_whole_flow_shows_what_is_the_matter_with_each_node(odf: Odf, store: Store, between: str) -> None:
    store.fail(claim_one(store, "make", force=True, dataid="2"), detail="no")
    lines = odf("lineage").out.splitlines()
    assert lines[:3] == ["raw  READY", "product  1 FAILED", "report  1 STALE"]
    assert lines[-1] == "3 of 5 have problems; see: odf recover"
    facts = odf("lineage", "--json").data
    assert {node["id"]: node["state"] for node in facts["nodes"]}["job make"] == "FAILED"
    assert {"source": "job make", "target": "dataset product", "mapping": ""} in facts["edges"]
    assert odf("lineage", "--mermaid").out.startswith("flowchart LR")
    assert odf("lineage", "--up", code=None).code == 2


def test_mermaid_is_a_flowchart(odf: Odf, between: str) -> None:
    assert odf("lineage", "product", "--down", "--mermaid").out.splitlines() == [
        "flowchart LR",
        '    n0["product<br/>READY 2"]',
        '    n1(["use"])',
        '    n2["report<br/>READY 2"]',
        "    n0 --> n1",
        "    n1 --> n2",
        "    classDef asked stroke-width:3px",
        "    class n0 asked",
    ]
    chunk = odf("lineage", "product", "1", "--version", "1", "--mermaid").out
    assert 'n0 -->|"use run ' in chunk
    assert '["report 1<br/>version 1"]' in chunk


def test_the_past_is_told_by_every_verb_that_looks(odf: Odf, store: Store, between: str) -> None:
    old = odf("lineage", "raw", "1", "--at", between).out
    assert "product 1 version 1" in old
    assert "version 2" not in old
    assert old.startswith("as it was at ")
    explained = odf("explain", "product", "1", "--at", between).out
    assert " was at " in explained.splitlines()[0]
    assert "READY since" in explained.splitlines()[0]
    assert "a corrected script" not in explained
    assert "those of today" in explained
    assert "a corrected script" in odf("explain", "product", "1").out
    asked = odf("why", "make", "1", "--at", between)
    assert "LOCKED: product 1 was READY since " in asked.out
    assert "The last receipt that was stored by then" in asked.out
    listed = odf("status", "product", "--chunks", "--at", between, "--json").data
    assert {chunk["dataid"]: chunk["version"] for chunk in listed} == {"1": 1, "2": 1}
    store.fail(claim_one(store, "make", dataid="1", force=True), detail="exit 3")
    assert "FAILED" in odf("status").out
    past = odf("status", "--at", between)
    assert past.out.startswith("as it was at ")
    assert "FAILED" not in past.out
    assert odf("status", "--at", between, "--json").data["at"] == between
    assert odf("explain", "product", "1", "--at", between, "--receipt", "--json").data["verdict"] == "YES"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("lineage", "nosuch"), "UNKNOWN_DATASET"),
        (("lineage", "nosuch", "1"), "UNKNOWN_DATASET"),
        (("lineage", "raw", "x"), "BAD_DATAID"),
        (("lineage", "raw", "1", "--version", "9"), "UNKNOWN_VERSION"),
        (("lineage", "raw", "--version", "1"), "USAGE"),
        (("lineage", "raw", "1", "--at", "rubbish"), "BAD_TIME"),
        (("status", "--at", "2999-01-01"), "BAD_TIME"),
        (("why", "nosuch", "--at", "now"), "UNKNOWN_JOB"),
        (("explain", "raw", "x", "--at", "now"), "BAD_DATAID"),
    ],
)
def test_what_cannot_be_is_refused_by_name(odf: Odf, between: str, arguments: tuple[str, ...], error: str) -> None:
    assert odf(*arguments, code=2).err.startswith(error)


def test_a_time_before_all_history_is_answered_clearly(odf: Odf, between: str) -> None:
    for arguments in (("status",), ("explain", "product", "1"), ("why", "make", "1"), ("why", "make")):
        assert "nothing is known of that time: the history begins at" in odf(*arguments, "--at", "2020-01-01").out
    assert "no version of product 1 was published by then" in odf("lineage", "product", "1", "--at", "2020-01-01").out
