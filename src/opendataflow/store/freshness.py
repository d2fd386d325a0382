"""Freshness: which standing versions were made from what is no longer current, and what their jobs want done about it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..model import HOLD, PENDING, READY, RERUN, RUNNING, Catalogue, Job
from ..model.partition import fitting
from . import candidates, status_rows, steering
from .announcing import Act
from .backend import Transaction
from .candidates import Seen
from .endings import Done
from .facts import statuses_of
from .inputs import ChunkId
from .links import Remade, Superseded, VersionId
from .records import Current, Link, RolledBack, Steered, current, link
from .rows import EventRow, OutRow, as_objects, compact

KEPT = "kept"
SET_ASIDE_OR_RUNNING = (HOLD, PENDING, RUNNING)
Made = tuple[str, str, int, str, str, int]  # a version, and the version of an input that it was made from


def settle(
    tx: Transaction,
    catalogue: Catalogue,
    chunks: Sequence[ChunkId],
    act: Act,
    links: Sequence[Made] = (),
    *,
    are_new: bool = False,
    is_superseded: bool = False,
    by_person: bool = False,
) -> None:
    """Bring the marks up to date after these chunks got another version, themselves made as the links say.

    Comes after the candidates: their locks keep a producer and a consumer apart that publish at the same moment.
    are_new says that they had no version before, so that nobody can have read one; is_superseded, that one of the inputs
    has another version by now; by_person, that somebody chose these versions, so that they themselves stay.
    """
    if not chunks:
        return
    _one_after_the_other(tx, catalogue, {datasetid for datasetid, _ in chunks}, are_new)
    if are_new and not is_superseded:
        return  # the ordinary case, which has to be cheap
    given = compact(chunks)
    found = tx.fetch(Superseded._make, "superseded_given", chunks=given, links=compact(links))
    tx.run("remake_drop", chunks=given)
    if found:
        tx.run("stale_clear", chunks=given)
    newer = {row[:3] + row[5:7]: row for row in found if row.jobid and not row.is_same}
    if newer:
        tx.run("stale_put", marks=compact([(*row[:3], *row[5:8]) for row in newer.values()]))
    rerun: dict[str, list[Superseded]] = {}
    chosen = set(chunks)
    for row in newer.values():
        job = catalogue.producer(row.datasetid)
        is_chosen = by_person and (row.datasetid, row.dataid) in chosen
        if job is not None and job.on_new_version == RERUN and row.status == READY and not is_chosen:
            rerun.setdefault(row.in_datasetid, []).append(row)
    for name, rows in rerun.items():
        inputs = sorted({row.in_dataid for row in rows})
        why = (
            f"{name} {inputs[0]} has a new version" if len(inputs) == 1 else f"{len(inputs):,} chunks of {name} are new"
        )
        remake(tx, catalogue, [(row.datasetid, row.dataid) for row in rows], act._replace(why=why))
    restore(tx, catalogue, chunks, act.who)


def _one_after_the_other(tx: Transaction, catalogue: Catalogue, datasets: set[str], are_new: bool) -> None:
    """Keep producer and consumer apart where a mapping depends on which chunks exist, so that no lock of a pair does."""
    producers = {job.jobid for name in datasets if (job := catalogue.producer(name)) and _has_dynamic_input(job)}
    if producers:
        tx.lock("lock_consuming", jobs=compact(sorted(producers)))
    consumers = {} if are_new else candidates.dynamic_consumers(catalogue, datasets)
    if consumers:
        tx.lock("lock_renewing", jobs=compact(sorted(consumers)))


def _has_dynamic_input(job: Job | None) -> bool:
    return job is not None and any(item.mapping.is_dynamic for item in job.inputs)


def published(
    tx: Transaction, catalogue: Catalogue, done: Sequence[Done], beside: Iterable[str], act: Act, seen: Seen
) -> None:
    """The same after runs were published, with the datasets that got rows of the first one which were kept aside.

    seen are their inputs as they stood when the candidates were locked.
    """
    chunks = [(datasetid, run.claim.dataid) for run in done for datasetid in run.claim.outputs]
    chunks += [(datasetid, done[0].claim.dataid) for datasetid in beside]
    links = [
        (datasetid, run.claim.dataid, run.claim.epoch, *item)
        for run in done
        for datasetid in run.claim.outputs
        for item in run.claim.inputs
    ]
    are_new = all(run.claim.epoch == 1 and not run.claim.was_resubmit and not run.claim.forced for run in done)
    read = [item for run in done for item in run.claim.inputs]
    dynamic = {run.claim.jobid for run in done if _has_dynamic_input(catalogue.jobs.get(run.claim.jobid))}
    if dynamic:  # no lock of a pair keeps what they read as it is: look again, under the one that does
        tx.lock("lock_consuming", jobs=compact(sorted(dynamic)))
        seen = statuses_of(tx, [item[:2] for item in read])
    is_superseded = any(seen[item[:2]].version not in (None, item.version) for item in read if item[:2] in seen)
    settle(tx, catalogue, chunks, act, links, are_new=are_new, is_superseded=is_superseded)
    forced = {(datasetid, run.claim.dataid) for run in done if run.claim.forced for datasetid in run.claim.outputs}
    unread = [link for link in links if link[5] == 0 and link[:2] in forced]
    if unread:  # a forced run did without: stale as soon as it is there, for then nobody looks who read it
        tx.run("stale_put", marks=compact(unread))


def rolled_back(tx: Transaction, catalogue: Catalogue, changed: Sequence[RolledBack], act: Act) -> None:
    """The same after chunks became an older version of themselves."""
    versions = [(change.datasetid, change.dataid, change.after) for change in changed]
    candidates.lock(tx, list(candidates.touched(catalogue, [version[:2] for version in versions])))
    links = tx.fetch(link, "links_into_given", versions=compact(versions))
    made = [(*item[3:6], *item[:3]) for item in links]
    settle(tx, catalogue, [version[:2] for version in versions], act, made, by_person=True)


def remake(
    tx: Transaction, catalogue: Catalogue, chunks: Iterable[ChunkId], act: Act, *, dry_run: bool = False
) -> list[Steered]:
    """Have READY chunks made again because what they were made from is newer; those that turn out not to need it are kept."""
    by_dataset: dict[str, list[str]] = {}
    for datasetid, dataid in dict.fromkeys(chunks):
        if catalogue.producer(datasetid) is None:
            continue  # nobody could make it again
        by_dataset.setdefault(datasetid, []).append(dataid)
    changed = []
    for datasetid, dataids in by_dataset.items():
        ready = _that_may(tx, catalogue, datasetid, dataids)
        changed += steering.steer(tx, catalogue, "resubmit", datasetid, ready, act, force=False, dry_run=dry_run)
    if changed and not dry_run:
        there = status_rows.standing(tx, [(change.datasetid, change.dataid) for change in changed])
        tx.run("remake_put", chunks=compact([(*chunk, row.version) for chunk, row in there.items()]))
    return changed


def _that_may(tx: Transaction, catalogue: Catalogue, datasetid: str, dataids: Iterable[str]) -> list[str]:
    """Those of these READY chunks that can be made again: they fit, and nothing that their run writes is set aside or running."""
    fit = list(fitting(catalogue.dataset(datasetid).partition, dataids))
    group = catalogue.written_together(datasetid)
    there = status_rows.standing(tx, [(name, dataid) for dataid in fit for name in group])
    kept = {dataid for (_, dataid), row in there.items() if row.status in SET_ASIDE_OR_RUNNING}
    return [
        dataid
        for dataid in fit
        if dataid not in kept and (row := there.get((datasetid, dataid))) and row.status == READY
    ]


def restore(tx: Transaction, catalogue: Catalogue, chunks: Sequence[ChunkId], who: str) -> None:
    """What waits to be made again, and was made from exactly what stands now, is READY as it is; and so on downstream."""
    while chunks:
        waiting = tx.fetch(Remade._make, "remakes_from_given", chunks=compact(chunks))
        unchanged = _unchanged(tx, waiting)
        kept = _whole(tx, catalogue, [row for row in waiting if VersionId(*row[:3]) in unchanged])
        chunks = [(row.datasetid, row.dataid) for row in kept]
        if kept:
            status_rows.put(tx, [_as_it_was(row) for row in kept])
            tx.run("remake_drop", chunks=compact(chunks))
            why = "what it was made from came out the same"
            events = [
                EventRow(KEPT, row.datasetid, row.dataid, row.jobid, "RESUBMIT", READY, who, why, row.epoch)
                for row in kept
            ]
            tx.run("events_put", events=as_objects(events))
            candidates.settle(tx, catalogue, chunks, by_person=True)


def _as_it_was(row: Remade) -> OutRow:
    return OutRow(row.datasetid, row.dataid, row.jobid, READY, row.epoch, row.version, None, row.sort_key)


def _unchanged(tx: Transaction, versions: Sequence[Remade]) -> set[VersionId]:
    """Those of these versions whose inputs are all READY with the content that they were made from."""
    if not versions:
        return set()
    links: list[Link] = tx.fetch(link, "links_into_given", versions=compact([row[:3] for row in versions]))
    inputs = compact(sorted({(item.in_datasetid, item.in_dataid) for item in links}))
    now = {(row.datasetid, row.dataid): row for row in tx.fetch(current, "current_given", chunks=inputs)}
    unchanged = {VersionId(*row[:3]) for row in versions}
    for item in links:
        if not _is_as_read(item, now.get((item.in_datasetid, item.in_dataid))):
            unchanged.discard(VersionId(item.datasetid, item.dataid, item.version))
    return unchanged


def _whole(tx: Transaction, catalogue: Catalogue, kept: list[Remade]) -> list[Remade]:
    """Those whose run wrote nothing else that has to be made again: one run writes it all, so they would wait for each other."""
    chunks = {(row.datasetid, row.dataid) for row in kept}
    siblings = {chunk: _siblings(catalogue, *chunk) - chunks for chunk in chunks}
    others = sorted(set().union(*siblings.values()))
    if not others:
        return kept
    again = {chunk for chunk, row in status_rows.standing(tx, others).items() if row.status != READY}
    return [row for row in kept if not siblings[row.datasetid, row.dataid] & again]


def _siblings(catalogue: Catalogue, datasetid: str, dataid: str) -> set[ChunkId]:
    producer = catalogue.producer(datasetid)
    return {(name, dataid) for name in producer.outputs} if producer else set()


def _is_as_read(item: Link, now: Current | None) -> bool:
    if now is None or now.status != READY or now.is_recalled:
        return False
    same = item.in_fingerprint is not None and item.in_fingerprint == now.fingerprint
    return now.version == item.in_version or same
