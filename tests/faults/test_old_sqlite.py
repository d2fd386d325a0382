"""Row 9: an old SQLite, or a network under it: the store works without WAL, and says why."""

from __future__ import annotations

from pathlib import Path

import pytest

import opendataflow
from opendataflow import Store
from opendataflow.cli.app import App
from opendataflow.insight.doctor import examine
from opendataflow.store.drivers.sqlite import SqliteBackend
from opendataflow.store.drivers.sqlite_file import file_system_of, wal_is_safe
from tests.support.flows import chain, claim_one, status

pytestmark = pytest.mark.fault(9)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """The address of a SQLite store."""
    return f"sqlite:///{tmp_path}/store.db"


def backend(store: Store) -> SqliteBackend:
    found = store._backend
    assert isinstance(found, SqliteBackend)
    return found


@pytest.mark.parametrize(
    ("version", "file_system", "safe"),
    [
        ("3.54.0", "ext4", True),
        ("3.51.3", "ext4", True),
        ("3.51.2", "ext4", False),
        ("3.50.7", "ext4", True),
        ("3.50.6", "ext4", False),
        ("3.44.6", "overlay", True),
        ("3.40.1", "ext4", False),
        ("3.54.0", "nfs4", False),
        ("3.54.0", "nfs", False),
        ("3.54.0", "cifs", False),
        ("3.54.0", "fuse.sshfs", False),
        ("3.54.0", "tmpfs", True),
        ("3.54.0", "", True),
    ],
)
def test_wal_is_used_only_where_it_is_safe(version: str, file_system: str, safe: bool) -> None:
    found, why = wal_is_safe(version, file_system)
    assert found is safe
    assert bool(why) is not safe


MOUNTS = """\
overlay / overlay rw,relatime 0 0
proc /proc proc rw 0 0
server:/export /data nfs4 rw 0 0
/dev/sdb1 /data/local ext4 rw 0 0
//nas/share /mnt/my\\040share cifs rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/home/me/store.db", "overlay"),
        ("/data/store.db", "nfs4"),
        ("/data/local/store.db", "ext4"),
        ("/database/store.db", "overlay"),
        ("/mnt/my share/store.db", "cifs"),
    ],
)
def test_the_file_system_is_that_of_the_nearest_mount(path: str, expected: str) -> None:
    assert file_system_of(Path(path), MOUNTS) == expected


def journal(store: Store) -> str:
    return str(store.sql("pragma journal_mode")[1][0][0]).upper()


def test_a_good_library_on_a_local_disk_uses_wal(url: str) -> None:
    with opendataflow.open(url, create=True) as store:
        assert (journal(store), backend(store).journal_reason) == ("WAL", "")


@pytest.mark.parametrize("why", ["3.40.1", "network"])
def test_where_wal_is_not_safe_the_store_works_without_it_and_the_doctor_says_so(
    url: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    from opendataflow.store.drivers import sqlite

    if why == "network":
        monkeypatch.setattr(sqlite, "file_system_of", lambda path: "nfs4")
    else:
        monkeypatch.setattr("apsw.sqlite_lib_version", lambda: why)
    with opendataflow.open(url, create=True) as store:
        assert journal(store) == "DELETE"
        assert backend(store).journal_reason != ""
        chain(store)
        store.announce("raw", ["1"])
        store.commit(claim_one(store, "make"))
        assert status(store, "product", "1") == "READY"
        assert store.damage() == []
        assert store.breaches() == []
    app = App(store_url=url)
    [told] = [each for each in examine(app, {}) if each.what == "journal"]
    app.close()
    assert why.split()[0] in told.found
    assert told.mend


def test_a_wal_store_that_moves_to_a_network_leaves_wal(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from opendataflow.store.drivers import sqlite

    opendataflow.open(url, create=True).close()
    monkeypatch.setattr(sqlite, "file_system_of", lambda path: "nfs4")
    with opendataflow.open(url) as store:
        assert journal(store) == "DELETE"
