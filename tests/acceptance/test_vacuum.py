"""odf vacuum on folders that are another store's, or not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.shell import Shell

_PROJECT = """
[environment.dev]
roots = ["./data"]
[dataset.raw]
[dataset.made]
location = "made/{dataid}"
layout = "versioned"
[job.make]
reads = ["raw"]
writes = ["made"]
"""


@pytest.fixture
def stores(shell: Shell) -> list[Shell]:
    """Two stores of the same project, whose data lie in the same folder."""
    shell.write("dataflow.toml", _PROJECT)
    (shell.folder / "data").mkdir()
    url = shell.store_url
    urls = [f"{url}{'&' if '?' in url else '?'}schema=of_{name}" if url else f"sqlite:///{name}.db" for name in "ab"]
    found = [Shell(shell.folder, each) for each in urls]
    for each in found:
        each.odf("migrate")
        each.odf("apply", "--yes")
        each.odf("ready", "raw", "1")
    return found


@pytest.mark.parametrize("leaves", [False, True], ids=["nothing", "something"])
def test_vacuum_removes_nothing_that_another_store_on_the_folder_published(stores: list[Shell], leaves: bool) -> None:
    one, other = stores
    one.script("jobs/make.sh", ('echo half > "$made_location"; ' if leaves else "") + "exit 3")
    one.odf("run", "make", code=1)
    other.script("jobs/make.sh", 'echo whole > "$made_location"')
    other.odf("run", "make")
    gone = one.odf("vacuum", "--yes", "--json").data["removed"]
    assert [Path(each["location"]).name for each in gone] == ["v000001"] * leaves
    published = Path(other.odf("where", "made", "1").out.strip())
    assert published.read_text() == "whole\n"
    other.odf("vacuum", "--yes")
    assert published.exists()


def test_vacuum_names_a_root_that_is_not_there(stores: list[Shell]) -> None:
    shell = stores[0]
    shell.script("jobs/make.sh", 'echo half > "$made_location"; exit 3')
    shell.odf("run", "make", code=1)
    (shell.folder / "data").rename(shell.folder / "elsewhere")
    refused = shell.odf("vacuum", "--yes", code=12)
    assert "does not exist" in refused.err
    (shell.folder / "elsewhere").rename(shell.folder / "data")
    assert len(shell.odf("vacuum", "--yes", "--json").data["removed"]) == 1
