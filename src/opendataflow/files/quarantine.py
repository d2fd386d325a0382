"""Defines the quarantine dataset of a dataset, which receives the rows that its checks reject, and the limit of such rows."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import replace

from ..errors import BadDefinition
from ..model import Dataset, Partition
from ..model.definitions.ids import shown

REJECTED = "__rejected"
BECAUSE = "rejected_because"

_NOT_INHERITED = ("quarantine", "layout", "schema", "empty", "drift", "expected", "deadline")


DEFAULT_LIMIT = "10 %"  # of the rows; with more rejected rows the chunk itself fails
SHAPE = 'true, or a table like { max = "1 %" } or { max = 100 }'

_share = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?) ?%").fullmatch


def has_quarantine(dataset: Dataset) -> bool:
    """Whether rejected rows of this dataset are quarantined instead of failing the chunk."""
    return dataset.options.get("quarantine", False) is not False


def is_quarantine(value: object) -> bool:
    """Whether a value is a valid quarantine option: true, false, or a table with the limit of rejected rows."""
    return isinstance(value, bool) or (isinstance(value, Mapping) and set(value) <= {"max"} and _is_limit(value))


def _is_limit(table: Mapping[object, object]) -> bool:
    limit = table.get("max", DEFAULT_LIMIT)
    if isinstance(limit, str):
        share = _share(limit)
        return share is not None and float(share[1]) <= 100
    return isinstance(limit, int) and not isinstance(limit, bool) and limit >= 0


def limit_of(dataset: Dataset) -> str | int:
    """The limit of rejected rows of a chunk: a share like "10 %", or a number."""
    declared = dataset.options.get("quarantine")
    if not is_quarantine(declared):
        raise BadDefinition(
            f"dataset {dataset.datasetid}: quarantine cannot be {shown(declared)}", hint=f"Write {SHAPE}."
        )
    return declared.get("max", DEFAULT_LIMIT) if isinstance(declared, Mapping) else DEFAULT_LIMIT


def is_within(limit: str | int, rejected: int, total: int) -> bool:
    """Whether this number of rejected rows is within the limit."""
    share = _share(limit) if isinstance(limit, str) else None
    return rejected * 100 <= float(share[1]) * total if share else rejected <= int(limit)


def rejected_id(datasetid: str) -> str:
    """The id of the dataset of rejected rows."""
    return datasetid + REJECTED


def rejected_dataset(dataset: Dataset) -> Dataset:
    """The dataset of rejected rows, derived from the dataset itself; no declaration is needed."""
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
        location=_rejected_location(dataset),
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


def _rejected_location(dataset: Dataset) -> str:
    if dataset.kind != "file" or "{datasetid}" in dataset.location:
        return dataset.location or "{datasetid}/{dataid}"
    fixed = dataset.location.partition("{")[0]
    folder, name = posixpath.split(fixed)
    if fixed != dataset.location and not name:
        # clean/flights/{dataid} → clean/flights__rejected/{dataid}
        return f"{folder}{REJECTED}/{dataset.location[len(fixed) :]}" if folder else f"rejected/{dataset.location}"
    return posixpath.join(folder, f"{{datasetid}}/{name}{dataset.location[len(fixed) :]}")
