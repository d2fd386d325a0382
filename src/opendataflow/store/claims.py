"""Claims: taking candidates, and giving back what the gate refuses or nobody begins."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import starmap
from typing import Any

from ..model import (
    CLAIMABLE,
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
    OutputFact,
    Receipt,
    check_dataid,
    decide,
)
from ..model.ids import is_id
from ..shapes import NamedTuple
from . import candidates, records, status_rows
from .backend import Transaction
from .endings import lease_lost
from .facts import ONLY_TRACKED, outputs_of, statuses_of
from .inputs import ChunkId
from .records import Claim, input_row
from .rows import (
    CandidateRow,
    EventRow,
    OutRow,
    Picked,
    Standing,
    StatusKey,
    Take,
    Taken,
    as_objects,
    compact,
    receipt_events,
)
from .steering import recalled_versions

_GIVEN_BACK = "GIVEN_BACK"  # the outcome of a run that was claimed, and that nobody began or refused


class How(NamedTuple):
    """How chunks are claimed: by whom, for how long (None: as long as the job says), and whether without asking.

    held are those that it works on already, and whose leases it would rather extend than end.
    """

    owner: str
    lease: float | None
    forced: bool
    held: Sequence[Claim] = ()

    @property
    def why(self) -> str | None:
        """What the event of such a claim says."""
        return "forced" if self.forced else None


class Stale(Exception):
    """A candidate was not what its rows say: it has to be derived anew."""


class Overdue(Exception):
    """A lease is over, and it may be one of ours."""


def prepare(tx: Transaction, catalogue: Catalogue, job: Job, dataid: str, how: How) -> None:
    """Make a dataid that the caller names a candidate: if nothing stands in the way, or whatever does."""
    check_dataid(catalogue.output_partition(job), dataid, job.outputs[0])
    candidates.derive(tx, catalogue, [(job.jobid, dataid)], asked_for=True)
    if how.forced:
        pair = candidates.pair_of(tx, catalogue, job.jobid, dataid)
        chunks = status_rows.standing(tx, [(datasetid, dataid) for datasetid in job.outputs])
        if pair is not None and not any(row.status == RUNNING for row in chunks.values()):
            row = CandidateRow(job.jobid, dataid, pair.sort_key, 1, CLAIMABLE, 0, pair.inputs)
            candidates.write(tx, [row])


def take(
    tx: Transaction,
    catalogue: Catalogue,
    job: Job,
    picked: Sequence[Picked],
    limits: Sequence[Limit],
    how: How,
) -> list[Claim]:
    """Take picked candidates: from here on they are RUNNING and ours."""
    wanted: dict[str, Facts] = {}
    takes = []
    lease = float(how.lease or job.lease)
    unseen = ONLY_TRACKED if catalogue.only_tracks(job) else ""
    for position, candidate in enumerate(picked):
        dataid = str(candidate.dataid)
        if not is_id(dataid):
            raise Stale  # somebody else wrote it
        facts = Facts(
            job.jobid,
            dataid,
            inputs=tuple(starmap(InputFact, json.loads(candidate.inputs))),
            outputs=_outputs(tx, job, dataid, candidate.rank, how.forced),
            limits=tuple(limit._replace(taken=limit.taken + position) for limit in limits),
            partition=catalogue.output_partition(job).type,
            epoch=candidate.epoch,
            forced=how.forced,
            place=unseen,
            validated=unseen,
        )
        receipt = decide(facts)
        if receipt.no is not None:
            raise Stale
        if not how.forced and any(item.mapping.is_dynamic for item in job.inputs):
            _keep_inputs(tx, facts)
        wanted[dataid] = facts
        takes.append(
            Take(
                dataid,
                candidate.epoch,
                candidate.sort_key,
                candidate.tries + 1,
                compact(receipt.to_data()) if how.forced or receipt.verdict == YES else None,
                _consumed(facts),
            )
        )
    taken = _take(tx, job, takes, lease, how)
    claims = []
    for take, candidate in zip(takes, picked, strict=True):
        run = taken[take.dataid]
        if run.taken != len(job.outputs):
            raise Stale
        claims.append(
            Claim(
                run.runid,
                job.jobid,
                take.dataid,
                take.epoch,
                take.inputs,
                job.outputs,
                lease,
                take.tries,
                candidate.rank == 0,
                how.forced,
                how.owner,
                wanted[take.dataid],
            )
        )
    if (
        how.forced or not job.inputs
    ):  # nothing announced it: who could read it until now, or all that there was, no longer can
        chunks = [(name, claim.dataid) for claim in claims for name in claim.outputs]
        candidates.settle(tx, catalogue, chunks, by_person=True)
    return claims


def _take(tx: Transaction, job: Job, takes: Sequence[Take], lease: float, how: How) -> dict[str, Taken]:
    """The runs that begin, by dataid; one is taken without the detour of a list, which would cost more than what is in it."""
    terms = {"pool": job.pool, "owner": how.owner, "lease": lease, "forced": how.forced, "why": how.why}
    terms["outputs"] = compact(job.outputs)
    if len(takes) == 1:
        (one,) = takes
        inputs = compact(list(dict.fromkeys(one.inputs)))
        rows = tx.fetch(Taken._make, "claim_take_one", jobid=job.jobid, **one._asdict() | terms | {"inputs": inputs})
    else:
        rows = tx.fetch(Taken._make, "claim_take", jobid=job.jobid, takes=as_objects(takes), **terms)
    return {row.dataid: row for row in rows}


def _keep_inputs(tx: Transaction, facts: Facts) -> None:
    """Where no lock of the candidate keeps its inputs as they are, because the mapping depends on which chunks exist."""
    chunks = [(item.datasetid, item.dataid) for item in facts.inputs]
    tx.lock("lock_inputs", inputs=compact(chunks))
    now = statuses_of(tx, chunks)
    if any(now[item[:2]][2:4] != (item.status, item.version) for item in facts.inputs):
        raise Stale


def _outputs(tx: Transaction, job: Job, dataid: str, rank: int, forced: bool) -> tuple[OutputFact, ...]:
    """The outputs as they are before the claim: the rank of a candidate tells, unless it is forced or writes several."""
    if not forced and (rank or len(job.outputs) == 1):
        return tuple(OutputFact(name, None if rank else RESUBMIT) for name in job.outputs)
    return outputs_of(job, dataid, statuses_of(tx, [(name, dataid) for name in job.outputs]))


def _consumed(facts: Facts) -> tuple[Consumed, ...]:
    return tuple(Consumed(item.datasetid, item.dataid, item.version or 0) for item in facts.inputs)


def are_runs(tx: Transaction, claims: Iterable[Claim], status: str | None = None) -> bool:
    """Whether the store has these runs, by epoch and owner, and with this status where one is given."""
    for claim in claims:
        run = tx.first(records.run, "run_row", runid=claim.runid)
        if run is None or (run.jobid, run.dataid, run.epoch, run.owner) != (
            claim.jobid,
            claim.dataid,
            claim.epoch,
            claim.owner,
        ):
            return False
        if status not in (None, run.status):
            return False
    return True


def give_back(
    tx: Transaction, catalogue: Catalogue, claim: Claim, receipt: Receipt | None, detail: str, wait: float
) -> None:
    """Undo a claim: the gate refused it, the receipt is kept and others go first for a while; or, without one, nobody began it."""
    chunks = [(name, claim.dataid) for name in claim.outputs]
    held = status_rows.standing(tx, chunks)
    if any((row.status, row.runid) != (RUNNING, claim.runid) for row in held.values()) or len(held) < len(
        claim.outputs
    ):
        raise lease_lost(claim)  # somebody changed the status by SQL, and nobody has acted on it yet
    forced_from = _before_it_was_forced(tx, held) if claim.forced else []
    is_ours = tx.value(
        "give_back",
        runid=claim.runid,
        jobid=claim.jobid,
        dataid=claim.dataid,
        inputs=compact(claim.inputs),
        outputs=compact(claim.outputs),
        was_resubmit=claim.was_resubmit or bool(forced_from),
        outcome=_GIVEN_BACK if receipt is None else receipt.verdict,
        detail=detail,
    )
    if is_ours is None:
        raise lease_lost(claim)
    status_rows.put(tx, forced_from)
    if claim.forced or not claim.was_resubmit:
        were = {row.datasetid for row in forced_from}
        new = [StatusKey(name, claim.dataid, claim.jobid, OUT) for name in claim.outputs if name not in were]
        status_rows.remove(tx, new if were else new + _read_by(tx, claim))
    about: dict[str, Any] = {"runid": claim.runid, "epoch": claim.epoch, "before": RUNNING, "why": detail}
    if receipt is None:
        events = [
            EventRow("given back", *chunk, claim.jobid, after=row.held, who=claim.owner, **about)
            for chunk, row in held.items()
        ]
    else:
        events = receipt_events("refused", claim.outputs, receipt, claim.owner, **about)
    events += _not_as_before(tx, held)
    tx.run("events_put", events=as_objects(events))
    if not claim.was_resubmit:  # it is as it was before: nobody waits for it any more, or for all that there is
        candidates.settle(tx, catalogue, chunks, by_person=True)
    not_before = tx.value("lease_clock") + wait if wait else 0.0
    candidates.derive(tx, catalogue, [(claim.jobid, claim.dataid)], not_before=not_before)


def _not_as_before(tx: Transaction, held: Mapping[ChunkId, Standing]) -> list[EventRow]:
    """The events of chunks that did not become what they were before the claim, but RESUBMIT."""
    now = status_rows.standing(tx, list(held))
    told = (
        "its run was given back, and another output of it has to be made again, or its version was recalled meanwhile"
    )
    return [
        EventRow("resubmitted", *chunk, row.jobid, row.held, now[chunk].status, why=told, epoch=row.epoch)
        for chunk, row in held.items()
        if chunk in now and now[chunk].status != row.held
    ]


def _before_it_was_forced(tx: Transaction, held: Mapping[ChunkId, Standing]) -> list[OutRow]:
    """The chunks of a forced run as they were before, where they were anything; what was recalled meanwhile is not READY."""
    recalled = recalled_versions(tx, list(held))
    return [
        OutRow(
            row.datasetid,
            row.dataid,
            row.jobid,
            RESUBMIT if row.held == READY and (*chunk, row.version) in recalled else row.held,
            row.epoch,
            row.version,
            None,
            row.sort_key,
        )
        for chunk, row in held.items()
        if row.held
    ]


def _read_by(tx: Transaction, claim: Claim) -> list[StatusKey]:
    """The IN rows that this run holds; another run of the same job may have taken over those that both read."""
    rows = []
    for item in claim.inputs:
        row = tx.first(input_row, "inputs_of_job", datasetid=item.datasetid, dataid=item.dataid, jobid=claim.jobid)
        if row is not None and row.runid == claim.runid:
            rows.append(StatusKey(item.datasetid, item.dataid, claim.jobid, IN))
    return rows
