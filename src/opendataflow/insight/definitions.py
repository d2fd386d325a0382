"""Definitions as people may see them: never with a password, encrypted or not."""

from __future__ import annotations

from typing import Any

from ..model import Dataset, Job
from ..store.loading import dataset_data, job_data


def job_facts(job: Job) -> dict[str, Any]:
    """Everything that is registered about a job."""
    return {"jobid": job.jobid, **job_data(job)}


def dataset_facts(dataset: Dataset) -> dict[str, Any]:
    """Everything that is registered about a dataset; of its password only that there is one."""
    return dataset_data(dataset) | {"encryptedpass": "(encrypted)" if dataset.encryptedpass else ""}
