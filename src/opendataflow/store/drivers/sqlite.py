"""Connect to the embedded store in a SQLite file."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw

from ...errors import StoreMissing, StoreReadOnly, StoreUnreachable, UsageError
from ...model.printable import check_utf8
from ...pause import pause
from ...tokens import shown_address, without_secrets
from . import queries
from .base import (
    ENCRYPTED,
    Backend,
    Migration,
    Retry,
    Row,
    Transaction,
    Unreadable,
    bounded,
    damaged,
    lacks,
    no_space,
    not_encrypted,
    too_big,
    took_too_long,
)
from .sqlite_file import boot_id, check_same, file_system_of, has_no_space, stat_store, utc_now, wal_is_safe
from .sqlite_transaction import SqliteLook, SqliteTransaction, fetched_by_bytes
from .user_sql import changes_no_tables, with_columns

_PATIENCE = 60.0
_PROGRESS_STEPS = 10_000  # virtual machine steps between checks of the time limit: a fraction of a millisecond
_MIN_PAGE = 512  # the smallest page in bytes
_WRITTEN_BY_TRIGGERS = {"note", "event", "meta"}
_TOO_FEW = r"^table (datastatus|dataset) has \d+ columns but \d+ values were supplied"
_TOO_BIG = (apsw.TooBigError, apsw.NoMemError, MemoryError)
_READS = {apsw.SQLITE_SELECT, apsw.SQLITE_READ, apsw.SQLITE_FUNCTION, apsw.SQLITE_RECURSIVE}
_CHANGES_ROWS = _READS | {apsw.SQLITE_INSERT, apsw.SQLITE_UPDATE, apsw.SQLITE_DELETE}


def _only_reads(action: int, what: str | None, value: str | None, *_: str | None) -> int:
    """The authorizer of typed read-only statements."""
    describes = action == apsw.SQLITE_PRAGMA and (value is None or str(what).endswith(("_info", "_xinfo", "_list")))
    return apsw.SQLITE_OK if action in _READS or describes else apsw.SQLITE_DENY


class SqliteBackend(Backend):
    """A connection to a SQLite file that tolerates concurrent writers and clock steps."""

    dialect = "sqlite"
    database = f"SQLite {apsw.sqlitelibversion()}"
    _patience = _PATIENCE

    def __init__(self, url: str, path: str, *, create: bool) -> None:
        check_utf8(path)
        self.url = url
        self.path = Path(path)
        self._address = str(self.path)
        self._named = queries.load("sqlite")
        if not self.path.exists() and not create:
            raise StoreMissing(
                f"there is no store at {self.shown_url}", hint=f"Create it: odf migrate --store {self.shown_url}"
            )
        flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
        self._is_full = False
        self._only_reads = not create and not os.access(self.path, os.W_OK)
        self._file_state: tuple[int, int] | None = None  # the file's size and time, when it is read without locks
        if self._only_reads:
            flags = apsw.SQLITE_OPEN_READONLY
        try:
            if create:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            if self.path.is_file() and 0 < self.path.stat().st_size < _MIN_PAGE:
                raise apsw.NotADBError  # SQLite takes a tiny file for an empty one and would overwrite it
            if create and not self.path.exists():
                # Created with private permissions; SQLite copies them to the WAL files.
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
            try:
                self._open(flags, create)
            except (apsw.CantOpenError, StoreReadOnly):
                if create or not (self.path.is_file() and os.access(self.path, os.R_OK)):
                    raise
                self._open_as_it_lies()
            self._file = stat_store(self.path)
        except apsw.NotADBError as error:
            raise StoreMissing(
                f"{without_secrets(str(self.path))} is not a SQLite file",
                hint="Point --store at a store, or at a file that does not exist yet. To repair a store, restore a backup.",
            ) from error
        except (apsw.CantOpenError, OSError) as error:
            raise StoreMissing(
                without_secrets(f"the store {url} cannot be opened: {error}"),
                hint="Check the path and its permissions.",
            ) from error

    def _open(self, flags: int, create: bool) -> None:
        with self._translated():
            self._connection = apsw.Connection(str(self.path), flags=flags)
            try:
                self._set_up(create)
            except (apsw.IOError, apsw.FullError):
                if not has_no_space(self.path):
                    raise
                # Without room for the shared-memory file, a reader uses exclusive locking instead.
                self._is_full = True
                self._connection.close()
                self._connection = apsw.Connection(str(self.path), flags=flags)
                self._connection.execute("pragma locking_mode = exclusive").fetchall()
                self._set_up(create)

    def _open_as_it_lies(self) -> None:
        # Readers need the WAL files but cannot create them here. Without a WAL, the file is complete and can be read as it is.
        wal = Path(f"{self.path}-wal")
        if wal.exists() and wal.stat().st_size:
            raise StoreReadOnly(
                f"the store {self.shown_url} was not closed, and reading it needs write permission",
                hint="Run as a user with write permission: odf status",
            )
        self._only_reads, self._file_state = True, self._as_it_lies()
        address = f"file:{quote(str(self.path.resolve()))}?immutable=1"
        with self._translated():
            self._connection = apsw.Connection(address, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
            self._set_up(False)

    def _as_it_lies(self) -> tuple[int, int]:
        found = stat_store(self.path)
        return found.st_size, found.st_mtime_ns

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except apsw.Error as error:
            self._translate(error)
            raise

    def _translate(self, error: BaseException) -> None:
        """Raise the program's error for a problem of the file; problems of statements are left to the caller."""
        if isinstance(error, apsw.BusyError):
            raise StoreUnreachable(
                f"the store {self.shown_url} was locked for more than {self._patience:.0f} s",
                hint="Look for a process that hangs and holds the lock.",
            ) from error
        if isinstance(error, apsw.ReadOnlyError):
            raise self._read_only() from error
        if isinstance(error, apsw.FullError) or (isinstance(error, apsw.IOError) and has_no_space(self.path)):
            raise no_space(self.shown_url) from error
        was_opened = hasattr(self, "_offset")  # otherwise the file was never valid
        if isinstance(error, (apsw.IOError, apsw.CorruptError)) or (isinstance(error, apsw.NotADBError) and was_opened):
            raise damaged(self.shown_url, str(error)) from error
        if isinstance(error, apsw.ConstraintError) and ENCRYPTED in str(error):
            raise not_encrypted() from None
        if isinstance(error, apsw.ConstraintError):
            raise Unreadable(str(error)) from error

    def _read_only(self) -> StoreReadOnly:
        return StoreReadOnly(
            f"the store {self.shown_url} cannot be written",
            hint=f"Check the permissions of {without_secrets(str(self.path))} and of its folder.",
        )

    def _set_up(self, create: bool) -> None:
        connection = self._connection
        connection.set_busy_handler(self._wait_for_neighbour)
        # One plan for all parameter values: otherwise a statement is compiled again for each value.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        safe, why = wal_is_safe(apsw.sqlite_lib_version(), file_system_of(self.path))
        self.journal = "WAL" if safe else "DELETE"
        self.journal_reason = why
        others = connection.execute(self._named["other_tables"]).fetchall()  # refuse a file of another program
        if not (others or self._is_full or self._only_reads):
            connection.execute(f"pragma journal_mode = {self.journal}").fetchall()
        # FULL: a READY that was read survives a power failure.
        connection.execute(
            "pragma synchronous = full; pragma foreign_keys = on; pragma temp_store = memory; pragma cache_size = -64000;"
            " pragma wal_autocheckpoint = 4000"  # fewer checkpoints: the same pages change often
        ).fetchall()
        # Deterministic: evaluated once per statement, not per row.
        connection.create_scalar_function("now", lambda *_: self._now(), 0, deterministic=True)
        connection.create_scalar_function("lease_now", lambda *_: self.lease_now(), 0)
        self._offset: float | None = None
        self._is_agreed = False  # whether the clock offset is the one that the store holds
        self._moment = ""

    def _wait_for_neighbour(self, attempts: int) -> bool:
        from random import uniform  # imported here: rarely needed

        # Short random sleeps give many processes a fair chance.
        if attempts == 0:
            self._waited = 0.0
        nap = uniform(0.0002, 0.002 * min(attempts + 1, 10))
        self._waited += nap  # counted, not measured: independent of clock steps
        pause(nap)
        return self._waited < self._patience

    def interrupt(self, patience: float) -> None:
        self._patience = patience

    def _now(self) -> str:
        """The start of the transaction, as in PostgreSQL's now()."""
        self._moment = self._moment or utc_now()
        return self._moment

    def lease_now(self) -> float:
        """The lease clock: monotonic within one boot, shared by all processes of the machine, independent of clock steps."""
        if self._offset is None:
            self._offset = self._clock_offset(may_store=False)
        return time.monotonic() + self._offset

    def _clock_offset(self, *, may_store: bool) -> float:
        """One offset per boot, which all processes share through the store; a look does not store it."""
        boot = boot_id()
        mine = time.time() - time.monotonic()
        agreed = next((str(value).split(" ") for (value,) in self._connection.execute(self._named["clock_offset"])), [])
        self._is_agreed = len(agreed) == 2 and agreed[0] == boot
        if self._is_agreed:
            return float(agreed[1])
        if may_store:
            with suppress(apsw.ReadOnlyError, apsw.FullError, apsw.IOError):  # a read-only connection cannot store it
                self._connection.execute(self._named["clock_offset_put"], {"value": f"{boot} {mine!r}"})
                self._is_agreed = True
        return mine

    def writing(self) -> AbstractContextManager[Transaction]:
        if self._is_full:
            raise no_space(self.shown_url)
        return self._transaction("begin immediate", "commit")

    def reading(self) -> AbstractContextManager[Transaction]:
        return self._transaction("begin", "rollback")

    @contextmanager
    def _transaction(self, begin: str, end: str) -> Iterator[Transaction]:
        connection = self._connection
        if not self._is_agreed and self.has_schema():
            self._offset = self._clock_offset(may_store=end == "commit")
        try:
            connection.execute(begin)
            self._moment = ""
            if self._file_state is None:
                check_same(self._address, self._file)
            yield (SqliteTransaction if end == "commit" else SqliteLook)(connection)
            connection.execute(end)
        except BaseException as error:
            if connection.in_transaction:
                connection.execute("rollback")
            self._translate(error)
            raise
        if self._file_state is not None and self._file_state != self._as_it_lies():
            self._connection.close()
            self._open_as_it_lies()
            raise Retry

    def migrate(self, step: Migration) -> None:
        with self.writing() as transaction:
            if transaction.has_applied(step):
                return
            try:
                self._connection.execute(step.sql).fetchall()
            except apsw.SQLError as error:
                raise lacks(str(error)) from None
            transaction.run("migration_put", number=step.number, name=step.name, checksum=step.checksum)

    @property
    def shown_url(self) -> str:
        return shown_address(self.url)

    def has_schema(self) -> bool:
        with self._translated():
            return bool(self._connection.execute(self._named["has_schema"]).get)

    def is_write_locked(self) -> bool:
        self._connection.set_busy_handler(None)
        try:
            self._connection.execute("begin immediate")
            self._connection.execute("rollback")
        except apsw.BusyError:
            return True
        finally:
            self._connection.set_busy_handler(self._wait_for_neighbour)
        return False

    def damage(self) -> list[str]:
        with self._translated():
            found = [str(text) for (text,) in self._connection.execute("pragma quick_check(3)")]
        return [] if found == ["ok"] else found

    def back_up(self, path: Path) -> None:
        with self._translated(), closing(apsw.Connection(str(path))) as copy:
            # In one read transaction: a snapshot, while workers continue to write.
            with copy.backup("main", self._connection, "main") as backup:
                backup.step()
            copy.execute("pragma journal_mode = delete").fetchall()  # a single file without WAL

    def select(self, sql: str, *, timeout: float, as_superuser: bool) -> tuple[list[str], list[Row]]:
        connection, end = self._connection, time.monotonic() + timeout
        self._moment = ""
        # query_only stops writes; the authorizer stops statements that would disable it or access other files.
        connection.execute("pragma query_only = on")
        connection.authorizer = _only_reads
        connection.set_progress_handler(lambda: time.monotonic() > end, _PROGRESS_STEPS)
        names: list[str] = []

        def see(cursor: apsw.Cursor, statement: str, bindings: Any) -> bool:
            # The columns of an empty result are available only here.
            names[:] = [column[0] for column in cursor.get_description()]
            return True

        try:
            cursor = connection.cursor()
            cursor.exec_trace = see
            with self._translated():
                try:
                    rows = bounded(cursor.execute(sql))
                except UnicodeDecodeError:
                    cursor.exec_trace = None
                    rows = bounded(fetched_by_bytes(connection.execute, sql, {}, len(names)))
            return names, rows
        except (StoreReadOnly, apsw.AuthError):
            raise UsageError("this statement writes, and sql is read-only", hint="Use: odf dml") from None
        except apsw.InterruptError:
            raise took_too_long(timeout) from None
        except _TOO_BIG:
            raise too_big() from None
        except apsw.SQLError as error:
            raise UsageError(f"the statement is wrong: {error}") from None
        finally:
            connection.set_progress_handler(None)
            connection.authorizer = None
            connection.execute("pragma query_only = off")

    def execute(self, sql: str, *, dry_run: bool = False) -> int:
        try:
            return self._execute(sql, dry_run)
        except _TOO_BIG:
            raise too_big() from None
        except (apsw.SQLError, apsw.ConstraintError) as error:
            problem = error
        # SQLite needs a value for every column, unlike PostgreSQL: add the column names of the original.
        if re.search(_TOO_FEW, str(problem)) and (named := with_columns(sql)) != sql:
            try:
                return self._execute(named, dry_run)
            except (apsw.SQLError, apsw.ConstraintError) as error:
                problem = error
        raise UsageError(f"the store refused the statement: {problem}") from None

    def _execute(self, sql: str, dry_run: bool) -> int:
        changed: set[tuple[str, int]] = set()
        refused: list[str] = []

        def authorize(action: int, what: str | None, value: str | None, *_: str | None) -> int:
            if action in _CHANGES_ROWS:
                return apsw.SQLITE_OK
            refused.append(str(apsw.mapping_authorizer_function[action]).removeprefix("SQLITE_").replace("_", " "))
            return apsw.SQLITE_DENY

        def see(kind: int, database: str, table: str, rowid: int) -> None:
            if table not in _WRITTEN_BY_TRIGGERS:
                changed.add((table, rowid))

        # SQLite counts no rows for views, or those of all triggers: count only the rows of the statement itself.
        self._connection.set_update_hook(see)
        try:
            with self.writing():
                self._connection.authorizer = authorize
                try:
                    self._connection.execute(sql).fetchall()
                finally:
                    self._connection.authorizer = None
                n = max(len(changed), self._connection.changes())
                if dry_run:
                    # Rolled back here; the surrounding transaction still ends.
                    self._connection.execute("rollback; begin")
                return n
        except apsw.AuthError:
            raise changes_no_tables(refused[-1] if refused else "it") from None
        finally:
            self._connection.set_update_hook(None)

    def close(self) -> None:
        self._connection.close()
