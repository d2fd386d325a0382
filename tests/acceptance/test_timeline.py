"""odf timeline: text and JSON."""

from __future__ import annotations

from opendataflow import Store
from tests.support.flows import chain, claim_one, produce
from tests.support.odf import Odf


def test_a_timeline_as_text_and_as_data(store: Store, odf: Odf) -> None:
    assert ": 0 runs" in odf("timeline").out
    chain(store)
    store.announce("raw", ["1", "2"])
    produce(store, "make")
    store.fail(claim_one(store, "make"), detail="no space left")
    produce(store, "use")
    store.dml("update run set started = '2020-05-01 10:00:00+00', ended = '2020-05-01 10:30:00+00'")
    store.dml("update data_manifest set published = '2020-05-01 09:00:00+00'")
    period = ("--since", "2020-05-01T10:00", "--until", "2020-05-01T11:00", "--by", "job")
    said = odf("timeline", *period).out
    assert "3 runs, 1 failed" in said
    assert f"make  {'█' * 30}{'·' * 30}  2 runs, 1 failed" in said
    assert f"use   {'█' * 30}{'·' * 30}  1 run" in said
    assert "Waited longest" in said
    assert "60 min" in said
    data = odf("timeline", *period, "--job", "make", "--json").data
    assert (data["runs"], data["failed"], [lane["name"] for lane in data["lanes"]]) == (2, 1, ["make"])
    assert odf("timeline", "--since", "never", code=2).err.startswith("BAD_TIME")


def test_only_runs_of_a_job_that_there_is(store: Store, odf: Odf) -> None:
    chain(store)
    store.announce("raw", ["1"])
    produce(store, "make")
    assert odf("timeline", "--job", "nope", code=2).err.startswith("UNKNOWN_JOB")
    assert odf("timeline", "--job", "raw", code=2).err.startswith("UNKNOWN_JOB"), "nothing produces it"
    taken = odf("timeline", "--job", "product")
    assert "taken for make" in taken.err
    assert ": 1 run" in taken.out
