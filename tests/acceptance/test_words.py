"""The words of RunJob: whose each of them is, and what a plain call answers when no chunk can run."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import click
import pytest

from opendataflow import Store
from opendataflow.cli import run
from opendataflow.cli.door import VERBS
from opendataflow.cli.group import odf
from opendataflow.cli.habits import HABITS
from opendataflow.model import Pool
from tests.support.door import Door
from tests.support.flows import dataset, job

ROOT = Path(__file__).parents[2]
ARGUMENTS = 'echo "$dataid [$*]"'


@pytest.fixture
def flow(store: Store, door: Door) -> Store:
    """raw → load → clean, with the code of load in the project's folder."""
    store.register([dataset("raw"), dataset("clean")], [job("load", "raw", writes="clean")])
    store.announce("raw", ["1", "2"])
    door.script("jobs/load.sh", ARGUMENTS)
    return store


def statuses(store: Store) -> dict[str, str]:
    return {chunk.dataid: chunk.status for chunk in store.views.all_chunks("clean")}


# Whose word it is -------------------------------------------------------------------------------------------------------


def test_options_after_the_name_of_a_job_are_ours(flow: Store, door: Door) -> None:
    assert door("run", "load", "--dry-run", "--json").data["next"] == "1"
    assert statuses(flow) == {}
    assert door("run", "load", "--json", "--dataid", "2").data["dataid"] == "2"
    assert statuses(flow) == {"2": "READY"}
    door("run", "load", "--env", "prod", code=2)
    assert "no such option" in door("run", "load", "--fast", code=2).err.lower()
    assert statuses(flow) == {"2": "READY"}


def test_words_for_the_script_of_a_job_come_after_two_dashes(flow: Store, door: Door) -> None:
    assert "1 [fast --dry-run]" in door("run", "load", "--", "fast", "--dry-run").out
    refused = door("run", "load", "fast", code=2)
    assert "odf run load -- fast" in refused.err
    assert statuses(flow) == {"1": "READY"}


def test_what_follows_a_script_is_the_script_s(flow: Store, door: Door) -> None:
    assert "1 [a --with -x=1]" in door("run", "jobs/load.sh", "a", "--with", "-x=1").out
    assert "2 [a -- --dry-run]" in door("run", "jobs/load.sh", "a", "--", "--dry-run").out


@pytest.mark.parametrize("ours", [["--dry-run"], ["--dataid", "2"], ["--dataid=2", "--json"], ["--fail-if-none"]])
def test_an_option_of_ours_after_a_script_is_refused_and_both_spellings_work(
    flow: Store, door: Door, ours: list[str]
) -> None:
    told = door("run", "jobs/load.sh", "a", *ours, "b", code=2)
    assert statuses(flow) == {}
    for_us, for_script = re.findall(r": RunJob (.*?)(?:\\n|\n|\"|$)", told.out + told.err)
    assert shlex.split(for_us) == [*ours, "jobs/load.sh", "a", "b"]
    door("run", *shlex.split(for_us))
    assert f"[a {' '.join(ours)} b]" in door("run", *shlex.split(for_script)).out


def test_the_help_of_the_verb_is_no_word_of_a_job(flow: Store, door: Door) -> None:
    assert "Usage: odf run" in door("run", "load", "--help").out


def test_every_form_of_a_page_is_understood_as_it_is_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    """No option that a page prints is refused, and none beside the name of a job reaches its script."""
    monkeypatch.setattr(run, "is_script", lambda target: "/" in target or target.endswith(".sh"))
    command = odf.get_command(click.Context(odf), "run")
    assert command is not None
    pages = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]
    help_lines = [f"`{line.strip()}`" for line in str(command.help).splitlines() if line.startswith("  ")]
    texts = [page.read_text(encoding="utf-8") for page in pages] + [re.sub("  +[a-z].*`", "`", "\n".join(help_lines))]
    found = [line for text in texts for line in re.findall(r"(?:`|\$ |&& |\")(?:odf run|RunJob) ([^`\n#|\"]+)", text)]
    taken = 0
    for line in found:
        given = shlex.split(line.strip(" \\"))
        if "[--" in given or all(word.startswith("-") for word in given):  # a form in general, or the name of an option
            continue
        context = command.make_context("run", given)
        before, _, _ = line.partition(" -- ")
        ours = [word for word in before.split() if word.startswith("--") and word != "--with"]
        taken += len(ours)
        assert not set(ours) & set(context.params["arguments"]), line
    assert taken > 8, "the pages and the help print options"


def test_what_why_prints_works_as_it_is_printed(flow: Store, door: Door) -> None:
    commands = [
        command for reason in door("why", "load", "2", "--json").data["reasons"] for command in reason["commands"]
    ]
    assert commands == ["odf run load --dataid 2"]
    door(*shlex.split(commands[0])[1:])
    assert statuses(flow) == {"2": "READY"}


# A command from the command line ----------------------------------------------------------------------------------------


def test_a_job_without_code_takes_a_command_and_its_arguments(flow: Store, door: Door) -> None:
    (door.folder / "jobs/load.sh").unlink()
    assert "1 2 3" in door("run", "load", "echo 1 2", "3").out
    assert "; touch pwned" in door("run", "load", "echo", "; touch pwned").out
    assert not (door.folder / "pwned").exists()
    assert statuses(flow) == {"1": "READY", "2": "READY"}
    assert "no executable 'set'" in door("run", "load", "set", code=2).err


# The original's form ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["s3cret", "s3cr/et+==", "s3 cret"])
def test_the_original_s_form_is_recognised_and_nothing_of_its_key_is_repeated(
    flow: Store, door: Door, key: str
) -> None:
    for line in (["run", key, "jobs/load.sh"], ["ForceJob", key, "load", "env"], [key, "sql", "select 1"]):
        told = door(*line, code=2)
        assert "PASSKEY" in told.err
        assert key not in told.out + told.err
        assert key not in door(*line, "--json", code=2).out
    assert statuses(flow) == {}


def test_forcejob_without_a_dataid_makes_a_forced_run_under_a_timestamp(store: Store, door: Door) -> None:
    store.register([dataset("raw", "text"), dataset("clean", "text")], [job("load", "raw", writes="clean")])
    store.announce("raw", ["1"])
    door("run", "load", "true")
    given = json.loads(door("forcejob", "load").out)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d{6}", given["dataid"])
    (running,) = store.views.running()
    assert (running.dataid, running.forced) == (given["dataid"], True)
    assert statuses(store)["1"] == "READY", "what was produced is left alone"
    told = door("ForceJob", "load", "sh", "-c", "echo dataid=$dataid --force").out
    assert re.search(r"dataid=\d{4}-\d\d-\d\dT\d{6}(\.\d{6})? --force", told)
    assert [run.forced for run in store.views.runs(jobid="load")] == [True, True, False]


def test_a_timestamp_is_no_number(flow: Store, door: Door) -> None:
    for line in (["forcejob", "load"], ["ForceJob", "load", "true"]):
        assert "DATAID" in door(*line, code=2).err
    assert flow.views.running() == []
    assert json.loads(door("forcejob", "load", "2").out)["dataid"] == "2"


def test_the_programs_of_the_original_are_here_or_named_with_what_does_the_same(flow: Store, door: Door) -> None:
    assert json.loads(door("GetJobData", "load").out)["jobid"] == "load"
    assert door("RunSql", "select 7 as n", "--json").data == [{"n": 7}]
    door("RunUpdate", "update datastatus set status = 'FAILED' where dataid = '2'")
    told = door("SetDataStatus", "READY", "2", "raw", "fakejob", "OUT", code=2).err
    assert "odf ready raw 2" in told
    assert "odf explain raw 2" in door("SetDataStatus", "DONE", "2", "raw", "load", "IN", code=2).err


# What people type from habit, and what a shell completes ----------------------------------------------------------------


def test_a_verb_from_habit_is_answered_with_ours(flow: Store, door: Door) -> None:
    for verb, commands in HABITS.items():
        assert verb not in VERBS
        told = door(verb, code=2).err
        for command in commands:
            assert command in told
            word = command.split()[1]
            assert word in VERBS or word in ("--help", "--version")


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("RunJob", "odf run SCRIPT"),
        ("getjobruns", "Did you mean GetJobRuns?"),
        ("getjobs", "Did you mean GetJobs?"),
        ("runsql", "Did you mean RunSql?"),
        ("DDL", "Did you mean ddl?"),
        ("ForceJobTs", "Did you mean forcejobts?"),
    ],
)
def test_a_program_of_the_original_with_other_capitals_is_found(door: Door, typed: str, hint: str) -> None:
    assert hint in door(typed, code=2).err


def test_a_dry_run_of_a_drain_says_how_many_more_chunks_it_would_take(flow: Store, door: Door) -> None:
    assert door("drain", "load", "--dry-run").out.splitlines()[-1].split() == ["load", "1", "2"]
    flow.announce("raw", [str(number) for number in range(3, 40)])
    assert door("drain", "load", "--dry-run").out.splitlines()[-1].endswith("1 2 3 4 5 … and 34 more")


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("odf run lo", ["load"]),
        ("odf why ", ["load"]),
        ("odf explain cl", ["clean"]),
        ("odf explain raw ", ["2", "1"]),
        ("odf run load --dataid ", ["2", "1"]),
        ("odf status --env ", ["default"]),
        ("odf nosuch verb", []),
    ],
)
def test_a_shell_completes_the_names_of_the_store(
    flow: Store, door: Door, monkeypatch: pytest.MonkeyPatch, line: str, found: list[str]
) -> None:
    assert completed(door, monkeypatch, line) == found


def completed(door: Door, monkeypatch: pytest.MonkeyPatch, line: str) -> list[str]:
    monkeypatch.setenv("_ODF_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
    door.capture.readouterr()
    with pytest.raises(SystemExit) as ended:
        odf.main([], prog_name="odf")
    out, err = door.capture.readouterr()
    assert (ended.value.code, err) == (0, "") or not out
    return [each.partition(",")[2] for each in out.splitlines() if each.startswith("plain,")]


def test_a_store_that_is_not_there_completes_nothing_and_is_not_made(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODF_STORE", f"sqlite:///{door.folder}/other.db")
    assert completed(door, monkeypatch, "odf why ") == []
    assert not (door.folder / "other.db").exists()


# When no chunk can run --------------------------------------------------------------------------------------------------


def waits(store: Store) -> None:
    store.register([dataset("rates")], [job("load", "raw", "rates", writes="clean")])


def fails(store: Store) -> None:
    for claim in store.claim("load", 2):
        store.fail(claim)


def upstream_fails(store: Store) -> None:
    store.register([dataset("source")], [job("make_raw", "source", writes="raw")])
    store.announce("source", ["1", "2"])
    store.forget("raw", ["1", "2"])
    for claim in store.claim("make_raw", 2):
        store.fail(claim)


def runs(store: Store) -> None:
    store.claim("load", 2)


def is_held(store: Store) -> None:
    store.hold("clean", ["1", "2"])


def is_deferred(store: Store) -> None:
    for claim in store.claim("load", 2):
        store.give_back(claim, claim.receipt, "wait a moment")


def is_full(store: Store) -> None:
    store.set_pool(Pool("etl", 0))
    store.register([dataset("raw"), dataset("clean")], [job("load", "raw", writes="clean", pool="etl")])


def is_paused(store: Store) -> None:
    store.pause("load")


def is_done(store: Store) -> None:
    for claim in store.claim("load", 2):
        store.commit(claim)


# What happened, what is printed, and the exit codes of: RunJob, --quiet-no, --fail-if-none, odf start, odf drain (None: it waits).
OUTCOMES = [
    (is_done, "NOTHING_TO_DO", 0, 0, 15, 15, 0),
    (waits, "DATA_NOT_READY", 10, 0, 10, 10, 0),
    (upstream_fails, "DATA_NOT_READY", 10, 0, 10, 10, 0),
    (fails, "LOCKED", 14, 0, 14, 14, 1),
    (runs, "LOCKED", 14, 0, 14, 14, 0),
    (is_held, "LOCKED", 14, 0, 14, 14, 0),
    (is_full, "LOCKED", 14, 0, 14, 14, None),
    (is_paused, "LOCKED", 14, 0, 14, 14, 0),
]


@pytest.mark.parametrize(("happens", "verdict", "plain", "quiet", "fail", "start", "drain"), OUTCOMES)
def test_what_a_call_prints_and_what_it_returns_agree(
    flow: Store,
    door: Door,
    happens: object,
    verdict: str,
    plain: int,
    quiet: int,
    fail: int,
    start: int,
    drain: int | None,
) -> None:
    assert callable(happens)
    happens(flow)
    for words, code in [
        (["run"], plain),
        (["run", "--quiet-no"], quiet),
        (["run", "--fail-if-none"], fail),
        (["run", "--fail-if-none", "--quiet-no"], fail if verdict == "NOTHING_TO_DO" else quiet),
        (["start"], start),
    ]:
        told = door(*words, "load", code=code)
        assert told.err.startswith(f"{verdict}: "), words
        answer = door(*words, "load", "--json", code=code).data
        assert (answer["outcome"], answer["exit_code"]) == (verdict, code), words
    door("run", "--dry-run", "load", code=0)
    if drain is not None:
        door("drain", "load", code=drain)


def test_a_chunk_that_is_named_returns_the_code_of_its_no_unless_cron_asks_for_quiet(flow: Store, door: Door) -> None:
    is_held(flow)
    assert door("run", "load", "--dataid", "1", code=14).err.startswith("LOCKED: ")
    assert door("run", "load", "--dataid", "1", "--quiet-no", code=0).err.startswith("LOCKED: ")


def test_quiet_no_hides_neither_a_failed_job_nor_data_that_needs_a_repair(flow: Store, door: Door) -> None:
    door.script("jobs/load.sh", "exit 3")
    assert "JOB_FAILED" in door("run", "--quiet-no", "load", code=1).err
    flow.register([dataset("elsewhere", location="/nowhere/{dataid}")], [job("fetch", "raw", writes="elsewhere")])
    door.script("jobs/fetch.sh", "exit 0")
    assert "INVALID_PATH" in door("run", "--quiet-no", "fetch", code=12).err


@pytest.mark.parametrize(("happens", "verdict", "code"), [row[:3] for row in OUTCOMES[1:6]])
def test_a_plain_call_names_the_no_of_the_chunk_that_is_first_in_the_way(
    flow: Store, door: Door, happens: object, verdict: str, code: int
) -> None:
    assert callable(happens)
    happens(flow)
    told = door("run", "load", code=code)
    assert told.err.startswith(f"{verdict}: ")
    assert "odf why load 1" in told.err
    door("why", "load", "1")
    assert door("why", "load", "--json").data["verdict"] != "NOTHING_TO_DO"
    answer = door("run", "load", "--fail-if-none", "--json", code=code).data
    assert (answer["outcome"], answer["exit_code"], answer["receipt"]["dataid"]) == (verdict, code, "1")
    door("start", "load", code=code)
    refused = [event for event in flow.views.receipts("load", "1") if event.kind == "refused"]
    assert [event.after for event in refused] == [verdict], "the same answer is stored once, however often it is given"


def test_a_deferred_chunk_is_in_the_way_too(flow: Store, door: Door) -> None:
    is_deferred(flow)
    assert "deferred" in door("run", "load", code=14).err


def test_really_nothing_is_nothing_to_do(flow: Store, door: Door) -> None:
    door("run", "load")
    door("run", "load")
    before = len(flow.views.events())
    assert door("run", "load").err.startswith("NOTHING_TO_DO")
    door("run", "load", "--fail-if-none", code=15)
    door("start", "load", code=15)
    assert len(flow.views.events()) == before
