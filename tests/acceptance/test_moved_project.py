"""A project that is renamed, restored or carried elsewhere, its SQLite store included, goes on."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.shell import Shell, statuses

TOML = """
[environment.dev]
roots = ["./data"]

[dataset.raw]
location = "raw/{dataid}.csv"

[dataset.clean]
location = "clean/{dataid}"

[job.load]
reads = ["raw"]
writes = ["clean"]
"""


def moved(home: Shell) -> Shell:
    there = home.folder.parent / "carried"
    os.rename(home.folder, there)
    return Shell(there)


@pytest.fixture
def project(tmp_path: Path) -> Shell:
    """Three days announced, the first of them loaded and the third in two versions."""
    made = Shell(tmp_path / "before")
    made.write("dataflow.toml", TOML)
    made.script("jobs/load.sh", 'mkdir -p "$clean_location" && cat "$raw_location" > "$clean_location/all.csv"')
    made.odf("apply", "--yes")
    for day in ("1", "2", "3"):
        made.write(f"data/raw/{day}.csv", f"day {day}\n")
    made.odf("discover", "raw", "--quiet-for", "0")
    made.odf("run", "load")
    made.write("data/raw/3.csv", "day 3, corrected\n")
    made.odf("ready", "raw", "3")
    return made


def goes_on(home: Shell) -> None:
    assert statuses(home)["clean", "1"] == "READY"
    assert str(home.folder / "data/clean/1") in home.odf("explain", "clean", "1").out
    assert "not what was published" not in home.odf("explain", "raw", "1").out
    assert "day 1" in (home.folder / "data/clean/1/all.csv").read_text()
    home.odf("log", "1")
    home.odf("run", "load")
    assert statuses(home)["clean", "2"] == "READY"
    home.write("data/raw/3.csv", "day 3\n")
    home.odf("rollback", "raw", "3")
    home.odf("run", "load")
    assert (home.folder / "data/clean/3/all.csv").read_text() == "day 3\n"
    home.odf("vacuum", "--yes")
    assert (home.folder / "data/clean/1/all.csv").exists()


def test_a_moved_project_goes_on(project: Shell) -> None:
    goes_on(moved(project))


def test_locations_of_older_stores_are_understood_and_migrate_makes_them_relative(project: Shell) -> None:
    kept = {row["location"] for row in project.odf("sql", "select location from data_manifest", "--json").data}
    assert kept == {"raw/1.csv", "raw/2.csv", "raw/3.csv", "clean/1"}
    # as an older version kept them
    project.odf("dml", f"update data_manifest set location = '{project.folder}/data/' || location")
    assert "not what was published" not in project.odf("explain", "clean", "1").out
    assert "5 versions would be" in project.odf("migrate", "--dry-run").err
    assert "5 versions are now" in project.odf("migrate").err
    assert "versions" not in project.odf("migrate").err
    goes_on(moved(project))


def test_a_folder_without_a_project_file_can_be_moved_too(tmp_path: Path) -> None:
    home = Shell(tmp_path / "before")
    home.script("load.sh", 'echo "$dataid" > "$made_location"')
    home.dml(
        "insert into dataset (datasetid, location) values ('made', 'made-{dataid}.csv')",
        "insert into dataset (datasetid) values ('done')",
        "insert into job (jobid, itemtype, datasetid) values ('load', 'OUT', 'made'), "
        "('read', 'IN', 'made'), ('read', 'OUT', 'done')",
    )
    home.odf("run", "--dataid", "1", "./load.sh")
    there = moved(home)
    there.script("read.sh", 'cat "$made_location"')
    elsewhere = Shell(tmp_path, f"sqlite:///{there.folder}/dataflow.db")
    assert f"{there.folder}/made-1.csv" in elsewhere.odf("explain", "made", "1").out
    assert there.odf("run", "./read.sh").out.startswith("1\n")


@pytest.mark.parametrize("kept", ["../secret.csv", "raw/../../secret.csv", "{outside}/secret.csv", "raw/link.csv"])
def test_a_location_in_the_store_leads_nowhere_outside_the_roots(project: Shell, kept: str) -> None:
    project.write("secret.csv", "secret\n")
    (project.folder / "data/raw/link.csv").symlink_to(project.folder / "secret.csv")
    location = kept.format(outside=project.folder)
    files = json.dumps({"files": [["secret.csv", 7]]})
    project.odf(
        "dml",
        f"update data_manifest set location = '{location}', body = '{files}' where datasetid = 'raw' and dataid = '2'",
    )
    assert "INVALID_PATH" in project.odf("run", "--dataid", "2", "load", code=12).err
    assert not (project.folder / "data/clean/2").exists()
