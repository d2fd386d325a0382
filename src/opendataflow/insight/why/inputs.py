"""Why the inputs of a chunk are not READY: by dataset, status and cause, and what stands behind them, one level up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...errors import BadDataid, BadId
from ...model import (
    FAILED,
    HOLD,
    PENDING,
    RESUBMIT,
    RUNNING,
    TODAY,
    Answer,
    Catalogue,
    InputFact,
    Job,
    Unresolved,
    latest_bound,
    may_read,
    no_beginning,
    without_beginning,
)
from ...model.decision.cause import cause_key
from ...model.definitions.calendar import why_unannounced, zone_of
from ...store import Store
from ..axis import LAST_KEY, ranges
from ..changed import refused_attempt
from ..words import ranges_as_arguments, ranges_text, state, when
from .reasons import (
    MOST_COUNTED,
    NOT_READY,
    SHOWN,
    ChunkQuestion,
    Reason,
    how_it_ended,
    last_words,
    log_of,
    run_of,
    running_chunk,
    since_text,
    ways_to_produce,
    ways_to_ready,
)

_LOOKED_AT = 100  # inputs whose history is read
_RUNS_LOOKED_AT = 10_000


def inputs_not_ready(asked: ChunkQuestion, answer: Answer) -> Iterator[Reason]:
    missing: dict[str, list[InputFact]] = {}
    for item in asked.facts.inputs:
        if not may_read(item.status):
            missing.setdefault(item.datasetid, []).append(item)
    for datasetid, not_ready in missing.items():
        absent, items = _parted(asked, datasetid, not_ready)
        groups = _by_cause(asked, items) if items else []
        for group in groups[:SHOWN]:
            yield _missing(asked, group[0]) if len(group) == 1 else _missing_together(asked, datasetid, group)
        if rest := [item.dataid for group in groups[SHOWN:] for item in group]:
            these = ranges_text(ranges(asked.catalogue.datasets[datasetid].partition, rest))
            text = f"{len(rest):,} more chunks of {datasetid} are not READY: {these}"
            yield Reason(NOT_READY, text, (f"odf status {datasetid}",))
        if absent:
            yield _never_produced_together(asked, datasetid, absent)
    incomplete: dict[str, list[str]] = {}
    for unresolved in asked.facts.unresolved:
        if unresolved.mapping == "latest":
            yield _no_latest(asked, unresolved)
        else:
            incomplete.setdefault(unresolved.datasetid, []).append(unresolved.why)
    for datasetid, whys in incomplete.items():
        yield _not_all(asked, datasetid, whys)


def _by_cause(asked: ChunkQuestion, items: Sequence[InputFact]) -> list[list[InputFact]]:
    """Input chunks of a dataset by status, those that failed by the cause, as far as their runs are looked at, and those
    that are RUNNING by whether a run holds them."""
    failed = [item for item in items if item.status == FAILED]
    producer = asked.catalogue.producer(items[0].datasetid) if len(failed) > 1 else None
    causes: dict[str, str] = {}
    if producer is not None:
        for run in asked.store.views.failed_runs(jobid=producer.jobid, n=_RUNS_LOOKED_AT, look_back=_RUNS_LOOKED_AT):
            names = (*producer.outputs, run.dataid)
            causes.setdefault(run.dataid, f"{run.outcome} {cause_key(run.detail, names)}")
    is_running = any(item.status == RUNNING for item in items)
    unheld = {dataid for _, dataid in asked.store.views.unheld(items[0].datasetid)} if is_running else ()
    groups: dict[tuple[str | None, str], list[InputFact]] = {}
    for item in items:
        cause = causes.get(item.dataid, "") if item.status == FAILED else "" if item.status else item.dataid
        cause = "no run holds it" if item.dataid in unheld else cause
        groups.setdefault((item.status, cause), []).append(item)
    return list(groups.values())


def _missing_together(asked: ChunkQuestion, datasetid: str, items: Sequence[InputFact]) -> Reason:
    """Several input chunks that are not READY for the same cause, and what stands behind the first."""
    found = ranges(asked.catalogue.datasets[datasetid].partition, [item.dataid for item in items])
    first, status = _missing(asked, items[0]), items[0].status
    text = f"{datasetid} {ranges_text(found)} ({len(items):,} chunks) are {status}"
    producer = asked.catalogue.producer(datasetid)
    if status == RESUBMIT and producer:
        text += f": {producer.jobid} has to produce them again"
    elif status == RESUBMIT:
        text += ", and come from outside: they have to be announced again"
    elif status in (HOLD, PENDING):
        text += ": set aside by a person"
    elif status == RUNNING and asked.store.views.unheld(datasetid, items[0].dataid):
        text += ", and no run holds them"
    one, all_of_them = f" {datasetid} {items[0].dataid}", f" {datasetid} {ranges_as_arguments(found)}"
    is_about_it = (one, f"{one} --force")
    commands = tuple(each.replace(one, all_of_them) if each.endswith(is_about_it) else each for each in first.commands)
    return Reason(NOT_READY, text, commands, first.because)


def _missing(asked: ChunkQuestion, item: InputFact) -> Reason:
    """One input chunk that is not READY, and what stands behind it: one level up."""
    store, catalogue = asked.store, asked.catalogue
    datasetid, dataid, status = item.datasetid, item.dataid, item.status
    here = f"{datasetid} {dataid}"
    producer = catalogue.producer(datasetid)
    if status is None:
        return _never_produced(asked, datasetid, dataid, producer)
    chunk = store.views.chunk(datasetid, dataid)
    run = run_of(store, chunk)
    text = f"{here} is {status}{since_text(chunk)}"
    if status == FAILED:
        commands = (*log_of(run), f"odf resubmit {here}" if producer else f"odf ready {here}")
        return Reason(NOT_READY, text, commands, how_it_ended(run) or last_words(store, datasetid, dataid))
    if status == RUNNING:
        return running_chunk(store, NOT_READY, text, (datasetid, dataid), run)
    if status == RESUBMIT and producer:
        again = f"{text}: {producer.jobid} has to produce it again"
        because = tuple(_one_level_up(store, catalogue, producer, dataid))
        return Reason(NOT_READY, again, _ways_to_run(store, catalogue, producer, dataid), because)
    if status == RESUBMIT:
        text = f"{text}, and comes from outside: it has to be announced again"
        return Reason(NOT_READY, text, (f"odf ready {here}",))
    because = last_words(store, datasetid, dataid)
    return Reason(NOT_READY, f"{text}: set aside by a person", (f"odf release {here}",), because)


def _parted(
    asked: ChunkQuestion, datasetid: str, items: Sequence[InputFact]
) -> tuple[list[InputFact], Sequence[InputFact]]:
    """The inputs that were never produced, where several have nothing else to say, and the others."""
    store, dataset = asked.store, asked.catalogue.datasets[datasetid]
    zone = zone_of(asked.catalogue.datasets)
    absent = [
        item
        for item in items
        if item.status is None and not why_unannounced(dataset, item.dataid, store.views.clock(), zone)
    ]
    refused = {
        item.dataid
        for item in absent[:_LOOKED_AT]
        for last in store.views.last_events(datasetid, item.dataid, 1)
        if last.kind == "refused"
    }
    together = [item for item in absent if item.dataid not in refused]
    if len(together) < 2:
        return [], items
    return together, [item for item in items if item not in together]


def _never_produced_together(asked: ChunkQuestion, datasetid: str, items: Sequence[InputFact]) -> Reason:
    """Several inputs that were never produced, as ranges, and what stands behind the first."""
    catalogue = asked.catalogue
    found = ranges(catalogue.datasets[datasetid].partition, [item.dataid for item in items])
    these = f"{datasetid} {ranges_text(found)} ({len(items):,} chunks)"
    producer = catalogue.producer(datasetid)
    if producer is not None:
        text = f"{these} were never produced; {producer.jobid} should produce them"
        return _not_produced(asked, producer, datasetid, items[0].dataid, text)
    text = f"{these} were never announced, and no job produces {datasetid}: they come from outside"
    return Reason(NOT_READY, text, ways_to_produce(catalogue, datasetid, ranges_as_arguments(found)))


def _never_produced(asked: ChunkQuestion, datasetid: str, dataid: str, producer: Job | None) -> Reason:
    store, catalogue = asked.store, asked.catalogue
    here = f"{datasetid} {dataid}"
    if producer is not None:
        text = f"{here} was never produced; {producer.jobid} should produce it"
        return _not_produced(asked, producer, datasetid, dataid, text)
    if reason := why_unannounced(
        catalogue.datasets[datasetid], dataid, store.views.clock(), zone_of(catalogue.datasets)
    ):
        by_running = (f"odf run {asked.job.jobid}",) if datasetid == TODAY.datasetid else ()
        return Reason(NOT_READY, f"{here} was not announced: {reason}", by_running)
    commands = ways_to_produce(catalogue, datasetid, dataid)
    last = next(iter(store.views.last_events(datasetid, dataid, 1)), None)
    if last is not None and last.kind == "refused":
        because = (f"{last.after}: {last.why}",)
        text = f"{here} was refused at {when(last.at)}; announce it again when the right data is there"
        return Reason(NOT_READY, text, commands, because)
    text = f"{here} was never announced, and no job produces {datasetid}: it comes from outside"
    return Reason(NOT_READY, text, commands)


def _not_produced(asked: ChunkQuestion, producer: Job, datasetid: str, dataid: str, text: str) -> Reason:
    because = [*_one_level_up(asked.store, asked.catalogue, producer, dataid)]
    if datasetid in without_beginning(producer, asked.catalogue.datasets):
        because.append(no_beginning(producer.jobid, datasetid))
    return Reason(NOT_READY, text, (f"odf why {producer.jobid} {dataid}",), tuple(because))


def _missing_inputs(
    store: Store, catalogue: Catalogue, producer: Job, dataid: str
) -> list[tuple[tuple[str, str], str | None]]:
    """The inputs of a producer that are not there, each with its status; none for a dataid that it cannot have."""
    try:
        needed = catalogue.inputs_of(producer, dataid)
    except (BadDataid, BadId):
        return []
    statuses = store.views.given_chunks(needed)
    return [(chunk, statuses.get(chunk)) for chunk in needed if not may_read(statuses.get(chunk))]


def _one_level_up(store: Store, catalogue: Catalogue, producer: Job, dataid: str) -> Iterator[str]:
    missing = _missing_inputs(store, catalogue, producer, dataid)
    for chunk, status in missing[:3]:
        yield f"{producer.jobid} {dataid} waits for {' '.join(chunk)}, which {state(status)}"
    if len(missing) > 3:
        yield f"… and for {len(missing) - 3:,} more"
    if not missing:
        refused = next(iter(store.views.refusals(producer.jobid, dataid, n=1)), None)
        yield refused_attempt(refused) if refused else f"{producer.jobid} {dataid} has all its inputs"


def _ways_to_run(store: Store, catalogue: Catalogue, producer: Job, dataid: str) -> tuple[str, ...]:
    """The commands after which a job can produce a chunk again: those that bring its inputs, where it waits for some."""
    missing = _missing_inputs(store, catalogue, producer, dataid)
    ways = [way for (name, each), status in missing[:3] for way in ways_to_ready(catalogue, name, each, status)]
    return tuple(dict.fromkeys(ways)) if missing else (f"odf run {producer.jobid} --dataid {dataid}",)


def _no_latest(asked: ChunkQuestion, unresolved: Unresolved) -> Reason:
    partition = asked.catalogue.datasets[unresolved.datasetid].partition
    until = latest_bound(partition, asked.catalogue.output_partition(asked.job), asked.dataid)
    return Reason(NOT_READY, unresolved.why, ways_to_produce(asked.catalogue, unresolved.datasetid, until))


def _not_all(asked: ChunkQuestion, datasetid: str, whys: list[str]) -> Reason:
    """An input of which every chunk is read: which of them are not READY, and who can still produce more."""
    store = asked.store
    (counts,) = store.views.span_counts([(datasetid, "", LAST_KEY)], MOST_COUNTED)
    total = counts.pop("")
    commands = [f"odf status {datasetid} --status {status}" for status, n in counts.items() if n]
    if not total:
        commands += ways_to_produce(asked.catalogue, datasetid)
    commands += [
        f"odf run {upstream}" for upstream in asked.catalogue.upstream(datasetid) if store.views.claimable(upstream, 1)
    ]
    text, *because = whys
    return Reason(NOT_READY, text, tuple(commands) or (f"odf status {datasetid}",), tuple(because))
