"""Stores for histories: an empty one for each, in a moment, and a look at its tables that is not the store's own."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

import opendataflow
from tests.support.flows import TABLES

MORE_TABLES = ("pause", "log_tail")


class Sqlite:
    """A new file for each history, copied from an empty one."""

    def __init__(self, folder: Path) -> None:
        self._template, self._path = folder / "empty.db", folder / "history.db"
        self._eye: sqlite3.Connection | None = None
        opendataflow.open(f"sqlite:///{self._template}", create=True).close()
        self.url = f"sqlite:///{self._path}"

    def empty(self) -> None:
        """Begin anew; whoever has it open opens it again."""
        self.close()
        for beside in self._path.parent.glob(f"{self._path.name}*"):
            beside.unlink()
        shutil.copy(self._template, self._path)
        self._eye = sqlite3.connect(self._path, isolation_level=None)

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """What the tables hold."""
        assert self._eye is not None
        return self._eye.execute(statement).fetchall()

    def close(self) -> None:
        """Look no more."""
        if self._eye is not None:
            self._eye.close()


class Postgres:
    """One schema, emptied before each history without a trace: what nobody but its superuser can do."""

    def __init__(self, url: str) -> None:
        self.url = url
        opendataflow.open(url, create=True).close()
        self._eye = psycopg.connect(url, autocommit=True, options="-c search_path=dataflow")
        tables = "; ".join(f"delete from {table}" for table in reversed((*TABLES[:-1], *MORE_TABLES)))
        self._emptied = (
            "begin; set local session_replication_role = replica; "
            f"{tables}; update meta set value = value::bigint + 1 where name = 'revision'; "
            "delete from meta where name not in ('revision', 'identity'); "
            'insert into dataset (datasetid, partition, options) values (\'today\', \'{"type": "day"}\', \'{"timezone": "UTC"}\'); commit'
        )

    def empty(self) -> None:
        """Begin anew."""
        self._eye.execute(self._emptied.encode())

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """What the tables hold."""
        return self._eye.execute(statement.encode()).fetchall()

    def close(self) -> None:
        """Look no more."""
        self._eye.close()


@contextmanager
def memory() -> Iterator[Path]:
    """A folder in memory, where the system has such a place: what is tested here is no disk."""
    import tempfile

    place = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="odf-histories-", dir=place if place.is_dir() else None) as name:
        yield Path(name)
