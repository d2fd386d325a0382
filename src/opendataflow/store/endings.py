"""Endings: how a run ends, and that it can only end what it still holds: published, failed, rescued or lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import Cancelled, LeaseLost, Stopped, WrongData
from ..model import DONE, FAILED, READY, RESUBMIT, RUNNING, Catalogue, CheckResult, Consumed, Dataset, Job, Manifest
from ..model.checks import WARN
from ..model.remarks import remarks
from ..shapes import NamedTuple, replace
from . import candidates, records, status_rows
from .backend import Answer, Retry, Transaction
from .inputs import ChunkId
from .records import Claim, Rescued, Run
from .repeats import Product, repeated
from .rows import EventRow, Expired, as_objects, compact, manifest_data

LOST = "LOST"
_NOTHING = Manifest()  # what is known of data that is only tracked


class Ending(NamedTuple):
    """What a run and its rows become."""

    kind: str  # of the event
    run_status: str
    out_status: str
    in_status: str
    outcome: str
    detail: str | None = None
    exit_code: int | None = None


class Done(NamedTuple):
    """A run that did its work: what it produced, by dataset, and its exit code."""

    claim: Claim
    manifests: Mapping[str, Manifest]
    exit_code: int | None = None


def end(tx: Transaction, run: Claim | Run | Expired, outputs: Sequence[str], ending: Ending) -> list[str]:
    """End a run; returns the outputs that it still held."""
    return [str(name) for (name,) in _ask_to_end(tx, run, outputs, ending)()]


def _ask_to_end(tx: Transaction, run: Claim | Run | Expired, outputs: Sequence[str], ending: Ending) -> Answer:
    inputs: str | Sequence[Consumed] = run.inputs
    return tx.ask(
        "end_run",
        runid=run.runid,
        jobid=run.jobid,
        dataid=run.dataid,
        epoch=run.epoch,
        owner=run.owner,
        inputs=inputs if isinstance(inputs, str) else compact(inputs),
        outputs=compact(outputs),
        **ending._asdict(),
    )


class Ended(NamedTuple):
    """One of several runs that end in the same way, but for what is said of each."""

    runid: int
    jobid: str
    dataid: str
    epoch: int
    owner: str | None
    inputs: Sequence[Consumed]
    outputs: Sequence[str]
    detail: str | None
    exit_code: int | None


def _ask_to_publish(tx: Transaction, done: Sequence[Done]) -> Callable[[], Counter[int]]:
    """End runs as published; what is returned says how many outputs each of them still held, by run."""
    published = Ending("published", READY, READY, DONE, READY)
    if len(done) == 1:
        (only,) = done
        published = published._replace(detail=remarks(only.manifests) or None, exit_code=only.exit_code)
        outputs = _ask_to_end(tx, only.claim, only.claim.outputs, published)
        return lambda: Counter({only.claim.runid: len(outputs())})
    runs = [
        Ended(*claim[:4], claim.owner, claim.inputs, claim.outputs, remarks(given) or None, exit_code)
        for claim, given, exit_code in done
    ]
    runids = tx.ask("end_runs", runs=as_objects(runs), **published._asdict())
    return lambda: Counter(runid for (runid,) in runids())


class Committed(NamedTuple):
    """How the inputs of published runs stand, and the remarks on what each run published."""

    seen: candidates.Seen
    remarks: dict[int, str]


def commit(tx: Transaction, catalogue: Catalogue, done: Sequence[Done], confirm: Callable[[], None]) -> Committed:
    """Publish: only if the epochs are still ours, and all of it at once.

    confirm says whether the catalogue is still what it was, as soon as the first answer is there.
    """
    manifests: list[dict[str, Any]] = []
    chunks: list[ChunkId] = []
    done, wrong = _with_repeats(tx, catalogue, done)
    held = _ask_to_publish(tx, done)
    for claim, given, _ in done:
        for datasetid in claim.outputs:
            manifest = given.get(datasetid, _NOTHING)
            chunk = (datasetid, claim.dataid)
            chunks.append(chunk)
            manifests.append(manifest_data(chunk, claim.epoch, claim.jobid, claim.runid, manifest, inputs=claim.inputs))
    if len(manifests) == 1:
        tx.run("manifest_put", **manifests[0])
    else:
        tx.run("manifests_put", manifests=compact(manifests))
    if wrong is not None:  # a run that lost its chunk is answered so, whatever it made
        confirm()
        _check_ended(done, held())
        raise wrong
    # A job that writes something else by now is looked at as a whole.
    whole = [
        (claim.jobid, claim.dataid)
        for claim, _, _ in done
        if claim.jobid in catalogue.jobs and catalogue.jobs[claim.jobid].outputs == claim.outputs
    ]
    read = {item[:2]: None for claim, _, _ in done for item in claim.inputs}
    # What a job publishes that is no longer there begins something anew, as if a person had delivered it.
    seen = candidates.settle(tx, catalogue, chunks, whole, read, by_person=len(whole) < len(done))
    confirm()  # a consumer that was registered meanwhile must get its candidates too
    _check_ended(done, held())
    return Committed(seen, {claim.runid: remarks(given) for claim, given, _ in done})


def _with_repeats(
    tx: Transaction, catalogue: Catalogue, done: Sequence[Done]
) -> tuple[Sequence[Done], WrongData | None]:
    """The runs with a remark on each product that has the content of another chunk; WrongData where it may not."""
    products: list[tuple[Product, Dataset, int]] = []
    for index, (claim, given, _) in enumerate(done):
        for datasetid in claim.outputs:
            manifest, dataset = given.get(datasetid, _NOTHING), catalogue.datasets.get(datasetid)
            if manifest.fingerprint and manifest.rows != 0 and dataset and not dataset.options.get("repeats"):
                product = Product(datasetid, claim.dataid, manifest.fingerprint, claim.inputs)
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
                hint="Is its input the right one? If repeats are normal here, set repeats = true on the dataset.",
            )
        run = remarked[index]
        manifest = run.manifests[datasetid]
        remark = CheckResult("repeats", "repeats", WARN, False, {"same_content_as": found.dataid})
        manifests = {**run.manifests, datasetid: replace(manifest, checks=(*manifest.checks, remark))}
        remarked[index] = run._replace(manifests=manifests)
    return remarked, None


def _check_ended(done: Sequence[Done], held: Mapping[int, int]) -> None:
    for claim, _, _ in done:
        if held.get(claim.runid, 0) < len(claim.outputs):
            raise lease_lost(claim)


def lease_lost(claim: Claim) -> LeaseLost:
    """Why a run may not end as it wanted to."""
    return LeaseLost(
        f"run {claim.runid} of {claim.jobid} {claim.dataid} no longer holds its chunk (epoch {claim.epoch})",
        hint="Its lease ran out, or somebody changed the status. What it wrote is not published; its successor's work stands.",
    )


def fail(
    tx: Transaction, catalogue: Catalogue, claim: Claim, outcome: str, detail: str | None, exit_code: int | None
) -> str:
    """End an attempt that failed or was stopped; returns what its chunk became.

    That is FAILED, or RESUBMIT: by the job's retry rule, or because a signal stopped its worker, which is no try.
    """
    job = catalogue.jobs.get(claim.jobid)
    is_stopped = outcome == Stopped.name
    again = job is not None and (is_stopped or (not claim.forced and job.retry.applies(claim.tries, outcome)))
    out_status = RESUBMIT if again else FAILED
    kind, run_status = ("stopped", LOST) if is_stopped else ("failed", FAILED)
    ending = Ending(kind, run_status, out_status, FAILED, outcome, detail, exit_code)
    if len(end(tx, claim, claim.outputs, ending)) < len(claim.outputs):
        raise lease_lost(claim)
    if job is not None and again:
        _come_back(tx, catalogue, job, claim.dataid, 0 if is_stopped else claim.tries)
    return out_status


def _come_back(
    tx: Transaction, catalogue: Catalogue, job: Job, dataid: str, tries: int, *, waited: float = 0.0
) -> None:
    from random import random  # here, since only what failed comes back

    delay = max(job.retry.delay(tries, random()) - waited, 0.0) if tries else 0.0
    not_before = tx.value("lease_clock") + delay if delay else 0.0
    candidates.derive(tx, catalogue, [(job.jobid, dataid)], not_before=not_before)


def rescue(tx: Transaction, catalogue: Catalogue, n: int = 1000) -> list[Rescued]:
    """Turn expired leases into FAILED or, by the job's retry rule, RESUBMIT."""
    rescued = []
    for expired in tx.fetch(Expired._make, "runs_expired", n=n):
        job = catalogue.jobs.get(expired.jobid)
        again = job is not None and job.retry.applies(expired.tries, LeaseLost.name)
        status = RESUBMIT if again else FAILED
        detail = f"the lease of {expired.owner} ran out"
        outputs = _outputs_of_run(tx, expired)
        _end_whole(tx, expired, outputs, Ending("rescued", LOST, status, FAILED, LeaseLost.name, detail))
        chunks = [(name, expired.dataid) for name in {*outputs, *(job.outputs if job else ())}]
        if tx.value("typed_given", chunks=compact(chunks)):
            raise Retry  # somebody took it away meanwhile: that is folded in first
        if job is not None and again:
            # The pause begins at its last sign of life.
            _come_back(tx, catalogue, job, expired.dataid, expired.tries, waited=expired.lease)
        rescued.append(Rescued(expired.runid, expired.jobid, expired.dataid, status))
    return rescued


def lose(tx: Transaction, runid: int | None, detail: str, *, who: str | None = None, gone: Sequence[str] = ()) -> None:
    """End a run whose chunk is no longer its own, if it is not over; gone are outputs whose rows are no longer there."""
    tx.lock("lock_runs", runids=compact([runid]))  # it may end by itself at this very moment
    lost = tx.first(records.run, "run_row", runid=runid)
    if lost is not None and lost.status == RUNNING:
        ending = Ending("lost", LOST, FAILED, FAILED, LeaseLost.name, detail)
        _end_whole(tx, lost, [*_outputs_of_run(tx, lost), *gone], ending, who)


def _end_whole(
    tx: Transaction, run: Run | Expired, outputs: Sequence[str], ending: Ending, who: str | None = None
) -> None:
    """End a run; an output whose row says something else by now keeps it, and the history still tells how its run ended."""
    ended = end(tx, run, outputs, ending)
    taken = [(name, run.dataid) for name in outputs if name not in ended]
    if not taken:
        return
    about: dict[str, Any] = {"who": who, "why": ending.detail, "epoch": run.epoch, "runid": run.runid}
    now = status_rows.standing(tx, taken)
    statuses = {chunk: now[chunk].status if chunk in now else None for chunk in taken}
    events = [EventRow(ending.kind, *chunk, run.jobid, status, status, **about) for chunk, status in statuses.items()]
    tx.run("events_put", events=as_objects(events))


def cancel(tx: Transaction, run: Run, who: str, why: str | None) -> bool:
    """End a run at a person's word; whoever does its work finds out at its next sign of life. False when it is over."""
    detail = f"cancelled by {who}" + (f": {why}" if why else "")
    outputs = _outputs_of_run(tx, run)
    ending = Ending("cancelled", FAILED, FAILED, FAILED, Cancelled.name, detail)
    return bool(outputs) and len(end(tx, run._replace(owner=who), outputs, ending)) == len(outputs)


def _outputs_of_run(tx: Transaction, run: Run | Expired) -> list[str]:
    """The datasets whose chunk a run holds: its job may have been changed or removed meanwhile."""
    return tx.values("outputs_of_run", runid=run.runid, dataid=run.dataid)
