"""Fixtures that more than one folder of tests uses."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

import opendataflow
from tests.support import forks
from tests.support.folders import quick_folder
from tests.support.order import Together, begins
from tests.support.postgres import Server, quick_postgres

# No timed tests: a busy machine must not fail an example that is right.
# The same examples every time: what is new is looked for when somebody has the time to look at it.
settings.register_profile("untimed", deadline=None, derandomize=True)
settings.register_profile("soak", deadline=None, max_examples=2000)
settings.load_profile("untimed")

# A shell that runs the tests in the background has them ignore Ctrl-C; what they start is to notice it all the same.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Here pytest makes `tmp_path`, unless somebody chose another place.
if quick := quick_folder():
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", quick)

# Here Spark finds what its Java is told: most code of a test runs too seldom to be worth compiling well.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


def pytest_configure(config: pytest.Config) -> None:
    forks.soaking = bool(config.getoption("--soak"))
    settings.load_profile("soak" if forks.soaking else "untimed")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: begins(item.nodeid))
    if not config.getoption("--soak"):
        left_out = [item for item in items if item.get_closest_marker("soak")]
        items[:] = [item for item in items if not item.get_closest_marker("soak")]
        if left_out:
            config.hook.pytest_deselected(items=left_out)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Whoever soaks for an hour hears of a failure when it happens; a process among several leaves that to the first one."""
    if forks.soaking and report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        print(f"\n{report.nodeid}\n{report.longreprtext}", file=sys.stderr, flush=True)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Together | None:
    if config.getvalue("dist") != "loadgroup":
        return None
    config.option.loadscopereorder = False
    return Together(config, log)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help="the long versions: hours, not minutes")
    parser.addoption("--history", metavar="SEED", help="the random history that is played again")
    parser.addoption("--storm", metavar="SEED", help="the same of several processes at once")


@pytest.fixture(scope="session")
def soak(request: pytest.FixtureRequest) -> bool:
    """Whether the long versions were asked for."""
    return bool(request.config.getoption("--soak"))


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """A real PostgreSQL server, one for each test process."""
    with quick_postgres() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: Server) -> Iterator[str]:
    """The address of an empty PostgreSQL database that belongs to one test."""
    url = postgres_server.create_database()
    yield url
    postgres_server.drop_database(url)


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that nobody writes: a copy of it is there sooner than another one."""
    file = tmp_path_factory.mktemp("migrated") / "store.db"
    opendataflow.open(f"sqlite:///{file}", create=True, who="tester").close()
    return file


@pytest.fixture(scope="session")
def migrated_postgres(postgres_server: Server) -> str:
    """The address of a store that nobody writes: a copy of it is there sooner than another one."""
    url = postgres_server.create_database()
    opendataflow.open(url, create=True, who="tester").close()
    return url


@pytest.fixture
def fresh_postgres_url(postgres_server: Server, migrated_postgres: str) -> Iterator[str]:
    """The address of a PostgreSQL database with a fresh store that belongs to one test."""
    url = postgres_server.create_database(migrated_postgres)
    yield url
    postgres_server.drop_database(url)
