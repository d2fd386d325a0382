"""Chunks, page by page, on every store."""

from __future__ import annotations

from itertools import chain as joined
from typing import Any

import pytest

from opendataflow import Store
from opendataflow.errors import UnknownDataset, UsageError
from opendataflow.insight.chunk_page import chunk_page
from opendataflow.insight.matrix import chunk_list
from tests.support.flows import chain, claim_one, put


@pytest.fixture
def flow(store: Store) -> Store:
    """raw 1–12 → make → product: 5 made, the first one failed; and two dataids that somebody typed."""
    chain(store)
    store.announce("raw", [str(n) for n in range(1, 13)])
    store.fail(claim_one(store, "make"))
    for claim in store.claim("make", 5):
        store.commit(claim)
    put(store, "raw", "x", "READY")
    put(store, "raw", "y", "READY")
    return store


def pages(store: Store, *named: str, n: int, **how: Any) -> list[list[tuple[str, str]]]:
    found, after = [], None
    while True:
        page = chunk_page(store.views, named, n=n, after=after, **how)
        found.append([(chunk.datasetid, chunk.dataid) for chunk in page.chunks])
        after = page.next
        if after is None:
            return found


@pytest.mark.parametrize("n", [1, 2, 5, 7, 18, 19, 100])
def test_all_pages_together_are_all_chunks_each_once(flow: Store, n: int) -> None:
    found = pages(flow, n=n)
    assert all(len(page) == n for page in found[:-1])
    assert 0 < len(found[-1]) <= n
    assert list(joined.from_iterable(found)) == [(chunk.datasetid, chunk.dataid) for chunk in chunk_list(flow.views)]


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({"status": "FAILED"}, [("product", "1")]),
        ({"since": "3", "until": "4"}, [("raw", "3"), ("raw", "4"), ("product", "3"), ("product", "4")]),
    ],
)
def test_a_page_keeps_to_what_is_asked_for(flow: Store, how: dict[str, str], expected: list[tuple[str, str]]) -> None:
    for n in (1, 3):
        assert list(joined.from_iterable(pages(flow, n=n, **how))) == expected


def test_the_next_page_begins_where_a_chunk_was_that_is_forgotten(flow: Store) -> None:
    page = chunk_page(flow.views, ["product"], n=2)
    assert page.next == "product:2"
    flow.forget("product", ["2"])
    assert [chunk.dataid for chunk in chunk_page(flow.views, ["product"], n=2, after=page.next).chunks] == ["3", "4"]


def test_what_is_no_place_to_go_on_from_is_refused(flow: Store) -> None:
    for after in ("raw", "product:1"):
        with pytest.raises(UsageError):
            chunk_page(flow.views, ["raw"], after=after)
    with pytest.raises(UnknownDataset):
        chunk_page(flow.views, after="none:1")
