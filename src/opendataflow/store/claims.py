"""Claims: the life of a run, from the candidate that is taken to the version that is published."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from ..errors import LeaseLost, WrongData
from ..model import (
    DONE,
    FAILED,
    IN,
    OUT,
    READY,
    RESUBMIT,
    RUNNING,
    YES,
    Answer,
    Catalogue,
    Consumed,
    Job,
    Manifest,
    Pool,
    Receipt,
)
from . import candidates
from .backend import Row, Transaction
from .folding import lost_run, outputs_of_run
from .records import Claim, Limit, compact, manifest_row


class Stale(Exception):
    """A candidate was not what its rows say: it has to be derived anew."""


def limits(tx: Transaction, catalogue: Catalogue, job: Job, *, lock: bool) -> list[Limit]:
    """What limits the running chunks of a job, with its use; locked for a claim, in one order, so that nobody waits in a circle."""
    found = []
    row = tx.row("pool_lock" if lock else "pool_row", pool=job.pool) if job.pool else None
    if row is not None:
        slots = row[0] if row[1] == "{}" else _pool(job.pool, *row[:2]).slots_at(row[2])
        if slots is not None:
            found.append(Limit("pool", job.pool, slots, tx.rows("slots_taken", pool=job.pool)[0][0]))
    limited = {item.datasetid: catalogue.datasets[item.datasetid].options.get("readers") for item in job.inputs}
    for datasetid, readers in sorted(limited.items()):
        if isinstance(readers, int):
            if lock:
                tx.run("lock_readers", datasetid=datasetid)
            taken = tx.rows("readers_running", datasetid=datasetid)[0][0]
            found.append(Limit("dataset", datasetid, readers, taken))
    return found


@lru_cache(100)
def _pool(poolid: str, slots: int | None, options: str) -> Pool:
    return Pool(poolid, slots, json.loads(options))


def pool_now(
    poolid: str, slots: int | None, options: str, now: float
) -> tuple[int | None, tuple[float, int | None] | None]:
    """How many slots a pool has at a moment, and when that changes to how many."""
    pool = _pool(poolid, slots, options)
    return pool.slots_at(now), pool.next_change(now)


def take(
    tx: Transaction, catalogue: Catalogue, job: Job, picked: Sequence[Row], owner: str, *, forced: bool, lease: float
) -> list[Claim]:
    """Take picked candidates: from here on they are RUNNING and ours."""
    found: dict[str, tuple[tuple[Consumed, ...], bool, int, Receipt]] = {}
    takes = []
    for dataid, rank, key, epoch, tries, inputs_json in picked:
        facts = json.loads(inputs_json)
        if not forced and any(status != READY for _, _, status, _ in facts):
            raise Stale
        inputs = tuple(Consumed(datasetid, input_id, version or 0) for datasetid, input_id, _, version in facts)
        receipt = _receipt(catalogue, job, dataid, facts, epoch, rank == 0, forced)
        found[dataid] = inputs, rank == 0, tries + 1, receipt
        takes.append(
            {
                "dataid": dataid,
                "epoch": epoch,
                "sort_key": key,
                "tries": tries + 1,
                "before": RESUBMIT if rank == 0 else None,
                "receipt": compact(receipt.to_data()) if forced or receipt.verdict == YES else None,
                "inputs": compact(inputs),
            }
        )
    rows = tx.rows(
        "claim_take",
        jobid=job.jobid,
        takes=compact(takes),
        pool=job.pool,
        owner=owner,
        lease=float(lease),
        forced=forced,
        why="forced" if forced else None,
    )
    claims = {}
    for runid, dataid, epoch, taken in rows:
        if taken != len(job.outputs):
            raise Stale
        inputs, was_resubmit, tries, receipt = found[dataid]
        claims[dataid] = Claim(
            runid, job.jobid, dataid, epoch, inputs, job.outputs, lease, tries, was_resubmit, forced, owner, receipt
        )
    return [claims[dataid] for dataid in found]


def _receipt(
    catalogue: Catalogue, job: Job, dataid: str, facts: list[list[Any]], epoch: int, was_resubmit: bool, forced: bool
) -> Receipt:
    """The answers that stored facts give; what needs a look at the data itself is asked by the gate."""
    ready: dict[str, object] = {"inputs": [[datasetid, input_id, status] for datasetid, input_id, status, _ in facts]}
    if forced:
        return Receipt(job.jobid, dataid, (Answer("ready", None, ready, "forced: nobody asked"),))
    answers = [
        Answer("ready", True, ready),
        Answer(
            "right",
            True,
            {"versions": [version for *_, version in facts], "type": catalogue.output_partition(job).type},
        ),
    ]
    datasets = [catalogue.datasets[name] for name in (*(item.datasetid for item in job.inputs), *job.outputs)]
    if not any(dataset.kind or dataset.location or dataset.hostname or dataset.checks for dataset in datasets):
        nothing = "only tracked: no location and no checks are declared"
        answers += [Answer("place", True, why=nothing), Answer("validated", True, why=nothing)]
    answers.append(
        Answer("safe", True, {"epoch": epoch, "output": RESUBMIT if was_resubmit else None, "pool": job.pool or None})
    )
    return Receipt(job.jobid, dataid, tuple(answers))


def ending(claim: Claim, **how: Any) -> dict[str, Any]:
    """How an attempt ends, as the query end_run takes it."""
    return {
        "runid": claim.runid,
        "jobid": claim.jobid,
        "dataid": claim.dataid,
        "epoch": claim.epoch,
        "owner": claim.owner,
        "inputs": compact(claim.inputs),
        "outputs": compact(claim.outputs),
        "detail": None,
        "exit_code": None,
        **how,
    }


def commit(
    tx: Transaction,
    catalogue: Catalogue,
    done: Sequence[tuple[Claim, Mapping[str, Manifest], int | None]],
    check_revision: Callable[[str], None],
) -> None:
    """Publish: only if the epoch is still ours, and all of it at once."""
    ends, manifests, chunks, contents = [], [], [], []
    for claim, given, exit_code in done:
        end = ending(
            claim,
            kind="published",
            run_status=READY,
            out_status=READY,
            in_status=DONE,
            outcome=READY,
            exit_code=exit_code,
        )
        ends.append(("end_run", end))
        for datasetid in claim.outputs:
            manifest = given.get(datasetid, Manifest())
            row = manifest_row(datasetid, claim.dataid, claim.epoch, claim.jobid, claim.runid, manifest)
            if not manifest.inputs and claim.inputs:
                row["body"] = compact({**json.loads(row["body"]), "inputs": claim.inputs})
            manifests.append(row)
            chunks.append((datasetid, claim.dataid))
            dataset = catalogue.datasets.get(datasetid)
            if manifest.fingerprint and manifest.rows and dataset and not dataset.options.get("repeats"):
                contents.append((datasetid, manifest.fingerprint, claim.dataid))
    contents.sort()
    answers = candidates.settle(
        tx,
        catalogue,
        chunks,
        before=[
            ("lock_definitions", {}),
            ("revision", {}),
            *ends,
            ("manifest_put", {"manifests": compact(manifests)}),
            *(
                (query, {"datasetid": datasetid, "fingerprint": fingerprint, **rest})
                for datasetid, fingerprint, dataid in contents
                for query, rest in (("lock_content", {}), ("same_content", {"dataid": dataid}))
            ),
        ],
    )
    check_revision(answers[1][0][0])  # a consumer that was registered meanwhile must get its candidates too
    for (claim, _, _), ended in zip(done, answers[2:], strict=False):
        if len(ended) != len(claim.outputs):
            raise lease_lost(claim)
    for (datasetid, _, dataid), same in zip(contents, answers[4 + len(ends) :: 2], strict=False):
        if same:
            raise repeated(datasetid, dataid, same[0][0])


def repeated(datasetid: str, dataid: str, other: str) -> WrongData:
    """Why a chunk may not be published that has exactly what another one has."""
    return WrongData(
        f"{datasetid} {dataid} would have exactly the content of {datasetid} {other}",
        hint="is its input the right one? If repeats are normal here, set repeats = true on the dataset",
    )


def lease_lost(claim: Claim) -> LeaseLost:
    """Why a run may not end as it wanted to."""
    return LeaseLost(
        f"run {claim.runid} of {claim.jobid} {claim.dataid} no longer holds its chunk (epoch {claim.epoch})",
        hint="its lease ran out or somebody changed the status; what it wrote is not published, its successor's work stands",
    )


def fail(
    tx: Transaction, catalogue: Catalogue, claim: Claim, outcome: str, detail: str | None, exit_code: int | None
) -> str:
    """End an attempt that failed; returns what its chunk became: FAILED, or RESUBMIT by the job's retry rule."""
    job = catalogue.jobs.get(claim.jobid)
    again = job is not None and not claim.forced and job.retry.applies(claim.tries, outcome)
    out_status = RESUBMIT if again else FAILED
    end = ending(
        claim,
        kind="failed",
        run_status=FAILED,
        out_status=out_status,
        in_status=FAILED,
        outcome=outcome,
        detail=detail,
        exit_code=exit_code,
    )
    ended = tx.rows("end_run", **end)
    if len(ended) != len(claim.outputs):
        raise lease_lost(claim)
    if job is not None and again:
        _come_back(tx, catalogue, job, claim.dataid, claim.tries)
    return out_status


def _come_back(
    tx: Transaction, catalogue: Catalogue, job: Job, dataid: str, tries: int, *, waited: float = 0.0
) -> None:
    delay = max(job.retry.delay(tries, random.random()) - waited, 0.0)
    now = tx.rows("lease_clock")[0][0]
    candidates.decide(tx, catalogue, [(job.jobid, dataid)], not_before=now + delay if delay else 0.0)


def give_back(tx: Transaction, catalogue: Catalogue, claim: Claim, receipt: Receipt, detail: str, wait: float) -> None:
    """Undo a claim that the gate refused, keep the receipt, and let others go first for a while."""
    outcome = receipt.verdict
    forced_from = _before_it_was_forced(tx, claim) if claim.forced else []
    given = tx.rows(
        "give_back",
        runid=claim.runid,
        jobid=claim.jobid,
        dataid=claim.dataid,
        inputs=compact(claim.inputs),
        outputs=compact(claim.outputs),
        was_resubmit=claim.was_resubmit or bool(forced_from),
        outcome=outcome,
        detail=detail,
    )
    if not given:
        raise lease_lost(claim)
    if forced_from:
        tx.run("chunks_put", chunks=compact(forced_from))
    elif not claim.was_resubmit:
        remove(tx, [(each, claim.dataid, claim.jobid, OUT) for each in claim.outputs] + _read_by(tx, claim))
    for datasetid in claim.outputs:
        tx.run(
            "event_put",
            kind="refused",
            datasetid=datasetid,
            dataid=claim.dataid,
            jobid=claim.jobid,
            runid=claim.runid,
            epoch=claim.epoch,
            before=RUNNING,
            after=outcome,
            who=None,
            why=detail,
            receipt=compact(receipt.to_data()),
        )
    now = tx.rows("lease_clock")[0][0]
    candidates.decide(tx, catalogue, [(claim.jobid, claim.dataid)], not_before=now + wait, asked_for=False)


def _before_it_was_forced(tx: Transaction, claim: Claim) -> list[dict[str, Any]]:
    """The chunks of a forced run as they were before, where they were anything."""
    rows = tx.rows("chunks_given", chunks=compact([(datasetid, claim.dataid) for datasetid in claim.outputs]))
    names = ("datasetid", "dataid", "jobid", "status", "epoch", "version", "sort_key")
    return [
        {**dict(zip(names, (*row[:3], row[8], *row[4:6], row[9]), strict=True)), "held": None}
        for row in rows
        if row[6] == claim.runid and row[8]
    ]


def _read_by(tx: Transaction, claim: Claim) -> list[tuple[str, str, str, str]]:
    """The IN rows that this run holds; another run of the same job may have taken over those that both read."""
    rows = []
    for datasetid, dataid, _ in claim.inputs:
        row = tx.row("inputs_of_job", datasetid=datasetid, dataid=dataid, jobid=claim.jobid)
        if row is not None and row[7] == claim.runid:
            rows.append((datasetid, dataid, claim.jobid, IN))
    return rows


def remove(tx: Transaction, rows: Iterable[tuple[str, str, str, str]]) -> None:
    """Remove status rows (datasetid, dataid, jobid, locktype) without leaving a note of it."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for datasetid, dataid, jobid, locktype in rows:
        groups.setdefault((datasetid, jobid, locktype), []).append(dataid)
    for (datasetid, jobid, locktype), dataids in groups.items():
        for query in ("chunks_mark", "chunks_forget"):
            tx.run(query, datasetid=datasetid, jobid=jobid, locktype=locktype, dataids=compact(dataids))


def rescue(tx: Transaction, catalogue: Catalogue, n: int = 1000) -> list[tuple[int, str, str, str]]:
    """Turn expired leases into FAILED or, by the job's retry rule, RESUBMIT: (runid, jobid, dataid, status) of each."""
    rescued = []
    for runid, jobid, dataid, epoch, owner, inputs, lease, tries in tx.rows("runs_expired", n=n):
        job = catalogue.jobs.get(jobid)
        again = job is not None and job.retry.applies(tries, LeaseLost.name)
        status = RESUBMIT if again else FAILED
        end = lost_run(
            runid,
            jobid,
            dataid,
            epoch,
            owner,
            inputs,
            outputs_of_run(tx, runid, dataid),
            f"the lease of {owner} ran out",
        )
        tx.rows("end_run", **{**end, "kind": "rescued", "out_status": status})
        if job is not None and again:
            _come_back(tx, catalogue, job, dataid, tries, waited=lease)  # the pause begins at its last sign of life
        rescued.append((runid, jobid, dataid, status))
    return rescued
