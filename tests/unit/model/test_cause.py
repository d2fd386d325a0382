"""Messages of failures that differ only in numbers and names have one key."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendataflow.model.decision.cause import cause_key


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("exit code 1", "exit code 127"),
        ("connection to db1.example:5432 refused", "connection to db17.example:5433 refused"),
        ("no such file: /data/in/a.csv", "no such file: /mnt/other/folder/b.csv"),
        ("no such file: raw/a.csv", "no such file: raw/b.csv"),
        ("cannot read s3a://lake/orders/x: denied", "cannot read https://host/y?z: denied"),
        ("column 'amount' is missing", "column 'price per unit' is missing"),
        ('relation "orders" does not exist', 'relation "lines" does not exist'),
        ("run deadbeef-0000-4000-8000-000000000001 is gone", "run 7f3a9c1e-1111-4222-8333-abcdefabcdef is gone"),
        ("object at 0x7f00aa is lost", "object at 0x12 is lost"),
        ("digest deadbeef differs", "digest cafebabe differs"),
        ("2025-11-12T03:00:01Z timeout after 30s", "2025-11-13 04:00:09 timeout after 600s"),
        ("shards 1, 2 and 3 failed", "shards 7 failed"),
        ("no  space\n left", "no space left"),
        ("it says \x1b[31mno\x1b[0m", "it says \x1b[32mno\x1b[0m"),
    ],
)
def test_what_differs_from_chunk_to_chunk_is_taken_out(one: str, other: str) -> None:
    assert cause_key(one) == cause_key(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("connection refused", "connection reset"),
        ("cannot read /a/b.csv", "cannot write /a/b.csv"),
        ("column 'a' is missing", "column 'a' is empty"),
        ("can't read it, don't ask", "can't write it, don't ask"),
        ("read/write error", "input/output error"),
        ("", "killed"),
    ],
)
def test_what_says_why_stays(one: str, other: str) -> None:
    assert cause_key(one) != cause_key(other)


def test_names_that_the_caller_knows_are_taken_out_where_they_are_words() -> None:
    assert cause_key("load_orders: disk full", ["load_orders"]) == cause_key("load_lines: disk full", ["load_lines"])
    assert cause_key("orders is empty.", ["orders"]) == cause_key("lines is empty.", ["lines"])
    assert cause_key("reorders failed", ["orders"]) == "reorders failed"
    assert cause_key("a.b failed", ["a"]) == "a.b failed"


def test_a_sentence_keeps_its_end() -> None:
    assert cause_key("It ended with 1. See /tmp/log: nothing.") == "It ended with #. See #: nothing."


def test_no_message_has_a_key_too() -> None:
    assert cause_key(None) == cause_key("") == ""


@given(st.text(), st.lists(st.text(max_size=5), max_size=3))
def test_a_key_is_one_short_line_whatever_the_message(text: str, names: list[str]) -> None:
    key = cause_key(text, names)
    assert "\n" not in key
    assert len(key) <= 2000


def test_a_very_long_message_costs_no_more_than_a_long_one() -> None:
    assert cause_key("s" * 1_000_000) == "s" * 2000
    assert len(cause_key("x/" * 100_000)) <= 2000
