"""A stage on each store, for all histories of one test process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.histories.playing import Stage, staged
from tests.histories.stores import Postgres, Sqlite, memory
from tests.support.postgres import start_postgres


@pytest.fixture(scope="session")
def sqlite_stage() -> Iterator[Stage]:
    """Histories in files."""
    with memory() as folder:
        place = Sqlite(folder)
        with staged(place) as stage:
            yield stage
        place.close()


@pytest.fixture(scope="session")
def postgres_stage() -> Iterator[Stage]:
    """Histories on a server that need not survive anything."""
    with start_postgres("fsync=off", "synchronous_commit=off", "full_page_writes=off") as server:
        place = Postgres(server.create_database())
        with staged(place) as stage:
            yield stage
        place.close()
