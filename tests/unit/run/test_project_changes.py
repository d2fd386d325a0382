"""Whether the project's files changed since they were read."""

from __future__ import annotations

from pathlib import Path

import pytest

from opendataflow.errors import ProjectChanged
from opendataflow.project import load
from opendataflow.run.project_changes import Outdated

PROJECT = """
[dataset.raw]
[dataset.clean]
location = "clean/{dataid}"
[job.clean_raw]
reads = ["raw"]
writes = ["clean"]
"""


@pytest.fixture
def outdated(tmp_path: Path) -> Outdated:
    (tmp_path / "dataflow.toml").write_text(PROJECT)
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "clean_raw.sql").write_text("select 1")
    (tmp_path / "jobs" / "load.sh").write_text("true")
    (tmp_path / "jobs" / "plain.py").write_text("print(1)")
    return Outdated(load(tmp_path / "dataflow.toml"), lambda line: None)


def test_what_stays_the_same_is_no_change(outdated: Outdated, tmp_path: Path) -> None:
    outdated.check()
    (tmp_path / "dataflow.toml").write_text(f"# a comment{PROJECT}")
    (tmp_path / "jobs" / "clean_raw.sql").write_text("select 1")
    (tmp_path / "jobs" / "load.sh").write_text("false")
    (tmp_path / "jobs" / "plain.py").write_text("print(2)")
    outdated.check()


def test_a_project_file_that_declares_something_else_is_named_once_it_loads(outdated: Outdated, tmp_path: Path) -> None:
    (tmp_path / "dataflow.toml").write_text(f"{PROJECT}[job.clean_raw.env")
    outdated.check()
    (tmp_path / "dataflow.toml").write_text(f"{PROJECT}[job.clean_raw.env]\nGREETING = 'Hey'\n")
    with pytest.raises(ProjectChanged, match=r"dataflow\.toml changed"):
        outdated.check()


def test_code_that_spark_has_loaded_is_named(outdated: Outdated, tmp_path: Path) -> None:
    (tmp_path / "jobs" / "clean_raw.sql").write_text("select 2")
    with pytest.raises(ProjectChanged, match=r"clean_raw\.sql changed"):
        outdated.check()


def test_code_that_is_gone_is_named(outdated: Outdated, tmp_path: Path) -> None:
    (tmp_path / "jobs" / "clean_raw.sql").unlink()
    with pytest.raises(ProjectChanged, match=r"clean_raw\.sql changed"):
        outdated.check()
