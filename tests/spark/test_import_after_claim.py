"""Job code is imported once a chunk is claimed for it, and never before, but to list jobs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.shell import Answer, Shell

PROJECT = """
[environment.dev]
roots = ["data"]

[spark]
master = "local[2]"

[dataset.raw]
location = "raw/{dataid}.csv"
partition = "number"
schema = "id INT"

[dataset.clean]
location = "clean/{dataid}"
partition = "number"

[dataset.other]
location = "other/{dataid}"
partition = "number"
"""
# It writes down which of its chunks are RUNNING while it is imported.
CODE = """
import opendataflow as odf

with odf.open("sqlite:///dataflow.db") as store, open("imported", "a") as seen:
    print(*sorted(run.dataid for run in store.views.running() if run.jobid == "clean"), file=seen)
{more}


@odf.job({reads}, writes="clean")
def clean(raw):
    return raw


@odf.job(reads="raw", writes="other")
def other(raw):
    return raw
"""
WAYS = pytest.mark.parametrize("reads", ["reads='raw'", "reads=[*'raw'.split()]"], ids=["literal", "computed"])


def write(folder: Path, reads: str, more: str = "") -> None:
    for name in ("jobs", "data/raw"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "dataflow.toml").write_text(PROJECT)
    (folder / "jobs/flows.py").write_text(CODE.format(reads=reads, more=more))
    for number in (1, 2, 3):
        (folder / f"data/raw/{number}.csv").write_text(f"id\n{number}\n")


def imported(folder: Path) -> list[str]:
    """What was RUNNING at each import since the last time."""
    path = folder / "imported"
    found = path.read_text().splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return found


@WAYS
def test_code_is_imported_once_and_after_the_claim(desk: Callable[..., Answer], tmp_path: Path, reads: str) -> None:
    write(tmp_path, reads)
    desk("migrate")
    desk("apply", "--yes")
    imported(tmp_path)  # to list jobs
    write(tmp_path, reads, "# as in a new process: no module has this text\n")
    for words in (("drain",), ("drain", "clean"), ("run", "clean"), ("why", "clean"), ("drain", "--dry-run")):
        desk(*words)
        assert imported(tmp_path) == [], words
    desk("ready", "raw", "1..3")
    desk("why", "clean", "1")
    desk("run", "clean", "--dry-run")
    assert imported(tmp_path) == []
    desk("drain", "clean", "--workers", "1")
    assert imported(tmp_path) == ["1"]


@WAYS
def test_code_that_does_not_load_gives_its_chunk_back(tmp_path: Path, reads: str) -> None:
    home = Shell(tmp_path)
    write(tmp_path, reads)
    home.odf("migrate")
    home.odf("apply", "--yes")
    imported(tmp_path)
    write(tmp_path, reads, "import nowhere_at_all")
    home.odf("ready", "raw", "1..2")
    run = home.runjob("clean", code=2)
    assert "flows.py: line 6: ModuleNotFoundError" in run.err
    assert imported(tmp_path) == ["1"]
    assert home.odf("why", "clean", "1", "--json").data["verdict"] == "YES", "no try is used up"
    drain = home.odf("drain", "clean", "--workers", "2", code=2)
    assert "leaving out clean: BAD_CONFIG" in drain.err
    assert "2 × clean left out: BAD_CONFIG" in drain.out
    assert set(imported(tmp_path)) <= {"1", "2", "1 2"}
    assert {each["outcome"] for each in home.odf("runs", "--json").data} == {"GIVEN_BACK"}


@pytest.mark.parametrize("more", ["", "[job.clean]\nreads = 'raw'\nwrites = 'clean'\nconcurrency = 1\n"])
def test_code_that_cannot_be_parsed_claims_nothing(tmp_path: Path, more: str) -> None:
    home = Shell(tmp_path)
    write(tmp_path, "reads='raw'")
    home.write("dataflow.toml", PROJECT + more)
    home.odf("migrate")
    home.odf("apply", "--yes")
    home.odf("ready", "raw", "1")
    write(tmp_path, "reads='raw'", "def broken(:")
    home.write("dataflow.toml", PROJECT + more)
    assert "flows.py: line 6: " in home.runjob("clean", code=2).err
    assert "leaving out clean: BAD_CONFIG" in home.odf("drain", code=2).err
    assert home.odf("runs", "--json").data == []


def test_what_a_decorator_declares_is_compared_before_the_claim(tmp_path: Path) -> None:
    home = Shell(tmp_path)
    write(tmp_path, "reads='raw'")
    home.odf("migrate")
    home.odf("apply", "--yes")
    imported(tmp_path)
    home.odf("ready", "raw", "1")
    home.dml("update job set datasetid = 'other' where jobid = 'clean' and itemtype = 'IN'")
    assert "UNTRUSTED_DEFINITION" in home.runjob("clean", code=18).err
    assert "UNTRUSTED_DEFINITION" in home.odf("why", "clean", code=None).out
    assert imported(tmp_path) == []


def test_a_job_whose_name_only_importing_tells_is_found_after_the_claim(
    tmp_path: Path, desk: Callable[..., Answer]
) -> None:
    write(tmp_path, "reads='raw'")
    made = "\nfor name in ('made',):\n    globals()[name] = odf.job(name=name, reads='raw', writes='other')(lambda raw: raw)\n"
    code = CODE.format(reads="reads='raw'", more="").partition('\n\n\n@odf.job(reads="raw", writes="other")')[0]
    (tmp_path / "jobs/flows.py").write_text(code + made)
    desk("migrate")
    desk("apply", "--yes")
    desk("ready", "raw", "1")
    imported(tmp_path)
    (tmp_path / "jobs/flows.py").write_text(code + made + "# as in a new process\n")
    desk("run", "made")
    assert len(imported(tmp_path)) == 1
    assert desk("status", "other", "--json").data
