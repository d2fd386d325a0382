"""SQLite on a real machine: clocks that step, old libraries, network file systems."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

import opendataflow
from opendataflow import Store
from opendataflow.store.journal import file_system_of, wal_is_safe
from opendataflow.store.sqlite import SqliteBackend
from tests.support.flows import chain, claim_one, status


@pytest.fixture
def url(tmp_path: Path) -> str:
    """The address of a SQLite store."""
    return f"sqlite:///{tmp_path}/store.db"


@pytest.mark.parametrize("step", [3600.0, -3600.0])
def test_a_clock_that_steps_ends_no_lease(url: str, step: float, monkeypatch: pytest.MonkeyPatch) -> None:
    with opendataflow.open(url, create=True) as store:
        chain(store, lease=30.0)
        store.announce("raw", ["1"])
        claim = claim_one(store, "make")
        real = time.time
        monkeypatch.setattr(time, "time", lambda: real() + step)
        assert store.rescue() == []
        with opendataflow.open(url) as other:
            assert other.rescue() == [], "a process that started after the step sees the same clock"
            assert other.claim("make") == []
            assert other.heartbeat(claim) == pytest.approx(store.heartbeat(claim), abs=5)
        store.commit(claim)
        assert status(store, "product", "1") == "READY"


@pytest.mark.parametrize("step", [3600.0, -3600.0])
def test_a_lease_ends_in_time_although_the_clock_stepped(
    url: str, step: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opendataflow.open(url, create=True) as store:
        chain(store, lease=0.05)
        store.announce("raw", ["1"])
        claim = claim_one(store, "make")
        real = time.time
        monkeypatch.setattr(time, "time", lambda: real() + step)
        time.sleep(0.1)
        assert [rescued[0] for rescued in store.rescue()] == [claim.runid]


def test_after_a_reboot_the_clock_goes_on_from_the_wall(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from opendataflow.store import sqlite

    with opendataflow.open(url, create=True) as store:
        chain(store, lease=0.05)
        store.announce("raw", ["1"])
        claim = claim_one(store, "make")
    monkeypatch.setattr(sqlite, "boot_id", lambda: "another boot")
    uptime = time.monotonic()
    real = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: real() - uptime)
    time.sleep(0.1)
    with opendataflow.open(url) as store:
        assert [rescued[0] for rescued in store.rescue()] == [claim.runid]


@pytest.mark.parametrize("step", [3 * 3600.0, -3 * 3600.0])
def test_a_busy_neighbour_is_waited_for_although_every_clock_jumps(
    url: str, step: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A monotonic clock that was set back behind its beginning makes the system refuse to sleep until a moment of it."""
    with opendataflow.open(url, create=True) as store, opendataflow.open(url) as other:
        chain(store)
        backend(other)._connection.execute("begin immediate")
        threading.Timer(0.3, lambda: backend(other)._connection.execute("commit")).start()
        real, refused = time.monotonic, []

        def refuse(seconds: float) -> None:
            refused.append(seconds)
            monkeypatch.setattr(time, "monotonic", lambda: real() + step)
            raise OSError(22, "Invalid argument")

        monkeypatch.setattr(time, "sleep", refuse)
        store.announce("raw", ["1"])
        assert refused
    with opendataflow.open(url) as store:
        assert status(store, "raw", "1") == "READY"


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


def backend(store: Store) -> SqliteBackend:
    found = store._backend
    assert isinstance(found, SqliteBackend)
    return found


def journal(store: Store) -> str:
    return str(store.sql("pragma journal_mode")[1][0][0]).upper()


def test_a_good_library_on_a_local_disk_uses_wal(url: str) -> None:
    with opendataflow.open(url, create=True) as store:
        assert (journal(store), backend(store).journal_reason) == ("WAL", "")


@pytest.mark.parametrize("why", ["old library", "network"])
def test_where_wal_is_not_safe_the_store_works_without_it(url: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from opendataflow.store import sqlite

    if why == "network":
        monkeypatch.setattr(sqlite, "file_system_of", lambda path: "nfs4")
    else:
        monkeypatch.setattr("apsw.sqlite_lib_version", lambda: "3.40.1")
    with opendataflow.open(url, create=True) as store:
        assert journal(store) == "DELETE"
        assert backend(store).journal_reason != ""
        chain(store)
        store.announce("raw", ["1"])
        store.commit(claim_one(store, "make"))
        assert status(store, "product", "1") == "READY"


def test_a_wal_store_that_moves_to_a_network_leaves_wal(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from opendataflow.store import sqlite

    opendataflow.open(url, create=True).close()
    monkeypatch.setattr(sqlite, "file_system_of", lambda path: "nfs4")
    with opendataflow.open(url) as store:
        assert journal(store) == "DELETE"
