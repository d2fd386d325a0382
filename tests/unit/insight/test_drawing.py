"""A graph as SVG."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from opendataflow.insight.drawing import Box, Drawing, cut, drawing

EVIL = '"><script>alert(1)</script>&'


def box(number: int, state: str = "READY", name: str = "") -> Box:
    name = name or f"node{number}"
    return Box(str(number), "dataset", state, "●", name, state, f"{name}: {state}")


def link(node: str) -> str:
    return f"/flow?node={node}"


def read(found: Drawing) -> ElementTree.Element:
    return ElementTree.fromstring(found.svg)


def of_class(root: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    return [part for part in root.iter() if name in part.get("class", "").split()]


def test_every_box_is_a_link_with_its_full_name_and_what_is_the_matter():
    found = drawing(
        [box(1), box(2, "FAILED", "a_name_that_is_much_too_long_for_its_box")], [("1", "2")], "The flow", link
    )
    links = of_class(read(found), "box")
    assert [link.get("href") for link in links] == ["/flow?node=1", "/flow?node=2"]
    assert [link[0].text for link in links] == ["node1: READY", "a_name_that_is_much_too_long_for_its_box: FAILED"]
    assert "is-FAILED" in links[1].get("class", "")
    assert links[1][2].text == cut("a_name_that_is_much_too_long_for_its_box")
    assert (found.shown, found.parts, found.is_map) == (("1", "2"), (), False)


def test_what_people_typed_is_only_text():
    root = read(drawing([box(1, name=EVIL)], [], EVIL, link))
    assert root.get("aria-label") == EVIL
    assert [part.tag for part in root.iter() if part.tag == "script"] == []
    assert of_class(root, "box")[0][0].text == f"{EVIL}: READY"


@pytest.mark.parametrize("n", [0, 1, 3])
def test_few_boxes_are_a_picture(n: int):
    assert len(of_class(read(drawing([box(number) for number in range(n)], [], "x", link)), "box")) == n


def test_very_many_boxes_are_a_map_that_is_cut_into_parts():
    boxes = [box(number, "FAILED" if number % 100 == 7 else "READY") for number in range(3000)]
    edges = [(str(number // 3), str(number)) for number in range(1, 3000)]
    bad = frozenset(each.id for each in boxes if each.state == "FAILED")
    found = drawing(boxes, edges, "The flow", link, link_of_part="/flow?part=", not_well=bad)
    root = read(found)
    assert found.is_map
    assert len(found.svg) < 250_000
    assert len(of_class(root, "named")) == 30
    assert [link.get("href") for link in of_class(root, "part")] == [
        f"/flow?part={part.number}" for part in found.parts
    ]
    assert sum(part.boxes for part in found.parts) == 3000
    assert sum(part.not_well for part in found.parts) == 30
    seen: set[str] = set()
    for part in found.parts:
        one = drawing(boxes, edges, "The flow", link, part=part.number, not_well=bad)
        assert one.part == part.number
        assert len(one.shown) == part.boxes <= 500
        assert len(of_class(read(one), "box")) == part.boxes
        assert len(one.svg) < 200_000
        seen |= {*one.shown}
    assert len(seen) == 3000
    assert drawing(boxes, edges, "The flow", link, part=99).is_map


def test_a_name_is_cut_in_the_middle():
    assert cut("short") == "short"
    assert cut("abcdefghijklmnopqrstuvwxyz", 10) == "abcdef…xyz"


def test_nothing_turns_the_writing_around():
    evil = Box("1", "dataset", "READY", "●", "a\u202eb\x1b", "a\u202eb", "a\u202eb\x00")
    assert not {"\u202e", "\x1b", "\x00"} & {*drawing([evil], [], "All", link).svg}
