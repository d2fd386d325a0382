"""What job code imports: the @job decorator, and what a function may know about its chunk."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from collections.abc import Mapping as Table
from typing import Any, TypeVar, overload

from .errors import BadDefinition
from .model import Input, Job, Mapping, Retry, seconds
from .model.ids import shown
from .shapes import dataclass, field

Function = TypeVar("Function", bound=Callable[..., Any])
Read = str | Table[str, object] | Input

_MARK = "__odf_job__"


@dataclass(frozen=True, slots=True)
class Chunk:
    """What a job function may know about the chunk that it produces, by asking for the argument `chunk`."""

    jobid: str
    dataid: str
    epoch: int = 1
    bounds: tuple[str, str] | None = None
    env: Table[str, str] = field(default_factory=dict)
    inputs: Table[str, tuple[str, ...]] = field(default_factory=dict)
    log: logging.Logger = field(default_factory=lambda: logging.getLogger("opendataflow.job"))

    @property
    def lower(self) -> str | None:
        """The first value that the partition column may have; None where the dataid does not say."""
        return self.bounds[0] if self.bounds else None

    @property
    def upper(self) -> str | None:
        """The first value that it may not have any more."""
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
    """Mark a function as a job: it gets the DataFrames of its chunk by dataset name, and returns what to publish.

    The function itself stays what it was, so that a test can call it. The name of the job is that of the function.
    """

    def mark(decorated: Function) -> Function:
        inputs, outputs = _inputs(reads), (writes,) if isinstance(writes, str) else tuple(writes)
        jobid = name or decorated.__name__
        declared = None
        if inputs or outputs:
            limit = None if timeout is None else seconds(timeout, f"job {jobid}: timeout")
            declared = Job(jobid, inputs, outputs, dict(env or {}), Retry(retries), timeout=limit, pool=pool)
        setattr(decorated, _MARK, (jobid, declared))
        return decorated

    return mark if function is None else mark(function)


def is_job(thing: object) -> bool:
    """Whether this was marked with @job."""
    return callable(thing) and hasattr(thing, _MARK)


def name_of(function: Callable[..., Any]) -> str:
    """The name of the job that a function is."""
    marked: tuple[str, Job | None] = getattr(function, _MARK, (function.__name__, None))
    return marked[0]


def declared(function: Callable[..., Any]) -> Job | None:
    """The job as its decorator declares it; None when the decorator says nothing but @job."""
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
