"""Sizes: how they are written."""

from __future__ import annotations

import pytest

from opendataflow.errors import BadDefinition
from opendataflow.model.size import bytes_of


@pytest.mark.parametrize(
    ("size", "number"), [("512KiB", 512 << 10), ("64 MiB", 64 << 20), ("2GiB", 2 << 30), (7, 7), ("7", 7), ("7B", 7)]
)
def test_a_size_is_a_number_of_bytes(size: object, number: int) -> None:
    assert bytes_of(size, "a") == number


@pytest.mark.parametrize("size", ["", "0", 0, -1, "64MB", "1.5GiB", True, None, "9" * 30, "-1KiB", [1]])
def test_what_is_no_size_is_refused(size: object) -> None:
    with pytest.raises(BadDefinition):
        bytes_of(size, "dataset a: max_line")
