"""The shapes of flow that a history may have: plain data for the model, and the same as definitions for the store."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from opendataflow import Dataset, Input, Job, Mapping, Partition, Pool
from opendataflow.model import RetryRule

NUMBERS = ("2", "9", "10")
STEPS = ("1", "2", "3", "4")
MONTHS = ("2024-11", "2024-12", "2025-01", "2025-02")
YEARS = ("2024", "2025")
ALL = ("all",)
FAR = 5000.0  # seconds that no history lasts
POOL = "pool"


class Data(NamedTuple):
    """A dataset: every dataid that it may have, and whether its partition says so."""

    name: str
    ids: tuple[str, ...] = NUMBERS
    type: str = "number"
    bounded: bool = False
    readers: int | None = None


class Read(NamedTuple):
    """One input of a job."""

    name: str
    kind: str = "identity"
    n: int = 1

    @property
    def is_shared(self) -> bool:
        """Whether one chunk may belong to several outputs: its IN row does not lock."""
        return self.kind in ("window", "fan_out", "latest", "all") and (self.kind, self.n) != ("window", 1)

    @property
    def is_dynamic(self) -> bool:
        """Whether it depends on which chunks exist."""
        return self.kind in ("latest", "all")


class Work(NamedTuple):
    """A job and its rules."""

    name: str
    reads: tuple[Read, ...]
    writes: tuple[str, ...]
    retries: int = 0
    backoff: float = 0.0
    retry_on: tuple[str, ...] = ()
    on_new_version: str = "stale"
    pool: str = ""
    lease: float = 1000.0

    @property
    def takes_all(self) -> bool:
        """Whether its only dataid is "all"."""
        return bool(self.reads) and all(read.kind == "all" for read in self.reads)


class Flow(NamedTuple):
    """What is registered when a history begins, and what each job may be changed to meanwhile."""

    name: str
    datas: tuple[Data, ...]
    works: tuple[Work, ...]
    others: tuple[Work, ...] = ()
    slots: int | None = None

    def ids_of(self, name: str) -> tuple[str, ...]:
        """The dataids of a dataset."""
        return next(data.ids for data in self.datas if data.name == name)

    def outputs_of(self, jobid: str) -> tuple[str, ...]:
        """The dataids that a job may have."""
        return self.ids_of(next(work for work in self.works if work.name == jobid).writes[0])


def _steps(name: str) -> Data:
    return Data(name, STEPS, "number", bounded=True)


def _months(name: str) -> Data:
    return Data(name, MONTHS, "month", bounded=True)


def _years(name: str) -> Data:
    return Data(name, YEARS, "year", bounded=True)


def _chain() -> Flow:
    return Flow(
        "chain",
        (Data("raw"), Data("mid"), Data("out")),
        (Work("a", (Read("raw"),), ("mid",)), Work("b", (Read("mid"),), ("out",))),
        (Work("b", (Read("mid"), Read("raw")), ("out",)),),
    )


def _join() -> Flow:
    return Flow(
        "join",
        (Data("left"), Data("right"), Data("sum"), Data("out")),
        (Work("j", (Read("left"), Read("right")), ("sum",)), Work("k", (Read("sum"), Read("left")), ("out",))),
        (Work("j", (Read("left"),), ("sum",)),),
    )


def _several() -> Flow:
    return Flow(
        "several outputs",
        (Data("raw"), Data("good"), Data("bad"), Data("end")),
        (Work("s", (Read("raw"),), ("good", "bad")), Work("c", (Read("good"), Read("bad")), ("end",))),
        (Work("c", (Read("bad"),), ("end",)),),
    )


def _lag() -> Flow:
    return Flow(
        "lag",
        (_steps("raw"), _steps("sum"), _steps("late")),
        (Work("add", (Read("raw"), Read("sum", "lag")), ("sum",)), Work("after", (Read("sum", "lag", 1),), ("late",))),
        (Work("add", (Read("raw"), Read("sum", "lag", 2)), ("sum",)),),
    )


def _window() -> Flow:
    return Flow(
        "window",
        (_steps("raw"), _steps("mean"), _steps("top")),
        (Work("w", (Read("raw", "window", 3),), ("mean",)), Work("t", (Read("mean", "window", 2),), ("top",))),
        (Work("w", (Read("raw", "window", 2),), ("mean",)),),
    )


def _rollup() -> Flow:
    return Flow(
        "rollup",
        (_months("raw"), _months("month"), _years("year")),
        (Work("m", (Read("raw"),), ("month",)), Work("y", (Read("month", "rollup"),), ("year",))),
    )


def _fan_out() -> Flow:
    return Flow(
        "fan out",
        (_years("plan"), _months("part"), _months("raw"), _months("done")),
        (
            Work("f", (Read("plan", "fan_out"),), ("part",)),
            Work("g", (Read("raw"), Read("plan", "fan_out"), Read("part")), ("done",)),
        ),
    )


def _latest() -> Flow:
    return Flow(
        "latest",
        (Data("raw"), Data("rates"), Data("out"), Data("end")),
        (Work("l", (Read("raw"), Read("rates", "latest")), ("out",)), Work("e", (Read("out"),), ("end",))),
    )


def _latest_period() -> Flow:
    return Flow(
        "latest of another period",
        (_months("raw"), _years("plan"), _months("out"), _years("sum")),
        (
            Work("l", (Read("raw"), Read("plan", "latest")), ("out",)),
            Work("y", (Read("plan"), Read("out", "latest")), ("sum",)),
        ),
    )


def _all() -> Flow:
    return Flow(
        "all",
        (Data("raw"), Data("mid"), Data("total", ALL, "text")),
        (Work("a", (Read("raw"),), ("mid",)), Work("t", (Read("mid", "all"),), ("total",))),
    )


def _all_beside() -> Flow:
    return Flow(
        "all beside another",
        (Data("raw"), Data("mid"), Data("low"), Data("out")),
        (
            Work("a", (Read("raw"),), ("mid",)),
            Work("b", (Read("mid"),), ("low",)),
            Work("t", (Read("raw"), Read("low", "all")), ("out",)),
        ),
    )


def _all_of_source() -> Flow:
    return Flow(
        "all of a source",
        (Data("made"), Data("mid"), Data("total", ALL, "text")),
        (
            Work("src", (), ("made",)),
            Work("a", (Read("made"),), ("mid",)),
            Work("t", (Read("mid", "all"),), ("total",)),
        ),
    )


def _source() -> Flow:
    return Flow(
        "source",
        (Data("made"), Data("mid"), Data("sink")),
        (Work("src", (), ("made",)), Work("a", (Read("made"),), ("mid",)), Work("sink", (Read("mid"),), ("sink",))),
    )


SHAPES = (
    _chain,
    _join,
    _several,
    _lag,
    _window,
    _rollup,
    _fan_out,
    _latest,
    _latest_period,
    _all,
    _all_beside,
    _all_of_source,
    _source,
)


def drawn(rng: Random) -> Flow:
    """A shape, with rules of its own."""
    flow = rng.choice(SHAPES)()
    pooled = rng.random() < 0.4
    ruled = [_ruled(rng, work, pooled) for work in flow.works]
    rules = {work.name: work for work in ruled}
    others = tuple(rules[work.name]._replace(reads=work.reads) for work in flow.others)
    datas = flow.datas
    if rng.random() < 0.25:
        limited = rng.choice([read.name for work in ruled for read in work.reads])
        datas = tuple(data._replace(readers=rng.choice([1, 1, 2])) if data.name == limited else data for data in datas)
    return flow._replace(datas=datas, works=tuple(ruled), others=others, slots=rng.choice([None, 1, 2, 3]))


def _ruled(rng: Random, work: Work, pooled: bool) -> Work:
    return work._replace(
        retries=rng.choice([0, 0, 1, 2]),
        backoff=rng.choice([0.0, 0.0, FAR]),
        retry_on=rng.choice([(), (), ("JOB_FAILED",), ("LEASE_LOST",)]),
        on_new_version=rng.choice(["stale", "rerun", "rerun", "ignore"]),
        pool=POOL if pooled and rng.random() < 0.7 else "",
    )


def dataset(data: Data) -> Dataset:
    """As the store registers it."""
    start, end = (data.ids[0], data.ids[-1]) if data.bounded else (None, None)
    options = {} if data.readers is None else {"readers": data.readers}
    return Dataset(data.name, partition=Partition(data.type, start=start, end=end), options=options)


def job(work: Work) -> Job:
    """As the store registers it."""
    return Job(
        work.name,
        tuple(Input(read.name, Mapping(read.kind, read.n)) for read in work.reads),
        () if work.writes == (work.name,) else work.writes,  # it gets a marker dataset, named after it
        lease=work.lease,
        pool=work.pool,
        retry=RetryRule(work.retries, backoff=work.backoff, backoff_max=2 * FAR, on=work.retry_on),
        options={"on_new_version": work.on_new_version},
    )


def pool(slots: int | None) -> Pool:
    """As the store registers it."""
    return Pool(POOL, slots)
