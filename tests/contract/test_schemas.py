"""Schemas: two stores in one database of PostgreSQL do not touch each other, and only a scratch can be dropped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import opendataflow
from opendataflow import Store
from opendataflow.errors import StoreMissing, StoreReadOnly, UsageError
from opendataflow.store.drivers import postgres_schema, queries
from opendataflow.store.drivers.postgres import PostgresBackend
from opendataflow.store.drivers.scratch_schema import by_way_of, create, drop, server_of
from tests.support.flows import dataset, job
from tests.support.postgres import start_postgres

pytestmark = pytest.mark.postgres
OTHER = "dataflow_chaos_00ab12cd"


@pytest.fixture
def other_url(postgres_url: str) -> str:
    return postgres_schema.within(postgres_url, OTHER)


@pytest.fixture
def both(postgres_url: str, other_url: str) -> Iterator[tuple[Store, Store]]:
    """A store in the usual schema, and one in another."""
    with opendataflow.open(postgres_url, create=True) as one, opendataflow.open(other_url, create=True) as other:
        yield one, other


def flow(store: Store) -> None:
    store.register([dataset("raw"), dataset("clean")], [job("load", "raw", writes="clean")])
    store.announce("raw", ["1"])


def typed(url: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(postgres_schema.split(url)[0], autocommit=True) as connection:
        return connection.execute(statement.encode()).fetchall()


def test_what_happens_in_one_schema_does_not_happen_in_the_other(both: tuple[Store, Store]) -> None:
    one, other = both
    flow(one)
    assert other.views.events() == []
    assert "load" not in other.catalogue().jobs
    flow(other)
    (claim,) = other.claim("load")
    other.commit(claim)
    assert one.views.running() == []
    assert one.views.chunk("clean", "1") is None
    one.resubmit("raw", ["1"], force=True)
    assert {chunk.status for chunk in other.views.all_chunks("clean")} == {"READY"}


def test_what_is_typed_into_another_schema_is_noted_there(both: tuple[Store, Store], other_url: str) -> None:
    one, other = both
    for store in both:
        flow(store)
        (claim,) = store.claim("load")
        store.commit(claim)
    assert other.dml("update datastatus set status = 'RESUBMIT' where datasetid = 'clean' and locktype = 'OUT'") == 1
    assert len(other.claim("load")) == 1
    assert one.claim("load") == []


LOCKS = "select classid, objid, objsubid from pg_locks where locktype = 'advisory'"
ASKED = {
    "datasetid": "raw",
    "fingerprint": "f",
    "pairs": '[["load", "1"]]',
    "jobs": '["load"]',
    "pool": "p",
}


def locks_of(url: str) -> set[tuple[object, ...]]:
    """What a transaction holds that took every lock there is."""
    named = queries.load("postgres")
    backend = PostgresBackend(url)
    try:
        with backend.writing() as transaction:
            for name in [name for name, sql in named.items() if "pg_advisory" in sql]:
                wanted = queries.to_numbered(named[name])[1]
                transaction.run(name, **{each: ASKED[each] for each in wanted})
            transaction.sync()
            return set(typed(url, LOCKS))
    finally:
        backend.close()


def test_nobody_waits_for_a_lock_of_another_schema(
    both: tuple[Store, Store], postgres_url: str, other_url: str
) -> None:
    """A worker of a scratch may be frozen while it holds one."""
    for store in both:
        flow(store)
    one, other = locks_of(postgres_url), locks_of(other_url)
    assert len(one) == len(other) > 8
    assert one.isdisjoint(other)


def test_a_definition_that_is_typed_takes_the_lock_of_its_own_schema(both: tuple[Store, Store], other_url: str) -> None:
    for store in both:
        flow(store)
    with psycopg.connect(postgres_schema.split(other_url)[0]) as connection:
        connection.execute(f"insert into {OTHER}.dataset (datasetid) values ('typed')".encode())
        held = set(typed(other_url, LOCKS))
    assert held
    assert held <= locks_of(other_url)


SETTINGS = "select coalesce(array_agg(s.setconfig), '{}') from pg_db_role_setting s where s.setdatabase = (select oid from pg_database where datname = current_database())"


def test_a_migration_changes_nothing_of_a_role_s_defaults(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as person:
        person.execute(f"alter role postgres in database {postgres_url.rpartition('/')[2]} reset search_path".encode())
    before = typed(postgres_url, SETTINGS)
    opendataflow.open(postgres_url, create=True).close()
    assert typed(postgres_url, SETTINGS) == before == [([],)]


@pytest.mark.parametrize(
    "name", ["", "Big", "a-b", "a b", "pg_x", "1a", 'a";drop', "information_schema", "x" * 64, "a&schema=b"]
)
def test_a_name_that_is_none_is_refused(postgres_url: str, name: str) -> None:
    with pytest.raises(UsageError):
        opendataflow.open(f"{postgres_url}?schema={name}", create=True)


def test_a_word_of_sql_may_be_a_name(postgres_url: str) -> None:
    with opendataflow.open(f"{postgres_url}?schema=select", create=True) as store:
        flow(store)
        assert len(store.claim("load")) == 1
        assert store.missing() == []


def test_a_schema_that_is_not_there_is_a_missing_store_with_its_name(postgres_url: str, other_url: str) -> None:
    opendataflow.open(postgres_url, create=True).close()
    with pytest.raises(StoreMissing) as problem:
        opendataflow.open(other_url)
    assert OTHER in problem.value.hint


def test_the_other_parameters_of_an_address_stay(postgres_url: str) -> None:
    for written in ("?schema=a", "?connect_timeout=9&schema=a", "?schema=a&connect_timeout=9"):
        address, schema = postgres_schema.split(postgres_url + written)
        assert schema == "a"
        assert address in (postgres_url, f"{postgres_url}?connect_timeout=9")


def test_only_a_scratch_can_be_made_and_dropped(postgres_url: str, other_url: str) -> None:
    opendataflow.open(postgres_url, create=True).close()
    for url in (postgres_url, postgres_schema.within(postgres_url, "mine")):
        with pytest.raises(UsageError):
            drop(url, None)
    create(other_url, None)
    drop(other_url, None)
    drop(other_url, None)
    with opendataflow.open(other_url, create=True) as made_by_hand:
        flow(made_by_hand)
    with pytest.raises(UsageError):
        drop(other_url, None)
    with opendataflow.open(other_url) as store:
        assert "load" in store.catalogue().jobs
    with opendataflow.open(postgres_url) as store:
        assert store.catalogue().jobs == {}


def test_a_role_that_may_not_make_a_schema_is_told_what_to_grant(postgres_url: str) -> None:
    typed_role = "chaos_reader"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"drop role if exists {typed_role}".encode())
        connection.execute(f"create role {typed_role} login".encode())
    with pytest.raises(StoreReadOnly) as problem:
        server_of(postgres_url.replace("postgres@", f"{typed_role}@"), None)
    assert "GRANT CREATE ON DATABASE" in problem.value.hint


def test_the_way_through_a_proxy_keeps_the_name_of_the_server(postgres_url: str, other_url: str) -> None:
    server = server_of(postgres_url, None)
    url = by_way_of(f"{other_url}&sslmode=prefer", server, "127.0.0.1", server.port)
    create(other_url, None)
    with opendataflow.open(url) as store:
        assert store.database().startswith("PostgreSQL ")
    given = postgres_schema.split(
        by_way_of(
            "postgresql://etl@db.example/x?sslmode=verify-full",
            server._replace(host="db.example", password="s p@ss", is_from_file=True),
            "127.0.0.1",
            7,
        )
    )[0]
    assert psycopg.conninfo.conninfo_to_dict(given) == {
        "user": "etl",
        "password": "s p@ss",
        "dbname": "x",
        "host": "db.example",
        "hostaddr": "127.0.0.1",
        "port": "7",
        "sslmode": "verify-full",
        "require_auth": "scram-sha-256,md5,password,none",
    }


@pytest.mark.parametrize("source", ["argument", "address", "file"])
def test_the_way_through_a_proxy_keeps_a_password_for_scram(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    with start_postgres() as server:
        url = server.create_database().replace("postgres@", "etl@")
        with psycopg.connect(server.url, autocommit=True) as boss:
            boss.execute("create role etl login superuser password 'sesame'")
        server.require_passwords()
        if source == "file":
            (tmp_path / "pgpass").write_text("*:*:*:etl:sesame\n")
            (tmp_path / "pgpass").chmod(0o600)
            monkeypatch.setenv("PGPASSFILE", str(tmp_path / "pgpass"))
        url = url.replace("etl@", "etl:sesame@") if source == "address" else url
        found = server_of(url, "sesame" if source == "argument" else None)
        monkeypatch.delenv("PGPASSFILE", raising=False)
        with opendataflow.open(by_way_of(url, found, "127.0.0.1", server.port), create=True) as store:
            assert store.database().startswith("PostgreSQL ")
