"""Asking for a chunk: it is taken, or the answer says why it cannot be, and is stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import NothingToDo, UntrustedDefinition, exit_code_of
from ..model import YES, Answer, Facts, Receipt, decide
from ..store import Claim
from .audit import check_engine
from .parts import Asked, Result

if TYPE_CHECKING:
    from ..project.trust import Distrust
    from .worker import Worker


def claim_chunk(worker: Worker, asked: Asked, *, on_spark: bool) -> Claim | Result:
    """Take the chunk that was asked for; when it cannot be taken, the answers why, which are stored."""
    store = worker.store
    store.check_environment(worker.project.environment.name)
    catalogue = store.known
    job = catalogue.job(asked.jobid)
    untrusted = worker.distrust(catalogue, job, on_spark=on_spark)
    if untrusted and (refused := _refused(worker, asked, untrusted)):
        return refused
    worker.vault.passwords(catalogue, job)  # a wrong key is no reason to take a chunk
    if not on_spark:
        check_engine(catalogue.dataset(name) for name in job.outputs)  # nor are checks that cannot run here
    for rest in (2, 1, 0):  # what another process held a moment ago may be free when we ask why
        claims = store.claim(asked.jobid, dataid=asked.dataid, force=asked.force, lease=asked.lease)
        if claims:
            if asked.force:
                worker.say(
                    f"FORCED: {asked.jobid} {claims[0].dataid} runs without the five questions; "
                    f"run {claims[0].runid} is permanently marked as forced"
                )
            return claims[0]
        receipt = worker.forecast(asked.jobid, asked.dataid, "nothing was claimed")
        if receipt is None:
            break
        if receipt.verdict != YES or not rest:
            return _not_claimed(worker, asked, receipt)
    return Result(NothingToDo.name, 0, f"no chunk of {asked.jobid} may be processed now; see: odf why {asked.jobid}")


def _refused(worker: Worker, asked: Asked, untrusted: Sequence[Distrust]) -> Result | None:
    """The no to the chunk that was asked for, or to the next one, which is stored; None when there is no chunk at all."""
    store, dataid = worker.store, asked.dataid
    if dataid is None:
        store.fold_in()
        dataid = next(iter(store.next_dataids(asked.jobid, 1)), None)
    if dataid is None:
        return None
    receipt = with_distrust(store.facts(asked.jobid, dataid)._replace(deferred=0.0), untrusted)
    store.refuse(receipt, receipt.no.why if receipt.no else "")
    return refusal(worker, receipt, untrusted)


def with_distrust(facts: Facts, untrusted: Sequence[Distrust]) -> Receipt:
    """The answers about a chunk whose definitions are not trusted."""
    from ..project.trust import looks

    answers: Any = looks(untrusted)
    return decide(facts._replace(forced=False, **answers))


def refusal(worker: Worker, receipt: Receipt, untrusted: Sequence[Distrust]) -> Result:
    """How a call ends that is refused, with what to do about definitions that are not trusted."""
    detail = receipt.no.why if receipt.no else ""
    if receipt.verdict == UntrustedDefinition.name:
        problem = worker.refused(untrusted)
        detail = f"{problem.message}. {problem.hint}"
    return Result(receipt.verdict, exit_code_of(receipt.verdict), detail, receipt=receipt)


def _not_claimed(worker: Worker, asked: Asked, receipt: Receipt) -> Result:
    """The no to the chunk that was named, or to the one that is first in the way, which is stored."""
    if receipt.no is None:
        receipt = _not_now(receipt, "another process took it at the same moment")
    verdict, detail = receipt.verdict, receipt.no.why if receipt.no else ""
    worker.store.refuse(receipt, detail, again=asked.dataid is not None)
    if asked.dataid is None:
        first = f"first in line is {receipt.dataid}: {detail}; see: odf why {receipt.jobid} {receipt.dataid}"
        detail = f"no chunk of {receipt.jobid} can run now; {first}"
    return Result(verdict, exit_code_of(verdict), detail, receipt=receipt)


def _not_now(receipt: Receipt, why: str) -> Receipt:
    """The same answers, but that it is not safe to run it now."""
    return Receipt(receipt.jobid, receipt.dataid, (*receipt.answers[:-1], Answer("safe", False, why=why)))
