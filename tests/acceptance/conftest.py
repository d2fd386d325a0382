"""Acceptance: odf and RunJob as processes, on both stores."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.door import door
from tests.support.odf import Odf
from tests.support.shell import Shell
from tests.support.stores import open_again, store, store_url

__all__ = ["door", "home", "odf", "open_again", "shell", "store", "store_url"]


@pytest.fixture
def home(tmp_path: Path) -> Shell:
    """An empty folder with the embedded store."""
    return Shell(tmp_path)


@pytest.fixture(params=["sqlite", "postgres"])
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Shell:
    """An empty folder, once with the embedded store and once with PostgreSQL."""
    if request.param == "sqlite":
        return Shell(tmp_path)
    return Shell(tmp_path, request.getfixturevalue("fresh_postgres_url"))


@pytest.fixture
def odf(tmp_path: Path, store_url: str) -> Odf:
    """The command line in an empty folder, on the store of the test."""
    return Odf(tmp_path, store_url)
