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


@pytest.mark.parametrize("left", ["of the version before", "of a store that is gone"])
def test_what_lay_there_before_odf_start_is_not_the_output_of_a_handshake(shell: Shell, left: str) -> None:
    text = (
        '[dataset.raw]\n[dataset.out]\nlocation = "out/{dataid}.txt"\n[job.make]\nreads = ["raw"]\nwrites = ["out"]\n'
    )
    shell.write("dataflow.toml", text)
    shell.odf("apply", "--yes")
    shell.odf("ready", "raw", "1")
    if left == "of the version before":
        shell.script("jobs/make.sh", 'echo old > "$out_location"')
        shell.odf("run", "make")
        shell.odf("resubmit", "out", "1")
    else:
        shell.write("out/1.txt", "old")
    started = shell.odf("start", "make", "--json").data
    refused = shell.odf("end", started["ODF_RUN"], "READY", code=13)
    assert "is unchanged since the script started" in refused.err
    shell.write("out/1.txt", "new\n")  # beside the location that it is told, as an old script does
    shell.odf("end", started["ODF_RUN"], "READY")
    assert shell.odf("head", "out", "1").out == "new\n"
    shell.odf("resubmit", "out", "1")
    started = shell.odf("start", "make", "--json").data
    Path(started["out_location"]).write_text("newest\n")
    shell.odf("end", started["ODF_RUN"], "READY")
    assert [path.name for path in (shell.folder / "out").iterdir()] == ["1.txt"]


_SHARED = """
[dataset.raw]
partition = "day"

[dataset.total]
location = "out/total.csv"
partition = "day"

[job.add]
reads = ["raw"]
writes = ["total"]
"""
_DAYS = ("2026-01-01", "2026-01-02")


@pytest.mark.parametrize("left", ["of another chunk", "by a failed attempt", "of a store that is gone"])
def test_what_lay_at_a_location_of_several_chunks_is_not_the_output_of_a_script(shell: Shell, left: str) -> None:
    shell.write("dataflow.toml", _SHARED)
    shell.odf("apply", "--yes")
    shell.odf("ready", "raw", *_DAYS)
    first, second = _DAYS
    shell.script("jobs/add.sh", 'mkdir -p out; echo "$dataid" >> "$total_location"; [ ! -e fail ]')
    if left == "of another chunk":
        shell.odf("run", "add", "--dataid", first)
    elif left == "by a failed attempt":
        shell.write("fail", "")
        shell.odf("run", "add", "--dataid", first, code=1)
        (shell.folder / "fail").unlink()
    else:
        shell.write("out/total.csv", "half")
    shell.script("jobs/add.sh", "true")
    refused = shell.odf("run", "add", "--dataid", second, code=13)
    assert "is unchanged since the script started" in refused.err
    shell.script("jobs/add.sh", 'echo "$dataid" >> "$total_location"')
    shell.odf("resubmit", "total", second)
    shell.odf("run", "add", "--dataid", second)
    assert (shell.folder / "out/total.csv").read_text().endswith(f"{second}\n")


def test_what_lay_at_a_location_of_several_chunks_is_not_the_output_of_a_handshake(shell: Shell) -> None:
    shell.write("dataflow.toml", _SHARED)
    shell.odf("apply", "--yes")
    shell.odf("ready", "raw", *_DAYS)
    total = shell.write("out/total.csv", "half\n")
    started = shell.odf("start", "add", "--json").data
    refused = shell.odf("end", started["ODF_RUN"], "READY", code=13)
    assert "is unchanged since the script started" in refused.err
    total.write_text("whole\n")
    shell.odf("end", started["ODF_RUN"], "READY")


def test_a_plain_file_in_the_place_of_the_folder_of_versions_is_named_with_the_way_out(home: Shell) -> None:
    home.write("dataflow.toml", PROJECT)
    home.script("jobs/load.sh", 'echo $dataid >"$out_location"')
    home.odf("apply", "--yes")
    home.odf("ready", "raw", "1..2")
    home.odf("drain", "load")
    file = home.folder / "data" / "out" / "2.csv"
    home.write("dataflow.toml", PROJECT.replace("repeats = true", 'repeats = true\nlayout = "versioned"'))
    told = f'{file} is a file, and layout = "versioned" makes a folder there: set location = "out/versions/{{dataid}}.csv" on dataset out'
    assert f"note: {told.replace('2.csv', '1.csv')}" in home.odf("apply", "--yes").err
    home.odf("resubmit", "out", "2")
    assert told in home.odf("why", "load", "2", code=None).out, "before any attempt"
    assert told in home.odf("drain", "load", code=12).err
    assert "REFUSED" in home.odf("status").out, "no try is used up"
    text = PROJECT.replace('"out/{dataid}.csv"', '"out/versions/{dataid}.csv"')
    home.write("dataflow.toml", text.replace("repeats = true", 'repeats = true\nlayout = "versioned"'))
    assert "note:" not in home.odf("apply", "--yes").err
    home.odf("run", "load", "--dataid", "2")
    assert sorted(path.name for path in (home.folder / "data" / "out").iterdir()) == ["1.csv", "2.csv", "versions"]
    home.odf("rollback", "out", "2")
    assert home.odf("head", "out", "2").out == "2\n"
