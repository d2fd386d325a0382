"""Health: whether a person has to look, in one line for monitoring."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ..model import FAILED, HOLD, PENDING, READY, RESUBMIT, RUNNING, Catalogue, Partition
from ..store import Store
from .absent import is_within, refused_chunks
from .axis import FIRST_KEY, LAST_KEY
from .late import is_declared, late
from .matrix import overview, window
from .usual import seconds_so_far, usual_of
from .words import are, count, duration, many

_OK, _WARNING, _CRITICAL = range(3)
_TOO_LONG = 3  # times as long as usual
MOST_LATE = 1000
_LEAST = 60.0  # seconds: what is over sooner does not hang


@dataclass(frozen=True, slots=True)
class Health:
    """How bad it is (0 OK, 1 WARNING, 2 CRITICAL), what it is, and the figures."""

    level: int
    text: str
    figures: dict[str, int]


def health(store: Store, named: Sequence[str] = (), *, since: str | None = None, until: str | None = None) -> Health:
    """The worst of what there is in these datasets, or in all."""
    catalogue = store.catalogue()
    seen = overview(store.views, named, since=since, until=until, exact=True)
    lines = [line for block in seen.blocks for line in block.lines]
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(line.counts)
    names = {line.datasetid for line in lines}
    jobs = [job for job in catalogue.jobs.values() if not named or names & {*job.outputs}]
    jobids = {job.jobid for job in jobs}
    runs = [run for run in store.views.running() if run.jobid in jobids]
    usually = usual_of(store, [run.jobid for run in runs])
    over = [run for run in store.views.expired() if run.jobid in jobids]
    failed = [line.datasetid for line in lines if line.counts.get(FAILED)]
    refused = _refused(store, catalogue, {line.datasetid for line in lines} if named else None, since, until)
    paused = [jobid for jobid in catalogue.paused if jobid in jobids]
    critical = [
        *([f"{many(counts[FAILED])} FAILED ({', '.join(failed[:5])})"] if failed else []),
        *(
            f"{many(len(some))} REFUSED with {name} ({' '.join(some[0])}): odf recover"
            for name, some in refused.items()
        ),
        *([f"{count(len(catalogue.broken), 'broken definition')}: odf doctor"] if catalogue.broken else []),
        *([f"{count(len(over), 'run')} lost: odf rescue"] if over else []),
    ]
    if counts[RUNNING] and (unheld := _unheld(store, catalogue, names, since, until)):
        (name, dataid), n = unheld[0], len(unheld)
        them = "it" if n == 1 else "them"
        critical.append(f"{many(n)} RUNNING, and no run holds {them} ({name} {dataid}): odf recover")
    aside = counts[HOLD] + counts[PENDING]
    overdue = _overdue(store, named, since, until) if is_declared(catalogue) else None
    warning = [
        *([f"{many(overdue, MOST_LATE)} late: odf late"] if overdue else []),
        *([f"{many(aside)} {are(aside)} set aside"] if aside else []),
        *(f"job {jobid} is paused" for jobid in paused),
        *(
            f"run {run.runid} of {run.jobid} {run.dataid} runs for {duration(seconds_so_far(run))}, usually {duration(usual)}"
            for run in runs
            for usual in [usually.get(run.jobid)]
            if usual is not None and seconds_so_far(run) > max(_TOO_LONG * usual, _LEAST)
        ),
    ]
    figures = {status.lower(): counts[status] for status in (READY, RUNNING, FAILED, RESUBMIT, HOLD, PENDING)}
    figures["refused"] = sum(map(len, refused.values()))
    if overdue is not None:
        figures["late"] = overdue
    level = _CRITICAL if critical else _WARNING if warning else _OK
    text = "; ".join(critical + warning) or f"{many(counts[READY])} READY, {counts[RUNNING]:,} RUNNING"
    return Health(level, text, figures)


def _overdue(store: Store, named: Sequence[str], since: str | None, until: str | None) -> int:
    """How many chunks of these datasets missed their deadline and are not READY; counting stops at MOST_LATE."""
    datasets = store.catalogue().datasets

    def is_meant(name: str, dataid: str, status: str | None) -> bool:
        return (not named or name in named) and _is_within(datasets[name].partition, dataid, since, until)

    return len(late(store, is_meant, chains=False, only_deadlines=True, most=MOST_LATE).late)


def _unheld(
    store: Store, catalogue: Catalogue, names: set[str], since: str | None, until: str | None
) -> list[tuple[str, str]]:
    """The RUNNING chunks of these datasets that no run holds."""
    found = [chunk for chunk in store.views.unheld() if chunk[0] in names]
    return [chunk for chunk in found if _is_within(catalogue.datasets[chunk[0]].partition, chunk[1], since, until)]


def _is_within(partition: Partition, dataid: str, since: str | None, until: str | None) -> bool:
    return is_within(partition, dataid, window(partition, since, until) or (LAST_KEY, FIRST_KEY))


def _refused(
    store: Store, catalogue: Catalogue, named: set[str] | None, since: str | None, until: str | None
) -> dict[str, list[tuple[str, str]]]:
    """By the name of the no, the chunks that are not READY and whose last delivery or attempt was refused."""
    found: dict[str, list[tuple[str, str]]] = {}
    for (name, dataid), status, event in refused_chunks(store.views, store.views.refusals()):
        dataset = catalogue.datasets.get(name)
        if dataset is None or status == READY or (named is not None and name not in named):
            continue
        if _is_within(dataset.partition, dataid, since, until):
            found.setdefault(event.after or "", []).append((name, dataid))
    return found
