"""Report: what a period brought: runs and how they ended, causes, what was late, what people did, durations, row counts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import ceil
from statistics import median

from ..errors import Stopped, UsageError
from ..model import FAILED, READY, RUNNING, Catalogue
from ..model.decision.cause import cause_key
from ..model.moment import moved
from ..model.printable import one_line
from ..model.selector import Selector, Subject
from ..store import Store
from ..store.views import Attempted, OperatorEvent
from .flow import datasets_in_order
from .late import due_of, is_declared, late
from .reported import DatasetRows, Deeds, JobReport, LateChunk, PeriodReport, ReportedCause, RunCounts, Slice, is_failed
from .selection import Scope, scope
from .words import count, gist

DEFAULT_PERIOD = timedelta(days=1)
_MOST_RUNS = 50_000  # of each period
_MOST_EVENTS = 500_000  # that are looked through
_MOST_DEEDS = 20_000
_MOST_JOBS = 1000
_MOST_CAUSES = 100
_MOST_GROUPS = 200
_MOST_CHUNKS = 5000  # whose status now is looked up
_MOST_DATASETS = 100
_POINTS = 60
_MOST_SLICES = 48
_STEPS = (60, 300, 900, 3600, 3 * 3600, 6 * 3600, 86400, 7 * 86400, 30 * 86400)  # seconds
_TOP = 10
_MOST_LATE = 200
_LONGEST = 300  # characters of a message
_REFUSED = "REFUSED"


def report(store: Store, selector: Selector = Selector()) -> PeriodReport:  # noqa: B008 (it is frozen)
    """What happened since and until the moments of the selector, or in the last day, to whatever else it names."""
    until = selector.until or datetime.fromtimestamp(store.views.clock(), UTC)
    since = selector.since or moved(until, -DEFAULT_PERIOD)
    if since >= until:
        raise UsageError("the period would begin after its end", hint="Say another --since, or --until with it.")
    meant = scope(store, replace(selector, since=None, until=None))
    remarks: list[str] = []
    runs = _attempts(store, meant, since, until, remarks)
    before = _attempts(store, meant, moved(since, since - until), since, [])
    deeds, refused = _deeds(store, meant, since, until, remarks)
    jobs = _jobs(runs, before)
    failing = sorted((job for job in jobs if job.counts.failed), key=lambda job: (-job.counts.failed, job.jobid))
    slowest = sorted((job for job in jobs if job.seconds is not None), key=lambda job: (-(job.seconds or 0), job.jobid))
    causes = _causes(store, meant.catalogue, runs)
    if len(jobs) > _MOST_JOBS:
        remarks.append(f"Of {count(len(jobs), 'job')} the first {_MOST_JOBS:,} are listed.")
    if len(causes) > _MOST_CAUSES:
        remarks.append(f"Of {count(len(causes), 'cause')} the {_MOST_CAUSES:,} most frequent are listed.")
    return PeriodReport(
        since,
        until,
        tuple(replace(selector, since=None, until=None).words()),
        _counts(runs),
        _counts(before),
        _slices(runs, since, until),
        tuple(causes[:_MOST_CAUSES]),
        _late(store, meant, runs, until if selector.until else None, remarks),
        tuple(failing[:_TOP]),
        tuple(slowest[:_TOP]),
        tuple(jobs[:_MOST_JOBS]),
        (*_forced(runs), *deeds),
        refused,
        _rows(store, meant, runs, until, remarks),
        tuple(remarks),
    )


# Runs ---------------------------------------------------------------------------------------------------------------


def _attempts(store: Store, meant: Scope, since: datetime, until: datetime, remarks: list[str]) -> list[Attempted]:
    """The runs that started in a period and are meant, newest first."""
    floor, last = store.views.run_before(since), store.views.run_before(until)
    # The numbers are a little late rather than early: what is too old goes out by its time.
    found = store.views.attempts_between(max(floor - _MARGIN, 0), last, _MOST_RUNS + 1)
    if len(found) > _MOST_RUNS:
        found = found[:_MOST_RUNS]
        remarks.append(f"Only the last {count(_MOST_RUNS, 'run')} of the period are counted.")
    inside = (run for run in found if run.started is not None and since <= run.started < until)
    return [run for run in inside if _is_meant(meant, run)]


def _is_meant(meant: Scope, run: Attempted) -> bool:
    if meant.selector.is_empty:
        return True
    subject = Subject(None, run.dataid, run.jobid, run.status, None, run.owner, (run.outcome, run.detail))
    outputs = _outputs(meant.catalogue, run.jobid)
    return any(meant.matches(subject._replace(datasetid=name)) for name in outputs or (None,))


def _outputs(catalogue: Catalogue, jobid: str) -> tuple[str, ...]:
    job = catalogue.jobs.get(jobid)
    return job.outputs if job is not None else ()


def _counts(runs: Iterable[Attempted]) -> RunCounts:
    runs = list(runs)
    statuses = Counter(run.status for run in runs)
    failed = sum(is_failed(run) for run in runs)
    forced = sum(run.forced for run in runs)
    stopped = sum(run.outcome == Stopped.name for run in runs)
    return RunCounts(len(runs), statuses[READY], failed, statuses[_REFUSED], statuses[RUNNING], forced, stopped)


def _slices(runs: Sequence[Attempted], since: datetime, until: datetime) -> tuple[Slice, ...]:
    """The period in parts of a length that people know."""
    whole = (until - since).total_seconds()
    seconds = next((step for step in _STEPS if whole / step <= _MOST_SLICES), whole / _MOST_SLICES)
    tallies = [Counter[str]() for _ in range(max(ceil(whole / seconds - 0.01), 1))]
    for run in runs:
        if run.started is not None:
            part = int((run.started - since).total_seconds() / seconds)
            tallies[min(part, len(tallies) - 1)][FAILED if is_failed(run) else run.status] += 1
    slices = []
    for number, tally in enumerate(tallies):
        failed = tally[FAILED]
        other = tally.total() - tally[READY] - failed
        slices.append(Slice(since + timedelta(seconds=number * seconds), tally[READY], failed, other))
    return tuple(slices)


def _jobs(runs: Sequence[Attempted], before: Sequence[Attempted]) -> list[JobReport]:
    earlier: defaultdict[str, list[Attempted]] = defaultdict(list)
    for run in before:
        earlier[run.jobid].append(run)
    by_job: defaultdict[str, list[Attempted]] = defaultdict(list)
    for run in runs:
        by_job[run.jobid].append(run)
    return [_job(jobid, by_job[jobid], earlier[jobid]) for jobid in sorted(by_job)]


def _job(jobid: str, runs: Sequence[Attempted], before: Sequence[Attempted]) -> JobReport:
    took, took_before = _took(runs), _took(before)
    said = Counter(_key(run) for run in runs if is_failed(run))
    most = said.most_common(1)[0][0] if said else None
    return JobReport(
        jobid,
        _counts(runs),
        median(took) if took else None,
        median(took_before) if took_before else None,
        max(took, default=None),
        sum(run.seconds or 0.0 for run in runs),
        _counts(before).failed,
        next((_said(run) for run in runs if is_failed(run) and _key(run) == most), ""),
        tuple(took[:_POINTS][::-1]),
    )


def _took(runs: Iterable[Attempted]) -> list[float]:
    return [run.seconds for run in runs if run.status == READY and run.seconds is not None]


# Failures -----------------------------------------------------------------------------------------------------------


def _key(run: Attempted) -> tuple[str, str]:
    return run.outcome or run.status, cause_key(run.detail, (run.jobid, run.dataid))


def _said(run: Attempted) -> str:
    return gist(run.detail, _LONGEST) or run.outcome or run.status


def _short(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def _causes(store: Store, catalogue: Catalogue, runs: Sequence[Attempted]) -> list[ReportedCause]:
    groups: defaultdict[tuple[str, str], list[Attempted]] = defaultdict(list)
    for run in runs:
        if is_failed(run):
            groups[_key(run)].append(run)
    is_open = _not_ready(store, catalogue, [run for group in groups.values() for run in group])
    causes = []
    for (outcome, _), group in groups.items():
        chunks = {(run.jobid, run.dataid) for run in group}
        jobs = tuple(jobid for jobid, _ in Counter(run.jobid for run in group).most_common())
        first, last = group[-1].ended or group[-1].started, group[0].ended or group[0].started
        still = sum(chunk in is_open for chunk in chunks)
        causes.append(ReportedCause(outcome, _said(group[0]), len(group), len(chunks), still, jobs, first, last))
    return sorted(causes, key=lambda cause: (-cause.still_open, -cause.runs, cause.example))


def _not_ready(store: Store, catalogue: Catalogue, failed: Sequence[Attempted]) -> set[tuple[str, str]]:
    """The chunks among these, by job and dataid, that are not READY now; of very many only the newest are looked up."""
    chunks = list(dict.fromkeys((run.jobid, run.dataid) for run in failed))[:_MOST_CHUNKS]
    outputs = [(name, dataid) for jobid, dataid in chunks for name in _outputs(catalogue, jobid)]
    now = store.views.given_chunks(outputs)
    return {
        (jobid, dataid)
        for jobid, dataid in chunks
        if any(now.get((name, dataid)) != READY for name in _outputs(catalogue, jobid))
    }


# Late ---------------------------------------------------------------------------------------------------------------


def _late(
    store: Store, meant: Scope, runs: Sequence[Attempted], until: datetime | None, remarks: list[str]
) -> tuple[LateChunk, ...]:
    """What was READY only after it was due, and, in a period that goes on until now, what is late still."""
    if not is_declared(meant.catalogue):
        return ()
    found: dict[tuple[str, str], LateChunk] = {}
    for run in reversed(runs):  # the first publish of a chunk is the one that counts
        if run.status != READY or run.ended is None:
            continue
        for name in _outputs(meant.catalogue, run.jobid):
            due = due_of(meant.catalogue, name, run.dataid)
            if due is not None and run.ended > due and (name, run.dataid) not in found:
                late_by = (run.ended - due).total_seconds()
                found[name, run.dataid] = LateChunk(name, run.dataid, due, run.ended, None, late_by)
    if len(found) > _MOST_LATE:
        remarks.append(f"Of {count(len(found), 'late chunk')} the last {_MOST_LATE:,} are listed.")
        found = dict(list(found.items())[-_MOST_LATE:])
    again = {chunk for chunk, each in found.items() if _was_there(store, each)}
    waiting = [] if until else late(store, lambda *chunk: _is_meant_chunk(meant, *chunk), chains=False).late
    still = [
        LateChunk(each.datasetid, each.dataid, each.due, None, each.status, each.seconds_late, each.sign)
        for each in waiting
    ]
    return (*still, *(each for chunk, each in found.items() if chunk not in again))


def _was_there(store: Store, each: LateChunk) -> bool:
    """Whether a chunk was published in time, and once more later."""
    published = [
        version.published for version in store.views.manifests(each.datasetid, each.dataid) if version.published
    ]
    return any(moment <= each.due for moment in published)


def _is_meant_chunk(meant: Scope, datasetid: str, dataid: str, status: str | None) -> bool:
    return meant.selector.is_empty or meant.matches(Subject(datasetid, dataid, None, status))


# People -------------------------------------------------------------------------------------------------------------


def _forced(runs: Sequence[Attempted]) -> list[Deeds]:
    groups: defaultdict[str, list[Attempted]] = defaultdict(list)
    for run in runs:
        if run.forced:
            groups[_person(run.owner)].append(run)
    return [
        Deeds("forced", who, "", len(group), _names(run.jobid for run in group), group[-1].started, group[0].started)
        for who, group in groups.items()
    ]


def _deeds(
    store: Store, meant: Scope, since: datetime, until: datetime, remarks: list[str]
) -> tuple[tuple[Deeds, ...], tuple[Deeds, ...]]:
    """What people did in a period, and what was refused at the door."""
    floor, last = max(store.views.event_before(since) - _MARGIN, 0), store.views.event_before(until)
    if last - floor > _MOST_EVENTS:
        floor = last - _MOST_EVENTS
        remarks.append(f"What people did is told from the last {count(_MOST_EVENTS, 'event')} of the period.")
    found = store.views.deeds_between(floor, last, _MOST_DEEDS)
    if len(found) == _MOST_DEEDS:
        remarks.append(f"What people did is told from the last {_MOST_DEEDS:,} times that they did something.")
    groups: defaultdict[tuple[str, str, str], list[OperatorEvent]] = defaultdict(list)
    for deed in found:
        if deed.at is not None and since <= deed.at < until and _is_meant_deed(meant, deed):
            groups[_group(deed)].append(deed)
    told = [(key, _told(key, group)) for key, group in groups.items()]
    deeds = tuple(each for key, each in told if key[0] != "refused")[:_MOST_GROUPS]
    return deeds, tuple(each for key, each in told if key[0] == "refused")[:_MOST_GROUPS]


def _is_meant_deed(meant: Scope, deed: OperatorEvent) -> bool:
    said = (deed.after, deed.why)
    return meant.selector.is_empty or meant.matches(
        Subject(deed.datasetid, deed.dataid, deed.jobid, deed.after, deed.at, deed.who, said)
    )


def _group(deed: OperatorEvent) -> tuple[str, str, str]:
    """What makes two deeds one line: the same, by the same person, for the same reason."""
    if deed.kind == "refused":
        return "refused", deed.datasetid or "", f"{deed.after} {cause_key(deed.why, (deed.dataid or '',))}"
    what = f"{deed.after or 'removed'} by SQL" if deed.kind == "sql" else deed.kind
    return what, _person(deed.who), deed.why or ""


def _told(key: tuple[str, str, str], group: Sequence[OperatorEvent]) -> Deeds:
    newest = group[0]
    names = _names(deed.datasetid or deed.jobid or "" for deed in group)
    what = newest.after or key[0] if key[0] == "refused" else key[0]
    return Deeds(what, _person(newest.who), _short(newest.why or ""), len(group), names, group[-1].at, newest.at)


def _person(who: str | None) -> str:
    """Who it was, without the number of the process."""
    name, colon, number = (who or "").rpartition(":")
    return name if colon and number.isdigit() else who or ""


def _names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name, _ in Counter(name for name in names if name).most_common())


# Rows ---------------------------------------------------------------------------------------------------------------


def _rows(
    store: Store, meant: Scope, runs: Sequence[Attempted], until: datetime, remarks: list[str]
) -> tuple[DatasetRows, ...]:
    catalogue = meant.catalogue
    active = {name for jobid in {run.jobid for run in runs} for name in _outputs(catalogue, jobid)}
    names = [name for name in datasets_in_order(catalogue) if _is_about(meant, name)]
    if len(names) > _MOST_DATASETS:
        remarks.append(f"The row counts of {_MOST_DATASETS} of {count(len(names), 'dataset')} are shown.")
        kept = {*sorted(names, key=lambda name: name not in active)[:_MOST_DATASETS]}
        names = [name for name in names if name in kept]
    found = []
    for name in names:
        counts = [
            row for row in store.views.newest_rows(name, 2 * _POINTS) if not row.published or row.published < until
        ]
        points = counts[:_POINTS][::-1]
        if points:
            rows = tuple(int(row.rows) for row in points)
            usual = median(rows[:-1]) if len(rows) > 1 else None
            found.append(DatasetRows(name, tuple(row.dataid for row in points), rows, usual))
    return tuple(found)


def _is_about(meant: Scope, datasetid: str) -> bool:
    if meant.datasets is not None and datasetid not in meant.datasets:
        return False
    return not meant.selector.jobs or meant.catalogue.producer_id(datasetid) in meant.selector.jobs


_MARGIN = 2000  # numbers, by which transactions that overlapped may be out of order
