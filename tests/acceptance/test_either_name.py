"""A job or the dataset that it produces: verbs take either name and say what they took."""

from __future__ import annotations

import pytest

from tests.support.shell import Shell, statuses


@pytest.fixture
def flow(shell: Shell) -> Shell:
    """One job with one output and one with two, and a chunk of each that was produced."""
    shell.dml(
        "insert into dataset (datasetid) values ('raw'), ('clean'), ('left'), ('right')",
        "insert into job (jobid, itemtype, datasetid) values ('load', 'IN', 'raw'), ('load', 'OUT', 'clean'), "
        "('split', 'IN', 'clean'), ('split', 'OUT', 'left'), ('split', 'OUT', 'right')",
    )
    shell.script("jobs/load.sh", "echo loaded")
    shell.script("jobs/split.sh")
    shell.odf("ready", "raw", "1")
    taken = shell.odf("drain", "clean", "right")
    assert "clean is a dataset; job load produces it: taken for load" in taken.err
    assert "right is a dataset; job split produces it: taken for split" in taken.err
    assert statuses(shell)["right", "1"] == "READY"
    return shell


def test_a_dataset_stands_for_the_job_that_produces_it(flow: Shell) -> None:
    for words in ("why clean", "why clean 1", "runs clean", "log clean", "log clean 1"):
        verb, _, *rest = words.split()
        named = flow.odf(verb, "load", *rest)
        taken = flow.odf(*words.split())
        assert "clean is a dataset; job load produces it: taken for load" in taken.err, words
        assert taken.out == named.out, words
    told = flow.odf("why", "raw", code=2).err  # nothing here produces it
    assert "UNKNOWN_JOB: raw is a dataset, and no job; no job produces it\n" in told
    assert "odf late raw" in told
    assert "odf explain raw 1\n" in flow.odf("why", "raw", "1", code=2).err
    assert "UNKNOWN_JOB" in flow.odf("why", "nothing", code=2).err


def test_a_job_stands_for_what_it_produces(flow: Shell) -> None:
    taken = flow.odf("explain", "load", "1")
    assert "load is a job; it produces dataset clean: taken for clean" in taken.err
    assert taken.out.startswith("clean 1 is READY")
    assert "split is a job" in flow.odf("explain", "split", "1", code=2).err  # which of its two?
    resubmitted = flow.odf("resubmit", "split", "1", "--yes")
    assert "split is a job: taken for what it produces, left, right" in resubmitted.err
    assert [statuses(flow)[name, "1"] for name in ("clean", "left", "right")] == ["READY", "RESUBMIT", "RESUBMIT"]
    flow.odf("hold", "load", "--all", "--yes")
    assert statuses(flow)["clean", "1"] == "HOLD"


def test_a_name_that_a_dataset_and_another_job_have_is_said_to_be_both(flow: Shell) -> None:
    flow.dml("insert into dataset (datasetid) values ('final')")
    flow.dml("insert into job (jobid, itemtype, datasetid) values ('clean', 'IN', 'left'), ('clean', 'OUT', 'final')")
    flow.script("jobs/clean.sh")
    both = "clean is a dataset and also a job, which produces final: taken for the "
    for words, taken in (
        (("why", "clean"), "job"),
        (("runs", "clean"), "job"),
        (("drain", "clean", "--dry-run"), "job"),
        (("explain", "clean", "1"), "dataset"),
        (("resubmit", "clean", "1", "--dry-run"), "dataset"),
    ):
        assert both + taken in flow.odf(*words).err, words
    assert "is a dataset and" not in flow.odf("why", "load").err + flow.odf("explain", "raw", "1").err
