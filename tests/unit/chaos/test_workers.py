"""The processes of a chaos: they know its scratch, and nothing of what the user selected for himself."""

from __future__ import annotations

from pathlib import Path

import pytest

from opendataflow.chaos.plan import Settings
from opendataflow.chaos.scratch import made, where
from opendataflow.chaos.workers import BELONGS, call, environment
from opendataflow.project import without_file


def test_the_scratch_is_registered_whatever_environment_the_user_selected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODF_ENV", "dev")
    monkeypatch.setenv("ODF_STORE", "postgresql://nobody@127.0.0.1:1/x")
    project = without_file(tmp_path, None)
    at = where(project, "sqlite:///dataflow.db")
    with made(project, at, None, Settings(chunks=2), keep=False) as scratch:
        done = call(scratch, "apply", "--yes")
        assert done.returncode == 0, done.stderr
        assert "make" in call(scratch, "jobs").stdout
        given = environment(scratch, scratch.store_url)
        assert given[BELONGS] == at.id
        assert [name for name in given if name.startswith("ODF_")] == ["ODF_STORE", BELONGS]
