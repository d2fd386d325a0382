"""One attempt, from the claim to the publish. The order is written here and nowhere else:

    claim → admit → execute → audit → commit

An executor does the middle: a script, chunks on Spark, or whoever shook hands by `odf start` and `odf end`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from ..errors import (
    Cancelled,
    JobFailed,
    LeaseLost,
    NothingToDo,
    OdfError,
    StoreUnreachable,
    UntrustedDefinition,
    exit_code_of,
)
from ..model import READY, YES, Answer, Catalogue, Facts, Manifest, Receipt, decide
from ..model.remarks import remarks
from ..store import Claim
from .heartbeat import Heartbeat, beating
from .parts import Asked, Attempt, Done, Executor, Result

if TYPE_CHECKING:
    from ..project.trust import Distrust
    from .process.logs import LogFile
    from .worker import Worker

_LONGEST_DETAIL = 4000
_LAST_PATIENCE = 5.0


# The whole way --------------------------------------------------------------------------------------------------------


def run_next(worker: Worker, asked: Asked, executor: Executor | None = None) -> Result:
    """Claim a chunk and take it the whole way, by the code of its job unless an executor is given."""
    executor = executor or worker.executor(worker.store.known.job(asked.jobid))
    claim = claim_chunk(worker, asked, on_spark=executor.on_spark)
    if isinstance(claim, Result):
        return claim
    return run(worker, worker.store.known, [claim], executor)[0]


def run(
    worker: Worker, catalogue: Catalogue, claims: Sequence[Claim], executor: Executor | None = None
) -> list[Result]:
    """Take claimed chunks of one job the rest of the way, together; what goes wrong is a result and leaves nothing locked."""
    results: dict[int, Result] = {}
    log: LogFile | None = None
    try:
        with ExitStack() as stack:
            executor = executor or worker.executor(catalogue.job(claims[0].jobid))  # its code may be gone by now
            admitted = admit(worker, catalogue, claims, results, on_spark=executor.on_spark)
            if admitted:
                attempts = [attempt for attempt, _ in admitted]
                log = stack.enter_context(worker.new_log(attempts[0].claim))
                worker.store.admit_many([(attempt.claim, receipt, str(log.path)) for attempt, receipt in admitted])
                for attempt in attempts:
                    _tell_start(worker, attempt)
                heartbeat = stack.enter_context(beating(worker, [attempt.claim for attempt in attempts]))
                done = execute(worker, attempts, executor, heartbeat, log)
                produced = audit(worker, attempts, executor, done, results)
                commit(worker, produced, results)
                _note(log, [results[runid] for runid, work in done.items() if work.problem is None])
    except BaseException as problem:
        if not isinstance(problem, Exception):
            worker.store.patience = min(worker.store.patience, _LAST_PATIENCE)  # whoever interrupts us wants an end
        # Whatever it was, no chunk may stay locked until its lease ends.
        for claim in claims:
            if claim.runid not in results:
                results[claim.runid] = fail(worker, claim, Done(problem=_named(problem)))
        if not isinstance(problem, Exception):
            raise
    if log is not None:
        worker.keep_log_tail(claims, log)
    return [_with_log(results[claim.runid], log) for claim in claims]


def begin(worker: Worker, asked: Asked) -> Attempt | Result:
    """Claim and admit a chunk for somebody who does the work without us: the first half of a handshake."""
    claim = claim_chunk(worker, asked, on_spark=False)
    if isinstance(claim, Result):
        return claim
    results: dict[int, Result] = {}
    try:
        for attempt, receipt in admit(worker, worker.store.known, [claim], results, on_spark=False):
            worker.store.admit(claim, receipt)
            _tell_start(worker, attempt)
            return attempt
    except BaseException as problem:
        result = fail(worker, claim, Done(problem=_named(problem)))
        if not isinstance(problem, Exception):
            raise
        return result
    return results[claim.runid]


def finish(worker: Worker, claim: Claim, executor: Executor, done: Done) -> Result:
    """Audit and commit what somebody did, or record that it failed: the second half of a handshake.

    What may not be published raises, and the run stays its holder's, who can mend it and end the run again.
    """
    if done.problem is not None:
        if worker.teller is not None:
            worker.teller.catalogue = worker.store.known  # another process told of its start
        return fail(worker, claim, done)
    attempt = Attempt(claim, worker.store.known, worker.store.input_chunks([claim])[claim.runid], {})
    published = _audited(executor, attempt, done)
    publish(worker, [(attempt, published)])
    _tell_published(worker, attempt, published)
    return _ready(claim, published)


# Step by step ---------------------------------------------------------------------------------------------------------


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


def admit(
    worker: Worker, catalogue: Catalogue, claims: Sequence[Claim], results: dict[int, Result], *, on_spark: bool
) -> list[tuple[Attempt, Receipt | None]]:
    """Ask what needs a look at the data itself; a no gives the claim back, a yes is kept with what the run needs.

    What the definitions may do is asked of forced runs too: whoever forces a run vouches for its data, not for the store.
    """
    store, environment = worker.store, worker.project.environment
    job = catalogue.job(claims[0].jobid)
    untrusted = worker.distrust(catalogue, job, on_spark=on_spark)
    if untrusted:
        for claim in claims:  # somebody changed the store after it was claimed
            no = _with_distrust(claim.facts, untrusted)
            store.give_back(claim, no, no.no.why if no.no else "")
            results[claim.runid] = _no(worker, no, untrusted)._replace(claim=claim)
        return []
    inputs = store.input_chunks(claims)
    secrets = worker.vault.passwords(catalogue, job)
    admitted: list[tuple[Attempt, Receipt | None]] = []
    for claim in claims:
        receipt = None  # of a forced run, and of one with nothing to look at, the claim has stored it
        if claim.receipt.verdict != YES and not claim.forced:
            from .. import gate  # here, since what is only tracked needs no look

            receipt = gate.ask(environment, catalogue, claim, inputs[claim.runid])
            if receipt.no is not None:
                store.give_back(claim, receipt, receipt.no.why)
                verdict = receipt.verdict
                results[claim.runid] = Result(verdict, exit_code_of(verdict), receipt.no.why, claim, receipt)
                continue
        admitted.append((Attempt(claim, catalogue, inputs[claim.runid], secrets), receipt))
    return admitted


def execute(
    worker: Worker, attempts: Sequence[Attempt], executor: Executor, heartbeat: Heartbeat, log: LogFile
) -> Mapping[int, Done]:
    """The work itself; what raises there is the problem of every attempt."""
    try:
        return executor.execute(attempts, heartbeat, log)
    except Exception as raised:
        problem = cause(worker, heartbeat, raised)
        return {attempt.claim.runid: Done(problem=problem) for attempt in attempts}


def cause(worker: Worker, heartbeat: Heartbeat, raised: Exception) -> OdfError:
    """Why the work ended: a lost lease or a cancel stopped it, whatever it then raised, or else what it raised."""
    problem = _named(raised)
    if heartbeat.is_lost:
        return heartbeat.lease_lost()
    if worker.cancelled.is_set() and not isinstance(problem, LeaseLost):
        return Cancelled(f"cancelled: {problem.message}")
    return problem


def audit(
    worker: Worker,
    attempts: Sequence[Attempt],
    executor: Executor,
    done: Mapping[int, Done],
    results: dict[int, Result],
) -> list[tuple[Attempt, Done]]:
    """What may be published, with its manifests; what failed, at work or in its checks, is recorded as such."""
    produced = []
    for attempt in attempts:
        claim, work = attempt.claim, done[attempt.claim.runid]
        if work.problem is None:
            try:
                produced.append((attempt, _audited(executor, attempt, work)))
                continue
            except Exception as problem:
                work = Done(problem=problem, exit_code=work.exit_code, ended=work.ended)
        results[claim.runid] = fail(worker, claim, work)
    return produced


def commit(worker: Worker, produced: Sequence[tuple[Attempt, Done]], results: dict[int, Result]) -> None:
    """Publish everything in one transaction; if one chunk may not be published, each on its own tells which."""
    if not produced:
        return
    try:
        publish(worker, produced)
    except OdfError as problem:
        if len(produced) > 1:
            for pair in produced:
                commit(worker, [pair], results)
            return
        [(attempt, done)] = produced
        work = Done(problem=problem, exit_code=done.exit_code, ended=done.ended)
        results[attempt.claim.runid] = fail(worker, attempt.claim, work)
        return
    for attempt, done in produced:
        _tell_published(worker, attempt, done)
        results[attempt.claim.runid] = _ready(attempt.claim, done)


def publish(worker: Worker, produced: Sequence[tuple[Attempt, Done]]) -> None:
    """The commit itself: the outputs, and with them the rows that were kept aside."""
    outputs: list[tuple[Claim, Mapping[str, Manifest], int | None]] = []
    aside: dict[str, Manifest] = {}
    for attempt, done in produced:
        claim = attempt.claim
        mine = {name: manifest for name, manifest in done.manifests.items() if name in claim.outputs}
        aside |= {name: manifest for name, manifest in done.manifests.items() if name not in claim.outputs}
        outputs.append((claim, mine, done.exit_code))
    if aside:
        from ..files.quarantine import rejected_dataset, rejected_id

        catalogue = produced[0][0].catalogue
        sources = [catalogue.dataset(name) for name in outputs[0][1] if rejected_id(name) in aside]
        worker.store.register([rejected_dataset(source) for source in sources])
    worker.store.commit_many(outputs, beside=aside, settle=[done.settle for _, done in produced if done.settle])


def fail(worker: Worker, claim: Claim, done: Done) -> Result:
    """Record what went wrong, without any secret in it: the chunk is FAILED, or RESUBMIT by its job's retry rule."""
    result = _failed(worker, claim, done)
    if worker.teller is not None:
        worker.teller.failed(claim, result.outcome, result.detail)
    return result


def _failed(worker: Worker, claim: Claim, done: Done) -> Result:
    problem = _named(done.problem)
    if isinstance(problem, (LeaseLost, StoreUnreachable)):
        # The store says nothing about the work: what it did not hear is taken up again when the lease ends.
        return Result(problem.name, problem.exit_code, problem.message, claim, ended=done.ended)
    detail = worker.vault.redact(problem.message)[:_LONGEST_DETAIL]
    try:
        status = worker.store.fail(claim, problem.name, detail, exit_code=done.exit_code)
    except (LeaseLost, StoreUnreachable) as lost:
        return Result(lost.name, lost.exit_code, lost.message, claim, ended=done.ended)
    return Result(problem.name, problem.exit_code, f"{detail} ({status})", claim, status=status, ended=done.ended)


# What may not act -----------------------------------------------------------------------------------------------------


def _refused(worker: Worker, asked: Asked, untrusted: Sequence[Distrust]) -> Result | None:
    """The no to the chunk that was asked for, or to the next one, which is stored; None when there is no chunk at all."""
    store, dataid = worker.store, asked.dataid
    if dataid is None:
        store.fold_in()
        dataid = next(iter(store.next_dataids(asked.jobid, 1)), None)
    if dataid is None:
        return None
    receipt = _with_distrust(store.facts(asked.jobid, dataid)._replace(deferred=0.0), untrusted)
    store.refuse(receipt, receipt.no.why if receipt.no else "")
    return _no(worker, receipt, untrusted)


def _with_distrust(facts: Facts, untrusted: Sequence[Distrust]) -> Receipt:
    from ..project.trust import looks

    answers: Any = looks(untrusted)
    return decide(facts._replace(forced=False, **answers))


def _no(worker: Worker, receipt: Receipt, untrusted: Sequence[Distrust]) -> Result:
    why = receipt.no.why if receipt.no else ""
    detail = f"{why}. {worker.way_out(untrusted)}" if receipt.verdict == UntrustedDefinition.name else why
    return Result(receipt.verdict, exit_code_of(receipt.verdict), detail, receipt=receipt)


# Helpers --------------------------------------------------------------------------------------------------------------


def _audited(executor: Executor, attempt: Attempt, done: Done) -> Done:
    manifests = executor.audit(attempt, done)
    return done._replace(manifests=manifests, settle=partial(executor.settle, attempt, manifests))


def _not_claimed(worker: Worker, asked: Asked, receipt: Receipt) -> Result:
    """The no to the chunk that was named, or to the one that is first in the way, which is stored."""
    if receipt.no is None:
        taken = Answer("safe", False, why="another process took it at the same moment")
        receipt = Receipt(receipt.jobid, receipt.dataid, (*receipt.answers[:-1], taken))
    no, verdict = receipt.no, receipt.verdict
    why = no.why if no else ""
    worker.store.refuse(receipt, why, again=asked.dataid is not None)
    if asked.dataid is not None:
        return Result(verdict, exit_code_of(verdict), why, receipt=receipt)
    # It is ready, and only a limit keeps it; that somebody paused the job is no news.
    is_full = no is not None and "slots" in no.evidence and "job" not in no.evidence
    here = f"{receipt.jobid} {receipt.dataid}"
    detail = f"no chunk of {receipt.jobid} can run now; first in line is {receipt.dataid}: {why}; see: odf why {here}"
    return Result(verdict, exit_code_of(verdict) if is_full else 0, detail, receipt=receipt)


def _ready(claim: Claim, done: Done) -> Result:
    told = remarks(done.manifests)
    detail = f"{claim.jobid} {claim.dataid} is READY" + (f"; {told}" if told else "")
    return Result(READY, 0, detail, claim, status=READY, ended=done.ended, remarks=told)


def _tell_start(worker: Worker, attempt: Attempt) -> None:
    if worker.teller is not None:
        worker.teller.started(attempt.claim, attempt.catalogue, attempt.inputs)


def _tell_published(worker: Worker, attempt: Attempt, done: Done) -> None:
    if worker.teller is not None:
        worker.teller.published(attempt.claim, attempt.catalogue, attempt.inputs, done.manifests)


def _named(problem: BaseException | None) -> OdfError:
    if isinstance(problem, OdfError):
        return problem
    if isinstance(problem, KeyboardInterrupt):
        return Cancelled("interrupted")
    return JobFailed(f"{type(problem).__name__}: {problem}")


def _note(log: LogFile, results: Sequence[Result]) -> None:
    """The log of a run whose work was done says why nothing of it is published, or what is to be known of it."""
    for result in results:
        if (result.outcome != READY or result.remarks) and result.claim is not None:
            log.note(f"run {result.claim.runid}: {result.outcome}: {result.detail}")


def _with_log(result: Result, log: LogFile | None) -> Result:
    if log is None or result.receipt is not None or result.log is not None:
        return result
    return result._replace(log=log.path)
