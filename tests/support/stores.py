"""Fixtures that hand every test a fresh store of each kind; used by contract and scenarios."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

import opendataflow
from opendataflow import Store

BOTH = [pytest.param("sqlite"), pytest.param("postgres", marks=pytest.mark.postgres)]


@pytest.fixture(params=BOTH)
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a store that does not exist yet; of one that nobody has opened, if the test wants `store` as well."""
    is_there = "store" in request.fixturenames
    if request.param == "sqlite":
        if is_there:
            shutil.copy(request.getfixturevalue("migrated_sqlite"), tmp_path / "store.db")  # with its mode
        return f"sqlite:///{tmp_path}/store.db"
    url: str = request.getfixturevalue("fresh_postgres_url" if is_there else "postgres_url")
    return url


def type_sql(url: str, statement: str) -> None:
    """Runs SQL as a client that is not ours, with none of our settings; refused statements raise."""
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        try:
            connection.executescript(statement)
        finally:
            connection.close()
    else:
        with psycopg.connect(url, autocommit=True, options="-c search_path=dataflow") as connected:
            connected.execute(statement.encode())


@pytest.fixture
def open_again(store_url: str) -> Iterator[Callable[..., Store]]:
    """Opens the same store once more, as another process would; closed at the end."""
    opened: list[Store] = []

    def open_it(**how: object) -> Store:
        opened.append(opendataflow.open(store_url, create=True, **how))  # type: ignore[arg-type]
        return opened[-1]

    yield open_it
    for each in opened:
        each.close()


@pytest.fixture
def store(open_again: Callable[..., Store]) -> Store:
    """A fresh store."""
    return open_again(who="tester")
