"""A forgotten odf apply: every verb says that dataflow.toml and the store differ, and how."""

from __future__ import annotations

import pytest

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
        "jobs/spark.py", 'raise SystemExit("imported")\n@job(reads={"a": "b"}, writes="c")\ndef sums(a):\n    pass\n'
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
    assert "Somebody changed the store since odf apply" in changed
