"""Selection: which chunks a person means who names datasets, dataids, ranges, a job or a status."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import BadDataid, UsageError
from ..model import FAILED, TYPES, Catalogue, check_dataid, check_id, dataids, sort_key
from ..store import Store
from .axis import LAST_KEY
from .flow import datasets_in_order
from .matrix import chunks_in, see_changes

_MOST_NEW = 100_000
_EVERYTHING = 2**62

Selection = list[tuple[str, list[str]]]


def select(
    store: Store,
    *,
    dataset: str | None,
    words: Sequence[str],
    jobid: str | None = None,
    failed: bool = False,
    everything: bool = False,
    statuses: Sequence[str] = (),
    new_ones: bool = False,
) -> Selection:
    """(datasetid, dataids) of all that is meant.

    statuses are those that `everything` means; new_ones says that a range means dataids without a chunk too.
    """
    see_changes(store)
    catalogue = store.catalogue()
    names = _datasets(catalogue, dataset, jobid, failed)
    if not words and not failed and not everything:
        raise UsageError("which chunks?", hint="Name dataids or a range FROM..TO, or say --failed or --all.")
    if words and everything:
        raise UsageError("--all means every chunk: name no dataids with it")
    found: Selection = []
    seen: set[tuple[tuple[str, ...], str]] = set()
    for name in names:
        if words:
            ids = [each for word in words for each in _dataids(store, catalogue, name, word, new_ones=new_ones)]
            if failed:
                there = store.given_chunks([(name, each) for each in ids])
                ids = [each for each in ids if there.get((name, each)) == FAILED]
        else:
            wanted = (FAILED,) if failed else tuple(statuses)
            chunks = [
                each for status in wanted for each in chunks_in(store, name, "", LAST_KEY, status=status, n=_EVERYTHING)
            ]
            ids = [chunk.dataid for chunk in sorted(chunks, key=lambda chunk: (chunk.sort_key, chunk.dataid))]
        # One run writes all outputs of a job: what is said about one of them is said about the others too.
        producer = catalogue.producer(name)
        group = producer.outputs if producer else (name,)
        ids = [each for each in dict.fromkeys(ids) if (group, each) not in seen]
        seen |= {(group, each) for each in ids}
        if ids:
            found.append((name, ids))
    return found


def _datasets(catalogue: Catalogue, dataset: str | None, jobid: str | None, failed: bool) -> list[str]:
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
    if failed:
        return [name for name in datasets_in_order(catalogue) if catalogue.producer(name)]
    raise UsageError("which dataset?", hint="Name one, or a job with --job JOB, or say --failed for all that failed.")


def _dataids(store: Store, catalogue: Catalogue, datasetid: str, word: str, *, new_ones: bool) -> list[str]:
    partition = catalogue.dataset(datasetid).partition
    first, dots, last = word.partition("..")
    if not dots:
        return [check_dataid(partition, word, datasetid)]
    if not TYPES[partition.type].is_ordinal:
        raise BadDataid(
            f"{word[:60]!r} names nothing: the dataids of {datasetid} are texts without an order of steps",
            hint="Name them one by one.",
        )
    named = dataids(partition, check_id("dataid", first), check_id("dataid", last))
    if not new_ones:
        low, high = sort_key(partition, first), sort_key(partition, last)
        return [chunk.dataid for chunk in chunks_in(store, datasetid, low, high, n=_EVERYTHING)]
    listed = []
    for each in named:
        listed.append(each)
        if len(listed) > _MOST_NEW:
            raise UsageError(f"{word} are more than {_MOST_NEW:,} chunks", hint="Do it in smaller steps.")
    return listed
