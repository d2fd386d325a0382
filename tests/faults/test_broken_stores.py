"""Rows 10 and 30: a store whose disk is full, or whose file is damaged: every verb answers, or says by name what is wrong."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import opendataflow
from tests.support.odf import Odf

pytestmark = pytest.mark.fault(30)  # of SQLite: the files of a PostgreSQL are its server's

LOOKS = (["status"], ["why", "load"], ["runs"], ["explain", "made", "1"], ["doctor"], ["jobs"], ["sql", "select 1"])
WRITES = (["ready", "raw", "9"], ["dml", "delete from note"], ["run", "./load.sh"], ["rescue"])


def fill(folder: Path, url: str) -> Odf:
    """A store with a chunk that is done and one that is not, and a script that makes them."""
    script = folder / "load.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o700)
    odf = Odf(folder, url)
    with opendataflow.open(url, create=True) as store:
        store.dml("insert into dataset (datasetid) values ('raw'), ('made')")
        store.dml("insert into job (jobid, itemtype, datasetid) values ('load', 'IN', 'raw'), ('load', 'OUT', 'made')")
        store.announce("raw", ["1", "2"])
        store.commit(store.claim("load")[0])
    return odf


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1.2 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1200k", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a small disk")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.fault(10, 30)
def test_on_a_full_disk_looking_works_and_writing_says_why_not(small_disk: Path, tmp_path: Path) -> None:
    odf = fill(tmp_path, f"sqlite:///{small_disk}/store.db")
    with (small_disk / "filled").open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"\0" * 1024)
    for verb in LOOKS:
        odf(*verb, code=0)
    for verb in WRITES[:3]:  # a rescue with nothing to rescue writes nothing
        answer = odf(*verb, code=75)
        assert answer.err.startswith("STORE_UNREACHABLE"), verb
        assert "NO_SPACE" in answer.err, verb
    (small_disk / "filled").unlink()
    odf("run", "./load.sh")
    assert odf("sql", "--json", "select dataid from run where status = 'READY'").data == [
        {"dataid": "1"},
        {"dataid": "2"},
    ]
    with opendataflow.open(odf.store_url) as store:
        assert store.damage() == []
        assert store.breaches() == []


def test_a_damaged_store_is_called_so_by_every_verb(tmp_path: Path) -> None:
    odf = fill(tmp_path, f"sqlite:///{tmp_path}/store.db")
    path = tmp_path / "store.db"
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * (size - 4096))
    for verb in (*LOOKS[:4], *LOOKS[5:6], *WRITES):
        answer = odf(*verb, code=75)
        assert answer.err.startswith("STORE_DAMAGED"), verb
        assert "backup-and-restore" in answer.err, verb
    assert "STORE_DAMAGED" in odf("doctor", code=1).out


def test_a_store_that_lost_its_end_is_called_damaged_too(tmp_path: Path) -> None:
    odf = fill(tmp_path, f"sqlite:///{tmp_path}/store.db")
    with (tmp_path / "store.db").open("r+b") as file:
        file.truncate(16_384)
    assert odf("status", code=75).err.startswith("STORE_DAMAGED")
    assert "STORE_DAMAGED" in odf("doctor", code=1).out


def test_a_truncated_log_of_writes_ends_in_an_answer(tmp_path: Path) -> None:
    """The file beside the store is cut while a process has both open."""
    url = f"sqlite:///{tmp_path}/store.db"
    odf = fill(tmp_path, url)
    with opendataflow.open(url) as store:
        store.announce("raw", [str(number) for number in range(10, 300)])
        with (tmp_path / "store.db-wal").open("r+b") as file:
            file.truncate(5000)
        for verb in (["status"], ["ready", "raw", "9"], ["dml", "delete from note"], ["doctor"]):
            answer = odf(*verb, code=None)
            assert answer.code in (0, 1, 75), verb
            assert "INTERNAL" not in answer.out + answer.err, verb
