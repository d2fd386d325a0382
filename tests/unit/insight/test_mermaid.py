"""Flowcharts for Mermaid: every line is one that its grammar knows, whatever things are called."""

from __future__ import annotations

import re

import pytest

from opendataflow.insight.mermaid import STYLES, Join, MermaidBox, flowchart

LABEL = r"(?:[\w .,:=/…-]|#\d+;|<br/>)*"
NODE = re.compile(rf'    (n\d+)(?:\["({LABEL})"\]|\(\["({LABEL})"\]\))')
JOIN = re.compile(rf'    (n\d+) -->(?:\|"({LABEL})"\|)? (n\d+)')
STYLE = re.compile(r"    classDef ([a-z]+) ([a-z-]+:[^,;]+(?:,[a-z-]+:[^,;]+)*)")
STYLED = re.compile(r"    class (n\d+(?:,n\d+)*) ([a-z]+)")


def parsed(lines: list[str]) -> tuple[dict[str, str], list[tuple[str, str, str]], dict[str, str]]:
    """Nodes with their labels, joins, and the styles of nodes; anything that is no Mermaid fails."""
    nodes: dict[str, str] = {}
    joins: list[tuple[str, str, str]] = []
    styles: dict[str, str] = {}
    known: set[str] = set()
    assert lines[0] == "flowchart LR"
    for line in lines[1:]:
        if node := NODE.fullmatch(line):
            assert node[1] not in nodes
            nodes[node[1]] = node[2] or node[3] or ""
        elif join := JOIN.fullmatch(line):
            joins.append((join[1], join[2] or "", join[3]))
        elif style := STYLE.fullmatch(line):
            known.add(style[1])
        elif styled := STYLED.fullmatch(line):
            assert styled[2] in known
            styles |= dict.fromkeys(styled[1].split(","), styled[2])
        else:
            pytest.fail(f"this is no Mermaid: {line}")
    ends = {end for source, _, target in joins for end in (source, target)}
    assert ends | styles.keys() <= nodes.keys()
    return nodes, joins, styles


def test_nodes_joins_and_styles() -> None:
    boxes = [
        MermaidBox("a 1", ("a 1", "version 2"), style="asked"),
        MermaidBox("job b", ("b",), "round"),
        MermaidBox("c", ("c",), style="old"),
    ]
    lines = list(flowchart(boxes, [Join("a 1", "job b", "window 3"), Join("job b", "c")]))
    assert parsed(lines) == (
        {"n0": "a 1<br/>version 2", "n1": "b", "n2": "c"},
        [("n0", "window 3", "n1"), ("n1", "", "n2")],
        {"n0": "asked", "n2": "old"},
    )


def test_what_means_something_to_mermaid_is_escaped() -> None:
    hard = 'end"];x-->y|{subgraph} %% #35; <b>`a`\\'
    nodes, joins, _ = parsed(
        list(flowchart([MermaidBox("a", (hard,)), MermaidBox("b", ("end",))], [Join("a", "b", hard)]))
    )
    told = re.sub(r"#(\d+);", lambda found: chr(int(found[1])), nodes["n0"])
    assert told == hard
    assert re.sub(r"#(\d+);", lambda found: chr(int(found[1])), joins[0][1]) == hard


def test_an_arrow_to_what_is_not_drawn_is_left_out() -> None:
    assert parsed(list(flowchart([MermaidBox("a", ("a",))], [Join("a", "b")])))[1] == []


@pytest.mark.parametrize("style", STYLES)
def test_every_style_is_one_that_mermaid_knows(style: str) -> None:
    assert parsed(list(flowchart([MermaidBox("a", ("a",), style=style)], [])))[2] == {"n0": style}
