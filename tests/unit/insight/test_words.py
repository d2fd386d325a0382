"""Words that all answers share: times, numbers, ranges, and evidence in sentences instead of data."""

from __future__ import annotations

from typing import Any

import pytest

from opendataflow.insight.axis import DataidRange, ranges
from opendataflow.insight.words import (
    count,
    duration,
    evidence,
    gist,
    many,
    question_text,
    ranges_as_arguments,
    ranges_text,
    said,
    state,
    when,
)
from opendataflow.model import QUESTIONS, Partition


@pytest.mark.parametrize(
    ("facts", "phrases"),
    [
        ({}, []),
        ({"inputs": [["bobin", "1", "READY"]]}, ["bobin 1 is READY"]),
        ({"inputs": []}, ["there are no inputs"]),
        ({"inputs": [["raw", "1", None]]}, ["raw 1 was never produced"]),
        (
            {"inputs": [["raw", "1", "READY"], ["raw", "2", "READY"], ["rates", "7", "FAILED"], ["raw", "3", None]]},
            ["raw 1, 2 are READY", "rates 7 is FAILED", "raw 3 was never produced"],
        ),
        ({"inputs": [["raw", str(n), "READY"] for n in range(31)]}, ["raw 0, 1, 2, 3, 4, … (31 chunks) are READY"]),
        ({"inputs": [["raw", str(n), None] for n in range(2)]}, ["raw 0, 1 were never produced"]),
        ({"input": ["raw", "1", "DONE"]}, ["raw 1 is DONE"]),
        ({"type": "day", "versions": [3]}, ["its dataid is a day", "version 3"]),
        ({"type": "hour", "versions": [2, 1, 2]}, ["its dataid is an hour", "versions 1, 2"]),
        ({"versions": []}, []),
        ({"versions": [None, 0]}, []),
        ({"versions": list(range(1, 32))}, ["versions 1 to 31"]),
        ({"version": 3}, ["version 3"]),
        ({"spans": [["raw", "1", "00:00", "23:59"]]}, ["raw 1 holds 00:00 to 23:59"]),
        ({"same_as": "2"}, ["the same content as 2"]),
        ({"newer": [["raw", "1", 2, 3]]}, ["raw 1 is version 3 now, and version 2 was read"]),
        (
            {"environment": "dev", "raw 1": "/data/raw/1.csv", "clean 1": "no location is declared"},
            ["environment dev", "raw 1 is at /data/raw/1.csv", "clean 1: no location is declared"],
        ),
        ({"location": "s3a://lake/raw/1"}, ["it is at s3a://lake/raw/1"]),
        ({"host": "db.example", "table": "public.orders"}, ["table public.orders on db.example"]),
        ({"host": "db.example", "table": ""}, ["on db.example"]),
        (
            {"raw 1": {"version": 3, "files": 2, "rows": 1200, "checks": 1}},
            ["raw 1 version 3: 2 files, 1,200 rows, 1 check"],
        ),
        ({"raw 1": {"version": 3, "files": 0, "rows": None, "checks": 0}}, ["raw 1 version 3: 0 files, 0 checks"]),
        ({"checks": 5, "failed": []}, ["5 checks passed"]),
        ({"checks": 5, "failed": ["rows", "unique id"]}, ["5 checks, of which rows, unique id failed"]),
        (
            {"outputs": {"clean": None, "bad": "RESUBMIT"}, "epoch": 2},
            ["clean was never produced", "bad is RESUBMIT", "epoch 2"],
        ),
        (
            {"limits": [["pool", "etl", 4, 1], ["dataset", "raw", 2, 0]]},
            ["pool etl: 1 of 4 slots are taken", "dataset raw: 0 of 2 readers are running"],
        ),
        ({"pool": "etl", "slots": 4, "taken": 4}, ["pool etl: 4 of 4 slots are taken"]),
        ({"dataset": "raw", "slots": 1, "taken": 1}, ["dataset raw: 1 of 1 readers are running"]),
        ({"deferred": 59.2}, ["deferred for 59 s"]),
        # What older versions stored:
        ({"epoch": 1, "output": None, "pool": None}, ["epoch 1"]),
        ({"epoch": 2, "output": "RESUBMIT", "pool": "etl"}, ["epoch 2", "its output is RESUBMIT", "pool etl"]),
        ({"deferred": True}, ["it is deferred"]),
        # What nobody knows:
        ({"looked_at": {"a": 1, "b": [2, 3]}}, ["looked at: a 1, b 2 3"]),
        ({"inputs": "all"}, ["inputs: all"]),
        ({"versions": 3}, ["versions: 3"]),
        ({"outputs": ["clean"]}, ["outputs: clean"]),
        ({"limits": [["pool", "etl", 4, 1], ["pool"]]}, ["limits: pool etl 4 1; pool"]),
        ({"type": ""}, ["type: "]),
        ({"deferred": "soon"}, ["deferred: soon"]),
    ],
)
def test_evidence_is_a_sentence(facts: dict[str, Any], phrases: list[str]) -> None:
    assert evidence(facts) == phrases


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0 s"),
        (0.4, "0 s"),
        (89, "89 s"),
        (90, "2 min"),
        (3600, "60 min"),
        (5400, "1.5 h"),
        (172_800, "48.0 h"),
        (172_801, "2 days"),
        (9_244_800, "107 days"),
    ],
)
def test_a_length_of_time_is_said_as_people_say_it(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_numbers_agree_with_their_nouns() -> None:
    assert [many(n) for n in (0, 1, 1200)] == ["0 chunks", "1 chunk", "1,200 chunks"]
    assert many(10_000, 10_000) == "at least 10,000 chunks"
    assert many(9_999, 10_000) == "9,999 chunks"
    assert (count(1, "row"), state(None), state("HOLD")) == ("1 row", "was never produced", "is HOLD")


def test_a_moment_that_nobody_knows_is_not_invented() -> None:
    assert (when(None), when(None, "")) == ("an unknown time", "")


def test_dataids_that_follow_one_another_are_named_as_a_range() -> None:
    formed = ranges(Partition("number"), ["1", "2", "3", "7", "9", "10"])
    assert formed == [DataidRange("1", "3"), DataidRange("7", "7"), DataidRange("9", "10")]
    assert ranges_text(formed) == "1..3, 7, 9..10"
    assert ranges_text(formed, 2) == "1..3, 7, …"
    assert ranges_text(formed[:1], more=True) == "1..3, …"


def test_a_command_line_names_every_range_up_to_what_a_line_holds() -> None:
    assert ranges_as_arguments([DataidRange("1", "3"), DataidRange("7", "7")]) == "1..3 7"
    assert len(ranges_as_arguments([DataidRange(str(n), str(n)) for n in range(100)]).split()) == 20


def test_every_question_has_its_text() -> None:
    assert [question_text(question.name) for question in QUESTIONS] == [question.text for question in QUESTIONS]


@pytest.mark.parametrize(
    ("detail", "told"),
    [
        (None, ""),
        ("  \n ", ""),
        ("no space left", "no space left"),
        ("exit code 3 after 0.1 s: no space left", "no space left"),
        ("exit code -15 after 12 s: one\ntwo\nKeyError: 'x'\n", "KeyError: 'x'"),
        ("Traceback\nand more", "Traceback"),
        ("exit code 1 after 2.5 s: a\nb\x1b[31m", "b[31m"),
    ],
)
def test_a_failure_is_told_in_one_line(detail: str | None, told: str) -> None:
    assert gist(detail) == told
    assert len(gist("x" * 500, 50)) == 50


def test_a_cause_is_told_in_one_line_and_a_script_by_its_last() -> None:
    assert said("exit code 1 after 0.270 s: row 1: ok\nrow 2: ok\nConnectionError: away\n") == "ConnectionError: away"
    assert said("two\nlines") == "two lines"
    assert said(None) == ""
    assert len(said("x" * 500, 50)) == 50
