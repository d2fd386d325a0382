"""End runs that still hold their chunks: publish, fail, rescue, cancel or lose them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ...errors import Cancelled, LeaseLost, Stopped, WrongData
from ...model import DONE, FAILED, READY, RESUBMIT, RUNNING, Catalogue, CheckResult, Dataset, Job, Manifest
from ...model.decision.remarks import remarks
from ...model.definitions.checks import WARN
from .. import records
from ..drivers.base import PendingRows, Retry, Transaction
from ..records import Claim, Rescued, Run
from ..rows import EventRow, Expired, as_objects, compact, manifest_data
from . import candidates, status_rows
from .inputs import ChunkId
from .repeats import Product, repeated

LOST = "LOST"
_NOTHING = Manifest()  # the manifest of data that is only tracked


class Ending(NamedTuple):
    """The statuses and the event that the end of a run writes."""

    kind: str  # the kind of the event
    run_status: str
    out_status: str
    in_status: str
    outcome: str
    detail: str | None = None
    exit_code: int | None = None


class FinishedRun(NamedTuple):
    """A successful run: its claim, the manifests of its outputs, and its exit code."""

    claim: Claim
    manifests: Mapping[str, Manifest]
    exit_code: int | None = None


def end(tx: Transaction, run: Claim | Run | Expired, outputs: Sequence[str], ending: Ending) -> list[str]:
    """End a run; returns the outputs that it still held."""
    return [str(name) for (name,) in _send_end(tx, run, outputs, ending)()]


def _send_end(tx: Transaction, run: Claim | Run | Expired, outputs: Sequence[str], ending: Ending) -> PendingRows:
    return tx.send(
        "end_run",
        runid=run.runid,
        jobid=run.jobid,
        dataid=run.dataid,
        epoch=run.epoch,
        owner=run.owner,
        outputs=compact(outputs),
        **ending._asdict(),
    )


class EndedRun(NamedTuple):
    """One of several runs that end the same way, with its own detail and exit code."""

    runid: int
    jobid: str
    dataid: str
    epoch: int
    owner: str | None
    outputs: Sequence[str]
    detail: str | None
    exit_code: int | None


def _send_publish(tx: Transaction, done: Sequence[FinishedRun]) -> Callable[[], Counter[int]]:
    """End runs as published; the returned function reads how many outputs each run still held."""
    published = Ending("published", READY, READY, DONE, READY)
    if len(done) == 1:
        (only,) = done
        published = published._replace(detail=remarks(only.manifests) or None, exit_code=only.exit_code)
        outputs = _send_end(tx, only.claim, only.claim.outputs, published)
        return lambda: Counter({only.claim.runid: len(outputs())})
    runs = [
        EndedRun(*claim[:4], claim.owner, claim.outputs, remarks(given) or None, exit_code)
        for claim, given, exit_code in done
    ]
    runids = tx.send("end_runs", runs=as_objects(runs), **published._asdict())
    return lambda: Counter(runid for (runid,) in runids())


class Committed(NamedTuple):
    """The statuses of the inputs of published runs, and the remarks on each run's outputs."""

    statuses: candidates.Statuses
    remarks: dict[int, str]


def commit(
    tx: Transaction, catalogue: Catalogue, done: Sequence[FinishedRun], confirm: Callable[[], None]
) -> Committed:
    """Publish the runs if all of them still hold their chunks, or none of them.

    `confirm` raises if the catalogue changed; it is called as soon as the first result arrives.
    """
    manifests: list[dict[str, Any]] = []
    chunks: list[ChunkId] = []
    done, wrong = _with_repeats(tx, catalogue, done)
    held = _send_publish(tx, done)
    for claim, given, _ in done:
        for datasetid in claim.outputs:
            manifest = given.get(datasetid, _NOTHING)
            chunk = (datasetid, claim.dataid)
            chunks.append(chunk)
            manifests.append(manifest_data(chunk, claim.epoch, claim.jobid, claim.runid, manifest))
    if len(manifests) == 1:
        tx.run("manifest_put", **manifests[0])
    else:
        tx.run("manifests_put", manifests=compact(manifests))
    if wrong is not None:  # LeaseLost takes precedence over WrongData
        confirm()
        _check_ended(done, held())
        raise wrong
    # The pair is done only if the run wrote all current outputs of the job.
    complete = [
        (claim.jobid, claim.dataid)
        for claim, _, _ in done
        if claim.jobid in catalogue.jobs and catalogue.jobs[claim.jobid].outputs == claim.outputs
    ]
    read = {item[:2]: None for claim, _, _ in done for item in claim.inputs}
    # An output without a current producer counts as delivered by an operator.
    statuses = candidates.update_candidates(
        tx, catalogue, chunks, complete, read, by_operator=len(complete) < len(done)
    )
    confirm()  # a consumer registered meanwhile needs its candidates
    _check_ended(done, held())
    return Committed(statuses, {claim.runid: remarks(given) for claim, given, _ in done})


def _with_repeats(
    tx: Transaction, catalogue: Catalogue, done: Sequence[FinishedRun]
) -> tuple[Sequence[FinishedRun], WrongData | None]:
    """The runs, with a remark on each product that repeats another chunk's content; WrongData if a repeat is not allowed."""
    products: list[tuple[Product, Dataset, int]] = []
    for index, (claim, given, _) in enumerate(done):
        for datasetid in claim.outputs:
            manifest, dataset = given.get(datasetid, _NOTHING), catalogue.datasets.get(datasetid)
            if manifest.fingerprint and manifest.rows != 0 and dataset and not dataset.options.get("repeats"):
                product = Product(datasetid, claim.dataid, manifest.fingerprint, claim.runid)
                products.append((product, dataset, index))
    if not products:
        return done, None
    products.sort(key=lambda item: (item[0].datasetid, item[0].fingerprint, item[0].dataid))
    for product, _, _ in products:
        tx.lock("lock_content", datasetid=product.datasetid, fingerprint=product.fingerprint)
    remarked = list(done)
    before: list[Product] = []
    for product, dataset, index in products:
        datasetid, dataid = product.datasetid, product.dataid
        found = repeated(tx, dataset, product, before)
        before.append(product)
        if found is None:
            continue
        if found.is_wrong:
            return done, WrongData(
                f"{datasetid} {dataid} would have exactly the content of {datasetid} {found.dataid}",
                hint="Check the inputs of the run. To allow repeats, set repeats = true on the dataset.",
            )
        run = remarked[index]
        manifest = run.manifests[datasetid]
        remark = CheckResult("repeats", "repeats", WARN, False, {"same_content_as": found.dataid})
        manifests = {**run.manifests, datasetid: replace(manifest, checks=(*manifest.checks, remark))}
        remarked[index] = run._replace(manifests=manifests)
    return remarked, None


def _check_ended(done: Sequence[FinishedRun], held: Mapping[int, int]) -> None:
    for claim, _, _ in done:
        if held.get(claim.runid, 0) < len(claim.outputs):
            raise lease_lost(claim)


def lease_lost(claim: Claim) -> LeaseLost:
    """The error of a run that no longer holds its chunk."""
    return LeaseLost(
        f"run {claim.runid} of {claim.jobid} {claim.dataid} no longer holds its chunk (epoch {claim.epoch})",
        hint="Its lease expired, or the status was changed. Its output is not published; the output of its successor is kept.",
    )


def fail(
    tx: Transaction, catalogue: Catalogue, claim: Claim, outcome: str, detail: str | None, exit_code: int | None
) -> str:
    """End a failed or stopped attempt; returns the new status of its chunk.

    The status is FAILED, or RESUBMIT by the job's retry rule. A stopped worker does not use up a retry.
    """
    job = catalogue.jobs.get(claim.jobid)
    is_stopped = outcome == Stopped.name
    is_retried = job is not None and (is_stopped or (not claim.forced and job.retry.applies(claim.tries, outcome)))
    out_status = RESUBMIT if is_retried else FAILED
    kind, run_status = ("stopped", LOST) if is_stopped else ("failed", FAILED)
    ending = Ending(kind, run_status, out_status, FAILED, outcome, detail, exit_code)
    if len(end(tx, claim, claim.outputs, ending)) < len(claim.outputs):
        raise lease_lost(claim)
    if job is not None and is_retried:
        _schedule_retry(tx, catalogue, job, claim.dataid, 0 if is_stopped else claim.tries)
    return out_status


def _schedule_retry(
    tx: Transaction, catalogue: Catalogue, job: Job, dataid: str, tries: int, *, waited: float = 0.0
) -> None:
    from random import random  # imported here: only retries need it

    delay = max(job.retry.delay(tries, random()) - waited, 0.0) if tries else 0.0
    not_before = tx.value("lease_clock") + delay if delay else 0.0
    candidates.derive(tx, catalogue, [(job.jobid, dataid)], not_before=not_before)


def rescue(tx: Transaction, catalogue: Catalogue, n: int = 1000) -> list[Rescued]:
    """Set runs with expired leases to FAILED or, by the job's retry rule, to RESUBMIT."""
    rescued = []
    for expired in tx.fetch(Expired._make, "runs_expired", n=n):
        job = catalogue.jobs.get(expired.jobid)
        is_retried = job is not None and job.retry.applies(expired.tries, LeaseLost.name)
        status = RESUBMIT if is_retried else FAILED
        detail = f"the lease of {expired.owner} ran out"
        outputs = _outputs_claimed(tx, expired)
        _end_with_events(tx, expired, outputs, Ending("rescued", LOST, status, FAILED, LeaseLost.name, detail))
        chunks = [(name, expired.dataid) for name in {*outputs, *(job.outputs if job else ())}]
        if tx.value("typed_given", chunks=compact(chunks)):
            raise Retry  # fold in the change made by SQL first
        if job is not None and is_retried:
            # The backoff counts from the last heartbeat.
            _schedule_retry(tx, catalogue, job, expired.dataid, expired.tries, waited=expired.lease)
        rescued.append(Rescued(expired.runid, expired.jobid, expired.dataid, status))
    return rescued


def lose(tx: Transaction, runid: int | None, detail: str, *, who: str | None = None) -> None:
    """End a run that no longer holds its chunk, unless it ended already."""
    tx.lock("lock_runs", runids=compact([runid]))  # waits for a commit in progress
    lost = tx.first(records.run, "run_row", runid=runid)
    if lost is not None and lost.status == RUNNING:
        ending = Ending("lost", LOST, FAILED, FAILED, LeaseLost.name, detail)
        _end_with_events(tx, lost, _outputs_claimed(tx, lost), ending, who)


def _end_with_events(
    tx: Transaction, run: Run | Expired, outputs: Sequence[str], ending: Ending, who: str | None = None
) -> None:
    """End a run; an output with another status keeps it and gets an event with the end of the run."""
    ended = end(tx, run, outputs, ending)
    changed = [(name, run.dataid) for name in outputs if name not in ended]
    if not changed:
        return
    common: dict[str, Any] = {"who": who, "why": ending.detail, "epoch": run.epoch, "runid": run.runid}
    rows = status_rows.locked_rows(tx, changed)
    statuses = {chunk: rows[chunk].status if chunk in rows else None for chunk in changed}
    events = [EventRow(ending.kind, *chunk, run.jobid, status, status, **common) for chunk, status in statuses.items()]
    tx.run("events_put", events=as_objects(events))


def cancel(tx: Transaction, run: Run, who: str, why: str | None) -> bool:
    """Cancel a run for an operator; its worker notices at the next heartbeat. False if the run is over."""
    detail = f"cancelled by {who}" + (f": {why}" if why else "")
    outputs = _outputs_claimed(tx, run)
    ending = Ending("cancelled", FAILED, FAILED, FAILED, Cancelled.name, detail)
    return bool(outputs) and len(end(tx, run._replace(owner=who), outputs, ending)) == len(outputs)


def _outputs_claimed(tx: Transaction, run: Run | Expired) -> list[str]:
    """The datasets of the chunks that a run claimed; the job and its rows may have changed since."""
    return tx.values("outputs_claimed", runid=run.runid, dataid=run.dataid)
