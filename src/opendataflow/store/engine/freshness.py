"""Mark versions stale whose inputs changed, and resubmit or restore their chunks by the job's rule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...model import HOLD, PENDING, READY, RERUN, RUNNING, Catalogue, Job
from ...model.definitions.partition import fitting
from ..drivers.base import Transaction
from ..records import Current, LineageLink, RolledBack, Steered, current, link
from ..rows import compact
from ..version_records import Remade, Superseded, VersionId
from . import candidates, steering, transition
from .candidates import Statuses
from .facts import statuses_of
from .inputs import ChunkId
from .run_end import FinishedRun
from .transition import OperatorAct, StatusChange

SET_ASIDE_OR_RUNNING = frozenset((HOLD, PENDING, RUNNING))
VersionLink = tuple[str, str, int, str, str, int]  # a version, and the input version that it was made from


def mark_stale(
    tx: Transaction,
    catalogue: Catalogue,
    chunks: Sequence[ChunkId],
    act: OperatorAct,
    links: Sequence[VersionLink] = (),
    *,
    are_new: bool = False,
    is_superseded: bool = False,
    by_operator: bool = False,
) -> None:
    """Update the stale marks after these chunks got another version; `links` are the inputs of these versions.

    Runs after the candidates: their locks serialize a producer and a consumer that publish at the same time.
    `are_new`: the chunks had no version before, so no version was made from one. `is_superseded`: an input has a newer
    version. `by_operator`: an operator chose these versions, so they are not rerun themselves.
    """
    if not chunks:
        return
    _lock_dynamic_mappings(tx, catalogue, {datasetid for datasetid, _ in chunks}, are_new)
    if are_new and not is_superseded:
        return  # fast path for the common case
    given = compact(chunks)
    superseded = tx.fetch(Superseded._make, "superseded_given", chunks=given, links=compact(links))
    tx.run("remake_drop", chunks=given)
    if superseded:
        tx.run("stale_clear", chunks=given)
    newer = {row[:3] + row[5:7]: row for row in superseded if row.jobid and not row.is_same}
    if newer:
        tx.run("stale_put", marks=compact([(*row[:3], *row[5:8]) for row in newer.values()]))
    rerun: dict[str, list[Superseded]] = {}
    chosen = set(chunks)
    for row in newer.values():
        job = catalogue.producer(row.datasetid)
        is_chosen = by_operator and (row.datasetid, row.dataid) in chosen
        if job is not None and job.on_new_version == RERUN and row.status == READY and not is_chosen:
            rerun.setdefault(row.in_datasetid, []).append(row)
    for name, rows in rerun.items():
        inputs = sorted({row.in_dataid for row in rows})
        why = (
            f"{name} {inputs[0]} has a new version" if len(inputs) == 1 else f"{len(inputs):,} chunks of {name} are new"
        )
        remake(tx, catalogue, [(row.datasetid, row.dataid) for row in rows], act._replace(why=why))
    restore(tx, catalogue, chunks, act.who)


def _lock_dynamic_mappings(tx: Transaction, catalogue: Catalogue, datasets: set[str], are_new: bool) -> None:
    """Serialize producers and consumers with dynamic mappings, which no pair lock covers."""
    producers = {job.jobid for name in datasets if (job := catalogue.producer(name)) and _has_dynamic_input(job)}
    if producers:
        tx.lock("lock_consuming", jobs=compact(sorted(producers)))
    consumers = {} if are_new else candidates.dynamic_consumers(catalogue, datasets)
    if consumers:
        tx.lock("lock_renewing", jobs=compact(sorted(consumers)))


def _has_dynamic_input(job: Job | None) -> bool:
    return job is not None and any(item.mapping.is_dynamic for item in job.inputs)


def mark_after_publish(
    tx: Transaction,
    catalogue: Catalogue,
    done: Sequence[FinishedRun],
    adopted: Iterable[str],
    act: OperatorAct,
    statuses: Statuses,
) -> None:
    """Mark versions stale after runs were published; `adopted` are further datasets with a row set aside in the first run.

    `statuses` are the inputs as read after the candidates were locked.
    """
    chunks = [(datasetid, run.claim.dataid) for run in done for datasetid in run.claim.outputs]
    chunks += [(datasetid, done[0].claim.dataid) for datasetid in adopted]
    links = [
        (datasetid, run.claim.dataid, run.claim.epoch, *item)
        for run in done
        for datasetid in run.claim.outputs
        for item in run.claim.inputs
    ]
    are_new = all(run.claim.epoch == 1 and not run.claim.was_resubmit and not run.claim.forced for run in done)
    read = [item for run in done for item in run.claim.inputs]
    dynamic = {run.claim.jobid for run in done if _has_dynamic_input(catalogue.jobs.get(run.claim.jobid))}
    if dynamic:  # no pair lock covers these inputs: read them again under the lock that does
        tx.lock("lock_consuming", jobs=compact(sorted(dynamic)))
        statuses = statuses_of(tx, [item[:2] for item in read])
    is_superseded = any(statuses[item[:2]].version not in (None, item.version) for item in read if item[:2] in statuses)
    mark_stale(tx, catalogue, chunks, act, links, are_new=are_new, is_superseded=is_superseded)
    forced = {(datasetid, run.claim.dataid) for run in done if run.claim.forced for datasetid in run.claim.outputs}
    unread = [link for link in links if link[5] == 0 and link[:2] in forced]
    if unread:  # inputs that a forced run lacked make it stale once they exist
        tx.run("stale_put", marks=compact(unread))


def mark_after_rollback(tx: Transaction, catalogue: Catalogue, changed: Sequence[RolledBack], act: OperatorAct) -> None:
    """Mark versions stale after chunks were rolled back."""
    versions = [(change.datasetid, change.dataid, change.after) for change in changed]
    candidates.lock_pairs(tx, list(candidates.affected_pairs(catalogue, [version[:2] for version in versions])))
    links = tx.fetch(link, "links_into_given", versions=compact(versions))
    version_links = [(*item[3:6], *item[:3]) for item in links]
    mark_stale(tx, catalogue, [version[:2] for version in versions], act, version_links, by_operator=True)


def remake(
    tx: Transaction, catalogue: Catalogue, chunks: Iterable[ChunkId], act: OperatorAct, *, dry_run: bool = False
) -> list[Steered]:
    """Resubmit READY chunks whose inputs are newer; `restore` keeps those whose inputs turn out unchanged."""
    rerunnable = _rerunnable(tx, catalogue, dict.fromkeys(chunks))
    changed = steering.steer(tx, catalogue, "resubmit", rerunnable, act, dry_run=dry_run)
    if changed and not dry_run:
        rows_by_chunk = transition.locked_rows(tx, [change[:2] for change in changed if change.before == READY])
        tx.run("remake_put", chunks=compact([(*chunk, row.version) for chunk, row in rows_by_chunk.items()]))
    return changed


def _rerunnable(tx: Transaction, catalogue: Catalogue, chunks: Iterable[ChunkId]) -> list[ChunkId]:
    """Those of these chunks that are READY and can be rerun: a job produces them, and nothing else that the same run
    writes is set aside or running."""
    products = {
        (datasetid, dataid): transition.product_of(catalogue, datasetid, dataid)
        for datasetid, dataid in chunks
        if catalogue.producer(datasetid) is not None and list(fitting(catalogue.dataset(datasetid).partition, [dataid]))
    }
    rows = transition.locked_rows(tx, list(dict.fromkeys(each for product in products.values() for each in product)))
    statuses = {chunk: row.status for chunk, row in rows.items()}
    return [
        chunk
        for chunk, product in products.items()
        if statuses.get(chunk) == READY and not {statuses.get(each) for each in product} & SET_ASIDE_OR_RUNNING
    ]


def restore(tx: Transaction, catalogue: Catalogue, chunks: Sequence[ChunkId], who: str | None) -> None:
    """Make remade chunks READY again without a run if their inputs are unchanged, and so on downstream."""
    while chunks:
        waiting = tx.fetch(Remade._make, "remakes_from_given", chunks=compact(chunks))
        unchanged = _unchanged(tx, waiting)
        kept = _without_pending_siblings(tx, catalogue, [row for row in waiting if VersionId(*row[:3]) in unchanged])
        chunks = [(row.datasetid, row.dataid) for row in kept]
        if kept:
            rows = transition.locked_rows(tx, chunks)
            act = OperatorAct(who, "its inputs have the same content as before")
            changes = [StatusChange(chunk, rows[chunk], READY) for chunk in chunks]
            transition.transition(tx, catalogue, "keep", changes, act)


def _unchanged(tx: Transaction, versions: Sequence[Remade]) -> set[VersionId]:
    """Those of these versions whose inputs are all READY with the content that they were made from."""
    if not versions:
        return set()
    links: list[LineageLink] = tx.fetch(link, "links_into_given", versions=compact([row[:3] for row in versions]))
    inputs = compact(sorted({(item.in_datasetid, item.in_dataid) for item in links}))
    now = {(row.datasetid, row.dataid): row for row in tx.fetch(current, "current_given", chunks=inputs)}
    unchanged = {VersionId(*row[:3]) for row in versions}
    for item in links:
        if not _is_unchanged(item, now.get((item.in_datasetid, item.in_dataid))):
            unchanged.discard(VersionId(item.datasetid, item.dataid, item.version))
    return unchanged


def _without_pending_siblings(tx: Transaction, catalogue: Catalogue, kept: list[Remade]) -> list[Remade]:
    """Without those whose run wrote another chunk that has to be made again: one run writes all of them."""
    chunks = {(row.datasetid, row.dataid) for row in kept}
    siblings = {chunk: set(transition.product_of(catalogue, *chunk)) - chunks for chunk in chunks}
    others = sorted(set().union(*siblings.values()))
    if not others:
        return kept
    again = {chunk for chunk, row in transition.locked_rows(tx, others).items() if row.status != READY}
    return [row for row in kept if not siblings[row.datasetid, row.dataid] & again]


def _is_unchanged(item: LineageLink, now: Current | None) -> bool:
    if now is None or now.status != READY or now.is_recalled:
        return False
    same = item.in_fingerprint is not None and item.in_fingerprint == now.fingerprint
    return now.version == item.in_version or same
