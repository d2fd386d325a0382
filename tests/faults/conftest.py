"""Faults: the software is broken on purpose, on both stores, and an auditor must find nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broken import Flow
from tests.support.postgres import Cluster, quick_postgres
from tests.support.shell import Shell
from tests.support.stores import BOTH, open_again, store, store_url

__all__ = ["cluster", "flow", "open_again", "store", "store_url"]
REPETITIONS = 20


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """What depends on the moment is done again and again where there is time."""
    if "repetition" in metafunc.fixturenames:
        metafunc.parametrize("repetition", range(REPETITIONS if metafunc.config.getoption("--soak") else 1))


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A PostgreSQL server that a test may kill; only the server dies, not the machine, so nothing need reach the disk."""
    with quick_postgres() as server:
        yield server


@pytest.fixture(params=BOTH)
def flow(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Flow]:
    """A flow that a test may break, once on each store."""
    folder = tmp_path / "flow"
    folder.mkdir()
    url = None if request.param == "sqlite" else request.getfixturevalue("cluster").create_database()
    flow = Flow(Shell(folder, url))
    if url is not None:
        flow.shell.odf("migrate")
    yield flow
    flow.close()
