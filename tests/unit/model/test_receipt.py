import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendataflow.errors import BadDefinition
from opendataflow.model.decision.receipt import NOT_ASKED, QUESTIONS, YES, Answer, Receipt

NAMES = [question.name for question in QUESTIONS]


def receipt(*yes: bool | None) -> Receipt:
    return Receipt("clean", "2013-01-01", tuple(Answer(name, each) for name, each in zip(NAMES, yes, strict=False)))


def test_the_five_questions_come_in_order_with_the_names_of_their_no():
    assert [(question.number, question.name, question.no) for question in QUESTIONS] == [
        (1, "ready", "DATA_NOT_READY"),
        (2, "right", "WRONG_DATA"),
        (3, "place", "INVALID_PATH"),
        (4, "validated", "NOT_VALIDATED"),
        (5, "safe", "LOCKED"),
    ]


@pytest.mark.parametrize(
    ("answers", "verdict"),
    [
        ((True, True, True, True, True), YES),
        ((False, None, None, None, None), "DATA_NOT_READY"),
        ((True, False, None, None, None), "WRONG_DATA"),
        ((True, True, False, None, None), "INVALID_PATH"),
        ((True, True, True, False, None), "NOT_VALIDATED"),
        ((True, True, True, True, False), "LOCKED"),
        ((True, True, None, None, True), NOT_ASKED),
        ((True, True, None, None, False), "LOCKED"),
        ((True, True, True, True), NOT_ASKED),
        ((None, None, None, None, None), NOT_ASKED),
        ((), NOT_ASKED),
    ],
)
def test_the_verdict_is_the_first_no_and_yes_only_when_all_five_were_dealt_with(answers, verdict):
    assert receipt(*answers).verdict == verdict


def test_what_was_left_out_for_a_reason_is_dealt_with():
    answers = [
        replace(answer, why="" if answer.yes else "only tracked")
        for answer in receipt(True, True, None, None, True).answers
    ]
    assert Receipt("clean", None, tuple(answers)).verdict == YES


def test_the_verdict_goes_by_the_order_of_the_questions():
    shuffled = Receipt("clean", None, tuple(reversed(receipt(True, False, None, None, False).answers)))
    assert shuffled.verdict == "WRONG_DATA"


JSON_DATA = st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.text()))


@given(
    st.none() | st.just("2013-01-01"),
    st.lists(st.tuples(st.sampled_from([True, False, None]), JSON_DATA, st.text()), max_size=5),
)
def test_a_receipt_survives_the_round_trip(dataid, facts):
    answers = tuple(Answer(name, *fact) for name, fact in zip(NAMES, facts, strict=False))
    original = Receipt("clean", dataid, answers)
    assert Receipt.from_data(json.loads(json.dumps(original.to_data()))) == original


def test_a_receipt_is_compact_and_says_its_verdict():
    data = receipt(True, False).to_data()
    assert data == {
        "jobid": "clean",
        "dataid": "2013-01-01",
        "verdict": "WRONG_DATA",
        "ready": {"yes": True},
        "right": {"yes": False},
    }


def test_a_sixth_question_is_refused():
    with pytest.raises(BadDefinition) as problem:
        Answer("cheap", True)
    assert "cheap" in problem.value.message
