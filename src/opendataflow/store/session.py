"""Session: transactions that happen exactly once, a connection that comes back, and the catalogue."""

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
from ..model import Catalogue
from ..model.roots import Roots
from ..pause import pause
from . import candidates, definitions, loading
from .backend import Backend, ConnectionLost, Retry, Row, Transaction

_T = TypeVar("_T")
_LAST_PATIENCE = 5.0  # with a store that is away or says nothing, once somebody wants an end
_LOOK = 0.2
_FEWEST_RACES = 100  # lost in a row, before patience counts


class _Undone(Exception):
    """A transaction that was only tried."""

    def __init__(self, what: Any) -> None:
        super().__init__()
        self.what = what


def whoami() -> str:
    """Who acts, for the history: user@host:pid."""
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = str(os.getuid())
    return f"{user}@{os.uname().nodename}:{os.getpid()}"


def refuse_other_environment(stamp: str | None, environment: str | None) -> None:
    """InvalidPath when a store was stamped for another environment than this one."""
    if stamp is not None and environment is not None and stamp != environment:
        raise InvalidPath(
            f"this store belongs to environment {stamp}, not {environment}",
            hint="Choose the store of the environment, or the environment of the store: --env",
        )


class Waiting:
    """For a store that went away: at first not at all, then longer each time, and somebody is told."""

    def __init__(self, say: Callable[[str], None], url: str) -> None:
        self._say, self._url = say, url
        self._since = self._pause = 0.0

    def for_it(self, problem: Exception, patience: float) -> None:
        """Wait a little; the problem becomes an error of ours when patience is over."""
        if not self._since:
            self._since = time.monotonic()
            return
        if time.monotonic() - self._since > patience:
            raise (
                problem
                if isinstance(problem, StoreUnreachable)
                else StoreUnreachable(
                    f"the store {self._url} breaks every connection: {problem}", hint="Look into the log of the server."
                )
            ) from problem
        if not self._pause:
            self._say(f"waiting for the store: {str(problem).partition(chr(10))[0]}")
            self._pause = 0.05
        pause(self._pause)
        self._pause = min(self._pause * 2, 2.0)

    def is_over(self) -> None:
        """It is back."""
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
        self.patience = patience  # how long a store that went away is waited for; whoever gives up lowers it
        self._say = say or (lambda message: None)
        self._environment = environment
        self.roots: Callable[[], Roots] = Roots  # whoever knows the project says what locations are kept relative to
        self.redact: Callable[[str], str] | None = None  # keeps known secrets out of what is stored
        self._is_ours = False  # whether the store's stamp was compared with our environment
        self._catalogue: Catalogue | None = None
        self._revision = ""
        self._caught_up = ""  # the revision at which what a broken definition kept back was last caught up on
        self._has_learned = False  # whether the transaction that writes now loaded definitions, or caught up
        self._identity = ""
        self._open: Transaction | None = None  # in which everything is read, until it is undone
        self._asked = 0.0  # since when an answer of the database is waited for; 0 when none is
        self._is_ending = False

    @property
    def url(self) -> str:
        """The address, without a password."""
        return self._backend.shown_url

    @contextmanager
    def acting_as(self, who: str) -> Iterator[None]:
        """What is done inside is done by somebody else than this process: the history names him."""
        with self._lock:
            before, self._who = self._who, who
            try:
                yield
            finally:
                self._who = before

    def close(self) -> None:
        """Give the connection back."""
        with self._lock:
            self._is_ending = False
            self._backend.close()

    def end_soon(self) -> None:
        """Whoever uses this store wants an end: one that is away, or accepts questions and does not answer, is given up soon."""
        self.patience = min(self.patience, _LAST_PATIENCE)
        if not self._is_ending:
            self._is_ending = True
            threading.Thread(target=self._watch, name="store-watch", daemon=True).start()

    def _watch(self) -> None:
        while self._is_ending:
            if self._asked and time.monotonic() - self._asked > self.patience:
                self._backend.interrupt(self.patience)
                self._asked = time.monotonic()
            pause(_LOOK)

    @contextmanager
    def _asking_nobody(self) -> Iterator[None]:
        """Inside a transaction: what takes long now is not the database."""
        self._asked = 0.0
        try:
            yield
        finally:
            self._asked = time.monotonic()

    def beside(self) -> Self:
        """The same store over a connection of its own, for another thread; the same where there is none to be had."""
        try:
            backend = self._backend.another()
        except StoreUnreachable:
            return self
        if backend is None:
            return self
        other = type(self)(backend, who=self._who, patience=self.patience, say=self._say, environment=self._environment)
        other.roots, other.redact = self.roots, self.redact
        return other

    # Transactions ------------------------------------------------------------------------------------------------

    def _do(
        self,
        work: Callable[[Transaction], _T],
        *,
        reading: bool = False,
        is_so: Callable[[Transaction, _T], bool] | None = None,
        step: str = "transaction",
    ) -> _T:
        """Run one transaction; is_so looks whether the store is as a commit that was not answered would have made it.

        step is what a test calls it that breaks it.
        """

        with self._lock:
            if reading and self._open is not None:
                return work(self._open)
            return self._patiently(
                lambda: self._once(work, reading, step),
                lambda answer: is_so is None or self._do(lambda tx: is_so(tx, answer), reading=True),
            )

    def _once(self, work: Callable[[Transaction], _T], reading: bool, step: str) -> _T:
        answer: _T | None = None
        if reading:
            step = "look"
        else:
            self._has_learned = False
        faults.point("before", step)
        try:
            with self._backend.reading() if reading else self._backend.writing() as transaction:
                transaction.redact = self.redact
                if not (reading or self._is_ours):
                    self._compare_stamp(transaction)
                answer = work(transaction)
                faults.point("in", step)
        except BaseException as error:
            if isinstance(error, ConnectionLost):
                error.answer = answer
            if self._has_learned and not reading:
                self._forget()  # nobody wrote what it knows
            raise
        faults.point("after", step)
        return answer

    def _do_or_try(self, work: Callable[[Transaction], _T], dry_run: bool, step: str = "transaction") -> _T:
        """Run one transaction that writes; a dry run is undone, with whatever was folded in on the way."""
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
        """Everything that is read inside is of one moment, and costs one transaction; nothing can be written inside."""
        with self._lock:
            if self._open is not None:
                yield
                return
            try:
                with self._backend.reading() as self._open:
                    yield
            except Retry:
                pass  # somebody put another file in its place meanwhile: whoever looks next sees it
            except ConnectionLost as lost:
                raise StoreUnreachable(
                    f"the store {self.url} broke the connection: {lost}", hint="Look again."
                ) from lost
            finally:
                self._open = None

    def _patiently(self, act: Callable[[], _T], confirm: Callable[[_T], bool] = lambda answer: True) -> _T:
        """Do something with the database, exactly once: the only door to it.

        A lost race is run again. A broken connection is waited for; where it broke inside a commit, the server is asked
        whether that happened. A server that crashed may have given the number of a transaction that it forgot to another
        one: so what it says is confirmed by a look at what should be there.
        """
        with self._lock:
            waiting: Waiting | None = None
            rest, lost_races, first_lost = 0.001, 0, 0.0
            while True:
                self._asked = time.monotonic()
                try:
                    answer = act()
                except Retry as lost_race:
                    lost_races += 1
                    first_lost = first_lost or time.monotonic()
                    if lost_races > _FEWEST_RACES and time.monotonic() - first_lost > self.patience:
                        raise StoreUnreachable(
                            f"the store {self.url} is changed by others all the time: {lost_races} transactions in a row"
                            " had to begin again",
                            hint="Nothing was changed. Do it again; if it goes on, look for a process that hangs.",
                        ) from lost_race
                    pause(rest)
                    rest = min(2 * rest, 0.1)  # whoever was first may take a while
                    continue
                except ConnectionLost as lost:
                    waiting = waiting or Waiting(self._say, self.url)
                    if not (self._came_back(lost, waiting) and confirm(lost.answer)):
                        self._forget()
                        continue
                    answer = lost.answer
                finally:
                    self._asked = 0.0
                if waiting is not None:
                    waiting.is_over()
                return answer

    def _came_back(self, lost: ConnectionLost, waiting: Waiting) -> bool:
        """Wait for the store and connect again; whether the transaction that was cut off is committed all the same."""
        problem: Exception = lost
        while True:
            self._asked = 0.0
            waiting.for_it(problem, self.patience)
            self._asked = time.monotonic()
            try:
                self._backend.reconnect()
                return bool(lost.transaction) and self._backend.was_committed(lost.transaction)
            except (StoreUnreachable, ConnectionLost) as error:
                problem = error

    def _compare_stamp(self, tx: Transaction) -> None:
        """Refuse to write into the store of another environment; looked at until it has the stamp, which then stays."""
        environment = self._environment()
        stamp = tx.value("meta_get", name="environment") if environment is not None else None
        refuse_other_environment(stamp, environment)
        self._is_ours = environment is None or stamp is not None

    def _fetch(self, make: Callable[[Row], _T], query: str, /, **parameters: Any) -> list[_T]:
        """What one query says, in a transaction that only reads."""
        return self._do(lambda tx: tx.fetch(make, query, **parameters), reading=True)

    def _first(self, make: Callable[[Row], _T], query: str, /, **parameters: Any) -> _T | None:
        return self._do(lambda tx: tx.first(make, query, **parameters), reading=True)

    def _values(self, query: str, /, **parameters: Any) -> list[Any]:
        return self._do(lambda tx: tx.values(query, **parameters), reading=True)

    def _value(self, query: str, /, **parameters: Any) -> Any:
        return self._do(lambda tx: tx.value(query, **parameters), reading=True)

    # The catalogue -----------------------------------------------------------------------------------------------

    def catalogue(self) -> Catalogue:
        """All datasets, jobs and pools as they are registered now; loaded when they are not what they were."""
        return self._do(self._seen, reading=True)

    @property
    def known(self) -> Catalogue:
        """The catalogue that the last claim or commit went by; for whoever has just claimed."""
        return self._catalogue or self.catalogue()

    def _seen(self, tx: Transaction) -> Catalogue:
        """The catalogue as the store has it, in a transaction that only reads."""
        revision = tx.ask("revision")
        if self._catalogue is None or revision()[0][0] != self._revision:
            catalogue = loading.load(tx)
            if catalogue.implicit:
                return catalogue  # whoever writes next stores them
            self._catalogue, self._revision = catalogue, revision()[0][0]
        return self._catalogue

    def _presumed(self, tx: Transaction) -> tuple[Catalogue, Callable[[], None]]:
        """The catalogue as it was when somebody last looked, and a check that it still is: if not, all is done again.

        So that whoever asks for more need not wait for this answer first.
        """
        presumed = self._catalogue
        if presumed is None or presumed.broken or presumed.implicit:
            return self._known(tx), lambda: None
        tx.lock("lock_definitions")
        revision = tx.ask("revision")

        def confirm() -> None:
            if revision()[0][0] != self._revision:
                self._forget()
                raise Retry

        return presumed, confirm

    def _known(self, tx: Transaction) -> Catalogue:
        """The catalogue as the store has it and keeps it until this transaction ends."""
        tx.lock("lock_definitions")
        revision = tx.value("revision")
        if self._catalogue is None or revision != self._revision:
            self._has_learned = True
            self._catalogue = loading.load(tx)
            if self._catalogue.implicit and tx.value("may_define"):
                definitions.store_implicit(tx, self._catalogue)
                self._catalogue = self._catalogue._replace(implicit=())
                revision = tx.value("revision")
            self._revision = revision
        if revision != self._caught_up:
            self._has_learned = True
            candidates.catch_up(tx, self._catalogue)
            self._caught_up = revision
        return self._catalogue

    def _forget(self) -> None:
        """What is known of the definitions is looked at anew."""
        self._catalogue, self._revision, self._caught_up = None, "", ""
