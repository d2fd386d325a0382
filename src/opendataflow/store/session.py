"""Run transactions exactly once over one connection, reconnect after failures, and cache the catalogue."""

from __future__ import annotations

import os
import pwd
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self, TypeVar

from .. import faults
from ..errors import InvalidPath, StoreUnreachable
from ..model import Catalogue, Job
from ..model.roots import Roots
from ..pause import pause
from .drivers.base import Backend, ConnectionLost, Retry, Transaction
from .engine import candidates, catalogue_loading, definitions
from .records import Published

_T = TypeVar("_T")
_ENDING_PATIENCE = 5.0  # patience with an unreachable or silent store after end_soon()
_WATCH_INTERVAL = 0.2
_MIN_RETRIES = 100  # lost races in a row before the time limit (`patience`) applies


class _Undone(Exception):
    """Rolls back a dry run and carries its result."""

    def __init__(self, what: Any) -> None:
        super().__init__()
        self.what = what


def whoami() -> str:
    """The current process in the history: user@host:pid."""
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = str(os.getuid())
    return f"{user}@{os.uname().nodename}:{os.getpid()}"


def refuse_other_environment(stamp: str | None, environment: str | None) -> None:
    """Raise InvalidPath if a store is stamped for another environment."""
    if stamp is not None and environment is not None and stamp != environment:
        raise InvalidPath(
            f"this store belongs to environment {stamp}, not {environment}",
            hint="Select the environment of the store: --env",
        )


class Reconnecting:
    """Backoff while the store is unreachable: first no delay, then longer ones with a message to the user."""

    def __init__(self, say: Callable[[str], None], url: str) -> None:
        self._say, self._url = say, url
        self._since = self._pause = 0.0

    def wait_or_raise(self, problem: Exception, patience: float) -> None:
        """Wait before the next attempt; raise StoreUnreachable after `patience` seconds."""
        if not self._since:
            self._since = time.monotonic()
            return
        if time.monotonic() - self._since > patience:
            raise (
                problem
                if isinstance(problem, StoreUnreachable)
                else StoreUnreachable(
                    f"the store {self._url} breaks every connection: {problem}", hint="See the log of the server."
                )
            ) from problem
        if not self._pause:
            self._say(f"waiting for the store: {str(problem).partition(chr(10))[0]}")
            self._pause = 0.05
        pause(self._pause)
        self._pause = min(self._pause * 2, 2.0)

    def report_back(self) -> None:
        """Report that the connection is back."""
        if self._pause:
            self._say(f"the store {self._url} is back after {time.monotonic() - self._since:.1f} s")


class Session:
    """One connection to one store, safe to share between threads; every call is one short transaction."""

    def __init__(
        self,
        backend: Backend,
        *,
        who: str | None = None,
        patience: float = 60.0,
        say: Callable[[str], None] | None = None,
        environment: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._backend = backend
        self._lock = threading.RLock()
        self._who = who or whoami()
        self.patience = patience  # seconds to wait for an unreachable store; end_soon() lowers it
        self._say = say or (lambda message: None)
        self._environment = environment
        self.roots: Callable[[], Roots] = Roots  # set by the caller that knows the project's roots
        self.redact: Callable[[str], str] | None = None  # removes known secrets from stored text
        # Set by the caller that knows the project: whether the current definition of a job is trusted.
        self.is_trusted: Callable[[Catalogue, Job], bool] = lambda catalogue, job: False
        self._stamp_checked = False  # whether the store's stamp was compared with the environment
        self._catalogue: Catalogue | None = None
        self._revision = ""
        self._recorded_revision = ""  # the revision for which broken jobs were last recorded
        self._cache_uncommitted = (
            False  # whether the current write transaction loaded definitions or recorded broken jobs
        )
        self._identity = ""
        self._clock = time.time  # decides which periods of a calendar are over
        self._snapshot: Transaction | None = None  # the open snapshot of at_once()
        self._looks = threading.local()  # what is pending for the look of each thread
        self._busy_since = 0.0  # when the current call of the database began; 0 for none
        self._is_watching = False

    @property
    def who(self) -> str:
        """The name that the history gives to what this process does."""
        return self._who

    @property
    def url(self) -> str:
        """The address, without a password."""
        return self._backend.shown_url

    @contextmanager
    def acting_as(self, who: str) -> Iterator[None]:
        """Record another person in the history for everything done inside."""
        with self._lock:
            before, self._who = self._who, who
            try:
                yield
            finally:
                self._who = before

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._is_watching = False
            self._backend.close()

    def end_soon(self) -> None:
        """Lower the patience, and interrupt calls of the database that do not return in time."""
        self.patience = min(self.patience, _ENDING_PATIENCE)
        if not self._is_watching:
            self._is_watching = True
            threading.Thread(target=self._watch, name="store-watch", daemon=True).start()

    def _watch(self) -> None:
        while self._is_watching:
            if self._busy_since and time.monotonic() - self._busy_since > self.patience:
                self._backend.interrupt(self.patience)
                self._busy_since = time.monotonic()
            pause(_WATCH_INTERVAL)

    @contextmanager
    def _watchdog_suspended(self) -> Iterator[None]:
        """Suspend the stall watchdog inside a transaction."""
        self._busy_since = 0.0
        try:
            yield
        finally:
            self._busy_since = time.monotonic()

    def new_connection(self) -> Self:
        """The same store over a new connection, for another thread; self if no connection is available."""
        try:
            backend = self._backend.another()
        except StoreUnreachable:
            return self
        if backend is None:
            return self
        other = type(self)(backend, who=self._who, patience=self.patience, say=self._say, environment=self._environment)
        other.roots, other.redact, other.is_trusted = self.roots, self.redact, self.is_trusted
        return other

    def _do(
        self,
        work: Callable[[Transaction], _T],
        *,
        reading: bool = False,
        is_committed: Callable[[Transaction, _T], bool] | None = None,
        step: str = "transaction",
    ) -> _T:
        """Run one transaction; is_committed checks its result if the connection broke during the commit.

        `step` names the transaction for fault injection.
        """

        with self._lock:
            if reading and self._snapshot is not None:
                return work(self._as_pending(self._snapshot))
            return self._with_retries(
                lambda: self._once(work, reading, step),
                lambda answer: is_committed is None or self._do(lambda tx: is_committed(tx, answer), reading=True),
            )

    def _once(self, work: Callable[[Transaction], _T], reading: bool, step: str) -> _T:
        answer: _T | None = None
        if reading:
            step = "look"
        else:
            self._cache_uncommitted = False
        faults.point("before", step)
        try:
            with self._backend.reading() if reading else self._backend.writing() as transaction:
                transaction.redact = self.redact
                if not (reading or self._stamp_checked):
                    self._compare_stamp(transaction)
                answer = work(self._as_pending(transaction) if reading else transaction)
                faults.point("in", step)
        except BaseException as error:
            if isinstance(error, ConnectionLost):
                error.answer = answer
            if self._cache_uncommitted and not reading:
                self._drop_cache()  # the cache may hold what was rolled back
            raise
        faults.point("after", step)
        return answer

    def _do_or_dry_run(self, work: Callable[[Transaction], _T], dry_run: bool, step: str = "transaction") -> _T:
        """Run a write transaction; a dry run is rolled back, including what was folded in."""
        if not dry_run:
            return self._do(work, step=step)

        def tried(tx: Transaction) -> _T:
            raise _Undone(work(tx))

        try:
            return self._do(tried)
        except _Undone as undone:
            what: _T = undone.what
            return what

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Read everything inside from one snapshot; writing is not possible inside."""
        with self._lock:
            if self._snapshot is not None:
                yield
                return
            try:
                with self._backend.reading() as self._snapshot:
                    yield
            except Retry:
                pass  # the file was replaced: the next call opens the new one
            except ConnectionLost as lost:
                raise StoreUnreachable(
                    f"the store {self.url} broke the connection: {lost}", hint="Try again."
                ) from lost
            finally:
                self._snapshot = None

    def _as_pending(self, tx: Transaction) -> Transaction:
        """Inside a look of this thread, a transaction that answers as after the next fold."""
        pending: Any = getattr(self._looks, "pending", None)
        looked: Transaction = tx if pending is None else pending.over(tx)
        return looked

    def _with_retries(self, act: Callable[[], _T], confirm: Callable[[_T], bool] = lambda answer: True) -> _T:
        """Run an action on the database exactly once; all access goes through here.

        Lost races are retried. After a broken connection it reconnects and, if the connection broke during a commit, asks the
        server whether the transaction was committed. A crashed server may reuse a transaction id, so `confirm` checks the
        result as well.
        """
        with self._lock:
            waiting: Reconnecting | None = None
            delay, lost_races, first_lost = 0.001, 0, 0.0
            while True:
                self._busy_since = time.monotonic()
                try:
                    answer = act()
                except Retry as lost_race:
                    lost_races += 1
                    first_lost = first_lost or time.monotonic()
                    if lost_races > _MIN_RETRIES and time.monotonic() - first_lost > self.patience:
                        raise StoreUnreachable(
                            f"the store {self.url} is too busy: {lost_races} transactions in a row"
                            " lost a race with other writers",
                            hint="Nothing was changed. Try again; if the error persists, look for a process that hangs.",
                        ) from lost_race
                    pause(delay)
                    delay = min(2 * delay, 0.1)
                    continue
                except ConnectionLost as lost:
                    waiting = waiting or Reconnecting(self._say, self.url)
                    if not (self._reconnected(lost, waiting) and confirm(lost.answer)):
                        self._drop_cache()
                        continue
                    answer = lost.answer
                finally:
                    self._busy_since = 0.0
                if waiting is not None:
                    waiting.report_back()
                return answer

    def _reconnected(self, lost: ConnectionLost, waiting: Reconnecting) -> bool:
        """Wait for the store and reconnect; returns whether the interrupted transaction was committed."""
        problem: Exception = lost
        while True:
            self._busy_since = 0.0
            waiting.wait_or_raise(problem, self.patience)
            self._busy_since = time.monotonic()
            try:
                self._backend.reconnect()
                return bool(lost.transaction) and self._backend.was_committed(lost.transaction)
            except (StoreUnreachable, ConnectionLost) as error:
                problem = error

    def _compare_stamp(self, tx: Transaction) -> None:
        """Refuse to write into the store of another environment; checked until the store is stamped, since a stamp is permanent."""
        environment = self._environment()
        stamp = tx.value("meta_get", name="environment") if environment is not None else None
        refuse_other_environment(stamp, environment)
        self._stamp_checked = environment is None or stamp is not None

    def read(self, work: Callable[[Transaction], _T]) -> _T:
        """Run a read-only transaction."""
        return self._do(work, reading=True)

    def write(self, work: Callable[[Transaction], _T]) -> _T:
        """Run a transaction that may write."""
        return self._do(work)

    def identity(self) -> str:
        """What tells this store from every other, however its address is spelled."""
        if not self._identity:
            self._identity = str(self.read(lambda tx: tx.value("meta_get", name="identity")) or self.url)
        return self._identity

    def catalogue(self) -> Catalogue:
        """All registered datasets, jobs and pools; reloaded if the revision changed."""
        return self._do(self.catalogue_in, reading=True)

    def located(self, published: Published) -> Published:
        """A version with the absolute location of its manifest."""
        found = self.roots().located(published.manifest, lambda: self.known.datasets.get(published.datasetid))
        return published._replace(manifest=found)

    @property
    def known(self) -> Catalogue:
        """The catalogue of the last claim or commit, without a query."""
        return self._catalogue or self.catalogue()

    def catalogue_in(self, tx: Transaction) -> Catalogue:
        """The current catalogue, in a read-only transaction."""
        revision = tx.send("revision")
        if self._catalogue is None or revision()[0][0] != self._revision:
            catalogue = catalogue_loading.load(tx)
            if catalogue.implicit:
                return catalogue  # the next write transaction stores them
            self._catalogue, self._revision = catalogue, revision()[0][0]
        return self._catalogue

    def _cached_catalogue(self, tx: Transaction) -> tuple[Catalogue, Callable[[], None]]:
        """The cached catalogue, and a function that raises Retry if it is outdated.

        This saves waiting for the revision before the next query is sent.
        """
        cached = self._catalogue
        if cached is None or cached.broken or cached.implicit:
            return self._locked_catalogue(tx), lambda: None
        tx.lock("lock_definitions")
        revision = tx.send("revision")

        def confirm() -> None:
            if revision()[0][0] != self._revision:
                self._drop_cache()
                raise Retry

        return cached, confirm

    def _locked_catalogue(self, tx: Transaction) -> Catalogue:
        """The current catalogue, locked until this transaction ends."""
        tx.lock("lock_definitions")
        revision = tx.value("revision")
        if self._catalogue is None or revision != self._revision:
            self._cache_uncommitted = True
            self._catalogue = catalogue_loading.load(tx)
            if self._catalogue.implicit and tx.value("may_define"):
                definitions.store_implicit(tx, self._catalogue)
                self._catalogue = self._catalogue._replace(implicit=())
                revision = tx.value("revision")
            self._revision = revision
        if revision != self._recorded_revision:
            self._cache_uncommitted = True
            candidates.record_broken_jobs(tx, self._catalogue)
            self._recorded_revision = revision
        return self._catalogue

    def _drop_cache(self) -> None:
        """Drop the cached catalogue."""
        self._catalogue, self._revision, self._recorded_revision = None, "", ""
