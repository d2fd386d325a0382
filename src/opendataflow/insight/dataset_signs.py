"""Signs of a dataset: which of its chunks are missing, refused, stale or late, as the matrix marks them."""

from __future__ import annotations

from typing import NamedTuple

from ..errors import BadDataid
from ..model import Dataset, sort_key
from ..store import Store
from ..store.views import ChunkLine
from .absent import MISSING, REFUSED, absent
from .axis import FIRST_KEY, LAST_KEY
from .late import LATE, deadlines_missed
from .stale import STALE, stale_of_outputs

SIGNS = (MISSING, REFUSED, STALE, LATE)


class Sign(NamedTuple):
    """The chunks of a dataset with one sign: their dataids in order, and whether there may be more."""

    word: str
    dataids: tuple[str, ...]
    more: bool


def signs_of(store: Store, dataset: Dataset) -> dict[str, Sign]:
    """What the matrix marks beside the statuses; each bounded as it is there."""
    name, catalogue = dataset.datasetid, store.catalogue()
    known = absent(store.views, catalogue, {name: (FIRST_KEY, LAST_KEY)})[name]
    stale, are_all = stale_of_outputs(store, [name])
    late = deadlines_missed(store, [name]) if "deadline" in dataset.options else None
    missed = sorted((each.dataid for each in late.late), key=lambda dataid: _key(dataset, dataid)) if late else []
    found = (
        Sign(MISSING, tuple(known.missing), False),
        Sign(REFUSED, tuple(known.refused), False),
        Sign(STALE, tuple(dataid for _, dataid in stale), not are_all),
        Sign(LATE, tuple(missed), late is not None and late.more),
    )
    return {sign.word: sign for sign in found}


def lines_of(store: Store, dataset: Dataset, sign: Sign, before: tuple[str, str] | None, n: int) -> list[ChunkLine]:
    """The last n chunks with a sign before a position, the last one first; one that is not there has its sign as status."""
    keys = ((_key(dataset, dataid), dataid) for dataid in reversed(sign.dataids))
    wanted = [each for each in keys if before is None or each < before][:n]
    lines = []
    for key, dataid in wanted:
        chunk = store.views.chunk(dataset.datasetid, dataid)
        about = (chunk.status, chunk.modified, chunk.version, chunk.runid) if chunk else (sign.word, None, 0, None)
        lines.append(ChunkLine(dataid, *about, key, None, None, None))
    return lines


def _key(dataset: Dataset, dataid: str) -> str:
    try:
        return sort_key(dataset.partition, dataid)
    except BadDataid:
        return ""  # typed as SQL: before all others, as everywhere
