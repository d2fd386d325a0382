"""Fixtures that more than one folder of tests uses."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.support.postgres import Server, start_postgres

# No timed tests: a busy machine must not fail an example that is right.
# The same examples every time: what is new is looked for when somebody has the time to look at it.
settings.register_profile("untimed", deadline=None, derandomize=True)
settings.load_profile("untimed")

# A shell that runs the tests in the background has them ignore Ctrl-C; what they start is to notice it all the same.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """A real PostgreSQL server, one for each test process."""
    with start_postgres() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: Server) -> Iterator[str]:
    """The address of an empty PostgreSQL database that belongs to one test."""
    url = postgres_server.create_database()
    yield url
    postgres_server.drop_database(url)
