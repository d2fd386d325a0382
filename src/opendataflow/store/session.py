"""Session: transactions that are run again when they lose a race, a connection that comes back, and the catalogue."""

from __future__ import annotations

import os
import pwd
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from ..errors import InvalidPath, StoreUnreachable
from ..model import Catalogue
from . import candidates, definitions, loading
from .backend import Backend, ConnectionLost, Retry, Row, Transaction

_T = TypeVar("_T")


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
        self._patience = patience
        self._say = say or (lambda message: None)
        self._environment = environment
        self._is_ours = False  # whether the store's stamp was compared with our environment
        self._catalogue: Catalogue | None = None
        self._revision = ""

    @property
    def url(self) -> str:
        """The address, without a password."""
        return self._backend.shown_url

    def close(self) -> None:
        """Give the connection back."""
        with self._lock:
            self._backend.close()

    # Transactions ------------------------------------------------------------------------------------------------

    def _do(self, work: Callable[[Transaction], _T], *, reading: bool = False) -> _T:
        """Run one transaction; lost races are run again, and a broken connection is waited for."""
        with self._lock:
            deadline = 0.0
            while True:
                try:
                    with self._backend.reading() if reading else self._backend.writing() as transaction:
                        if not reading and not self._is_ours:
                            self._compare_stamp(transaction)
                        return work(transaction)
                except Retry:
                    time.sleep(0.001)
                except ConnectionLost as error:
                    deadline = deadline or time.monotonic() + self._patience
                    self._reconnect(deadline, str(error))

    def _compare_stamp(self, tx: Transaction) -> None:
        """Refuse to write into the store of another environment; looked at until it has the stamp, which then stays."""
        environment = self._environment()
        stamp = tx.value("meta_get", name="environment") if environment is not None else None
        refuse_other_environment(stamp, environment)
        self._is_ours = environment is None or stamp is not None

    def _reconnect(self, deadline: float, why: str) -> None:
        wait = 0.05
        while True:
            try:
                self._backend.reconnect()
                return
            except StoreUnreachable:
                if time.monotonic() > deadline:
                    raise
                self._say(f"the store {self.url} does not answer ({why}); waiting")
                time.sleep(wait)
                wait = min(wait * 2, 2.0)

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
        revision = tx.value("revision")
        if self._catalogue is None or revision != self._revision:
            catalogue = loading.load(tx)
            if catalogue.implicit:
                return catalogue  # whoever writes next stores them
            self._catalogue, self._revision = catalogue, revision
        return self._catalogue

    def _known(self, tx: Transaction) -> Catalogue:
        """The catalogue as the store has it and keeps it until this transaction ends."""
        tx.lock("lock_definitions")
        revision = tx.value("revision")
        if self._catalogue is None or revision != self._revision:
            self._catalogue = loading.load(tx)
            if self._catalogue.implicit and tx.value("may_define"):
                definitions.store_implicit(tx, self._catalogue)
                self._catalogue = self._catalogue._replace(implicit=())
                revision = tx.value("revision")
            self._revision = revision
            candidates.catch_up(tx, self._catalogue)
        elif self._catalogue.broken:
            candidates.catch_up(tx, self._catalogue)  # what was written when it was loaded may have been undone
        return self._catalogue
