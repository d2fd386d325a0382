"""The order in which people think of datasets: along the flow."""

from __future__ import annotations

from collections.abc import Iterable

from ..model import TODAY, Catalogue


def datasets_in_order(catalogue: Catalogue) -> list[str]:
    """All datasets but the built-in one, producers before their consumers; what no job touches comes last."""
    ordered: dict[str, None] = {}
    for jobid in catalogue.order():
        job = catalogue.jobs[jobid]
        ordered |= dict.fromkeys(sorted(item.datasetid for item in job.inputs))
        ordered |= dict.fromkeys(job.outputs)
    ordered |= dict.fromkeys(sorted(catalogue.datasets))
    return [datasetid for datasetid in ordered if datasetid != TODAY.datasetid]


def chosen(catalogue: Catalogue, named: Iterable[str]) -> list[str]:
    """These datasets, or all when none is named; UnknownDataset for one that does not exist."""
    return [catalogue.dataset(name).datasetid for name in dict.fromkeys(named)] or datasets_in_order(catalogue)
