"""Rows 15, 16 and 29: published data is damaged, or another day's file comes: nobody reads it, and everybody is told its name."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.broken import Flow
from tests.support.shell import statuses


def corrupt(path: Path) -> None:
    """Other bytes, as many."""
    path.write_bytes(bytes(byte ^ 1 for byte in path.read_bytes()))


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more\n")


def rot(path: Path) -> None:
    """One bit, with size and time kept."""
    before, content = path.stat(), bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


DAMAGES: list[Callable[[Path], None]] = [corrupt, truncate, append, rot, Path.unlink]


@pytest.mark.fault(15, 29)
def test_a_damaged_chunk_is_refused_to_its_next_consumer_by_name(flow: Flow, tmp_path: Path) -> None:
    flow.prepare(range(len(DAMAGES)))
    flow.shell.odf("drain", "make")
    for number, damage in enumerate(DAMAGES):
        published = flow.folder / f"data/made/{number}.csv"
        shutil.copy2(published, tmp_path / "sound")
        damage(published)
        refused = flow.shell.runjob("--dataid", str(number), "jobs/use.sh", code=None)
        assert refused.code in (12, 13), (damage, refused)  # INVALID_PATH where nothing is left, else NOT_VALIDATED
        assert f"{number}.csv" in refused.err, damage
        assert f"{number}.csv" in flow.shell.odf("audit", "made", str(number), code=13).out, damage
        assert ("used", str(number)) not in statuses(flow.shell), "it is as if nobody had asked"
        if number % 2:
            shutil.copy2(tmp_path / "sound", published)  # somebody puts it back
        else:
            flow.shell.odf("resubmit", "made", str(number))  # or has it made again
    flow.shell.odf("drain", "make")
    for number in range(len(DAMAGES)):
        flow.shell.runjob("--dataid", str(number), "jobs/use.sh")  # by name: what was refused waits for a minute
    flow.audit()


@pytest.mark.fault(15)
@pytest.mark.parametrize("change", ["a file more", "a file less"])
def test_a_folder_that_is_not_what_was_published_is_refused(flow: Flow, change: str) -> None:
    flow.prepare([1])
    flow.shell.write(
        "dataflow.toml",
        (flow.folder / "dataflow.toml").read_text() + '\n[job.read]\nreads = ["used"]\nscript = "jobs/read.sh"\n',
    )
    flow.shell.script("jobs/read.sh")
    flow.shell.odf("apply", "--yes")
    flow.shell.odf("drain", "make", "use")
    version = Path(flow.shell.odf("where", "used", "1").out.strip())
    other = version / "added"
    if change == "a file more":
        other.write_text("more")
    else:
        other = (version / "who").rename(flow.folder / "who")
    refused = flow.shell.runjob("read", code=13)
    assert ("added" if change == "a file more" else "who") in refused.err
    if change == "a file more":
        other.unlink()
    else:
        other.rename(version / "who")
    flow.shell.runjob("--dataid", "1", "read")
    flow.audit()


@pytest.mark.fault(16)
@pytest.mark.parametrize("door", ["ready", "discover"])
def test_yesterday_s_file_under_today_s_name_is_wrong_data(flow: Flow, door: str) -> None:
    flow.prepare([1])
    shutil.copy(flow.folder / "data/raw/1.csv", flow.folder / "data/raw/2.csv")
    words = ("raw", "2") if door == "ready" else ("raw", "--quiet-for", "0")
    refused = flow.shell.odf(door, *words, code=11)
    assert "WRONG_DATA" in refused.out + refused.err
    assert "raw 1" in refused.out + refused.err, "the earlier chunk is named"
    flow.heal()
    assert ("raw", "2") not in statuses(flow.shell)
    flow.shell.write("data/raw/2.csv", "row 2\n")
    flow.shell.odf(door, *words)
    flow.dataids.append("2")
    flow.heal()
    flow.audit()


@pytest.mark.fault(16)
@pytest.mark.parametrize("repeats", [False, True])
def test_what_a_script_writes_for_two_dataids_is_remarked_or_where_declared_refused(flow: Flow, repeats: bool) -> None:
    flow.prepare([1, 2], retries=0)
    if not repeats:
        project = (flow.folder / "dataflow.toml").read_text()
        flow.shell.write("dataflow.toml", project.replace("[dataset.made]\n", "[dataset.made]\nrepeats = false\n"))
        flow.shell.odf("apply", "--yes")
    sound = (flow.folder / "jobs/make.sh").read_text()
    flow.shell.script("jobs/make.sh", 'echo same >"$made_location"')
    flow.shell.runjob("jobs/make.sh")
    second = flow.shell.runjob("jobs/make.sh", code=0 if repeats else 11)
    assert ("same_content_as 1" if repeats else "made 1") in second.err
    assert statuses(flow.shell)["made", "2"] == ("READY" if repeats else "FAILED")
    (flow.folder / "jobs/make.sh").write_text(sound)
    flow.shell.odf("resubmit", "made", "1..2", "--yes")
    flow.heal()
    flow.audit()
