"""What a period brought, told from runs, events and manifests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from opendataflow import Manifest, Store
from opendataflow.errors import UnknownDataset, UnknownJob, UsageError
from opendataflow.insight import report as module
from opendataflow.insight.late import late
from opendataflow.insight.report import report
from opendataflow.insight.reported import RunCounts
from opendataflow.insight.timeline import timeline
from opendataflow.model.selector import Selector
from tests.support.flows import chain, claim_one, dataset, job, produce


def now() -> datetime:
    return datetime.now(UTC)


def test_an_empty_store_has_an_empty_report(store: Store) -> None:
    found = report(store)
    assert (found.counts, found.before, found.jobs, found.causes, found.rows) == (RunCounts(), RunCounts(), (), (), ())
    assert found.until - found.since == timedelta(days=1)
    assert len(found.slices) == 24


def test_a_run_that_was_stopped_did_not_fail(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    store.fail(claim_one(store, "make"), detail="SIGTERM", outcome="STOPPED")
    found = report(store)
    assert found.counts == RunCounts(runs=1, stopped=1)
    assert (found.causes, found.failing) == ((), ())
    assert sum(each.failed for each in found.slices) == 0
    assert timeline(store).failed == 0


def test_runs_are_counted_by_how_they_ended_and_by_job(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2", "3", "4"])
    produce(store, "make")
    produce(store, "use")
    store.fail(claim_one(store, "make"), detail="no space left on /scratch/2")
    store.fail(claim_one(store, "make"), detail="no space left on /scratch/3")
    claim_one(store, "make", force=True, dataid="4")
    found = report(store)
    assert found.counts == RunCounts(runs=5, ready=2, failed=2, refused=0, running=1, forced=1)
    assert sum(each.ready + each.failed + each.other for each in found.slices) == 5
    make, use = found.jobs
    assert (make.jobid, make.counts.runs, make.counts.failed, len(make.took)) == ("make", 4, 2, 1)
    assert make.cause.startswith("no space left on /scratch/")
    assert (use.jobid, use.counts, use.cause) == ("use", RunCounts(1, 1), "")
    assert [each.jobid for each in found.failing] == ["make"]
    assert {each.jobid for each in found.slowest} == {"make", "use"}


def test_failures_that_say_the_same_are_one_cause_with_what_is_still_open(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2"])
    for _ in range(2):
        store.fail(claim_one(store, "make"), detail="no answer from db-7 after 31 s")
    store.resubmit("product", ["1"])
    produce(store, "make", "1")
    (cause,) = report(store).causes
    assert (cause.runs, cause.chunks, cause.still_open, cause.jobs) == (2, 2, 1, ("make",))
    assert cause.example == "no answer from db-7 after 31 s"
    assert cause.first is not None
    assert cause.last is not None
    assert cause.first <= cause.last


def test_what_people_did_is_told_with_who_and_why(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2", "3"])
    for _ in range(3):
        produce(store, "make")
    store.resubmit("product", ["1", "2"], why="prices were in cents")
    store.hold("product", ["3"], why="finance closes the month")
    claim_one(store, "make", force=True, dataid="3")
    found = report(store)
    told = {each.what: (each.chunks, each.names, each.why) for each in found.deeds}
    assert told["resubmitted"] == (2, ("product",), "prices were in cents")
    assert told["held"] == (1, ("product",), "finance closes the month")
    assert told["forced"] == (1, ("make",), "")
    assert all(each.who and not each.who.rpartition(":")[2].isdigit() for each in found.deeds)


def test_recalled_data_is_told_with_who_and_why(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    produce(store, "make")
    store.recall("product", "1", why="half of the airports are missing")
    deeds = {each.what: each for each in report(store).deeds}
    assert (deeds["recalled"].chunks, deeds["recalled"].why) == (1, "half of the airports are missing")


def test_rows_are_told_in_the_order_of_the_dataset_with_what_is_usual(store: Store) -> None:
    store.register([dataset("raw")], [])
    counts = {"9": 100, "10": 110, "11": 90, "12": 10}
    store.announce("raw", list(counts), manifests={name: Manifest(rows=rows) for name, rows in counts.items()})
    (rows,) = report(store).rows
    assert (rows.dataids, rows.rows, rows.usual) == (("9", "10", "11", "12"), (100, 110, 90, 10), 100)
    assert rows.change == pytest.approx(-0.9)


def test_durations_are_compared_with_the_period_before(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2"])
    produce(store, "make")
    produce(store, "make")
    begin = now() - timedelta(hours=36)
    for runid, (start, seconds) in enumerate(((begin, 100), (now() - timedelta(hours=2), 150)), 1):
        stamps = [f"{moment:%Y-%m-%d %H:%M:%S.%f}+00:00" for moment in (start, start + timedelta(seconds=seconds))]
        store.dml(f"update run set started = '{stamps[0]}', ended = '{stamps[1]}' where runid = {runid}")
    found = report(store)
    (make,) = found.jobs
    assert (make.seconds, make.seconds_before) == (150, 100)
    assert make.trend == pytest.approx(0.5)
    assert (found.counts.runs, found.before.runs) == (1, 1)


def test_a_period_is_what_started_in_it(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    produce(store, "make")
    later = now() + timedelta(minutes=1)
    assert report(store, Selector(since=later - timedelta(hours=1), until=later)).counts.runs == 1
    long_ago = datetime(2020, 1, 1, tzinfo=UTC)
    past = report(store, Selector(since=long_ago, until=long_ago + timedelta(days=700)))
    assert (past.counts, past.deeds, past.rows) == (RunCounts(), (), ())
    with pytest.raises(UsageError):
        report(store, Selector(since=now() + timedelta(days=1)))


def test_selectors_narrow_it_down(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2"])
    produce(store, "make")
    produce(store, "use")
    store.fail(claim_one(store, "make"), detail="no space left")
    assert [each.jobid for each in report(store, Selector(jobs=("make",))).jobs] == ["make"]
    assert [each.jobid for each in report(store, Selector(datasets=("report",))).jobs] == ["use"]
    assert report(store, Selector(dataids=("1",))).counts == RunCounts(2, 2)
    assert report(store, Selector(statuses=("FAILED",))).counts == RunCounts(1, failed=1)
    assert report(store, Selector(causes=("no space",))).counts == RunCounts(1, failed=1)
    assert [each.jobid for each in report(store, Selector(downstream_of=("product",))).jobs] == ["use"]
    assert report(store, Selector(jobs=("make",))).selected == ("--job", "make")
    with pytest.raises(UnknownJob):
        report(store, Selector(jobs=("nosuch",)))
    with pytest.raises(UnknownDataset):
        report(store, Selector(datasets=("nosuch",)))


def test_a_job_that_is_gone_is_still_told(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    store.fail(claim_one(store, "make"), detail="x")
    store.register([dataset("raw")], [job("other", "raw", writes=())])
    store.dml("delete from job where jobid = 'make'")
    found = report(store)
    assert [each.jobid for each in found.jobs] == ["make"]
    assert found.causes[0].still_open == 0


def test_it_says_what_it_left_out(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    chain(store)
    store.announce("raw", [str(number) for number in range(5)])
    for _ in range(5):
        produce(store, "make")
    monkeypatch.setattr(module, "_MOST_RUNS", 3)
    monkeypatch.setattr(module, "_MOST_JOBS", 0)
    found = report(store)
    assert (found.counts.runs, found.jobs) == (3, ())
    assert found.remarks == ("Only the last 3 runs of the period are counted.", "Of 1 job the first 0 are listed.")


def test_what_was_late_and_what_is_late_still_are_told(store: Store) -> None:
    today = now().date()
    yesterday, before = (str(today - timedelta(days=days)) for days in (1, 2))
    options = {"deadline": "00:00"}  # of the day after
    store.register(
        [dataset("raw", "day"), dataset("product", "day", options=options)], [job("make", "raw", writes="product")]
    )
    store.announce("raw", [before, yesterday])
    produce(store, "make", before)
    signs = {each.dataid: (each.status, each.sign) for each in report(store).late}
    assert signs[yesterday] == (None, "LATE"), "a job produces it, as odf late says"
    assert signs == {each.dataid: (each.status, each.sign) for each in late(store).late} | {before: (None, "")}
    store.fail(claim_one(store, "make"), detail="x")
    found = {each.dataid: each for each in report(store).late}
    assert (found[before].ready is not None, found[before].status) == (True, None)
    assert (found[yesterday].ready, found[yesterday].status) == (None, "FAILED")
    assert all(each.seconds_late > 0 for each in found.values())
    past = report(store, Selector(since=now() - timedelta(days=1), until=now() + timedelta(seconds=5)))
    assert [each.dataid for each in past.late] == [before], "what is late now is not of a period that is over"


def test_what_was_there_in_time_and_published_again_is_not_late(store: Store) -> None:
    day = str(now().date() - timedelta(days=1))
    product = dataset("product", "day", options={"deadline": "00:00"})
    store.register([dataset("raw", "day"), product], [job("make", "raw", writes="product")])
    store.announce("raw", [day])
    produce(store, "make", day)
    store.resubmit("product", [day])
    produce(store, "make", day)
    store.dml(
        f"update data_manifest set published = '{day} 03:00:00+00:00' where datasetid = 'product' and version = 1"
    )
    assert report(store).late == ()
