"""Checks in words: every kind has a sentence."""

from __future__ import annotations

from opendataflow.insight.check_words import check_words
from opendataflow.model.definitions.check_kinds import KINDS
from opendataflow.model.definitions.checks import Check

TOLD: dict[str, tuple[dict[str, object], str]] = {
    "schema": ({"schema": "a INT"}, "the columns are a INT"),
    "rows": ({"min": 1, "max": 1000}, "the number of rows is at least 1 and at most 1,000"),
    "not_null": ({"columns": ["a", "b"]}, "a, b are never null"),
    "unique": ({"columns": ["a", "b"]}, "no a, b together occurs twice"),
    "accepted": ({"column": "a", "values": ["x", 1]}, "a is one of x, 1"),
    "range": ({"column": "a", "min": "2025", "max": "2026"}, "a is at least 2025 and at most 2026"),
    "regex": ({"column": "a", "pattern": "N.*"}, "the whole a matches N.*"),
    "span": ({}, "the partition column lies within the dataid"),
    "fresh": ({"column": "ts", "max_age": "36h"}, "the newest ts is at most 36h old"),
    "references": ({"column": "a", "dataset": "x", "its_column": "b"}, "every a exists in b of x"),
    "conserves": ({"dataset": "raw"}, "no row of raw is lost: it is published or in quarantine"),
    "sql": ({"name": "short", "expression": "a < 3"}, "a < 3 is true"),
}


def test_every_kind_is_told_in_a_sentence() -> None:
    assert {*TOLD} == {*KINDS}
    for kind, (params, words) in TOLD.items():
        assert check_words(Check(kind, params)) == words
    near = Check("rows", {"within_percent": 20, "trailing": 7})
    assert check_words(near) == "the number of rows is within 20 % of the median of the last 7 chunks"
