"""Promises: broken by evidence, else not tested where their condition never occurred, else kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from opendataflow.chaos import auditor
from opendataflow.chaos.plan import CUT, DAMAGE_FILE, FREEZE_WORKER, KILL_SCRIPT, LOSE_ANSWER, TAKE_CHUNK, Fault
from opendataflow.chaos.promises import (
    ANSWERED,
    ENDED,
    FENCED,
    NAMED,
    NOT_EARLY,
    PROMISES,
    TIDY,
    StormResult,
    contradictions,
    fact,
    promises,
    storm_evidence,
    unnamed,
    untested,
)
from opendataflow.chaos.struck import Struck, StruckRun
from opendataflow.model import Consumed
from opendataflow.project import without_file
from opendataflow.store import Run, open_store
from opendataflow.store.drivers.base import Unreadable
from opendataflow.store.views import soundness as rows

HIT = StruckRun("make", "1", 1)


def run(runid: int, outcome: str, *, epoch: int = 1, inputs: tuple[Consumed, ...] = ()) -> Run:
    status = "READY" if outcome == "READY" else "FAILED"
    ended = (None, None, outcome, None, None, None, None)
    return Run(runid, "make", str(runid), epoch, status, "", "me", False, inputs, *ended)


def afterwards(folder: Path, runs: list[Run] | None = None, struck: list[Struck] | None = None) -> StormResult:
    return StormResult(without_file(folder, None), runs or [], struck or [], {}, [], False)


def struck(kind: str, *, is_refused: bool | None = None, is_ended: bool | None = None) -> Struck:
    return Struck(Fault(kind, "spawned"), 1, 1.0, [HIT], is_refused=is_refused, is_ended=is_ended, note="not refused")


def with_log(folder: Path, text: str) -> None:
    logs = without_file(folder, None).logs
    logs.mkdir(parents=True)
    (logs / "1.log").write_text(text)


def test_an_error_that_nobody_named_is_seen_among_what_a_worker_said() -> None:
    problem = Unreadable("CHECK constraint failed: run")
    row = f"run 7: {problem.name}: {problem.message}"
    said = f"drained 1\nTraceback (most recent call last):\nINTERNAL: KeyError\n{row}\nrun 3: LEASE_LOST: too late\n"
    assert unnamed(said) == ["Traceback (most recent call last):", "INTERNAL: KeyError", row]


def test_without_a_run_no_promise_is_kept(tmp_path: Path) -> None:
    (folder := tmp_path / "project").mkdir()
    with open_store(f"sqlite:///{tmp_path}/store.db", create=True) as store:
        told = promises(store, afterwards(folder), {}, ["secret"])
    assert [each.promise for each in told] == list(PROMISES)
    assert [each.promise for each in told if each.kept is not None] == [auditor.UNDAMAGED]
    reasons = {each.promise: each.evidence[0] for each in told if each.kept is None}
    assert reasons[TIDY] == "no run began"
    assert reasons[auditor.GOLDEN] == "no chunk was made in time"
    assert reasons[NAMED] == "no damaged file was read. Test it: odf chaos --faults damage-file"


def test_a_run_that_nothing_broke_leaves_untested_what_only_a_fault_can_break(tmp_path: Path) -> None:
    found = untested(afterwards(tmp_path, [run(1, "READY")]), True)
    of_faults = {rows.GROWING, rows.SWEPT, auditor.NOTHING_STRAY, FENCED, ENDED, NOT_EARLY, ANSWERED, NAMED}
    assert found.keys() == {*of_faults, rows.ONLY_PUBLISHED, auditor.NO_SECRET}
    assert [reason for promise, reason in found.items() if promise == ENDED] == [
        "no script hung whose run lost its chunk. Test it: odf chaos --faults freeze-worker,take-chunk"
    ]


def test_a_fault_that_struck_and_was_not_heard_of_again_tests_nothing(tmp_path: Path) -> None:
    kinds = (DAMAGE_FILE, FREEZE_WORKER, TAKE_CHUNK, LOSE_ANSWER)
    found = untested(afterwards(tmp_path, [run(2, "READY")], [struck(kind) for kind in kinds]), True)
    assert {NAMED, FENCED, ENDED, ANSWERED} <= found.keys()


def test_everything_is_tested_where_each_condition_occurred(tmp_path: Path) -> None:
    with_log(tmp_path, "login with ***\n")
    runs = [run(1, "READY", epoch=2, inputs=(Consumed("raw", "1", 1),)), run(2, "LEASE_LOST")]
    faults = [
        struck(DAMAGE_FILE, is_refused=True),
        struck(FREEZE_WORKER, is_refused=True, is_ended=True),
        struck(LOSE_ANSWER),
        Struck(Fault(CUT, "in commit"), 1, 1.0, [HIT]),
    ]
    after = afterwards(tmp_path, runs, faults)
    assert untested(after, True) == {}
    assert untested(after._replace(has_server=True), True).keys() == {auditor.UNDAMAGED}
    assert untested(after, False).keys() == {auditor.GOLDEN, auditor.AS_PUBLISHED}
    assert not any(storm_evidence(after).values())


@pytest.mark.parametrize("where", ["in claim", "in commit"])
def test_answers_are_tested_only_where_a_commit_was_lost_on_its_way_too(tmp_path: Path, where: str) -> None:
    lost, cut = struck(LOSE_ANSWER), Struck(Fault(CUT, where), 1, 1.0, [HIT])
    runs = [run(1, "READY")]
    assert ANSWERED in untested(afterwards(tmp_path, runs, [lost]), True)
    assert ANSWERED in untested(afterwards(tmp_path, runs, [cut]), True)
    assert (ANSWERED in untested(afterwards(tmp_path, runs, [lost, cut]), True)) == (where == "in claim")


def test_a_log_in_which_no_script_was_given_a_password_tests_no_secret(tmp_path: Path) -> None:
    with_log(tmp_path, "made of\n")
    assert auditor.NO_SECRET in untested(afterwards(tmp_path, [run(1, "READY")]), True)


@pytest.mark.parametrize(
    ("fault", "promise"),
    [
        (struck(DAMAGE_FILE, is_refused=False), NAMED),
        (struck(FREEZE_WORKER, is_refused=False), FENCED),
        (struck(TAKE_CHUNK, is_refused=False), FENCED),
        (struck(FREEZE_WORKER, is_refused=True, is_ended=False), ENDED),
        (struck(TAKE_CHUNK, is_refused=True, is_ended=False), ENDED),
    ],
)
def test_a_fault_that_should_have_been_refused_breaks_its_promise(tmp_path: Path, fault: Struck, promise: str) -> None:
    found = storm_evidence(afterwards(tmp_path, struck=[fault, struck(KILL_SCRIPT)]))
    assert [name for name, evidence in found.items() if evidence] == [promise]
    assert found[promise][0].startswith("make 1: ")


def test_what_workers_said_and_leases_that_ended_early_are_evidence(tmp_path: Path) -> None:
    said = {"1.log": "run 1: make 1: READY\nINTERNAL: KeyError\n"}
    found = storm_evidence(
        afterwards(tmp_path, [run(1, "LEASE_LOST")])._replace(said=said, early=["run 1 was given 2 s"])
    )
    assert {name: evidence for name, evidence in found.items() if evidence} == {
        ANSWERED: ["run 1: its worker said READY, the store says LEASE_LOST"],
        TIDY: ["1.log: INTERNAL: KeyError"],
        NOT_EARLY: ["run 1 was given 2 s"],
    }


@pytest.mark.parametrize(
    ("said", "outcome", "is_so"),
    [
        ("READY", "READY", True),
        ("READY", "JOB_FAILED", False),
        ("READY", None, False),
        ("LEASE_LOST: the run lost its chunk", "READY", False),
        ("LEASE_LOST: the run lost its chunk", "CANCELLED", True),
        ("STORE_UNREACHABLE: gave up", "READY", True),
    ],
)
def test_what_a_worker_says_of_a_run_is_compared_with_the_store(said: str, outcome: str | None, is_so: bool) -> None:
    runs = [run(7, outcome)] if outcome else []
    assert (list(contradictions(f"claimed\nrun 7: make 3: {said}\n", runs)) == []) == is_so


def test_evidence_counts_more_than_that_nothing_tested_it() -> None:
    assert fact(NAMED, ["made 1"], "no damaged file was read").kept is False
    assert fact(NAMED, [], "no damaged file was read").kept is None
    assert fact(NAMED, [], None).kept is True
    assert len(fact(NAMED, ["made 1"] * 99, None).evidence) == 20
