"""The mark of an attempt."""

from __future__ import annotations

import pytest

from opendataflow.run.process.process_tree import mark_of

OWN = 70_000


def mark(epoch: int, dataid: str = "1") -> str:
    return str(mark_of("store", "make", dataid, epoch))


@pytest.mark.parametrize("epoch", [1, 65_536, 2**62, -1, 0])
def test_a_mark_is_as_long_as_the_name_of_a_process_may_be(epoch: int) -> None:
    assert len(mark(epoch)) == 15


@pytest.mark.parametrize("epoch", [1, OWN - 300, OWN - 1, OWN + 1000, 4_000_000_000_000, -3])
def test_any_other_attempt_of_the_chunk_is_a_predecessor(epoch: int) -> None:
    assert mark_of("store", "make", "1", OWN).is_of_predecessor(mark(epoch))


@pytest.mark.parametrize("epoch", [OWN, OWN + 1, OWN + 200])
def test_neither_the_own_attempt_nor_one_that_took_the_chunk_over_is_a_predecessor(epoch: int) -> None:
    assert not mark_of("store", "make", "1", OWN).is_of_predecessor(mark(epoch))


@pytest.mark.parametrize("other", [mark(1, "2"), "bash", "", mark(1)[:-1], mark(1) + "0", mark(1)[:-1] + "z"])
def test_what_is_no_mark_of_the_chunk_is_no_predecessor(other: str) -> None:
    assert not mark_of("store", "make", "1", OWN).is_of_predecessor(other)
