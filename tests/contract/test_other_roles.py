"""People's own PostgreSQL roles: what they change by SQL counts, with the rights that the page for teams names and no more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import psycopg.errors
import pytest

import opendataflow
from opendataflow import Store
from opendataflow.errors import StoreReadOnly
from tests.support.flows import chain, claim_one, fold_in, kinds, produce, status

pytestmark = [pytest.mark.postgres, pytest.mark.fault(33)]
PAGE = Path(__file__).parents[2] / "docs/how-to/postgresql-for-a-team.md"


@pytest.fixture
def flow(postgres_url: str) -> Iterator[Store]:
    """raw 1 → make → product 1, READY."""
    with opendataflow.open(postgres_url, create=True) as store:
        chain(store)
        store.announce("raw", ["1"])
        produce(store, "make", "1")
        yield store


@pytest.fixture
def ana(flow: Store, postgres_url: str) -> Iterator[str]:
    """The address of a person whom the page's statements let in, and who has no search path of her own."""
    role = "ana_" + postgres_url[-6:]
    grants = PAGE.read_text(encoding="utf-8").partition("CREATE ROLE ana")[2].partition("```")[0]
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE ana{grants}".replace("ana", role).encode())
        yield postgres_url.replace("postgres@", f"{role}@")
        connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())


def by(role: str, statement: str) -> int:
    with psycopg.connect(role, autocommit=True) as connection:
        assert connection.execute("show search_path").fetchone() == ('"$user", public',)
        return connection.execute(statement.encode()).rowcount


def test_a_person_restarts_a_chunk_without_a_search_path(flow: Store, ana: str) -> None:
    assert by(ana, "UPDATE dataflow.job_status SET status = 'rerun' WHERE dataid = '1'") == 1
    assert status(flow, "product", "1") == "RESUBMIT"
    assert claim_one(flow, "make").dataid == "1"
    assert "sql" in kinds(flow, "product", "1")
    assert [event.who for event in flow.views.events("product", "1") if event.kind == "sql"] == [
        ana.split("//")[1].split("@")[0]
    ]


def test_so_do_the_triggers_of_every_table(flow: Store, ana: str) -> None:
    role = ana.split("//")[1].split("@")[0]
    flow.dml(f"grant insert, update, delete on all tables in schema dataflow to {role}")
    by(ana, "UPDATE dataflow.datastatus SET status = 'HOLD' WHERE datasetid = 'product' AND dataid = '1'")
    by(ana, "INSERT INTO dataflow.dataset (datasetid) VALUES ('more')")
    by(ana, "UPDATE dataflow.dataset SET location = 'elsewhere' WHERE datasetid = 'more'")
    by(ana, "INSERT INTO dataflow.job (jobid, itemtype, datasetid) VALUES ('other', 'OUT', 'more')")
    by(
        ana,
        "INSERT INTO dataflow.datastatus (datasetid, dataid, jobid, locktype, status) VALUES ('raw', '2', 'x', 'OUT', 'COMPLETE')",
    )
    by(ana, "DELETE FROM dataflow.job WHERE jobid = 'other'")
    assert claim_one(flow, "make").dataid == "2"
    assert status(flow, "product", "1") == "HOLD"


def test_what_the_page_does_not_grant_is_refused(flow: Store, ana: str) -> None:
    for statement in (
        "UPDATE dataflow.datastatus SET status = 'HOLD'",
        "DELETE FROM dataflow.event",
        "DELETE FROM dataflow.note",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            by(ana, statement)
    with opendataflow.open(ana) as looking:
        assert [chunk.status for chunk in looking.views.chunks("product")] == ["READY"]
        with pytest.raises(StoreReadOnly):
            looking.claim("make")


FORGED = (
    "INSERT INTO dataflow.note (datasetid, dataid, jobid, locktype, before, after, who)"
    " VALUES ('product', '1', 'make', 'OUT', 'READY', 'FAILED', 'the boss')"
)


def test_who_may_only_update_statuses_writes_no_note_and_no_history(flow: Store, ana: str) -> None:
    for statement in (
        FORGED,
        "INSERT INTO dataflow.event (kind, who) VALUES ('claimed', 'the boss')",
        "TRUNCATE dataflow.event",
        # the store's triggers write notes as their owner: not from a table of somebody else
        "CREATE TEMPORARY TABLE mine (datasetid text, dataid text, jobid text, locktype text, status text);"
        "CREATE TRIGGER forge AFTER INSERT ON mine FOR EACH ROW EXECUTE FUNCTION dataflow.note_chunk()",
        "CREATE TEMPORARY TABLE job (jobid text);"
        "CREATE TRIGGER forge AFTER INSERT ON job FOR EACH ROW EXECUTE FUNCTION dataflow.note_definition()",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            by(ana, statement)
    fold_in(flow)
    assert flow.views.unfit_notes(1) == []


def test_who_may_write_notes_since_an_older_version_does_it_under_his_own_name(flow: Store, ana: str) -> None:
    role = ana.split("//")[1].split("@")[0]
    flow.dml(f"grant insert, update on dataflow.note to {role}")
    by(ana, FORGED)
    by(ana, "UPDATE dataflow.job_status SET status = 'HOLD' WHERE dataid = '1'")
    by(ana, "UPDATE dataflow.note SET who = 'the boss'")
    fold_in(flow)
    assert [(event.who, event.after) for event in flow.views.events("product", "1") if event.kind == "sql"] == [
        (role, "HOLD")
    ]
    assert [event.who for event in flow.views.unfit_notes(5)] == [role]


def test_an_event_of_a_worker_names_its_role_whatever_it_says(flow: Store, ana: str) -> None:
    role = ana.split("//")[1].split("@")[0]
    flow.dml(f"grant insert on dataflow.event to {role}")
    by(ana, "INSERT INTO dataflow.event (kind, who, session) VALUES ('claimed', 'the boss', 'postgres')")
    by(ana, "INSERT INTO dataflow.event (kind, who) VALUES ('claimed', 'the boss')")
    _, sessions = flow.sql("select session from event where who = 'the boss'")
    assert sessions == [(role,), (role,)]
