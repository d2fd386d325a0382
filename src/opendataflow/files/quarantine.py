"""Quarantine: rows that a check refuses are kept aside as a chunk of their own, and the good ones are published."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import replace

from ..model import Dataset, Partition

REJECTED = "__rejected"
BECAUSE = "rejected_because"

_NOT_INHERITED = ("quarantine", "layout", "schema", "empty", "drift")


def has_quarantine(dataset: Dataset) -> bool:
    """Whether bad rows of this dataset are kept aside instead of failing the chunk."""
    return bool(dataset.options.get("quarantine", False))


def rejected_id(datasetid: str) -> str:
    """The dataset of the rows that were refused."""
    return datasetid + REJECTED


def rejected_dataset(dataset: Dataset) -> Dataset:
    """The dataset of the rows that were refused, beside the good ones; declared by nobody, so that all have one."""
    options: Mapping[str, object] = {k: v for k, v in dataset.options.items() if k not in _NOT_INHERITED}
    return replace(
        dataset,
        datasetid=rejected_id(dataset.datasetid),
        kind="file",
        hostname="",
        database="",
        schemaname="",
        tablename="",
        username="",
        encryptedpass="",
        location=_beside(dataset),
        format=dataset.format if dataset.kind == "file" else "parquet",
        partition=Partition(
            dataset.partition.type,
            count=dataset.partition.count,
            start=dataset.partition.start,
            end=dataset.partition.end,
        ),
        checks=(),
        options={**(options if dataset.kind == "file" else {}), "repeats": True, "empty": True},
    )


def _beside(dataset: Dataset) -> str:
    if dataset.kind != "file" or "{datasetid}" in dataset.location:
        return dataset.location or "{datasetid}/{dataid}"
    fixed = dataset.location.partition("{")[0]
    folder, name = posixpath.split(fixed)
    if fixed != dataset.location and not name:
        # clean/flights/{dataid} → clean/flights__rejected/{dataid}
        return f"{folder}{REJECTED}/{dataset.location[len(fixed) :]}" if folder else f"rejected/{dataset.location}"
    return posixpath.join(folder, f"{{datasetid}}/{name}{dataset.location[len(fixed) :]}")
