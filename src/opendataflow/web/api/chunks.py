"""Chunks, datasets and jobs: what there is, how it stands, and why."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from ...errors import UsageError
from ...insight.chunk_page import ChunkPage, chunk_page
from ...insight.definitions import BrokenFact, broken_facts, dataset_facts, job_facts, unapplied_line
from ...insight.diff import diff
from ...insight.explain import Explanation, explain
from ...insight.explain_then import explain_then
from ...insight.flow import datasets_in_order
from ...insight.flow_of import Flow, Reach, flow
from ...insight.flow_picture import Picture, flow_picture
from ...insight.late import Late, deadlines_missed
from ...insight.lineage import VersionLineage, lineage
from ...insight.matrix import Overview, overview
from ...insight.past import chunk_list_then, overview_then
from ...insight.stale import Impact, impact
from ...insight.then import seen_at
from ...insight.why import Why, why
from ...insight.why_then import WhyThen, why_then
from ...model import Job
from ...model.data import plain
from ...store import Published
from ..site import site_of
from .asking import (
    ABOUT,
    LAST_VERSION,
    At,
    DataidPath,
    DatasetPath,
    Datasets,
    EndText,
    FromDataid,
    JobPath,
    LineText,
    Most,
    ToDataid,
    answer,
    look,
    past_of,
    with_about,
)
from .schema import TABLE, array, of, table, with_more

router = APIRouter()

NOT_SHOWN = "(not shown)"

StatusWord = Annotated[LineText | None, Query(alias="status", description="Only this status or sign.")]
Version = Annotated[int | None, Query(ge=1, le=LAST_VERSION)]


# What there is -------------------------------------------------------------------------------------------------------

_STATUS = with_more(
    Overview,
    ABOUT | {"broken": of(list[BrokenFact]), "unapplied": of(str), "pending": of(list[str]), "late": of(list[Late])},
    optional=("late", *ABOUT),
)


@look(router, "/status", _STATUS, "chunks")
def get_status(
    request: Request,
    dataset: Datasets = [],  # noqa: B006 - the framework copies it
    since: FromDataid = None,
    until: ToDataid = None,
    status: StatusWord = None,
    width: Annotated[int, Query(ge=20, le=500, description="So many columns fit; a cell may be a period.")] = 100,
    at: At = None,
) -> Response:
    """The matrix of datasets and dataids: `odf status --json`.

    Where the dataids do not fit, a cell stands for a period and shows the worst status in it.
    """
    site, then = site_of(request), past_of(request, at)
    with site.reading() as store:
        only: dict[str, Any] = {"since": since, "until": until, "status": status, "width": width}
        seen = overview(store.views, dataset, **only) if then is None else overview_then(store, then, dataset, **only)
        facts = plain(seen) | {"broken": broken_facts(store.catalogue(), site.project)}
        facts["unapplied"] = unapplied_line(site.project, store)
        with store.looking() as pending:
            facts["pending"] = pending.words
        is_narrow = then is not None or since or until or status
        overdue = None if is_narrow else deadlines_missed(store, dataset)
    return answer(request, with_about(request, facts | ({} if overdue is None else {"late": overdue.late})))


@look(router, "/chunks", ChunkPage, "chunks")
def get_chunks(
    request: Request,
    dataset: Datasets = [],  # noqa: B006 - the framework copies it
    since: FromDataid = None,
    until: ToDataid = None,
    status: StatusWord = None,
    after: Annotated[EndText | None, Query(description="`next` of the page before: DATASET:DATAID.")] = None,
    n: Most = 100,
    at: At = None,
) -> Response:
    """The chunks themselves, in the order of the flow and of their dataids: `odf status --chunks --json`.

    With `at` they are told from the history, and there is no further page.
    """
    then = past_of(request, at)
    only: dict[str, Any] = {"since": since, "until": until, "status": status, "n": n}
    with site_of(request).reading() as store:
        if then is None:
            return answer(request, chunk_page(store.views, dataset, after=after, **only))
        if after is not None:
            raise UsageError("`at` has one page", hint="Leave out `after`, and ask for a range of dataids.")
        return answer(request, ChunkPage(tuple(chunk_list_then(store, then, dataset, **only)), None))


@look(router, "/datasets", table({"datasets": array(TABLE)}), "definitions")
def get_datasets(request: Request) -> Response:
    """All datasets in the order of the flow, never with a password: `odf datasets --json`."""
    with site_of(request).reading() as store:
        catalogue = store.catalogue()
    named = datasets_in_order(catalogue)
    return answer(request, {"datasets": [dataset_facts(catalogue.datasets[name]) for name in named]})


@look(router, "/datasets/{dataset}", TABLE, "definitions")
def get_dataset(request: Request, dataset: DatasetPath) -> Response:
    """One dataset in full: `odf datasets DATASET --json`."""
    with site_of(request).reading() as store:
        return answer(request, dataset_facts(store.catalogue().dataset(dataset)))


@look(router, "/datasets/{dataset}/flow", Flow, "flow")
def get_dataset_flow(
    request: Request,
    dataset: DatasetPath,
    up: Annotated[bool, Query(description="What it comes from.")] = True,
    down: Annotated[bool, Query(description="What comes out of it.")] = True,
    depth: Annotated[int, Query(ge=1, le=1000, description="So many jobs far.")] = 10,
    at: At = None,
) -> Response:
    """The datasets and jobs around a dataset: `odf lineage DATASET --json`."""
    then = past_of(request, at)
    with site_of(request).reading() as store:
        return answer(request, flow(seen_at(store, then), dataset, Reach(up, down, depth), then))


@look(router, "/flow", Picture, "flow")
def get_flow(
    request: Request,
    around: Annotated[
        LineText | None, Query(description="Only what is around this node: `dataset:X` or `job:X`.")
    ] = None,
    depth: Annotated[int, Query(ge=1, le=1000, description="So many jobs far from it.")] = 2,
    not_well: Annotated[bool, Query(description="Only what somebody has to look at.")] = False,
) -> Response:
    """Every dataset and job, what leads where, and the worst that is the matter with each: `odf lineage --json`."""
    with site_of(request).reading() as store:
        return answer(request, flow_picture(store, around=around or None, depth=depth, only_not_well=not_well))


@look(router, "/jobs", table({"jobs": array(TABLE)}), "definitions")
def get_jobs(request: Request) -> Response:
    """All jobs in the order of the flow: `odf jobs --json`, without the values of env items."""
    with site_of(request).reading() as store:
        catalogue = store.catalogue()
    return answer(request, {"jobs": [_job_facts(catalogue.jobs[jobid]) for jobid in catalogue.order()]})


@look(router, "/jobs/{job}", TABLE, "definitions")
def get_job(request: Request, job: JobPath) -> Response:
    """One job in full: `odf jobs JOB --json`, without the values of its env items."""
    with site_of(request).reading() as store:
        return answer(request, _job_facts(store.catalogue().job(job)))


def _job_facts(job: Job) -> dict[str, Any]:
    """What is registered about a job; of its env items only the names, since what they hold may be for the job alone."""
    return job_facts(job) | {"env": dict.fromkeys(job.env, NOT_SHOWN)}


# Why -----------------------------------------------------------------------------------------------------------------


@look(router, "/jobs/{job}/why", {"anyOf": [of(Why), of(WhyThen)]}, "decisions")
def get_job_why(request: Request, job: JobPath, at: At = None) -> Response:
    """What stands in the way of a job, and which command would help: `odf why JOB --json`."""
    return _why(request, job, None, at)


@look(router, "/jobs/{job}/why/{dataid}", {"anyOf": [of(Why), of(WhyThen)]}, "decisions")
def get_job_why_chunk(request: Request, job: JobPath, dataid: DataidPath, at: At = None) -> Response:
    """What stands in the way of one chunk of a job: `odf why JOB DATAID --json`."""
    return _why(request, job, dataid, at)


def _why(request: Request, jobid: str, dataid: str | None, at: str | None) -> Response:
    site, then = site_of(request), past_of(request, at)
    with site.reading() as store:
        if then is not None:
            return answer(request, why_then(store, jobid, dataid, then))
        return answer(request, why(store, jobid, dataid, project=site.project))


@look(router, "/chunks/{dataset}/{dataid}", Explanation, "decisions")
def get_chunk(request: Request, dataset: DatasetPath, dataid: DataidPath, at: At = None) -> Response:
    """The five questions about a chunk, now and at each past run, and all that is known of it: `odf explain --json`."""
    site, then = site_of(request), past_of(request, at)
    with site.reading() as store:
        if then is not None:
            return answer(request, explain_then(store, dataset, dataid, then))
        return answer(request, explain(store.views, dataset, dataid, site.project))


# Versions ------------------------------------------------------------------------------------------------------------


@look(router, "/chunks/{dataset}/{dataid}/versions", table({"versions": of(list[Published])}), "lineage")
def get_chunk_versions(request: Request, dataset: DatasetPath, dataid: DataidPath, n: Most = 100) -> Response:
    """The manifests of a chunk's versions, newest first."""
    with site_of(request).reading() as store:
        store.catalogue().dataset(dataset)
        return answer(request, {"versions": store.views.manifests(dataset, dataid)[:n]})


@look(router, "/chunks/{dataset}/{dataid}/lineage", VersionLineage, "lineage")
def get_chunk_lineage(
    request: Request,
    dataset: DatasetPath,
    dataid: DataidPath,
    version: Version = None,
    up: Annotated[bool, Query(description="What it came from.")] = True,
    down: Annotated[bool, Query(description="What came out of it.")] = True,
    depth: Annotated[int, Query(ge=1, le=1000, description="So many jobs far.")] = 10,
    at: At = None,
) -> Response:
    """The versions that really went into a chunk and came out of it: `odf lineage DATASET DATAID --json`."""
    then = past_of(request, at)
    with site_of(request).reading() as store:
        return answer(request, lineage(store, dataset, dataid, version, Reach(up, down, depth), then))


@look(router, "/chunks/{dataset}/{dataid}/impact", Impact, "lineage")
def get_chunk_impact(request: Request, dataset: DatasetPath, dataid: DataidPath) -> Response:
    """What was really made from a chunk, and what of it is stale: `odf impact --json`."""
    with site_of(request).reading() as store:
        return answer(request, impact(store, dataset, dataid))


@look(router, "/chunks/{dataset}/{dataid}/diff", TABLE, "lineage")
def get_chunk_diff(
    request: Request, dataset: DatasetPath, dataid: DataidPath, v1: Version = None, v2: Version = None
) -> Response:
    """How one version of a chunk differs from another, by what was recorded of them: `odf diff --json`."""
    with site_of(request).reading() as store:
        return answer(request, diff(store, dataset, dataid, v1, v2))
