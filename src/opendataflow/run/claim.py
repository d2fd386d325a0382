"""Claims a chunk, or stores the receipt that says why none can be claimed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import NothingToDo, OdfError, StoreUnreachable, UntrustedDefinition, exit_code_of
from ..model import YES, Answer, Facts, Receipt, decide
from ..store import Claim
from .process.signals import Signals
from .records import Result, RunRequest

if TYPE_CHECKING:
    from ..project.trust import Distrust
    from .worker import Worker


def claim_chunk(worker: Worker, request: RunRequest, *, on_spark: bool) -> Claim | Result:
    """Claim the requested chunk; otherwise return and store the answers why not.

    Signals are deferred: interrupting a claim could leave a chunk locked until its lease expires.
    """
    with Signals(worker.store.end_soon) as signals:
        try:
            claim = _claim(worker, request, on_spark)
            if signals.count and isinstance(claim, Claim):
                worker.store.give_back(claim, None, f"stopped by {signals.first} before it began", wait=0.0)
        except StoreUnreachable:
            if not signals.count:
                raise
    if signals.count:
        raise KeyboardInterrupt(signals.first)
    return claim


def _claim(worker: Worker, request: RunRequest, on_spark: bool) -> Claim | Result:
    store = worker.store
    store.check_environment(worker.project.environment.name)
    catalogue = store.known
    job = catalogue.job(request.jobid)
    untrusted = worker.distrust(catalogue, job, on_spark=on_spark)
    if untrusted and (refused := _refused(worker, request, untrusted)):
        return refused
    worker.vault.passwords(catalogue, job)  # fails before a chunk is claimed
    worker.check_engine(catalogue, job, on_spark=on_spark)  # likewise
    for retries_left in (2, 1, 0):  # retry: another process may release a chunk between the claim and its receipt
        claims = store.claim(request.jobid, dataid=request.dataid, force=request.force, lease=request.lease)
        if claims:
            if request.force:
                worker.say(
                    f"FORCED: {request.jobid} {claims[0].dataid} runs without the five questions; "
                    f"run {claims[0].runid} is permanently marked as forced"
                )
            return claims[0]
        receipt = worker.forecast(request.jobid, request.dataid, "nothing was claimed")
        if receipt is None:
            break
        if receipt.verdict != YES or not retries_left:
            return _not_claimed(worker, request, receipt)
    return Result(NothingToDo.name, 0, f"no chunk of {job.jobid} may be processed now; see: odf why {job.jobid}")


def refuse_untrusted(worker: Worker, jobid: str) -> None:
    """Store once the refusal of the next chunk of a job whose definitions are not trusted."""
    job = worker.store.known.job(jobid)
    untrusted = worker.distrust(worker.store.known, job, on_spark=worker.needs_spark(job))
    if untrusted:
        _refused(worker, RunRequest(jobid), untrusted, again=False)


def _refused(
    worker: Worker, request: RunRequest, untrusted: Sequence[Distrust], *, again: bool = True
) -> Result | None:
    """Store the refusal of the requested or next chunk; None if there is no chunk at all."""
    store, dataid = worker.store, request.dataid
    with store.looking():
        if dataid is None:
            dataid = next(iter(store.views.next_dataids(request.jobid, 1)), None)
        if dataid is None:
            return None
        receipt = with_distrust(store.views.facts(request.jobid, dataid)._replace(deferred=0.0), untrusted)
    store.refuse(receipt, receipt.no.why if receipt.no else "", again=again)
    return refusal(worker, receipt, untrusted)


def with_distrust(facts: Facts, untrusted: Sequence[Distrust]) -> Receipt:
    """The receipt of a chunk whose definitions are not trusted."""
    from ..project.trust import looks

    answers: Any = looks(untrusted)
    return decide(facts._replace(forced=False, **answers))


def refusal(worker: Worker, receipt: Receipt, untrusted: Sequence[Distrust]) -> Result:
    """The result of a refused call, with the remedy for untrusted definitions."""
    detail = receipt.no.why if receipt.no else ""
    if receipt.verdict == UntrustedDefinition.name:
        problem = worker.refused(untrusted)
        detail = f"{problem.message}. {problem.hint}"
    return Result(receipt.verdict, exit_code_of(receipt.verdict), detail, receipt=receipt)


def not_begun(worker: Worker, claim: Claim, problem: OdfError) -> Result:
    """The result of a call whose chunk was given back because the code of its job does not load here."""
    detail = ". ".join(filter(None, (problem.message, problem.hint)))
    return Result(problem.name, problem.exit_code, worker.vault.redact(detail), claim)


def _not_claimed(worker: Worker, request: RunRequest, receipt: Receipt) -> Result:
    """Store the refusal of the named chunk, or of the first blocked chunk."""
    if receipt.no is None:
        receipt = _not_now(receipt, "another process claimed it at the same time")
    verdict, detail = receipt.verdict, receipt.no.why if receipt.no else ""
    worker.store.refuse(receipt, detail, again=request.dataid is not None)
    if request.dataid is None:
        first = f"first in line is {receipt.dataid}: {detail}; see: odf why {receipt.jobid} {receipt.dataid}"
        detail = f"no chunk of {receipt.jobid} can run now; {first}"
    return Result(verdict, exit_code_of(verdict), detail, receipt=receipt)


def _not_now(receipt: Receipt, why: str) -> Receipt:
    """The same answers, except that question 5 is answered no."""
    return Receipt(receipt.jobid, receipt.dataid, (*receipt.answers[:-1], Answer("safe", False, why=why)))
