"""End runs that still hold their chunks: publish, fail, rescue, cancel or lose them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ...errors import Cancelled, LeaseLost, Stopped, WrongData
from ...model import Catalogue, CheckResult, Dataset, Job, Manifest
from ...model.decision.remarks import remarks
from ...model.definitions.checks import WARN
from ..drivers.base import Retry, Transaction
from ..records import Claim, Rescued, Run
from ..rows import Expired, compact, manifest_data
from . import candidates, transition
from .inputs import ChunkId
from .repeated_content import Product, repeated

_NOTHING = Manifest()  # the manifest of data that is only tracked


class FinishedRun(NamedTuple):
    """A successful run: its claim, the manifests of its outputs, and its exit code."""

    claim: Claim
    manifests: Mapping[str, Manifest]
    exit_code: int | None = None


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
    held = transition.publish(tx, [(claim, remarks(given) or None, exit_code) for claim, given, exit_code in done])
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
    verb = "stop" if is_stopped else "end as failed"
    ended = transition.ending(verb, outcome, detail, exit_code, is_retried=is_retried)
    if len(transition.end(tx, claim, claim.outputs, ended)()) < len(claim.outputs):
        raise lease_lost(claim)
    if job is not None and is_retried:
        _schedule_retry(tx, catalogue, job, claim.dataid, 0 if is_stopped else claim.tries)
    return ended.out_status


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
        detail = f"the lease of {expired.owner} ran out"
        ended = transition.ending("rescue", LeaseLost.name, detail, is_retried=is_retried)
        outputs = transition.outputs_claimed(tx, expired)
        transition.end_with_events(tx, expired, outputs, ended)
        chunks = [(name, expired.dataid) for name in {*outputs, *(job.outputs if job else ())}]
        if tx.value("typed_given", chunks=compact(chunks)):
            raise Retry  # fold in the change made by SQL first
        if job is not None and is_retried:
            # The backoff counts from the last heartbeat.
            _schedule_retry(tx, catalogue, job, expired.dataid, expired.tries, waited=expired.lease)
        rescued.append(Rescued(expired.runid, expired.jobid, expired.dataid, ended.out_status))
    return rescued


def cancel(tx: Transaction, run: Run, who: str, why: str | None) -> bool:
    """Cancel a run for an operator; its worker notices at the next heartbeat. False if the run is over."""
    detail = f"cancelled by {who}" + (f": {why}" if why else "")
    outputs = transition.outputs_claimed(tx, run)
    ended = transition.ending("cancel", Cancelled.name, detail)
    return bool(outputs) and len(transition.end(tx, run._replace(owner=who), outputs, ended)()) == len(outputs)
