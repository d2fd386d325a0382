"""What an outage left: found, grouped by root cause, and made again in one transaction."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from opendataflow import Manifest, Pool, Store
from opendataflow.errors import UsageError, WrongData
from opendataflow.insight.recovery import causes, plan, progress
from opendataflow.model import RetryRule
from tests.support.flows import change, claim_one, dataset, drain, dump, fold_in, job, kinds, produce, status

UNREACHABLE = "db{}.example:5432 is unreachable after {} s"


@pytest.fixture
def flow(store: Store) -> Store:
    """feed → extract → extracted, meta → load → loaded → sum → summed, and beside it other → copy → copied."""
    store.register(
        [dataset(name, "day") for name in ("feed", "other", "extracted", "meta", "loaded", "summed", "copied")],
        [
            job("extract", "feed", writes=["extracted", "meta"], pool="etl"),
            job("load", "extracted", writes="loaded", pool="etl"),
            job("sum", "loaded", writes="summed"),
            job("copy", "other", writes="copied"),
        ],
        [Pool("etl", 2)],
    )
    store.announce("feed", ["2025-11-12", "2025-11-13"])
    return store


def fail(store: Store, jobid: str, dataid: str, detail: str, outcome: str = "JOB_FAILED") -> None:
    """The next chunk of a job, which must be this one, fails."""
    claim = claim_one(store, jobid)
    assert claim.dataid == dataid
    store.fail(claim, outcome, detail)


def test_where_all_is_well_there_is_nothing_to_do(flow: Store) -> None:
    drain(flow, "extract", "load", "sum")
    made = plan(flow)
    assert (made.causes, made.resubmit, made.runs, made.by_hand) == ((), (), 0, ())


def test_failures_that_say_the_same_are_one_cause_across_jobs(flow: Store) -> None:
    fail(flow, "extract", "2025-11-12", UNREACHABLE.format(1, 30))
    fail(flow, "extract", "2025-11-13", "no space left")
    flow.announce("other", ["2025-11-12"])
    fail(flow, "copy", "2025-11-12", UNREACHABLE.format(7, 60))
    first, second = causes(flow)
    assert first.jobs == ("extract", "copy")
    assert first.chunks == (("extracted", "2025-11-12"), ("copied", "2025-11-12"))
    assert (first.outcome, first.text, first.waiting_behind) == ("JOB_FAILED", UNREACHABLE.format(1, 30), 2)
    assert (second.text, second.waiting_behind, second.failed_behind) == ("no space left", 2, 0)
    assert first.key != second.key
    assert first.key == causes(flow)[0].key


def test_one_resubmit_for_a_run_with_two_outputs_and_none_for_what_waits(flow: Store) -> None:
    fail(flow, "extract", "2025-11-12", "x")
    produce(flow, "extract", "2025-11-13")
    made = plan(flow)
    assert made.resubmit == (("extracted", "2025-11-12"),)
    assert made.runs == 3
    assert [(step.level, step.jobid, step.behind) for step in made.steps] == [(1, "extract", 2)]
    done = flow.recover(made.resubmit, why="the network is back")
    assert {(each.datasetid, each.before, each.after) for each in done.changed} == {
        ("extracted", "FAILED", "RESUBMIT"),
        ("meta", "FAILED", "RESUBMIT"),
    }
    assert flow.views.events("meta", "2025-11-12")[-1].why == "the network is back"
    assert progress(flow, made).waiting == 3
    drain(flow, "extract", "load", "sum")
    now = progress(flow, made)
    assert (now.done, now.is_over, now.stuck) == (3, True, 0)
    assert plan(flow).causes == ()


def test_a_failure_behind_another_one_is_a_consequence_and_needs_its_own_resubmit(flow: Store) -> None:
    produce(flow, "extract", "2025-11-12")
    fail(flow, "load", "2025-11-12", "y")
    flow.fail_chunks("extracted", ["2025-11-12"], why="half of it is missing")
    made = plan(flow)
    (cause,) = made.causes
    assert (cause.text, cause.failed_behind, cause.waiting_behind) == ("half of it is missing", 1, 1)
    assert made.resubmit == (("extracted", "2025-11-12"), ("loaded", "2025-11-12"))
    assert [step.level for step in made.steps] == [1, 2]


def test_a_lost_run_that_comes_back_by_itself_needs_no_resubmit(flow: Store) -> None:
    claim = claim_one(flow, "extract")
    flow.dml(f"update run set lease_until = 1 where runid = {claim.runid}")
    made = plan(flow)
    assert (made.resubmit, made.found.deferred, made.found.expired) == ((), 1, 1)
    assert [cause.outcome for cause in made.causes] == ["LEASE_LOST"]
    assert ("extracted", "2025-11-12") in made.follows


def test_a_lost_run_that_does_not_come_back_is_ended_and_resubmitted_at_once(store: Store) -> None:
    store.register(
        [dataset("raw"), dataset("product")],
        [job("make", "raw", writes="product", retry=RetryRule(on=("TIMED_OUT",)))],
    )
    store.announce("raw", ["1"])
    claim = claim_one(store, "make")
    store.dml(f"update run set lease_until = 1 where runid = {claim.runid}")
    made = plan(store)
    assert made.resubmit == (("product", "1"),)
    done = store.recover(made.resubmit)
    assert [each.runid for each in done.rescued] == [claim.runid]
    assert status(store, "product", "1") == "RESUBMIT"
    produce(store, "make", "1")


def test_what_is_deferred_comes_back_by_itself(store: Store) -> None:
    store.register(
        [dataset("raw"), dataset("product")],
        [job("make", "raw", writes="product", retry=RetryRule(3, backoff=1000))],
    )
    store.announce("raw", ["1"])
    fail(store, "make", "1", "z")
    made = plan(store)
    assert (made.resubmit, made.runs, made.found.deferred) == ((), 1, 1)
    assert made.causes[0].text == "z"


@pytest.mark.parametrize(
    ("breaks", "name", "command"),
    [
        (lambda s: s.hold("extracted", ["2025-11-12"], why="asked the vendor"), "HOLD", "odf release extracted 2025-11-12"),
        (lambda s: s.pause("load"), "PAUSED", "odf resume load"),
        (lambda s: s.register(pools=[Pool("etl", 0)]), "PAUSED", "odf pool set etl N"),
        (lambda s: s.fail_chunks("feed", ["2025-11-12"]), "", ""),
        (lambda s: s.forget("extracted", ["2025-11-12"]), "", ""),
        (
            lambda s: (s.forget("extracted", ["2025-11-12"]), s.forget("feed", ["2025-11-12"])),
            "MISSING",
            "odf ready feed 2025-11-12",
        ),
        (
            lambda s: (s.forget("extracted", ["2025-11-12"]), s.fail_chunks("feed", ["2025-11-12"], why="cut off")),
            "OUTSIDE",
            "odf ready feed 2025-11-12",
        ),
    ],
)  # fmt: skip
def test_what_no_resubmit_can_heal_is_named_with_its_command(
    flow: Store, breaks: Callable[[Store], object], name: str, command: str
) -> None:
    produce(flow, "extract", "2025-11-12")
    fail(flow, "load", "2025-11-12", "y")
    breaks(flow)
    made = plan(flow)
    named = {(each.name, each.commands[0]): each for each in made.by_hand}
    if not name:
        assert ("loaded", "2025-11-12") in made.resubmit
    else:
        assert (name, command) in named
        assert made.resubmit == ()
        assert made.again == 1


def test_wrong_data_is_wrong_again_until_its_input_is_another(flow: Store) -> None:
    extracted = claim_one(flow, "extract")
    flow.commit(extracted, {"extracted": Manifest(fingerprint="one"), "meta": Manifest(fingerprint="meta")})
    fail(flow, "load", "2025-11-12", "the content of 2025-11-11", WrongData.name)
    made = plan(flow)
    assert [each.name for each in made.by_hand] == [WrongData.name]
    assert made.resubmit == ()
    flow.resubmit("extracted", ["2025-11-12"])
    assert plan(flow).resubmit == (("loaded", "2025-11-12"),)


def test_an_arrival_that_was_refused_is_named_and_what_waits_for_it(flow: Store) -> None:
    flow.announce("feed", ["2025-11-14"])
    produce(flow, "extract", "2025-11-12")
    flow.refuse_arrival("other", "2025-11-12", "NOT_VALIDATED", "0 rows")
    made = plan(flow)
    (hand,) = made.by_hand
    assert (hand.name, hand.commands, hand.because) == ("REFUSED", ("odf ready other 2025-11-12",), "0 rows")
    assert [cause.outcome for cause in made.causes] == ["NOT_VALIDATED"]


def test_one_cause_alone_is_recovered(flow: Store) -> None:
    fail(flow, "extract", "2025-11-12", "x")
    fail(flow, "extract", "2025-11-13", "y")
    assert plan(flow, 1).resubmit == (("extracted", "2025-11-12"),)
    assert plan(flow, 2).resubmit == (("extracted", "2025-11-13"),)
    assert plan(flow, 2).runs == 3
    with pytest.raises(UsageError):
        plan(flow, 3)


def test_what_only_has_to_be_taken_is_not_stuck(flow: Store) -> None:
    for day in ("12", "13"):
        fail(flow, "extract", f"2025-11-{day}", "x")
    made = plan(flow)
    flow.recover(made.resubmit)
    drain(flow, "extract")
    now = progress(flow, made)
    assert (now.runs, now.done, now.waiting, now.stuck, now.is_over) == (6, 2, 4, 0, False)
    flow.pause("sum")
    drain(flow, "load")
    now = progress(flow, made)
    assert (now.done, now.stuck, now.is_over) == (4, 2, True)
    flow.resume("sum")
    drain(flow, "sum")
    assert progress(flow, made).done == 6


def test_some_causes_are_recovered_and_named_by_what_does_not_change(flow: Store) -> None:
    flow.announce("feed", ["2025-11-14"])
    for day, text in (("12", "x"), ("13", "y"), ("14", "z")):
        fail(flow, "extract", f"2025-11-{day}", text)
    first, _, third = causes(flow)
    made = plan(flow, [third.id, first.id])
    assert made.only == (1, 3)
    assert made.resubmit == (("extracted", "2025-11-12"), ("extracted", "2025-11-14"))
    flow.recover(plan(flow, first.id).resubmit)
    assert plan(flow, third.id).only == (2,)
    with pytest.raises(UsageError):
        plan(flow, [first.id, third.id])
    assert plan(flow, [first.id, third.id], lenient=True).resubmit == (("extracted", "2025-11-14"),)
    nothing = plan(flow, [first.id], lenient=True)
    assert (nothing.only, nothing.resubmit) == ((), ())


def test_what_somebody_else_changed_meanwhile_is_left_alone(flow: Store) -> None:
    fail(flow, "extract", "2025-11-12", "x")
    fail(flow, "extract", "2025-11-13", "x")
    made = plan(flow)
    flow.hold("extracted", ["2025-11-12"])
    change(flow, "extracted", "2025-11-13", "RESUBMIT")
    done = flow.recover(made.resubmit)
    assert done.changed == ()
    assert {(each.dataid, each.before) for each in done.skipped} == {("2025-11-12", "HOLD"), ("2025-11-13", "RESUBMIT")}
    assert status(flow, "extracted", "2025-11-12") == "HOLD"


def test_a_dry_run_of_the_verb_changes_nothing(flow: Store) -> None:
    fail(flow, "extract", "2025-11-12", "x")
    before = dump(flow)
    assert len(flow.recover([("extracted", "2025-11-12")], dry_run=True).changed) == 2
    assert dump(flow) == before


def test_a_published_sibling_is_made_again_with_the_one_that_failed(flow: Store) -> None:
    produce(flow, "extract", "2025-11-12")
    change(flow, "meta", "2025-11-12", "FAILED")
    fold_in(flow)
    made = plan(flow)
    assert made.resubmit == (("meta", "2025-11-12"),)
    flow.recover(made.resubmit)
    assert status(flow, "extracted", "2025-11-12") == "RESUBMIT"
    assert kinds(flow, "extracted", "2025-11-12")[-1] == "resubmitted"


def test_the_estimate_goes_by_past_runs_and_the_slots_of_the_pool(flow: Store) -> None:
    drain(flow, "extract", "load", "sum")
    flow.announce("feed", [f"2025-12-0{day}" for day in range(1, 5)])
    for day in range(1, 5):
        fail(flow, "extract", f"2025-12-0{day}", "x")
    later = "'2026-01-01 00:00:10'" if flow.url.startswith("sqlite") else "timestamptz '2026-01-01 00:00:10Z'"
    sooner = later.replace(":10", ":00")
    flow.dml(f"update run set started = {sooner}, ended = {later} where status = 'READY'")
    made = plan(flow)
    # Two slots: four extracts and four loads of 10 s take four turns, the last sum one more.
    assert made.runs == 12
    assert made.estimate.seconds == pytest.approx(50, abs=1)
    assert [(use.poolid, use.slots, use.runs) for use in made.estimate.pools] == [("etl", 2, 8)]


@pytest.mark.parametrize("options", [{"expected": True}, {}], ids=["expected", "not declared"])
def test_what_is_not_expected_by_now_is_not_missing(store: Store, options: dict[str, object]) -> None:
    now = datetime(2026, 11, 17, 3, tzinfo=UTC).timestamp()
    store.views.clock = lambda: now  # type: ignore[method-assign]
    store.register(
        [dataset("raw", "day", options=options), dataset("clean", "day"), dataset("monthly", "month")],
        [job("make", "raw", writes="clean"), job("sum", "clean rollup", writes="monthly")],
    )
    store.announce("raw", [f"2026-11-{day:02}" for day in range(1, 17) if day != 9])
    fail(store, "make", "2026-11-01", "x")
    drain(store, "make")
    (missing,) = plan(store).by_hand
    due = "2026-11-09" if options else "2026-11-09 2026-11-17"
    assert missing.commands == (f"odf ready raw {due}",)
    # What waits for it: clean of that day, and the month.
    assert (len(missing.chunks), missing.behind) == (len(due.split()), len(due.split()) + 1)
    store.pause("make")
    assert {each.name: len(each.chunks) for each in plan(store).by_hand} == {
        "MISSING": len(due.split()),
        "PAUSED": 1 + len(due.split()),
    }
