"""What happened and happens: runs, logs, history, what is late, recovery, reports and pools."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from ...insight.health import Health, health
from ...insight.history import HistoryPage, history
from ...insight.late import Lateness, late
from ...insight.pools import PoolUsage, pools
from ...insight.recovery import ByHand, Estimate, RecoveryProgress, RecoveryStep, RootCause, Unfinished, plan, progress
from ...insight.report import report
from ...insight.reported import PeriodReport
from ...insight.run_log import MOST as MOST_OF_LOG
from ...insight.run_log import LogSearch, RunLogPage, last_of_log, part_of_log, search_log
from ...insight.selection import scope
from ...model.data import plain
from ...model.selector import Subject
from ...store import Recovered, Run
from ..site import site_of
from .asking import (
    ABOUT,
    LAST,
    MOST,
    Before,
    Chosen,
    Datasets,
    FromDataid,
    IdText,
    LineText,
    Most,
    RunPath,
    ToDataid,
    answer,
    look,
    with_about,
)
from .schema import COUNT, FLAG, maybe, of, table, with_more

router = APIRouter()

_NEXT = maybe(COUNT)

# The plan of a recovery, as `odf recover --json` has it.
PLAN = {
    "causes": of(tuple[RootCause, ...]),
    "cause": of(int | None),
    "chosen": of(tuple[int, ...] | None),
    "found": of(Unfinished),
    "steps": of(tuple[RecoveryStep, ...]),
    "resubmit": of(tuple[tuple[str, str], ...]),
    "runs": COUNT,
    "estimate": of(Estimate),
    "by_hand": of(tuple[ByHand, ...]),
    "again": COUNT,
}


# Runs ----------------------------------------------------------------------------------------------------------------


@look(router, "/runs", table({"runs": of(list[Run]), "next": _NEXT}), "runs")
def get_runs(
    request: Request,
    job: Annotated[IdText | None, Query(description="Only attempts of this job.")] = None,
    failed: Annotated[bool, Query(description="Only attempts that did not end well.")] = False,
    before: Before = None,
    n: Most = 20,
) -> Response:
    """Attempts, newest first: `odf runs --json`."""
    with site_of(request).reading() as store:
        page = (store.views.failed_runs if failed else store.views.runs)(jobid=job, before=before, n=n)
        if not page and job is not None and not store.views.runs(jobid=job, n=1):
            store.catalogue().job(job)  # one that is gone has its history, one that never was is unknown
    return answer(request, {"runs": page, "next": page[-1].runid if len(page) == n else None})


@look(router, "/runs/{run}", Run, "runs")
def get_run(request: Request, run: RunPath) -> Response:
    """One attempt."""
    with site_of(request).reading() as store:
        return answer(request, store.views.run(run))


@look(router, "/runs/{run}/log", RunLogPage, "runs")
def get_run_log(
    request: Request,
    run: RunPath,
    position: Annotated[
        int | None, Query(ge=0, le=LAST, description="`end` of the part before; without it, the last lines.")
    ] = None,
    lines: Annotated[int, Query(ge=1, le=MOST, description="So many of the last lines.")] = 300,
) -> Response:
    """Part of what a run printed, with what could steer a terminal shown as text.

    Only logs in the project's own folder of logs are read. Secrets were removed before they were written.
    """
    site = site_of(request)
    with site.reading() as store:
        known = store.views.run(run)
        if position is None:
            return answer(request, last_of_log(store, site.project, known, lines))
        return answer(request, part_of_log(store, site.project, known, position, MOST_OF_LOG))


@look(router, "/runs/{run}/log/search", LogSearch, "runs")
def get_run_log_search(
    request: Request,
    run: RunPath,
    text: Annotated[LineText, Query(min_length=1, description="What is looked for, whatever its case.")],
    n: Annotated[int, Query(ge=1, le=200, description="At most this many lines.")] = 50,
) -> Response:
    """The lines of a run's log that hold a text."""
    site = site_of(request)
    with site.searching() as store:
        return answer(request, search_log(store, site.project, store.views.run(run), text, n))


# History -------------------------------------------------------------------------------------------------------------


class HistoryQuestion(Chosen):
    """Which events are meant."""

    kind: list[LineText] = Field([], max_length=30, description="Only these kinds: failed, published, resubmitted, …")
    before: int | None = Field(None, ge=1, le=LAST, description="`older` of the page before.")
    n: int = Field(50, ge=1, le=MOST, description="At most this many.")


@look(router, "/history", with_more(HistoryPage, ABOUT | {"next": _NEXT}, optional=tuple(ABOUT)), "history")
def get_history(request: Request, question: Annotated[HistoryQuestion, Query()]) -> Response:
    """What happened, newest first, to what, by whom and why: `odf history --json`.

    `next` is where the next page begins, which may be there although this page is short.
    """
    site = site_of(request)
    with site.stores.lent() as store:  # as it is written: what the next claim adds has no number yet
        selector = question.selector(site.project)
        page = history(store, selector, kinds=question.kind, n=question.n, before=question.before)
    return answer(request, with_about(request, plain(page) | {"next": page.older}))


class LateQuestion(Chosen):
    """Which chunks are meant."""

    n: int = Field(200, ge=1, le=MOST, description="At most this many.")


@look(router, "/late", with_more(Lateness, ABOUT, optional=tuple(ABOUT)), "history")
def get_late(request: Request, question: Annotated[LateQuestion, Query()]) -> Response:
    """What should be READY by now and is not, and what holds it up: `odf late --json`."""
    site = site_of(request)
    with site.reading() as store:
        meant = scope(store, question.selector(site.project))
        seen = late(
            store, lambda name, dataid, status: meant.matches(Subject(name, dataid, None, status)), most=question.n
        )
    return answer(request, with_about(request, plain(seen)))


@look(router, "/report", with_more(PeriodReport, ABOUT, optional=tuple(ABOUT)), "history")
def get_report(request: Request, question: Annotated[Chosen, Query()]) -> Response:
    """What a period brought, or the last day: `odf report --json`."""
    site = site_of(request)
    with site.reading() as store:
        found = report(store, question.selector(site.project))
    return answer(request, with_about(request, plain(found)))


# Recovery, pools, health ---------------------------------------------------------------------------------------------

Causes = Annotated[
    list[LineText], Query(alias="cause", max_length=20, description="Only these causes: numbers, or what they say.")
]


@look(router, "/recovery", table(PLAN | ABOUT | {"done": maybe(of(Recovered))}, optional=tuple(ABOUT)), "recovery")
def get_recovery(request: Request, cause: Causes = []) -> Response:  # noqa: B006 - the framework copies it
    """What an outage left, by cause, and the fewest RESUBMITs that heal it: `odf recover --json`."""
    with site_of(request).reading() as store:
        made = plan(store, cause or None)
    return answer(request, with_about(request, made.to_data() | {"done": None}))


@look(router, "/recovery/progress", with_more(RecoveryProgress, {"is_over": FLAG}), "recovery")
def get_recovery_progress(request: Request, cause: Causes = []) -> Response:  # noqa: B006 - likewise
    """How far everything is that happens by itself now, with a new estimate."""
    with site_of(request).reading() as store:
        now = progress(store, plan(store, cause or None, resubmits=False))
    return answer(request, plain(now) | {"is_over": now.is_over})


@look(router, "/pools", table({"pools": of(list[PoolUsage])}), "pools")
def get_pools(request: Request) -> Response:
    """All pools, and datasets that limit their readers, with their use: `odf pool --json`."""
    with site_of(request).reading() as store:
        return answer(request, {"pools": pools(store)})


@look(router, "/health", Health, "health")
def get_health(
    request: Request,
    dataset: Datasets = [],  # noqa: B006 - the framework copies it
    since: FromDataid = None,
    until: ToDataid = None,
) -> Response:
    """How bad it is: 0 OK, 1 WARNING, 2 CRITICAL; what `odf check` says."""
    with site_of(request).reading() as store:
        return answer(request, health(store, dataset, since=since, until=until))
