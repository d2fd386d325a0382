"""The past: the matrix and the list of chunks, as they were at a moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from ..store import Chunk, Store
from .flow import chosen
from .matrix import EVERYTHING, MatrixRow, Overview, chunk_list, overview, window
from .then import LOOKED_AT, TODAYS_DEFINITIONS, StoreAsOf, history_begins


def overview_then(store: Store, at: datetime, named: Sequence[str] = (), **how: Any) -> Overview:
    """The matrix as it was; it takes what `overview` takes."""
    then = _looked(store, at, named, **how)
    seen = overview(then, named, **how)
    blocks = [replace(block, lines=tuple(_cut(then, line) for line in block.lines)) for block in seen.blocks]
    return replace(seen, blocks=tuple(blocks), at=at, not_known=(*history_begins(store, at), *_left_out(then)))


def chunk_list_then(store: Store, at: datetime, named: Sequence[str] = (), **how: Any) -> list[Chunk]:
    """The chunks as they were; it takes what `chunk_list` takes."""
    return chunk_list(_looked(store, at, named, **how), named, **how)


def _looked(store: Store, at: datetime, named: Sequence[str], **how: Any) -> StoreAsOf:
    then = StoreAsOf(store, at, most=2**40 if how.get("exact") else LOOKED_AT)
    catalogue = then.catalogue()
    since, until = how.get("since"), how.get("until")
    names = chosen(catalogue, named)
    windows = {name: window(catalogue.dataset(name).partition, since, until) or EVERYTHING for name in names}
    then.look_at(windows)
    return then


def _cut(then: StoreAsOf, line: MatrixRow) -> MatrixRow:
    return replace(line, at_least=True) if line.datasetid in then.cut else line


def _left_out(then: StoreAsOf) -> tuple[str, ...]:
    told = [
        TODAYS_DEFINITIONS,
        "what was STALE, and remarks on what was published (WARNED), are not known for that time",
    ]
    if then.cut:
        told.append(
            f"of {', '.join(sorted(then.cut))} only the last chunks by then were looked at; choose others with --from and --to"
        )
    return tuple(told)
