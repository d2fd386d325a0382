"""The server that the PostgreSQL tests stand on."""

from __future__ import annotations

from contextlib import suppress
from typing import cast

import psycopg
import pytest

from opendataflow import Dataset, Input, Job
from opendataflow.errors import OdfError, StoreUnreachable, UsageError
from opendataflow.store import open_store
from opendataflow.store.drivers.base import ConnectionLost, Transaction
from opendataflow.store.drivers.postgres_transaction import PostgresTransaction
from tests.support.postgres import Server, quick_postgres, start_postgres

pytestmark = pytest.mark.postgres


def test_it_is_a_postgresql_that_forgets_sooner(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        version = connection.execute("SELECT version()").fetchone()
        fsync = connection.execute("SHOW fsync").fetchone()
    assert version is not None
    assert version[0].startswith("PostgreSQL ")
    assert fsync == ("off",)


@pytest.mark.parametrize("time", ["first", "second"])
def test_each_test_gets_an_empty_database(postgres_url: str, time: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        assert tables == []
        connection.execute(f"CREATE TABLE left_by_the_{time} (id int)".encode())


def test_a_connection_left_open_does_not_keep_the_database(postgres_server: Server) -> None:
    url = postgres_server.create_database()
    with psycopg.connect(url):
        postgres_server.drop_database(url)
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(url)


@pytest.mark.parametrize(("given", "expected"), [(None, "1min"), ("5s", "5s")])
def test_a_session_that_falls_silent_inside_a_transaction_is_ended(
    postgres_url: str, given: str | None, expected: str
) -> None:
    """A minute, unless the owner of the server says otherwise."""
    name = "idle_in_transaction_session_timeout"
    if given:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(f"alter database {connection.info.dbname} set {name} = '{given}'".encode())
    with open_store(postgres_url, create=True) as store:
        assert store.sql(f"show {name}", as_superuser=True)[1] == [(expected,)]


def test_typed_sql_is_planned_as_the_owner_of_the_server_says(postgres_url: str) -> None:
    """The program's own queries are kept to their indexes, which would make a sum over a table slow."""
    names = ["jit", "plan_cache_mode", "enable_seqscan", "enable_hashjoin", "enable_mergejoin"]
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"alter database {connection.info.dbname} set jit = off".encode())
    with open_store(postgres_url, create=True) as store:
        now = ", ".join(f"current_setting('{name}')" for name in names)
        program = [("off", "force_generic_plan", "off", "off", "off")]
        owner = [("off", "auto", "on", "on", "on")]
        for _ in range(2):
            assert store._backend._connection.execute(f"select {now}").fetchall() == program  # type: ignore[attr-defined]
            assert store.sql(f"select {now}")[1] == owner
            store.dml(f"delete from meta where name = 'seen'; insert into meta select 'seen', concat_ws(' ', {now})")
            assert store.sql("select value from meta where name = 'seen'")[1] == [(" ".join(owner[0]),)]
        assert "Seq Scan" in store.sql("explain select count(*) from event")[1][-1][0]


def test_a_store_comes_back_after_the_server_ended_its_connection(postgres_url: str) -> None:
    """Also without a word of the server: then the error has no code."""
    with open_store(postgres_url, create=True) as store:
        store.register([Dataset("raw"), Dataset("clean")], [Job("load", (Input("raw"),), ("clean",))])
        store.announce("raw", ["1"])
        [claim] = store.claim("load")
        for act in (store.catalogue, lambda: store.heartbeat(claim), lambda: store.commit(claim)):
            for _ in range(2):
                with psycopg.connect(postgres_url, autocommit=True) as other:
                    other.execute(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                        " WHERE pid <> pg_backend_pid() AND datname = current_database()"
                    )
            act()
        chunk = store.views.chunk("clean", "1")
        assert chunk is not None
        assert chunk.status == "READY"


@pytest.mark.parametrize("way", ["localhost", "127.0.0.1,127.0.0.1", "127.0.0.1:1,127.0.0.1:PORT"])
def test_a_store_is_reached_by_name_and_at_the_first_of_several_hosts_that_answers(postgres_url: str, way: str) -> None:
    port = postgres_url.rpartition("/")[0].rpartition(":")[2]
    hosts = way.replace("PORT", port) if "PORT" in way else ",".join(f"{host}:{port}" for host in way.split(","))
    with open_store(postgres_url.replace(f"127.0.0.1:{port}", hosts), create=True) as store:
        assert store.sql("select 1 as n")[1] == [(1,)]


@pytest.mark.parametrize(
    ("address", "error"),
    [
        ("postgresql://postgres@127.0.0.1:1/none", StoreUnreachable),
        ("postgresql://postgres@there.is.no.such.host.invalid/none", StoreUnreachable),
        ("postgresql://postgres@127.0.0.1:1,127.0.0.1:2/none", StoreUnreachable),
        ("postgresql://postgres@127.0.0.1:x/none", StoreUnreachable),
        ("postgresql://postgres@127.0.0.1:1/none?colour=red", UsageError),
    ],
)
def test_a_server_that_is_not_there_is_named_as_such(address: str, error: type[OdfError]) -> None:
    with pytest.raises(error):
        open_store(address)


def test_the_server_of_a_benchmark_really_syncs() -> None:
    with start_postgres() as server, psycopg.connect(server.url) as connection:
        assert connection.execute("SHOW fsync").fetchone() == ("on",)


def test_many_jobs_with_few_chunks_each_fit_into_the_locks_of_a_server() -> None:
    """What a change of one shared dataset rebuilds is one transaction, however many jobs read it."""
    jobs = [f"job{n}" for n in range(30)]
    with quick_postgres("max_connections=20", "max_locks_per_transaction=20") as server:
        url = server.create_database()
        with open_store(url, create=True) as store:
            datasets = [Dataset("raw"), *(Dataset(f"{name}_out") for name in jobs)]
            store.register(datasets, [Job(name, (Input("raw"),), (f"{name}_out",)) for name in jobs])
            store.announce("raw", [str(n) for n in range(100)])
            store.dml("update dataset set location = 'elsewhere/{dataid}' where datasetid = 'raw'")
            assert all(store.claim(name) for name in jobs)
            with psycopg.connect(url, autocommit=True) as other:
                with pytest.raises(psycopg.errors.OutOfMemory):  # else it proves nothing
                    other.execute("select pg_advisory_lock(n) from generate_series(1, 3000) n")
                with pytest.raises(StoreUnreachable, match="no room for more locks"):
                    store.announce("raw", [str(n) for n in range(100, 200)])
                other.execute("select pg_advisory_unlock_all()")
            store.announce("raw", [str(n) for n in range(100, 200)])


def test_what_the_server_says_of_a_transaction_is_believed_and_nothing_else(postgres_url: str) -> None:
    numbers = []
    with open_store(postgres_url, create=True) as store:
        for is_kept in (True, False):
            with suppress(ZeroDivisionError), store._backend.writing() as transaction:
                transaction.run("meta_put", name=f"kept {is_kept}", value="1")
                numbers.append(cast(PostgresTransaction, transaction).number())
                if not is_kept:
                    raise ZeroDivisionError
        assert [store._backend.was_committed(number) for number in numbers] == [True, False]


def test_a_transaction_that_the_server_still_has_open_is_neither_committed_nor_lost(postgres_url: str) -> None:
    with open_store(postgres_url, create=True) as store, open_store(postgres_url) as other:
        with other._backend.writing() as transaction:
            transaction.run("meta_put", name="open", value="1")
            number = cast(PostgresTransaction, transaction).number()
            with pytest.raises(ConnectionLost, match="not noticed yet"):
                store._backend.was_committed(number)
        assert store._backend.was_committed(number)


@pytest.mark.parametrize("is_committed", [True, False])
@pytest.mark.parametrize("is_there", [True, False])
def test_a_lost_answer_counts_only_where_the_server_and_a_look_say_so(
    postgres_url: str, is_committed: bool, is_there: bool
) -> None:
    """The number of a transaction may be another one's after a crash of the server: so both have to say it."""
    with open_store(postgres_url, create=True) as store:
        numbers = []
        with suppress(ZeroDivisionError), store._backend.writing() as transaction:
            transaction.run("meta_put", name="x", value="1")
            numbers.append(cast(PostgresTransaction, transaction).number())
            if not is_committed:
                raise ZeroDivisionError
        begun = []

        def work(tx: Transaction) -> int:
            begun.append(1)
            if len(begun) == 1:
                raise ConnectionLost("its answer is lost", numbers[0])
            return 7

        store._do(work, is_committed=lambda tx, answer: is_there)
        assert len(begun) == (1 if is_committed and is_there else 2)
