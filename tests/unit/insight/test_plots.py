"""Series of numbers as small pictures."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from opendataflow.insight.plots import bars, blocks, columns, line


def test_a_block_stands_for_each_value_and_the_highest_for_the_greatest():
    assert blocks([1, 2, 4, 8]) == "▂▃▅█"
    assert blocks([5, 5]) == "██"


def test_nothing_is_told_from_little():
    assert blocks([0, 1, 1000]) == "·▁█"
    assert blocks([0, 0]) == "··"
    assert blocks([]) == ""


def test_of_many_values_those_that_follow_each_other_share_a_block():
    assert blocks(list(range(1, 101)), 4) == "▂▄▆█"
    assert len(blocks([1.0] * 10_000, 40)) == 40


@pytest.mark.parametrize("values", [[], [0], [7], [1, 2, 3], [0, 0, 0], list(range(10_000))])
def test_a_line_is_a_picture_that_says_what_it_shows(values: list[float]):
    drawn = ElementTree.fromstring(line(values, "Rows of <a>", "3 & more"))
    assert (drawn[0].tag, drawn[0].text, drawn[1].tag, drawn[1].text) == ("title", "Rows of <a>", "desc", "3 & more")
    assert drawn.attrib["role"] == "img"
    for number in " ".join(part.get("points", "") for part in drawn).replace(",", " ").split():
        assert 0 <= float(number) <= 240


@pytest.mark.parametrize("stacks", [[], [(0, 0)], [(1, 0), (0, 1)], [(5_000, 1)] * 100])
def test_columns_stay_inside_their_picture(stacks: list[tuple[int, int]]):
    drawn = ElementTree.fromstring(columns(stacks, ("good", "bad"), "Runs", "many"))
    boxes = [part.attrib for part in drawn if part.tag == "rect"]
    assert len(boxes) == sum(value > 0 for stack in stacks for value in stack)
    for box in boxes:
        assert float(box["y"]) >= 0
        assert float(box["y"]) + float(box["height"]) <= 121.5
        assert float(box["x"]) + float(box["width"]) <= 960


def test_bars_say_what_they_are_and_which_are_far_from_usual() -> None:
    drawn = bars([(10.0, "a: 10 s"), (None, "b: <unknown>"), (50.0, "c"), (0.0, "d")], "Took", "told", usual=10.0)
    root = ElementTree.fromstring(drawn)
    assert [rect.get("class") for rect in root.iter("rect")] == ["value", "none", "far", "far"]
    assert [title.text for title in root.iter("title")] == ["Took", "a: 10 s", "b: <unknown>", "c", "d"]
    assert len(list(root.iter("line"))) == 1
    assert "style" not in drawn
    assert "<rect" not in bars([], "Took", "nothing")
    assert ElementTree.fromstring(bars([(None, "x")], "Took", "nothing")).tag == "svg"
