"""What a person is told to type next: it works, or it is not said. On both stores."""

from __future__ import annotations

import pytest

from tests.support.shell import Shell

TOML = """
[environment.dev]
roots = ["."]
[dataset.src]
location = "src/{dataid}.csv"
partition = "number"
[dataset.dst]
location = "dst/{dataid}.csv"
partition = "number"
[job.copy]
reads = ["src"]
writes = ["dst"]
"""


@pytest.fixture
def flow(shell: Shell) -> Shell:
    """Two delivered chunks, of which the job copied one."""
    shell.write("dataflow.toml", TOML)
    shell.script("jobs/copy.sh", 'mkdir -p "${dst_location%/*}"; cp "$src_location" "$dst_location"')
    shell.odf("apply", "--yes")
    for dataid in ("1", "2"):
        shell.write(f"src/{dataid}.csv", f"{dataid}\n")
    shell.odf("ready", "src", "1", "2")
    shell.odf("run", "copy")
    return shell


def test_explain_proposes_nothing_that_changes_nothing(flow: Shell) -> None:
    published = flow.odf("explain", "dst", "1", "--json").data["published"]["manifest"]["location"]
    (flow.folder / published).unlink()
    before = flow.odf("explain", "dst", "1").out
    assert "→ odf resubmit dst 1" in before
    assert "→ odf explain dst 1" not in before, "that is what was typed"
    flow.odf("resubmit", "dst", "1")
    assert "→ odf" not in flow.odf("explain", "dst", "1").out


def test_a_rollback_of_what_comes_from_outside_proposes_a_new_delivery(flow: Shell) -> None:
    flow.write("dataflow.toml", TOML.replace('"src/{dataid}.csv"', '"src/{dataid}.csv"\nlayout = "plain"'))
    flow.odf("apply", "--yes")
    flow.write("src/1.csv", "corrected\n")
    flow.odf("ready", "src", "1", "--again")
    refused = flow.odf("rollback", "src", "1", code=2).err
    assert "odf ready src 1 --again" in refused
    assert "odf resubmit" not in refused


def test_a_new_pool_is_proposed_only_with_a_number(flow: Shell) -> None:
    refused = flow.odf("pool", "set", "etl", "four", code=2).err
    assert "'four' is not a number of slots" in refused
    assert "--create" not in refused
    assert "odf pool set etl 4 --create" in flow.odf("pool", "set", "etl", "4", code=2).err


def test_a_log_of_what_can_be_no_dataid_is_refused_as_such(flow: Shell) -> None:
    assert flow.odf("log", "copy", "nope", code=2).err.startswith("BAD_DATAID")
    assert "nothing of copy 7 ran yet" in flow.odf("log", "copy", "7", code=2).err


def test_check_lease_says_how_a_run_ended(flow: Shell) -> None:
    refused = flow.odf("check-lease", "1", code=16).err
    assert "run 1 has ended: READY" in refused
    assert "successor" not in refused


@pytest.mark.parametrize("word", ["DONE", "RUNNING", "soon"])
def test_one_list_says_how_a_run_may_end(flow: Shell, word: str) -> None:
    flow.odf("start", "copy")
    for words in (("end", "2", word), ("endjob", "copy", "2", word)):
        refused = flow.odf(*words, code=2).err
        assert refused.startswith("UNKNOWN_STATUS"), words
        assert "A run ends READY, FAILED, RESUBMIT, HOLD or PENDING." in refused


def test_no_worker_ends_what_odf_start_began(flow: Shell) -> None:
    flow.odf("start", "copy")
    for words in (("--dry-run",), ()):
        said = flow.odf("cancel", "copy", "2", *words).out
        assert "without a worker: end its processes there" in said
        assert "within" not in said


def test_history_takes_the_kinds_that_it_prints(flow: Shell) -> None:
    flow.dml("update datastatus set status = 'HOLD' where datasetid = 'src' and dataid = '2'")
    flow.odf("fail", "dst", "1")
    for words, name in (("changed by SQL", "sql"), ("marked as bad", "failed"), ("allowed to run", "admitted")):
        found = flow.odf("history", "--kind", words, "--json").data["events"]
        assert found == flow.odf("history", "--kind", name, "--json").data["events"], words
        assert found or name == "admitted"
