"""History cannot be rewritten, notes tell who was connected, and a password in plain text is refused; by plain SQL, on both stores."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import partial

import psycopg
import pytest

import opendataflow
from opendataflow import Dataset, Store
from opendataflow.errors import BadDefinition, UsageError
from opendataflow.store import open_store
from tests.support.flows import chain, claim_one, dump, fold_in, kinds, produce, status
from tests.support.stores import type_sql

pytestmark = pytest.mark.fault(33)

OURS = "odf1:" + "A" * 80
JAVA = "A" * 38 + "=="


@pytest.fixture
def flow(store: Store) -> Store:
    """raw 1 → make → product 1, READY."""
    chain(store)
    store.announce("raw", ["1"])
    produce(store, "make", "1")
    return store


@pytest.fixture
def plain(flow: Store, store_url: str) -> Callable[[str], None]:
    """Runs SQL as a client that is not ours, with none of our settings; refused statements raise."""
    return partial(type_sql, store_url)


# History -------------------------------------------------------------------------------------------------------------

REWRITES = [
    "update event set who = 'nobody'",
    "delete from event",
    "delete from event where eventid = (select max(eventid) from event)",
    "insert into event (eventid, kind) overriding system value values (1, 'forged') on conflict (eventid) do update set kind = 'forged'",
]
ONLY_SQLITE = [
    "insert or replace into event (eventid, kind) values (1, 'forged')",
    "replace into event (eventid, kind) select max(eventid), 'forged' from event",
    "insert or replace into event select eventid, at, 'forged', datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt, session from event",
    "pragma recursive_triggers = off; insert or replace into event (eventid, kind) values (1, 'forged')",
    "update or replace event set eventid = 1 where eventid = 2",
    "insert into event (rowid, kind) values (1, 'forged') on conflict do update set kind = 'forged'",
    "insert into event (eventid, kind) values (-1, 'forged')",
    "insert or ignore into event (eventid, kind) values (0, 'forged')",
]
ONLY_POSTGRES = [
    "truncate event",
    "truncate event restart identity cascade",
    "insert into event (eventid, kind) overriding system value values (1, 'forged')",
    "merge into event e using (select 1) x on e.eventid = 1 when matched then update set kind = 'forged'",
]


@pytest.mark.parametrize("statement", [*REWRITES, *ONLY_SQLITE, *ONLY_POSTGRES])
def test_history_is_never_rewritten(flow: Store, store_url: str, plain: Callable[[str], None], statement: str) -> None:
    is_sqlite = store_url.startswith("sqlite")
    if statement in (ONLY_POSTGRES if is_sqlite else ONLY_SQLITE):
        pytest.skip("the other database's own words")
    before = dump(flow)["event"]
    if is_sqlite:
        statement = statement.replace("overriding system value ", "")
    with pytest.raises((sqlite3.Error, psycopg.Error), match=r"append-only|duplicate key"):
        plain(statement)
    assert dump(flow)["event"] == before
    flow.announce("raw", ["2"])
    assert len(dump(flow)["event"]) > len(before), "and it goes on"


def test_an_event_names_the_session_that_wrote_it(flow: Store, store_url: str, plain: Callable[[str], None]) -> None:
    plain("insert into event (kind, session) values ('forged', 'somebody')")
    if store_url.startswith("sqlite"):
        return  # whoever may write the file is the one writer
    _, sessions = flow.sql("select distinct session from event")
    assert [session for (session,) in sessions] == ["postgres"]


# Notes ---------------------------------------------------------------------------------------------------------------


def test_a_change_is_told_under_the_name_of_the_session(
    flow: Store, store_url: str, plain: Callable[[str], None]
) -> None:
    plain("update datastatus set status = 'FAILED' where datasetid = 'product' and dataid = '1'")
    plain("update note set who = 'somebody else'" if store_url.startswith("postgres") else "select 1")
    fold_in(flow)
    told = [event for event in flow.views.events("product", "1") if event.kind == "sql"]
    assert [(event.before, event.after, event.who) for event in told] == [("READY", "FAILED", session(store_url))]


def session(store_url: str) -> str:
    return "sql" if store_url.startswith("sqlite") else "postgres"


@pytest.mark.parametrize(("before", "after"), [("READY", "FAILED"), ("HOLD", "RUNNING"), ("READY", None)])
def test_a_note_of_a_change_that_never_was_is_ignored_and_reported(
    flow: Store, store_url: str, plain: Callable[[str], None], before: str, after: str | None
) -> None:
    said = f"'{after}'" if after else "null"
    plain(
        "insert into note (datasetid, dataid, jobid, locktype, before, after, who)"
        f" values ('product', '1', 'make', 'OUT', '{before}', {said}, 'the boss')"
    )
    fold_in(flow)
    assert status(flow, "product", "1") == "READY"
    assert "sql" not in kinds(flow, "product", "1")
    (unfit,) = flow.views.unfit_notes(10)
    assert (unfit.datasetid, unfit.dataid, unfit.who) == ("product", "1", session(store_url))
    assert unfit.why == f"the note says {before} → {after}"


def test_a_forged_note_takes_no_run_away(flow: Store, plain: Callable[[str], None]) -> None:
    flow.announce("raw", ["2"])
    claim = claim_one(flow, "make")
    plain(
        "insert into note (datasetid, dataid, jobid, locktype, before, after, who)"
        " values ('product', '2', 'make', 'OUT', 'RUNNING', null, 'x'), ('raw', '2', 'make', 'IN', 'RUNNING', 'DONE', 'x')"
    )
    fold_in(flow)
    assert len(flow.views.unfit_notes(10)) == 2
    flow.commit(claim)
    assert status(flow, "product", "2") == "READY"


def test_several_changes_in_a_row_are_all_told(flow: Store, plain: Callable[[str], None]) -> None:
    where = "where datasetid = 'product' and dataid = '1'"
    for word in ("HOLD", "FAILED", "RESUBMIT"):
        plain(f"update datastatus set status = '{word}' {where}")
    plain(f"delete from datastatus {where}")
    plain(
        "insert into datastatus (datasetid, dataid, jobid, locktype, status) values ('product', '1', 'x', 'OUT', 'READY')"
    )
    plain("update datastatus set status = 'FAILED' where datasetid = 'raw' and dataid = '1' and locktype = 'IN'")
    plain("update datastatus set dataid = '9' where datasetid = 'product'")
    fold_in(flow)
    assert flow.views.unfit_notes(10) == []
    assert [event.after for event in flow.views.events("product", "1") if event.kind == "sql"] == [
        "HOLD",
        "FAILED",
        "RESUBMIT",
        None,
        "READY",
        None,
    ]


def test_a_change_that_was_overtaken_is_told_as_well(flow: Store, plain: Callable[[str], None]) -> None:
    plain("update datastatus set status = 'FAILED' where datasetid = 'raw' and locktype = 'OUT'")
    flow.announce("raw", ["1"])  # before anybody folded it in
    fold_in(flow)
    assert flow.views.unfit_notes(10) == []
    assert [event.after for event in flow.views.events("raw", "1") if event.kind == "sql"] == ["FAILED"]


# Passwords -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        "sesame",
        "x" * 39,
        "x" * 37 + "===",
        "x" * 41 + "=",
        "odf1:sesame",
        "odf1:" + "a" * 80 + "!",
        "odf3:" + "a" * 80,
        "ODF1:" + "a" * 80,
        "odf1:" + "=" * 80,
        "a b" * 20,
        "x" * 60 + "\n",
        "\n" + OURS,
        "correct horse battery staple, and forty characters more",
        "x" * 20_000,
    ],
)
def test_a_password_in_plain_text_is_refused(flow: Store, plain: Callable[[str], None], value: str) -> None:
    before = dump(flow)["dataset"]
    for statement in (
        f"insert into dataset (datasetid, encryptedpass) values ('secret', '{value}')",
        f"update dataset set encryptedpass = '{value}' where datasetid = 'raw'",
    ):
        with pytest.raises((sqlite3.IntegrityError, psycopg.errors.CheckViolation)):
            plain(statement)
        with pytest.raises(BadDefinition) as refused:
            flow.dml(statement)
        assert value not in str(refused.value)
        assert refused.value.hint.endswith("odf crypt encrypt --for DATASET")
    assert dump(flow)["dataset"] == before


def test_so_it_is_by_replacing_a_row(flow: Store, store_url: str, plain: Callable[[str], None]) -> None:
    if store_url.startswith("sqlite"):
        with pytest.raises(sqlite3.IntegrityError):
            plain("insert or replace into dataset (datasetid, encryptedpass) values ('other', 'sesame')")
    with pytest.raises((sqlite3.IntegrityError, psycopg.errors.CheckViolation)):
        plain(
            "insert into dataset (datasetid) values ('raw') on conflict (datasetid) do update set encryptedpass = 'sesame'"
        )


def test_the_store_refuses_it_as_a_definition_too(flow: Store) -> None:
    with pytest.raises(BadDefinition):
        flow.register([Dataset("secret", encryptedpass="sesame")])


@pytest.mark.parametrize(
    "value", ["''", "null", f"'{OURS}'", f"'odf2:{'-_aA9' * 30}'", f"'{JAVA}'", f"'{'a+/9' * 12}'"]
)
def test_what_is_encrypted_or_empty_is_stored(flow: Store, plain: Callable[[str], None], value: str) -> None:
    plain(f"insert into dataset (datasetid, encryptedpass) values ('secret', {value})")
    plain(f"update dataset set encryptedpass = {value} where datasetid = 'raw'")
    assert flow.views.not_encrypted() == []


@pytest.fixture
def old(store_url: str) -> str:
    """A store from before the rule, with a password in plain text."""
    opendataflow.open(store_url, create=True).close()
    is_file = store_url.startswith("sqlite")
    rule = "trigger" if is_file else "alter table dataset drop constraint"
    type_sql(store_url, f"{'drop ' * is_file}{rule} encryptedpass_is_encrypted")
    type_sql(store_url, "insert into dataset (datasetid, encryptedpass) values ('orders', 'sesame'), ('fine', '')")
    return store_url


def test_old_rows_that_the_rule_would_refuse_are_named(old: str) -> None:
    with open_store(old) as store:
        assert store.views.not_encrypted() == ["orders"]


def test_dml_says_nothing_of_the_row(flow: Store) -> None:
    with pytest.raises(UsageError) as refused:
        flow.dml("update dataset set encryptedpass = 'hunter2hunter2' where datasetid = 'raw'")
    assert "hunter2" not in str(refused.value)
