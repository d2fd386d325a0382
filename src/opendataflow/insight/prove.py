"""Proof: the published chunks cover their source exactly once, or which do not and what would mend it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from .. import probe
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
    Input,
    Job,
    bounds,
    check_dataid,
    dataids,
    from_ordinal,
    ordinal,
    sort_key,
)
from ..model.bounds import BACKWARDS, GAP, OVERLAP, breaks
from ..project import Project
from ..run.sharding import Spark, bounds_of, check_place, password_of
from ..secrets import Key
from ..store import Chunk, Published, Store
from .axis import ranges
from .matrix import see_changes

if TYPE_CHECKING:
    from ..spark.proving import Content, Contents

PROVEN = "PROVEN"
_MOST = 1_000_000
_LOOKERS = 16
# The mappings by which an input chunk names the outputs that it belongs to, and to no other.
_PARTS = ("identity", "rollup")


@dataclass(frozen=True, slots=True)
class Problem:
    """One reason why the proof fails: what it is called, the chunks in question, and the commands that would help."""

    name: str
    text: str
    outcome: type[OdfError]
    chunks: int = 0
    ranges: tuple[tuple[str, str], ...] = ()
    commands: tuple[str, ...] = ()

    def to_data(self) -> dict[str, object]:
        """The same as plain data."""
        facts = {"name": self.name, "outcome": self.outcome.name, "text": self.text, "chunks": self.chunks}
        return facts | {"ranges": [list(each) for each in self.ranges], "commands": list(self.commands)}


@dataclass(frozen=True, slots=True)
class Rows:
    """How many rows there are in the source and in what is published, and how many chunks have the same content."""

    source: int
    published: int
    rejected: int
    fingerprints: int
    is_copy: bool


@dataclass(frozen=True, slots=True)
class Proof:
    """What was expected of a dataset, what is there, and everything that is wrong with it."""

    datasetid: str
    jobid: str | None
    sources: tuple[str, ...]
    first: str | None
    last: str | None
    expected: int
    published: int
    problems: tuple[Problem, ...]
    rows: Rows | None = None
    notes: tuple[str, ...] = ()

    @property
    def outcome(self) -> type[OdfError] | None:
        """The worst that is wrong; None when nothing is."""
        found = {problem.outcome for problem in self.problems}
        return next((each for each in (WrongData, NotValidated, DataNotReady) if each in found), None)

    @property
    def verdict(self) -> str:
        """PROVEN, or the name of what is wrong."""
        return self.outcome.name if self.outcome else PROVEN

    @property
    def exit_code(self) -> int:
        """0 for what is proven."""
        return self.outcome.exit_code if self.outcome else 0


@dataclass(frozen=True, slots=True)
class _Case:
    """Everything that the store knows of a dataset and of what it is made from."""

    catalogue: Catalogue
    dataset: Dataset
    job: Job | None
    chunks: Mapping[str, Chunk]
    published: Mapping[str, Published]
    sources: Mapping[str, Mapping[str, Chunk]]
    wanted: Sequence[str]  # the dataids that are expected, in order
    possible: frozenset[str]  # those whose inputs are all READY
    is_all: bool

    def shown(self, dataids: Iterable[str]) -> tuple[tuple[str, str], ...]:
        return tuple(ranges(self.dataset.partition, list(dataids)))

    def inputs(self, dataid: str) -> list[tuple[str, str]]:
        return self.catalogue.inputs_of(self.job, dataid) if self.job else []


def prove(
    store: Store,
    project: Project,
    datasetid: str,
    first: str | None = None,
    last: str | None = None,
    *,
    spark: Spark | None = None,
    key: Key | None = None,
) -> Proof:
    """Compare what is published with what should be; where Spark is given, with the rows of the source as well."""
    see_changes(store)
    store.check_environment(project.environment.name)
    case = _case(store, datasetid, first, last)
    notes: list[str] = []
    problems = [*_gaps(case), *_bounds(case), *_without_source(case), *_stale(case), *_changed(case, notes)]
    rows = None
    if spark is not None and case.wanted:
        more, rows = _reconciled(store, project, case, spark, key, notes)
        problems += more
    there = sum(1 for dataid in case.wanted if _status(case.chunks, dataid) == READY)
    if not case.wanted:
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


def _case(store: Store, datasetid: str, first: str | None, last: str | None) -> _Case:
    catalogue = store.catalogue()
    dataset = catalogue.dataset(datasetid)
    job = catalogue.producer(datasetid)
    chunks = {chunk.dataid: chunk for chunk in store.all_chunks(datasetid)}
    published = {each.dataid: each for each in store.all_published(datasetid)}
    read = [item.datasetid for item in job.inputs if not item.mapping.is_dynamic] if job else []
    sources = {name: {chunk.dataid: chunk for chunk in store.all_chunks(name)} for name in read if name != datasetid}
    possible = frozenset(_possible(catalogue, job, sources)) if job else frozenset[str]()
    window = (first, last or first) if first is not None else None
    wanted = _window(dataset, *window) if window else _expected(dataset, {*chunks, *possible})
    return _Case(catalogue, dataset, job, chunks, published, sources, wanted, possible, first is None)


def _window(dataset: Dataset, first: str, last: str) -> list[str]:
    found = list(islice(dataids(dataset.partition, first, last), _MOST + 1))
    if len(found) > _MOST:
        raise UsageError(f"{first}..{last} are more than {_MOST:,} chunks", hint="Prove them in smaller steps.")
    return found


def _possible(catalogue: Catalogue, job: Job, sources: Mapping[str, Mapping[str, Chunk]]) -> Iterator[str]:
    """The outputs that a job could have produced by now: all of their inputs are READY."""
    named = [item for item in job.inputs if item.datasetid in sources and item.mapping.kind in (*_PARTS, "fan_out")]
    found: dict[str, None] = {}
    for item in named:
        for dataid, chunk in sources[item.datasetid].items():
            if chunk.status == READY:
                found |= dict.fromkeys(catalogue.outputs_of(job, item, dataid))
    for output in found:
        needed = ((name, each) for name, each in catalogue.inputs_of(job, output) if name in sources)
        if all(_status(sources[name], each) == READY for name, each in needed):
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


def _gaps(case: _Case) -> Iterator[Problem]:
    """Chunks that are expected and not published, by what they are instead."""
    found: dict[tuple[str | None, bool], list[str]] = {}
    for dataid in case.wanted:
        status = _status(case.chunks, dataid)
        if status != READY:
            found.setdefault((status, dataid in case.possible), []).append(dataid)
    for (status, is_possible), missing in found.items():
        never = f"{'was' if len(missing) == 1 else 'were'} never produced"
        want = "" if is_possible or not case.job else ", for want of input"
        text = f"{_chunks(len(missing))} of {case.dataset.datasetid} {f'{_are(missing)} {status}' if status else never + want}"
        shown = case.shown(missing)
        commands = _ways_out(case, status, is_possible, shown)
        yield Problem(GAP, text, DataNotReady, len(missing), shown, commands)


def _ways_out(
    case: _Case, status: str | None, is_possible: bool, missing: tuple[tuple[str, str], ...]
) -> tuple[str, ...]:
    name, jobid = case.dataset.datasetid, case.job.jobid if case.job else ""
    first = f"{name} {_range(*missing[0])}"
    drain = (f"odf drain {jobid}",) if jobid else ()
    if status == FAILED:
        return (f"odf resubmit {name} --failed", *drain)
    if status == RUNNING:
        return ("odf runs",)
    if status in (HOLD, PENDING):
        return (f"odf release {first}", *drain)
    if status == RESUBMIT or is_possible:
        return drain
    return (f"odf why {jobid} {missing[0][0]}",) if jobid else (f"odf ready {first}",)


def _bounds(case: _Case) -> Iterator[Problem]:
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
    found = breaks(bounds_of(dataset, inside))
    anew = (f"odf forget {name} --all", f"odf shard {name}")
    for each in found:
        keys = f"from {each.lower!r} up to {each.upper!r}"
        if each.what == BACKWARDS:
            text = f"the bounds of {name} {each.before} run backwards, {keys}"
        elif each.what == GAP:
            text = f"no chunk of {name} holds the keys {keys}, between {each.before} and {each.after}"
        else:
            text = f"{name} {each.before} and {each.after} both hold the keys {keys}"
        outcome = DataNotReady if each.what == GAP else WrongData
        # A window need not be all in one piece: chunks of a later sharding may lie below the first ones.
        if case.is_all or each.what != GAP:
            yield Problem(OVERLAP if each.what == BACKWARDS else each.what, text, outcome, 0, (), anew)


def _without_source(case: _Case) -> Iterator[Problem]:
    """Published chunks whose source has no such chunk any more: its rows may be in others as well."""
    items = [item for item in case.job.inputs if item.datasetid in case.sources] if case.job else []
    for item in items:
        there = case.sources[item.datasetid]
        if item.mapping.kind != "identity" or not there:
            continue
        extra = [dataid for dataid in case.wanted if _status(case.chunks, dataid) == READY and dataid not in there]
        if extra:
            name, shown = case.dataset.datasetid, case.shown(extra)
            text = f"{_chunks(len(extra))} of {name} {_are(extra)} published, but {item.datasetid} has no such chunk"
            yield Problem("extra", text, WrongData, len(extra), shown, (f"odf forget {name} {_range(*shown[0])}",))


def _stale(case: _Case) -> Iterator[Problem]:
    """Published chunks that were made from another version of their source than the one that counts now."""
    old = []
    for dataid in case.wanted:
        manifest = case.published[dataid].manifest if dataid in case.published else None
        consumed = manifest.inputs if manifest else ()
        now = [(case.sources.get(each.datasetid, {}).get(each.dataid), each.version) for each in consumed]
        if any(chunk is not None and chunk.status == READY and chunk.version != version for chunk, version in now):
            old.append(dataid)
    if old:
        name, shown = case.dataset.datasetid, case.shown(old)
        text = f"{_chunks(len(old))} of {name} {_are(old)} made from an older version of the source"
        again = f"odf resubmit {name} {_range(*shown[0])}"
        yield Problem("stale", text, WrongData, len(old), shown, (again, *_drain(case)))


def _changed(case: _Case, notes: list[str]) -> Iterator[Problem]:
    """Published chunks whose files are not what was published."""
    if case.dataset.kind == "table":
        return
    wanted = [case.published[dataid] for dataid in case.wanted if dataid in case.published]
    try:
        with ThreadPoolExecutor(_LOOKERS) as lookers:
            differences = list(lookers.map(lambda each: probe.difference(each.manifest), wanted))
    except MissingDependency as error:
        notes.append(f"the files were not looked at: {error.message}")
        return
    found = {each.dataid: difference for each, difference in zip(wanted, differences, strict=True) if difference}
    if found:
        name, shown = case.dataset.datasetid, case.shown(found)
        first = next(iter(found))
        text = f"{_chunks(len(found))} of {name} {_are(found)} not what was published; {first}: {found[first]}"
        again = f"odf resubmit {name} {_range(*shown[0])}" if case.job else f"odf explain {name} {first}"
        yield Problem("changed", text, NotValidated, len(found), shown, (again, *_drain(case)))


# What is wrong, by the rows themselves --------------------------------------------------------------------------------


def _reconciled(
    store: Store, project: Project, case: _Case, spark: Spark, key: Key | None, notes: list[str]
) -> tuple[list[Problem], Rows | None]:
    item = _part(case)
    if case.job is not None and item is None:
        notes.append(
            f"no input of job {case.job.jobid} says which of its rows belong to which chunk: rows not compared"
        )
        return [], None
    source = case.catalogue.dataset(item.datasetid) if item else case.dataset
    chunks = case.sources[item.datasetid] if item else case.chunks
    groups = {dataid: dataid for dataid in case.wanted if dataid in chunks}
    if item is not None and case.job is not None:
        groups = {
            each: out for out in case.wanted for each in case.catalogue.needed(case.job, item, out) if each in chunks
        }
    if not groups:
        return [], None
    copy = case.job if case.job is not None and "copy" in case.job.options else None
    found = _contents(store, project, case, source, chunks, groups, copy, spark, key)
    published = {dataid: case.published[dataid] for dataid in case.wanted if dataid in case.published}
    problems = [*_outside(case, source, found)] if case.is_all else []
    unknown = [dataid for dataid, each in published.items() if each.manifest.rows is None] if case.job else []
    if unknown:
        notes.append(f"{_chunks(len(unknown))} {_are(unknown)} published without a count of rows: not compared")
    counted = {dataid: each for dataid, each in published.items() if each.manifest.rows is not None}
    same = 0
    if copy is not None or case.job is None:
        differing, same = _compared(case, source, found.chunks, counted)
        problems += differing
    rows = Rows(
        sum(content.rows for content in found.chunks.values()) + sum(found.outside.values()),
        sum(each.manifest.rows or 0 for each in counted.values()),
        sum(_rejected(each) for each in counted.values()),
        same,
        copy is not None,
    )
    return problems, rows


def _part(case: _Case) -> Input | None:
    """The input whose chunks each belong to one output: what goes in is what comes out."""
    items = case.job.inputs if case.job else ()
    return next((item for item in items if item.datasetid in case.sources and item.mapping.kind in _PARTS), None)


def _contents(
    store: Store,
    project: Project,
    case: _Case,
    source: Dataset,
    chunks: Mapping[str, Chunk],
    groups: Mapping[str, str],
    copy: Job | None,
    spark: Spark,
    key: Key | None,
) -> Contents:
    if not source.kind:
        raise UsageError(
            f"dataset {source.datasetid} is only tracked: there are no rows to compare with", hint="Leave --rows out."
        )
    check_place(project, source)
    password = password_of(case.catalogue, [source.datasetid], key)
    session = spark()
    from ..spark.proving import contents_of
    from ..spark.reading import InputChunk

    own = (
        case.published
        if source is case.dataset
        else {each.dataid: each for each in store.all_published(source.datasetid)}
    )
    inputs = [
        InputChunk(
            dataid,
            chunks[dataid].version,
            own[dataid].manifest if dataid in own else None,
            (chunks[dataid].lower, chunks[dataid].upper) if chunks[dataid].lower is not None else None,
        )
        for dataid in groups
    ]
    return contents_of(session, project, source, inputs, groups, password, copy, is_all=case.is_all)


def _outside(case: _Case, source: Dataset, found: Contents) -> Iterator[Problem]:
    """Rows of the source that no chunk holds."""
    for where, rows in found.outside.items():
        is_new = source.partition.type == "range" and where != "without a key"
        command = f"odf shard {source.datasetid} --extend" if is_new else f"odf status {source.datasetid}"
        text = f"{rows:,} row{'s' * (rows != 1)} of {source.datasetid} {'lie' if rows != 1 else 'lies'} {where}"
        yield Problem("outside", text, DataNotReady, 0, (), (command,))


def _compared(
    case: _Case, source: Dataset, found: Mapping[str, Content], published: Mapping[str, Published]
) -> tuple[list[Problem], int]:
    """Chunks whose rows or content differ from the source, and how many have the same fingerprint."""
    other_rows: dict[str, str] = {}
    other_content = []
    same = 0
    for dataid, each in published.items():
        manifest, content = each.manifest, found.get(dataid)
        if content is None:
            continue  # told already: it has no source
        rows = (manifest.rows or 0) + _rejected(each)
        if rows != content.rows:
            other_rows[dataid] = f"{content.rows:,} rows in {source.datasetid}, {rows:,} published"
        elif _rejected(each) or not _is_comparable(manifest.fingerprint):
            continue
        elif manifest.fingerprint != content.fingerprint:
            other_content.append(dataid)
        else:
            same += 1
    problems = []
    name = case.dataset.datasetid
    if other_rows:
        shown, first = case.shown(other_rows), next(iter(other_rows))
        have = f"{_chunks(len(other_rows))} of {name} {_have(other_rows)}"
        text = f"{have} not as many rows as the source; {first}: {other_rows[first]}"
        problems.append(Problem("rows", text, WrongData, len(other_rows), shown, _again(case, shown)))
    if other_content:
        shown = case.shown(other_content)
        have = f"{_chunks(len(other_content))} of {name} {_have(other_content)}"
        text = f"{have} as many rows as the source, but not the same content"
        problems.append(Problem("content", text, WrongData, len(other_content), shown, _again(case, shown)))
    return problems, same


def _is_comparable(fingerprint: str | None) -> bool:
    """Whether a fingerprint was taken of rows, rather than of the bytes of files."""
    return fingerprint is not None and not fingerprint.startswith("bytes:")


def _rejected(each: Published) -> int:
    found = each.manifest.extra.get("rejected", 0)
    return found if isinstance(found, int) else 0


def _again(case: _Case, shown: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    name = case.dataset.datasetid
    return (
        (f"odf resubmit {name} {_range(*shown[0])}", *_drain(case))
        if case.job
        else (f"odf explain {name} {shown[0][0]}",)
    )


# Words ----------------------------------------------------------------------------------------------------------------


def _drain(case: _Case) -> tuple[str, ...]:
    return (f"odf drain {case.job.jobid}",) if case.job else ()


def _range(first: str, last: str) -> str:
    return first if first == last else f"{first}..{last}"


def _chunks(n: int) -> str:
    return f"{n:,} chunk{'s' * (n != 1)}"


def _are(chunks: Sequence[str] | Mapping[str, object]) -> str:
    return "is" if len(chunks) == 1 else "are"


def _have(chunks: Sequence[str] | Mapping[str, object]) -> str:
    return "has" if len(chunks) == 1 else "have"
