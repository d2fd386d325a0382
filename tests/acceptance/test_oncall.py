"""On call: cancel a run, pause a job, one line for monitoring, and the log of a run that ran elsewhere."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

from opendataflow import Manifest, Store
from tests.support.flows import chain, claim_one
from tests.support.odf import Odf
from tests.support.shell import Shell


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 240
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_run_is_cancelled_through_the_store(shell: Shell, started: list[subprocess.Popen[str]]) -> None:
    shell.write(
        "dataflow.toml", '[dataset.raw]\n[dataset.clean]\n[job.load]\nreads = ["raw"]\nwrites = ["clean"]\nlease = 2\n'
    )
    shell.script("jobs/load.sh", f"touch {shell.folder}/begun; sleep 600; touch {shell.folder}/ended")
    shell.odf("apply", "--yes")
    shell.odf("ready", "raw", "1")
    started.append(run := shell.start("run", "load"))
    wait_for((shell.folder / "begun").exists)
    assert "would be cancelled" in shell.odf("cancel", "load", "--dry-run").out
    assert "run 1 of load 1 is cancelled" in shell.odf("cancel", "load", "1", "--why", "it hangs").out
    (chunk,) = shell.odf("status", "clean", "--chunks", "--json").data
    assert chunk["status"] == "FAILED", "at once, whatever the worker does"
    said = "".join(run.communicate(timeout=240))
    assert "cancelled by" in said
    assert "it hangs" in said
    assert run.returncode == 16
    (attempt,) = shell.odf("runs", "--json").data
    assert (attempt["outcome"], attempt["status"]) == ("CANCELLED", "FAILED")
    assert shell.odf("cancel", "1", code=2).err.startswith("BAD_TRANSITION: run 1 of load 1 is over: CANCELLED")
    assert shell.odf("cancel", "load", code=2).err.startswith("UNKNOWN_RUN: load is not running")


def test_a_paused_job_starts_nothing_and_everybody_is_told_why(store: Store, odf: Odf) -> None:
    chain(store)
    store.announce("raw", ["1", "2"])
    odf("pause", "make", "--why", "the source is repaired")
    assert store.claim("make") == []
    told = odf("why", "make").out
    assert "LOCKED: job make is paused by" in told
    assert "the source is repaired" in told
    assert "odf resume make" in told
    assert "is paused by" in odf("why", "make", "1").out
    assert "job make is paused" in odf("check", code=1).out
    assert odf("resume", "make").out == "job make goes on\n"
    assert odf("resume", "make").out == "job make was not paused\n"
    assert claim_one(store, "make").dataid == "1"
    assert odf("pause", "mkae", code=2).err.startswith("UNKNOWN_JOB")
    assert [event.kind for event in store.views.events() if event.kind in ("paused", "resumed")] == [
        "paused",
        "resumed",
    ]


def test_a_drain_does_not_wait_for_a_paused_job(home: Shell) -> None:
    home.write("dataflow.toml", '[dataset.raw]\n[dataset.clean]\n[job.load]\nreads = ["raw"]\nwrites = ["clean"]\n')
    home.script("jobs/load.sh", "true")
    home.odf("apply", "--yes")
    home.odf("ready", "raw", "1")
    home.odf("pause", "load")
    assert "nothing to do" in home.odf("drain").out
    home.odf("resume", "load")
    assert "1 READY" in home.odf("drain").out


def test_monitoring_gets_one_line_and_an_exit_code(store: Store, odf: Odf) -> None:
    chain(store)
    store.announce("raw", ["1", "2"])
    assert (
        odf("check").out
        == "ODF OK - 2 chunks READY, 0 RUNNING | ready=2 running=0 failed=0 resubmit=0 hold=0 pending=0 refused=0\n"
    )
    store.fail(claim_one(store, "make"))
    assert odf("check", code=2).out.startswith("ODF CRITICAL - 1 chunk FAILED (product) | ")
    assert odf("check", "raw").out.startswith("ODF OK")
    store.hold("raw", ["2"])
    assert odf("check", "raw", "--json", code=1).data["level"] == "WARNING"
    assert odf("check", "--store", "postgresql://nobody@127.0.0.1:1/none", code=3).out.startswith("ODF UNKNOWN - ")


def test_a_log_is_found_by_its_job_and_its_last_lines_travel(shell: Shell) -> None:
    declared = '[project]\nkeep_log_tail = true\n[dataset.raw]\n[dataset.clean]\n[job.load]\nreads = ["raw"]\nwrites = ["clean"]\n'
    shell.write("dataflow.toml", declared)
    shell.script("jobs/load.sh", 'echo "loading $dataid"')
    shell.odf("apply", "--yes")
    shell.odf("ready", "raw", "1", "2")
    shell.odf("drain")
    assert "loading 1" in shell.odf("log", "load", "1").out
    assert "loading 2" in shell.odf("log", "load").out
    assert shell.odf("log", "load", "3", code=2).err.startswith("UNKNOWN_RUN: nothing of load 3 ran yet")
    (shell.folder / ".odf/logs").rename(shell.folder / "elsewhere")
    told = shell.odf("log", "load", "1").out
    assert "loading 1" in told
    assert told.startswith("# the log of run 1 is not here: ")
    shell.write("dataflow.toml", declared.replace("true", "false"))
    shell.odf("resubmit", "clean", "2")
    shell.odf("drain")
    (shell.folder / ".odf/logs").rename(shell.folder / "gone")
    assert "30 days" in shell.odf("log", "load", "2", code=2).err
    shell.dml("update run set owner = 'etl@elsewhere:7'")
    refused = shell.odf("log", "load", "2", code=12).err
    assert "it to " in refused
    assert "keep_log_tail" in refused


def test_a_pinned_schema_can_be_accepted_anew(store: Store, odf: Odf) -> None:
    chain(store)
    store.announce("raw", ["1", "2", "3"])
    assert "has no schema yet" in odf("schema", "product").out
    store.commit(claim_one(store, "make"), {"product": Manifest(schema="a STRING")})
    assert "pinned by the first publish: a STRING" in odf("schema", "product").out
    odf("schema", "product", "--accept", "--dry-run")
    store.commit(claim_one(store, "make"), {"product": Manifest(schema="a STRING, b INT")})
    assert store.pinned_schema("product") == "a STRING"
    assert "the next chunk" in odf("schema", "product", "--accept", "--why", "b is new").out
    store.claim("make")  # whoever works learns of it
    store.resubmit("product", ["1"])
    store.commit(claim_one(store, "make"), {"product": Manifest(schema="a STRING, b INT")})
    assert store.pinned_schema("product") == "a STRING, b INT"
    assert [event.why for event in store.views.events() if event.kind == "schema accepted"] == ["b is new"]


def test_where_a_chunk_lies_is_told_when_it_may_be_read(home: Shell) -> None:
    home.write("dataflow.toml", '[dataset.raw]\nlocation = "raw/{dataid}.csv"\nformat = "csv"\n')
    home.write("raw/1.csv", "a\n1\n")
    home.odf("apply", "--yes")
    assert home.odf("where", "raw", "1", code=10).err.startswith("DATA_NOT_READY: raw 1 was never produced")
    home.odf("ready", "raw", "1")
    assert home.odf("where", "raw", "1").out == f"{home.folder}/raw/1.csv\n"
    assert home.odf("where", "row", "1", code=2).err.startswith("UNKNOWN_DATASET")


def test_a_table_that_is_cut_into_ranges_is_cut_rather_than_announced(home: Shell) -> None:
    home.odf("init", "lake", "--template", "migration")
    lake = Shell(home.folder / "lake")
    lake.odf("apply", "--yes")
    assert "→ odf shard orders_pg" in lake.odf("why", "migrate_orders").out
    assert "→ odf shard orders_pg" in lake.odf("why", "migrate_orders", "5").out


def test_a_folder_that_nobody_may_write_is_named(home: Shell) -> None:
    home.write("file", "")
    refused = home.odf("init", "file/shop", code=None)
    assert refused.err.startswith("BAD_CONFIG")
    assert "file/shop" in refused.err


def test_the_first_rows_are_shown_without_spark(home: Shell) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    home.write(
        "dataflow.toml",
        '[dataset.raw]\nlocation = "raw/{dataid}.csv"\nformat = "csv"\n[dataset.lake]\nlocation = "lake/{dataid}.parquet"\n',
    )
    home.write("raw/1.csv", "a,b\n1,2\n3,4\n")
    (home.folder / "lake").mkdir()
    parquet.write_table(pa.table({"n": [1, None], "word": ["one", "two"]}), home.folder / "lake/1.parquet")
    home.odf("apply", "--yes")
    home.odf("ready", "raw", "1")
    home.odf("ready", "lake", "1")
    assert home.odf("head", "raw", "1", "-n", "1").out == "a,b\n1,2\n", "a row, beside the header"
    assert home.odf("head", "lake", "1", "--json").data == [{"n": 1, "word": "one"}, {"n": None, "word": "two"}]
    assert home.odf("head", "lake", "1").out.splitlines()[0].split() == ["n", "word"]
    home.write("raw/2.csv", 'a,b\n"1\n2 ""x""",3\n5 "inch,6\n')
    home.odf("ready", "raw", "2")
    assert home.odf("head", "raw", "2", "-n", "1").out == 'a,b\n"1\n2 ""x""",3\n', "a row of two lines"
    assert home.odf("head", "raw", "2").out.splitlines()[-1] == '5 "inch,6'
    home.write("raw/1.csv", "a,b\n9,9\n3,4\n")
    assert home.odf("head", "raw", "1", code=13).err.startswith("NOT_VALIDATED"), "it is not what was published"
    home.write("lake/2.parquet", "a,b\n1,2\n")
    home.odf("ready", "lake", "2")
    assert home.odf("head", "lake", "2", code=2).err.startswith("BAD_CONFIG: lake 2 cannot be read as parquet")


def test_the_history_of_a_job_that_was_removed_stays_in_reach(home: Shell) -> None:
    jobs = '[job.load]\nreads = ["raw"]\nwrites = ["clean"]\n'
    home.write("dataflow.toml", f"[dataset.raw]\n[dataset.clean]\n{jobs}")
    home.script("jobs/load.sh", "echo loading")
    home.odf("apply", "--yes")
    home.odf("ready", "raw", "1")
    home.odf("drain")
    home.write("dataflow.toml", "[dataset.raw]\n[dataset.clean]\n")
    assert "job load" in home.odf("apply", "--yes").out
    assert "READY" in home.odf("runs", "load").out
    assert "loading" in home.odf("log", "load").out
    assert "produced by load" in home.odf("explain", "clean", "1").out
    assert home.odf("runs", "lode", code=2).err.startswith("UNKNOWN_JOB")


def test_a_script_that_only_its_caller_knows_is_named_as_it_is_run(home: Shell) -> None:
    home.dml(
        "insert into dataset (datasetid) values ('a'), ('b')",
        "insert into job (jobid, itemtype, datasetid) values ('loadbob', 'IN', 'a'), ('loadbob', 'OUT', 'b')",
    )
    home.odf("ready", "a", "1")
    assert "→ RunJob ./loadbob.sh" in home.odf("why", "loadbob").out
    assert "→ RunJob --dataid 1 ./loadbob.sh" in home.odf("why", "loadbob", "1").out
    home.script("loadbob.sh", "true")
    home.runjob("--dataid", "1", "./loadbob.sh")
    refused = home.odf("dml", "insert into job (jobid, itemtype, datasetid) values ('other', 'OUT', 'b')", code=2).err
    assert refused.startswith("TWO_PRODUCERS")
    assert "neither a file nor a job nosuch.sh" in home.runjob("nosuch.sh", code=2).err
    home.write("dos.sh", "#!/bin/sh\r\necho\r\n")
    (home.folder / "dos.sh").chmod(0o700)
    home.dml("insert into job (jobid, itemtype, datasetid) values ('dos', 'IN', 'a')")
    assert "CRLF" in home.runjob("./dos.sh", code=2).err
    assert "odf release" in home.odf("unlok", code=2).err
