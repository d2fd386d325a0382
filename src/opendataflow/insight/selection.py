"""Selection: which chunks a person means who names datasets, dataids, ranges, a job or a status."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..errors import BadDataid, UsageError
from ..model import FAILED, TYPES, Catalogue, check_dataid, check_id, dataids, sort_key
from ..store import Store
from .axis import LAST_KEY
from .exceptions import chunks_in
from .flow import datasets_in_order

_MOST_NEW = 100_000
_EVERYTHING = 2**62


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a person named: a dataset or a job, dataids and ranges, only what FAILED, or everything.

    statuses are those that `everything` means; new_ones says that a range means dataids without a chunk too.
    """

    dataset: str | None
    words: Sequence[str]
    jobid: str | None = None
    failed: bool = False
    everything: bool = False
    statuses: Sequence[str] = ()
    new_ones: bool = False


class Selected(NamedTuple):
    """The chunks of one dataset that are meant."""

    datasetid: str
    dataids: list[str]


def select(store: Store, wanted: Wanted) -> list[Selected]:
    """All chunks that are meant."""
    catalogue = store.catalogue()
    names = _datasets(catalogue, wanted)
    if not wanted.words and not wanted.failed and not wanted.everything:
        raise UsageError("which chunks?", hint="Name dataids or a range FROM..TO, or say --failed or --all.")
    if wanted.words and wanted.everything:
        raise UsageError("--all means every chunk", hint="Leave out the dataids, or --all.")
    selected: list[Selected] = []
    seen: set[tuple[tuple[str, ...], str]] = set()
    for name in names:
        # One run writes all outputs of a job: what is said about one of them is said about the others too.
        producer = catalogue.producer(name)
        group = producer.outputs if producer else (name,)
        named = _named(store, catalogue, name, wanted) if wanted.words else _with_status(store, name, wanted)
        ids = [dataid for dataid in dict.fromkeys(named) if (group, dataid) not in seen]
        seen |= {(group, dataid) for dataid in ids}
        if ids:
            selected.append(Selected(name, ids))
    return selected


def _named(store: Store, catalogue: Catalogue, datasetid: str, wanted: Wanted) -> list[str]:
    ids = [
        dataid
        for word in wanted.words
        for dataid in _dataids(store, catalogue, datasetid, word, new_ones=wanted.new_ones)
    ]
    if not wanted.failed:
        return ids
    statuses = store.given_chunks([(datasetid, dataid) for dataid in ids])
    return [dataid for dataid in ids if statuses.get((datasetid, dataid)) == FAILED]


def _with_status(store: Store, datasetid: str, wanted: Wanted) -> list[str]:
    chunks = [
        chunk
        for status in ((FAILED,) if wanted.failed else wanted.statuses)
        for chunk in chunks_in(store, datasetid, "", LAST_KEY, status=status, n=_EVERYTHING)
    ]
    return [chunk.dataid for chunk in sorted(chunks, key=lambda chunk: (chunk.sort_key, chunk.dataid))]


def _datasets(catalogue: Catalogue, wanted: Wanted) -> list[str]:
    dataset, jobid = wanted.dataset, wanted.jobid
    if jobid is not None:
        outputs = list(catalogue.job(check_id("job", jobid)).outputs)
        if dataset is not None and dataset not in outputs:
            raise UsageError(
                f"job {jobid} does not write {catalogue.dataset(check_id('dataset', dataset)).datasetid}",
                hint=f"It writes {', '.join(outputs)}.",
            )
        return [dataset] if dataset is not None else outputs
    if dataset is not None:
        return [catalogue.dataset(check_id("dataset", dataset)).datasetid]
    if wanted.failed:
        return [name for name in datasets_in_order(catalogue) if catalogue.producer(name)]
    raise UsageError("which dataset?", hint="Name one, or a job with --job JOB, or say --failed for all that failed.")


def _dataids(store: Store, catalogue: Catalogue, datasetid: str, word: str, *, new_ones: bool) -> list[str]:
    partition = catalogue.dataset(datasetid).partition
    first, dots, last = word.partition("..")
    if not dots:
        return [check_dataid(partition, word, datasetid)]
    if not TYPES[partition.type].is_ordinal:
        raise BadDataid(
            f"{word[:60]!r} is not a range: the dataids of {datasetid} are text, and no text comes next after another",
            hint="Name them one by one.",
        )
    named = dataids(partition, check_id("dataid", first), check_id("dataid", last))
    if not new_ones:
        low, high = sort_key(partition, first), sort_key(partition, last)
        return [chunk.dataid for chunk in chunks_in(store, datasetid, low, high, n=_EVERYTHING)]
    listed = []
    for dataid in named:
        listed.append(dataid)
        if len(listed) > _MOST_NEW:
            raise UsageError(f"{word} are more than {_MOST_NEW:,} chunks", hint="Do it in smaller steps.")
    return listed
