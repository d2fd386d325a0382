"""The report of a chaos: what it counts, what it says, and that only a report is read as one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from opendataflow.chaos import unleash, words
from opendataflow.chaos.places import place_of
from opendataflow.chaos.plan import KILL_SCRIPT, KILL_WORKER, Fault, Settings
from opendataflow.chaos.report import MissedFact, command_of, fault_facts, kind_facts, last, path_of, save
from opendataflow.chaos.scratch import Where, where
from opendataflow.chaos.struck import Struck, StruckRun
from opendataflow.chaos.unleash import ChaosRequest
from opendataflow.errors import BadConfig
from opendataflow.project import without_file
from tests.support.chaos import report


def test_a_report_is_read_as_it_was_kept(tmp_path: Path) -> None:
    project = without_file(tmp_path, None)
    assert last(project) is None
    save(project, report())
    assert last(project) == report()
    assert [path.name for path in path_of(project).parent.iterdir()] == ["chaos.json"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"format": 1}',
        '{"format": 2}',
        '{"format": 3}',
        "[" * 100_000,
        '{"format": true, "verdict": []}',
        "\x00",
    ],
)
def test_what_is_no_report_is_refused_by_name(tmp_path: Path, text: str) -> None:
    project = without_file(tmp_path, None)
    path_of(project).parent.mkdir()
    path_of(project).write_text(text)
    with pytest.raises(BadConfig):
        last(project)


def test_a_report_with_another_type_anywhere_is_refused(tmp_path: Path) -> None:
    project = without_file(tmp_path, None)
    save(project, report())
    good = json.loads(path_of(project).read_text())
    for name in good:
        for wrong in ({"a": 1}, None, [1]):
            path_of(project).write_text(json.dumps(good | {name: wrong}))
            with pytest.raises(BadConfig):
                last(project)


def test_kinds_are_counted_with_the_median_and_the_worst_of_what_was_hit() -> None:
    killed, frozen = report().kinds
    assert (killed.count, killed.survived, killed.hit, killed.timed, killed.within_two_leases) == (2, 2, 1, 1, 1)
    assert (killed.median, killed.worst) == (3.25, 3.25)
    assert (frozen.within_two_leases, frozen.worst) == (0, 8.0)


def test_the_verdict_is_one_sentence() -> None:
    assert words.verdict(report()) == "3 of 3 faults survived, 12 of 12 chunks done, nothing lost, every promise kept"
    broken = report(verdict="PROMISE_BROKEN", evidence=("made 1 holds b'x'",))
    assert words.verdict(broken).startswith("1 promise broken; ")
    assert (report().exit_code, broken.exit_code) == (0, 1)
    late = replace(report(verdict="TIMED_OUT"), done=3)
    assert words.verdict(late).startswith("it did not end in 16 s")
    assert late.exit_code == 1


def test_a_promise_that_nothing_tested_is_neither_kept_nor_broken(tmp_path: Path) -> None:
    kept, other = report().promises
    told = replace(report(), promises=(kept, replace(other, kept=None, evidence=("no file was damaged",))))
    assert words.verdict(told).endswith("nothing lost, 1 of 2 promises kept, 1 not tested")
    assert [state for state, _, _ in words.promises(told)] == ["kept", "not tested"]
    assert (told.broken, told.exit_code) == ([], 0)
    project = without_file(tmp_path, None)
    save(project, told)
    assert last(project) == told
    broken = replace(report(evidence=("x",)), verdict="PROMISE_BROKEN")
    assert [state for state, _, _ in words.promises(broken)] == ["kept", "BROKEN"]


def test_what_has_not_healed_in_time_is_not_said_to_be_lost() -> None:
    late = Struck(Fault(KILL_WORKER, "in commit"), 1, 2.5, [StruckRun("make", "3", 7)])
    told = replace(report(verdict="TIMED_OUT"), kinds=kind_facts(fault_facts([late]), [KILL_WORKER]), done=3)
    assert "0 of 1 fault healed, 1 not healed yet, 3 of 12 chunks done" in words.verdict(told)
    assert words.verdict(told).endswith("give it more --minutes")
    assert "Spark needs longer" in words.verdict(replace(told, machine=replace(told.machine, spark="local[1]")))


def test_the_command_of_a_report_strikes_in_the_same_way_again() -> None:
    assert command_of(Settings(40, 3.0, 3, 7)) == "odf chaos --seed 7 --chunks 40 --minutes 3 --workers 3"
    assert command_of(Settings(2, 0.5, 1, 0, True)).endswith("--minutes 0.5 --workers 1 --spark")
    assert command_of(Settings(faults=(KILL_WORKER, KILL_SCRIPT))).endswith(" --faults kill-worker,kill-script")
    there = command_of(Settings(), "postgresql://me:s3cret@host/db?sslmode=require", "prod")
    assert there.endswith(" --env prod --store 'postgresql://me@host/db?sslmode=require'")


def test_a_scratch_that_is_kept_is_named_with_its_address_and_with_what_removes_it() -> None:
    assert "scratch" not in dict(words.facts(report()))
    at = Where(Path("/data/.odf-chaos-00ab12cd"), place_of("postgresql://me:s3cret@host/db", "00ab12cd"))
    told = dict(words.kept(str(at.folder), at.store.address, unleash.removal_of(at)))
    address = "postgresql://me@host/db?schema=dataflow_chaos_00ab12cd"
    assert told["its store"] == address
    assert told["look at it"] == f"cd /data/.odf-chaos-00ab12cd && odf status --store '{address}'"
    assert told["remove it"].startswith("rm -r /data/.odf-chaos-00ab12cd; psql postgresql://me@host/db -c 'DROP SCHEMA")
    told = dict(words.facts(replace(report(), kept="/a b", kept_store="sqlite:////x.db", removal="rm")))
    assert told["look at it"] == "cd '/a b' && odf status --store sqlite:////x.db"


def test_a_folder_in_the_place_of_the_report_is_refused_before_anything_is_broken(tmp_path: Path) -> None:
    project = without_file(tmp_path, None)
    asked = ChaosRequest(project, f"sqlite:///{tmp_path}/dataflow.db", None, Settings())
    at = where(project, asked.store_url)
    unleash.check_machine(asked, at)
    path_of(project).mkdir(parents=True)
    with pytest.raises(BadConfig, match="is a folder"):
        unleash.check_machine(asked, at)


def test_a_place_that_is_not_there_is_refused_before_anything_is_broken(tmp_path: Path) -> None:
    project = without_file(tmp_path, None)
    asked = ChaosRequest(project, f"sqlite:///{tmp_path}/nowhere/dataflow.db", None, Settings())
    with pytest.raises(BadConfig, match="nowhere is not there"):
        unleash.check_machine(asked, where(project, asked.store_url))


def test_what_was_planned_and_did_not_strike_is_told_and_what_struck_besides() -> None:
    told = report()
    assert dict(words.facts(replace(told, planned=3)))["faults"] == "3 planned: 3 struck"
    faults = (told.faults[0], replace(told.faults[1], planned=False), told.faults[2])
    told = replace(told, planned=3, faults=faults, missed=(MissedFact("kill Spark", "at work", 4),))
    assert dict(words.facts(told))["faults"] == "3 planned: 2 struck, 1 did not; 1 besides"
    assert "1 of 3 planned did not strike (kill Spark)" in words.verdict(told)
    assert [(kind.kind, kind.count) for kind in kind_facts((), ["kill Spark"])] == [("kill Spark", 0)]


def test_a_kind_of_fault_that_only_struck_besides_is_counted() -> None:
    faults = fault_facts([Struck(Fault(KILL_WORKER, "at any moment"), 1, 1.0, [], is_planned=False)])
    told = replace(report(), planned=1, faults=faults, kinds=kind_facts(faults, [KILL_SCRIPT]))
    told = replace(told, missed=(MissedFact(KILL_SCRIPT, "at work", 1),))
    assert [(kind.kind, kind.count) for kind in told.kinds] == [(KILL_SCRIPT, 0), (KILL_WORKER, 1)]
    assert dict(words.facts(told))["faults"] == "1 planned: 0 struck, 1 did not; 1 besides"


def test_what_is_going_to_happen_is_said_in_good_english() -> None:
    at = Where(Path("/data/.odf-chaos-00ab12cd"), place_of("sqlite:////data/x.db", "00ab12cd"))
    assert "6 times while 1 worker makes 2 chunks" in words.intent(Settings(2, workers=1), at, 6, Path("r"))[0]
    assert "6 times while 2 workers make 2 chunks" in words.intent(Settings(2, workers=2), at, 6, Path("r"))[0]


def test_a_chunk_that_is_hit_again_is_the_later_fault_s_to_time() -> None:
    struck = Struck(Fault(KILL_WORKER, "in claim"), 1, 1.0, [StruckRun("make", "1", 1), StruckRun("make", "2", 2)])
    struck.is_hit_again_by([StruckRun("make", "1", 5)])
    assert struck.is_open
    assert [hit.dataid for hit in struck.watched] == ["2"]
    struck.is_hit_again_by([StruckRun("make", "2", 6)])
    assert not struck.is_open
    assert struck.is_within is None


def test_what_happens_is_told_when_it_strikes_and_when_it_has_healed() -> None:
    struck = Struck(Fault(KILL_WORKER, "in commit"), 2, 3.0, [StruckRun("make", "1", 1)])
    assert words.happened(struck) == "   3.0 s  worker 2: kill worker in commit; hit make 1"
    struck.recovered = 3.5
    assert words.happened(struck) == "   6.5 s  healed after 3.5 s: kill worker in commit (make 1)"
    assert "nothing in its hands" in words.happened(Struck(Fault(KILL_WORKER, "before claim"), 2, 3.0))


def test_a_worker_that_lost_its_chunk_is_named_again_when_it_was_refused() -> None:
    struck = Struck(Fault("freeze worker", "audited"), 2, 3.0, [StruckRun("make", "1", 1)], note="refused LEASE_LOST")
    struck.recovered, struck.woke = 3.5, 6.6
    assert words.happened(struck) == "   6.6 s  worker 2: freeze worker: refused LEASE_LOST"
