"""Row 1: SIGKILL at every step of a run, of its worker, its script, both, or the server: nothing is lost or published twice."""

from __future__ import annotations

import signal
import subprocess

import pytest

from tests.support.broken import Flow, alive, kill, until
from tests.support.postgres import Cluster

pytestmark = pytest.mark.fault(1)

STEPS = [
    "before claim",
    "in claim",
    "after claim",
    "in admit",
    "after admit",
    "spawned",
    "writing",
    "exited",
    "audited",
    "before commit",
    "settled",
    "in commit",
    "after commit",
]
WITH_A_SCRIPT = ("spawned", "writing")
DOORS = {"RunJob": ("run", "jobs/make.sh"), "drain": ("drain", "make")}


def held(flow: Flow, step: str, door: str) -> tuple[subprocess.Popen[str], int | None]:
    """A run that waits at a step, and the process of its script where there is one."""
    if step in WITH_A_SCRIPT:
        flow.hold_script()
    worker = flow.start(*DOORS[door]) if step == "writing" else flow.start(*DOORS[door], at=step, hold=True)
    if step != "writing":
        flow.reached(worker)
    return worker, flow.writing(worker) if step in WITH_A_SCRIPT else None


def dead(flow: Flow, worker: subprocess.Popen[str], script: int | None, *, both: bool = False) -> None:
    """A worker is killed, alone or with its script; what it started goes with it, and its point is forgotten."""
    if both and script is not None:
        kill(script)
    worker.kill()
    worker.wait()
    if script is not None:
        until(lambda: not alive(script), "the end of its script")
    flow.at.unlink(missing_ok=True)
    flow.release_script()


@pytest.mark.parametrize("door", DOORS)
def test_a_worker_that_dies_at_any_step_loses_nothing(flow: Flow, door: str, repetition: int) -> None:
    victims = [(step, False) for step in STEPS] + [(step, True) for step in WITH_A_SCRIPT]
    flow.prepare(range(len(victims)), retries=len(victims))
    for step, both in victims:
        dead(flow, *held(flow, step, door), both=both)
    flow.heal()
    flow.audit()


@pytest.mark.parametrize("step", WITH_A_SCRIPT)
@pytest.mark.parametrize("door", DOORS)
def test_a_script_that_dies_is_tried_again_by_the_rule_of_its_job(
    flow: Flow, door: str, step: str, repetition: int
) -> None:
    flow.prepare([1])
    worker, script = held(flow, step, door)
    assert script is not None
    kill(script)
    flow.release_script()
    flow.at.unlink(missing_ok=True)
    _, said = worker.communicate(timeout=240)
    if door == "RunJob":
        assert worker.returncode == 1
        assert "JOB_FAILED" in said
    flow.heal()
    flow.audit()


@pytest.mark.postgres
@pytest.mark.parametrize("flow", ["postgres"], indirect=True)
@pytest.mark.fault(27)
@pytest.mark.parametrize(("door", "how"), [("RunJob", signal.SIGKILL), ("drain", signal.SIGQUIT)])
def test_a_server_that_dies_at_any_step_is_waited_for(
    flow: Flow, cluster: Cluster, door: str, how: int, repetition: int
) -> None:
    flow.prepare()
    for number, step in enumerate(STEPS):
        flow.arrive([10 + number])
        worker, _ = held(flow, step, door)
        cluster.kill(how)
        cluster.start()
        flow.at.unlink(missing_ok=True)
        flow.release_script()
        out, said = worker.communicate(timeout=240)
        assert worker.returncode == 0, (step, out, said)
        assert "Traceback" not in said
    flow.heal()
    flow.audit()
    assert flow.attempts() == 2 * len(flow.dataids), "what a server forgets costs no attempt"


@pytest.mark.parametrize("moment", ["before resubmit", "in resubmit", "after resubmit"])
def test_a_resubmit_that_dies_happened_or_did_not(flow: Flow, moment: str, repetition: int) -> None:
    flow.prepare([1])
    flow.heal()
    verb = flow.start("resubmit", "made", "1", at=moment)
    verb.communicate(timeout=240)
    assert verb.returncode == -signal.SIGKILL
    status = flow.shell.odf("sql", "select status from datastatus where datasetid = 'made'", "--json").data[0]["status"]
    assert status == ("RESUBMIT" if moment == "after resubmit" else "READY")
    flow.heal()
    flow.audit()
