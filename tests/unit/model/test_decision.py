"""One function decides: a table of facts, and the verdict, the no and the reason that each must give."""

from __future__ import annotations

from typing import Any

import pytest

from opendataflow.model import (
    CLAIMABLE,
    FAILED,
    IN_LOCKS,
    NOT_ASKED,
    OUT_LOCKS,
    QUESTIONS,
    RESUBMIT,
    WAITING,
    YES,
    CheckResult,
    DataLook,
    Dataset,
    Facts,
    InputFact,
    Limit,
    Manifest,
    OutputFact,
    ReadFact,
    Unresolved,
    answer_all,
    answer_reader,
    candidacy,
    decide,
    locked_by,
    may_consume,
    may_produce,
    parse_checks,
    validation,
)

GOOD = Facts(
    "load",
    "2013-01-01",
    inputs=(InputFact("raw", "2013-01-01", "READY", 3),),
    outputs=(OutputFact("clean", None),),
    limits=(Limit("pool", "etl", 2, 1),),
    partition="day",
    epoch=1,
    right=DataLook(),
    place=DataLook("", {"environment": "dev"}),
    validated=DataLook(),
)
NONE = (None,) * 5


@pytest.mark.parametrize(
    ("changes", "verdict", "word"),
    [
        ({}, YES, ""),
        ({"inputs": ()}, YES, ""),
        ({"inputs": (InputFact("raw", "2013-01-01", None),)}, "DATA_NOT_READY", "raw 2013-01-01 was never produced"),
        ({"inputs": (InputFact("raw", "2013-01-01", "FAILED"),)}, "DATA_NOT_READY", "is FAILED"),
        ({"inputs": (InputFact("raw", "2013-01-01", "SHELVED"),)}, "DATA_NOT_READY", "is SHELVED"),
        ({"unresolved": (Unresolved("rates", "latest", "no chunk of rates"),)}, "DATA_NOT_READY", "no chunk of rates"),
        ({"malformed": "2013-13-01 is not a day", "inputs": ()}, "WRONG_DATA", "is not a day"),
        ({"right": DataLook("it holds another day")}, "WRONG_DATA", "another day"),
        ({"place": DataLook("nothing is at /x")}, "INVALID_PATH", "/x"),
        ({"validated": DataLook("a file is gone")}, "NOT_VALIDATED", "gone"),
        ({"outputs": (OutputFact("clean", "RUNNING", 7),)}, "LOCKED", "is RUNNING by run 7"),
        ({"outputs": (OutputFact("clean", "READY"),)}, "LOCKED", "already: it is done"),
        ({"outputs": (OutputFact("clean", None), OutputFact("bad", "HOLD"))}, "LOCKED", "bad 2013-01-01 is HOLD"),
        ({"outputs": (OutputFact("clean", "SHELVED"),)}, "LOCKED", "is SHELVED"),
        ({"reads": (ReadFact("raw", "2013-01-01", "DONE"),)}, "LOCKED", "already has raw 2013-01-01 as DONE"),
        (
            {"reads": (ReadFact("raw", "2013-01-01", "DONE"),), "outputs": (OutputFact("clean", RESUBMIT),)},
            YES,
            "",
        ),
        ({"limits": (Limit("pool", "etl", 2, 2),)}, "LOCKED", "pool etl is full: 2 of 2 slots are taken"),
        ({"limits": (Limit("pool", "etl", 0, 0),)}, "LOCKED", "pool etl is paused"),
        ({"limits": (Limit("dataset", "raw", 1, 1),)}, "LOCKED", "1 of 1 readers"),
        ({"deferred": 59.0}, "LOCKED", "deferred"),
        ({"place": "only tracked", "validated": "only tracked"}, YES, ""),
        ({"place": "only tracked", "validated": "only tracked", "deferred": 1.0}, "LOCKED", "deferred"),
        ({"forced": True}, NOT_ASKED, ""),
    ],
)
def test_facts_become_a_verdict(changes: dict[str, Any], verdict: str, word: str):
    receipt = decide(GOOD._replace(**changes))
    assert receipt.verdict == verdict
    assert word in (receipt.no.why if receipt.no else "")


def test_the_first_no_ends_the_asking_and_the_rest_is_not_asked():
    receipt = decide(GOOD._replace(place=DataLook("gone"), outputs=(OutputFact("clean", "HOLD"),)))
    assert [answer.question for answer in receipt.answers] == ["ready", "right", "place"]
    assert receipt.answer("safe").yes is None


def test_all_five_can_be_asked_for_whoever_wants_to_know_everything():
    answers = answer_all(GOOD._replace(place=DataLook("gone"), outputs=(OutputFact("clean", "HOLD"),)))
    assert [answer.yes for answer in answers] == [True, True, False, True, False]


def test_of_a_dataid_that_cannot_be_only_its_form_is_asked():
    answers = answer_all(GOOD._replace(malformed="2013-13-01 is not a day", place="", validated=""))
    assert [answer.word for answer in answers] == ["not asked", "no", "not asked", "not asked", "not asked"]


def test_what_nobody_looked_at_is_not_a_yes():
    receipt = decide(GOOD._replace(place="only tracked", validated="only tracked"))
    assert [receipt.answer(name).yes for name in ("place", "validated")] == [None, None]
    assert receipt.answer("place").why == "only tracked"


def test_a_question_that_is_still_open_is_no_yes():
    """The claim decides before anybody looked at the data: only the gate can say YES then."""
    assert decide(Facts("load", "1", outputs=GOOD.outputs)).verdict == NOT_ASKED


@pytest.mark.parametrize("forced", [False, True])
@pytest.mark.parametrize("place", ["", "tracked", DataLook()])
@pytest.mark.parametrize("validated", ["", "tracked", DataLook()])
def test_a_look_is_needed_where_nothing_else_keeps_it_from_a_yes(place: Any, validated: Any, forced: bool):
    facts = GOOD._replace(place=place, validated=validated, forced=forced)
    assert facts.needs_a_look == (decide(facts).verdict != YES and not forced)


def test_a_forced_run_was_asked_nothing():
    assert tuple(answer.yes for answer in decide(GOOD._replace(forced=True)).answers) == NONE


def test_the_decision_is_total():
    """Every status of either lock table, known or not, gives a verdict, and a receipt that can be stored."""
    names = {YES, NOT_ASKED, *(question.no for question in QUESTIONS)}
    for out in (*OUT_LOCKS, "SHELVED"):
        for read in (*IN_LOCKS, "SHELVED"):
            facts = GOOD._replace(
                outputs=(OutputFact("clean", out),),
                reads=() if read is None else (ReadFact("raw", "2013-01-01", read),),
            )
            receipt = decide(facts)
            assert receipt.verdict in names
            allowed = may_produce(out) and may_consume(read, RESUBMIT if out == RESUBMIT else None)
            assert (receipt.verdict == YES) is allowed
            assert (locked_by([out], [read]) is None) is allowed


@pytest.mark.parametrize(
    ("is_ready", "outputs", "reads", "is_named", "state"),
    [
        (True, [], [], True, CLAIMABLE),
        (False, [], [], True, WAITING),
        (True, [], [], False, None),
        (True, [RESUBMIT], [], False, CLAIMABLE),
        (True, ["READY"], [], True, None),
        (False, [FAILED], [], True, None),
        (True, [RESUBMIT, None], ["DONE"], True, CLAIMABLE),
        (True, [], ["DONE"], True, None),
    ],
)
def test_a_candidate_follows_the_same_rules(is_ready, outputs, reads, is_named, state):
    assert candidacy(is_ready, outputs, reads, is_named) == state


READ = Facts(
    "",
    "2013-01-01",
    inputs=(InputFact("clean", "2013-01-01", "READY", 2),),
    partition="day",
    right=DataLook(),
    place="only tracked",
    validated="no checks are declared",
)


@pytest.mark.parametrize(
    ("status", "changes", "words"),
    [
        ("READY", {}, "yes yes not-asked not-asked yes"),
        ("READY", {"place": DataLook("", {"location": "/x"}), "validated": DataLook()}, "yes yes yes yes yes"),
        ("READY", {"validated": DataLook("clean failed its checks")}, "yes yes not-asked no yes"),
        ("READY", {"right": DataLook("it is not a day")}, "yes no not-asked not-asked yes"),
        ("READY", {"limits": (Limit("dataset", "clean", 1, 1),)}, "yes yes not-asked not-asked no"),
        ("READY", {"limits": (Limit("dataset", "clean", 1, 0),)}, "yes yes not-asked not-asked yes"),
        ("RESUBMIT", {}, "no yes not-asked not-asked yes"),
        ("RUNNING", {}, "no yes not-asked not-asked no"),
        ("FAILED", {}, "no yes not-asked not-asked no"),
        ("HOLD", {}, "no yes not-asked not-asked no"),
        ("PENDING", {}, "no yes not-asked not-asked no"),
        ("SHELVED", {}, "no yes not-asked not-asked no"),
        (None, {}, "no not-asked not-asked not-asked not-asked"),
        (None, {"place": DataLook("/x is outside")}, "no not-asked no not-asked not-asked"),
    ],
)
def test_a_reader_is_locked_out_by_the_status_of_the_chunk_alone(status, changes: dict[str, Any], words: str):
    facts = READ._replace(inputs=(InputFact("clean", "2013-01-01", status, 2),), **changes)
    answers = answer_reader(facts)
    assert [answer.question for answer in answers] == [question.name for question in QUESTIONS]
    assert " ".join(answer.word.replace(" ", "-") for answer in answers) == words
    assert all(answer.why for answer in answers if not answer.yes)


CHECKED = Dataset("clean", checks=parse_checks({"rows": {"min": 1}}, "clean"))
PASSED = Manifest(checks=(CheckResult("rows", "rows", passed=True),))
FAILED_ONE = Manifest(checks=(*PASSED.checks, CheckResult("unique id", "unique")))
WARNED = Manifest(checks=(CheckResult("rows", "rows", "warn"),))


@pytest.mark.parametrize(
    ("dataset", "manifest", "answer"),
    [
        (Dataset("clean"), None, "no checks are declared"),
        (Dataset("clean"), Manifest(), "no checks are declared"),
        (CHECKED, None, DataLook("clean 1 declares checks, and this version has no check results")),
        (CHECKED, Manifest(), DataLook("clean 1 declares checks, and this version was published without them")),
        (CHECKED, PASSED, DataLook("", {"checks": 1, "failed": []})),
        (Dataset("clean"), PASSED, DataLook("", {"checks": 1, "failed": []})),
        (CHECKED, FAILED_ONE, DataLook("clean 1 failed its checks: unique id", {"checks": 2, "failed": ["unique id"]})),
        (CHECKED, WARNED, DataLook("", {"checks": 1, "failed": ["rows"]})),
    ],
)
def test_a_version_is_validated_by_the_checks_that_it_passed(dataset, manifest, answer):
    assert validation(dataset, "1", manifest) == answer


def test_inputs_that_are_missing_are_named_as_ranges_and_not_all_of_them() -> None:
    days = [InputFact("raw", f"2026-11-{day}", None) for day in range(17, 31)]
    days[3] = InputFact("raw", "2026-11-20", "READY", 1)
    others = [InputFact(f"other{n}", "1", FAILED) for n in range(9)]
    why = answer_all(GOOD._replace(inputs=(*days, *others)))[0].why
    assert why == (
        "raw 2026-11-17..2026-11-19, 2026-11-21..2026-11-30 (13 chunks) were never produced; other0 1 is FAILED; "
        "other1 1 is FAILED; other2 1 is FAILED; other3 1 is FAILED; and 5 more"
    )


def test_missing_inputs_are_grouped_by_dataset_and_status_wherever_they_stand() -> None:
    states = [FAILED, "READY", FAILED, None]
    days = [InputFact("raw", f"{day:03d}", states[day % 4]) for day in range(365)]
    assert answer_all(GOOD._replace(inputs=days))[0].why == (
        "raw 000, 002, 004, 006, 008, … (183 chunks) are FAILED; raw 003, 007, 011, 015, 019, … (91 chunks) were never produced"
    )
    assert answer_all(GOOD._replace(inputs=days[:3]))[0].why == "raw 000, 002 are FAILED"
    many = [InputFact(f"other{n}", dataid, FAILED) for n in range(7) for dataid in ("1", "2")]
    assert answer_all(GOOD._replace(inputs=many))[0].why.endswith("other4 1..2 (2 chunks) are FAILED; and 4 more")
