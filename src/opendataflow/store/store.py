"""Store: one object whose methods are the verbs of the protocol. All logic is written once, above both databases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BadDefinition, OdfError, TwoProducers, UnknownStatus, UsageError
from ..model import Dataset, Job, Pool
from ..model.status import statuses
from . import definitions, migrations, transfer
from .backend import Migration, Row, Transaction, Unreadable
from .figures import Figures
from .lineage import Lineage
from .looking import Looking
from .notices import Notices
from .past import Pages
from .period import Periods
from .reading import Reading
from .records import Applied, Change
from .recovery import Recovery
from .rows import LocationRow, compact
from .run_verbs import RunVerbs
from .session import refuse_other_environment
from .sheets import Sheets
from .soundness import Soundness
from .steer_verbs import SteerVerbs
from .then import Then

if TYPE_CHECKING:
    from .original import Imported

_PAGE = 10_000


@contextmanager
def _refusing() -> Iterator[None]:
    """Whatever is wrong in somebody's file, down to what the database says of a value, is that file's fault."""
    try:
        yield
    except OdfError:
        raise
    except Exception as error:
        told = next(iter(str(error).splitlines()), "")
        raise UsageError(
            f"this file cannot be imported: {type(error).__name__}: {told[:200]}",
            hint="Nothing was changed. Write the file again, and do not edit it.",
        ) from None


@contextmanager
def _persons_own() -> Iterator[None]:
    """What the database refuses of a statement that somebody typed is that statement's fault, and no row's."""
    try:
        yield
    except Unreadable as refused:
        raise UsageError(f"the store refused it: {refused.problem}") from None


class Store(
    RunVerbs,
    SteerVerbs,
    Reading,
    Looking,
    Lineage,
    Then,
    Pages,
    Periods,
    Figures,
    Notices,
    Recovery,
    Sheets,
    Soundness,
):
    """The state of all chunks: status, lock, lineage and history in one place.

    Safe to share between threads; each call is one short transaction.
    """

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Schema and environment --------------------------------------------------------------------------------------

    def migrate(self, *, dry_run: bool = False) -> list[Migration]:
        """Bring the tables up to date; returns the migrations that were (or would be) applied."""
        with self._lock:
            if self._patiently(self._backend.has_schema) and not dry_run:
                self._do(lambda tx: None)  # not the tables of another environment
            step = migrations.pending if dry_run else migrations.migrate
            steps = self._patiently(lambda: step(self._backend))
            if not steps:
                self._patiently(lambda: migrations.refuse_missing(self._backend))
            return steps

    def create(self) -> None:
        """Make the tables that are missing, before anything is known about the store."""
        self._patiently(lambda: migrations.migrate(self._backend))

    def check_schema(self) -> None:
        """Refuse a store whose schema is not exactly the one this program works with."""
        self._patiently(lambda: migrations.check(self._backend))

    def missing(self) -> list[str]:
        """The tables, columns and views that somebody took from the store."""
        with self._lock:
            return self._patiently(lambda: migrations.missing(self._backend))

    def keep_relative(self, *, dry_run: bool = False) -> int:
        """Keep the locations of all versions relative to the roots that they lie in; returns how many were not."""
        changed, last = 0, LocationRow("", "", 0, "")
        while page := self._fetch(LocationRow._make, "locations_absolute_page", **last.key, n=_PAGE):
            moves = [(*at, kept) for at in page if (kept := self.roots().kept(at.location)) != at.location]
            if moves and not dry_run:
                self._do(lambda tx, moves=moves: tx.run("locations_put", changes=compact(moves)))  # type: ignore[misc]
            changed, last = changed + len(moves), page[-1]
        return changed

    def environment(self) -> str | None:
        """The environment that this store belongs to, if it was stamped."""
        environment: str | None = self._value("meta_get", name="environment")
        return environment

    def stamp(self, environment: str) -> None:
        """Say to which environment this store belongs; another one is refused from then on."""
        self.check_environment(environment)
        if self.environment() is None:
            self._do(lambda tx: tx.run("meta_put", name="environment", value=environment))

    def applied(self) -> str | None:
        """The digest of the definitions that `odf apply` stored last, if it ever did."""
        digest: str | None = self._value("meta_get", name="applied")
        return digest

    def check_environment(self, environment: str) -> None:
        """InvalidPath when this store was stamped for another environment."""
        refuse_other_environment(self.environment(), environment)

    @property
    def journal_reason(self) -> str:
        """Why SQLite keeps no write-ahead log here, where it is not safe; empty where there is nothing to say."""
        return self._backend.journal_reason

    def database(self) -> str:
        """What the database calls itself, with its version."""
        return self._backend.database

    def damage(self) -> list[str]:
        """What the database itself finds wrong with its files."""
        return self._patiently(self._backend.damage)

    def open_schemas(self) -> list[str]:
        """The schemas near the store's in which every role of the server may create functions."""
        return self._patiently(self._backend.open_schemas)

    def back_up(self, path: Path) -> None:
        """Copy the whole store into a new file, as it is at one moment, while workers work."""
        self._patiently(lambda: self._backend.back_up(path))

    def export(self, path: Path) -> None:
        """Write everything that the store holds into a file, as it is at one moment."""

        def work(tx: Transaction) -> None:
            with path.open("w", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in transfer.dump(tx, self._schema()))

        self._do(work, reading=True)

    def load(self, path: Path, *, dry_run: bool = False) -> dict[str, int]:
        """Fill this store, which must be new, with what such a file holds; the number of rows by table."""

        def work(tx: Transaction) -> dict[str, int]:
            with path.open(encoding="utf-8") as file, _refusing():
                return transfer.load(tx, file, self._schema())

        counts = self._do_or_try(work, dry_run)
        self._forget()
        return counts

    def load_original(self, found: dict[str, list[dict[str, Any]]], *, dry_run: bool = False) -> Imported:
        """Fill this store, which must be new, with the rows of the Java original; what does not fit is left out and named."""
        from . import original

        def work(tx: Transaction) -> Imported:
            transfer.refuse_used(tx)
            with _refusing():
                return original.put(tx, found)

        return self._do_or_try(work, dry_run)

    def _schema(self) -> int:
        return migrations.carried(self._backend.dialect)[-1].number

    # Definitions -------------------------------------------------------------------------------------------------

    def register(
        self,
        datasets: Iterable[Dataset] = (),
        jobs: Iterable[Job] = (),
        pools: Iterable[Pool] = (),
        *,
        prune: bool = False,
        dry_run: bool = False,
        applied: Applied | None = None,
    ) -> list[Change]:
        """Register definitions in one transaction; what is the same already is left alone. prune removes all others.

        applied says that they are those of a whole project: a job that it applied before and no longer has is retired.
        """
        datasets, jobs, pools = list(datasets), list(jobs), list(pools)

        def work(tx: Transaction) -> list[Change]:
            catalogue = self._known(tx)
            retired = definitions.no_longer_declared(tx, applied, jobs) if applied is not None else ()
            wanted, changes = definitions.planned(catalogue, datasets, jobs, pools, retired=retired, prune=prune)
            if not dry_run:
                definitions.write(tx, catalogue, wanted, changes)
            if applied is not None and not dry_run:
                definitions.remember_applied(tx, applied, jobs)
            return changes

        return self._do_or_try(work, dry_run)

    def unapplied(
        self, datasets: Iterable[Dataset], jobs: Iterable[Job], pools: Iterable[Pool], applied: Applied
    ) -> list[Change]:
        """How the definitions of a project differ from the store; none where they are what was applied last."""
        if self.applied() == applied.digest:
            return []
        datasets, jobs, pools = list(datasets), list(jobs), list(pools)

        def work(tx: Transaction) -> list[Change]:
            retired = definitions.no_longer_declared(tx, applied, jobs)
            stored = self._seen(tx)
            return definitions.planned(stored, datasets, jobs, pools, retired=retired & set(stored.jobs))[1]

        return self._do(work, reading=True)

    def drop_pool(self, poolid: str, *, dry_run: bool = False) -> Pool:
        """Forget a pool that no job runs in; returns what it was."""

        def work(tx: Transaction) -> Pool:
            catalogue = self._known(tx)
            pool = catalogue.pool(poolid)
            users = sorted(job.jobid for job in catalogue.jobs.values() if job.pool == poolid)
            if users:
                raise BadDefinition(
                    f"pool {poolid} is in use by {', '.join(users)}",
                    hint="Give the jobs another pool first, or lift its limit: odf pool set " + poolid + " unlimited",
                )
            tx.run("pool_drop", poolid=poolid)
            return pool

        return self._do_or_try(work, dry_run)

    # A person's own SQL ------------------------------------------------------------------------------------------

    def sql(self, statement: str, *, timeout: float = 60.0, as_superuser: bool = True) -> tuple[list[str], list[Row]]:
        """A read-only statement: column names and rows. It is ended after so many seconds.

        Without as_superuser a superuser of the server is refused: what is read-only for others is not for one.
        """
        with self._lock, _persons_own():
            return self._patiently(lambda: self._backend.select(statement, timeout=timeout, as_superuser=as_superuser))

    def dml(self, statement: str, *, dry_run: bool = False) -> int:
        """A statement that may write; the next claim acts on what it changed. Number of rows changed; dry_run undoes it."""
        with self._lock:
            self._do(lambda tx: None)  # not in the store of another environment
            try:
                with _persons_own():
                    return self._patiently(lambda: self._backend.execute(statement, dry_run=dry_run))
            except UsageError as refused:
                raise _by_name(refused) from None


def _by_name(refused: UsageError) -> OdfError:
    """What a constraint of the tables refused, in our own words."""
    told = refused.message
    if "known_status" in told:  # the name of the constraint, on both databases
        hint = f"The statuses are: {statuses()}."
        return UnknownStatus("the statement writes a status that does not exist", hint=hint)
    if "job.datasetid" in told or "one_producer" in told:
        return TwoProducers("two jobs would write the same dataset", hint="See who writes it: odf datasets")
    return refused
