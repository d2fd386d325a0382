"""Sheets: the facts of whole pages: the timeline, and one chunk, dataset, job or run in full."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from ...insight.chunk_sheet import ChunkSheet, chunk_sheet
from ...insight.dataset_sheet import DatasetSheet, dataset_sheet
from ...insight.definitions import dataset_facts
from ...insight.flow_picture import NodeChunks, chunks_of_node
from ...insight.job_sheet import JobSheet, job_sheet
from ...insight.run_sheet import RunSheet, run_sheet
from ...insight.timeline import Timeline, timeline
from ...model.data import names_of
from ..site import site_of
from .asking import (
    LAST,
    DataidPath,
    DatasetPath,
    IdText,
    JobPath,
    LineText,
    MomentText,
    Most,
    RunPath,
    answer,
    look,
    moment_of,
)
from .schema import TABLE, with_more

router = APIRouter()


@look(router, "/flow/chunks", NodeChunks, "flow")
def get_flow_chunks(
    request: Request,
    node: Annotated[LineText, Query(min_length=1, description="A dataset or a job.")],
) -> Response:
    """The chunks of one dataset or job in the flow that matter most."""
    with site_of(request).reading() as store:
        return answer(request, chunks_of_node(store, node))


@look(router, "/timeline", Timeline, "runs")
def get_timeline(
    request: Request,
    since: Annotated[MomentText | None, Query(description="From then on: 2026-11-14, 03:00, 2h. Default: 1h.")] = None,
    until: Annotated[MomentText | None, Query(description="Until then. Default: now.")] = None,
    by: Annotated[Literal["worker", "pool", "job"], Query(description="What a lane is.")] = "worker",
    job: Annotated[IdText | None, Query(description="Only runs of this job.")] = None,
) -> Response:
    """The runs of a period by worker, pool or job, and what they waited for."""
    site = site_of(request)
    begin, end = moment_of(site.project, since), moment_of(site.project, until, end=True)
    with site.reading() as store:
        return answer(request, timeline(store, begin, end, by, job or ""))


# One thing in full ---------------------------------------------------------------------------------------------------


@look(router, "/chunks/{dataset}/{dataid}/sheet", ChunkSheet, "chunks")
def get_chunk_sheet(request: Request, dataset: DatasetPath, dataid: DataidPath) -> Response:
    """Everything that the page of a chunk tells."""
    site = site_of(request)
    with site.reading() as store:
        return answer(request, chunk_sheet(store, site.project, dataset, dataid))


@look(router, "/datasets/{dataset}/sheet", with_more(DatasetSheet, {"dataset": TABLE}), "definitions")
def get_dataset_sheet(
    request: Request,
    dataset: DatasetPath,
    before: Annotated[IdText | None, Query(description="Chunks before this dataid.")] = None,
    n: Most = 100,
) -> Response:
    """Everything that the page of a dataset tells, with its newest chunks."""
    with site_of(request).reading() as store:
        sheet = dataset_sheet(store, dataset, before=before, n=n)
    facts = {name: getattr(sheet, name) for name in names_of(DatasetSheet)}
    return answer(request, facts | {"dataset": dataset_facts(sheet.dataset)})  # never with a password


@look(router, "/jobs/{job}/sheet", JobSheet, "definitions")
def get_job_sheet(
    request: Request,
    job: JobPath,
    before: Annotated[int | None, Query(ge=1, le=LAST, description="Runs older than this one.")] = None,
) -> Response:
    """Everything that the page of a job tells."""
    site = site_of(request)
    with site.reading() as store:
        return answer(request, job_sheet(store, site.project, job, before))


@look(router, "/runs/{run}/sheet", RunSheet, "runs")
def get_run_sheet(request: Request, run: RunPath) -> Response:
    """Everything that the page of a run tells: its receipt, the names of its variables, and what it read and wrote."""
    site = site_of(request)
    with site.reading() as store:
        return answer(request, run_sheet(store, site.project, run))
