"""odf drain as processes: limits, failures, second drains, kills, and what a person sees."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.shell import ODF, Shell, statuses

PROJECT = """
[pool.etl]
slots = {slots}
[dataset.raw]
partition = "number"
[dataset.clean]
partition = "number"
[dataset.sums]
partition = "number"
[job.clean_raw]
reads = ["raw"]
writes = ["clean"]
pool = "etl"
script = "jobs/clean_raw.sh"
{rules}
[job.sum_up]
reads = ["clean"]
writes = ["sums"]
"""
STEP = 'echo "$jobid $dataid" >> done.txt'


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that a test left behind are ended."""
    found: list[subprocess.Popen[str]] = []
    yield found
    for process in found:
        if process.poll() is None:
            process.kill()
        process.communicate()


def project(shell: Shell, clean: str = STEP, *, chunks: int = 6, slots: int = 4, rules: str = "") -> None:
    """raw → clean_raw → clean → sum_up → sums, both jobs as scripts."""
    shell.write("dataflow.toml", PROJECT.format(slots=slots, rules=rules))
    shell.script("jobs/clean_raw.sh", f'cd "{shell.folder}"\n{clean}')
    shell.script("jobs/sum_up.sh", f'cd "{shell.folder}"\n{STEP}')
    shell.odf("apply", "--yes")
    shell.odf("ready", "raw", f"1..{chunks}")


def done(shell: Shell) -> list[str]:
    path = shell.folder / "done.txt"
    return path.read_text().splitlines() if path.exists() else []


def wait_for(what: Callable[[], object], seconds: float = 240) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.05)


def runs(shell: Shell, jobid: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = shell.odf("runs", jobid, "--json").data
    return found


def test_all_jobs_are_drained_in_the_order_of_the_data(shell: Shell) -> None:
    project(shell)
    answer = shell.odf("drain", "--workers", "3")
    assert "12 READY" in answer.out
    assert Counter(line.split()[0] for line in done(shell)) == {"clean_raw": 6, "sum_up": 6}
    for number in map(str, range(1, 7)):
        assert done(shell).index(f"clean_raw {number}") < done(shell).index(f"sum_up {number}")
    assert len([line for line in answer.err.splitlines() if ": READY" in line]) == 12
    assert "nothing to do" in shell.odf("drain").out


def test_a_chunk_that_used_up_its_tries_is_failed_with_every_attempt_and_log(shell: Shell) -> None:
    project(shell, 'echo "try $ODF_ATTEMPT"; [ $dataid != 2 ]', chunks=3, rules="retries = 2\nbackoff = 0.1")
    answer = shell.odf("drain", "clean_raw", "--json", code=1)
    assert answer.data["outcomes"] == {"JOB_FAILED": 3, "READY": 2}
    assert statuses(shell)["clean", "2"] == "FAILED"
    attempts = [run for run in runs(shell, "clean_raw") if run["dataid"] == "2"]
    assert [(run["epoch"], run["status"], run["outcome"]) for run in attempts] == [
        (epoch, "FAILED", "JOB_FAILED") for epoch in (3, 2, 1)
    ]
    for run in attempts:
        assert f"try {run['epoch']}" in shell.odf("log", str(run["runid"])).out


def test_only_the_named_outcomes_are_tried_again(shell: Shell) -> None:
    rules = 'retries = 2\nbackoff = 0.1\nretry_on = ["TIMED_OUT"]'
    hang = (
        f'[dataset.hung]\npartition = "number"\n[job.hang]\nreads = ["raw"]\nwrites = ["hung"]\ntimeout = 0.5\n{rules}'
    )
    shell.script("jobs/hang.sh", "sleep 300")
    project(shell, "exit 1", chunks=1, rules=f"{rules}\n{hang}")
    found = shell.odf("drain", "clean_raw", "hang", "--json", code=1).data
    assert found["outcomes"] == {"JOB_FAILED": 1, "TIMED_OUT": 3}


def test_the_report_groups_failures_and_its_command_resubmits_them(shell: Shell) -> None:
    broken = (
        f'if [ ! -e mended ]; then case $dataid in 2|4) echo "no table t$dataid"; exit 3;; 5) exit 9;; esac; fi; {STEP}'
    )
    project(shell, broken)
    answer = shell.odf("drain", code=1)
    assert "2 × clean_raw JOB_FAILED: exit code 3" in answer.out
    assert "1 × clean_raw JOB_FAILED: exit code 9" in answer.out
    assert "the slowest:" in answer.out
    (command,) = [line.strip() for line in answer.out.splitlines() if line.startswith("  odf resubmit")]
    again = shell.odf("drain", code=1)
    assert "nothing to do" in again.out
    assert "left of clean_raw: 3 chunks FAILED; see: odf why clean_raw" in again.out
    found = shell.odf("drain", "--json", code=1).data
    assert (found["outcomes"], found["left"][0]["failed"]) == ({}, 3)
    shell.odf("hold", "clean", "2", "4", "5", "--yes")
    assert shell.odf("drain").code == 0, "what a person has set aside is nobody's failure"
    shell.odf("release", "clean", "2", "4", "5", "--yes")
    shell.write("mended", "")
    assert sorted(command.split()[3:-1]) == ["2", "4", "5"]
    shell.odf(*command.split()[1:])
    assert shell.odf("drain", "--json").data["outcomes"] == {"READY": 6}
    assert set(statuses(shell).values()) == {"READY"}


def test_a_pause_holds_and_is_over_when_somebody_says_so(shell: Shell, started: list[subprocess.Popen[str]]) -> None:
    project(shell, "touch begun; while [ ! -e go ]; do sleep 0.05; done", slots=1)
    started.append(drain := shell.start("drain", "clean_raw"))
    wait_for(lambda: (shell.folder / "begun").exists())
    shell.odf("pool", "set", "etl", "0")
    shell.write("go", "")
    wait_for(lambda: Counter(statuses(shell).values())["READY"] == 7)
    time.sleep(3)
    assert drain.poll() is None, "it waits for the pool"
    assert Counter(statuses(shell).values()) == {"READY": 7}, "what ran ended in peace, and nothing new began"
    assert "pool etl is paused" in shell.odf("why", "clean_raw").out
    shell.odf("pool", "set", "etl", "2")
    drain.communicate(timeout=240)
    assert drain.returncode == 0
    assert Counter(statuses(shell).values()) == {"READY": 12}
    assert [run["epoch"] for run in runs(shell, "clean_raw")] == [1] * 6


def test_a_pool_limits_all_drains_together(shell: Shell, started: list[subprocess.Popen[str]]) -> None:
    met = "until [ $(grep -c + log) -ge 2 ]; do sleep 0.05; done"  # the first one waits for the second
    project(shell, f"echo + >> log; {met}; sleep 0.3; echo - >> log", slots=2, chunks=8)
    started += [shell.start("drain", "clean_raw", "--workers", "4") for _ in range(2)]
    for process in started:
        assert process.wait(timeout=240) == 0
    running = most = 0
    for line in (shell.folder / "log").read_text().split():
        running += 1 if line == "+" else -1
        most = max(most, running)
    assert most == 2
    assert [run["epoch"] for run in runs(shell, "clean_raw")] == [1] * 8


def test_the_hours_of_a_project_file_reach_the_store(shell: Shell) -> None:
    project(shell, rules="")
    text = (shell.folder / "dataflow.toml").read_text()
    shell.write(
        "dataflow.toml",
        text.replace("slots = 4", 'slots = 4\nhours = ["00:00-24:00 → 0"]\ntimezone = "Europe/Paris"'),
    )
    shell.odf("apply", "--yes")
    assert shell.odf("pool", "--json").data[0]["now"] == 0
    assert "0 (paused)" in shell.odf("pool").out
    assert shell.runjob("clean_raw", code=14).err.startswith("LOCKED")


def test_a_second_drain_needs_nothing_and_takes_other_chunks(
    shell: Shell, started: list[subprocess.Popen[str]]
) -> None:
    project(shell, f"until [ -e go ]; do sleep 0.05; done; {STEP}", chunks=20, slots=10)
    started += [shell.start("drain", "--workers", "5", "--json") for _ in range(2)]
    wait_for(lambda: Counter(statuses(shell).values())["RUNNING"] == 10)  # as many as both have hands
    shell.write("go", "")
    answers = [json.loads(process.communicate(timeout=240)[0]) for process in started]
    assert sum(answer["outcomes"]["READY"] for answer in answers) == 40
    assert all(answer["outcomes"]["READY"] >= 5 for answer in answers)
    assert sorted(done(shell)) == sorted({*done(shell)})


def test_a_chunk_of_a_killed_drain_runs_again_through_another_one(
    shell: Shell, started: list[subprocess.Popen[str]]
) -> None:
    """It has no backlog that would keep it: the second drain stays because a chunk elsewhere is silent."""
    once = "if [ $dataid = 1 ] && [ ! -e begun ]; then touch begun; sleep 60; fi"
    project(shell, f"{once}; {STEP}", chunks=3, rules="lease = 8\nretries = 1")
    started.append(first := shell.start("drain", "clean_raw", "--workers", "1"))
    wait_for(lambda: (shell.folder / "begun").exists())
    os.kill(first.pid, signal.SIGKILL)
    started.append(second := shell.start("drain", "clean_raw", "--json"))
    wait_for(lambda: len(done(shell)) >= 2)
    answer = json.loads(second.communicate(timeout=240)[0])
    assert answer["outcomes"] == {"READY": 3}
    assert sorted(done(shell)) == ["clean_raw 1", "clean_raw 2", "clean_raw 3"]
    found = {(run["dataid"], run["epoch"]): (run["status"], run["outcome"]) for run in runs(shell, "clean_raw")}
    assert found["1", 1][1] == "LEASE_LOST"
    assert found["1", 2] == ("READY", "READY")


def test_a_drain_that_follows_takes_what_comes_and_is_started_again_for_what_is_new(
    shell: Shell, started: list[subprocess.Popen[str]]
) -> None:
    project(shell, chunks=1)
    started.append(drain := shell.start("drain", "--follow"))
    wait_for(lambda: len(done(shell)) == 2)
    shell.odf("ready", "raw", "2")
    wait_for(lambda: len(done(shell)) == 4)
    text = (shell.folder / "dataflow.toml").read_text()
    shell.write("dataflow.toml", text + '[job.tell]\nreads = ["sums"]\n')
    shell.script("jobs/tell.sh", f'cd "{shell.folder}"\n{STEP}')
    shell.odf("apply", "--yes")
    out, err = drain.communicate(timeout=240)
    assert " READY in" in out, "what it did is told all the same"
    assert (drain.returncode, "PROJECT_CHANGED: dataflow.toml" in err) == (19, True), err
    started.append(drain := shell.start("drain", "--follow"))
    wait_for(lambda: "tell 2" in done(shell))
    drain.terminate()
    assert " READY in" in drain.communicate(timeout=240)[0], "what it did is told all the same"
    assert drain.returncode == 130
    assert "RUNNING" not in statuses(shell).values()


def test_naming_jobs_and_all_of_them_is_refused(home: Shell) -> None:
    project(home)
    assert home.odf("drain", "clean_raw", "--all", code=2).err.startswith("USAGE")
    assert home.odf("drain", "--all", "--dry-run", "--json").data == {"clean_raw": list("12345"), "sum_up": []}


def test_a_terminal_shows_a_table_that_moves(home: Shell) -> None:
    project(home, "sleep 0.2; [ $dataid != 3 ]")
    seen = on_a_terminal(home.folder, home.environment, "drain")
    for word in ("job", "done", "running", "failed", "waiting", "clean_raw", "/s", "pool etl"):
        assert word in seen
    assert "clean_raw 3: JOB_FAILED" in seen, "what failed is told at once"
    assert "clean_raw 2: READY" not in seen
    assert "odf resubmit clean 3 --yes" in seen


def test_the_report_says_how_much_can_still_run(shell: Shell) -> None:
    project(shell, STEP, chunks=2)
    shell.odf("pause", "clean_raw")
    assert "left of clean_raw: 2 chunks that can still run; see: odf why clean_raw" in shell.odf("drain").out


def test_what_is_failed_of_a_job_that_is_left_out_counts(shell: Shell) -> None:
    project(shell, "exit 1", chunks=2)
    shell.odf("drain", code=1)
    toml = (shell.folder / "dataflow.toml").read_text()

    def drained() -> None:
        answer = shell.odf("drain", code=1)
        assert "leaving out clean_raw" in answer.err
        assert "left of clean_raw: 2 chunks FAILED; see: odf why clean_raw" in answer.out

    script = shell.folder / "jobs/clean_raw.sh"
    script.rename(shell.folder / "clean_raw.sh")
    drained()
    (shell.folder / "clean_raw.sh").rename(script)
    shell.write(
        "dataflow.toml",
        toml.replace('reads = ["raw"]', 'reads = ["other"]') + '[dataset.other]\npartition = "number"\n',
    )
    drained()
    shell.write("dataflow.toml", toml)
    shell.dml("update job set itemvalue = 'month()' where jobid = 'clean_raw' and itemtype = 'IN'")
    drained()
    shell.odf("hold", "clean", "1", "2", "--yes")
    shell.odf("apply", "--yes")
    assert shell.odf("drain").code == 0


def test_what_waits_behind_a_chunk_that_never_succeeded_is_counted(shell: Shell) -> None:
    more = '[dataset.last]\npartition = "number"\n[job.tell]\nreads = ["sums"]\nwrites = ["last"]\n'
    shell.script("jobs/tell.sh")
    project(shell, "exit 1", chunks=5, rules=more)
    for _ in range(2):
        told = shell.odf("drain", code=1).out
        assert "left of clean_raw: 5 chunks FAILED" in told
        assert "left of sum_up: 5 chunks waiting for inputs; see: odf why sum_up" in told
        assert "left of tell: 5 chunks waiting for inputs" in told
        assert "5 chunks of sum_up wait for inputs" in shell.odf("why", "sum_up").out
        assert "5 chunks of tell wait for inputs" in shell.odf("why", "tell").out
        shell.odf("resubmit", "clean", "3")
    assert shell.odf("recover", "--json").data["found"]["waiting"] == 10


def on_a_terminal(folder: Path, environment: dict[str, str], *arguments: str) -> str:
    """What a person sees: the command with a terminal as its output."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*ODF, *arguments],
        cwd=folder,
        env={**environment, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    seen = b""
    try:
        while chunk := os.read(ours, 65536):
            seen += chunk
    except OSError:
        pass  # the other side is closed
    finally:
        os.close(ours)
        process.wait(timeout=240)
    return seen.decode()


def test_a_following_drain_ends_when_the_project_file_changed(
    shell: Shell, started: list[subprocess.Popen[str]]
) -> None:
    project(shell, chunks=1)
    following = shell.start("drain", "--follow")
    started.append(following)
    wait_for(lambda: len(done(shell)) == 2)
    path = shell.folder / "dataflow.toml"
    path.write_text("# a comment changes nothing\n" + path.read_text())
    shell.odf("ready", "raw", "2")
    wait_for(lambda: len(done(shell)) == 4)
    path.write_text(path.read_text() + "[job.sum_up.env]\nGREETING = 'Hey'\n")
    shell.odf("apply", "--yes")
    shell.odf("ready", "raw", "3")
    _, said = following.communicate(timeout=60)
    assert following.returncode == 19, said
    assert "PROJECT_CHANGED: dataflow.toml changed since this drain began" in said
    assert "UNTRUSTED" not in said
    shell.odf("drain")
    assert statuses(shell)["sums", "3"] == "READY"


def test_a_following_drain_goes_on_while_the_project_file_is_half_written(
    shell: Shell, started: list[subprocess.Popen[str]]
) -> None:
    project(shell, chunks=1)
    following = shell.start("drain", "--follow")
    started.append(following)
    wait_for(lambda: len(done(shell)) == 2)
    path = shell.folder / "dataflow.toml"
    whole = path.read_text()
    path.write_text(whole + "[job.sum_up.env")
    time.sleep(3)
    assert following.poll() is None
    path.write_text(whole)
    shell.odf("ready", "raw", "2")
    wait_for(lambda: len(done(shell)) == 4)
    following.send_signal(signal.SIGTERM)
    _, said = following.communicate(timeout=60)
    assert following.returncode == 130, said
