"""How the matrix looks: every label of the ruler begins right above the cell that it names."""

from __future__ import annotations

import pytest

from opendataflow.cli.matrix import lines
from opendataflow.insight.axis import axis
from opendataflow.insight.matrix import Block, Cell, MatrixRow, Overview
from opendataflow.model import READY, TYPES


def shown(type_name: str, first: str, last: str, width: int) -> list[str]:
    low, high = (TYPES[type_name].parse(end) for end in (first, last))
    scale = axis(type_name, low, high, width - 5)
    line = MatrixRow(
        "raw", None, first, last, {READY: high - low + 1}, False, (Cell(READY, 1, 1),) * len(scale.columns)
    )
    block = Block(type_name, scale.each, scale.columns, (line,), True)
    return [
        "".join(part if isinstance(part, str) else part[0] for part in each)
        for each in lines(Overview((block,), ()), width)
    ]


@pytest.mark.parametrize(
    ("type_name", "first", "last", "rulers"),
    [
        (
            "day",
            "2025-11-12",
            "2025-12-31",
            ["2025-11            2025-12", "12 15   20   25   30   05   10   15   20   25   30"],
        ),
        ("hour", "2025-11-12T22", "2025-11-13T20", ["2025-11-12 2025-11-13", "22      06    12    18"]),
        ("month", "2024-11", "2026-12", ["2024 2025     2026", "11  03 06 09 12 03 06 09 12"]),
        ("number", "1", "40", ["1  4  7  10  14  18  22  26  30  34  38 .. 40"]),
    ],
)
def test_a_ruler_names_the_cell_below_it_and_the_coarser_period_once(
    type_name: str, first: str, last: str, rulers: list[str]
) -> None:
    assert [line.strip() for line in shown(type_name, first, last, 80)[: len(rulers)]] == rulers
