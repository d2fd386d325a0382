"""One decision: `odf why JOB DATAID` gives the verdict that the facts of the store give, in every way a chunk can be refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from opendataflow import Dataset, Pool, Store
from opendataflow.model import QUESTIONS, RetryRule, answer_all, decide
from tests.support.flows import chain, claim_one, dataset, job, produce
from tests.support.odf import Odf

Case = Callable[[Store], None]


def missing_latest_input(store: Store) -> None:
    store.register(
        [dataset(name, "day") for name in ("raw", "rates", "product")],
        [job("make", "raw", "rates latest", writes="product")],
    )
    store.announce("raw", ["2025-11-12"])
    store.announce("rates", ["2025-11-13"])


def missing_all_input(store: Store) -> None:
    store.register(
        [dataset("source"), dataset("raw"), dataset("product", "text")],
        [job("fill", "source", writes="raw"), job("make", "raw all", writes="product")],
    )
    store.announce("source", ["1", "2"])
    produce(store, "fill", "1")


def failed_with_missing_inputs(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    store.fail(claim_one(store, "make"))
    store.hold("raw", ["1"])


def full_pool(store: Store) -> None:
    chain(store, pools=[Pool("etl", 1)], pool="etl")
    store.announce("raw", ["1", "2"])
    claim_one(store, "make", dataid="2")


def deferred(store: Store) -> None:
    chain(store, retry=RetryRule(retries=1, backoff=3600))
    store.announce("raw", ["1"])
    store.fail(claim_one(store, "make"))


def done(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    produce(store, "make", "1")


def nothing_in_the_way(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])


# What is prepared, the dataid that is asked for, its verdict, and the names of all reasons.
CASES: list[tuple[Case, str, str, list[str]]] = [
    (missing_latest_input, "2025-11-12", "DATA_NOT_READY", ["DATA_NOT_READY"]),
    (missing_all_input, "all", "DATA_NOT_READY", ["DATA_NOT_READY"]),
    (failed_with_missing_inputs, "1", "DATA_NOT_READY", ["DATA_NOT_READY", "LOCKED"]),
    (full_pool, "1", "LOCKED", ["LOCKED"]),
    (deferred, "1", "YES", ["YES", "LOCKED"]),
    (done, "1", "LOCKED", ["LOCKED"]),
    (nothing_in_the_way, "1", "YES", ["YES"]),
]


@pytest.mark.parametrize(("case", "dataid", "verdict", "names"), CASES, ids=[case.__name__ for case, *_ in CASES])
def test_why_gives_the_verdict_of_the_decision(
    store: Store, odf: Odf, case: Case, dataid: str, verdict: str, names: list[str]
):
    case(store)
    data = odf("why", "make", dataid, "--json").data
    facts = store.views.facts("make", dataid)._replace(deferred=0.0)  # whoever names a chunk need not wait for its turn
    assert data["verdict"] == decide(facts).verdict == verdict
    cause_first = {"FAILED": "LOCKED"}  # what the decision calls LOCKED, why calls by its cause
    assert [cause_first.get(reason["name"], reason["name"]) for reason in data["reasons"]] == names
    assert [(each["question"], each["answer"]) for each in data["answers"]] == [
        (answer.question, answer.word) for answer in answer_all(facts)
    ]
    nos = {question.name: question.no for question in QUESTIONS}
    assert {nos[each["question"]] for each in data["answers"] if each["answer"] == "no"} == (
        set() if verdict == "YES" else {*names}
    )
    assert all(each["why"] for each in data["answers"] if each["answer"] != "yes")


@pytest.mark.parametrize(("case", "dataid", "verdict", "names"), CASES, ids=[case.__name__ for case, *_ in CASES])
def test_runjob_gives_the_answer_that_why_gave(
    store: Store, odf: Odf, case: Case, dataid: str, verdict: str, names: list[str]
):
    case(store)
    script = odf.folder / "make"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    told = odf("why", "make", dataid, "--json").data["verdict"]
    answer = odf("run", "--json", "--dataid", dataid, "./make", code=None).data
    assert told == verdict
    assert answer["outcome"] == ("READY" if verdict == "YES" else verdict)


def test_the_words_of_a_refusal_say_what_to_do(store: Store, odf: Odf):
    done(store)
    answer = odf("why", "make", "1").out
    assert answer.startswith("LOCKED: there is nothing to do: product 1 is READY")
    assert "not asked  Is it in the right place?  only tracked" in answer
    assert "no         Is nothing in the way: no lock, no full pool?  product 1 is READY already: it is done" in answer


def test_everything_that_waits_for_the_whole_is_told_at_once(store: Store, odf: Odf):
    missing_all_input(store)
    store.fail_chunks("raw", ["1"])
    (reason,) = odf("why", "make", "all", "--json").data["reasons"]
    assert "FAILED" in reason["text"]
    assert any("fill" in line for line in reason["because"])
    assert reason["commands"] == ["odf status raw --status FAILED", "odf run fill"]


def test_a_dataid_that_cannot_be_is_an_error_whoever_is_asked(store: Store, odf: Odf):
    chain(store)
    script = odf.folder / "make"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    for words in (["why", "make", "one"], ["run", "--dataid", "one", "./make"], ["start", "make", "--dataid", "one"]):
        assert odf(*words, code=2).err.startswith("BAD_DATAID")
    assert odf("run", "--dry-run", "--dataid", "one", "./make", code=2).err.startswith("BAD_DATAID")


def test_a_refused_dataid_leaves_no_candidate_behind(store: Store, odf: Odf):
    chain(store)
    before = odf("why", "make", "--json").data["verdict"]
    odf("start", "make", "--dataid", "7", code=10)
    assert odf("why", "make", "--json").data["verdict"] == before == "NOTHING_TO_DO"
    assert store.sql("select * from candidate")[1] == []


def test_an_ended_run_says_how_it_ended(store: Store, odf: Odf):
    chain(store)
    store.announce("raw", ["1"])
    run = odf("start", "make", "--json").data["ODF_RUN"]
    odf("end", run, "READY")
    again = odf("end", run, "READY", code=16).err
    assert "it ended READY" in again
    assert "not published" not in again


def test_explain_looks_at_the_data_or_says_that_nobody_did(store: Store, odf: Odf):
    location = odf.folder / "1.csv"
    location.write_text("a\n1\n")
    store.register([Dataset("raw", kind="file", location=f"{odf.folder}/{{dataid}}.csv")])
    odf("ready", "raw", "1")

    def answers() -> dict[str, str]:
        return {each["question"]: each["answer"] for each in odf("explain", "raw", "1", "--json").data["answers"]}

    assert (answers()["place"], answers()["validated"]) == ("yes", "yes")
    location.write_text("a\n1\n2\n")
    assert (answers()["place"], answers()["validated"]) == ("yes", "no")
    location.unlink()
    assert answers()["place"] == "no"
