"""The state of the model: rows as plain values, and what follows from them alone; nothing here knows SQL or the store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Self

from tests.histories.flows import POOL, Data, Flow, Read, Work

READY, RUNNING, FAILED, RESUBMIT, HOLD, PENDING = "READY", "RUNNING", "FAILED", "RESUBMIT", "HOLD", "PENDING"
DONE, LOST, REFUSED = "DONE", "LOST", "REFUSED"
SET_ASIDE = (HOLD, PENDING)

Chunk = tuple[str, str]
Pair = tuple[str, str]
Version = tuple[str, str, int]


class Refused(Exception):
    """What the store must answer with, by name; nothing has changed."""


class Out(NamedTuple):
    """The OUT row of a chunk."""

    jobid: str
    status: str
    epoch: int = 0
    version: int = 0
    runid: int | None = None
    tries: int = 0
    held: str | None = None


class Reading(NamedTuple):
    """The IN row of a job and a chunk."""

    status: str
    version: int = 0
    runid: int | None = None


class Run(NamedTuple):
    """One attempt."""

    jobid: str
    dataid: str
    epoch: int
    status: str
    pool: str
    forced: bool
    inputs: tuple[Version, ...]
    lease: float
    is_expired: bool = False


class Made(NamedTuple):
    """What one published version is: its content, where it is known, and what it was made from."""

    fingerprint: str | None
    inputs: tuple[Version, ...] = ()


class Note(NamedTuple):
    """What waits to be folded in: a typed change of a row, or that a dataset or a job has to be looked at again."""

    what: str  # OUT, IN, look, job
    datasetid: str = ""
    dataid: str = ""
    jobid: str = ""
    before: str | None = None
    after: str | None = None


class Needed(NamedTuple):
    """The chunks that one output needs; `exclusive` are those that belong to it alone."""

    chunks: list[Chunk]
    exclusive: list[Chunk]
    is_resolved: bool


class World:
    """Everything that is so at one moment."""

    def __init__(self, flow: Flow) -> None:
        self.datas: dict[str, Data] = {data.name: data for data in flow.datas}
        self.jobs: dict[str, Work] = {work.name: work for work in flow.works}
        self.slots: int | None = flow.slots
        self.paused: set[str] = set()
        self.out: dict[Chunk, Out] = {}
        self.read: dict[tuple[str, str, str], Reading] = {}  # (datasetid, dataid, jobid)
        self.runs: dict[int, Run] = {}
        self.made: dict[Chunk, dict[int, Made]] = {}
        self.links: dict[tuple[Chunk, Version], int] = {}  # an input, and a version made of it → what it read
        self.remade: dict[Chunk, int] = {}  # RESUBMIT only because what they were made from is newer
        self.recalled: set[Version] = set()
        self.vacuumed: set[Version] = set()
        self.deferred: set[Pair] = set()
        self.called_bad: set[Chunk] = set()
        self.notes: list[Note] = []

    def copy(self) -> Self:
        """Another one that is the same, for what may be undone."""
        other = object.__new__(type(self))
        for name, value in vars(self).items():
            if name == "made":
                other.made = {chunk: dict(versions) for chunk, versions in self.made.items()}
            else:
                setattr(other, name, value.copy() if hasattr(value, "copy") else value)
        return other

    # Definitions -----------------------------------------------------------------------------------------------------

    def producer(self, datasetid: str) -> Work | None:
        """The job that writes a dataset."""
        return next((work for work in self.jobs.values() if datasetid in work.writes), None)

    def written_together(self, datasetid: str) -> tuple[str, ...]:
        """What one run writes with it, itself included."""
        producer = self.producer(datasetid)
        return producer.writes if producer else (datasetid,)

    def consumers(self, datasetid: str) -> Iterator[tuple[Work, Read]]:
        """The jobs that read a dataset, and how."""
        for work in self.jobs.values():
            for read in work.reads:
                if read.name == datasetid:
                    yield work, read

    def upstream(self, datasetid: str) -> list[Work]:
        """Every job that has a part in producing a dataset."""
        found: dict[str, Work] = {}
        queue = [datasetid]
        while queue:
            producer = self.producer(queue.pop())
            if producer is not None and producer.name not in found:
                found[producer.name] = producer
                queue += [read.name for read in producer.reads]
        return list(found.values())

    def outputs(self, work: Work) -> tuple[str, ...]:
        """The dataids that a job may have."""
        return self.datas[work.writes[0]].ids

    # Mappings --------------------------------------------------------------------------------------------------------

    def mapped(self, read: Read, dataid: str) -> list[str]:
        """The dataids that an output needs of an input, where that does not depend on which chunks exist."""
        ids = self.datas[read.name].ids
        if read.kind == "identity":
            return [dataid]
        if read.kind == "lag":
            return [each for each in ids if int(each) == int(dataid) - read.n]
        if read.kind == "window":
            return [each for each in ids if int(dataid) - read.n < int(each) <= int(dataid)]
        if read.kind == "rollup":
            return [each for each in ids if each.startswith(dataid)]
        assert read.kind == "fan_out"
        return [each for each in ids if dataid.startswith(each)]

    def needed(self, work: Work, dataid: str) -> Needed:
        """The chunks that an output needs, as far as they can be named."""
        chunks: list[Chunk] = []
        exclusive: list[Chunk] = []
        is_resolved = True
        for read in work.reads:
            found = self._dynamic(work, read, dataid) if read.is_dynamic else self.mapped(read, dataid)
            if found is None:
                is_resolved = False
                continue
            chunks += [(read.name, each) for each in found]
            if not read.is_shared:
                exclusive += [(read.name, each) for each in found]
        return Needed(chunks, exclusive, is_resolved)

    def _dynamic(self, work: Work, read: Read, dataid: str) -> list[str] | None:
        there = [each for each in self.datas[read.name].ids if (read.name, each) in self.out]
        if read.kind == "latest":
            until = self._latest_bound(read, work, dataid)
            ready = [each for each in there if self.out[read.name, each].status == READY and order(each) <= until]
            return ready[-1:] or None
        if any(self.is_unfinished(job) for job in self.upstream(read.name)):
            return None
        if not there or any(self.out[read.name, each].status != READY for each in there):
            return None
        return there

    def _latest_bound(self, read: Read, work: Work, dataid: str) -> tuple[int, ...]:
        types = self.datas[read.name].type, self.datas[work.writes[0]].type
        if types == ("year", "month"):
            return order(dataid[:4])
        if types == ("month", "year"):
            return order(f"{dataid}-01")
        return order(dataid)

    def is_unfinished(self, work: Work) -> bool:
        """Whether a job still has something to produce, produces it now, or has a chunk that is not READY."""
        if any(run.jobid == work.name and run.status == RUNNING for run in self.runs.values()):
            return True
        if any(row.status != READY for (name, _), row in self.out.items() if name in work.writes):
            return True
        return any(self.is_claimable(work, dataid) for dataid in self.outputs(work))

    def is_running(self, runid: int | None) -> bool:
        """Whether an attempt is not over."""
        return runid in self.runs and self.runs[runid].status == RUNNING

    # Next ------------------------------------------------------------------------------------------------------------

    def is_claimable(self, work: Work, dataid: str, *, asked_for: bool = False) -> bool:
        """Whether statuses and locks allow a run, whatever limits say."""
        made = [row.status for name in work.writes if (row := self.out.get((name, dataid)))]
        if any(status != RESUBMIT for status in made):
            return False
        is_again = bool(made)
        if not (work.reads or asked_for or is_again):
            return False
        needed = self.needed(work, dataid)
        if not needed.is_resolved or any(not self.is_ready(chunk) for chunk in needed.chunks):
            return False
        return all(self._may_consume(work, dataid, chunk, is_again) for chunk in needed.exclusive)

    def is_ready(self, chunk: Chunk) -> bool:
        """Whether others may read a chunk."""
        return chunk in self.out and self.out[chunk].status == READY

    def _may_consume(self, work: Work, dataid: str, chunk: Chunk, is_again: bool) -> bool:
        reading = self.read.get((*chunk, work.name))
        if reading is None or reading.status == FAILED:
            return True
        run = self.runs.get(reading.runid) if reading.runid is not None else None
        if run is not None and run.dataid != dataid:
            return True  # for another one, by a mapping of before
        return reading.status == DONE and is_again

    def claimable(self, jobid: str) -> list[str]:
        """What a job may take, in order, deferred or not."""
        work = self.jobs[jobid]
        found = [dataid for dataid in self.outputs(work) if self.is_claimable(work, dataid)]
        return sorted(found, key=lambda dataid: (not self.is_again(work, dataid), order(dataid)))

    def candidates(self, jobid: str) -> list[str]:
        """The same without what is deferred."""
        return [dataid for dataid in self.claimable(jobid) if (jobid, dataid) not in self.deferred]

    def is_again(self, work: Work, dataid: str) -> bool:
        """Whether it comes before anything new."""
        return any((name, dataid) in self.out and self.out[name, dataid].status == RESUBMIT for name in work.writes)

    def epoch(self, work: Work, dataid: str) -> int:
        """The epoch of the next attempt: it only grows."""
        known = [run.epoch for run in self.runs.values() if (run.jobid, run.dataid) == (work.name, dataid)]
        for name in work.writes:
            if row := self.out.get((name, dataid)):
                known += [row.epoch, row.version]
            known += self.made.get((name, dataid), {})
        return 1 + max(known, default=0)

    def tries(self, work: Work, dataid: str) -> int:
        """The attempts so far, since a person or a publish said that they begin anew."""
        return max((self.out[name, dataid].tries for name in work.writes if (name, dataid) in self.out), default=0)

    def free(self, work: Work) -> int:
        """How many more runs of a job its limits allow."""
        if work.name in self.paused:
            return 0
        running = [run for run in self.runs.values() if run.status == RUNNING]
        free = [100]
        if work.pool and self.slots is not None:
            free.append(self.slots - sum(run.pool == POOL for run in running))
        for read in work.reads:
            readers = self.datas[read.name].readers
            if readers is not None:
                reading = {job.name for job, _ in self.consumers(read.name)}
                free.append(readers - sum(run.jobid in reading for run in running))
        return max(min(free), 0)

    def touched(self, chunks: Iterable[Chunk]) -> set[Pair]:
        """Every (job, dataid) that these chunks decide about, where mappings say so."""
        found: set[Pair] = set()
        for name, dataid in chunks:
            producer = self.producer(name)
            if producer is not None:
                found.add((producer.name, dataid))
            for work, read in self.consumers(name):
                if not read.is_dynamic:
                    found |= {(work.name, each) for each in self.outputs(work) if dataid in self.mapped(read, each)}
        return found


def order(dataid: str) -> tuple[int, ...]:
    """The position of a dataid."""
    return tuple(int(part) for part in dataid.split("-")) if dataid[0].isdigit() else (0,)
