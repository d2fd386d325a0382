"""Definitions that are changed by SQL beside claims: every claim ends, with a chunk, a named no or a named error."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from opendataflow import Store
from opendataflow.errors import (
    BadDataid,
    BadDefinition,
    DataNotReady,
    LeaseLost,
    OdfError,
    StoreUnreachable,
    UnknownJob,
)
from opendataflow.store import Claim
from opendataflow.store.drivers.base import Retry
from opendataflow.store.engine import claims
from tests.support.flows import claim_one, drain, job, status
from tests.support.flows import dataset as tracked

pytestmark = pytest.mark.fault(42)


def test_an_output_that_is_added_to_a_job_with_a_marker_is_claimed(store: Store) -> None:
    store.register([tracked("raw"), tracked("product")], [job("make", "raw")])
    store.announce("raw", ["1", "2"])
    assert drain(store, "make", n=1)[0] == ("make", "1")
    store.announce("raw", ["3"])
    store.dml("insert into job (jobid, itemtype, datasetid) values ('make', 'OUT', 'product')")
    claim = claim_one(store, "make")
    assert claim.outputs == ("product",)
    store.commit(claim)
    assert status(store, "product", claim.dataid) == "READY"
    assert store.breaches() == []


@pytest.mark.parametrize("n", [1, 5])
def test_several_claims_take_such_a_job_together(store: Store, n: int) -> None:
    store.register([tracked("raw"), tracked("product")], [job("make", "raw")])
    store.announce("raw", ["1"])
    drain(store, "make")
    store.dml("insert into job (jobid, itemtype, datasetid) values ('make', 'OUT', 'product')")
    store.announce("raw", ["2", "3"])
    assert drain(store, "make", n=n) == [("make", "2"), ("make", "3")]


def test_candidates_that_never_fit_end_the_claim_with_a_name(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.register([tracked("raw"), tracked("product")], [job("make", "raw", writes="product")])
    store.announce("raw", ["1"])

    def never(*_: object) -> None:
        raise claims.CandidateOutdated

    monkeypatch.setattr(claims, "take", never)
    with pytest.raises(BadDefinition, match="candidates of make"):
        store.claim("make")


def test_a_transaction_that_always_loses_ends_with_a_name(store: Store) -> None:
    store.patience = 0.0

    def loses(_: object) -> None:
        raise Retry

    with pytest.raises(StoreUnreachable, match="lost a race"):
        store._do(loses)


CHANGES = (
    "insert into job (jobid, itemtype, datasetid) values ('make', 'OUT', 'product')",
    "insert into job (jobid, itemtype, datasetid) values ('make', 'OUT', 'more')",
    "delete from job where jobid = 'make' and itemtype = 'OUT' and datasetid = 'product'",
    "delete from job where jobid = 'make' and itemtype = 'OUT' and datasetid = 'make'",
    "delete from job where jobid = 'make' and itemtype = 'OUT'",
    "update job set datasetid = 'more' where jobid = 'make' and itemtype = 'OUT' and datasetid = 'product'",
    "update job set datasetid = 'product' where jobid = 'make' and itemtype = 'OUT' and datasetid = 'make'",
    "update job set jobid = 'other' where jobid = 'make' and datasetid = 'more'",
    "insert into job (jobid, itemtype, datasetid) values ('make', 'IN', 'raw')",
    "insert into job (jobid, itemtype, datasetid, itemvalue) values ('make', 'IN', 'more', 'window 2')",
    "delete from job where jobid = 'make' and itemtype = 'IN'",
    "delete from job where jobid = 'make'",
    "update job set itemvalue = 'nonsense' where jobid = 'make' and itemtype = 'IN'",
    "update job set itemvalue = null where jobid = 'make' and itemtype = 'IN'",
    "update dataset set partition = 'day' where datasetid = 'product'",
    "update dataset set partition = 'number' where datasetid = 'product'",
    "delete from datastatus where datasetid = 'product'",
    "update datastatus set status = 'RESUBMIT' where datasetid = 'make' and locktype = 'OUT'",
    "update datastatus set status = 'RESUBMIT' where datasetid = 'product' and locktype = 'OUT'",
)


@pytest.mark.parametrize("seed", range(6))
def test_whatever_is_changed_in_which_order_every_claim_ends(
    store: Store, open_again: Callable[..., Store], seed: int
) -> None:
    rng = random.Random(seed)
    store.register([tracked("raw"), tracked("product"), tracked("more")], [job("make", "raw")])
    other, person = open_again(patience=20.0), open_again()
    running: list[tuple[Store, Claim]] = []
    for step in range(25):
        store.announce("raw", [str(step)])
        with suppress(OdfError):  # what a constraint refuses changes nothing
            person.dml(rng.choice(CHANGES))
        worker = rng.choice((store, other))
        how: dict[str, Any] = {"dataid": str(step), "force": True} if rng.random() < 0.2 else {"n": rng.choice((1, 3))}
        with suppress(BadDefinition, UnknownJob, BadDataid, DataNotReady):
            running += [(worker, claim) for claim in worker.claim("make", **how)]
        while running and rng.random() < 0.6:
            holder, claim = running.pop(rng.randrange(len(running)))
            end = rng.choice(
                (holder.commit, holder.fail, lambda held: other.give_back(held, None, "not begun", wait=0))
            )
            try:
                end(claim)
            except LeaseLost:
                continue
    store.rescue()
    assert store.breaches() == []
