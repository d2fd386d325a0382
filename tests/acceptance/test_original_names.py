"""What users of the Java original type: its programs under their own names, from any folder."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.shell import Shell, statuses

BOB = (
    "insert into dataset (datasetid) values ('bobin'), ('bobout')",
    "insert into job (jobid, itemtype, datasetid) values ('loadbob', 'IN', 'bobin'), ('loadbob', 'OUT', 'bobout')",
)


@pytest.fixture
def bob(shell: Shell) -> Shell:
    shell.dml(*BOB)
    shell.odf("ready", "bobin", "1", "2")
    shell.script("loadbob.sh", "echo loading $dataid")
    return shell


def test_getjob_says_which_chunk_is_next(bob: Shell) -> None:
    assert json.loads(bob.odf("getjob", "loadbob").out)["dataid"] == "1"
    bob.runjob("./loadbob.sh")
    assert json.loads(bob.odf("GetJobData", "loadbob").out)["dataid"] == "2"
    bob.runjob("./loadbob.sh")
    assert json.loads(bob.odf("getjob", "loadbob").out)["dataid"] is None


def test_the_original_programs_work_under_their_own_names(bob: Shell) -> None:
    assert json.loads(bob.odf("LaunchJob", "loadbob").out)["dataid"] == "1"
    bob.odf("SetJobEndStatus", "loadbob", "1", "READY")
    assert statuses(bob)["bobout", "1"] == "READY"
    bob.odf("DeleteRun", "loadbob", "1")
    assert ("bobout", "1") not in statuses(bob)
    for program in ("GetJobs", "GetDataSets", "GetJobRuns", "CreateTables"):
        bob.odf(program)
    bob.odf("ddl", "update job_status set status = 'RESUBMIT'")
    assert "dataid" in json.loads(bob.odf("forcejobts", "loadbob").out)


@pytest.mark.parametrize(("status", "after"), [("RESUBMIT", "RESUBMIT"), ("RERUN", "RESUBMIT"), ("HOLD", "HOLD")])
def test_endjob_sets_any_status_that_a_person_may_set(bob: Shell, status: str, after: str) -> None:
    bob.odf("startjob", "loadbob")
    bob.odf("endjob", "loadbob", "1", status)
    assert statuses(bob)["bobout", "1"] == after


@pytest.mark.parametrize("words", [("end", "1"), ("endjob", "loadbob", "1")])
@pytest.mark.parametrize("status", ["RESUBMIT", "HOLD", "PENDING"])
def test_a_run_that_is_ended_by_hand_does_not_fail(bob: Shell, words: tuple[str, ...], status: str) -> None:
    bob.odf("startjob", "loadbob")
    after = "RESUBMIT" if status == "RESUBMIT" else "HOLD"
    why = ("--why", "no time") if words[0] == "end" else ()
    assert bob.odf(*words, status, *why).out == f"run 1: loadbob 1 is {after}\n"
    assert statuses(bob)["bobout", "1"] == after
    (run,) = json.loads(bob.odf("runs", "--json").out)
    assert (run["status"], run["outcome"]) == ("LOST", "STOPPED")
    assert f"ended {after} by " in run["detail"]
    assert run["detail"].endswith(": no time" if why else "")
    report = json.loads(bob.odf("report", "--json").out)["counts"]
    assert (report["runs"], report["stopped"], report["failed"]) == (1, 1, 0)
    if after == "HOLD":
        bob.odf("release", "bobout", "1")
        assert statuses(bob)["bobout", "1"] == "RESUBMIT"
    assert "loading 1" in bob.runjob("./loadbob.sh").out
    bob.odf("end", "1", status, code=16)


def test_endjob_of_a_chunk_that_does_not_run_steers_it(bob: Shell) -> None:
    bob.runjob("./loadbob.sh")
    assert bob.odf("endjob", "loadbob", "1", "RESUBMIT").out == "loadbob 1 is RESUBMIT\n"
    assert bob.odf("endjob", "loadbob", "1", "HOLD").out == "loadbob 1 is HOLD\n"
    bob.odf("release", "bobout", "1")
    bob.runjob("./loadbob.sh")
    assert bob.odf("endjob", "loadbob", "1", "ERROR", "--dry-run").out == "loadbob 1 would be FAILED\n"
    assert bob.odf("endjob", "loadbob", "1", "ERROR").out == "loadbob 1 is FAILED\n"
    assert statuses(bob)["bobout", "1"] == "FAILED"
    assert "LOCKED: loadbob 1 is not running" in bob.odf("endjob", "loadbob", "1", "READY", code=14).err


def test_runjob_from_another_folder_finds_the_project_beside_the_script(home: Shell) -> None:
    project = Shell(home.folder / "project", extra=home.extra)
    elsewhere = Shell(home.folder / "elsewhere", extra=home.extra)
    for shell in (project, elsewhere):
        shell.folder.mkdir()
    project.dml(*BOB)
    project.odf("ready", "bobin", "1")
    script = project.script("loadbob.sh", "echo loading $dataid")
    assert "loading 1" in elsewhere.runjob(str(script)).out
    assert not list(elsewhere.folder.iterdir())


@pytest.mark.parametrize("words", [("ready", "bobin", "1"), ("start", "loadbob"), ("run", "./loadbob.sh")])
def test_a_wrong_folder_is_named_and_no_empty_store_stays_behind(home: Shell, words: tuple[str, ...]) -> None:
    home.script("loadbob.sh")
    assert str(home.folder / "dataflow.db") in home.odf(*words, code=2).err
    assert not (home.folder / "dataflow.db").exists()


@pytest.mark.postgres
def test_on_postgresql_only_createtables_makes_the_tables(home: Shell, postgres_url: str) -> None:
    home.store_url = postgres_url
    home.script("loadbob.sh")
    for words in (("ddl", BOB[0]), ("ready", "bobin", "1"), ("startjob", "loadbob"), ("run", "./loadbob.sh")):
        refused = home.odf(*words, code=2).err
        assert refused.startswith("STORE_MISSING"), words
        assert "odf migrate" in refused, words
    home.odf("createtables")
    assert "2 rows changed" in home.odf("ddl", BOB[0]).out


def test_a_time_that_one_verb_prints_means_the_same_to_another(bob: Shell) -> None:
    bob.runjob("./loadbob.sh")
    for zone, offset in (("UTC", " UTC"), ("Asia/Tokyo", "+09:00")):
        bob.write("dataflow.toml", f'[project]\ntimezone = "{zone}"\n')
        row = bob.odf("runs", TZ="Europe/Berlin").out.splitlines()[2]
        started = row[row.index("20") : row.index(offset) + len(offset)]
        bob.odf("history", "--since", started, TZ="America/New_York")
        bob.odf("status", "--at", started, TZ="America/New_York")


def test_a_name_of_the_other_kind_is_named_as_such(bob: Shell) -> None:
    assert "bobin is a dataset" in bob.odf("why", "bobin", code=2).err
    assert "loadbob is a job" in bob.odf("explain", "loadbob", "1").err


@pytest.mark.parametrize("status", ["HOLD", "PENDING"])
def test_a_run_can_be_ended_as_set_aside(bob: Shell, status: str) -> None:
    run = json.loads(bob.odf("startjob", "loadbob").out)["ODF_RUN"]
    assert bob.odf("end", run, status).out == f"run {run}: loadbob 1 is HOLD\n"
    assert statuses(bob)["bobout", "1"] == "HOLD"


def test_forcejob_takes_a_script_and_a_dataid(bob: Shell) -> None:
    bob.script("loadbob.sh", 'echo "loading $dataid with $*"')
    assert "loading 7 with fast" in bob.odf("ForceJob", "./loadbob.sh", "7", "fast").out
    assert statuses(bob)["bobout", "7"] == "READY"
    bob.odf("ForceJob", "./loadbob.sh", "--dry-run", code=2)  # no dataid
    assert "would be claimed" in bob.odf("ForceJob", "--dry-run", "./loadbob.sh", "8").out


def test_cryptor_encrypts_and_decrypts_in_its_own_spelling(home: Shell) -> None:
    sealed = home.odf("Cryptor", "-e", "plugh", "sesame").out.strip()
    assert "sesame" not in sealed
    assert home.odf("Cryptor", "-d", "plugh", sealed).out == "sesame\n"
    written_by_java = "ZpLfE+uTYE2mdmjOPrukol3yu+cpAHBnmL6trHa9PHGj"
    assert home.odf("Cryptor", "-d", "plugh", written_by_java).out == "plugh\n"
    refused = home.odf("Cryptor", "-d", "wr0ng-key", sealed, code=17).err
    assert "wr0ng-key" not in refused
    assert home.odf("crypt", "-d", "plugh", written_by_java).out == "plugh\n"  # as its utility.sh says it
    assert home.odf("Cryptor", "-d", "plugh", home.odf("crypt", "-e", "plugh", "xyzzy").out.strip()).out == "xyzzy\n"
    home.odf("Cryptor", code=2)


@pytest.mark.parametrize("is_read_only_job", [False, True])
def test_rows_may_come_in_any_order_until_something_runs(shell: Shell, is_read_only_job: bool) -> None:
    job = BOB[1].partition(", ('loadbob', 'OUT'")[0] if is_read_only_job else BOB[1]
    shell.odf("ddl", job)
    shell.script("loadbob.sh", "echo loading $dataid")
    early = shell.runjob("./loadbob.sh", code=2).err
    assert "BAD_DEFINITION: job loadbob reads dataset bobin, which does not exist" in early
    assert "insert into dataset (datasetid) values ('bobin')" in early
    assert "loadbob" in shell.odf("doctor", code=1).out
    shell.odf("ddl", BOB[0])
    shell.odf("ready", "bobin", "1")
    assert "loading 1" in shell.runjob("./loadbob.sh").out


def test_forcejob_prints_what_startjob_prints(bob: Shell) -> None:
    bob.extra["PASSKEY"] = "plugh-plugh-plugh"
    sealed = bob.odf("Cryptor", "-e", bob.extra["PASSKEY"], "sesame").out.strip()
    bob.dml(f"update dataset set encryptedpass = '{sealed}', hostname = 'localhost' where datasetid = 'bobin'")
    started = json.loads(bob.odf("startjob", "loadbob").out)
    forced = json.loads(bob.odf("forcejob", "loadbob", "2").out)
    assert started["bobin_password"] == forced["bobin_password"] == "sesame"
    assert started["bobin_encryptedpass"] == forced["bobin_encryptedpass"] == sealed
    assert "sesame" not in bob.odf("getjob", "loadbob").out


def test_all_verbs_print_the_same_clock(bob: Shell) -> None:
    """That of the project, wherever the reader is: a time that is typed without its zone means what was printed."""
    bob.write("dataflow.toml", '[project]\ntimezone = "Asia/Kolkata"\n')
    bob.runjob("./loadbob.sh")
    bob.odf("pause", "loadbob", "--why", "x")
    verbs = (
        "runs",
        "history",
        "explain bobout 1",
        "why loadbob",
        "jobs loadbob",
        "timeline",
        "report",
        "status --at now",
        "log 1",
    )
    for verb in verbs:
        printed = bob.odf(*verb.split(), TZ="America/New_York").out
        zones = set(re.findall(r"\d\d:\d\d:\d\d(?:\.\d+)?( UTC| [A-Z]{3}|[+-]\d\d:\d\d|)", printed))
        assert zones, verb
        assert zones <= {"+05:30", " IST"}, printed


def test_every_time_that_a_verb_prints_is_read_in_another_zone(bob: Shell) -> None:
    bob.write("dataflow.toml", '[project]\ntimezone = "Asia/Shanghai"\n')
    bob.odf("pool", "set", "etl", "4", "--create")
    bob.dml('update pool set options = \'{"hours": ["Mon-Sun 02:00-20:00 -> 3"], "timezone": "Europe/Berlin"}\'')
    for zone, other in (("America/Chicago", "UTC"), ("Asia/Tokyo", "America/New_York"), ("UTC", "Asia/Kolkata")):
        bob.odf("pause", "loadbob", "--why", "x")
        now = datetime.now(UTC)
        for words in (
            ("why", "loadbob"),
            ("why", "loadbob", "1"),
            ("jobs", "loadbob"),
            ("run", "./loadbob.sh"),
            ("pool",),
        ):
            told = bob.odf(*words, code=None, TZ=zone)
            (time,) = set(re.findall(r"(?:since|from) (\d.*?(?: UTC|[+-]\d\d:\d\d))", told.out + told.err)) or {""}
            assert time, (words, told)
            if words == ("pool",):
                assert datetime.fromisoformat(time.replace(" UTC", "+00:00")).minute == 0
                continue
            meant = bob.odf("status", "--at", time, "--json", TZ=other).data["at"]
            assert abs(datetime.fromisoformat(meant) - now) < timedelta(minutes=2), (words, time, meant)
        bob.odf("resume", "loadbob")


@pytest.mark.parametrize("has_project", [True, False])
def test_a_key_in_front_of_a_script_is_refused_from_any_folder(home: Shell, has_project: bool) -> None:
    project, elsewhere = Shell(home.folder / "project"), Shell(home.folder / "elsewhere")
    for shell in (project, elsewhere):
        shell.folder.mkdir()
    if has_project:
        project.dml(*BOB)
    script = project.script("loadbob.sh")
    for program in ("run", "ForceJob"):
        told = elsewhere.odf(program, "s3same-key", str(script), code=2)
        assert "a key is no argument here" in told.err
        assert "s3same" not in told.err + told.out
    assert not list(elsewhere.folder.iterdir())


@pytest.mark.parametrize("verb", ["run", "start", "drain"])
def test_a_dataset_where_a_job_is_meant_is_named_with_its_job(bob: Shell, verb: str) -> None:
    told = bob.odf(verb, "bobin", code=2).err
    assert "UNKNOWN_JOB: bobin is a dataset, and no job; no job produces it\n" in told
    assert "insert into" not in told
    if verb != "drain":  # which takes it for the job that produces it
        told = bob.odf(verb, "bobout", code=2).err
        assert "UNKNOWN_JOB: bobout is a dataset, and no job\n" in told
        assert "Name the job that produces it: loadbob" in told


def test_doctor_names_the_original_s_tables_once_and_import_names_its_script(home: Shell) -> None:
    assert "SCRIPT TO 'original.sql'" in home.odf("import", "--original", "nosuch.sql", code=2).err
    with closing(sqlite3.connect(home.folder / "dataflow.db")) as store:
        store.execute("create table job (jobid text, itemtype text, datasetid text)")
        store.execute("create table dataset (datasetid text)")
        store.execute("create table datastatus (datasetid text, jobid text, dataid text, locktype text, status text)")
        store.commit()
    found = [each for each in home.odf("doctor", "--json", code=1).data if each["ok"] is False]
    assert [each["what"] for each in found if "STORE_TAKEN" in each["found"]] == ["store"], found
