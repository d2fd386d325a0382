"""Where a script starts, and what of the files around it counts as its output."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.shell import Shell

PROJECT = """
[environment.dev]
roots = ["./data"]

[dataset.raw]
partition = "number"

[dataset.out]
location = "out/{dataid}.csv"
partition = "number"
repeats = true

[job.load]
reads = ["raw"]
writes = ["out"]

[job.named]
reads = ["raw"]
folder = "work"
"""


def test_where_a_script_starts(home: Shell) -> None:
    home.write("dataflow.toml", PROJECT)
    home.script("jobs/load.sh", 'pwd >"$out_location"')
    home.script("jobs/named.sh", "pwd")
    (home.folder / "work").mkdir()
    home.odf("apply", "--yes")
    home.odf("ready", "raw", "1..4")
    elsewhere = Shell(home.folder / "work")
    out = home.folder / "data" / "out"
    home.runjob("jobs/load.sh")
    elsewhere.runjob("../jobs/load.sh")
    elsewhere.runjob("load")
    assert [Path((out / f"{day}.csv").read_text().strip()).name for day in (1, 2, 3)] == [
        home.folder.name,
        "work",
        home.folder.name,
    ]
    home.odf("drain", "load")
    assert (out / "4.csv").read_text().strip() == str(home.folder)
    assert home.runjob("jobs/named.sh").out.strip() == str(home.folder / "work")


@pytest.mark.parametrize("left", ["of the version before", "by a failed attempt", "by somebody"])
def test_what_lay_there_before_the_script_started_is_not_its_output(home: Shell, left: str) -> None:
    home.write(
        "dataflow.toml",
        '[dataset.raw]\n[dataset.out]\nlocation = "out/{dataid}.txt"\n[job.make]\nreads = ["raw"]\nwrites = ["out"]\n',
    )
    home.script(
        "jobs/make.sh",
        'if [ -e fail ]; then mkdir -p out; echo half > out/$dataid.txt; exit 1; fi; echo whole > "$out_location"',
    )
    home.odf("apply", "--yes")
    home.odf("ready", "raw", "1")
    if left == "by somebody":
        home.write("out/1.txt", "old")
    elif left == "by a failed attempt":
        home.write("fail", "")
        home.odf("run", "make", code=1)
        home.odf("resubmit", "out", "1")
    else:
        home.odf("run", "make")
        home.odf("resubmit", "out", "1")
    home.script("jobs/make.sh", "exit 0")
    refused = home.odf("run", "make", code=13)
    assert "the script wrote nothing" in refused.err
    home.script("jobs/make.sh", "echo again > out/$dataid.txt")
    home.odf("resubmit", "out", "1")
    home.odf("run", "make")
    assert home.odf("head", "out", "1").out == "again\n"
