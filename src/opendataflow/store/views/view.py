"""What every view has: its store, and named queries in read-only transactions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..drivers.base import Row, Transaction
from ..session import Session

_T = TypeVar("_T")


class View:
    """Read-only queries of one store."""

    def __init__(self, store: Session) -> None:
        self._store = store

    def _read(self, work: Callable[[Transaction], _T]) -> _T:
        return self._store.read(work)

    def _fetch(self, make: Callable[[Row], _T], query: str, /, **parameters: Any) -> list[_T]:
        return self._store.read(lambda tx: tx.fetch(make, query, **parameters))

    def _first(self, make: Callable[[Row], _T], query: str, /, **parameters: Any) -> _T | None:
        return self._store.read(lambda tx: tx.first(make, query, **parameters))

    def _values(self, query: str, /, **parameters: Any) -> list[Any]:
        return self._store.read(lambda tx: tx.values(query, **parameters))

    def _value(self, query: str, /, **parameters: Any) -> Any:
        return self._store.read(lambda tx: tx.value(query, **parameters))
