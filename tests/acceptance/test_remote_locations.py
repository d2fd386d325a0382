"""Locations that are URLs: what arrives there is discovered, and each attempt of a script writes to a location of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.shell import Shell, statuses
from tests.support.stores import BOTH

# fsspec reads the disk by this scheme too, while the program takes it for storage that cannot rename.
PROJECT = """
[environment.dev]
roots = ["local://{root}"]

[dataset.raw]
location = "raw/{{year}}/{{month}}/{{day}}.csv"
partition = "day"
ready = {{ quiet = 0 }}

[dataset.made]
location = "made/{{dataid}}.csv"
partition = "day"

[job.make]
reads = ["raw"]
writes = ["made"]
"""
WRITE = """
written=${made_location#local://}
mkdir -p "$(dirname "$written")"
"""


@pytest.fixture(params=BOTH)
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Shell:
    folder = tmp_path / "project"
    folder.mkdir()
    (tmp_path / "bucket").mkdir()
    url = None if request.param == "sqlite" else request.getfixturevalue("fresh_postgres_url")
    shell = Shell(folder, url)
    shell.write("dataflow.toml", PROJECT.format(root=tmp_path / "bucket"))
    shell.odf("apply", "--yes")
    return shell


def test_what_arrives_at_a_url_is_discovered(shell: Shell, tmp_path: Path) -> None:
    for day in ("2026/01/01", "2026/01/02"):
        path = tmp_path / "bucket/raw" / f"{day}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{day}\n")
    (tmp_path / "bucket/raw/2026/notes").mkdir()
    assert shell.odf("discover", "raw").out.count("READY") == 2
    assert statuses(shell) == {("raw", "2026-01-01"): "READY", ("raw", "2026-01-02"): "READY"}
    assert "nothing new" in shell.odf("discover", "raw").out


def test_a_root_that_is_not_there_is_an_invalid_path(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "bucket").rmdir()
    refused = shell.odf("discover", "raw", code=12)
    assert "INVALID_PATH" in refused.err
    assert f"{tmp_path}/bucket of environment dev does not exist" in refused.err


def test_so_is_one_of_this_machine(shell: Shell, tmp_path: Path) -> None:
    shell.write("dataflow.toml", PROJECT.format(root=tmp_path / "bucket").replace("local://", ""))
    shell.odf("apply", "--yes")
    (tmp_path / "bucket").rmdir()
    assert "INVALID_PATH" in shell.odf("discover", "raw", code=12).err


@pytest.mark.parametrize("scheme", ["", "local://"])
def test_a_root_that_lost_everything_is_not_mounted(shell: Shell, tmp_path: Path, scheme: str) -> None:
    """The mount point of a disk that is not mounted is an empty folder."""
    shell.write("dataflow.toml", PROJECT.format(root=tmp_path / "bucket").replace("local://", scheme))
    shell.odf("apply", "--yes")
    assert "nothing new" in shell.odf("discover", "raw").out, "nothing has arrived yet"
    path = tmp_path / "bucket/raw/2026/01/01.csv"
    path.parent.mkdir(parents=True)
    path.write_text("a\n")
    shell.odf("discover", "raw")
    (tmp_path / "bucket").rename(tmp_path / "elsewhere")
    (tmp_path / "bucket").mkdir()
    refused = shell.odf("discover", "raw", code=12)
    assert "INVALID_PATH" in refused.err
    assert f"{tmp_path}/bucket of environment dev is empty, and raw 2026-01-01 was found in it" in refused.err
    (tmp_path / "bucket/other").mkdir()
    assert "nothing new" in shell.odf("discover", "raw").out


def test_a_failed_attempt_leaves_what_is_published_alone(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "bucket/raw/2026/01/01.csv"
    path.parent.mkdir(parents=True)
    path.write_text("a\n")
    shell.odf("discover", "raw")
    shell.script("jobs/make.sh", WRITE + 'echo good >"$written"')
    shell.runjob("jobs/make.sh")
    published = Path(shell.odf("where", "made", "2026-01-01").out.strip().removeprefix("local://"))
    assert published.read_text() == "good\n"
    shell.script("jobs/make.sh", WRITE + 'echo half >"$written"; exit 3')
    shell.odf("resubmit", "made", "2026-01-01", "--yes")
    shell.runjob("jobs/make.sh", code=1)
    assert published.read_text() == "good\n"
    shell.script("jobs/make.sh", "true")
    shell.odf("resubmit", "made", "2026-01-01", "--yes")
    refused = shell.runjob("jobs/make.sh", code=13).err
    assert "wrote nothing to $made_location" in refused
    assert "old output" not in refused, "what is published stays"
    assert published.read_text() == "good\n"


ELSEWHERE = """
[environment.dev]
roots = ["{root}"]

[dataset.raw]
location = "raw/{{dataid}}"

[dataset.other]
location = "other/{{dataid}}"
"""


@pytest.mark.parametrize("root", ["hdfs://localhost:1/x", "ftp://127.0.0.1:1/x"])
def test_a_driver_that_cannot_begin_is_an_invalid_path_in_one_line(tmp_path: Path, root: str) -> None:
    shell = Shell(tmp_path, extra={"JAVA_HOME": str(tmp_path), "HADOOP_HOME": str(tmp_path)})
    shell.write("dataflow.toml", ELSEWHERE.format(root=root))
    shell.odf("apply", "--yes")
    for words in (["discover", "raw"], ["ready", "raw", "1"]):
        refused = shell.odf(*words, code=12)
        assert refused.out == ""
        assert refused.err.startswith("INVALID_PATH: "), refused.err
        assert len(refused.err.splitlines()) == 2, "what happened, and what to do"
    refused = shell.odf("discover", "--all", code=12)
    assert (refused.out, len(refused.err.splitlines())) == ("", 2), "a line for each dataset, and none of what arrived"
