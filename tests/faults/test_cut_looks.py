"""Rows 2 and 27: a look whose connection is cut at its end begins anew, and answers what it would have answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import psycopg
import pytest

from opendataflow import Manifest, Store, faults
from opendataflow.store import Claim
from tests.support.flows import chain, claim_one

pytestmark = [pytest.mark.fault(2, 27), pytest.mark.postgres]

LOOKS: Mapping[str, Callable[[Store, Claim], Any]] = {
    "input_chunks": lambda store, claim: store.input_chunks([claim]),
    "catalogue": lambda store, claim: store.catalogue().jobs,
    "status_counts": lambda store, claim: store.views.status_counts(),
    "candidate_counts": lambda store, claim: store.views.candidate_counts(),
    "claimable": lambda store, claim: store.views.claimable("make", 10),
    "next_dataids": lambda store, claim: store.views.next_dataids("make", 10),
    "running": lambda store, claim: [run.runid for run in store.views.running()],
    "runs": lambda store, claim: [run.runid for run in store.views.runs()],
    "chunks": lambda store, claim: list(store.views.all_chunks("raw")),
    "events": lambda store, claim: store.views.events("raw", "1"),
    "manifests": lambda store, claim: store.views.manifests("raw", "1"),
}


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("store_url", ["postgres"], indirect=True)
def test_a_look_that_is_cut_off_says_nothing_twice(
    store: Store, store_url: str, look: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain(store)
    store.announce("raw", ["1", "2"], manifests={each: Manifest(fingerprint=each) for each in ("1", "2")})
    claim = claim_one(store, "make")
    expected = LOOKS[look](store, claim)
    cut: list[str] = []

    def point(moment: str, step: str = "", /) -> None:
        if moment == "in" and not cut:
            cut.append(step)
            with psycopg.connect(store_url, autocommit=True) as other:
                other.execute(
                    "select pg_terminate_backend(pid, 10000) from pg_stat_activity"
                    " where pid <> pg_backend_pid() and datname = current_database()"
                )

    monkeypatch.setattr(faults, "point", point)
    assert LOOKS[look](store, claim) == expected
    assert cut, "it was really cut off"
    assert store.breaches() == []
