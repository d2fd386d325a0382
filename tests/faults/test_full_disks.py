"""Row 10: the disk of the data or of the logs is full: the run is FAILED with NO_SPACE, nothing is visible, and RESUBMIT heals it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.broken import Flow
from tests.support.shell import statuses

pytestmark = pytest.mark.fault(10, 30)

# Writes more than there is room for, and says what the system says; or fails without a word.
BIG = 'head -c 2000000 /dev/zero >"$made_location"'
QUIET = f"({BIG}) 2>/dev/null || exit 1"


@pytest.fixture
def small(flow: Flow) -> Iterator[Callable[[str], Path]]:
    """Makes a folder of the project a disk of a megabyte."""
    mounted: list[Path] = []

    def mount(name: str) -> Path:
        folder = flow.folder / name
        folder.mkdir(parents=True)
        command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("only root can mount a small disk")
        mounted.append(folder)
        return folder

    yield mount
    for folder in mounted:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill_up(folder: Path) -> Path:
    """Leave no byte free."""
    path = folder / "filled"
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"\0" * 512)
    return path


@pytest.mark.parametrize("script", [BIG, QUIET], ids=["told", "quiet"])
@pytest.mark.parametrize("job", ["make", "use"], ids=["renamed", "versioned"])
def test_an_output_for_which_there_is_no_room(flow: Flow, small: Callable[[str], Path], script: str, job: str) -> None:
    dataset = {"make": "made", "use": "used"}[job]
    small(f"data/{dataset}")
    flow.prepare([1], retries=0)
    sound = (flow.folder / f"jobs/{job}.sh").read_text()
    flow.shell.script(f"jobs/{job}.sh", script.replace("$made_location", f"${dataset}_location"))
    if job == "use":
        flow.shell.odf("drain", "make")
    refused = flow.shell.runjob(f"jobs/{job}.sh", code=1)
    assert "NO_SPACE" in refused.err
    assert statuses(flow.shell)[dataset, "1"] == "FAILED"
    assert flow.shell.odf("where", dataset, "1", code=None).code != 0, "nothing is visible"
    assert not (flow.folder / "data/made/1.csv").exists() or job == "use"
    (flow.folder / f"jobs/{job}.sh").write_text(sound)
    flow.shell.odf("vacuum", "--yes")
    flow.shell.odf("resubmit", dataset, "1")
    flow.heal()
    flow.audit()


def test_a_log_for_which_there_is_no_room_is_cut_and_stops_no_job(flow: Flow, small: Callable[[str], Path]) -> None:
    flow.prepare([1, 2])
    logs = next(path for path in (flow.folder / ".odf/logs", flow.folder / "logs") if path.parent.exists())
    filled = fill_up(small(str(logs.relative_to(flow.folder))))
    flow.shell.odf("drain")
    assert set(statuses(flow.shell).values()) == {"READY"}
    filled.unlink()
    flow.arrive([3])
    flow.heal()
    flow.audit()
