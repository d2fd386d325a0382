"""Provide Store, the one object through which the program reads and writes the state of all chunks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BadDefinition, OdfError, TwoProducers, UnknownStatus, UsageError
from ..model import Dataset, Job, Pool
from ..model.decision.status import statuses
from .drivers import migrate
from .drivers.base import Migration, Row, Transaction, Unreadable
from .engine import definitions
from .records import AppliedProject, Change
from .rows import LocationRow, compact
from .run_verbs import RunVerbs
from .session import refuse_other_environment
from .steer_verbs import SteerVerbs

if TYPE_CHECKING:
    from .incidents import Incidents
    from .transfer.original import Imported
    from .views import Views
    from .views.pending import Pending
    from .views.soundness import Breach

_PAGE = 10_000


@contextmanager
def _as_file_error() -> Iterator[None]:
    """Turn every error while a file is imported, including errors of the database, into a UsageError about the file."""
    try:
        yield
    except OdfError:
        raise
    except Exception as error:
        message = next(iter(str(error).splitlines()), "")
        raise UsageError(
            f"this file cannot be imported: {type(error).__name__}: {message[:200]}",
            hint="Nothing was changed. Write the file again, and do not edit it.",
        ) from None


@contextmanager
def _as_statement_error() -> Iterator[None]:
    """Turn what the database refuses of a typed statement into a UsageError, not an unreadable row."""
    try:
        yield
    except Unreadable as refused:
        raise UsageError(f"the store refused the statement: {refused.problem}") from None


def _absolute_locations(after: LocationRow, tx: Transaction) -> list[LocationRow]:
    at = {"datasetid": after.datasetid, "dataid": after.dataid, "version": after.version}
    return tx.fetch(LocationRow._make, "locations_absolute_page", **at, n=_PAGE)


class Store(RunVerbs, SteerVerbs):
    """The state of all chunks: status, lock, lineage and history.

    Safe to share between threads; each call is one short transaction.
    """

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @cached_property
    def views(self) -> Views:
        """The read-only queries; imported when first asked for."""
        from .views import Views

        return Views(self)

    @cached_property
    def incidents(self) -> Incidents:
        """Incidents and the messages about them."""
        from .incidents import Incidents

        return Incidents(self)

    @contextmanager
    def looking(self) -> Iterator[Pending]:
        """Read the store inside as the next claim will find it: what that claim folds in is worked out in memory.

        Nothing is written, and no lock is held. Holds for this thread; yields what is pending.
        """
        outer: Pending | None = getattr(self._looks, "pending", None)
        self._looks.pending = outer or self.read(self._read_pending)
        try:
            yield self._looks.pending
        finally:
            self._looks.pending = outer

    def _read_pending(self, tx: Transaction) -> Pending:
        from .views.pending import read_pending

        return read_pending(tx, self.catalogue_in(tx), self._clock())

    def breaches(self) -> list[Breach]:
        """Every promise that the rows break, after folding and rescue, all of which is undone."""
        from .views.soundness import breaches

        return self._do_or_dry_run(lambda tx: breaches(tx, self._locked_catalogue(tx)), dry_run=True)

    def migrate(self, *, dry_run: bool = False) -> list[Migration]:
        """Apply pending migrations; returns the migrations that were, or would be, applied."""
        with self._lock:
            if self._with_retries(self._backend.has_schema) and not dry_run:
                self._do(lambda tx: None)  # refuses the store of another environment
            step = migrate.pending if dry_run else migrate.migrate
            steps = self._with_retries(lambda: step(self._backend))
            if not steps:
                self._with_retries(lambda: migrate.refuse_missing(self._backend))
            return steps

    def create(self) -> None:
        """Create missing tables without checking the environment."""
        self._with_retries(lambda: migrate.migrate(self._backend))

    def check_schema(self) -> None:
        """Refuse a store whose schema version differs from the version that this program needs."""
        self._with_retries(lambda: migrate.check(self._backend))

    def missing(self) -> list[str]:
        """The tables, columns and views that the schema lacks."""
        with self._lock:
            return self._with_retries(lambda: migrate.missing(self._backend))

    def keep_relative(self, *, dry_run: bool = False) -> int:
        """Make absolute locations of all versions relative to their roots; returns how many were changed."""
        changed, last = 0, LocationRow("", "", 0, "")
        while page := self.read(partial(_absolute_locations, last)):
            moves = [(*at, kept) for at in page if (kept := self.roots().kept(at.location)) != at.location]
            if moves and not dry_run:
                self._do(lambda tx, moves=moves: tx.run("locations_put", changes=compact(moves)))  # type: ignore[misc]
            changed, last = changed + len(moves), page[-1]
        return changed

    def environment(self) -> str | None:
        """The environment that this store is stamped for, if any."""
        environment: str | None = self.read(lambda tx: tx.value("meta_get", name="environment"))
        return environment

    def stamp(self, environment: str) -> None:
        """Stamp this store for an environment; other environments are refused from then on."""
        self.check_environment(environment)
        if self.environment() is None:
            self._do(lambda tx: tx.run("meta_put", name="environment", value=environment))

    def applied(self) -> str | None:
        """The digest of the definitions that `odf apply` stored last, if any."""
        digest: str | None = self.read(lambda tx: tx.value("meta_get", name="applied"))
        return digest

    def check_environment(self, environment: str) -> None:
        """Raise InvalidPath if this store is stamped for another environment."""
        refuse_other_environment(self.environment(), environment)

    @property
    def journal_reason(self) -> str:
        """Why SQLite does not use a write-ahead log here; empty if it does."""
        return self._backend.journal_reason

    def database(self) -> str:
        """The name and version of the database."""
        return self._backend.database

    def damage(self) -> list[str]:
        """The problems that the database's own integrity check finds."""
        return self._with_retries(self._backend.damage)

    def is_write_locked(self) -> bool:
        """Whether another process blocks all writers of this store now."""
        with self._lock:
            return self._backend.is_write_locked()

    def open_schemas(self) -> list[str]:
        """The schemas, of the store's and public, in which every role may create functions."""
        return self._with_retries(self._backend.open_schemas)

    def back_up(self, path: Path) -> None:
        """Copy a snapshot of the whole store into a new file without blocking workers."""
        self._with_retries(lambda: self._backend.back_up(path))

    def export(self, path: Path) -> None:
        """Write a snapshot of everything in the store into a file."""

        from .transfer import export

        def work(tx: Transaction) -> None:
            with path.open("w", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in export.dump(tx, self._schema()))

        self._do(work, reading=True)

    def load(self, path: Path, *, dry_run: bool = False) -> dict[str, int]:
        """Load an exported file into this store, which must be new; returns the number of rows by table."""

        from .transfer import export

        def work(tx: Transaction) -> dict[str, int]:
            with path.open(encoding="utf-8") as file, _as_file_error():
                return export.load(tx, file, self._schema())

        counts = self._do_or_dry_run(work, dry_run)
        self._drop_cache()
        return counts

    def load_original(self, found: dict[str, list[dict[str, Any]]], *, dry_run: bool = False) -> Imported:
        """Load the rows of the Java original into this store, which must be new; reports rows that do not fit."""
        from .transfer import export, original

        def work(tx: Transaction) -> Imported:
            export.refuse_used(tx)
            with _as_file_error():
                return original.put(tx, found)

        return self._do_or_dry_run(work, dry_run)

    def _schema(self) -> int:
        return migrate.SCHEMA

    def register(
        self,
        datasets: Iterable[Dataset] = (),
        jobs: Iterable[Job] = (),
        pools: Iterable[Pool] = (),
        *,
        prune: bool = False,
        dry_run: bool = False,
        applied: AppliedProject | None = None,
    ) -> list[Change]:
        """Register definitions in one transaction; unchanged ones are left alone. prune removes all others.

        `applied` describes the project that they are from: jobs that it applied before and no longer declares are retired.
        """
        datasets, jobs, pools = list(datasets), list(jobs), list(pools)

        def work(tx: Transaction) -> list[Change]:
            catalogue = self._locked_catalogue(tx)
            retired = definitions.no_longer_declared(tx, applied, jobs) if applied is not None else ()
            wanted, changes = definitions.plan(catalogue, datasets, jobs, pools, retired=retired, prune=prune)
            if not dry_run:
                definitions.write(tx, catalogue, wanted, changes)
            if applied is not None and not dry_run:
                definitions.remember_applied(tx, applied, jobs)
            return changes

        return self._do_or_dry_run(work, dry_run)

    def unapplied(
        self, datasets: Iterable[Dataset], jobs: Iterable[Job], pools: Iterable[Pool], applied: AppliedProject
    ) -> list[Change]:
        """The differences between a project's definitions and the store; none if they are what was applied last."""
        if self.applied() == applied.digest:
            return []
        datasets, jobs, pools = list(datasets), list(jobs), list(pools)

        def work(tx: Transaction) -> list[Change]:
            retired = definitions.no_longer_declared(tx, applied, jobs)
            stored = self.catalogue_in(tx)
            return definitions.plan(stored, datasets, jobs, pools, retired=retired & set(stored.jobs))[1]

        return self._do(work, reading=True)

    def drop_pool(self, poolid: str, *, dry_run: bool = False) -> Pool:
        """Remove a pool that no job uses; returns the pool."""

        def work(tx: Transaction) -> Pool:
            catalogue = self._locked_catalogue(tx)
            pool = catalogue.pool(poolid)
            users = sorted(job.jobid for job in catalogue.jobs.values() if job.pool == poolid)
            if users:
                raise BadDefinition(
                    f"pool {poolid} is in use by {', '.join(users)}",
                    hint="Give the jobs another pool first, or lift its limit: odf pool set " + poolid + " unlimited",
                )
            tx.run("pool_drop", poolid=poolid)
            return pool

        return self._do_or_dry_run(work, dry_run)

    def sql(self, statement: str, *, timeout: float = 60.0, as_superuser: bool = True) -> tuple[list[str], list[Row]]:
        """Run a read-only statement; returns column names and rows. It is ended after `timeout` seconds.

        Without as_superuser, superusers of the server are refused: read-only transactions do not bind them.
        """
        with self._lock, _as_statement_error():
            return self._with_retries(
                lambda: self._backend.select(statement, timeout=timeout, as_superuser=as_superuser)
            )

    def dml(self, statement: str, *, dry_run: bool = False) -> int:
        """Run a statement that may write; returns the number of changed rows. The next claim folds its changes in."""
        with self._lock:
            self._do(lambda tx: None)  # refuses the store of another environment
            try:
                with _as_statement_error():
                    return self._with_retries(lambda: self._backend.execute(statement, dry_run=dry_run))
            except UsageError as refused:
                raise _constraint_error(refused) from None


def _constraint_error(refused: UsageError) -> OdfError:
    """The named error for a violated constraint."""
    message = refused.message
    if "known_status" in message:  # the constraint's name in both databases
        hint = f"The statuses are: {statuses()}."
        return UnknownStatus("the statement writes a status that does not exist", hint=hint)
    if "job.datasetid" in message or "one_producer" in message:
        return TwoProducers("two jobs would write the same dataset", hint="See who writes it: odf datasets")
    return refused
