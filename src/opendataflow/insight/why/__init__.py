"""Why a job does not run: what stands in the way, in words, and which command would help."""

from __future__ import annotations

from ...project import Project
from ...store import Store
from .chunk import about_chunk
from .job import about_job
from .reasons import Reason, Why

__all__ = ["Reason", "Why", "why"]


def why(store: Store, jobid: str, dataid: str | None = None, project: Project | None = None) -> Why:
    """What stands in the way of a job, or of one dataid of it; where a project is given, also what its files say."""
    catalogue = store.catalogue()
    job = catalogue.job(jobid)
    if dataid is None:
        return about_job(store, catalogue, job, project)
    return about_chunk(store, catalogue, job, dataid, project)
