"""Circles: jobs that wait for one another."""

from __future__ import annotations

from ..errors import Cycle
from .job import Job


def waits_for(job: Job, producers: dict[str, Job]) -> set[str]:
    """The jobs whose chunks of the same time this one reads."""
    # With a lag the chunk that is read is an earlier one than the chunk that is written: no circle.
    read = (item.datasetid for item in job.inputs if item.mapping.kind != "lag")
    return {producers[datasetid].jobid for datasetid in read if datasetid in producers}


def circles(waits: dict[str, set[str]]) -> dict[str, list[str]]:
    """The jobs that wait for themselves, each with a way back to it; a job that only waits for such a one is none."""
    from graphlib import CycleError, TopologicalSorter

    try:
        TopologicalSorter(waits).prepare()
        return {}
    except CycleError:
        pass
    found: dict[str, list[str]] = {}
    for start in waits:
        ways = [[start]]
        seen = set()
        while ways:
            way = ways.pop(0)
            for waited in sorted(waits.get(way[0], ())):
                if waited == start:
                    found.setdefault(start, [start, *way])
                elif waited not in seen:
                    seen.add(waited)
                    ways.append([waited, *way])
    return found


def check_no_circle(job: Job, circles: dict[str, list[str]]) -> None:
    """Cycle when a job waits for itself."""
    if job.jobid in circles:
        raise Cycle(
            f"jobs wait for each other in a circle: {' → '.join(circles[job.jobid])}",
            hint="With the mapping lag, a job may read an earlier chunk of what comes after it.",
        )
