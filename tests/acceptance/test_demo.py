"""odf demo: the whole story on five days, as a process; and what it refuses."""

from __future__ import annotations

import csv
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen
from xml.etree import ElementTree

import pytest

from opendataflow.cli.demo import make
from tests.support.shell import Answer, Shell, statuses

DAYS = [f"2013-01-0{number}" for number in range(1, 6)]
BROKEN, STALE = "2013-01-02", "2013-01-05"


@pytest.fixture
def home(tmp_path: Path) -> Shell:
    return Shell(tmp_path, patience=1500)


def served(home: Shell, *arguments: str, **extra: str) -> tuple[Answer, str]:
    """The demo, until its console is open; what it told, and what the console says of itself."""
    process = home.start("demo", "--serve", *arguments, **extra)
    assert process.stderr is not None
    told = ""
    for line in process.stderr:
        told += line
        if found := re.search(r"the console is at (\S+)", line):
            with urlopen(f"{found[1]}about") as answer:
                about = answer.read().decode()
            process.send_signal(signal.SIGINT)
            break
    out, rest = process.communicate(timeout=home.patience)
    assert process.returncode == 0, told + rest
    return Answer(0, out, told + rest), about


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_demo_breaks_in_three_ways_and_heals(home: Shell) -> None:
    told, about = served(home, "--days", "5", "--json", ODF_STORE="sqlite:///elsewhere.db")
    demo = Shell(home.folder / "odf-demo")
    assert not (home.folder / "elsewhere.db").exists(), "the demo has a store of its own"

    # Everything is whole, and each chunk was published by the attempt that should have.
    days = ("flights_raw", "weather_raw", "flights", "flights_weather")
    wanted = {(name, day) for name in days for day in DAYS} | {("delays", "2013-01"), ("plot", "2013-01")}
    assert statuses(demo) == dict.fromkeys(wanted, "READY")
    runs = demo.odf("sql", "select jobid, dataid, epoch, status, outcome, detail, owner from run", "--json").data
    published = {(run["jobid"], run["dataid"]): run["epoch"] for run in runs if run["status"] == "READY"}
    assert published["clean_flights", BROKEN] == 2

    # Yesterday's file was refused by the engine, and it said so.
    assert f"{STALE}  WRONG_DATA" in told.err
    assert f"flights_raw {DAYS[DAYS.index(STALE) - 1]}" in told.err.partition(f"{STALE}  WRONG_DATA")[2]
    assert STALE in told.err.partition(f"odf why clean_flights {STALE}")[2]
    assert [run["epoch"] for run in runs if run["dataid"] == STALE] == [1, 1], "nobody ever read it"

    # The broken rows failed their checks, with figures.
    (failed,) = [run for run in runs if run["outcome"] == "NOT_VALIDATED"]
    assert (failed["jobid"], failed["dataid"]) == ("clean_flights", BROKEN)
    assert "range(dep_delay)" in failed["detail"]

    # The worker was killed with work in its hands, which a later attempt did again.
    killed = told.data["killed"]
    assert killed
    (worker,) = {run["owner"] for run in runs if run["status"] == "LOST"}
    assert f"kill -9 -{worker.rpartition(':')[2]}" in told.err
    assert sorted(f"{run['jobid']} {run['dataid']}" for run in runs if run["status"] == "LOST") == sorted(killed)
    assert "UPDATE job_status SET status = 'RESUBMIT' WHERE status = 'FAILED'" in told.err

    # What a user wants to look at is there: the sums, the plot of them, the logs.
    (version,) = (demo.folder / "data/delays/2013-01").glob("v*")
    rows = [row for file in version.glob("*.csv") for row in csv.DictReader(file.read_text().splitlines())]
    joined = demo.odf("sql", "select sum(rows) as n from data_manifest where datasetid = 'flights_weather'", "--json")
    assert sum(int(row["flights"]) for row in rows) == joined.data[0]["n"]
    assert told.data["plots"] == [str(demo.folder / "data/plot/2013-01.svg")]
    picture = ElementTree.parse(told.data["plots"][0])
    words = [each.text for each in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {row["carrier"] for row in rows} <= set(words)
    assert list((demo.folder / ".odf/logs").rglob("*.log"))
    assert "cd odf-demo" in told.err
    for noise in ("WARN", "Traceback", "log4j", "Stage "):
        assert noise not in told.err
    assert not (demo.folder / "spark-warehouse").exists()

    # At its end the console shows it.
    assert "odf serve --listen" in told.err
    assert "<dd>flights</dd>" in about

    # It does not run over what is there.
    assert "--again" in home.odf("demo", code=2).err
    assert "READY" in statuses(demo).values()


def test_a_demo_starts_over_and_keeps_what_it_did_not_make(tmp_path: Path) -> None:
    make(tmp_path, 5, again=False)
    assert f'end = "{DAYS[-1]}"' in (tmp_path / "dataflow.toml").read_text()
    home = Shell(tmp_path)
    mine, old = home.write("notes.txt", "mine"), home.write("data/flights/old.parquet", "old")
    make(tmp_path, 40, again=True)
    assert mine.exists()
    assert not old.exists()
    assert 'end = "2013-02-09"' in (tmp_path / "dataflow.toml").read_text()


def test_the_project_of_the_demo_can_be_played_by_hand(tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "examples/spark-pipeline"
    home = Shell(shutil.copytree(example, tmp_path / "flights", ignore=shutil.ignore_patterns("data", "*.db*", ".odf")))
    assert "+ job join_weather" in home.odf("apply", "--yes").out
    subprocess.run([sys.executable, "deliver.py", "--days", "31"], cwd=home.folder, check=True, timeout=240)
    for name in ("flights_raw", "weather_raw"):
        assert home.odf("discover", name).out == "31 READY\n"
    assert home.odf("drain", "--dry-run", "--json").data["clean_flights"][0] == "2013-01-01"


def test_a_folder_that_is_not_a_demo_is_left_alone(home: Shell) -> None:
    home.write("mine/dataflow.toml", "mine")
    refused = home.odf("demo", "mine", code=2).err
    assert "BAD_CONFIG" in refused
    assert "odf demo FOLDER" in refused
    assert [path.name for path in (home.folder / "mine").iterdir()] == ["dataflow.toml"]
    home.odf("demo", "--store", "sqlite:///mine.db", code=2)


def test_the_story_can_be_read_without_running_it(home: Shell) -> None:
    told = home.odf("demo", "--dry-run", "--serve").out
    assert "kill -9" in told
    assert "odf serve" in told
    assert "RESUBMIT" in told
    assert not list(home.folder.iterdir())


def test_a_browser_is_opened_only_where_a_console_is(home: Shell) -> None:
    assert "odf demo --serve --open" in home.odf("demo", "--open", code=2).err


def test_without_java_nothing_is_made(home: Shell) -> None:
    missing = home.odf("demo", code=2, JAVA_HOME=str(home.folder / "nowhere")).err
    assert "MISSING_DEPENDENCY" in missing
    assert "Java 17" in missing
    assert not list(home.folder.iterdir())
