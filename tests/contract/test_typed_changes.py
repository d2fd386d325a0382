"""What a person changes by SQL, as the original's users do: it means what it says, and the history tells it as it was."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

import opendataflow
from opendataflow import Store
from opendataflow.errors import LeaseLost
from opendataflow.insight.chunk_sheet import chunk_sheet
from opendataflow.insight.explain import explain
from opendataflow.insight.why import why
from opendataflow.model import RetryRule
from opendataflow.project import Environment, Project
from opendataflow.store.drivers.base import Transaction
from opendataflow.store.engine import transition
from tests.support.flows import (
    chain,
    change,
    claim_one,
    dataset,
    fold_in,
    following,
    in_status,
    job,
    kinds,
    produce,
    status,
)
from tests.support.stores import type_sql

LONG_AGO = "2020-02-29 12:00:00"


@pytest.fixture(autouse=True)
def _audited(store: Store) -> Iterator[None]:
    """Whatever was typed, every promise holds in the end."""
    yield
    assert store.breaches() == []


def modified(store: Store, datasetid: str, dataid: str, locktype: str = "OUT") -> str:
    """The time in a row, as text without its zone."""
    statement = f"select modified from datastatus where datasetid = '{datasetid}' and dataid = '{dataid}'"
    ((value,),) = store.sql(f"{statement} and locktype = '{locktype}'")[1]
    return str(value)[:19]


# Releasing and restarting ----------------------------------------------------------------------------------------------


@pytest.mark.fault(43)
def test_a_chunk_whose_out_row_is_deleted_is_made_again(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2"])
    produce(store, "make", "1")
    produce(store, "make", "2")
    store.dml("delete from datastatus where jobid = 'make' and dataid = '1' and locktype = 'OUT'")
    assert following(store, "make") == ["1"]
    assert in_status(store, "raw", "2", "make") == "DONE", "the others stay as they are"
    assert produce(store, "make", "1").epoch == 2, "an epoch only grows"


@pytest.mark.fault(43)
@pytest.mark.parametrize("first", ["", "update datastatus set status = 'FAILED' where datasetid = 'product'"])
def test_so_is_one_that_failed_or_was_changed_first(store: Store, first: str) -> None:
    chain(store)
    store.announce("raw", ["1"])
    store.fail(claim_one(store, "make"))
    if first:
        store.dml(first)
    store.dml("delete from datastatus where datasetid = 'product'")
    assert produce(store, "make", "1").epoch == 2


@pytest.mark.fault(43)
def test_a_run_of_which_one_output_is_deleted_makes_all_of_them_again(store: Store) -> None:
    store.register([dataset(name) for name in ("raw", "a", "b")], [job("split", "raw", writes=("a", "b"))])
    store.announce("raw", ["1"])
    produce(store, "split", "1")
    store.dml("delete from datastatus where datasetid = 'a'")
    assert following(store, "split") == ["1"]
    assert status(store, "b", "1") == "RESUBMIT"
    produce(store, "split", "1")


@pytest.mark.fault(43)
def test_an_in_row_that_says_error_holds_nothing_back(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    claim_one(store, "make")
    store.dml("delete from datastatus where datasetid = 'product'")
    store.dml(
        "insert into datastatus (datasetid, jobid, dataid, locktype, status) values ('raw', 'other', '1', 'IN', 'ERROR')"
    )
    store.dml("update datastatus set status = 'ERROR' where datasetid = 'raw' and locktype = 'IN'")
    assert following(store, "make") == ["1"]


@pytest.mark.parametrize("word", ["RESUBMIT", "rerun"])
def test_a_chunk_is_restarted_by_its_job_and_dataid(store: Store, word: str) -> None:
    chain(store)
    store.announce("raw", ["1"])
    produce(store, "make", "1")
    assert store.dml(f"update datastatus set status = '{word}' where jobid = 'make' and dataid = '1'") == 2
    assert (status(store, "product", "1"), in_status(store, "raw", "1", "make")) == ("RESUBMIT", "FAILED")
    assert claim_one(store, "make").was_resubmit
    assert in_status(store, "raw", "1", "make") == "RUNNING"


def test_so_is_one_that_is_running(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    first = claim_one(store, "make")
    store.dml("update datastatus set status = 'RESUBMIT' where jobid = 'make' and dataid = '1'")
    second = claim_one(store, "make")
    assert second.epoch == 2
    with pytest.raises(LeaseLost):
        store.commit(first)
    store.commit(second)


# The history -----------------------------------------------------------------------------------------------------------


@pytest.mark.fault(43)
def test_a_run_that_was_lost_by_a_typed_change_has_an_event_of_its_end(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2"])
    claim_one(store, "make")
    claim_one(store, "make")
    change(store, "product", "1", "FAILED")
    store.dml("delete from datastatus where datasetid = 'product' and dataid = '2'")
    fold_in(store)
    for dataid, runid in (("1", 1), ("2", 2)):
        assert kinds(store, "product", dataid) == ["claimed", "sql", "lost"]
        assert store.views.events("product", dataid)[-1].runid == runid
        assert store.views.run(runid).status == "LOST"
        assert store.views.events("product", dataid)[-1].who == store.views.events("product", dataid)[-2].who


@pytest.mark.fault(43)
def test_the_event_of_a_typed_change_has_the_time_of_the_change(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    before = datetime.now(UTC) - timedelta(seconds=2)
    change(store, "raw", "1", "HOLD")
    typed = datetime.now(UTC)
    time.sleep(1.2)
    fold_in(store)
    event = store.views.events("raw", "1")[-1]
    assert event.kind == "sql"
    assert event.at is not None
    assert before < event.at < typed + timedelta(seconds=0.6)


@pytest.mark.fault(43)
def test_why_tells_of_a_lost_lease_and_when_its_chunk_is_taken_up(store: Store) -> None:
    chain(store, retry=RetryRule(1, backoff=600.0))
    store.announce("raw", ["1"])
    claim_one(store, "make", lease=0.001)
    time.sleep(0.01)
    store.rescue()
    _, reason = why(store, "make", "1").reasons
    assert reason.name == "LOCKED"
    assert reason.text.startswith("run 1 lost its lease; make 1 is taken up at 2")


@pytest.mark.fault(43)
def test_a_run_that_loses_its_outputs_in_two_ways_at_once_has_one_end_for_each(store: Store) -> None:
    store.register([dataset(name) for name in ("raw", "good", "bad")], [job("split", "raw", writes=("good", "bad"))])
    store.announce("raw", ["1"])
    claim_one(store, "split")
    store.dml("delete from datastatus where datasetid = 'bad'")
    store.dml("update datastatus set status = 'HOLD' where datasetid = 'good'")
    fold_in(store)
    assert [kinds(store, name, "1").count("lost") for name in ("good", "bad")] == [1, 1]


@pytest.mark.fault(43)
def test_what_a_person_set_ready_is_made_by_no_run(store: Store, tmp_path: Path) -> None:
    chain(store)
    store.announce("raw", ["1", "2"])
    claim_one(store, "make")
    store.fail(claim_one(store, "make"))
    store.dml("update job_status set status = 'READY' where datasetid = 'product'")
    fold_in(store)
    project = Project(tmp_path, None, "shop", (tmp_path,), Environment(), ("prod",), tmp_path)
    assert [chunk.runid for chunk in store.views.all_chunks("product")] == [None, None]
    for dataid in ("1", "2"):
        assert explain(store.views, "product", dataid).made_from == ()
        assert chunk_sheet(store, project, "product", dataid).made_from == ()
    made = produce(store, "use", "1")
    store.dml("update job_status set status = 'RESUBMIT' where datasetid = 'report'")
    store.dml("update job_status set status = 'READY' where datasetid = 'report'")
    fold_in(store)
    assert [chunk.runid for chunk in store.views.all_chunks("report")] == [made.runid], (
        "its version is the one that the run published"
    )


@pytest.mark.fault(43)
@pytest.mark.parametrize("change", ["datasetid = 'other'", "dataid = '9'"])
def test_a_run_whose_row_is_renamed_has_one_end_for_each_chunk_that_it_claimed(store: Store, change: str) -> None:
    store.register([dataset(name) for name in ("raw", "out", "other")], [job("make", "raw", writes="out")])
    store.announce("raw", ["1"])
    claim_one(store, "make")
    store.dml(f"update datastatus set {change} where datasetid = 'out'")
    fold_in(store)
    ends = [(event.datasetid, event.dataid) for event in store.views.events() if event.kind == "lost"]
    assert (ends, store.views.run(1).status) == ([("out", "1")], "LOST")


@pytest.mark.fault(43)
def test_an_output_whose_row_is_deleted_while_its_run_is_ended_has_its_end_too(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On PostgreSQL another connection can delete a row after the fold took its notes."""
    if store.url.startswith("sqlite"):
        pytest.skip("a fold has the whole file for itself")
    store.register([dataset(name) for name in ("raw", "good", "bad")], [job("split", "raw", writes=("good", "bad"))])
    store.announce("raw", ["1"])
    claim_one(store, "split")

    lose = transition.lose

    def late(tx: Transaction, runid: int, *arguments: Any, **named: Any) -> None:
        with opendataflow.open(store.url) as other:
            other.dml("delete from datastatus where datasetid = 'bad' and dataid = '1'")
        lose(tx, runid, *arguments, **named)

    store.dml("update datastatus set status = 'HOLD' where datasetid = 'good'")
    monkeypatch.setattr(transition, "lose", late)
    fold_in(store)
    monkeypatch.undo()
    assert [kinds(store, name, "1").count("lost") for name in ("good", "bad")] == [1, 1]


@pytest.mark.fault(43)
def test_what_is_resubmitted_under_another_name_than_all_is_a_candidate_whoever_looks(store: Store) -> None:
    store.register([dataset("raw"), dataset("total", "text")], [job("add", "raw all", writes="total")])
    store.announce("raw", ["1"])
    store.dml(
        "insert into datastatus (datasetid, jobid, dataid, locktype, status) values ('total', 'me', 'x1', 'OUT', 'RESUBMIT')"
    )
    assert sorted(following(store, "add")) == ["all", "x1"]
    store.announce("raw", ["2"])
    store.dml("update job set modified = modified")
    assert sorted(following(store, "add")) == ["all", "x1"]


@pytest.mark.fault(43)
@pytest.mark.parametrize(
    "statement",
    [
        "insert or replace into datastatus (datasetid, jobid, dataid, locktype, status)"
        " values ('product', 'make', '1', 'OUT', 'FAILED')",
        "insert or replace into datastatus (datasetid, jobid, dataid, locktype, status)"
        " values ('product', 'me', '1', 'OUT', 'READY')",
        "update or replace datastatus set dataid = '1' where datasetid = 'product' and dataid = '2'",
    ],
)
def test_a_row_that_replaces_another_one_continues_its_history_and_ends_its_run(store: Store, statement: str) -> None:
    if not store.url.startswith("sqlite"):
        pytest.skip("OR REPLACE is of SQLite alone")
    chain(store)
    store.announce("raw", ["1", "2"])
    first = claim_one(store, "make", dataid="1")
    store.fail(claim_one(store, "make", dataid="2"))
    type_sql(store.url, statement)
    fold_in(store)
    assert store.breaches() == []
    assert [event.before for event in store.views.events("product", "1") if event.kind == "sql"] == ["RUNNING"]
    assert store.views.run(first.runid).status == "LOST"
    with pytest.raises(LeaseLost):
        store.commit(first)


@pytest.mark.fault(43)
@pytest.mark.parametrize("statement", ["truncate datastatus", "truncate dataset cascade"])
def test_a_status_is_not_truncated(store: Store, statement: str) -> None:
    if store.url.startswith("sqlite"):
        pytest.skip("TRUNCATE is of PostgreSQL alone")
    chain(store)
    store.announce("raw", ["1"])
    with pytest.raises(psycopg.errors.RaiseException, match="use DELETE"):
        type_sql(store.url, statement)
    assert status(store, "raw", "1") == "READY"


# Times -----------------------------------------------------------------------------------------------------------------


@pytest.mark.fault(43)
def test_a_time_that_somebody_wrote_stays(store: Store) -> None:
    chain(store)
    store.announce("raw", ["2"])
    store.dml(
        "insert into datastatus (datasetid, jobid, dataid, locktype, status, modified) "
        f"values ('raw', 'me', '1', 'OUT', 'READY', '{LONG_AGO}')"
    )
    store.dml(f"update datastatus set status = 'HOLD', modified = '{LONG_AGO}' where dataid = '2'")
    produce(store, "make", "1")
    store.dml(f"update job_status set status = 'FAILED', modified = '{LONG_AGO}' where dataid = '1'")
    fold_in(store)
    assert [modified(store, *chunk) for chunk in (("raw", "1"), ("raw", "2"), ("product", "1"))] == [LONG_AGO] * 3


def test_a_status_that_is_changed_without_a_time_gets_the_time_of_the_change(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    store.dml(f"update datastatus set modified = '{LONG_AGO}'")
    store.dml("update datastatus set status = 'HOLD'")
    assert modified(store, "raw", "1") > LONG_AGO


def test_a_row_that_is_inserted_for_a_new_output_ends_no_run(store: Store) -> None:
    names = ("raw", "a", "b", "c")
    store.register([dataset(name) for name in names], [job("split", "raw", writes=("a", "b"))])
    store.announce("raw", ["1"])
    claim = claim_one(store, "split")
    store.register([dataset(name) for name in names], [job("split", "raw", writes=("a", "b", "c"))])
    store.dml(
        "insert into datastatus (datasetid, jobid, dataid, locktype, status) values ('c', 'me', '1', 'OUT', 'READY')"
    )
    fold_in(store)
    assert store.views.run(claim.runid).status == "RUNNING"
