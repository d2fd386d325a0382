"""Checks in words: what a declared check demands of every chunk, as a sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..model.definitions.checks import Check

_Params = Mapping[str, Any]


def check_words(check: Check) -> str:
    """What the check demands."""
    return _WORDS[check.kind](check.params)


def _rows(params: _Params) -> Iterator[str]:
    yield from _bounds(params)
    if "within_percent" in params:
        before = f"the last {params['trailing']:,} chunks" if "trailing" in params else "the chunks before"
        yield f"within {params['within_percent']} % of the median of {before}"


def _bounds(params: _Params) -> Iterator[str]:
    for name, words in (("min", "at least"), ("max", "at most")):
        if name in params:
            bound = params[name]
            yield f"{words} {bound if isinstance(bound, str) else format(bound, ',')}"


def _names(params: _Params) -> str:
    return ", ".join(params["columns"])


def _unique(params: _Params) -> str:
    together = " together" if len(params["columns"]) > 1 else ""
    return f"no {_names(params)}{together} occurs twice"


_WORDS: dict[str, Callable[[_Params], str]] = {
    "schema": lambda params: f"the columns are {params['schema']}",
    "rows": lambda params: f"the number of rows is {' and '.join(_rows(params))}",
    "not_null": lambda params: f"{_names(params)} {'is' if len(params['columns']) == 1 else 'are'} never null",
    "unique": _unique,
    "accepted": lambda params: f"{params['column']} is one of {', '.join(map(str, params['values']))}",
    "range": lambda params: f"{params['column']} is {' and '.join(_bounds(params))}",
    "regex": lambda params: f"the whole {params['column']} matches {params['pattern']}",
    "span": lambda params: "the partition column lies within the dataid",
    "fresh": lambda params: f"the newest {params['column']} is at most {params['max_age']} old",
    "references": lambda params: f"every {params['column']} exists in {params['its_column']} of {params['dataset']}",
    "conserves": lambda params: f"no row of {params['dataset']} is lost: it is published or in quarantine",
    "sql": lambda params: f"{params['expression']} is true",
}
