"""Trees in the terminal: every node once, wide levels cut, any depth."""

from __future__ import annotations

from opendataflow.cli.tree import Branch, branches


def drawn(root: str, children: dict[str, list[str]], most: int = 20) -> list[str]:
    return [
        branch.lead + (branch.id or f"… {branch.left_out}") + " again" * branch.is_repeated
        for branch in branches(root, children, most)
    ]


def test_a_node_without_children_has_no_tree() -> None:
    assert drawn("a", {}) == []


def test_children_hang_on_their_parents_in_order() -> None:
    assert drawn("a", {"a": ["b", "c"], "b": ["d"], "c": ["e"]}) == ["├─ b", "│  └─ d", "└─ c", "   └─ e"]


def test_a_node_that_returns_is_referred_to() -> None:
    shared = {"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": ["e"]}
    assert drawn("a", shared) == ["├─ b", "│  └─ d", "│     └─ e", "└─ c", "   └─ d again"]


def test_a_leaf_that_returns_has_nothing_to_refer_to() -> None:
    assert drawn("a", {"a": ["b", "c"], "b": ["d"], "c": ["d"]})[-1] == "   └─ d"


def test_a_circle_ends() -> None:
    assert drawn("a", {"a": ["b"], "b": ["a"]}) == ["└─ b", "   └─ a again"]


def test_a_wide_level_is_cut() -> None:
    wide = {"a": [str(n) for n in range(5)]}
    assert drawn("a", wide, 3) == ["├─ 0", "├─ 1", "├─ 2", "└─ … 2"]
    assert drawn("a", wide, 5)[-1] == "└─ 4"


def test_a_chain_as_long_as_history_is_no_recursion() -> None:
    chain = {str(n): [str(n + 1)] for n in range(5000)}
    assert sum(1 for _ in branches("0", chain)) == 5000
    assert next(branches("0", chain)) == Branch("└─ ", "1")
