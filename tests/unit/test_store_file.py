"""The file of the embedded store is private, and so is everything beside it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

import opendataflow
from opendataflow.cli.app import App
from opendataflow.insight.doctor import examine


def modes(folder: Path) -> dict[str, str]:
    return {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in sorted(folder.glob("store.db*"))}


@pytest.fixture(params=[0o000, 0o022, 0o077])
def _umask(request: pytest.FixtureRequest):
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.mark.usefixtures("_umask")
def test_a_new_store_is_private(tmp_path: Path) -> None:
    with opendataflow.open(f"sqlite:///{tmp_path}/store.db", create=True) as store:
        store.dml("insert into dataset (datasetid) values ('a')")
        assert modes(tmp_path) == dict.fromkeys(("store.db", "store.db-shm", "store.db-wal"), "0o600")
    assert modes(tmp_path) == {"store.db": "0o600"}


def test_so_it_is_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "store.db").symlink_to(tmp_path / "there/store.db")
    opendataflow.open(f"sqlite:///{tmp_path}/store.db", create=True).close()
    assert modes(tmp_path / "there") == {"store.db": "0o600"}


def test_the_mode_that_an_administrator_gave_it_stays(tmp_path: Path) -> None:
    opendataflow.open(f"sqlite:///{tmp_path}/store.db", create=True).close()
    (tmp_path / "store.db").chmod(0o660)
    with opendataflow.open(f"sqlite:///{tmp_path}/store.db", create=True) as store:
        store.dml("insert into dataset (datasetid) values ('a')")
        assert set(modes(tmp_path).values()) == {"0o660"}


@pytest.mark.parametrize(("mode", "ok"), [(0o600, True), (0o660, True), (0o644, False), (0o602, False)])
def test_the_doctor_reports_a_file_that_others_can_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, ok: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    url = f"sqlite:///{tmp_path}/store.db"
    opendataflow.open(url, create=True).close()
    (tmp_path / "store.db").chmod(mode)
    app = App(store_url=url)
    found = next(each for each in examine(app, {}) if each.what == "store")
    app.close()
    assert found.ok is ok
    assert ("chmod o-rwx" in found.mend) is not ok
