"""Every mapping end to end: which chunks can be taken when, and what they read."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from opendataflow import Store
from opendataflow.store import Claim
from opendataflow.store.engine import claims
from tests.support.flows import change, claim_one, dataset, drain, following, in_status, job, produce, status


def read(store: Store, jobid: str) -> tuple[str, list[str]]:
    """Publishes the next chunk: its dataid, and the chunks it read as "dataset dataid", dataset by dataset."""
    claim = produce(store, jobid)
    inputs = sorted(claim.inputs, key=lambda item: item.datasetid)
    return claim.dataid, [f"{item.datasetid} {item.dataid}" for item in inputs]


def test_identity_reads_the_chunk_of_the_same_name(store: Store) -> None:
    store.register([dataset("raw", "day"), dataset("clean", "day")], [job("clean", "raw", writes="clean")])
    store.announce("raw", ["2025-01-02", "2025-01-01"])
    assert read(store, "clean") == ("2025-01-01", ["raw 2025-01-01"])
    assert read(store, "clean") == ("2025-01-02", ["raw 2025-01-02"])
    assert store.claim("clean") == []


def test_lag_reads_yesterday(store: Store) -> None:
    store.register([dataset("raw", "day"), dataset("next", "day")], [job("tomorrow", "raw lag", writes="next")])
    store.announce("raw", ["2025-02-28"])
    assert read(store, "tomorrow") == ("2025-03-01", ["raw 2025-02-28"])


def test_lag_2_reads_the_day_before_yesterday_and_today_beside_it(store: Store) -> None:
    store.register(
        [dataset("raw", "day"), dataset("trend", "day"), dataset("base", "day")],
        [job("compare", "raw", "base lag 2", writes="trend")],
    )
    store.announce("raw", ["2025-01-03"])
    assert store.claim("compare") == []
    store.announce("base", ["2025-01-02", "2025-01-03"])
    assert store.claim("compare") == []
    store.announce("base", ["2025-01-01"])
    assert read(store, "compare") == ("2025-01-03", ["base 2025-01-01", "raw 2025-01-03"])


def balance(store: Store) -> None:
    store.register(
        [dataset("raw", "day"), dataset("balance", "day", start="2025-01-01")],
        [job("book", "raw", "balance lag", writes="balance")],
    )


def test_a_job_that_reads_its_own_yesterday_goes_day_by_day(store: Store) -> None:
    balance(store)
    store.announce("raw", ["2025-01-03", "2025-01-02", "2025-01-01"])
    assert following(store, "book") == ["2025-01-01"]
    first = claim_one(store, "book")
    assert store.claim("book") == [], "tomorrow waits for today"
    store.commit(first)
    assert read(store, "book") == ("2025-01-02", ["balance 2025-01-01", "raw 2025-01-02"])
    assert read(store, "book") == ("2025-01-03", ["balance 2025-01-02", "raw 2025-01-03"])


def test_a_gap_stops_a_job_that_reads_its_own_yesterday(store: Store) -> None:
    balance(store)
    store.announce("raw", ["2025-01-01", "2025-01-03"])
    assert drain(store, "book") == [("book", "2025-01-01")]
    store.announce("raw", ["2025-01-02"])
    assert drain(store, "book") == [("book", "2025-01-02"), ("book", "2025-01-03")]


def test_a_chain_of_days_that_is_resubmitted_heals_from_its_beginning(store: Store) -> None:
    balance(store)
    store.announce("raw", ["2025-01-01", "2025-01-02", "2025-01-03"])
    drain(store, "book")
    store.dml("update job_status set status = 'RESUBMIT' where dataid >= '2025-01-02'")
    assert drain(store, "book") == [("book", "2025-01-02"), ("book", "2025-01-03")]
    assert [chunk.version for chunk in store.views.all_chunks("balance")] == [1, 2, 2]


def test_a_job_that_reads_only_its_own_past_begins_at_the_start(store: Store) -> None:
    store.register([dataset("count", start="5", end="7")], [job("tick", "count lag", writes="count")])
    assert [read(store, "tick") for _ in range(3)] == [("5", []), ("6", ["count 5"]), ("7", ["count 6"])]
    assert store.claim("tick") == [], "the end of the partition is the end"


def test_a_window_waits_for_its_last_days_and_is_clipped_at_the_start(store: Store) -> None:
    store.register(
        [dataset("raw", "day", start="2025-01-01"), dataset("average", "day", start="2025-01-01")],
        [job("mean", "raw window 3", writes="average")],
    )
    store.announce("raw", ["2025-01-03", "2025-01-01"])
    assert read(store, "mean") == ("2025-01-01", ["raw 2025-01-01"])
    assert store.claim("mean") == []
    store.announce("raw", ["2025-01-02"])
    assert read(store, "mean") == ("2025-01-02", ["raw 2025-01-01", "raw 2025-01-02"])
    assert read(store, "mean") == ("2025-01-03", ["raw 2025-01-01", "raw 2025-01-02", "raw 2025-01-03"])
    store.announce("raw", ["2025-01-04"])
    assert read(store, "mean") == ("2025-01-04", ["raw 2025-01-02", "raw 2025-01-03", "raw 2025-01-04"])


def test_the_memory_of_an_announcement_does_not_grow_with_the_square_of_a_window(store: Store) -> None:
    store.register(
        [dataset(name) for name in ("raw", "second", "third", "mean")],
        [job("add", "raw window 200", "second window 200", "third window 200", writes="mean")],
    )
    store.announce("raw", ["1000"])
    tracemalloc.start()
    try:
        store.announce("raw", ["1001"])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 14_000_000


def test_windows_that_overlap_run_at_the_same_time(store: Store) -> None:
    store.register(
        [dataset("raw", start="1"), dataset("average", start="1")], [job("mean", "raw window 2", writes="average")]
    )
    store.announce("raw", ["1", "2", "3"])
    claims = store.claim("mean", n=3)
    assert [claim.dataid for claim in claims] == ["1", "2", "3"]
    store.commit(claims[0])
    store.fail(claims[1])
    store.commit(claims[2])
    assert [status(store, "average", dataid) for dataid in "123"] == ["READY", "FAILED", "READY"]
    assert in_status(store, "raw", "3", "mean") == "DONE"
    store.resubmit("average", ["2"])
    assert produce(store, "mean").dataid == "2"


def test_a_rollup_waits_for_every_day_of_its_month(store: Store) -> None:
    store.register([dataset("raw", "day"), dataset("monthly", "month")], [job("month", "raw rollup", writes="monthly")])
    days = [f"2024-02-{day:02d}" for day in range(1, 30)]
    store.announce("raw", [*days[:-1], "2024-03-01"])
    assert store.claim("month") == []
    assert store.views.candidate_counts()["month"] == {"WAITING": 2}
    store.announce("raw", days[-1:])
    assert read(store, "month") == ("2024-02", [f"raw {day}" for day in days])
    assert store.claim("month") == []


def test_a_rollup_of_hours_into_a_day(store: Store) -> None:
    store.register([dataset("raw", "hour"), dataset("daily", "day")], [job("sum", "raw rollup", writes="daily")])
    store.announce("raw", [f"2025-01-01T{hour:02d}" for hour in range(1, 24)])
    assert store.claim("sum") == []
    store.announce("raw", ["2025-01-01T00"])
    dataid, inputs = read(store, "sum")
    assert (dataid, len(inputs), inputs[0], inputs[-1]) == (
        "2025-01-01",
        24,
        "raw 2025-01-01T00",
        "raw 2025-01-01T23",
    )


def test_a_rollup_of_a_partition_that_starts_in_the_middle_needs_only_what_there_can_be(store: Store) -> None:
    store.register(
        [dataset("raw", "day", start="2025-01-30"), dataset("monthly", "month")],
        [job("month", "raw rollup", writes="monthly")],
    )
    store.announce("raw", ["2025-01-30", "2025-01-31"])
    assert read(store, "month") == ("2025-01", ["raw 2025-01-30", "raw 2025-01-31"])


def test_one_day_of_a_month_that_goes_bad_stops_the_month(store: Store) -> None:
    store.register([dataset("raw", "day"), dataset("monthly", "month")], [job("month", "raw rollup", writes="monthly")])
    store.announce("raw", [f"2025-02-{day:02d}" for day in range(1, 29)])
    change(store, "raw", "2025-02-14", "FAILED")
    assert store.claim("month") == []
    change(store, "raw", "2025-02-14", "READY")
    assert claim_one(store, "month").dataid == "2025-02"


def test_fan_out_makes_a_chunk_for_every_day_of_the_month(store: Store) -> None:
    store.register([dataset("raw", "month"), dataset("daily", "day")], [job("cut", "raw fan_out", writes="daily")])
    store.announce("raw", ["2025-02"])
    assert [claim.dataid for claim in store.claim("cut", n=3)] == ["2025-02-01", "2025-02-02", "2025-02-03"]
    rest = store.claim("cut", n=100)
    assert [rest[0].dataid, rest[-1].dataid, len(rest)] == ["2025-02-04", "2025-02-28", 25]
    store.commit_many([(claim, {}, 0) for claim in rest])
    assert {tuple(claim.inputs[0]) for claim in rest} == {("raw", "2025-02", 1)}


def flights(store: Store) -> None:
    store.register(
        [dataset("flights", "day"), dataset("airlines", "month"), dataset("joined", "day")],
        [job("join", "flights", "airlines latest", writes="joined")],
    )


def test_latest_takes_the_newest_that_is_not_after_the_output(store: Store) -> None:
    flights(store)
    store.announce("flights", ["2025-02-10", "2025-04-10"])
    assert store.claim("join") == []
    assert store.views.candidate_counts()["join"] == {"WAITING": 2}
    store.announce("airlines", ["2025-03"])
    assert read(store, "join") == ("2025-04-10", ["airlines 2025-03", "flights 2025-04-10"])
    assert store.claim("join") == [], "airlines of March are the future of February"
    store.announce("airlines", ["2024-12", "2025-01"])
    assert read(store, "join") == ("2025-02-10", ["airlines 2025-01", "flights 2025-02-10"])


def test_latest_changes_when_something_newer_arrives_before_the_claim(store: Store) -> None:
    flights(store)
    store.announce("airlines", ["2025-01"])
    store.announce("flights", ["2025-03-10"])
    assert following(store, "join") == ["2025-03-10"]
    store.announce("airlines", ["2025-03"])
    assert read(store, "join")[1] == ["airlines 2025-03", "flights 2025-03-10"]


def test_latest_falls_back_when_the_newest_goes_bad(store: Store) -> None:
    flights(store)
    store.announce("airlines", ["2025-01", "2025-02"])
    store.announce("flights", ["2025-03-10"])
    change(store, "airlines", "2025-02", "FAILED")
    assert read(store, "join")[1] == ["airlines 2025-01", "flights 2025-03-10"]


def test_a_newer_side_input_does_not_run_again_what_is_done(store: Store) -> None:
    flights(store)
    store.announce("airlines", ["2025-01"])
    store.announce("flights", ["2025-03-10"])
    produce(store, "join")
    store.announce("airlines", ["2025-02"])
    assert store.claim("join") == []


def shards(store: Store, count: int | None = 3) -> None:
    store.register(
        [dataset("table", "range", count=count), dataset("file", "range", count=count), dataset("whole", "text")],
        [job("extract", "table", writes="file"), job("merge", "file all", writes="whole")],
    )


def test_all_waits_for_every_shard(store: Store) -> None:
    shards(store)
    store.announce("table", ["1", "2"])
    assert drain(store, "extract", "merge") == [("extract", "1"), ("extract", "2")]
    store.announce("table", ["3"])
    assert store.claim("merge") == []
    produce(store, "extract", "3")
    assert read(store, "merge") == ("all", ["file 1", "file 2", "file 3"])
    assert store.claim("merge") == []


def test_all_without_a_count_waits_until_its_upstream_has_nothing_left(store: Store) -> None:
    shards(store, count=None)
    store.announce("table", ["1", "2", "10"])
    first, second, last = store.claim("extract", n=3)
    store.commit(first)
    store.commit(last)
    assert store.claim("merge") == [], "2 is still being extracted"
    store.commit(second)
    assert read(store, "merge") == ("all", ["file 1", "file 2", "file 10"])


def test_all_waits_for_upstream_that_is_two_jobs_away(store: Store) -> None:
    store.register(
        [dataset("table"), dataset("file"), dataset("clean"), dataset("whole", "text")],
        [
            job("extract", "table", writes="file"),
            job("clean", "file", writes="clean"),
            job("merge", "clean all", writes="whole"),
        ],
    )
    store.announce("table", ["1", "2"])
    produce(store, "extract", "1")
    produce(store, "clean", "1")
    assert store.claim("merge") == [], "2 was not even extracted"
    produce(store, "extract", "2")
    assert store.claim("merge") == []
    produce(store, "clean", "2")
    assert read(store, "merge") == ("all", ["clean 1", "clean 2"])


def test_all_does_not_go_without_what_failed_upstream(store: Store) -> None:
    """No gap through an error state, wherever upstream it is."""
    store.register(
        [dataset("table"), dataset("file"), dataset("clean"), dataset("whole", "text")],
        [
            job("extract", "table", writes="file"),
            job("clean", "file", writes="clean"),
            job("merge", "clean all", writes="whole"),
        ],
    )
    store.announce("table", ["1", "2"])
    produce(store, "extract", "1")
    store.fail(claim_one(store, "extract"))
    produce(store, "clean", "1")
    assert store.claim("merge") == []
    store.resubmit("file", ["2"])
    assert drain(store, "extract", "clean", "merge") == [("extract", "2"), ("clean", "2"), ("merge", "all")]


def test_all_goes_on_without_what_somebody_forgot_upstream(store: Store) -> None:
    store.register(
        [dataset("table"), dataset("file"), dataset("clean"), dataset("whole", "text")],
        [
            job("extract", "table", writes="file"),
            job("clean", "file", writes="clean"),
            job("merge", "clean all", writes="whole"),
        ],
    )
    store.announce("table", ["1", "2"])
    produce(store, "extract", "1")
    store.fail(claim_one(store, "extract"))
    produce(store, "clean", "1")
    assert store.claim("merge") == []
    store.forget("table", ["2"])
    store.forget("file", ["2"])
    assert read(store, "merge") == ("all", ["clean 1"])


def test_all_beside_an_input_that_names_the_dataid(store: Store) -> None:
    store.register(
        [dataset("day", "day"), dataset("lookup", "range", count=2), dataset("report", "day")],
        [job("report", "day", "lookup all", writes="report")],
    )
    store.announce("day", ["2025-01-01"])
    store.announce("lookup", ["1"])
    assert store.claim("report") == []
    store.announce("lookup", ["2"])
    assert read(store, "report") == ("2025-01-01", ["day 2025-01-01", "lookup 1", "lookup 2"])


def test_a_resubmitted_whole_waits_for_its_resubmitted_part(store: Store) -> None:
    shards(store)
    store.announce("table", ["1", "2", "3"])
    drain(store, "extract", "merge")
    store.dml("update job_status set status = 'RESUBMIT' where dataid in ('2', 'all')")
    assert drain(store, "merge", "extract") == [("extract", "2"), ("merge", "all")]


def test_all_waits_no_longer_when_the_last_chunk_upstream_has_its_product_already(store: Store) -> None:
    store.register(
        [dataset(name) for name in ("raw", "mid", "low")] + [dataset("total", "text")],
        [job("a", "raw", writes="mid"), job("b", "mid", writes="low"), job("add", "low all", writes="total")],
    )
    store.announce("raw", ["1"])
    store.announce("low", ["1"])  # somebody else delivered what b would make of it
    assert drain(store, "add") == [], "a has something to do"
    assert drain(store, "a", "b", "add") == [("a", "1"), ("add", "all")]


@pytest.mark.parametrize("why", ["another input never comes", "it lies beyond the end"])
def test_all_waits_no_longer_for_what_the_flow_cannot_make(store: Store, why: str) -> None:
    beside = ["other"] if why == "another input never comes" else []
    low = dataset("low", end="1") if why == "it lies beyond the end" else dataset("low")
    store.register(
        [*(dataset(name) for name in ("raw", "mid", "other")), low, dataset("total", "text")],
        [job("a", "raw", writes="mid"), job("b", "mid", *beside, writes="low"), job("add", "low all", writes="total")],
    )
    store.announce("raw", ["1", "2"])
    store.announce("other", ["1"])
    assert drain(store, "a", "b", "add") == [("a", "1"), ("a", "2"), ("b", "1"), ("add", "all")]
    assert store.breaches() == []


def test_all_waits_no_longer_for_a_month_that_is_not_whole(store: Store) -> None:
    store.register(
        [dataset("raw", "day"), dataset("day", "day"), dataset("month", "month"), dataset("total", "text")],
        [
            job("a", "raw", writes="day"),
            job("b", "day rollup", writes="month"),
            job("add", "month all", writes="total"),
        ],
    )
    store.announce("raw", [*(f"2025-02-{day:02}" for day in range(1, 29)), "2025-03-01"])
    assert drain(store, "a", "b", "add")[-2:] == [("b", "2025-02"), ("add", "all")]


def test_all_waits_again_for_what_a_job_that_was_removed_still_publishes(store: Store) -> None:
    store.register(
        [*(dataset(name) for name in ("raw", "mid", "low")), dataset("total", "text")],
        [job("a", "raw", writes="mid"), job("b", "mid", writes="low"), job("add", "low all", writes="total")],
    )
    store.announce("raw", ["1", "2"])
    produce(store, "a", "1")
    produce(store, "b", "1")
    last = claim_one(store, "a")
    store.dml("delete from job where jobid = 'a'")
    assert following(store, "add") == ["all"], "nobody upstream has anything to do"
    store.commit(last)
    assert following(store, "add") == [], "b has"
    assert store.breaches() == []


def test_all_waits_no_longer_for_a_run_that_is_given_back_and_cannot_begin_again(store: Store) -> None:
    store.register(
        [dataset("raw"), dataset("mid"), dataset("total", "text")],
        [job("a", "raw", writes="mid"), job("add", "mid all", writes="total")],
    )
    store.announce("raw", ["1", "2"])
    produce(store, "a", "1")
    claim = claim_one(store, "a")
    store.hold("raw", ["2"])
    assert store.claim("add") == []
    store.give_back(claim, None, "nobody began it", wait=0)
    assert read(store, "add") == ("all", ["mid 1"])


def test_a_job_with_three_inputs_waits_for_all_of_them_in_any_order(store: Store) -> None:
    store.register([dataset(name) for name in ("a", "b", "c", "out")], [job("join", "a", "b", "c", writes="out")])
    store.announce("c", ["1", "2", "3"])
    store.announce("a", ["3", "2"])
    assert store.claim("join") == []
    assert store.views.candidate_counts()["join"] == {"WAITING": 3}
    store.announce("b", ["2", "1"])
    assert read(store, "join") == ("2", ["a 2", "b 2", "c 2"])
    store.announce("b", ["3"])
    store.announce("a", ["1"])
    assert drain(store, "join") == [("join", "1"), ("join", "3")]


def two_outputs(store: Store) -> None:
    store.register(
        [dataset(name) for name in ("raw", "good", "bad", "report")],
        [job("split", "raw", writes=("good", "bad")), job("count", "bad", writes="report")],
    )
    store.announce("raw", ["1"])


def test_two_outputs_of_a_job_move_together(store: Store) -> None:
    two_outputs(store)
    claim = claim_one(store, "split")
    assert (status(store, "good", "1"), status(store, "bad", "1")) == ("RUNNING", "RUNNING")
    store.fail(claim)
    assert (status(store, "good", "1"), status(store, "bad", "1")) == ("FAILED", "FAILED")
    store.resubmit("bad", ["1"])
    assert (status(store, "good", "1"), status(store, "bad", "1")) == ("RESUBMIT", "RESUBMIT")
    produce(store, "split", "1")
    assert (status(store, "good", "1"), status(store, "bad", "1")) == ("READY", "READY")


def test_a_resubmit_by_sql_of_one_output_resubmits_its_sibling(store: Store) -> None:
    two_outputs(store)
    produce(store, "split", "1")
    change(store, "good", "1", "RESUBMIT")
    assert store.claim("count") == [], "the sibling will be written anew: nobody reads the old one"
    assert (status(store, "good", "1"), status(store, "bad", "1")) == ("RESUBMIT", "RESUBMIT")
    produce(store, "split", "1")
    versions = [chunk.version for name in ("good", "bad") if (chunk := store.views.chunk(name, "1"))]
    assert versions == [2, 2]
    produce(store, "count", "1")


def test_a_resubmit_by_sql_of_one_output_of_a_running_job_resubmits_the_run(store: Store) -> None:
    two_outputs(store)
    claim_one(store, "split")
    change(store, "good", "1", "RESUBMIT")
    again = claim_one(store, "split")
    assert (again.dataid, again.epoch) == ("1", 2)
    store.commit(again)
    assert (status(store, "good", "1"), status(store, "bad", "1")) == ("READY", "READY")


def test_one_output_that_is_set_aside_stops_the_whole_run(store: Store) -> None:
    two_outputs(store)
    store.claim("count")
    change_to_hold = (
        "insert into datastatus (datasetid, dataid, jobid, locktype, status) values ('bad', '1', 'me', 'OUT', 'HOLD')"
    )
    store.dml(change_to_hold)
    assert store.claim("split") == []
    store.release("bad", ["1"])
    produce(store, "split", "1")


def test_a_job_without_inputs_runs_for_the_dataid_that_is_named(store: Store) -> None:
    store.register([dataset("out")], [job("source", writes="out")])
    assert store.claim("source") == []
    claim = claim_one(store, "source", dataid="7")
    store.fail(claim)
    store.resubmit("out", ["7"])
    produce(store, "source", "7")


def test_a_resubmitted_chunk_of_a_job_without_inputs_survives_a_new_definition(store: Store) -> None:
    store.register([dataset("out")], [job("source", writes="out")])
    store.fail(claim_one(store, "source", dataid="7"))
    store.resubmit("out", ["7"])
    store.register([], [job("source", writes="out", lease=60.0)])
    produce(store, "source", "7")


def test_today_goes_into_a_dataset_without_a_declared_partition(store: Store) -> None:
    store.dml("insert into dataset (datasetid) values ('pulled')")
    for itemtype, name in (("IN", "today"), ("OUT", "pulled")):
        store.dml(f"insert into job (jobid, itemtype, datasetid) values ('pull', '{itemtype}', '{name}')")
    claim = claim_one(store, "pull")
    assert (claim.inputs[0].datasetid, claim.inputs[0].dataid) == ("today", claim.dataid)
    store.commit(claim)
    assert store.claim("pull") == [], "once a day"
    assert store.claim("pull", dataid="not-a-day") == []
    assert "not-a-day" in store.views.facts("pull", "not-a-day").malformed


def test_today_is_there_although_the_first_claim_of_it_was_undone(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.register(
        [dataset("out", "day"), dataset("plain")], [job("daily", "today", writes="out"), job("a", writes="plain")]
    )
    take = claims.take

    def refused(*given: Any) -> list[Claim]:
        monkeypatch.setattr(claims, "take", take)
        raise KeyboardInterrupt

    monkeypatch.setattr(claims, "take", refused)
    with pytest.raises(KeyboardInterrupt):
        store.claim("daily")
    assert store.claim("a") == []
    assert claim_one(store, "daily").inputs[0].datasetid == "today"
