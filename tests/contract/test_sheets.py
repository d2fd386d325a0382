"""The sheets of a job and of a run, and the timeline: what pages tell, from rows of both stores."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from opendataflow import Manifest, Pool, Store
from opendataflow.errors import UnknownJob, UnknownRun, UsageError
from opendataflow.insight import timeline as module
from opendataflow.insight.job_sheet import job_sheet
from opendataflow.insight.run_sheet import run_sheet
from opendataflow.insight.timeline import timeline
from opendataflow.insight.timeline_drawing import Links, axis, lane, queue
from opendataflow.model import RetryRule
from opendataflow.project import Project, without_file
from tests.support.flows import chain, claim_one, dataset, job, produce


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs/make.sh").write_text("#!/bin/sh\n")
    return without_file(tmp_path, None)


# Job ----------------------------------------------------------------------------------------------------------------


def test_a_job_says_what_it_reads_in_words_and_its_rules_without_values(store: Store, project: Project) -> None:
    store.register(
        [dataset("raw", "day"), dataset("rates", "day"), dataset("months", "month")],
        [
            job("make", "raw rollup", "rates latest", writes="months", env={"TOKEN": "hunter2"}, retry=RetryRule(3)),
        ],
    )
    sheet = job_sheet(store, project, "make")
    assert {(each.datasetid, each.mapping, each.words) for each in sheet.reads} == {
        ("raw", "rollup", "every day of the month"),
        ("rates", "latest", "the newest READY day that is not after it"),
    }
    assert (sheet.code, sheet.code_problem, sheet.items) == ("jobs/make.sh", "", ("TOKEN",))
    assert {rule.name: rule.text for rule in sheet.rules}["retries"].startswith("3 after 10 s")
    assert "hunter2" not in repr(sheet)
    assert (sheet.runs, sheet.running, sheet.causes, sheet.next, sheet.paused) == ((), (), (), (), None)
    assert [reason.name for reason in sheet.reasons] == ["NOTHING_TO_DO"]
    with pytest.raises(UnknownJob):
        job_sheet(store, project, "nobody")


def test_a_job_says_what_runs_what_comes_next_and_why_chunks_failed(store: Store, project: Project) -> None:
    chain(store)
    store.announce("raw", [str(number) for number in range(1, 8)])
    store.commit(claim_one(store, "make"), {"product": Manifest(rows=5, bytes=70)})
    for number in (2, 3):
        store.fail(claim_one(store, "make"), detail=f"no space left on /scratch/{number}")
    store.fail(claim_one(store, "make"), "TIMED_OUT", detail="after 60 s")
    store.resubmit("product", ["4"])
    claim_one(store, "make", dataid="5")
    store.pause("make", why="the disk is full")
    sheet = job_sheet(store, project, "make")
    assert (sheet.next, sheet.claimable, sheet.counting_stopped) == (("4", "6", "7"), 3, False)
    (going,) = sheet.running
    assert (going.dataid, going.usual is not None, going.lease_left is not None) == ("5", True, True)
    (series,) = sheet.series
    assert [(point.dataid, point.rows) for point in series.points][:2] == [("1", 5), ("2", None)]
    assert (series.usual_rows, series.points[0].seconds is not None) == (5, True)
    first, second = sheet.causes
    assert (first.outcome, first.runs, first.failed_now, first.dataids) == ("JOB_FAILED", 2, 2, ("3", "2"))
    assert (second.outcome, second.runs, second.failed_now, second.dataids) == ("TIMED_OUT", 1, 0, ("4",))
    assert sheet.paused is not None
    assert (sheet.paused.why, sheet.reasons[0].name) == ("the disk is full", "LOCKED")
    assert [run.dataid for run in sheet.runs] == ["5", "4", "3", "2", "1"]


def test_runs_of_a_job_come_in_pages(store: Store, project: Project) -> None:
    chain(store)
    store.announce("raw", [str(number) for number in range(25)])
    store.commit_many([(claim, {}, 0) for claim in store.claim("make", n=25)])
    first = job_sheet(store, project, "make")
    assert (len(first.runs), first.older) == (20, first.runs[-1].runid)
    second = job_sheet(store, project, "make", before=first.older)
    assert (len(second.runs), second.older) == (5, None)


# Run ----------------------------------------------------------------------------------------------------------------


def test_a_run_tells_its_receipt_its_names_and_its_other_attempts(store: Store, project: Project) -> None:
    store.register(
        [dataset("raw"), dataset("product")], [job("make", "raw", writes="product", env={"TOKEN": "hunter2"})]
    )
    store.announce("raw", ["1"])
    failed = claim_one(store, "make")
    store.admit(failed, failed.receipt)
    store.fail(failed, detail="exit 3", exit_code=3)
    store.resubmit("product", ["1"])
    again = claim_one(store, "make")
    store.admit(again, again.receipt)
    sheet = run_sheet(store, project, failed.runid)
    assert (sheet.run.exit_code, sheet.run.outcome, sheet.is_running) == (3, "JOB_FAILED", False)
    assert [each.question for each in sheet.asked] == ["ready", "right", "place", "validated", "safe"]
    assert sheet.asked[0].text == "Is every input chunk READY?"
    assert sheet.asked[0].evidence == ("raw 1 is READY",)
    assert [run.runid for run in sheet.attempts] == [again.runid, failed.runid]
    assert [(each.datasetid, each.status, each.is_of_run) for each in sheet.outputs] == [("product", "RUNNING", False)]
    own, read, written = sheet.environment
    assert own.names == ("dataid", "jobid", "ODF_RUN", "ODF_ATTEMPT", "ODF_ENV", "item_TOKEN")
    assert "raw_location" in read.names
    assert written.datasetid == "product"
    assert "hunter2" not in repr(sheet)
    running = run_sheet(store, project, again.runid)
    assert running.is_running
    assert running.lease_left is not None
    store.commit(again)
    assert run_sheet(store, project, again.runid).outputs[0].is_of_run
    with pytest.raises(UnknownRun):
        run_sheet(store, project, 99)


def test_the_pages_of_spark_are_told_while_a_run_lives(store: Store, project: Project) -> None:
    chain(store)
    store.announce("raw", ["1"])
    claim = claim_one(store, "make")
    log = project.logs / "make/1.1.1.log"
    log.parent.mkdir(parents=True)
    store.log(claim.runid, str(log))
    for text, told in (
        ("# odf log\n# run 1\n# Spark UI: http://127.0.0.1:4040\nhello\n", "http://127.0.0.1:4040"),
        ("# odf log\n# Spark UI: http://[::1]:4040/\n", "http://[::1]:4040/"),
        ("# odf log\n# Spark UI: http://worker-7:4040\n", ""),
        ("# odf log\n# Spark UI: http://127.0.0.1.evil.example:4040\n", ""),
        ("# odf log\n# Spark UI: javascript:alert(1)\n", ""),
        ('# odf log\n# Spark UI: http://x"onclick=\n', ""),
        ("# odf log\nhello\n# Spark UI: http://elsewhere/\n", ""),
        ("# odf log\n", ""),
    ):
        log.write_text(text)
        assert run_sheet(store, project, claim.runid).spark_ui == told
    log.write_text("# odf log\n# Spark UI: http://127.0.0.1:4040\n")
    store.commit(claim)
    assert run_sheet(store, project, claim.runid).spark_ui == ""


def test_a_run_of_a_job_that_is_gone_is_still_told(store: Store, project: Project) -> None:
    chain(store)
    store.announce("raw", ["1"])
    runid = produce(store, "make").runid
    store.register([dataset("raw"), dataset("product")], prune=True)
    sheet = run_sheet(store, project, runid)
    assert (sheet.run.jobid, sheet.asked, sheet.outputs, sheet.environment) == ("make", (), (), ())


LINKS = Links(lambda runid: f"/run/{runid}", lambda begin, end: f"/timeline?since={begin:%H:%M}&until={end:%H:%M}")


# Timeline -----------------------------------------------------------------------------------------------------------


def set_times(store: Store, runid: int, begin: str, end: str | None, owner: str = "me@here:1") -> None:
    ended = f"'{end}+00'" if end else "null"
    store.dml(f"update run set started = '{begin}+00', ended = {ended}, owner = '{owner}' where runid = {runid}")


def at(time: str) -> datetime:
    return datetime.fromisoformat(f"2020-05-01 {time}").replace(tzinfo=UTC)


def test_runs_are_bars_in_rows_of_their_worker_pool_or_job(store: Store) -> None:
    store.register(
        [dataset("raw"), dataset("product"), dataset("other")],
        [job("make", "raw", writes="product", pool="etl"), job("look", "raw", writes="other")],
        [Pool("etl", 1)],
    )
    store.announce("raw", ["1", "2", "3"])
    store.dml("update data_manifest set published = '2020-05-01 10:00:00+00'")
    one = produce(store, "make")
    two = produce(store, "make")
    three = claim_one(store, "look")
    store.fail(three, detail="x")
    set_times(store, one.runid, "2020-05-01 10:05:00", "2020-05-01 10:20:00")
    set_times(store, two.runid, "2020-05-01 10:20:00", "2020-05-01 10:40:00")
    set_times(store, three.runid, "2020-05-01 10:10:00", "2020-05-01 10:15:00")
    found = timeline(store, at("10:00"), at("11:00"))
    (worker,) = found.lanes
    assert (found.runs, found.failed, worker.name, worker.rows) == (3, 1, "me@here:1", 2)
    assert [(bar.runid, bar.row, bar.status) for bar in worker.bars] == [
        (one.runid, 0, "READY"),
        (three.runid, 1, "FAILED"),
        (two.runid, 0, "READY"),
    ]
    assert worker.busy == 40 * 60
    assert [(each.name, each.runs, each.slots) for each in timeline(store, at("10:00"), at("11:00"), "pool").lanes] == [
        ("etl", 2, 1),
        ("no pool", 1, None),
    ]
    assert [each.name for each in timeline(store, at("10:00"), at("11:00"), "job").lanes] == ["look", "make"]
    assert [each.name for each in timeline(store, at("10:00"), at("11:00"), "job", "make").lanes] == ["make"]
    assert timeline(store, at("10:45"), at("11:00")).lanes == ()


def test_a_wait_is_told_with_what_came_last_and_the_full_pool(store: Store) -> None:
    store.register(
        [dataset("raw"), dataset("product"), dataset("out")],
        [job("make", "raw", writes="product"), job("use", "product", writes="out", pool="etl")],
        [Pool("etl", 1)],
    )
    store.announce("raw", ["1", "2"])
    drained = [produce(store, "make"), produce(store, "make"), produce(store, "use"), produce(store, "use")]
    for claim, begin, end in zip(
        drained, ("10:00", "10:00", "10:10", "10:20"), ("10:05", "10:05", "10:20", "10:25"), strict=True
    ):
        set_times(store, claim.runid, f"2020-05-01 {begin}:00", f"2020-05-01 {end}:00")
    store.dml("update data_manifest set published = '2020-05-01 10:05:00+00' where datasetid = 'product'")
    found = timeline(store, at("10:00"), at("11:00"), "job", "use")
    assert [(bar.wait.seconds, bar.wait.full) for bar in found.lanes[0].bars if bar.wait] == [(300, 0), (900, 600)]
    first = found.longest_waits[0]
    assert first.wait is not None
    assert (first.runid, first.wait.read.datasetid, first.wait.ready) == (drained[3].runid, "product", at("10:05"))
    drawn = lane(found, found.lanes[0], LINKS, UTC)
    assert f'href="/run/{drained[3].runid}"' in drawn
    assert 'class="wait full"' in drawn
    assert found.queue is not None
    assert (found.queue.most, max(found.queue.for_slot)) == (2, 1)
    assert found.queue.waiting[9:11] == (0, 2)
    assert "At most 2 runs waited at the same time, 1 of them for a slot" in queue(found.queue)
    assert "waited 15 min after product 2 was READY, 10 min of it for a slot of its pool" in drawn
    assert "style" not in drawn + axis(found, UTC)
    assert ">10:10<" in axis(found, UTC)


def test_very_many_runs_are_drawn_together_and_very_many_workers_share(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain(store)
    store.announce("raw", [str(number) for number in range(60)])
    claims = store.claim("make", n=60)
    for claim in claims[:59]:
        store.commit(claim)
    store.fail(claims[59], detail="x")
    for number, claim in enumerate(claims):
        time = f"2020-05-01 10:{number:02}:00"
        set_times(store, claim.runid, time, time, f"me@here:{number}")
    found = timeline(store, at("10:00"), at("11:00"))
    assert [each.name for each in found.lanes] == ["me@here"]
    assert len(found.lanes[0].bars) == 60
    monkeypatch.setattr(module, "_MOST_BARS", 10)
    monkeypatch.setattr(module, "_CELLS", (6, 6))
    found = timeline(store, at("10:00"), at("11:00"))
    assert found.is_together
    assert [(bar.runs, bar.status) for bar in found.lanes[0].bars] == [(10, "READY")] * 5 + [(10, "FAILED")]
    assert [bar.failed for bar in found.lanes[0].bars] == [0, 0, 0, 0, 0, 1]
    drawn = lane(found, found.lanes[0], LINKS, UTC)
    assert "10 runs of make from 05-01 10:50:00, 1 failed" in drawn
    assert 'href="/timeline?since=10:50&amp;until=11:00"' in drawn
    monkeypatch.setattr(module, "_MOST_RUNS", 20)
    assert timeline(store, at("10:00"), at("11:00")).runs == 20


def test_what_runs_is_drawn_to_the_end_and_a_wrong_period_is_refused(store: Store) -> None:
    assert timeline(store).lanes == ()
    chain(store)
    store.announce("raw", ["1"])
    claim_one(store, "make")
    found = timeline(store)
    assert found.until - found.since == timedelta(hours=1)
    assert [bar.end == found.until for bar in found.lanes[0].bars] == [True]
    for how in (
        {"since": found.until + timedelta(days=1)},
        {"since": found.until - timedelta(days=40)},
        {"by": "colour"},
    ):
        with pytest.raises(UsageError):
            timeline(store, **how)
