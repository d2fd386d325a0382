"""Selection: which chunks a selector means, and what lies upstream or downstream of something."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..errors import BadDataid, UsageError
from ..model import READY, TYPES, Catalogue, check_dataid, check_id, dataids, sort_key
from ..model.selector import End, Selector, Subject
from ..store import Store
from ..store.views import LastChange
from .axis import LAST_KEY
from .exceptions import chunks_in
from .flow import datasets_in_order

ChunkId = tuple[str, str]

_MOST_NEW = 100_000
_MOST_REACHED = 100_000
_EVERYTHING = 2**62
_BATCH = 5000


class Selected(NamedTuple):
    """The chunks of one dataset that are meant."""

    datasetid: str
    dataids: list[str]


@dataclass(frozen=True, slots=True)
class Scope:
    """A selector with what the flow says to it: the datasets that it can mean, and the chunks where it names some.

    None means any.
    """

    selector: Selector
    catalogue: Catalogue
    datasets: frozenset[str] | None = None
    chunks: frozenset[ChunkId] | None = None

    def matches(self, subject: Subject) -> bool:
        """Whether a chunk or an event is meant."""
        datasetid, dataid = subject.datasetid, subject.dataid
        if self.selector.jobs and subject.jobid not in self.selector.jobs:
            # A chunk belongs to the job that produces it, whoever touched it last.
            if datasetid is None or self.catalogue.producer_id(datasetid) not in self.selector.jobs:
                return False
            subject = subject._replace(jobid=self.selector.jobs[0])
        if self.datasets is not None and datasetid not in self.datasets:
            return False
        if self.chunks is not None and (datasetid, dataid) not in self.chunks:
            return False
        dataset = self.catalogue.datasets.get(datasetid or "")
        return self.selector.matches(subject, dataset.partition if dataset else None)


def scope(store: Store, selector: Selector) -> Scope:
    """What a selector can mean here: UnknownDataset and UnknownJob for a name that there is not."""
    catalogue = store.catalogue()
    for name in selector.datasets:
        catalogue.dataset(name)
    for name in selector.jobs:
        if ("job", name) not in catalogue.broken:
            catalogue.job(name)
    names, chunks = _reached(store, catalogue, selector)
    if selector.datasets:
        names = frozenset(selector.datasets) if names is None else names & frozenset(selector.datasets)
    return Scope(selector, catalogue, names, chunks)


def select(store: Store, selector: Selector, *, statuses: Sequence[str] = (), new_ones: bool = False) -> list[Selected]:
    """All chunks that are meant.

    statuses are those that are meant where none is named; new_ones says that a range means dataids without a chunk too.
    """
    catalogue = store.catalogue()
    names, reached = _datasets(store, catalogue, selector)
    is_narrow = selector.is_by_facts or selector.is_by_flow
    if not selector.dataids and not is_narrow and not selector.everything:
        raise UsageError("which chunks?", hint="Name dataids or a range FROM..TO, or say --failed or --all.")
    if selector.dataids and selector.everything:
        raise UsageError("--all means every chunk", hint="Leave out the dataids, or --all.")
    selected: list[Selected] = []
    seen: set[tuple[tuple[str, ...], str]] = set()
    for name in names:
        # One run writes all outputs of a job: what is said about one of them is said about the others too.
        producer = catalogue.producer(name)
        group = producer.outputs if producer else (name,)
        if selector.dataids:
            named = _named(store, catalogue, name, selector, new_ones=new_ones)
        elif reached is not None:
            named = _in_order(catalogue, name, (dataid for datasetid, dataid in reached if datasetid == name))
        else:
            named = _with_status(store, name, selector.statuses or statuses, selector)
        if reached is not None:
            named = [dataid for dataid in named if (name, dataid) in reached]
        if selector.is_by_facts:
            named = _by_facts(store, name, named, selector)
        ids = [dataid for dataid in dict.fromkeys(named) if (group, dataid) not in seen]
        seen |= {(group, dataid) for dataid in ids}
        if ids:
            selected.append(Selected(name, ids))
    return selected


def subject_of(last: LastChange) -> Subject:
    """A chunk as a selector sees it."""
    said = (last.outcome, last.detail, last.why)
    return Subject(last.datasetid, last.dataid, last.jobid, last.status, last.modified, last.who, said)


# Which datasets -----------------------------------------------------------------------------------------------------


def _datasets(store: Store, catalogue: Catalogue, selector: Selector) -> tuple[list[str], frozenset[ChunkId] | None]:
    """The datasets that are meant, in the order of the flow, and the chunks where the flow names them."""
    names, chunks = _reached(store, catalogue, selector)
    if selector.jobs:
        outputs = [name for jobid in selector.jobs for name in catalogue.job(check_id("job", jobid)).outputs]
        for dataset in selector.datasets:
            if dataset not in outputs:
                raise UsageError(
                    f"job {', '.join(selector.jobs)} does not write {catalogue.dataset(dataset).datasetid}",
                    hint=f"It writes {', '.join(outputs)}.",
                )
        found = list(dict.fromkeys(selector.datasets or outputs))
    elif selector.datasets:
        found = [catalogue.dataset(name).datasetid for name in dict.fromkeys(selector.datasets)]
    elif names is not None:
        found = [name for name in datasets_in_order(catalogue) if name in names and catalogue.producer(name)]
        return found, chunks
    elif selector.is_by_facts:
        found = [name for name in datasets_in_order(catalogue) if catalogue.producer(name)]
    else:
        raise UsageError(
            "which dataset?", hint="Name one, or a job with --job JOB, or say --failed for all that failed."
        )
    return [name for name in found if names is None or name in names], chunks


def _reached(
    store: Store, catalogue: Catalogue, selector: Selector
) -> tuple[frozenset[str] | None, frozenset[ChunkId] | None]:
    """What lies upstream or downstream of what is named: datasets, and chunks where a chunk is named; None is any."""
    names: frozenset[str] | None = None
    chunks: frozenset[ChunkId] | None = None
    for words, is_up in ((selector.upstream_of, True), (selector.downstream_of, False)):
        if not words:
            continue
        ends = [End.parse(word) for word in words]
        for end in ends:
            dataset = catalogue.dataset(end.datasetid)
            if end.dataid is not None:
                check_dataid(dataset.partition, end.dataid, end.datasetid)
        whole = frozenset().union(
            *(along_flow(catalogue, each.datasetid, up=is_up) for each in ends if not each.dataid)
        )
        named = [(each.datasetid, each.dataid) for each in ends if each.dataid is not None]
        made = along_lineage(store, named, up=is_up) if named else frozenset()
        if whole and named:
            raise UsageError(
                "a dataset and a chunk cannot be followed at once",
                hint="Name datasets, or DATASET:DATAID, in one command.",
            )
        reach = frozenset(name for name, _ in made) if named else whole
        names = reach if names is None else names & reach
        if named:
            chunks = made if chunks is None else chunks & made
    return names, chunks


def along_flow(catalogue: Catalogue, datasetid: str, *, up: bool) -> frozenset[str]:
    """The datasets upstream or downstream of one, by what the jobs read and write; without itself."""
    found: set[str] = set()
    pending = [datasetid]
    while pending:
        name = pending.pop()
        if up:
            producer = catalogue.producer(name)
            following = [item.datasetid for item in producer.inputs] if producer else []
        else:
            following = [output for job, _ in catalogue.consumers(name) for output in job.outputs]
        pending += [each for each in following if each not in found]
        found.update(following)
    return frozenset(found - {datasetid})


def along_lineage(store: Store, chunks: Sequence[ChunkId], *, up: bool) -> frozenset[ChunkId]:
    """The chunks whose versions of now were made from these, or that these were made from, at any distance."""
    found: set[ChunkId] = set()
    pending = set(chunks)
    while pending:
        if len(found) > _MOST_REACHED:
            raise UsageError(
                f"more than {_MOST_REACHED:,} chunks are {'up' if up else 'down'}stream",
                hint="Follow the dataset instead: leave out the dataid.",
            )
        now = store.views.current(pending)
        if up:
            links = store.views.links_into([(*chunk, each.version) for chunk, each in now.items()])
            reached = {(link.in_datasetid, link.in_dataid) for link in links}
        else:
            links = store.views.links_from(pending)
            made = store.views.current({(link.datasetid, link.dataid) for link in links})
            reached = {
                chunk
                for link in links
                if (known := made.get(chunk := (link.datasetid, link.dataid))) and known.version == link.version
            }
        pending = reached - found - set(chunks)
        found |= pending
    return frozenset(found)


# Which chunks of one dataset ----------------------------------------------------------------------------------------


def _named(store: Store, catalogue: Catalogue, datasetid: str, selector: Selector, *, new_ones: bool) -> list[str]:
    new_ones = new_ones and not selector.is_by_facts
    return [
        dataid for word in selector.dataids for dataid in _dataids(store, catalogue, datasetid, word, new_ones=new_ones)
    ]


def _with_status(store: Store, datasetid: str, statuses: Iterable[str], selector: Selector) -> list[str]:
    chunks = [
        chunk
        for status in statuses
        for chunk in chunks_in(store.views, datasetid, "", LAST_KEY, status=status, n=_EVERYTHING)
        if status != READY or selector.has_moment(chunk.modified)
    ]
    return [chunk.dataid for chunk in sorted(chunks, key=lambda chunk: (chunk.sort_key, chunk.dataid))]


def _by_facts(store: Store, datasetid: str, named: Sequence[str], selector: Selector) -> list[str]:
    """Those of a dataset's chunks that are as the selector says."""
    kept: list[str] = []
    for start in range(0, len(named), _BATCH):
        batch = named[start : start + _BATCH]
        if not (selector.causes or selector.who or selector.since or selector.until):
            statuses: Mapping[ChunkId, str] = store.views.given_chunks([(datasetid, dataid) for dataid in batch])
            kept += [dataid for dataid in batch if statuses.get((datasetid, dataid)) in selector.statuses]
            continue
        facts = Selector((), (), (), selector.statuses, selector.causes, selector.since, selector.until, selector.who)
        known = store.views.last_changes([(datasetid, dataid) for dataid in batch])
        kept += [
            dataid
            for dataid in batch
            if (last := known.get((datasetid, dataid))) is not None and facts.matches(subject_of(last))
        ]
    return kept


def _in_order(catalogue: Catalogue, datasetid: str, named: Iterable[str]) -> list[str]:
    partition = catalogue.dataset(datasetid).partition
    return sorted(named, key=lambda dataid: (sort_key(partition, dataid), dataid))


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
        return [chunk.dataid for chunk in chunks_in(store.views, datasetid, low, high, n=_EVERYTHING)]
    listed = []
    for dataid in named:
        listed.append(dataid)
        if len(listed) > _MOST_NEW:
            raise UsageError(f"{word} are more than {_MOST_NEW:,} chunks", hint="Do it in smaller steps.")
    return listed
