"""Proving: whether the published chunks cover their source exactly once, or which do not and what would mend it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING

from .. import files
from ..errors import DataNotReady, MissingDependency, NotValidated, OdfError, UsageError, WrongData
from ..model import (
    FAILED,
    HOLD,
    PENDING,
    READY,
    RESUBMIT,
    RUNNING,
    TYPES,
    Catalogue,
    Dataset,
    Job,
    check_dataid,
    dataids,
    from_ordinal,
    ordinal,
    sort_key,
)
from ..model.bounds import BACKWARDS, GAP, OVERLAP, breaks
from ..model.definitions.calendar import calendar_filter
from ..model.definitions.partition import bounds
from ..project import Environment, Project, misplaced
from ..project.trust import require
from ..run.sharding import bounds_of
from ..store import Chunk, Published, Store
from .axis import DataidRange, ranges
from .flow import datasets_in_order
from .proof import Case, Problem, Proof, drain
from .reconcile import PARTS, Counting, reconciled
from .staleness import Staleness
from .words import are, many, ranges_as_arguments

if TYPE_CHECKING:
    from ..spark.types import SparkSession

_MOST = 1_000_000
_LOOKERS = 16


def prove(
    store: Store,
    project: Project,
    datasetid: str,
    first: str | None = None,
    last: str | None = None,
    *,
    spark: Callable[[], SparkSession] | None = None,
    password: Callable[[Dataset], str] = lambda dataset: "",
) -> Proof:
    """Compare what is published with what should be; where Spark is given, with the rows of the source as well."""
    store.check_environment(project.environment.name)
    case = _case(store, datasetid, first, last)
    for name in (datasetid, *case.sources):
        require(project, case.catalogue.dataset(name), store.applied)
    left_out = f"{many(case.left_out)} {are(case.left_out)} left out by a calendar that {datasetid} is made from"
    notes = [left_out] if case.left_out else []
    problems = [
        *_gaps(case),
        *_bounds(case),
        *_without_source(store, case),
        *_stale(store, case),
        *_changed(project.environment, case, notes),
    ]
    rows = None
    if spark is not None and case.wanted:
        more, rows = reconciled(store, project, case, Counting(spark, password), notes)
        problems += more
    there = sum(1 for dataid in case.wanted if _status(case.chunks, dataid) == READY)
    if not case.wanted and not case.left_out:
        problems.append(
            Problem("empty", f"{datasetid} has no chunks, and nothing says that it should have any", DataNotReady)
        )
    return Proof(
        datasetid,
        case.job.jobid if case.job else None,
        tuple(case.sources),
        case.wanted[0] if case.wanted else None,
        case.wanted[-1] if case.wanted else None,
        len(case.wanted),
        there,
        tuple(problems),
        rows,
        tuple(notes),
    )


# What should be there -------------------------------------------------------------------------------------------------


def _case(store: Store, datasetid: str, first: str | None, last: str | None) -> Case:
    catalogue = store.catalogue()
    dataset = catalogue.dataset(datasetid)
    job = catalogue.producer(datasetid)
    read = [item.datasetid for item in job.inputs if not item.mapping.is_dynamic] if job else []
    window = _window(dataset, first, last or first) if first is not None else None
    needed = {datasetid: window, **_needed(catalogue, job, window)} if window is not None else None
    keys = _keys(dataset, window) if window is not None else ("",)
    published = {version.dataid: version for version in store.views.all_published(datasetid, *keys)}
    chunks = _chunks(store, dataset, needed)
    sources = {name: _chunks(store, catalogue.dataset(name), needed) for name in read if name != datasetid}
    possible = frozenset(_possible(catalogue, job, sources)) if job else frozenset[str]()
    periods = _expected(dataset, {*chunks, *possible}) if window is None else window
    can_come = calendar_filter(catalogue, datasetid)
    wanted = [dataid for dataid in periods if dataid in chunks or dataid in possible or can_come(dataid)]
    return Case(
        catalogue,
        dataset,
        job,
        chunks,
        published,
        sources,
        wanted,
        possible,
        window is None,
        len(periods) - len(wanted),
    )


def _needed(catalogue: Catalogue, job: Job | None, window: Sequence[str]) -> dict[str, list[str]]:
    """The dataids of each source that the chunks of a window are made from."""
    needed: dict[str, list[str]] = {}
    for name, dataid in [chunk for output in window for chunk in catalogue.inputs_of(job, output)] if job else ():
        needed.setdefault(name, []).append(dataid)
    return needed


def _chunks(store: Store, dataset: Dataset, needed: Mapping[str, Sequence[str]] | None) -> dict[str, Chunk]:
    """The chunks of a dataset, or those between the first and the last that is needed."""
    if needed is None:
        return {chunk.dataid: chunk for chunk in store.views.all_chunks(dataset.datasetid)}
    dataids = needed.get(dataset.datasetid, ())
    found = store.views.whole_chunks_between(dataset.datasetid, *_keys(dataset, dataids)) if dataids else ()
    return {chunk.dataid: chunk for chunk in found}


def _keys(dataset: Dataset, dataids: Sequence[str]) -> tuple[str, str]:
    keys = [sort_key(dataset.partition, dataid) for dataid in dataids]
    return min(keys, default=""), max(keys, default="")


def _window(dataset: Dataset, first: str, last: str) -> list[str]:
    wanted = list(islice(dataids(dataset.partition, first, last), _MOST + 1))
    if len(wanted) > _MOST:
        raise UsageError(f"{first}..{last} are more than {_MOST:,} chunks", hint="Prove them in smaller steps.")
    return wanted


def _possible(catalogue: Catalogue, job: Job, sources: Mapping[str, Mapping[str, Chunk]]) -> Iterator[str]:
    """The outputs that a job could have produced by now: all of their inputs are READY."""
    named = [item for item in job.inputs if item.datasetid in sources and item.mapping.kind in (*PARTS, "fan_out")]
    outputs: dict[str, None] = {}
    for item in named:
        dataset = catalogue.dataset(item.datasetid)
        for dataid, chunk in sources[item.datasetid].items():
            if chunk.status == READY and _is_well_formed(dataset, dataid):
                outputs |= dict.fromkeys(catalogue.outputs_of(job, item, dataid))
    for output in outputs:
        needed = ((name, dataid) for name, dataid in catalogue.inputs_of(job, output) if name in sources)
        if all(_status(sources[name], dataid) == READY for name, dataid in needed):
            yield output


def _expected(dataset: Dataset, known: set[str]) -> list[str]:
    """The dataids that are known, and for periods of time every one in between."""
    partition = dataset.partition
    well_formed = [dataid for dataid in known if _is_well_formed(dataset, dataid)]
    if well_formed and TYPES[partition.type].is_time:
        numbers = [ordinal(partition, dataid) for dataid in well_formed]
        low = min(numbers) if partition.start is None else bounds(partition)[0]
        if max(numbers) - low >= _MOST:
            raise UsageError(
                f"{dataset.datasetid} spans more than {_MOST:,} dataids", hint="Prove a part of it: FROM..TO."
            )
        return [from_ordinal(partition, n) for n in range(low, max(numbers) + 1)]
    return sorted(well_formed, key=lambda dataid: sort_key(partition, dataid))


def _is_well_formed(dataset: Dataset, dataid: str) -> bool:
    try:
        check_dataid(dataset.partition, dataid, dataset.datasetid)
    except OdfError:
        return False
    return True


def _status(chunks: Mapping[str, Chunk], dataid: str) -> str | None:
    chunk = chunks.get(dataid)
    return chunk.status if chunk else None


# What is wrong, by what the store knows -------------------------------------------------------------------------------


def _gaps(case: Case) -> Iterator[Problem]:
    """Chunks that are expected and not published, by what they are instead."""
    gaps: dict[tuple[str | None, bool], list[str]] = {}
    for dataid in case.wanted:
        status = _status(case.chunks, dataid)
        if status != READY:
            gaps.setdefault((status, dataid in case.possible), []).append(dataid)
    for (status, is_possible), missing in gaps.items():
        n = len(missing)
        never = f"{'was' if n == 1 else 'were'} never produced"
        lack = "" if is_possible or not case.job else " because inputs are missing"
        text = f"{many(n)} of {case.dataset.datasetid} {f'{are(n)} {status}' if status else never + lack}"
        formed = case.ranges(missing)
        yield Problem(GAP, text, DataNotReady, n, formed, _ways_out(case, status, is_possible, formed))


def _ways_out(case: Case, status: str | None, is_possible: bool, missing: tuple[DataidRange, ...]) -> tuple[str, ...]:
    name = case.dataset.datasetid
    first = f"{name} {missing[0]}"
    if status == FAILED:
        return (f"odf resubmit {name} --failed", *drain(case))
    if status == RUNNING:
        return ("odf runs",)
    if status in (HOLD, PENDING):
        return (f"odf release {first}", *drain(case))
    if status == RESUBMIT or is_possible:
        return drain(case)
    return (f"odf why {case.job.jobid} {missing[0].first}",) if case.job else (f"odf ready {first}",)


def _bounds(case: Case) -> Iterator[Problem]:
    """Gaps and overlaps between the ranges of keys that the chunks stand for."""
    if case.dataset.partition.type != "range":
        return
    dataset, chunks = case.dataset, case.chunks
    for item in case.job.inputs if case.job else ():
        if item.datasetid in case.sources and item.mapping.kind == "identity":
            dataset, chunks = case.catalogue.dataset(item.datasetid), case.sources[item.datasetid]
            break
    name = dataset.datasetid
    inside = [chunks[dataid] for dataid in case.wanted if dataid in chunks]
    anew = (f"odf forget {name} --all", f"odf shard {name}")
    for broken in breaks(bounds_of(dataset, inside)):
        keys = f"from {broken.lower!r} up to {broken.upper!r}"
        if broken.what == BACKWARDS:
            text = f"the bounds of {name} {broken.before} run backwards, {keys}"
        elif broken.what == GAP:
            text = f"no chunk of {name} holds the keys {keys}, between {broken.before} and {broken.after}"
        else:
            text = f"{name} {broken.before} and {broken.after} both hold the keys {keys}"
        outcome = DataNotReady if broken.what == GAP else WrongData
        # A window need not be all in one piece: chunks of a later sharding may lie below the first ones.
        if case.is_all or broken.what != GAP:
            yield Problem(OVERLAP if broken.what == BACKWARDS else broken.what, text, outcome, 0, (), anew)


def _without_source(store: Store, case: Case) -> Iterator[Problem]:
    """Published chunks whose source has no such chunk any more: its rows may be in others as well."""
    items = [item for item in case.job.inputs if item.datasetid in case.sources] if case.job else []
    for item in items:
        there = case.sources[item.datasetid]
        if item.mapping.kind != "identity" or not store.views.chunks(item.datasetid, n=1):
            continue
        extra = [dataid for dataid in case.wanted if _status(case.chunks, dataid) == READY and dataid not in there]
        if extra:
            name, formed, n = case.dataset.datasetid, case.ranges(extra), len(extra)
            text = f"{many(n)} of {name} {are(n)} published, but {item.datasetid} has no such chunk"
            forget = f"odf forget {name} {ranges_as_arguments(formed)}"
            yield Problem("extra", text, WrongData, n, formed, (forget,))


def _stale(store: Store, case: Case) -> Iterator[Problem]:
    """Published chunks that would come out differently now: of what they were made from, at any distance, something is newer."""
    staleness = Staleness(store, case.catalogue, by_chunk=not case.is_all)
    published = [dataid for dataid in case.wanted if dataid in case.published]
    name = case.dataset.datasetid
    old = [dataid for dataid in published if staleness.cause(name, dataid)]
    direct = [dataid for dataid in old if staleness.is_direct(name, dataid)]
    commands = _again(case.catalogue, staleness)
    for stale, text in (
        (direct, "made from an older version of the source"),
        (
            [dataid for dataid in old if dataid not in set(direct)],
            "made from data that is itself older than its source",
        ),
    ):
        if stale:
            told = f"{many(len(stale))} of {name} {are(len(stale))} {text}"
            why = f"{stale[0]}: {staleness.cause(name, stale[0])}"
            yield Problem("stale", told, WrongData, len(stale), case.ranges(stale), commands, why)


def _again(catalogue: Catalogue, staleness: Staleness) -> tuple[str, ...]:
    """The commands that make everything again that is stale, what is upstream first."""
    stale: dict[str, list[str]] = {}
    for (datasetid, dataid), cause in staleness.causes.items():
        if cause:
            stale.setdefault(datasetid, []).append(dataid)
    datasets = [name for name in datasets_in_order(catalogue) if name in stale]
    resubmit = []
    for name in datasets:
        partition = catalogue.dataset(name).partition
        ids = sorted(stale[name], key=lambda dataid: sort_key(partition, dataid))
        resubmit.append(f"odf resubmit {name} {ranges_as_arguments(tuple(ranges(partition, ids)))}")
    jobs = dict.fromkeys(job.jobid for name in datasets if (job := catalogue.producer(name)))
    return (*resubmit, f"odf drain {' '.join(jobs)}") if resubmit else ()


def _changed(environment: Environment, case: Case, notes: list[str]) -> Iterator[Problem]:
    """Published chunks whose files are not what was published."""
    if case.dataset.kind == "table":
        return
    wanted = [case.published[dataid] for dataid in case.wanted if dataid in case.published]
    together = sum(version.manifest.bytes or 0 for version in wanted)
    verify = case.dataset.options.get("verify")

    def differs(version: Published) -> str:
        by_content = files.reads_content(verify, version.manifest.location, together)
        return misplaced(environment, version.manifest) or files.difference(version.manifest, by_content=by_content)

    try:
        with ThreadPoolExecutor(_LOOKERS) as lookers:
            differences = list(lookers.map(differs, wanted))
    except MissingDependency as error:
        notes.append(f"the files were not looked at: {error.message}")
        return
    changed = {
        version.dataid: difference for version, difference in zip(wanted, differences, strict=True) if difference
    }
    if changed:
        name, formed, n = case.dataset.datasetid, case.ranges(changed), len(changed)
        first = next(iter(changed))
        text = f"{many(n)} of {name} {are(n)} not what was published; {first}: {changed[first]}"
        again = f"odf resubmit {name} {ranges_as_arguments(formed)}" if case.job else f"odf explain {name} {first}"
        yield Problem("changed", text, NotValidated, n, formed, (again, *drain(case)))
