"""Build the catalogue of all datasets, jobs and pools, and the job graph between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from ...errors import (
    BadDataid,
    BadDefinition,
    BadId,
    BadMapping,
    OdfError,
    TwoProducers,
    UnknownDataset,
    UnknownJob,
    UnknownPool,
)
from .broken import Broken, BrokenDefinition, Definition
from .calendar import comes_by_clock
from .cycles import check_no_cycle, cycles, waits_for
from .dataset import TODAY, Dataset
from .ids import is_id, shown
from .job import Input, Job, Pause, Pool
from .mapping import check_mapping, inputs, is_same, outputs
from .partition import Partition, bounds, fitting, from_ordinal

ALL = "all"

_T = TypeVar("_T")


class Catalogue(NamedTuple):
    """All definitions; Catalogue.build refuses invalid ones, of_what_fits collects broken ones."""

    datasets: dict[str, Dataset]
    jobs: dict[str, Job]
    pools: dict[str, Pool]
    implicit: tuple[Dataset, ...]
    producers: dict[str, Job]
    readers: dict[str, tuple[tuple[Job, Input], ...]]
    output_partitions: dict[str, Partition]
    broken: dict[Definition, Broken]
    paused: Mapping[str, Pause] = MappingProxyType({})

    @classmethod
    def build(cls, datasets: Iterable[Dataset], jobs: Iterable[Job], pools: Iterable[Pool] = ()) -> Catalogue:
        """The catalogue of these definitions; raises the named error for the first one that does not fit."""
        catalogue = cls.of_what_fits(datasets, jobs, pools)
        for broken in catalogue.broken.values():
            raise broken.problem
        return catalogue

    @classmethod
    def of_what_fits(
        cls,
        datasets: Iterable[Dataset],
        jobs: Iterable[Job],
        pools: Iterable[Pool] = (),
        broken: Iterable[Broken] = (),
    ) -> Catalogue:
        """The catalogue of all valid definitions; jobs that need an invalid one are broken too."""
        bad = {each.definition: each for each in broken}
        datasets_by_id = _by_id("dataset", ((dataset.datasetid, dataset) for dataset in datasets))
        jobs_by_id = _by_id("job", ((job.jobid, job) for job in jobs))
        pools_by_id = _by_id("pool", ((pool.poolid, pool) for pool in pools))
        if ("dataset", TODAY.datasetid) not in bad:
            today = datasets_by_id.setdefault(TODAY.datasetid, TODAY)
            if today.partition.type != "day":
                raise BadDefinition(f"dataset {TODAY.datasetid} is built in: its partition type is day")

        def sift(check: Callable[[Job], None]) -> None:
            for job in list(jobs_by_id.values()):
                try:
                    check(job)
                except OdfError as problem:
                    bad["job", job.jobid] = _concerned(job, problem)
                    del jobs_by_id[job.jobid]

        implicit: list[Dataset] = []
        partitions: dict[str, Partition] = {}
        sift(lambda job: _check_definitions_load(job, bad))
        sift(lambda job: _check_datasets_exist(job, datasets_by_id))
        writers = _writers(jobs_by_id, bad)
        sift(lambda job: _add_marker(job, datasets_by_id, jobs_by_id, writers, implicit))
        producers: dict[str, Job] = {}
        sift(lambda job: _add_producer(job, producers))
        sift(lambda job: partitions.update({job.jobid: _output_partition(job, datasets_by_id)}))
        sift(lambda job: _check_mappings(job, datasets_by_id, partitions[job.jobid]))
        ways_back = cycles({job.jobid: waits_for(job, producers) for job in jobs_by_id.values()})
        sift(lambda job: check_no_cycle(job, ways_back))
        made = {dataset.datasetid: dataset for dataset in implicit}
        return cls(
            {name: dataset for name, dataset in datasets_by_id.items() if name in jobs_by_id or name not in made},
            jobs_by_id,
            pools_by_id,
            tuple(dataset for dataset in implicit if dataset.datasetid in jobs_by_id),
            {name: job for name, job in producers.items() if job.jobid in jobs_by_id},
            _consumers_of(jobs_by_id),
            partitions,
            bad,
        )

    def dataset(self, datasetid: str) -> Dataset:
        """The dataset with this id, or UnknownDataset."""
        return self._named(self.datasets, "dataset", datasetid, UnknownDataset)

    def job(self, jobid: str) -> Job:
        """The job with this id, or UnknownJob."""
        return self._named(self.jobs, "job", jobid, UnknownJob)

    def pool(self, poolid: str) -> Pool:
        """The pool with this id, or UnknownPool."""
        return self._named(self.pools, "pool", poolid, UnknownPool)

    def _named(self, known: dict[str, _T], what: str, name: str, error: type[OdfError]) -> _T:
        if name in known:
            return known[name]
        if (what, name) in self.broken:
            raise BrokenDefinition(self.broken[what, name])
        is_other = name in (self.datasets if what == "job" else self.jobs if what == "dataset" else ())
        hint = f"{name} is a {'dataset' if what == 'job' else 'job'}." if is_other else _nearest(name, known)
        raise error(f"there is no {what} {name if is_id(name) else shown(name)}", hint=hint)

    def producer(self, datasetid: str) -> Job | None:
        """The job that writes this dataset."""
        return self.producers.get(datasetid)

    def producer_id(self, datasetid: str) -> str | None:
        """The id of the job that writes this dataset, even if the job is broken."""
        producer = self.producer(datasetid)
        broken = None if producer else self.broken_producer(datasetid)
        return producer.jobid if producer else broken.name if broken else None

    def written_together(self, datasetid: str) -> tuple[str, ...]:
        """The datasets that one run writes with this one, itself included, even if the job is broken."""
        producer = self.producer(datasetid) or self.broken_producer(datasetid)
        return producer.outputs if producer is not None else (datasetid,)

    def broken_upstream(self, datasetid: str) -> Broken | None:
        """A broken job upstream of this dataset, if any: whether it is complete is unknown."""
        queue, visited = [datasetid], set()
        while queue:
            name = queue.pop()
            if name in visited:
                continue
            visited.add(name)
            if broken := self.broken_producer(name):
                return broken
            job = self.producer(name)
            queue += [item.datasetid for item in job.inputs] if job is not None else []
        return None

    def broken_producer(self, datasetid: str) -> Broken | None:
        """The broken job that declares this dataset as its output, if any."""
        return next((each for each in self.broken.values() if datasetid in each.outputs), None)

    def consumers(self, datasetid: str) -> tuple[tuple[Job, Input], ...]:
        """The jobs that read this dataset, with the input of each."""
        return self.readers.get(datasetid, ())

    def only_tracks(self, job: Job) -> bool:
        """Whether neither inputs nor outputs have a location or checks."""
        names = (*(item.datasetid for item in job.inputs), *job.outputs)
        return all(self.dataset(name).is_only_tracked for name in names)

    def output_partition(self, job: Job) -> Partition:
        """The partition of a job's outputs: their common type, within the bounds of each."""
        return self.output_partitions[self.job(job.jobid).jobid]

    def inputs_of(self, job: Job, output_id: str) -> list[tuple[str, str]]:
        """The chunks that an output needs, without inputs with dynamic mappings."""
        return [
            (item.datasetid, dataid)
            for item in job.inputs
            if not item.mapping.is_dynamic
            for dataid in self.needed(job, item, output_id)
        ]

    def needed(self, job: Job, input: Input, output_id: str) -> list[str]:
        """The dataids of one input that an output needs."""
        return inputs(input.mapping, self.datasets[input.datasetid].partition, self.output_partition(job), output_id)

    def upstream(self, datasetid: str) -> list[str]:
        """Every job upstream of this dataset, its producer first."""
        jobids: dict[str, None] = {}
        queue = [datasetid]
        while queue:
            job = self.producer(queue.pop())
            if job is not None and job.jobid not in jobids:
                jobids[job.jobid] = None
                queue += [item.datasetid for item in job.inputs]
        return list(jobids)

    def outputs_of(self, job: Job, input: Input, input_id: str) -> list[str]:
        """The outputs of an input chunk; none for dynamic mappings, "all" if every input is mapped by `all`."""
        if input.mapping.is_dynamic:
            return [ALL] if takes_all(job) else []
        return outputs(input.mapping, self.dataset(input.datasetid).partition, self.output_partition(job), input_id)

    def outputs_of_all(self, job: Job, input: Input, input_ids: Iterable[str]) -> Iterator[str]:
        """The outputs of many input chunks; a malformed dataid, written by SQL, has none."""
        if is_same(input.mapping, self.dataset(input.datasetid).partition, self.output_partition(job)):
            yield from fitting(self.output_partition(job), input_ids)
            return
        for input_id in input_ids:
            try:
                yield from self.outputs_of(job, input, input_id)
            except (BadDataid, BadId):
                continue

    def order(self) -> list[str]:
        """The job ids in the order of the flow: producers before consumers."""
        from graphlib import TopologicalSorter

        waits = {jobid: sorted(waits_for(self.jobs[jobid], self.producers)) for jobid in sorted(self.jobs)}
        return list(TopologicalSorter(waits).static_order())


def _concerned(job: Job, problem: OdfError) -> Broken:
    """A job that does not fit, by itself or because of a definition that it needs."""
    outputs = job.outputs or (job.jobid,)
    if isinstance(problem, BrokenDefinition):
        cause = problem.broken
        return Broken("job", job.jobid, cause.problem, cause.statement, cause.rows_of, outputs=outputs)
    return Broken("job", job.jobid, problem, outputs=outputs)


def _check_definitions_load(job: Job, bad: dict[Definition, Broken]) -> None:
    """Refuse a job that reads, writes or runs in a definition that does not load."""
    uses = [("reads", "dataset", item.datasetid) for item in job.inputs]
    uses += [("writes", "dataset", name) for name in job.outputs]
    uses += [("runs in", "pool", job.pool)]
    for verb, what, name in uses:
        broken = bad.get((what, name))
        if broken is not None:
            message = f"job {job.jobid} {verb} {what} {name}, which does not load: {broken.problem.message}"
            raise BrokenDefinition(broken._replace(problem=type(broken.problem)(message, hint=broken.problem.hint)))


def _check_mappings(job: Job, datasets: dict[str, Dataset], output: Partition) -> None:
    for item in job.inputs:
        check_mapping(
            item.mapping, datasets[item.datasetid].partition, output, f"job {job.jobid}, input {item.datasetid}"
        )
    if takes_all(job):
        if output.type != "text":
            raise BadMapping(
                f"job {job.jobid}: every input is mapped by all, so its one output is {ALL!r}, "
                f"but its output has partition type {output.type}",
                hint="Give the output the partition type text, or one input a mapping that names its dataid.",
            )
    elif job.inputs and all(item.mapping.is_dynamic for item in job.inputs):
        raise BadMapping(
            f"job {job.jobid}: no input names the dataid of the output",
            hint="The mappings latest and all only join what another input names. The dataset today names every day.",
        )


def without_beginning(job: Job, datasets: Mapping[str, Dataset]) -> list[str]:
    """The datasets of which a job reads an earlier chunk of its own output, without a declared start."""
    read = [item.datasetid for item in job.inputs if item.mapping.kind == "lag" and item.datasetid in job.outputs]
    partitions = {name: datasets[name].partition for name in read if name in datasets}
    return [name for name, each in partitions.items() if each.start is None and each.count is None]


def no_beginning(jobid: str, datasetid: str) -> str:
    """The message for such a dataset."""
    return (
        f"{jobid} reads the chunk of {datasetid} before its own, so none can be the first: "
        f"declare where it begins, [dataset.{datasetid}] partition = {{ …, start = … }}"
    )


def takes_all(job: Job) -> bool:
    """Whether every input of the job is mapped by `all`, so that its only output is "all"."""
    return bool(job.inputs) and all(item.mapping.kind == "all" for item in job.inputs)


def _by_id(what: str, pairs: Iterable[tuple[str, _T]]) -> dict[str, _T]:
    by_id: dict[str, _T] = {}
    for name, value in pairs:
        if name in by_id:
            raise BadDefinition(f"{what} {name} is defined twice")
        by_id[name] = value
    return by_id


def _nearest(name: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(str(name)[:128], list(known), n=1)
    return f"Did you mean {close[0]}?" if close else ""


def _check_datasets_exist(job: Job, datasets: dict[str, Dataset]) -> None:
    for verb, names in (("reads", [item.datasetid for item in job.inputs]), ("writes", job.outputs)):
        for name in names:
            if name not in datasets:
                raise UnknownDataset(
                    f"job {job.jobid} {verb} dataset {name}, which does not exist", hint=_nearest(name, datasets)
                )
    for name in job.outputs:
        if comes_by_clock(datasets[name]):
            raise BadDefinition(f"job {job.jobid} writes dataset {name}, whose chunks the clock announces")


def _writers(jobs: dict[str, Job], bad: dict[Definition, Broken]) -> dict[str, str]:
    """The declared writer of each dataset, broken ones included."""
    pairs = [(job.jobid, job.outputs) for job in jobs.values()]
    pairs += [(each.name, each.outputs) for each in bad.values()]
    return {datasetid: jobid for jobid, outputs in pairs for datasetid in outputs}


def _add_marker(
    job: Job, datasets: dict[str, Dataset], jobs: dict[str, Job], writers: dict[str, str], made: list[Dataset]
) -> None:
    """Add a dataset that is only tracked, named after the job, to a job without outputs, to record its runs."""
    if job.outputs:
        return
    if job.jobid == TODAY.datasetid:
        raise BadDefinition(
            f"job {job.jobid} needs an output",
            hint="The job has the name of a built-in dataset, so it cannot have a marker dataset.",
        )
    if job.jobid in writers:
        raise _two_producers(writers[job.jobid], job.jobid, job.jobid)
    if job.jobid not in datasets:
        marker = Dataset(job.jobid, partition=_marker_partition(job, datasets))
        datasets[job.jobid] = marker
        made.append(marker)
    jobs[job.jobid] = replace(job, outputs=(job.jobid,))


def _marker_partition(job: Job, datasets: dict[str, Dataset]) -> Partition:
    named = [item for item in job.inputs if not item.mapping.is_dynamic]
    if not named:
        return Partition()
    partition = datasets[named[0].datasetid].partition
    kind = named[0].mapping.kind
    if kind == "identity":
        return replace(partition, column=None, lower=None, upper=None)
    if kind in ("lag", "window"):
        # The last inputs map to outputs beyond the end of the input.
        return Partition(partition.type, count=partition.count, start=partition.start)
    raise BadDefinition(
        f"job {job.jobid} has no output, and {named[0].mapping} does not say how its runs are partitioned",
        hint="Declare a dataset with a partition and let the job write it.",
    )


def _add_producer(job: Job, producers: dict[str, Job]) -> None:
    for datasetid in job.outputs:
        if datasetid in producers:
            raise _two_producers(producers[datasetid].jobid, job.jobid, datasetid)
    producers.update(dict.fromkeys(job.outputs, job))


def _two_producers(one: str, other: str, datasetid: str) -> TwoProducers:
    return TwoProducers(
        f"jobs {one} and {other} both write dataset {datasetid}",
        hint="A dataset has one producer. Let each write its own, and a third job join them.",
    )


def _consumers_of(jobs: dict[str, Job]) -> dict[str, tuple[tuple[Job, Input], ...]]:
    consumers: dict[str, list[tuple[Job, Input]]] = {}
    for job in jobs.values():
        for item in job.inputs:
            consumers.setdefault(item.datasetid, []).append((job, item))
    return {datasetid: tuple(readers) for datasetid, readers in consumers.items()}


def _output_partition(job: Job, datasets: dict[str, Dataset]) -> Partition:
    first, *others = (datasets[datasetid].partition for datasetid in job.outputs)
    common = first
    for datasetid, other in zip(job.outputs[1:], others, strict=True):
        if other.type != first.type:
            raise BadDefinition(
                f"job {job.jobid} writes {job.outputs[0]} by {first.type} and {datasetid} by {other.type}",
                hint="One run writes one dataid: all outputs of a job have the same partition type.",
            )
        if (other.start, other.end, other.count) != (common.start, common.end, common.count):
            common = _narrowed(common, other, job)
    return common


def _narrowed(a: Partition, b: Partition, job: Job) -> Partition:
    start = max(bounds(a)[0], bounds(b)[0])
    end = min(bounds(a)[1], bounds(b)[1])
    if start > end:
        raise BadDefinition(
            f"the outputs of job {job.jobid} have no dataid in common",
            hint="Compare start, end and count of their partitions.",
        )
    return replace(a, start=from_ordinal(a, start), end=from_ordinal(a, end))
