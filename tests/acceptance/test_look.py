"""status, why, explain, runs, jobs, datasets, log: what they say, and that nothing stored can steer a terminal."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from opendataflow import Dataset, Input, Job, Manifest, Mapping, Partition, Pool, Store
from opendataflow.model import Answer, Receipt, dataids
from tests.support.flows import claim_one, dataset, drain, job, put
from tests.support.odf import Odf

ESCAPE = "\x1b[31mred\x1b[0m \x9b2J \x07 \u202e"


def days(first: str, last: str) -> list[str]:
    return list(dataids(Partition("day"), first, last))


@pytest.fixture
def flow(store: Store) -> Store:
    """raw → clean → months: the second day failed, the fourth runs, the fifth is held, the rest is to come."""
    store.register(
        [dataset("raw", "day"), dataset("clean", "day"), dataset("months", "month"), dataset("names", "text")],
        [job("cleaning", "raw", writes="clean", pool="etl"), job("report", "clean rollup", writes="months")],
        [Pool("etl", 4)],
    )
    store.announce("raw", days("2013-01-01", "2013-01-06"))
    store.commit(claim_one(store, "cleaning"))
    store.fail(claim_one(store, "cleaning"), "JOB_FAILED", "exit 3 " + ESCAPE, exit_code=3)
    store.commit(claim_one(store, "cleaning"))
    claim_one(store, "cleaning")
    store.hold("raw", ["2013-01-05"], why="the vendor is asked " + ESCAPE)
    return store


def test_status_is_a_matrix_along_the_flow(flow: Store, odf: Odf):
    lines = odf("status").out.splitlines()
    assert lines[0].split() == [f"2013-01-0{n}" for n in range(1, 7)]
    assert lines[1].split()[0] == "raw"
    assert lines[2].split() == ["clean", "●", "READY", "✗", "FAILED", "●", "READY", "▶", "RUNNING", "·", "·"]
    assert "no chunks: months, names" in lines[-1]
    assert "today" not in odf("status").out


def test_status_as_json_has_the_same_cells(flow: Store, odf: Odf):
    (block,) = odf("status", "--json").data["blocks"]
    assert [line["datasetid"] for line in block["lines"]] == ["raw", "clean"]
    assert [cell["status"] for cell in block["lines"][1]["cells"]] == [
        "READY",
        "FAILED",
        "READY",
        "RUNNING",
        None,
        None,
    ]
    assert block["lines"][1]["counts"] == {"READY": 2, "RUNNING": 1, "FAILED": 1}


def test_status_of_a_narrow_terminal_fits_it(flow: Store, odf: Odf):
    for columns in ("40", "60", "80"):
        found = odf("status", COLUMNS=columns).out.splitlines()
        assert max(map(len, found)) <= int(columns)
    assert any("✗ FAILED" in line for line in found)


def test_status_speaks_ascii_where_nothing_else_is_known(flow: Store, odf: Odf):
    found = odf("status", PYTHONIOENCODING="ascii:replace", COLUMNS="60").out
    assert "#X#>.." in found


def test_status_can_be_narrowed(flow: Store, odf: Odf):
    assert odf("status", "clean", "--from", "2013-01-02", "--to", "2013-01-03").out.splitlines()[0].split() == [
        "2013-01-02",
        "2013-01-03",
    ]
    (block,) = odf("status", "clean", "--from", "2013-01-02", "--to", "2013-01-03", "--json").data["blocks"]
    assert [(line["first"], line["last"]) for line in block["lines"]] == [("2013-01-02", "2013-01-03")]
    chunks = odf("status", "--status", "failed", "--chunks", "--json").data
    assert [(each["datasetid"], each["dataid"]) for each in chunks] == [("clean", "2013-01-02")]
    assert odf("status", "--status", "nonsense", code=2).err.startswith("UNKNOWN_STATUS")
    assert odf("status", "clena", code=2).err.startswith(
        "UNKNOWN_DATASET: there is no dataset clena\n  Did you mean clean?"
    )
    assert odf("status", "--from", "13th of May", code=2).err.startswith("BAD_ID")


def test_status_shows_holes_between_the_first_and_the_last(store: Store, odf: Odf):
    store.register([dataset("n")])
    store.announce("n", [str(n) for n in range(1, 21) if n not in (5, 6)])
    assert "●●●●··●●●●●●●●●●●●●●" in odf("status", "n", COLUMNS="60").out


def test_status_puts_months_into_cells_when_days_do_not_fit(store: Store, odf: Odf):
    store.register([dataset("raw", "day"), dataset("clean", "day")], [job("cleaning", "raw", writes="clean")])
    store.announce("raw", days("2012-01-01", "2013-12-31"))
    drain(store, "cleaning", n=1000)
    store.fail_chunks("clean", ["2013-05-05", "2013-05-06"])
    store.forget("clean", ["2012-02-07"])
    answer = odf("status", "--json").data
    (block,) = answer["blocks"]
    assert block["each"] == "one month"
    assert [column["label"] for column in block["columns"]][:2] == ["2012-01", "2012-02"]
    clean = block["lines"][1]["cells"]
    assert clean[16] == {"status": "FAILED", "n": 2, "chunks": 31, "stale": 0}
    assert clean[1] == {"status": "READY", "n": 28, "chunks": 28, "stale": 0}  # one hole in a leap year's February
    assert answer["exceptions"] == [
        {"datasetid": "clean", "status": "FAILED", "n": 2, "ranges": [["2013-05-05", "2013-05-06"]], "more": False}
    ]
    shown = odf("status").out
    assert "◐" in shown
    assert "2013-05-05..2013-05-06" in shown


def test_what_was_typed_as_sql_shows_where_it_belongs(flow: Store, odf: Odf):
    put(flow, "raw", "2013-01-08", "READY")
    put(flow, "raw", "the-day-after", "READY")
    found = odf("status", "raw", "--json").data["blocks"][0]
    assert found["lines"][0]["last"] == "2013-01-08"
    assert found["lines"][0]["malformed"] == 1
    assert "the-day-after" in odf("status", "raw", "--chunks").out


def test_why_names_what_is_in_the_way_and_what_would_help(flow: Store, odf: Odf):
    failed = odf("why", "cleaning", "2013-01-02").out
    assert failed.startswith("FAILED: JOB_FAILED, not retried: clean 2013-01-02 is FAILED")
    assert "ended JOB_FAILED (exit code 3)" in failed
    assert "odf resubmit clean 2013-01-02" in failed
    held = odf("why", "cleaning", "2013-01-05").out
    assert "raw 2013-01-05 is HOLD" in held
    assert "the vendor is asked" in held
    assert "odf release raw 2013-01-05" in held
    assert "lease lasts another" in odf("why", "cleaning", "2013-01-04").out
    assert "odf ready raw 2013-01-09" in odf("why", "cleaning", "2013-01-09").out
    assert odf("why", "cleaning", "2013-01-01").out.startswith(
        "LOCKED: there is nothing to do: clean 2013-01-01 is READY"
    )
    assert odf("why", "cleaning", "2013-01-06").out.startswith("YES")
    assert odf("why", "cleaning", "13", code=2).err.startswith("BAD_DATAID")
    assert odf("why", "clening", code=2).err.startswith("UNKNOWN_JOB")


def test_why_looks_one_level_up(flow: Store, odf: Odf):
    answer = odf("why", "report", "2013-01").out
    assert "clean 2013-01-02 is FAILED" in answer
    assert "cleaning 2013-01-05 waits for raw 2013-01-05, which is HOLD" in answer
    assert answer.startswith("DATA_NOT_READY: clean 2013-01-02 is FAILED"), "the cause comes first"
    assert "clean 2013-01-05..2013-01-31 (27 chunks) were never produced; cleaning should produce them" in answer


def test_why_of_a_whole_job_sums_it_up(flow: Store, odf: Odf):
    answer = odf("why", "cleaning").out
    assert "1 chunk of cleaning can run now; next: 2013-01-06" in answer
    assert "1 chunk of cleaning is running now: 2013-01-04" in answer
    assert "1 chunk of clean is FAILED: 2013-01-02" in answer
    waiting = odf("why", "report", "--json").data
    assert waiting["verdict"] == "DATA_NOT_READY"
    assert "odf resubmit clean --failed" in waiting["reasons"][0]["commands"]


def test_why_says_that_a_pool_is_paused_or_full(flow: Store, odf: Odf):
    odf("pool", "set", "etl", "0")
    told = odf("why", "cleaning", "2013-01-06").out
    assert "pool etl is paused" in told
    assert "odf pool set etl N" in told, "nobody declared a number"
    odf("pool", "set", "etl", "1")
    assert "pool etl is full: 1 of 1 slots are taken" in odf("why", "cleaning").out


def test_a_chunk_whose_output_is_gone_can_run_again(flow: Store, odf: Odf):
    flow.dml("delete from datastatus where datasetid = 'clean' and dataid = '2013-01-01' and locktype = 'OUT'")
    assert "YES: nothing stands in the way" in odf("why", "cleaning", "2013-01-01").out
    assert odf("why", "cleaning").out.startswith("YES: ")


def test_why_says_for_how_long_a_refused_chunk_is_deferred(flow: Store, odf: Odf):
    claim = claim_one(flow, "cleaning")
    no = Answer("place", False, {}, "the disk is not mounted")
    flow.give_back(
        claim,
        Receipt("cleaning", claim.dataid, (Answer("ready", True), Answer("right", True), no)),
        "refused",
        wait=3600,
    )
    answer = odf("why", "cleaning", claim.dataid).out
    assert answer.startswith("INVALID_PATH: the disk is not mounted (refused at ")
    assert re.search(r"cleaning 2013-01-06 is deferred for another (60|5\d) min, unless it is named\n", answer)


def test_why_says_what_was_never_announced(store: Store, odf: Odf):
    store.register([dataset("a"), dataset("b")], [job("ab", "a", writes="b")])
    answer = odf("why", "ab").out
    assert answer.startswith("NOTHING_TO_DO: ab has nothing to do: a has no chunk yet")
    assert "odf ready a DATAID" in answer


def test_why_names_inputs_that_were_never_announced_as_ranges(store: Store, odf: Odf):
    sums = Dataset("sums", partition=Partition("day"))
    readings = Dataset("readings", partition=Partition("day"))
    store.register([readings, sums], [Job("sum", (Input("readings", Mapping("window", 7)),), ("sums",))])
    store.announce("readings", ["2026-11-14", "2026-11-16"])
    answer = odf("why", "sum", "2026-11-16")
    assert answer.out.startswith(
        "DATA_NOT_READY: readings 2026-11-10..2026-11-13, 2026-11-15 (5 chunks) were never announced, and no job "
        "produces readings: they come from outside\n  → odf ready readings 2026-11-10..2026-11-13 2026-11-15\n"
    )
    assert len(odf("why", "sum", "2026-11-16", "--json").data["reasons"]) == 1


def test_explain_answers_the_five_questions_now_and_then(flow: Store, odf: Odf):
    answer = odf("explain", "clean", "2013-01-02").out
    assert answer.startswith("clean 2013-01-02 is FAILED")
    assert "The five questions of run 2" in answer
    assert "report: not yet → months 2013-01 not there" in answer
    data = odf("explain", "clean", "2013-01-01", "--json").data
    assert data["status"] == "READY"
    assert [each["answer"] for each in data["answers"]] == ["yes", "yes", "not asked", "not asked", "yes"]
    assert [each["yes"] for each in data["answers"]] == [True, True, None, None, True]
    assert [(each["datasetid"], each["dataid"], each["version"]) for each in data["made_from"]] == [
        ("raw", "2013-01-01", 1)
    ]
    assert [each["kind"] for each in data["events"]] == ["claimed", "published"]
    assert [each["verdict"] for each in data["decisions"]] == ["YES"]


def test_the_last_receipt_alone_fits_on_a_screen(flow: Store, odf: Odf):
    answer = odf("explain", "--receipt", "clean", "2013-01-02").out
    assert "YES" in answer
    assert answer.count("  yes  ") == 3
    assert answer.count("  not asked  ") == 2  # place and validated of datasets that are only tracked
    assert "raw 2013-01-02 is READY" in answer
    assert odf("explain", "--receipt", "clean", "2013-01-02", "--json").data["verdict"] == "YES"
    assert "nobody asked" in odf("explain", "--receipt", "raw", "2013-01-06").out


def test_explain_of_an_input_says_who_read_which_version(flow: Store, odf: Odf):
    (reader,) = odf("explain", "raw", "2013-01-01", "--json").data["read_by"]
    assert reader == {
        "jobid": "cleaning",
        "status": "DONE",
        "version": 1,
        "outputs": [["clean", "2013-01-01", "READY"]],
    }
    assert odf("explain", "raw", "2014-01-01").out.startswith("raw 2014-01-01 is not there")
    assert odf("explain", "raw", "nonsense", code=2).err.startswith("BAD_DATAID")


def test_nothing_stored_steers_the_terminal(flow: Store, odf: Odf):
    flow.dml("insert into dataset (datasetid, hostname, location) values ('evil', '\x1b[2J', '\x1b]0;x\x07')")
    for words in (
        ("explain", "clean", "2013-01-02"),
        ("why", "cleaning"),
        ("runs",),
        ("datasets",),
        ("datasets", "evil"),
        ("sql", "select * from run"),
        ("explain", "raw", "2013-01-05"),
    ):
        for answer in (odf(*words), odf(*words, "--json")):
            assert not set("\x1b\x07\x9b\u202e") & set(answer.out + answer.err), words
    assert "red" in odf("runs").out


@pytest.mark.parametrize("bad", ["a b", "../x", "x'y", "x\ny", "x" * 129, "\u202ex", "-x"])
def test_an_id_outside_the_grammar_is_refused(flow: Store, odf: Odf, bad: str):
    for words in (
        ("status",),
        ("why",),
        ("explain", "clean"),
        ("jobs",),
        ("datasets",),
        ("runs",),
        ("hold", "clean"),
        ("forget",),
    ):
        answer = odf(*words, "--", bad, *(["1"] if words == ("forget",) else []), code=2)
        assert answer.err.startswith("BAD_ID"), answer
        assert "\n" not in answer.err.splitlines()[0]
        assert "\u202e" not in answer.err


def test_runs_are_listed_newest_first_in_pages(flow: Store, odf: Odf):
    assert [run["runid"] for run in odf("runs", "--json").data] == [4, 3, 2, 1]
    assert [run["runid"] for run in odf("runs", "cleaning", "-n", "2", "--before", "4", "--json").data] == [3, 2]
    assert [run["runid"] for run in odf("runs", "--failed", "--json").data] == [2]
    assert "odf runs --before 3" in odf("runs", "-n", "2").out


def test_jobs_and_datasets_are_listed_along_the_flow_without_passwords(flow: Store, odf: Odf):
    flow.register(
        [Dataset("db", kind="table", hostname="h", tablename="t", username="u", encryptedpass=f"odf2:canary{'A' * 62}")]
    )
    assert [each["jobid"] for each in odf("jobs", "--json").data] == ["cleaning", "report"]
    assert "clean (rollup)" in odf("jobs", "report").out
    assert [each["datasetid"] for each in odf("datasets", "--json").data] == ["raw", "clean", "months", "db", "names"]
    for words in (
        ("datasets",),
        ("datasets", "db"),
        ("datasets", "db", "--json"),
        ("datasets", "--json"),
        ("getjob", "cleaning"),
    ):
        assert "canary" not in odf(*words).out
    assert "(encrypted)" in odf("datasets", "db").out


def test_a_log_is_shown_without_control_characters(flow: Store, odf: Odf, tmp_path: Path):
    path = tmp_path / ".odf/logs/make/x.log"
    path.parent.mkdir(parents=True)
    path.write_text("one\n\x1b[31mtwo\x1b[0m\n")
    flow.dml(f"update run set log = '{path}' where runid = 1")
    assert odf("log", "1").out == "one\n[31mtwo[0m\n"
    assert odf("log", "1", "--follow").out == "one\n[31mtwo[0m\n"
    assert odf("log", "2", code=2).err.startswith("UNKNOWN_RUN")
    assert odf("log", "99", code=2).err.startswith("UNKNOWN_RUN")


@pytest.mark.fault(22)
def test_a_row_of_the_store_opens_no_other_file_than_a_log(flow: Store, odf: Odf, tmp_path: Path):
    logs = tmp_path / ".odf/logs"
    (logs / "make").mkdir(parents=True)
    secret = tmp_path / "secret.log"
    secret.write_text("the key")
    (logs / "make/link.log").symlink_to(secret)
    (logs / "make/folder.log").mkdir()
    os.mkfifo(logs / "make/pipe.log")
    (logs / "make/notes.txt").write_text("the key")
    for path in (
        "/etc/passwd",
        str(secret),
        f"{logs}/../../secret.log",
        f"{logs}/make/link.log",
        f"{logs}/make/folder.log",
        f"{logs}/make/pipe.log",
        f"{logs}/make/notes.txt",
        f"{logs}-other/x.log",
    ):
        flow.dml(f"update run set log = '{path}' where runid = 1")
        for words in (("log", "1"), ("log", "1", "--follow"), ("log", "1", "--json")):
            answer = odf(*words, code=12)
            assert "INVALID_PATH" in answer.out + answer.err
            assert "the key" not in answer.out + answer.err
            assert "root:" not in answer.out + answer.err


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_a_stream_that_is_closed_is_nobody_s_and_takes_no_file_of_ours(flow: Store, odf: Odf, closed: str):
    called = ["sh", "-c", f'exec "$0" -m opendataflow "$@" {closed}', sys.executable]
    for words, code in (
        (["status"], 0),
        (["status", "--json"], 0),
        (["ready", "raw", "2013-01-09"], 0),
        (["status", "x"], 2),
    ):
        done = subprocess.run(
            [*called, *words, "--store", odf.store_url], cwd=odf.folder, capture_output=True, timeout=240, check=False
        )
        assert (done.returncode, b"INTERNAL" in done.stdout + done.stderr) == (code, False), done
    assert flow.views.chunk("raw", "2013-01-09") is not None


def test_many_failed_inputs_are_one_line_wherever_they_stand(store: Store, odf: Odf):
    day = Partition("day")
    store.register(
        [
            Dataset("raw", partition=day),
            Dataset("readings", partition=day),
            Dataset("sums", partition=Partition("year")),
        ],
        [job("read", "raw", writes="readings"), Job("sum", (Input("readings", Mapping("rollup")),), ("sums",))],
    )
    year = days("2025-01-01", "2025-12-31")
    store.announce("raw", year)
    for number, claim in enumerate(store.claim("read", 365)):
        store.commit(claim) if number % 2 else store.fail(claim, "JOB_FAILED", f"exit code {claim.dataid}")
    these = "readings 2025-01-01, 2025-01-03, 2025-01-05, 2025-01-07, 2025-01-09, … (183 chunks) are FAILED"
    answer = odf("why", "sum", "2025").out
    assert answer.startswith(f"DATA_NOT_READY: {these}\n  ")
    assert "odf resubmit readings 2025-01-01 2025-01-03 " in answer
    assert len(odf("why", "sum", "2025", "--json").data["reasons"]) == 1
    assert these in odf("run", "sum", "--dataid", "2025", "--dry-run").out
    refused = odf("start", "sum", code=10).err
    assert these in refused
    assert these in str(store.views.receipts("sum", "2025")[-1].receipt)
    store.resubmit("readings", year[:1])
    store.fail(claim_one(store, "read"), "NO_SPACE", "the disk is full")
    store.hold("readings", year[2:5:2])
    told = [reason["text"] for reason in odf("why", "sum", "2025", "--json").data["reasons"]]
    assert told == [
        f"readings 2025-01-01 is FAILED since {told[0].partition(' since ')[2]}",
        "readings 2025-01-03, 2025-01-05 (2 chunks) are HOLD: set aside by a person",
        "readings 2025-01-07, 2025-01-09, 2025-01-11, 2025-01-13, 2025-01-15, … (180 chunks) are FAILED",
    ]


def test_explain_says_why_the_clock_does_not_announce_a_chunk(store: Store, odf: Odf):
    weekdays = Dataset("bd", partition=Partition("day", start="2026-11-02"), options={"calendar": "Mon-Fri"})
    store.register([weekdays])
    for dataid in ("2026-11-07", "2026-11-08"):
        told = odf("explain", "bd", dataid).out
        assert f"bd {dataid} is not there: never produced: the calendar of bd leaves it out" in told


@pytest.mark.parametrize("before", ["2013-01-01", "2013-01-06"], ids=["published", "never produced"])
def test_a_running_chunk_that_no_run_holds_says_so_at_every_door(flow: Store, odf: Odf, before: str):
    if before == "2013-01-06":
        put(flow, "clean", before, "RUNNING", jobid="cleaning")
    else:
        odf("dml", f"update job_status set status = 'RUNNING' where dataid = '{before}'")
    here, no_run = f"clean {before}", "and no run holds it"
    way = f"odf resubmit {here} --force"
    of_chunk = odf("why", "cleaning", before, "--json").data["reasons"][0]
    assert (no_run in of_chunk["text"], of_chunk["commands"]) == (True, [way])
    (of_job,) = (each for each in odf("why", "cleaning", "--json").data["reasons"] if "no run holds" in each["text"])
    assert (f"1 chunk of clean is RUNNING, {no_run}: {before}" in of_job["text"], of_job["commands"]) == (True, [way])
    for command in (("why", "report", "2013-01"), ("explain", "clean", before)):
        told = odf(*command).out
        assert (no_run in told, way in told) == (True, True), command
    for verb in ("resubmit", "hold"):
        refused = odf(verb, *here.split(), code=14).err
        assert f"LOCKED: {here} is RUNNING, {no_run}\n" in refused
        assert f"odf {verb} {here} --force" in refused
    assert f"1 chunk RUNNING, {no_run} ({here}): odf recover" in odf("check", code=2).out
    odf(*way.split()[1:])
    assert "no run holds" not in odf("check", code=2).out + odf("explain", *here.split()).out
    assert "no run holds" not in odf("why", "cleaning", "2013-01-04").out, "a run holds this one"


def test_a_page_of_history_names_an_older_one_only_where_there_is_one(flow: Store, odf: Odf):
    n = len(odf("history", "clean", "2013-01-01", "--json").data["events"])
    assert "older:" not in odf("history", "clean", "2013-01-01", "-n", str(n)).out
    (older,) = (each for each in odf("history", "clean", "2013-01-01", "-n", "1").out.splitlines() if "older:" in each)
    assert "claimed" in odf(*older.removeprefix("older: odf ").split()).out


def test_an_exit_by_a_signal_is_named(flow: Store, odf: Odf):
    flow.fail(claim_one(flow, "cleaning"), "JOB_FAILED", "ended by signal 15 (SIGTERM) after 3 s: bye", exit_code=-15)
    (header, line) = odf("runs", "-n", "1").out.splitlines()[0], odf("runs", "-n", "1").out.splitlines()[2]
    assert line[header.index("exit") :].split()[0] == "SIGTERM"
    assert "(SIGTERM): " in odf("why", "cleaning", "2013-01-06").out
    assert odf("runs", "-n", "1", "--json").data[0]["exit_code"] == -15


def test_why_says_of_a_chunk_that_was_rolled_back_what_history_says(odf: Odf, store: Store):
    store.register([dataset("raw"), dataset("clean")], [job("load", "raw", writes="clean")])
    store.announce("raw", ["1"])
    for content in "ab":
        manifest = Manifest(location=f"/clean/{content}", fingerprint=content)
        store.commit(claim_one(store, "load"), {"clean": manifest})
        if content == "a":
            store.resubmit("clean", ["1"])
    store.rollback("clean", "1", why="b is wrong")
    assert "rolled back" in odf("history", "clean", "1").out
    told = odf("why", "load", "1").out
    assert "rolled back by " in told
    assert ": b is wrong" in told
