"""A forgotten odf apply: every verb says that dataflow.toml and the store differ, and how."""

from __future__ import annotations

import pytest

from tests.acceptance.test_drain import wait_for
from tests.support.shell import Shell, statuses

TOML = """
[project]
name = "shop"
[dataset.raw]
location = "raw/{dataid}.csv"
[dataset.clean]
location = "clean/{dataid}.csv"
[job.load]
reads = ["raw"]
writes = ["clean"]
"""
MORE = TOML + '[dataset.more]\n[job.further]\nreads = ["clean"]\nwrites = ["more"]\n'


def begin(shell: Shell) -> None:
    """A project whose store has its tables, and nothing of what it declares."""
    shell.write("dataflow.toml", TOML)
    shell.script("jobs/load.sh", 'mkdir -p "$(dirname "$clean_location")"; cp "$raw_location" "$clean_location"')
    shell.script("jobs/further.sh")
    shell.write("raw/1.csv", "id\n1\n")
    shell.odf("migrate")


def test_a_drain_of_a_project_that_was_never_applied_is_refused(shell: Shell) -> None:
    begin(shell)
    refused = shell.odf("drain", code=2).err
    assert "dataflow.toml and the store differ: + dataset clean, + dataset raw, + job load" in refused
    assert "odf drain --apply" in refused
    for words in (("why", "load"), ("runs",), ("late",), ("check",)):
        assert "dataflow.toml and the store differ" in shell.odf(*words, code=None).err, words


def test_drain_applies_what_is_declared_when_it_is_asked_to(shell: Shell) -> None:
    begin(shell)
    shell.odf("drain", "--apply", "--dry-run", code=2)
    assert "+ job load" in shell.odf("drain", "--apply").err
    shell.odf("ready", "raw", "1")
    answer = shell.odf("drain", "--apply", "--json")
    assert answer.data["outcomes"] == {"READY": 1}
    assert statuses(shell)["clean", "1"] == "READY"


def test_drain_apply_makes_the_store_that_is_missing(home: Shell) -> None:
    home.write("dataflow.toml", TOML)
    home.script("jobs/load.sh")
    home.odf("drain", "--apply")
    assert [each["jobid"] for each in home.odf("jobs", "--json").data] == ["load"]


@pytest.mark.parametrize(
    ("text", "differs"),
    [
        (MORE, "+ dataset more, + job further"),
        (TOML.replace("clean/{", "cleaner/{"), "~ dataset clean (location)"),
        (TOML + "retries = 2\n", "~ job load (retries)"),
        (TOML + "[pool.small]\nslots = 2\n", "+ pool small"),
        (TOML.partition("[job.load]")[0], "- job load"),
    ],
)
def test_every_verb_says_how_dataflow_toml_and_the_store_differ(shell: Shell, text: str, differs: str) -> None:
    begin(shell)
    shell.odf("apply", "--yes")
    shell.odf("ready", "raw", "1")
    for words in (("status",), ("why", "load"), ("drain", "--dry-run"), ("doctor",)):
        answer = shell.odf(*words, code=None)
        assert "differ" not in answer.out + answer.err, words
    shell.write("dataflow.toml", text)
    for line in ("why load", "runs", "explain clean 1", "drain --dry-run", "run --dry-run load"):
        assert differs in shell.odf(*line.split(), code=None).err.splitlines()[0], line
    assert differs in shell.odf("status").out
    assert differs in shell.odf("status", "--json").data["unapplied"]
    found = {each["what"]: each for each in shell.odf("doctor", "--json", code=1).data}
    assert differs in found["applied"]["found"]
    shell.odf("apply", "--yes")
    assert "differ" not in shell.odf("status").out


def test_a_job_that_only_code_declares_is_missed_without_importing_it(shell: Shell) -> None:
    begin(shell)
    shell.odf("apply", "--yes")
    shell.write(
        "jobs/spark.py",
        'raise SystemExit("imported")\nfrom opendataflow import job\n@job(reads={"a": "b"}, writes="c")\ndef sums(a): ...\n',
    )
    assert "+ job sums" in shell.odf("why", "load").err
    assert "+ job sums" in shell.odf("status").out


def test_an_untrusted_definition_names_the_forgotten_apply_first(shell: Shell) -> None:
    begin(shell)
    shell.odf("apply", "--yes")
    shell.odf("ready", "raw", "1")
    shell.write("dataflow.toml", TOML.replace("clean/{", "cleaner/{"))
    refused = "UNTRUSTED_DEFINITION: this dataflow.toml is not applied (odf apply): dataset clean: location is"
    assert refused in shell.runjob("load", code=18).err
    assert refused in shell.odf("drain", "load", code=18).err
    shell.write("dataflow.toml", TOML)
    shell.dml("update dataset set location = 'elsewhere/{dataid}.csv' where datasetid = 'clean'")
    changed = shell.runjob("load", code=18).err
    assert "UNTRUSTED_DEFINITION: dataset clean: location is" in changed
    assert "A user changed the store since odf apply" in changed


def test_a_refusal_is_over_as_soon_as_what_was_forgotten_is_applied(shell: Shell) -> None:
    begin(shell)
    shell.odf("apply", "--yes")
    for dataid in "1234":
        shell.write(f"raw/{dataid}.csv", f"id\n{dataid}\n")
    shell.odf("ready", "raw", *"1234")
    shell.write("dataflow.toml", TOML.replace("clean/{", "cleaner/{"))
    shell.runjob("load", "--dataid", "1", code=18)
    assert "UNTRUSTED_DEFINITION" in shell.odf("why", "load").out
    assert shell.odf("recover", "--json").data["by_hand"][0]["name"] == "UNTRUSTED_DEFINITION"
    assert "REFUSED with UNTRUSTED_DEFINITION" in shell.odf("check", code=2).out
    assert "⊘ REFUSED when it arrived or was attempted" in shell.odf("status", COLUMNS="40", PYTHONUTF8="1").out
    shell.odf("apply", "--yes")
    assert shell.odf("why", "load", "1", "--json").data["verdict"] == "YES"
    for words in (("why", "load"), ("recover",), ("check",), ("status",)):
        answer = shell.odf(*words)
        assert "UNTRUSTED_DEFINITION" not in answer.out, words
        assert "REFUSED" not in answer.out, words
    shell.dml("update dataset set location = 'elsewhere/{dataid}.csv' where datasetid = 'clean'")
    assert "REFUSED with UNTRUSTED_DEFINITION" in shell.odf("check", code=2).out
    shell.odf("apply", "--yes")
    assert "load 1: READY" in shell.odf("drain").err


@pytest.mark.parametrize("words", [("drain",), ("drain", "load"), ("run", "load")])
def test_a_forgotten_apply_is_critical_whichever_command_meets_it(shell: Shell, words: tuple[str, ...]) -> None:
    begin(shell)
    shell.odf("apply", "--yes")
    shell.odf("ready", "raw", "1")
    shell.write("dataflow.toml", TOML.replace("clean/{", "cleaner/{"))
    shell.odf("drain", "--dry-run")
    assert "REFUSED" not in shell.odf("check").out, "a dry run stores nothing"
    shell.odf(*words, code=18)
    assert "1 chunk REFUSED with UNTRUSTED_DEFINITION (clean 1)" in shell.odf("check", code=2).out
    assert shell.odf("recover", "--json").data["by_hand"][0]["name"] == "UNTRUSTED_DEFINITION"
    shell.odf("drain", code=18)
    kinds = [event["kind"] for event in shell.odf("explain", "clean", "1", "--json").data["events"]]
    assert kinds.count("refused") == 1, "a schedule asks every minute"
    shell.odf("apply", "--yes")
    assert "REFUSED" not in shell.odf("check").out
    assert "load 1: READY" in shell.odf("drain").err


def test_a_following_drain_stores_the_no_to_what_comes_for_a_job_that_it_leaves_out(shell: Shell) -> None:
    begin(shell)
    shell.odf("apply", "--yes")
    drain = shell.start("drain", "--follow")
    try:
        shell.dml("update dataset set location = 'elsewhere/{dataid}.csv' where datasetid = 'clean'")
        shell.odf("ready", "raw", "1")
        wait_for(lambda: shell.odf("check", code=None).code == 2, 60)
    finally:
        drain.terminate()
        drain.communicate(timeout=60)
    assert "1 chunk REFUSED with UNTRUSTED_DEFINITION (clean 1)" in shell.odf("check", code=2).out


def test_why_names_a_job_that_is_only_declared(shell: Shell) -> None:
    begin(shell)
    shell.odf("apply", "--yes")
    shell.write("dataflow.toml", MORE)
    for words in (("why", "further"), ("why", "further", "1"), ("why", "further", "--at", "now")):
        refused = shell.odf(*words, code=2).err
        assert "UNKNOWN_JOB: job further is declared in the project, but not in the store yet" in refused, words
        assert "odf apply" in refused
