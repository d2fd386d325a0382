"""Rows 4 and 8: 16 processes at once on one store: each chunk exactly once, and nobody hears of the others."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from opendataflow import Store
from tests.support.flows import chain
from tests.support.workers import Workers

PROCESSES = 16
LONGEST = 3600.0


def stampede(store: Store, url: str, chunks: int, at_a_time: int) -> float:
    """All of them claim and publish until nothing is left; a worker that hears of any error fails the test. Returns the seconds."""
    chain(store, lease=300.0)  # longer than a busy machine takes: only a mistake takes a chunk away
    expected = [str(n) for n in range(chunks)]
    store.announce("raw", expected)
    workers = Workers(url, *[("drain", "make", str(at_a_time))] * PROCESSES)
    began = time.monotonic()
    answers = workers.go(LONGEST)
    seconds = time.monotonic() - began
    published = [dataid for answer in answers for dataid, _ in answer]
    assert sorted(published, key=int) == expected
    assert {epoch for answer in answers for _, epoch in answer} == {1}
    assert store.views.status_counts()["product"] == {"READY": chunks}
    assert [chunk.dataid for chunk in store.views.chunks("product", n=3)] == ["0", "1", "2"]
    assert store.claim("make") == []
    assert store.views.candidate_counts() == {"use": {"CLAIMABLE": chunks}}
    assert store.sql("select count(*) from run where status = 'READY'")[1][0][0] == chunks
    assert store.damage() == []
    assert store.views.running() == []
    assert store.breaches() == []
    return seconds


@pytest.mark.slow
@pytest.mark.timeout(LONGEST)
@pytest.mark.fault(4)
@pytest.mark.parametrize("at_a_time", [10, 1])
def test_16_processes_race_and_every_chunk_is_published_once(
    store: Store, store_url: str, at_a_time: int, soak: bool, record_property: Callable[[str, object], None]
) -> None:
    seconds = stampede(store, store_url, 10_000 if soak else 50 * at_a_time + 250, at_a_time)
    record_property(f"{store_url.partition(':')[0]}_{at_a_time}_at_a_time_seconds", round(seconds))


@pytest.mark.slow
@pytest.mark.timeout(LONGEST)
@pytest.mark.fault(8)
@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_nobody_hears_that_the_file_is_locked(store: Store, store_url: str, soak: bool) -> None:
    """A thousand claims of each process, one by one, each with a commit of its own."""
    stampede(store, store_url, PROCESSES * (1_000 if soak else 30), 1)
