"""A project with dataflow.toml, from init to the refused wrong file."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tests.support.shell import Shell, statuses


def make(home: Shell) -> Shell:
    home.odf("init", "shop")
    inside = Shell(home.folder / "shop", extra=home.extra)
    inside.odf("apply", "--yes")
    return inside


def test_init_gives_a_project_that_runs_at_once(home: Shell) -> None:
    shop = make(home)
    found = shop.odf("discover", "names_raw", "--json").data
    assert [(each["dataid"], each["verdict"]) for each in found] == [("2025-11-12", "READY"), ("2025-11-13", "READY")]
    shop.runjob("jobs/greet.sh")
    shop.odf("run", "greet")
    assert "NOTHING_TO_DO" in shop.runjob("jobs/greet.sh").err
    assert (shop.folder / "data/greetings/2025-11-12.txt").read_text() == "Hello, Ada!\nHello, Grace!\n"
    home.odf("init", "shop", code=2)


def test_apply_shows_the_difference_first_and_dry_run_writes_nothing(home: Shell) -> None:
    home.odf("init", ".")
    plan = home.odf("apply", "--dry-run").out
    assert "+ job greet" in plan
    assert not (home.folder / "dataflow.db").exists()
    home.odf("apply", "--yes")
    assert home.odf("apply", "--dry-run", "--json").data["changes"] == []
    toml = (home.folder / "dataflow.toml").read_text()
    home.write("dataflow.toml", toml.replace("retries = 1", "retries = 3"))
    assert "retries: 1 -> 3" in home.odf("apply", "--dry-run").out


def test_every_error_of_the_project_file_names_file_table_and_key(home: Shell) -> None:
    home.odf("init", ".")
    toml = (home.folder / "dataflow.toml").read_text()
    home.write("dataflow.toml", toml.replace('partition = "day"', 'partition = "fortnight"', 1))
    error = home.odf("apply", "--yes", code=2).err
    assert all(word in error for word in ("dataflow.toml", "dataset.names_raw", "partition", "fortnight"))


def test_yesterdays_file_under_todays_name_is_wrong_data(home: Shell) -> None:
    shop = make(home)
    shop.odf("discover", "names_raw")
    shutil.copy(shop.folder / "data/names/2025-11-13.csv", shop.folder / "data/names/2025-11-14.csv")
    assert "2025-11-13" in shop.odf("ready", "names_raw", "2025-11-14", code=11).err
    found = shop.odf("discover", "names_raw", "--json", code=11).data
    assert [(each["dataid"], each["verdict"]) for each in found] == [("2025-11-14", "WRONG_DATA")]
    assert ("names_raw", "2025-11-14") not in statuses(shop)


def test_of_many_arrivals_only_the_refused_ones_are_listed(home: Shell) -> None:
    shop = make(home)
    for day in range(14, 29):
        shop.write(f"data/names/2025-11-{day}.csv", f"name of {day}\n")
    shutil.copy(shop.folder / "data/names/2025-11-14.csv", shop.folder / "data/names/2025-11-15.csv")
    told = shop.odf("discover", "names_raw", code=11).out
    assert "16 READY, 1 WRONG_DATA" in told
    assert "2025-11-15  WRONG_DATA" in told
    assert "2025-11-20" not in told


def test_a_file_that_changed_after_it_was_published_is_not_validated(home: Shell) -> None:
    shop = make(home)
    shop.odf("ready", "names_raw", "2025-11-12..2025-11-13")
    shop.write("data/names/2025-11-12.csv", "Ada\n")
    refused = shop.runjob("jobs/greet.sh", code=13)
    assert "2025-11-12.csv" in refused.err
    assert ("greetings", "2025-11-12") not in statuses(shop), "the claim was given back"
    shop.runjob("jobs/greet.sh")
    assert statuses(shop)["greetings", "2025-11-13"] == "READY", "others go first meanwhile"
    shop.odf("ready", "names_raw", "2025-11-12")
    shop.runjob("jobs/greet.sh")
    assert statuses(shop)["greetings", "2025-11-12"] == "READY"


def test_a_missing_input_or_an_unwritable_output_is_an_invalid_path(home: Shell) -> None:
    shop = make(home)
    shop.odf("ready", "names_raw", "2025-11-12")
    (shop.folder / "data/names/2025-11-12.csv").unlink()
    assert "INVALID_PATH" in shop.runjob("jobs/greet.sh", code=12).err
    shop.odf("ready", "names_raw", "2025-12-24", code=12)


def test_an_input_that_was_swapped_for_a_link_to_elsewhere_is_an_invalid_path(home: Shell) -> None:
    shop = make(home)
    shop.odf("ready", "names_raw", "2025-11-12..2025-11-13")
    for day in (12, 13):
        file = shop.folder / f"data/names/2025-11-{day}.csv"
        elsewhere = shop.folder / ("secret.csv" if day == 12 else "data/beside.csv")
        file.rename(elsewhere)  # the same bytes, size and time
        file.symlink_to(elsewhere)
    refused = shop.runjob("jobs/greet.sh", code=12)
    assert "INVALID_PATH" in refused.err
    assert "2025-11-12.csv" in refused.err
    assert ("greetings", "2025-11-12") not in statuses(shop)
    shop.runjob("jobs/greet.sh")
    assert statuses(shop)["greetings", "2025-11-13"] == "READY", "a link inside the roots is fine"
    (receipt,) = shop.odf("sql", "select distinct verdict from receipt where dataid = '2025-11-12'", "--json").data
    assert receipt["verdict"] == "INVALID_PATH"


def test_a_link_inside_a_chunk_must_not_lead_outside_either(home: Shell) -> None:
    shop = make(home)
    toml = (shop.folder / "dataflow.toml").read_text()
    shop.write("dataflow.toml", toml.replace("names/{dataid}.csv", "parts/{dataid}"))
    shop.odf("apply", "--yes")
    for day in (12, 13):
        shop.write(f"data/parts/2025-11-{day}/deep/a.csv", f"Ada {day}\n")
    shop.odf("ready", "names_raw", "2025-11-12")
    shop.write("secret.csv", "Eve\n")
    for day in (12, 13):
        (shop.folder / f"data/parts/2025-11-{day}/deep/b.csv").symlink_to(shop.folder / "secret.csv")
    for refused in (
        shop.runjob("jobs/greet.sh", code=12),
        shop.odf("ready", "names_raw", "2025-11-13", code=12),
    ):
        assert "INVALID_PATH" in refused.err
        assert "deep/b.csv" in refused.err


def test_a_script_that_writes_nothing_does_not_publish(home: Shell) -> None:
    shop = make(home)
    shop.odf("ready", "names_raw", "2025-11-12")
    shop.script("jobs/greet.sh", "true")
    shop.runjob("jobs/greet.sh", code=12)
    assert statuses(shop)["greetings", "2025-11-12"] == "RESUBMIT", "the job has a retry left"


@pytest.mark.fault(17)
def test_a_store_refuses_the_project_of_another_environment(home: Shell) -> None:
    shop = make(home)
    toml = (shop.folder / "dataflow.toml").read_text()
    shop.write("dataflow.toml", toml + '\n[environment.prod]\nroots = ["./data"]\n')
    shop.odf("ready", "names_raw", "2025-11-12")
    assert "INVALID_PATH" in shop.runjob("--env", "prod", "jobs/greet.sh", code=12).err
    assert "INVALID_PATH" in shop.odf("apply", "--yes", "--env", "prod", code=12).err
    assert ("greetings", "2025-11-12") not in statuses(shop)


@pytest.mark.fault(17)
def test_a_location_outside_the_roots_is_refused_before_anything_is_launched(home: Shell) -> None:
    shop = make(home)
    toml = (shop.folder / "dataflow.toml").read_text()
    shop.write("dataflow.toml", toml.replace("greetings/{dataid}.txt", "../../elsewhere/{dataid}.txt"))
    shop.odf("apply", "--yes")
    shop.odf("ready", "names_raw", "2025-11-12")
    assert "INVALID_PATH" in shop.runjob("jobs/greet.sh", code=12).err
    assert not (home.folder / "elsewhere").exists()


def test_a_marker_file_says_when_a_chunk_has_arrived(home: Shell) -> None:
    shop = make(home)
    toml = (shop.folder / "dataflow.toml").read_text()
    shop.write(
        "dataflow.toml",
        toml.replace(
            'location = "names/{dataid}.csv"', 'location = "names/{dataid}.csv"\nready = { marker = "{dataid}.done" }'
        ),
    )
    shop.odf("apply", "--yes")
    assert shop.odf("discover", "names_raw", "--json").data == []
    shop.write("data/names/2025-11-13.done", "")
    assert [each["dataid"] for each in shop.odf("discover", "names_raw", "--json").data] == ["2025-11-13"]


def test_the_properties_file_of_the_original_is_read(home: Shell, postgres_url: str) -> None:
    jdbc = "jdbc:" + postgres_url.replace("postgres@", "")
    home.write("dataflow.properties", f"url={jdbc}\nuser=postgres\nschema=dataflow\n")
    home.odf("createtables")
    home.dml("insert into dataset (datasetid) values ('bobin')")
    assert [each["datasetid"] for each in home.odf("datasets", "--json").data] == ["bobin"]


def test_the_doctor_finds_nothing_wrong_with_a_fresh_project(home: Shell) -> None:
    shop = make(home)
    found = {each["what"]: each["ok"] for each in shop.odf("doctor", "--json").data}
    assert found["store"] is True
    assert found["root"] is True
    assert found["python"] is True


def test_apply_and_the_doctor_name_a_table_that_cannot_refuse_an_older_attempt(home: Shell) -> None:
    table = '[dataset.raw]\n[dataset.lake]\nkind = "table"\nformat = "delta"\ntablename = "lake"\n'
    home.write("dataflow.toml", f'{table}[job.load]\nreads = "raw"\nwrites = "lake"\n')
    said = "dataset lake: a table of format delta stores no epoch"
    assert f"note: {said}" in home.odf("apply", "--yes").err
    (found,) = (each for each in home.odf("doctor", "--json", code=None).data if each["what"] == "fence")
    assert (found["ok"], found["found"].startswith(said)) == (None, True)


def test_the_doctor_says_of_everything_that_is_wrong_how_to_fix_it(home: Shell) -> None:
    shop = make(home)
    shop.folder.joinpath("data").rename(shop.folder / "gone")
    broken = shop.script("java/bin/java", "echo no version").parent.parent
    wrong = {"JAVA_HOME": str(broken), "PASSKEY_FILE": "/nowhere", "ODF_STORE": "postgresql://x@127.0.0.1:1/x"}
    found = {each["what"]: each for each in shop.odf("doctor", "--json", code=1, **wrong).data}
    assert {name for name, each in found.items() if each["ok"] is False} == {"java", "key", "root", "store"}
    assert all(each["mend"] for each in found.values() if each["ok"] is not True)
    assert found["root"]["mend"].endswith(f"mkdir -p {shop.folder / 'data'}")
    told = shop.odf("doctor", code=1, **wrong).out
    assert all(f"  {name}: {each['mend']}" in told for name, each in found.items() if each["ok"] is False)
    names = {each["what"] for each in shop.odf("doctor", "--json", code=1).data}
    assert {
        "python",
        "java",
        "spark",
        "project",
        "key",
        "root",
        "store",
        "environment",
        "clock",
        "leases",
        "applied",
    } == names


def test_bash_completes_verbs_options_and_choices(home: Shell) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    script = """eval "$(_ODF_COMPLETE=bash_source odf)"
        for COMP_LINE in "odf res" "odf drain --w" "odf init --template s"; do
            COMP_WORDS=($COMP_LINE); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
            COMPREPLY=(); _odf_completion odf; echo "${COMPREPLY[@]}"
        done"""
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=home.folder,
        env={**home.environment, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == ["rescue resubmit resume", "--workers", "scripts spark"], done.stderr


def test_the_version_is_that_of_the_package(home: Shell) -> None:
    assert home.odf("--version").out == f"odf, version {metadata.version('opendataflow')}\n"


def test_a_change_can_be_looked_at_without_running_any_of_it(home: Shell) -> None:
    home.write("dataflow.toml", '[dataset.raw]\n\n[dataset.clean]\n\n[job.make]\nreads = "raw"\nwrites = "clean"\n')
    home.write(
        "jobs/evil.py",
        'import pathlib\npathlib.Path("owned").touch()\nfrom opendataflow import job\n\n\n'
        '@job(reads="clean", writes="other")\ndef evil(clean):\n    return clean\n',
    )
    answer = home.odf("apply", "--dry-run", "--no-code")
    assert "+ job make" in answer.out
    assert "evil" not in answer.out
    assert "jobs/evil.py" in answer.err
    assert not (home.folder / "owned").exists()
    assert home.odf("apply", "--no-code", "--prune", "--yes", code=2).err.startswith("USAGE")
    home.odf("apply", "--no-code", "--yes")
    assert [each["jobid"] for each in home.odf("jobs", "--json").data] == ["make"]
    assert not (home.folder / "owned").exists()


@pytest.mark.fault(32)
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_project_of_another_user_is_not_obeyed_in_the_folders_below(home: Shell) -> None:
    home.write("dataflow.toml", '[environment.dev]\nroots = ["."]\nstore.url = "sqlite:///theirs.db"\n')
    os.chown(home.folder / "dataflow.toml", 54321, 54321)
    (home.folder / "below").mkdir()
    answer = Shell(home.folder / "below").odf("status", code=2)
    assert answer.err.startswith("BAD_CONFIG")
    assert "safe = [" in answer.err
    assert not (home.folder / "theirs.db").exists()
    home.write("config.toml", f'safe = ["{home.folder}"]\n')
    (home.folder / "config.toml").chmod(0o600)
    home.odf("migrate", ODF_CONFIG=str(home.folder / "config.toml"))


def test_discover_all_looks_everywhere_and_a_refused_file_stops_nothing(home: Shell) -> None:
    shop = make(home)
    toml = (shop.folder / "dataflow.toml").read_text()
    more = '[dataset.colours_raw]\nlocation = "colours/{dataid}.csv"\nformat = "csv"\npartition = { type = "day" }\n'
    shop.write("dataflow.toml", f"{toml}\n{more}")
    shop.odf("apply", "--yes")
    shop.write("data/names/2025-11-14.csv", (shop.folder / "data/names/2025-11-13.csv").read_text())
    shop.write("data/colours/2025-11-12.csv", "red\n")
    told = shop.odf("discover", "--all", "--quiet-for", "0", "--json", code=11).data
    assert {(each["dataset"], each["dataid"], each["verdict"]) for each in told} == {
        ("names_raw", "2025-11-12", "READY"),
        ("names_raw", "2025-11-13", "READY"),
        ("names_raw", "2025-11-14", "WRONG_DATA"),
        ("colours_raw", "2025-11-12", "READY"),
    }
    assert "nothing new arrived" in shop.odf("discover", "colours_raw").out
    assert "odf discover --all" in shop.odf("discover", code=2).err
