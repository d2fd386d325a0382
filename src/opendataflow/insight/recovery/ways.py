"""Ways: from chunks to the runs that read them, and back, remembered, since hundreds of jobs map the same dataids alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...errors import BadDataid, BadId
from ...model import Catalogue, Input, Job, inputs, outputs

ChunkId = tuple[str, str]

_Lookup = Callable[[str], list[str]]


class MappedReader(NamedTuple):
    """A job that reads a dataset by a mapping that names its outputs; without a look-up, by the same dataid."""

    job: Job
    outputs: _Lookup | None


class Ways:
    """Both directions of all mappings that do not depend on which chunks exist."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._lookups: dict[tuple[object, ...], _Lookup] = {}
        self._inputs: dict[str, list[tuple[str, _Lookup | None]]] = {}
        self._readers: dict[str, list[MappedReader]] = {}

    def inputs(self, job: Job, dataid: str) -> list[ChunkId]:
        """The chunks that a run needs; none for a dataid that the job cannot have."""
        if job.jobid not in self._inputs:
            self._inputs[job.jobid] = [
                (item.datasetid, self._lookup(job, item, back=True))
                for item in job.inputs
                if not item.mapping.is_dynamic
            ]
        found: list[ChunkId] = []
        for datasetid, needed in self._inputs[job.jobid]:
            if needed is None:
                found.append((datasetid, dataid))
            else:
                found += [(datasetid, each) for each in needed(dataid)]
        return found

    def readers(self, datasetid: str) -> list[MappedReader]:
        """The jobs that read a dataset; not those that read nothing but their own past, which has no end."""
        if datasetid not in self._readers:
            self._readers[datasetid] = [
                MappedReader(job, self._lookup(job, item, back=False))
                for job, item in self._catalogue.consumers(datasetid)
                if not item.mapping.is_dynamic and any(each.datasetid not in job.outputs for each in job.inputs)
            ]
        return self._readers[datasetid]

    def _lookup(self, job: Job, item: Input, *, back: bool) -> _Lookup | None:
        read, written = self._catalogue.datasets[item.datasetid].partition, self._catalogue.output_partition(job)
        bounds = (read.type, read.start, read.end, read.count, written.type, written.start, written.end, written.count)
        if item.mapping.kind == "identity" and read.type == written.type and not any(bounds[1:4] + bounds[5:]):
            return None
        key = (back, item.mapping, *bounds)
        if key not in self._lookups:
            known: dict[str, list[str]] = {}
            other_side = inputs if back else outputs

            def lookup(dataid: str) -> list[str]:
                if dataid not in known:
                    try:
                        known[dataid] = other_side(item.mapping, read, written, dataid)
                    except (BadDataid, BadId):
                        known[dataid] = []  # malformed, typed by somebody: it belongs to nothing
                return known[dataid]

            self._lookups[key] = lookup
        return self._lookups[key]
