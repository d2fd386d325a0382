"""Row 12: a job that hangs, ignores TERM and leaves daemons behind: all of it is ended, and its chunk is FAILED as TIMED_OUT."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.broken import Flow, alive
from tests.support.shell import statuses

# Deaf to TERM, with a daemon of two forks that left session, group and environment, and is deaf too.
HANGS = """
trap '' TERM
rm -f daemon
echo half >"$made_location"
(env -i setsid "$(command -v bash)" -c 'trap "" TERM; echo $$ >"$0"; while :; do sleep 0.1; done' "$PWD/daemon" >/dev/null 2>&1 &)
until [ -s daemon ]; do sleep 0.02; done
echo $$ >script
if [ -e ends ]; then exit 3; fi
while :; do sleep 0.1; done
"""
DOORS = {"RunJob": ("run", "jobs/make.sh"), "drain": ("drain", "make")}


def hangs(flow: Flow, timeout: str) -> Path:
    flow.prepare([1], retries=0)
    path = flow.folder / "dataflow.toml"
    path.write_text(path.read_text().replace("[job.make]", f'[job.make]\ntimeout = "{timeout}"'))
    flow.shell.odf("apply", "--yes")
    sound = (flow.folder / "jobs/make.sh").rename(flow.folder / "sound")
    flow.shell.script("jobs/make.sh", HANGS)
    return sound


def ended(flow: Flow) -> bool:
    """Whether nothing that the script started is alive."""
    return not any(alive(int((flow.folder / name).read_text())) for name in ("script", "daemon"))


@pytest.mark.fault(12)
@pytest.mark.parametrize(("door", "how"), [("RunJob", "hangs"), ("drain", "hangs"), ("drain", "ends")])
def test_a_job_with_a_daemon_leaves_no_descendants(flow: Flow, door: str, how: str) -> None:
    sound = hangs(flow, "3s" if how == "hangs" else "1h")
    if how == "ends":
        (flow.folder / "ends").touch()
    flow.shell.odf(*DOORS[door], code=1)
    while not (flow.folder / "script").exists():  # on a busy machine its time may be over before it has a daemon
        flow.shell.odf("resubmit", "made", "1")
        flow.shell.odf(*DOORS[door], code=1)
    assert ended(flow)
    assert statuses(flow.shell)["made", "1"] == "FAILED"
    outcomes = {row["outcome"] for row in flow.shell.odf("sql", "select outcome from run", "--json").data}
    assert outcomes == {"TIMED_OUT" if how == "hangs" else "JOB_FAILED"}
    assert not (flow.folder / "data/made/1.csv").exists(), "nothing is visible"
    sound.rename(flow.folder / "jobs/make.sh")
    flow.shell.odf("resubmit", "made", "1")
    flow.heal()
    flow.audit()
