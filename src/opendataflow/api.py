"""The API for job code: the @job decorator and the chunk that a job function receives."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from collections.abc import Mapping as Table
from dataclasses import dataclass, field
from typing import Any, TypeVar, overload

from .errors import BadDefinition
from .model import Input, Job, Mapping, RetryRule, seconds
from .model.definitions.ids import shown

Function = TypeVar("Function", bound=Callable[..., Any])
Read = str | Table[str, object] | Input

_MARK = "__odf_job__"


@dataclass(frozen=True, slots=True)
class ChunkContext:
    """The chunk that a job function produces, passed as the argument `chunk`."""

    jobid: str
    dataid: str
    epoch: int = 1
    bounds: tuple[str, str] | None = None
    env: Table[str, str] = field(default_factory=dict)
    inputs: Table[str, tuple[str, ...]] = field(default_factory=dict)
    log: logging.Logger = field(default_factory=lambda: logging.getLogger("opendataflow.job"))

    @property
    def lower(self) -> str | None:
        """The lower bound of the partition column, inclusive; None if the dataid has no bounds."""
        return self.bounds[0] if self.bounds else None

    @property
    def upper(self) -> str | None:
        """The upper bound of the partition column, exclusive; None if the dataid has no bounds."""
        return self.bounds[1] if self.bounds else None


@overload
def job(function: Function, /) -> Function: ...


@overload
def job(
    *,
    name: str | None = None,
    reads: Read | Iterable[Read] = (),
    writes: str | Iterable[str] = (),
    env: Table[str, str] | None = None,
    retries: int = 0,
    timeout: float | str | None = None,
    pool: str = "",
) -> Callable[[Function], Function]: ...


def job(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    reads: Read | Iterable[Read] = (),
    writes: str | Iterable[str] = (),
    env: Table[str, str] | None = None,
    retries: int = 0,
    timeout: float | str | None = None,
    pool: str = "",
) -> Function | Callable[[Function], Function]:
    """Mark a function as a job: it receives the DataFrames of its chunk by dataset name and returns the output.

    The function itself is unchanged, so that a test can call it. The default job name is the function's name.
    """

    def mark(decorated: Function) -> Function:
        inputs, outputs = _inputs(reads), (writes,) if isinstance(writes, str) else tuple(writes)
        jobid = name or decorated.__name__
        declared = None
        if inputs or outputs:
            limit = None if timeout is None else seconds(timeout, f"job {jobid}: timeout")
            declared = Job(jobid, inputs, outputs, dict(env or {}), RetryRule(retries), timeout=limit, pool=pool)
        setattr(decorated, _MARK, (jobid, declared))
        return decorated

    return mark if function is None else mark(function)


def is_job(value: object) -> bool:
    """Whether a value is a function that is marked with @job."""
    return callable(value) and hasattr(value, _MARK)


def name_of(function: Callable[..., Any]) -> str:
    """The job name of a function."""
    marked: tuple[str, Job | None] = getattr(function, _MARK, (function.__name__, None))
    return marked[0]


def declared(function: Callable[..., Any]) -> Job | None:
    """The job as its decorator declares it; None if the decorator declares no inputs and outputs."""
    marked: tuple[str, Job | None] = getattr(function, _MARK, ("", None))
    return marked[1]


def _inputs(reads: Read | Iterable[Read]) -> tuple[Input, ...]:
    if isinstance(reads, (str, Table, Input)):
        reads = (reads,)
    return tuple(_input(item) for item in reads)


def _input(item: Read) -> Input:
    if isinstance(item, Input):
        return item
    if isinstance(item, str):
        return Input(item)
    if not isinstance(item, Table) or set(item) - {"dataset", "mapping"} or not isinstance(item.get("dataset"), str):
        raise BadDefinition(
            f"reads: expected the name of a dataset, not {shown(item)}",
            hint='Write "flights" or {"dataset": "flights", "mapping": "rollup"}.',
        )
    return Input(str(item["dataset"]), Mapping.from_data(item.get("mapping")))  # type: ignore[arg-type]
