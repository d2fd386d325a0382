"""resubmit, hold, release, fail, forget, pool, and the original's verbs."""

from __future__ import annotations

import json

import pytest

from opendataflow import Pool, Store
from opendataflow.model import RetryRule
from tests.support.flows import chain, claim_one, drain, dump, following, kinds, status
from tests.support.odf import Odf


@pytest.fixture
def flow(store: Store) -> Store:
    """raw 1–6 → make → product: 2 failed, the others are READY."""
    chain(store, pools=[Pool("etl", 8)], pool="etl")
    store.announce("raw", [str(n) for n in range(1, 7)])
    for claim in store.claim("make", 6):
        store.fail(claim) if claim.dataid == "2" else store.commit(claim)
    return store


def changed(answer: object) -> list[tuple[str, str, str, str]]:
    assert isinstance(answer, dict)
    return [(row["datasetid"], row["dataid"], row["before"], row["after"]) for row in answer["changed"]]


def test_one_chunk_is_steered_without_asking(flow: Store, odf: Odf):
    odf("resubmit", "product", "3", "--why", "late data")
    assert status(flow, "product", "3") == "RESUBMIT"
    assert flow.views.events("product", "3")[-1].why == "late data"
    odf("hold", "product", "4")
    odf("release", "product", "4")
    odf("fail", "product", "4")
    odf("forget", "product", "5")
    assert [status(flow, "product", each) for each in "45"] == ["FAILED", None]
    assert kinds(flow, "product", "4")[-3:] == ["held", "released", "failed"]


def test_several_chunks_need_a_yes(flow: Store, odf: Odf):
    before = dump(flow)
    answer = odf("resubmit", "product", "1..3", code=2)
    assert "2" in answer.err
    assert "--yes" in answer.err
    assert dump(flow) == before
    assert changed(odf("resubmit", "product", "1..3", "--yes", "--json").data) == [
        ("product", "1", "READY", "RESUBMIT"),
        ("product", "2", "FAILED", "RESUBMIT"),
        ("product", "3", "READY", "RESUBMIT"),
    ]
    assert following(flow, "make", 5) == ["1", "2", "3"]


@pytest.mark.parametrize("name", ["resubmit", "hold", "fail", "forget"])
def test_a_dry_run_changes_nothing(flow: Store, odf: Odf, name: str):
    before = dump(flow)
    answer = odf(name, "product", "1", "3", "--dry-run", "--json").data
    assert answer["dry_run"] is True
    assert len(answer["changed"]) == 2
    assert "would change 2 chunks" in odf(name, "product", "1", "3", "--dry-run").out
    assert dump(flow) == before


def test_all_that_failed_is_resubmitted_at_once(flow: Store, odf: Odf):
    drain(flow, "use")
    flow.fail_chunks("report", ["1"])
    assert changed(odf("resubmit", "--failed", "--yes", "--json").data) == [
        ("product", "2", "FAILED", "RESUBMIT"),
        ("report", "1", "FAILED", "RESUBMIT"),
    ]
    assert odf("resubmit", "--failed").out == "nothing to change\n"


def test_a_chunk_that_waits_for_its_next_try_is_due_at_once(store: Store, odf: Odf):
    chain(store, retry=RetryRule(retries=3, backoff=3600))
    store.announce("raw", ["1"])
    store.fail(claim_one(store, "make"))
    answer = odf("resubmit", "product", "1")
    assert "1 of them is RESUBMIT already, but deferred after a failure: due at once" in answer.out
    assert "changed 1 chunk" in answer.out
    assert following(store, "make") == ["1"]
    assert odf("resubmit", "product", "--all").out == "nothing to change\n"


def test_a_job_names_what_it_produces(flow: Store, odf: Odf):
    assert changed(odf("resubmit", "--job", "make", "--failed", "--json").data) == [
        ("product", "2", "FAILED", "RESUBMIT")
    ]
    assert changed(odf("hold", "--job", "make", "3", "--json").data) == [("product", "3", "READY", "HOLD")]


def test_all_means_what_the_verb_can_be_done_to(flow: Store, odf: Odf):
    claim_one(flow, "use")
    odf("hold", "product", "3", "4", "--yes")
    assert changed(odf("release", "product", "--all", "--yes", "--json").data) == [
        ("product", "3", "HOLD", "READY"),
        ("product", "4", "HOLD", "READY"),
    ]
    assert len(changed(odf("resubmit", "product", "--all", "--yes", "--json").data)) == 6


def test_a_running_chunk_is_left_alone_unless_forced(flow: Store, odf: Odf):
    claim = claim_one(flow, "use")
    answer = odf("resubmit", "report", claim.dataid, code=14)
    assert answer.err.startswith("LOCKED")
    odf("resubmit", "report", claim.dataid, "--force")
    assert status(flow, "report", claim.dataid) == "RESUBMIT"


def test_future_chunks_can_be_held(flow: Store, odf: Odf):
    odf("hold", "product", "7..9", "--yes")
    assert [status(flow, "product", each) for each in "789"] == ["HOLD"] * 3


def test_what_makes_no_sense_is_refused_and_nothing_is_written(flow: Store, odf: Odf):
    before = dump(flow)
    for words, name in (
        (("resubmit",), "USAGE"),
        (("resubmit", "product"), "USAGE"),
        (("resubmit", "product", "1", "--all"), "USAGE"),
        (("resubmit", "product", "3..1"), "BAD_DATAID"),
        (("resubmit", "product", "one"), "BAD_DATAID"),
        (("resubmit", "product", "99"), "BAD_TRANSITION"),
        (("resubmit", "nothing", "1"), "UNKNOWN_DATASET"),
        (("resubmit", "--job", "nothing", "--all"), "UNKNOWN_JOB"),
        (("release", "product", "1"), "BAD_TRANSITION"),
        (("hold", "product", "1'--"), "BAD_ID"),
        (("pool", "set", "etl"), "USAGE"),
        (("pool", "set", "etl", "many"), "USAGE"),
        (("pool", "set", "e t l", "1"), "BAD_ID"),
        (("pool", "drop", "etl"), "BAD_DEFINITION"),
        (("pool", "set", "etl", "4", "--hours", "sometimes -> 4"), "BAD_DEFINITION"),
        (("pool", "set", "etl", "4", "--timezone", "Mars/Base"), "BAD_DEFINITION"),
        (("pool", "set", "etl", "--always", "--hours", "00:00-24:00 -> 4"), "USAGE"),
        (("pool", "set", "nothing", "--hours", "00:00-24:00 -> 4"), "UNKNOWN_POOL"),
        (("pool", "set", "nothing", "0"), "UNKNOWN_POOL"),
        (("pool", "drop", "nothing"), "UNKNOWN_POOL"),
    ):
        answer = odf(*words, code=2)
        assert answer.err.startswith(name + ":"), answer
    assert dump(flow) == before


def test_ranges_need_numbered_dataids(store: Store, odf: Odf):
    chain(store, partition="text")
    store.announce("raw", ["a", "b", "c"])
    assert odf("hold", "raw", "a..c", code=2).err.startswith("BAD_DATAID")
    odf("hold", "raw", "a", "c", "--yes")
    assert [status(store, "raw", each) for each in "abc"] == ["HOLD", "READY", "HOLD"]


def test_pools_are_listed_set_and_dropped(flow: Store, odf: Odf):
    claim_one(flow, "use")
    (found,) = odf("pool", "--json").data
    assert {name: found[name] for name in ("poolid", "what", "slots", "now", "changes", "taken", "waiting")} == {
        "poolid": "etl",
        "what": "pool",
        "slots": 8,
        "now": 8,
        "changes": None,
        "taken": 1,
        "waiting": 4,
    }
    assert found["jobs"] == ["make", "use"]
    before = dump(flow)
    assert odf("pool", "set", "etl", "9", "--dry-run").out == "slots of pool etl: 9; before: 8 (nothing was changed)\n"
    assert dump(flow) == before
    odf("pool", "set", "etl", "unlimited")
    odf("pool", "set", "spare", "3", "--create")
    odf("pool", "drop", "spare", "--dry-run")
    assert {name: pool.slots for name, pool in flow.catalogue().pools.items()} == {"etl": None, "spare": 3}
    odf("pool", "drop", "spare")
    assert list(flow.catalogue().pools) == ["etl"]


def test_hours_say_when_the_pool_has_other_slots(flow: Store, odf: Odf):
    answer = odf("pool", "set", "etl", "20", "--hours", "00:00-24:00 -> 3", "--timezone", "Asia/Tokyo")
    assert answer.out == "slots of pool etl: 20; before: 8\n  00:00-24:00 -> 3\nnow: 3\n"
    odf("pool", "set", "etl", "30")
    pool = flow.catalogue().pool("etl")
    assert (pool.slots, pool.options) == (30, {"hours": ["00:00-24:00 -> 3"], "timezone": "Asia/Tokyo"})
    (found,) = odf("pool", "--json").data
    assert (found["slots"], found["now"], found["hours"]) == (30, 3, ["00:00-24:00 -> 3"])
    assert "now: 0 (paused)" in odf("pool", "set", "etl", "0").out
    odf("pool", "set", "etl", "--always")
    assert flow.catalogue().pool("etl").options == {}


def test_a_dataset_that_limits_its_readers_is_listed_and_named(flow: Store, odf: Odf):
    flow.dml("update dataset set options = '{\"readers\": 1}' where datasetid = 'product'")
    claim = claim_one(flow, "use")
    assert "readers of product" in odf("pool").out
    assert "dataset product is full: 1 of 1 readers are running" in odf("why", "use").out
    assert flow.claim("use") == []
    flow.commit(claim)
    claim_one(flow, "use")


def test_the_original_s_verbs_do_the_handshake(flow: Store, odf: Odf):
    facts = odf("startjob", "use").data
    assert facts["dataid"] == "1"
    assert odf("endjob", "use", "1", "READY", "--json").data["status"] == "READY"
    assert odf("endjob", "use", "1", "READY", code=14).err.startswith("LOCKED")
    assert odf("endjob", "use", "1", "RESUBMIT").out == "use 1 is RESUBMIT\n", "as the original restarts it"
    assert odf("startjob", "use").data["dataid"] == "1"
    assert odf("endjob", "use", "1", "RERUN").out == "run 8: use 1 is RESUBMIT\n", "while it runs, too"
    odf("deleterun", "use", "1")
    assert status(flow, "report", "1") is None
    forced = json.loads(odf("forcejob", "make", "3").out)
    assert (forced["jobid"], forced["dataid"]) == ("make", "3")
    assert flow.views.running()[0].forced
    assert odf("getjob", "make").data["reads"] == {"raw": "identity"}
