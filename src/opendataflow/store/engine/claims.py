"""Claim candidates, and give claimed chunks back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import starmap
from typing import Any, NamedTuple

from ...model import (
    CLAIMABLE,
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
from ...model.definitions.ids import is_id
from .. import records
from ..drivers.base import Transaction
from ..records import Claim
from ..rows import (
    CandidateRow,
    CandidateToTake,
    EventRow,
    PickedCandidate,
    compact,
    receipt_events,
)
from . import candidates, transition
from .facts import ONLY_TRACKED, outputs_of, statuses_of
from .run_end import lease_lost

_GIVEN_BACK = "GIVEN_BACK"  # the outcome of a claimed run that never began


class ClaimOptions(NamedTuple):
    """The owner of a claim, its lease (None: the job's), and whether it is forced past the questions.

    `held` are claims that the owner works on; a claim extends their leases rather than expire them.
    """

    owner: str
    lease: float | None
    forced: bool
    held: Sequence[Claim] = ()

    @property
    def why(self) -> str | None:
        """The reason in the claim's event."""
        return "forced" if self.forced else None


class CandidateOutdated(Exception):
    """A candidate does not match the status rows and has to be derived again."""


class LeasesOverdue(Exception):
    """A lease expired, possibly one of this process."""


def prepare_requested(tx: Transaction, catalogue: Catalogue, job: Job, dataid: str, options: ClaimOptions) -> None:
    """Derive the candidate of a requested dataid; if forced, make it claimable whatever its inputs are."""
    check_dataid(catalogue.output_partition(job), dataid, job.outputs[0])
    candidates.derive(tx, catalogue, [(job.jobid, dataid)], requested=True)
    if options.forced:
        pair = candidates.pair_of(tx, catalogue, job.jobid, dataid)
        chunks = transition.locked_rows(tx, [(datasetid, dataid) for datasetid in job.outputs])
        if pair is not None and not any(row.status == RUNNING for row in chunks.values()):
            row = CandidateRow(job.jobid, dataid, pair.sort_key, 1, CLAIMABLE, 0, pair.inputs)
            candidates.write(tx, [row])


def take(
    tx: Transaction,
    catalogue: Catalogue,
    job: Job,
    picked: Sequence[PickedCandidate],
    limits: Sequence[Limit],
    options: ClaimOptions,
) -> list[Claim]:
    """Claim the picked candidates: their chunks become RUNNING."""
    wanted: dict[str, Facts] = {}
    takes = []
    lease = float(options.lease or job.lease)
    unchecked = ONLY_TRACKED if catalogue.only_tracks(job) else ""
    for position, candidate in enumerate(picked):
        dataid = str(candidate.dataid)
        if not is_id(dataid):
            raise CandidateOutdated  # not written by this program
        facts = Facts(
            job.jobid,
            dataid,
            inputs=tuple(starmap(InputFact, json.loads(candidate.inputs))),
            outputs=_outputs(tx, job, dataid, candidate.rank, options.forced),
            limits=tuple(limit._replace(taken=limit.taken + position) for limit in limits),
            partition=catalogue.output_partition(job).type,
            epoch=candidate.epoch,
            forced=options.forced,
            place=unchecked,
            validated=unchecked,
        )
        receipt = decide(facts)
        if receipt.no is not None:
            raise CandidateOutdated
        if not options.forced and any(item.mapping.is_dynamic for item in job.inputs):
            _lock_inputs(tx, facts)
        wanted[dataid] = facts
        takes.append(
            CandidateToTake(
                dataid,
                candidate.epoch,
                candidate.sort_key,
                candidate.tries + 1,
                compact(receipt.to_data()) if options.forced or receipt.verdict == YES else None,
                _consumed(facts),
            )
        )
    taken = transition.begin(tx, job, takes, owner=options.owner, lease=lease, forced=options.forced, why=options.why)
    claims = []
    for take, candidate in zip(takes, picked, strict=True):
        run = taken[take.dataid]
        if run.taken != len(job.outputs):
            raise CandidateOutdated
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
                options.forced,
                options.owner,
                wanted[take.dataid],
            )
        )
    if options.forced or not job.inputs:  # the chunk may have been READY, or is new to jobs that read `all`
        chunks = [(name, claim.dataid) for claim in claims for name in claim.outputs]
        candidates.update_candidates(tx, catalogue, chunks, by_operator=True)
    return claims


def _lock_inputs(tx: Transaction, facts: Facts) -> None:
    """Lock the inputs of a dynamic mapping, which no candidate lock covers, and check that they did not change."""
    chunks = [(item.datasetid, item.dataid) for item in facts.inputs]
    tx.lock("lock_inputs", inputs=compact(chunks))
    now = statuses_of(tx, chunks)
    if any(now[item[:2]][2:4] != (item.status, item.version) for item in facts.inputs):
        raise CandidateOutdated


def _outputs(tx: Transaction, job: Job, dataid: str, rank: int, forced: bool) -> tuple[OutputFact, ...]:
    """The outputs before the claim, from the candidate's rank; read from the store if forced or if there are several."""
    if not forced and (rank or len(job.outputs) == 1):
        return tuple(OutputFact(name, None if rank else RESUBMIT) for name in job.outputs)
    return outputs_of(job, dataid, statuses_of(tx, [(name, dataid) for name in job.outputs]))


def _consumed(facts: Facts) -> tuple[Consumed, ...]:
    return tuple(dict.fromkeys(Consumed(item.datasetid, item.dataid, item.version or 0) for item in facts.inputs))


def are_runs(tx: Transaction, claims: Iterable[Claim], status: str | None = None) -> bool:
    """Whether the store has these runs with the same epoch, owner and, if given, status."""
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
    """Undo a claim. With a receipt, the gate refused it: the candidate is deferred by `wait`. Without one, it never began."""
    chunks = [(name, claim.dataid) for name in claim.outputs]
    held = transition.locked_rows(tx, chunks)
    if any((row.status, row.runid) != (RUNNING, claim.runid) for row in held.values()) or len(held) < len(
        claim.outputs
    ):
        raise lease_lost(claim)  # the status was changed by SQL and is not folded in yet
    common: dict[str, Any] = {"runid": claim.runid, "epoch": claim.epoch, "before": RUNNING, "why": detail}
    if receipt is None:
        events = [
            EventRow("given back", *chunk, claim.jobid, after=row.held, who=claim.owner, **common)
            for chunk, row in held.items()
        ]
    else:
        events = receipt_events("refused", claim.outputs, receipt, claim.owner, **common)
    outcome = _GIVEN_BACK if receipt is None else receipt.verdict
    if not transition.undo(tx, catalogue, claim, held, outcome, detail, events):
        raise lease_lost(claim)
    not_before = tx.value("lease_clock") + wait if wait else 0.0
    candidates.derive(tx, catalogue, [(claim.jobid, claim.dataid)], not_before=not_before)
