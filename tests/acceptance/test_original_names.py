"""What users of the Java original type: its programs under their own names, from any folder."""

from __future__ import annotations

import json

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


def test_a_run_can_be_ended_as_resubmit(bob: Shell) -> None:
    run = json.loads(bob.odf("startjob", "loadbob").out)["ODF_RUN"]
    assert bob.odf("end", run, "RESUBMIT").out == f"run {run}: loadbob 1 is RESUBMIT\n"
    assert statuses(bob)["bobout", "1"] == "RESUBMIT"


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


def test_a_time_that_one_verb_prints_means_the_same_to_another(bob: Shell) -> None:
    bob.runjob("./loadbob.sh")
    for zone, offset in (("UTC", " UTC"), ("Asia/Tokyo", "+09:00")):
        row = bob.odf("runs", TZ=zone).out.splitlines()[2]
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
    home.odf("Cryptor", code=2)
