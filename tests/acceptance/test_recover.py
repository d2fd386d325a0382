"""odf recover as a process: it shows, it does, it follows."""

from __future__ import annotations

import pytest

from opendataflow import Dataset, Input, Job, Manifest, Partition, Store
from tests.support.flows import chain, claim_one, dataset, drain, dump, job, produce, status
from tests.support.odf import Odf


@pytest.fixture
def flow(store: Store) -> Store:
    """raw 1–4 → make → product → use → report: 2 and 3 failed for one reason, 4 for another."""
    chain(store)
    store.announce("raw", ["1", "2", "3", "4"])
    for claim in store.claim("make", 4):
        if claim.dataid == "1":
            store.commit(claim)
        else:
            why = "disk full" if claim.dataid == "4" else f"db{claim.dataid} is unreachable"
            store.fail(claim, detail=why)
    return store


def test_it_shows_causes_order_and_what_to_do_and_changes_nothing(flow: Store, odf: Odf) -> None:
    before = dump(flow)
    for words in ((), ("--plan",), ("--dry-run", "--yes")):
        text = odf("recover", *words).out
        assert "Cause 1: JOB_FAILED db2 is unreachable" in text
        assert "began at 2 chunks of make, first product 2" in text
        assert "Cause 2: JOB_FAILED disk full" in text
        assert "3 chunks to RESUBMIT; 3 downstream chunks will run automatically" in text
        assert "odf recover --yes" in text
    assert dump(flow) == before


def test_json_knows_what_the_text_shows(flow: Store, odf: Odf) -> None:
    data = odf("recover", "--json").data
    assert [cause["chunks"] for cause in data["causes"]] == [[["product", "2"], ["product", "3"]], [["product", "4"]]]
    assert data["resubmit"] == [["product", "2"], ["product", "3"], ["product", "4"]]
    assert (data["runs"], data["done"], data["found"]["failed"]) == (6, None, 3)
    assert data["steps"][0]["dataids"] == ["2", "3", "4"]


def test_it_does_one_cause_and_then_the_rest(flow: Store, odf: Odf) -> None:
    odf("recover", "--cause", "2", "--yes", "--why", "cleaned up")
    assert [status(flow, "product", each) for each in "234"] == ["FAILED", "FAILED", "RESUBMIT"]
    assert flow.views.events("product", "4")[-1].why == "cleaned up"
    done = odf("recover", "--yes", "--json").data["done"]
    assert [each["dataid"] for each in done["changed"]] == ["2", "3"]
    drain(flow, "make", "use")
    assert odf("recover").out.startswith("nothing to recover")
    assert odf("recover", "--yes", "--watch").out.startswith("nothing to recover")
    assert "there is no cause 9" in odf("recover", "--cause", "9", code=2).err


def test_a_cause_can_be_named_by_what_it_says(flow: Store, odf: Odf) -> None:
    """Numbers change with every look: somebody else may have healed the first cause meanwhile."""
    flow.resubmit("product", ["2", "3"])
    odf("recover", "--cause", "disk full", "--yes")
    assert status(flow, "product", "4") == "RESUBMIT"
    assert "there is no cause db2" in odf("recover", "--cause", "db2 is unreachable", code=2).err


def test_watching_ends_when_everything_is_done_or_failed_again(flow: Store, odf: Odf) -> None:
    odf("recover", "--yes")
    for claim in flow.claim("make", 3):
        flow.fail(claim, detail="again") if claim.dataid == "2" else flow.commit(claim)
    drain(flow, "use")
    answer = odf("recover", "--watch", "--every", "0.1")
    assert "0 of 0 done" in answer.out, "what is FAILED does not come by itself"
    again = odf("recover", "--yes", "--json").data
    assert again["resubmit"] == [["product", "2"]]


def test_what_people_have_to_do_is_told_with_the_command(flow: Store, odf: Odf) -> None:
    flow.hold("raw", ["2"], why="ask the vendor")
    text = odf("recover").out
    assert "Left for people:" in text
    assert "HOLD  1 chunk of raw is HOLD: 2" in text
    assert "ask the vendor" in text
    assert "odf release raw 2" in text
    assert "1 chunk stays FAILED until that is done; then: odf recover" in text


def test_a_job_that_reads_from_outside_may_be_right_by_now(store: Store, odf: Odf):
    store.register([dataset("fetched")], [job("fetch", writes="fetched")])
    repeated = "fetched 2 has exactly the content of fetched 1"
    store.fail(claim_one(store, "fetch", dataid="2"), outcome="WRONG_DATA", detail=repeated)
    (reason,) = odf("why", "fetch", "2", "--json").data["reasons"]
    assert "odf resubmit fetched 2" in reason["commands"]
    told = odf("recover").out
    assert "fetch: 1 chunk had WRONG_DATA, and can be right only if what fetch reads from outside changed" in told
    assert "Left for people:" not in told
    plan = odf("recover", "--yes", "--json").data
    assert (plan["resubmit"], plan["steps"][0]["fetches"], plan["by_hand"]) == ([["fetched", "2"]], 1, [])
    assert status(store, "fetched", "2") == "RESUBMIT"


@pytest.mark.parametrize("is_known", [False, True])
def test_a_job_of_whose_inputs_no_content_is_known_may_be_right_by_now(store: Store, odf: Odf, is_known: bool):
    store.register(
        [dataset("notes"), dataset("rates"), dataset("merged")], [job("merge", "notes", "rates", writes="merged")]
    )
    store.announce("notes", ["1", "2"])
    contents = {dataid: Manifest(fingerprint=f"rates {dataid}") for dataid in ("1", "2")} if is_known else {}
    store.announce("rates", ["1", "2"], manifests=contents)
    store.fail(claim_one(store, "merge", dataid="2"), "WRONG_DATA", "merged 2 has exactly the content of merged 1")
    plan = odf("recover", "--yes", "--json").data
    assert plan["resubmit"] == ([] if is_known else [["merged", "2"]])
    assert [each["name"] for each in plan["by_hand"]] == ["WRONG_DATA"] * is_known
    assert status(store, "merged", "2") == ("FAILED" if is_known else "RESUBMIT")


def test_wrong_data_from_declared_inputs_names_the_command_for_what_is_read_beside_them(store: Store, odf: Odf):
    chain(store)
    store.announce("raw", ["1"], manifests={"1": Manifest(fingerprint="one")})
    store.fail(claim_one(store, "make"), outcome="WRONG_DATA", detail="product 1 has exactly the content of product 0")
    (by_hand,) = odf("recover", "--json").data["by_hand"]
    assert by_hand["commands"] == ["odf why make 1", "odf resubmit product 1"]
    assert "if make also reads from outside and that was corrected" in by_hand["because"]


def test_a_run_that_was_forced_without_its_input_waits_for_nobody(store: Store, odf: Odf):
    chain(store)
    odf("forcejob", "make", "7")
    assert status(store, "product", "7") == "RUNNING"
    assert odf("recover", "--json").data["by_hand"] == []
    assert "odf ready raw 7" not in odf("recover").out


def test_what_is_resubmit_already_is_said_in_one_line(flow: Store, odf: Odf) -> None:
    odf("recover", "--yes")
    produce(flow, "use", "1")
    lines = odf("recover").out.splitlines()
    assert lines[0] == "6 chunks will run with the next odf drain, without a RESUBMIT"
    for dataid in "234":
        produce(flow, "make", dataid)
        produce(flow, "use", dataid)
    flow.resubmit("report", ["2", "3"])
    assert odf("recover").out.splitlines()[0] == "2 chunks are RESUBMIT already and will run with the next odf drain"


def test_chunks_that_follow_each_other_are_one_range(store: Store, odf: Odf) -> None:
    """In the plan, at the end of a drain and in what blocks a job."""
    store.register(
        [Dataset("raw", partition=Partition("day")), Dataset("product", partition=Partition("day"))],
        [Job("make", (Input("raw"),), ("product",))],
    )
    store.announce("raw", [f"2025-11-{day:02}" for day in range(1, 31) if day != 3])
    (odf.folder / "jobs").mkdir()
    script = odf.folder / "jobs/make.sh"
    script.write_text("#!/bin/sh\nexit 3\n")
    script.chmod(0o755)
    spans = "2025-11-01..2025-11-02, 2025-11-04..2025-11-30"
    assert f"    {spans}; see: odf log " in odf("drain", "--workers", "3", code=1).out
    assert f"29 chunks of product are FAILED: {spans}\n" in odf("why", "make").out
    assert f"product  {spans} (29)  " in odf("recover").out
