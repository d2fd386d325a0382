"""What is stale, what hangs on a chunk, and calling bad data back, as a person does it."""

from __future__ import annotations

import pytest

from opendataflow import Store
from tests.support.flows import chain, drain, dump, status
from tests.support.odf import Odf


@pytest.fixture
def flow(store: Store) -> Store:
    """raw 1–3 → product → report; raw 2 was delivered again since."""
    chain(store)
    store.announce("raw", ["1", "2", "3"])
    drain(store, "make", "use")
    store.announce("raw", ["2"], again=True)
    return store


def test_stale_is_a_mark_beside_the_status(flow: Store, odf: Odf) -> None:
    shown = odf("status").out
    assert "● READY ≠" in shown
    assert "STALE    product  2" in shown
    data = odf("status", "--json").data
    (block,) = data["blocks"]
    cells = {line["datasetid"]: [(cell["status"], cell["stale"]) for cell in line["cells"]] for line in block["lines"]}
    assert cells["report"] == [("READY", 0), ("READY", 1), ("READY", 0)]
    assert "STALE" not in odf("status", "raw").out
    assert "product" in odf("status", "--status", "STALE").out
    assert odf("why", "use", "--json").data["reasons"][-1]["name"] == "STALE"
    assert "version 2 now" in odf("why", "make", "2").out
    explained = odf("explain", "report", "2", "--json").data
    assert explained["stale"] == ["it was made from product 2, and raw 2 is version 2 now, and version 1 was read"]
    assert odf("explain", "report", "1", "--json").data["stale"] == []


def test_impact_shows_versions_jobs_and_times_as_a_tree(flow: Store, odf: Odf) -> None:
    lines = odf("impact", "raw", "2").out.splitlines()
    assert lines[0] == "raw 2 version 2 READY"
    assert lines[1].startswith("└─ product 2 version 1 READY STALE  from version 1 by make, run 2, ")
    assert lines[2].startswith("   └─ report 2 version 1 READY STALE  from version 1 by use, run ")
    assert lines[3] == "2 chunks made from it, 2 of them STALE"
    data = odf("impact", "raw", "2", "--json").data
    assert (data["chunks"], data["stale"], data["more"]) == (2, 2, False)
    assert "nothing was made from it" in odf("impact", "report", "1").out
    assert "UNKNOWN_DATASET" in odf("impact", "nosuch", "1", code=2).err
    assert "BAD_DATAID" in odf("impact", "raw", "x", code=2).err


def test_what_is_stale_is_made_again_by_its_selectors(flow: Store, odf: Odf) -> None:
    before = dump(flow)
    planned = odf("resubmit", "--stale", "--dry-run", "--json").data
    assert [(each["datasetid"], each["dataid"]) for each in planned["changed"]] == [("product", "2"), ("report", "2")]
    assert "nothing was changed" in odf("resubmit", "--stale", code=2).err, "two chunks: somebody has to say yes"
    assert dump(flow) == before
    assert odf("resubmit", "--stale", "--job", "nosuch", code=2).err.startswith("UNKNOWN_JOB")
    assert odf("resubmit", "--stale", "report", "1", "--json").data["changed"] == []
    odf("resubmit", "--stale", "--downstream-of", "raw:2", "--yes")
    assert drain(flow, "use", "make") == [("make", "2"), ("use", "2")]
    assert "nothing to change" in odf("resubmit", "--stale").out


def test_a_recall_shows_first_what_would_happen_and_asks(flow: Store, odf: Odf) -> None:
    before = dump(flow)
    shown = odf("recall", "raw", "1", "--cascade", "--why", "wrong", "--dry-run")
    assert "3 versions would not be read again" in shown.out
    refused = odf("recall", "raw", "1", "--cascade", "--why", "wrong", code=2)
    assert "3 versions would not be read again" in refused.err
    assert "nothing was changed" in refused.err
    assert "--why" in odf("recall", "raw", "1", "--yes", code=2).err
    assert "a recall needs a reason" in odf("recall", "raw", "1", "--yes", "--why", " ", code=2).err
    assert "BAD_TRANSITION" in odf("recall", "raw", "9", "--yes", "--why", "wrong", code=2).err
    assert dump(flow) == before
    done = odf("recall", "raw", "1", "--cascade", "--why", "wrong", "--yes", "--json").data
    assert [tuple(version.values()) for version in done["versions"]] == [
        ("raw", "1", 1),
        ("product", "1", 1),
        ("report", "1", 1),
    ]
    assert [status(flow, name, "1") for name in ("raw", "product", "report")] == ["RESUBMIT"] * 3
    explained = odf("explain", "product", "1")
    assert "was recalled by" in explained.out
    assert ": wrong" in explained.out


def test_why_names_what_brings_back_a_chunk_that_was_recalled_from_outside(flow: Store, odf: Odf) -> None:
    odf("recall", "raw", "1", "--cascade", "--why", "wrong", "--yes")
    (reason,) = odf("why", "use", "1", "--json").data["reasons"]
    assert reason["because"] == ["make 1 waits for raw 1, which is RESUBMIT"]
    assert reason["commands"] == ["odf ready raw 1"]
    assert "odf ready raw 1" in odf("why", "make").out
    odf("ready", "raw", "1")
    (reason,) = odf("why", "use", "1", "--json").data["reasons"]
    assert reason["commands"] == ["odf run make --dataid 1"]
