"""Row 38: a store is made again, or an older copy of it restored, beside what its attempts wrote: none of that is published."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.broken import Flow
from tests.support.postgres import Cluster

pytestmark = pytest.mark.fault(38)
JOBS = {"make": "made", "use": "used"}


def killed_after_writing(flow: Flow, job: str) -> None:
    """One attempt writes its output, and its worker dies before it ends the run."""
    died = flow.start("run", f"jobs/{job}.sh", at="exited")
    died.communicate(timeout=240)
    assert died.returncode != 0


def without_store(flow: Flow, request: pytest.FixtureRequest) -> None:
    """The store is gone, and an empty one is in its place."""
    if flow.shell.store_url is None:
        for path in flow.folder.glob("dataflow.db*"):
            path.unlink()
    else:
        cluster: Cluster = request.getfixturevalue("cluster")
        flow.shell.store_url = cluster.create_database()
        flow.shell.odf("migrate")


def written(flow: Flow, dataset: str) -> list[Path]:
    """Everything that attempts wrote for a dataset."""
    return sorted(path for path in (flow.folder / "data" / dataset).rglob("*") if path.is_file())


@pytest.mark.parametrize("life", ["made again", "restored"])
@pytest.mark.parametrize("job", JOBS)
def test_what_an_unknown_attempt_wrote_is_not_published(
    flow: Flow, request: pytest.FixtureRequest, job: str, life: str
) -> None:
    flow.prepare([1], retries=0)
    if job == "use":
        flow.shell.odf("drain", "make")
    copy = flow.folder.parent / "store.jsonl"
    flow.shell.odf("export", str(copy))
    dataset, number = JOBS[job], 0
    for number in (1, 2):  # the second life finds the leftovers of two
        killed_after_writing(flow, job)
        assert len(written(flow, dataset)) >= number
        without_store(flow, request)
        if life == "restored":
            flow.shell.odf("import", str(copy))
        else:
            flow.shell.odf("apply", "--yes")
            flow.shell.odf("ready", "raw", "1")
            if job == "use":
                flow.shell.odf("ready", "made", "1")
    left = {path: path.read_bytes() for path in written(flow, dataset)}
    flow.shell.script(f"jobs/{job}.sh", "true")
    refused = flow.shell.runjob(f"jobs/{job}.sh", code=None)
    assert refused.code in (12, 13), refused  # nothing is at the fixed location, or nothing at that of the attempt
    assert flow.shell.odf("sql", f"select status from datastatus where datasetid = '{dataset}'", "--json").data == [
        {"status": "FAILED"}
    ]
    assert {path: path.read_bytes() for path in written(flow, dataset)} == left, "the leftovers stay as they are"


def test_two_stores_on_one_folder_publish_each_its_own(flow: Flow, request: pytest.FixtureRequest) -> None:
    """Both hold epoch 1 of the same chunk at the same moment."""
    flow.prepare([1])
    flow.shell.odf("drain", "make")
    waiting = flow.start("run", "jobs/use.sh", at="exited", hold=True)
    flow.reached(waiting)
    url = flow.shell.store_url
    if url is None:
        flow.shell.store_url = f"sqlite:///{flow.folder.parent}/other.db"
    else:
        flow.shell.store_url = request.getfixturevalue("cluster").create_database()
    flow.shell.odf("migrate")
    flow.shell.odf("apply", "--yes")
    flow.shell.odf("ready", "made", "1")
    flow.shell.script("jobs/use.sh", 'mkdir "$used_location"; echo other >"$used_location/part"')
    assert flow.shell.runjob("jobs/use.sh").code == 0
    other = Path(flow.shell.odf("where", "used", "1").out.strip())
    flow.shell.store_url = url
    flow.go_on()
    assert _ends(waiting) == 0
    first = Path(flow.shell.odf("where", "used", "1").out.strip())
    assert (sorted(path.name for path in first.iterdir()), (first / "part").read_text()) == (
        ["part", "who"],
        "MADE OF\nROW 1\n",
    )
    assert [path.name for path in other.iterdir()] == ["part"]


def _ends(process: subprocess.Popen[str]) -> int:
    process.communicate(timeout=240)
    return process.returncode
