"""Why a job does not run: what stands in the way, in words, and which command would help."""

from __future__ import annotations

from dataclasses import replace

from ...model import YES
from ...project import Project
from ...run.context import Vault
from ...store import Store
from .chunk import about_chunk
from .job import about_job
from .reasons import Reason, Why, by_script, cannot_run_here, only_its_caller_knows_its_script

__all__ = ["Reason", "Why", "why"]


def why(
    store: Store, jobid: str, dataid: str | None = None, vault: Vault | None = None, project: Project | None = None
) -> Why:
    """What stands in the way of a job, or of one dataid of it; with a vault also what its project and key say.

    Whoever only looks, and has no key, gives the project alone.
    """
    with store.looking() as pending:
        return replace(_why(store, jobid, dataid, vault, project), pending=pending.words)


def _why(store: Store, jobid: str, dataid: str | None, vault: Vault | None, project: Project | None) -> Why:
    catalogue = store.catalogue()
    job = catalogue.job(jobid)
    project = vault.project if vault is not None else project
    known = store, catalogue, job
    answer = about_job(*known, project) if dataid is None else about_chunk(*known, dataid, project)
    if project is not None and only_its_caller_knows_its_script(project, job):
        answer = replace(answer, reasons=tuple(by_script(reason, jobid) for reason in answer.reasons))
    here = tuple(cannot_run_here(catalogue, job, vault)) if vault is not None else ()
    if not here:
        return answer
    verdict = here[0].name if answer.verdict == YES else answer.verdict
    others = tuple(reason for reason in answer.reasons if reason.name != YES)
    return replace(answer, verdict=verdict, reasons=(*here, *others) if answer.verdict == YES else (*others, *here))
