"""Claims: the life of a run, from the candidate that is taken to the version that is published."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import starmap
from typing import Any, NamedTuple

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
    Catalogue,
    Consumed,
    Facts,
    InputFact,
    Job,
    Limit,
    Manifest,
    OutputFact,
    Receipt,
    decide,
)
from . import candidates
from .backend import Row, Transaction
from .facts import ONLY_TRACKED, is_only_tracked
from .folding import lost_run, outputs_of_run
from .records import Claim, compact, manifest_row, receipt_events


class How(NamedTuple):
    """How chunks are claimed: by whom, for how long, and whether without asking."""

    owner: str
    lease: float
    forced: bool


class Stale(Exception):
    """A candidate was not what its rows say: it has to be derived anew."""


def take(
    tx: Transaction,
    catalogue: Catalogue,
    job: Job,
    picked: Sequence[Row],
    limits: Sequence[Limit],
    how: How,
) -> list[Claim]:
    """Take picked candidates: from here on they are RUNNING and ours."""
    wanted: dict[str, tuple[Facts, int, int]] = {}
    takes = []
    unseen = ONLY_TRACKED if is_only_tracked(catalogue, job) else ""
    for position, (dataid, rank, key, epoch, tries, inputs_json) in enumerate(picked):
        facts = Facts(
            job.jobid,
            dataid,
            inputs=tuple(starmap(InputFact, json.loads(inputs_json))),
            outputs=_outputs(tx, job, dataid, rank, how.forced),
            limits=tuple(limit._replace(taken=limit.taken + position) for limit in limits),
            partition=catalogue.output_partition(job).type,
            epoch=epoch,
            forced=how.forced,
            place=unseen,
            validated=unseen,
        )
        receipt = decide(facts)
        if receipt.no is not None:
            raise Stale
        wanted[dataid] = facts, rank, tries + 1
        takes.append(
            {
                "dataid": dataid,
                "epoch": epoch,
                "sort_key": key,
                "tries": tries + 1,
                "before": RESUBMIT if rank == 0 else None,
                "receipt": compact(receipt.to_data()) if how.forced or receipt.verdict == YES else None,
                "inputs": compact(_consumed(facts)),
            }
        )
    rows = tx.rows(
        "claim_take",
        jobid=job.jobid,
        takes=compact(takes),
        pool=job.pool,
        owner=how.owner,
        lease=how.lease,
        forced=how.forced,
        why="forced" if how.forced else None,
    )
    claims = {}
    for runid, dataid, epoch, taken in rows:
        if taken != len(job.outputs):
            raise Stale
        facts, rank, tries = wanted[dataid]
        claims[dataid] = Claim(
            runid,
            job.jobid,
            dataid,
            epoch,
            _consumed(facts),
            job.outputs,
            how.lease,
            tries,
            rank == 0,
            how.forced,
            how.owner,
            facts,
        )
    return [claims[dataid] for dataid in wanted]


def _outputs(tx: Transaction, job: Job, dataid: str, rank: int, forced: bool) -> tuple[OutputFact, ...]:
    """The outputs as they are before the claim: the rank of a candidate tells, unless it is forced or writes several."""
    if not forced and (rank or len(job.outputs) == 1):
        return tuple(OutputFact(name, None if rank else RESUBMIT) for name in job.outputs)
    rows = tx.rows("statuses_given", chunks=compact([(name, dataid) for name in job.outputs]))
    known = {row[0]: OutputFact(row[0], row[2], row[4]) for row in rows}
    return tuple(known.get(name, OutputFact(name, None)) for name in job.outputs)


def _consumed(facts: Facts) -> tuple[Consumed, ...]:
    return tuple(Consumed(item.datasetid, item.dataid, item.version or 0) for item in facts.inputs)


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
    events = receipt_events("refused", claim.outputs, receipt, None, claim=claim, before=RUNNING, why=detail)
    tx.run("events_put", events=compact(events))
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
