"""The server that the PostgreSQL tests stand on."""

from __future__ import annotations

import psycopg
import pytest

from opendataflow import Dataset, Input, Job
from opendataflow.errors import OdfError, StoreUnreachable, UsageError
from opendataflow.store import open_store
from tests.support.postgres import Server

pytestmark = pytest.mark.postgres


def test_it_is_a_postgresql_that_really_syncs(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        version = connection.execute("SELECT version()").fetchone()
        fsync = connection.execute("SHOW fsync").fetchone()
    assert version is not None
    assert version[0].startswith("PostgreSQL ")
    assert fsync == ("on",)


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
        chunk = store.chunk("clean", "1")
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
