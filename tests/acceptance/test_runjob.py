"""RunJob as an ETL engineer uses it: existing scripts, unchanged."""

from __future__ import annotations

import os
import signal
import time
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.shell import Shell, statuses

BOB = (
    "insert into dataset (datasetid) values ('bobin')",
    "insert into dataset (datasetid) values ('bobout')",
    "insert into job (datasetid,itemtype,jobid) values ('bobout','OUT','loadbob')",
    "insert into job (datasetid,itemtype,jobid) values ('bobin','IN','loadbob')",
)


def announce(dataid: str, datasetid: str = "bobin") -> str:
    return (
        "insert into datastatus (dataid,datasetid,jobid,locktype,modified,status) "
        f"values ('{dataid}','{datasetid}','fakejob','OUT',now(),'READY')"
    )


def chain(shell: Shell) -> None:
    """raw → a → b → c, each by a script of its own."""
    names = ("raw", "a", "b", "c")
    shell.dml(*(f"insert into dataset (datasetid, partition) values ('{name}', 'day')" for name in names))
    for reads, writes in pairwise(names):
        shell.dml(
            f"insert into job (jobid,itemtype,datasetid) values ('make_{writes}','IN','{reads}')",
            f"insert into job (jobid,itemtype,datasetid) values ('make_{writes}','OUT','{writes}')",
        )
        shell.script(f"make_{writes}.sh", f'echo "{writes} $dataid" >> ran.txt\n[ ! -e broken_{writes} ]')


def ran(shell: Shell) -> list[str]:
    file = shell.folder / "ran.txt"
    return file.read_text().split("\n")[:-1] if file.exists() else []


def test_the_originals_tutorial_from_an_empty_folder_to_the_refused_second_run(shell: Shell) -> None:
    shell.script("loadbob.sh", 'echo "dataid=$dataid in=$bobin_itemtype out=$bobout_itemtype job=$jobid $*"')
    shell.dml(*BOB, announce("1.0"))
    first = shell.runjob("./loadbob.sh", "--with", "my args")
    assert "dataid=1.0 in=IN out=OUT job=loadbob --with my args" in first.out
    assert statuses(shell) == {("bobin", "1.0"): "READY", ("bobout", "1.0"): "READY"}
    second = shell.runjob("./loadbob.sh")
    assert "NOTHING_TO_DO" in second.err
    assert "dataid" not in second.out
    shell.runjob("--fail-if-none", "./loadbob.sh", code=15)
    runs = shell.odf("runs", "--json").data
    assert [(run["jobid"], run["dataid"], run["status"]) for run in runs] == [("loadbob", "1.0", "READY")]


def test_an_unknown_script_is_told_how_to_register_itself(home: Shell) -> None:
    home.script("newjob.sh")
    answer = home.runjob("./newjob.sh", code=2)
    assert "UNKNOWN_JOB" in answer.err
    assert "values ('newjob', 'IN', 'INPUT')" in answer.err


def test_a_chain_of_three_jobs_heals_after_a_failure_by_one_update(shell: Shell) -> None:
    chain(shell)
    shell.dml(announce("2025-11-12", "raw"))
    shell.runjob("./make_a.sh")
    shell.write("broken_b", "")
    failed = shell.runjob("./make_b.sh", code=1)
    assert "JOB_FAILED" in failed.err
    assert statuses(shell)["b", "2025-11-12"] == "FAILED"
    for name, code in (("a", 0), ("b", 14), ("c", 10)):
        shell.runjob(f"./make_{name}.sh", code=code)
    assert ran(shell) == ["a 2025-11-12", "b 2025-11-12"], "a FAILED chunk stays until somebody says RESUBMIT"
    (shell.folder / "broken_b").unlink()
    shell.dml("UPDATE job_status SET status = 'RESUBMIT' WHERE dataid = '2025-11-12'")
    for _ in range(2):
        for name in ("c", "b", "a"):
            shell.runjob("--quiet-no", f"./make_{name}.sh")
    shell.runjob("./make_c.sh")
    assert ran(shell)[2:] == ["a 2025-11-12", "b 2025-11-12", "c 2025-11-12"], (
        "in order, whatever the order of the calls"
    )
    assert set(statuses(shell).values()) == {"READY"}


def test_two_terminals_that_race_for_one_job_get_different_chunks(shell: Shell) -> None:
    shell.dml(*BOB, *(announce(str(number)) for number in range(1, 9)))
    shell.script("loadbob.sh", "sleep 0.3; echo $dataid")
    seen: list[str] = []
    for _ in range(4):
        both = [shell.start("run", "./loadbob.sh") for _ in range(2)]
        seen += [each.communicate(timeout=240)[0].strip() for each in both]
    assert sorted(seen, key=int) == [str(number) for number in range(1, 9)]


def test_a_cron_line_catches_up_a_missed_week(shell: Shell) -> None:
    chain(shell)
    days = [f"2025-11-{day:02d}" for day in range(3, 10)]
    shell.dml(*(announce(day, "raw") for day in reversed(days)))
    for _ in range(len(days)):
        shell.runjob("./make_a.sh")
        shell.runjob("./make_b.sh")
    assert [line.split()[1] for line in ran(shell) if line.startswith("a")] == days
    assert [line.split()[1] for line in ran(shell) if line.startswith("b")] == days


def test_a_given_dataid_is_refused_by_name_with_its_exit_code_and_the_receipt_is_kept(shell: Shell) -> None:
    shell.dml(*BOB, announce("1"))
    shell.script("loadbob.sh")
    assert "DATA_NOT_READY" in shell.runjob("--dataid", "7", "./loadbob.sh", code=10).err
    shell.runjob("--dataid", "1", "./loadbob.sh")
    assert "LOCKED" in shell.runjob("--dataid", "1", "./loadbob.sh", code=14).err
    assert shell.odf("sql", "select verdict from receipt order by receiptid", "--json").data == [
        {"verdict": "DATA_NOT_READY"},
        {"verdict": "YES"},
        {"verdict": "LOCKED"},
    ]


def test_force_runs_without_asking_says_so_loudly_and_is_remembered(shell: Shell) -> None:
    shell.dml(*BOB)
    shell.script("loadbob.sh", "echo forced $dataid")
    answer = shell.runjob("--force", "--dataid", "42", "./loadbob.sh")
    assert "FORCED" in answer.err
    assert "forced 42" in answer.out
    assert [run["forced"] for run in shell.odf("runs", "--json").data] == [True]
    shell.runjob("--force", "./loadbob.sh", code=2)


def test_start_and_end_let_a_script_do_the_handshake_itself(shell: Shell) -> None:
    shell.dml(*BOB, announce("1"), announce("2"))
    exports = shell.odf("start", "loadbob").out
    assert "export dataid=1" in exports
    run = next(line.partition("=")[2] for line in exports.splitlines() if line.startswith("export ODF_RUN="))
    assert statuses(shell)["bobout", "1"] == "RUNNING"
    shell.odf("end", run, "READY")
    assert statuses(shell)["bobout", "1"] == "READY"
    shell.odf("end", run, "READY", code=16)
    other = shell.odf("start", "loadbob", "--json").data
    shell.odf("end", other["ODF_RUN"], "ERROR", "--why", "the file was cut")
    assert statuses(shell)["bobout", "2"] == "FAILED"
    shell.odf("start", "loadbob", code=14)


def test_what_odf_end_may_not_publish_stays_with_its_holder(home: Shell) -> None:
    home.write(
        "dataflow.toml",
        '[project]\nname = "x"\n[dataset.raw]\n[dataset.out]\nlocation = "out/{dataid}.csv"\n'
        '[job.make]\nreads = ["raw"]\nwrites = ["out"]\n',
    )
    home.odf("apply", "--yes")
    home.odf("ready", "raw", "1")
    run = home.odf("start", "make", "--json").data["ODF_RUN"]
    home.odf("end", run, "READY", code=12)
    assert statuses(home)["out", "1"] == "RUNNING"
    home.write("out/1.csv", "a\n1\n")
    home.odf("end", run, "READY")
    assert statuses(home)["out", "1"] == "READY"


def test_a_handshake_whose_variables_cannot_be_told_leaves_nothing_locked(shell: Shell) -> None:
    shell.dml(
        "insert into dataset (datasetid) values ('a-b'), ('a.b'), ('out')",
        "insert into job (jobid, itemtype, datasetid) values ('join', 'IN', 'a-b'), ('join', 'IN', 'a.b'), ('join', 'OUT', 'out')",
    )
    shell.odf("ready", "a-b", "1")
    shell.odf("ready", "a.b", "1")
    shell.odf("start", "join", code=2)
    assert statuses(shell)["out", "1"] == "FAILED"


def test_the_output_is_captured_and_can_be_read_again(home: Shell) -> None:
    home.dml(*BOB, announce("1"))
    home.script("loadbob.sh", "echo to stdout; echo to stderr >&2")
    home.runjob("--quiet", "./loadbob.sh")
    log = home.odf("log", "1").out
    assert "to stdout" in log
    assert "to stderr" in log


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_ends_its_child_and_leaves_nothing_locked(home: Shell, number: signal.Signals) -> None:
    home.dml(*BOB, announce("1"))
    home.script("loadbob.sh", "echo $$ > pid; sleep 60")
    running = home.start("run", "./loadbob.sh")
    deadline = time.monotonic() + 240
    while not (home.folder / "pid").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    running.send_signal(number)
    running.communicate(timeout=240)
    assert running.returncode == 130
    assert statuses(home)["bobout", "1"] == "RESUBMIT"
    home.script("loadbob.sh", "true")
    home.runjob("./loadbob.sh")
    assert statuses(home)["bobout", "1"] == "READY"


def test_a_python_script_and_a_binary_run_as_well(home: Shell) -> None:
    home.dml(*BOB, announce("1"), announce("2"))
    home.write("loadbob.py", "import os\nprint('python', os.environ['dataid'])\n")
    assert "python 1" in home.runjob("./loadbob.py").out
    (home.folder / "loadbob").symlink_to("/usr/bin/env")
    assert "dataid=2" in home.runjob("./loadbob").out


def test_a_dataset_named_like_an_obeyed_variable_only_gives_prefixed_ones(home: Shell) -> None:
    for name in ("PATH", "LD_PRELOAD", "BASH_ENV"):
        home.dml(f"insert into dataset (datasetid, hostname) values ('{name}', '/evil')")
    home.dml(
        "insert into job (jobid,itemtype,datasetid) values ('odd','IN','PATH'), ('odd','IN','LD_PRELOAD')",
        "insert into job (jobid,itemtype,datasetid) values ('odd','OUT','BASH_ENV')",
        announce("1", "PATH"),
        announce("1", "LD_PRELOAD"),
    )
    home.script(
        "odd.sh", 'echo "$PATH_hostname $LD_PRELOAD_hostname $BASH_ENV_hostname ${LD_PRELOAD:-none}"; ls > /dev/null'
    )
    assert "/evil /evil /evil none" in home.runjob("./odd.sh").out


def test_code_planted_in_the_store_is_never_executed(home: Shell) -> None:
    evil = "$(touch pwned)`touch pwned`; touch pwned; {{7*7}} __import__(''os'').system(''touch pwned'')"
    home.dml(
        f"insert into dataset (datasetid, hostname, database, schemaname, tablename, username) "
        f"values ('bobin', '{evil}', '{evil}', '{evil}', '{evil}', '{evil}')",
        *BOB[1:],
        announce("1"),
        f"insert into job (jobid,itemtype,itemvalue) values ('loadbob','NOTE','{evil}')",
    )
    home.script("loadbob.sh", 'echo "$bobin_hostname" "$item_NOTE" > seen.txt')
    home.runjob("./loadbob.sh")
    assert "touch pwned" in (home.folder / "seen.txt").read_text()
    assert not (home.folder / "pwned").exists()


@pytest.mark.parametrize("dataid", ["a'b", "a\nb", "../etc", "-rf", "x" * 10_000, "\u202eabc", "a b"])
def test_hostile_dataids_are_refused_and_nothing_is_written(home: Shell, dataid: str) -> None:
    home.dml(*BOB)
    home.script("loadbob.sh")
    home.odf("ready", "bobin", "--", dataid, code=2)
    home.runjob(f"--dataid={dataid}", "./loadbob.sh", code=2)
    assert statuses(home) == {}


def test_a_wrong_key_is_refused_before_anything_is_claimed(home: Shell) -> None:
    token = home.odf(
        "crypt", "encrypt", "--for", "bobin", "--hostname", "", stdin="s3cret-passw0rd", PASSKEY="right"
    ).out.strip()
    home.dml(f"insert into dataset (datasetid, encryptedpass) values ('bobin', '{token}')", *BOB[1:], announce("1"))
    home.script(
        "loadbob.sh", 'echo "got ${#bobin_password} characters: $bobin_password"; env | grep -c PASSKEY || true'
    )
    assert "BAD_KEY" in home.runjob("./loadbob.sh", code=17).err
    assert "BAD_KEY" in home.runjob("./loadbob.sh", code=17, PASSKEY="wrong").err
    assert ("bobout", "1") not in statuses(home)
    answer = home.runjob("./loadbob.sh", PASSKEY="right")
    assert "got 15 characters: [redacted]" in answer.out
    assert "\n0\n" in answer.out, "the key does not reach the child"
    kept = b"".join(path.read_bytes() for path in home.folder.rglob("*") if path.is_file())
    assert b"s3cret-passw0rd" not in kept


def test_the_stores_password_never_shows_when_the_store_cannot_be_reached(home: Shell) -> None:
    answer = home.odf("status", "--store", "postgresql://etl:hush-hush@127.0.0.1:1/nowhere", code=75)
    assert "hush-hush" not in answer.err + answer.out
    assert "STORE_UNREACHABLE" in answer.err


def test_a_log_is_kept_for_thirty_days_and_its_run_for_good(home: Shell) -> None:
    home.script("loadbob.sh", 'echo "loading $dataid"')
    home.dml(*BOB, announce("1"), announce("2"), announce("3"))
    home.runjob("./loadbob.sh")
    home.runjob("./loadbob.sh")
    logs = home.folder / ".odf/logs"
    first, second = (home.odf("log", run, "--json").data["path"] for run in ("1", "2"))
    month = time.time() - 31 * 86400
    for path in (first, logs / ".pruned"):
        os.utime(path, (month, month))
    home.runjob("./loadbob.sh")
    assert not Path(first).exists()
    answer = home.odf("log", "1", "--json", code=2)
    assert (answer.data["error"], "30 days" in answer.data["hint"]) == ("UNKNOWN_RUN", True)
    assert "loading 2" in Path(second).read_text()
    assert [run["dataid"] for run in home.odf("runs", "--json").data] == ["3", "2", "1"]


def test_every_no_about_a_failed_chunk_names_its_cause(shell: Shell) -> None:
    shell.dml(
        "insert into dataset (datasetid) values ('a'), ('b')",
        "insert into job (jobid, itemtype, datasetid) values ('j', 'IN', 'a'), ('j', 'OUT', 'b')",
    )
    shell.odf("ready", "a", "1")
    script = shell.script("j.sh", "exit 7")
    shell.runjob("./j.sh", code=1)
    cause = "b 1 is FAILED: JOB_FAILED, not retried"
    assert f"LOCKED: no chunk of j can run now; first in line is 1: {cause}" in shell.runjob("./j.sh", code=14).err
    assert f"LOCKED: {cause}" in shell.runjob("--dataid", "1", "./j.sh", code=14).err
    assert cause in shell.odf("start", "j", code=14).err
    assert cause in shell.odf("run", "j", "--dry-run").out
    assert ": JOB_FAILED, not retried; stays FAILED until it is resubmitted" in shell.odf("explain", "b", "1").out
    script.write_text("#!/bin/sh\n")
    shell.odf("resubmit", "b", "1")
    shell.runjob("./j.sh")
    shell.odf("fail", "b", "1")
    assert "b 1 is FAILED\n" in shell.runjob("--dataid", "1", "./j.sh", code=14).err
    assert "not retried" not in shell.odf("explain", "b", "1").out.partition("\n")[0]
