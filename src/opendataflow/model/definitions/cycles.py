"""Find jobs that wait for one another in a cycle."""

from __future__ import annotations

from ...errors import Cycle
from .job import Job


def waits_for(job: Job, producers: dict[str, Job]) -> set[str]:
    """The jobs whose chunks of the same dataid this job reads."""
    # A lag reads an earlier chunk than the one that is written: no cycle.
    read = (item.datasetid for item in job.inputs if item.mapping.kind != "lag")
    return {producers[datasetid].jobid for datasetid in read if datasetid in producers}


def cycles(waits: dict[str, set[str]]) -> dict[str, list[str]]:
    """The jobs in a cycle, each with its cycle; jobs that only wait for one are not included."""
    from graphlib import CycleError, TopologicalSorter

    try:
        TopologicalSorter(waits).prepare()
        return {}
    except CycleError:
        pass
    found: dict[str, list[str]] = {}
    for start in waits:
        ways = [[start]]
        visited = set()
        while ways:
            way = ways.pop(0)
            for waited in sorted(waits.get(way[0], ())):
                if waited == start:
                    found.setdefault(start, [start, *way])
                elif waited not in visited:
                    visited.add(waited)
                    ways.append([waited, *way])
    return found


def check_no_cycle(job: Job, cycles: dict[str, list[str]]) -> None:
    """Raise Cycle if a job waits for itself."""
    if job.jobid in cycles:
        raise Cycle(
            f"jobs wait for each other in a circle: {' → '.join(cycles[job.jobid])}",
            hint="To read an earlier chunk of a downstream dataset, use the mapping lag.",
        )
