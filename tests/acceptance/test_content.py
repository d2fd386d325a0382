"""A file is what it was when its content is: bit rot is found, a touch is nothing, a correction is a new version."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from opendataflow.insight.chunk_sheet import chunk_sheet
from opendataflow.project import load, roots_of
from opendataflow.store import open_store
from tests.support.shell import Shell, statuses

MB = 1 << 20
TOML = """
[environment.dev]
roots = ["./data"]
{verify}
[dataset.raw]
location = "raw/{{dataid}}.csv"

[dataset.clean]
location = "clean/{{dataid}}.csv"

[job.load]
reads = ["raw"]
writes = ["clean"]
"""


@pytest.fixture
def project(shell: Shell) -> Shell:
    """A job that copies its input, on both stores."""
    declare(shell)
    shell.script("jobs/load.sh", 'mkdir -p "${clean_location%/*}"; cp "$raw_location" "$clean_location"')
    return shell


def declare(shell: Shell, verify: str = "") -> None:
    shell.write("dataflow.toml", TOML.format(verify=f'verify = "{verify}"\n' if verify else ""))
    shell.odf("apply", "--yes")


def large(path: Path, middle: str = "....") -> None:
    """A file of 3 MiB that differs only in its middle, where no sample would look."""
    half = (path.stem + "\n").ljust(16, ".") * (3 * MB // 32)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(half + middle + half)


def rot(path: Path) -> None:
    """Change one byte, and keep size and time."""
    before = path.stat()
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.fault(29)
def test_bit_rot_with_size_and_time_kept_is_refused_and_audit_names_the_file(project: Shell) -> None:
    for day in ("1", "2"):
        large(project.folder / f"data/raw/{day}.csv")
    project.odf("ready", "raw", "1", "2")
    assert "every file" in project.odf("audit").out
    rot(project.folder / "data/raw/1.csv")
    refused = project.odf("run", "--dataid", "1", "load", code=13)
    assert "1.csv" in refused.err
    found = project.odf("audit", "--json", code=13).data
    assert [(each["datasetid"], each["dataid"]) for each in found["problems"]] == [("raw", "1")]
    assert "1.csv" in found["problems"][0]["why"]
    assert "1.csv" in project.odf("audit", "raw", "1", code=13).out
    project.odf("audit", "raw", "2")
    assert "→ odf ready --again raw 1" in project.odf("why", "load", "1").out
    assert "→ odf ready --again raw 1" in project.odf("explain", "raw", "1").out
    declared = load(project.folder / "dataflow.toml", None)
    url = project.store_url or f"sqlite:///{project.folder}/dataflow.db"
    with open_store(url) as store:
        store.roots = lambda: roots_of(declared, url)
        (reason,) = chunk_sheet(store, declared, "clean", "1").reasons
    ways = ("odf ready --again raw 1", "odf run load --dataid 1")
    assert (reason.name, reason.commands) == ("NOT_VALIDATED", ways), "as the page tells it"
    project.odf("run", "--dataid", "2", "load")


def test_where_only_size_and_time_count_rot_is_left_to_audit(project: Shell) -> None:
    declare(project, "stat")
    large(project.folder / "data/raw/1.csv")
    project.write("data/raw/2.csv", "small")
    project.odf("ready", "raw", "1", "2")
    rot(project.folder / "data/raw/1.csv")
    rot(project.folder / "data/raw/2.csv")
    found = project.odf("audit", "--json", code=13).data
    assert [each["dataid"] for each in found["problems"]] == ["2"], "a large file has no checksum then"
    assert found["without_checksum"] == 1
    project.odf("run", "--dataid", "1", "load")


def test_a_corrected_large_file_is_a_new_version_and_a_touch_is_nothing(project: Shell) -> None:
    path = project.folder / "data/raw/1.csv"
    large(path)
    project.odf("discover", "raw", "--quiet-for", "0")
    os.utime(path, (1, 1))
    assert "nothing new arrived" in project.odf("discover", "raw", "--quiet-for", "0").out
    assert "1 unchanged" in project.odf("ready", "raw", "1").out
    project.odf("run", "load")
    large(path, "new!")
    assert "READY" in project.odf("discover", "raw", "--quiet-for", "0").out
    assert project.odf("explain", "raw", "1", "--json").data["chunk"]["version"] == 2
    project.odf("ready", "--again", "raw", "1", "--why", "as it is now")
    assert project.odf("explain", "raw", "1", "--json").data["chunk"]["version"] == 3


def test_status_names_the_chunk_of_the_remark_that_it_shows_of_several(project: Shell) -> None:
    for day in ("1", "2", "3", "4"):
        project.write(f"data/raw/{day}.csv", f"{day}\n")
    project.odf("discover", "raw", "--quiet-for", "0")
    script = 'mkdir -p "${clean_location%/*}"; echo $(( (dataid - 1) / 2 )) > "$clean_location"'
    project.script("jobs/load.sh", script)
    project.odf("drain", "load", "--workers", "1")
    shown = project.odf("status", "clean").out
    assert "WARNED   clean  2, 4\n" in shown
    assert "4 and 1 more: warning: repeats: same_content_as 3" in shown


def test_what_a_script_writes_twice_is_published_with_a_remark_or_refused_where_the_dataset_is_strict(
    project: Shell,
) -> None:
    for day in ("1", "2", "3"):
        project.write(f"data/raw/{day}.csv", f"{day}\n")
    project.odf("discover", "raw", "--quiet-for", "0")
    project.script("jobs/load.sh", 'mkdir -p "${clean_location%/*}"; echo same > "$clean_location"')
    project.odf("run", "load")
    published = project.odf("run", "load")
    assert "load 2 is READY; clean: warning: repeats: same_content_as 1" in published.err
    assert "WARNED   clean  2: warning: repeats" in project.odf("status", "clean").out
    declare_repeats(project, "false")
    refused = project.odf("run", "load", code=11)
    assert "clean 3 would have exactly the content of clean 1" in refused.err
    assert statuses(project)["clean", "3"] == "FAILED"
    declare_repeats(project, "true")
    project.odf("resubmit", "clean", "3")
    assert "warning" not in project.odf("run", "load").err
    assert statuses(project)["clean", "3"] == "READY"


def declare_repeats(project: Shell, value: str) -> None:
    declared = TOML.format(verify="").replace('{dataid}.csv"\n\n[job', f'{{dataid}}.csv"\nrepeats = {value}\n\n[job')
    project.write("dataflow.toml", declared)
    project.odf("apply", "--yes")


def test_a_file_that_a_job_fetches_twice_is_refused_at_the_commit(home: Shell) -> None:
    home.write(
        "dataflow.toml",
        '[dataset.call]\n[dataset.rates]\nlocation = "{dataid}.csv"\n[job.pull]\nreads = ["call"]\nwrites = ["rates"]\n',
    )
    home.odf("apply", "--yes")
    home.odf("ready", "call", "1", "2")
    home.script("jobs/pull.sh", 'echo same > "$rates_location"')
    home.odf("run", "pull")
    assert "rates 2 would have exactly the content of rates 1" in home.odf("run", "pull", code=11).err


def test_audit_says_what_is_gone_and_what_was_added(home: Shell) -> None:
    home.write("dataflow.toml", '[dataset.parts]\nlocation = "parts/{dataid}"\n')
    home.odf("apply", "--yes")
    for day in ("1", "2", "3"):
        home.write(f"parts/{day}/a.csv", f"a {day}\n")
        home.write(f"parts/{day}/b.csv", f"b {day}\n")
    home.odf("ready", "parts", "1", "2", "3")
    (home.folder / "parts/1/a.csv").unlink()
    home.write("parts/1/b.csv", "shorter")
    home.write("parts/1/c.csv", "more")
    shutil.rmtree(home.folder / "parts/2")
    found = home.odf("audit", "parts", "--json", code=13).data
    assert sorted((each["dataid"], each["why"].rpartition("/")[2]) for each in found["problems"]) == [
        ("1", "file a.csv is gone"),
        ("1", "file b.csv has 7 bytes instead of 4"),
        ("1", "file c.csv was added"),
        ("2", "2 is gone"),
    ]
    assert found["chunks"] == 3
