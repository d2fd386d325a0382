"""Runs attempts through their lifecycle, whose order is defined only here:

    claim → admit → execute → audit → commit

An executor does the work: a script, Spark, or for a handshake the caller of `odf start` and `odf end`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from .. import faults
from ..errors import JobFailed, LeaseLost, OdfError, Stopped, StoreUnreachable, exit_code_of
from ..model import HOLD, READY, Catalogue, InputChunk, Manifest, Receipt
from ..store import Claim
from .claim import claim_chunk, not_begun, refusal, with_distrust
from .heartbeat import Heartbeat
from .process.signals import Signals
from .records import Attempt, Batch, Executor, ExecutorResult, Result, RunRequest
from .slots import run_in_slot

if TYPE_CHECKING:
    from .process.logs import LogFile
    from .worker import Worker

_LONGEST_DETAIL = 4000


# The lifecycle --------------------------------------------------------------------------------------------------------


def run_next(worker: Worker, request: RunRequest, executor: Executor | None = None) -> Result:
    """Claim a chunk and run it, by the code of its job unless an executor is given."""
    on_spark = executor.on_spark if executor else worker.needs_spark(worker.store.known.job(request.jobid))
    claim = claim_chunk(worker, request, on_spark=on_spark)
    if isinstance(claim, Result):
        return claim
    return run(worker, worker.store.known, [claim], executor)[0]


def run(
    worker: Worker, catalogue: Catalogue, claims: Sequence[Claim], executor: Executor | None = None
) -> list[Result]:
    """Run claimed chunks of one job together; every failure becomes a result, and no chunk stays locked."""
    [batch] = batches = admit_all(worker, catalogue, [claims], executor)
    if batch.problem is not None:
        return [not_begun(worker, claim, batch.problem) for claim in claims]
    if batch.executor is not None and batch.executor.on_spark:
        run_in_slot(worker, batch)
    else:
        work(worker, batch)
        end_all(worker, batches)
    return [batch.results[claim.runid] for claim in claims]


def admit_all(
    worker: Worker, catalogue: Catalogue, groups: Sequence[Sequence[Claim]], executor: Executor | None = None
) -> list[Batch]:
    """Admit claimed chunks of one job, one batch per group; one transaction records all answers."""
    batches = [Batch(claims) for claims in groups]
    with _recording_failures(worker, batches):
        inputs = worker.store.input_chunks([claim for batch in batches for claim in batch.claims])
        admitted = []
        for batch in batches:
            with _recording_failures(worker, [batch]):
                # May raise: the code of the job may have been removed.
                batch.executor = executor or worker.prepare(catalogue, batch)
                if batch.executor is None:
                    continue
                pairs = admit(worker, catalogue, batch, inputs)
                if pairs:
                    batch.log = worker.new_log(pairs[0][0].claim)
                    batch.attempts = [attempt for attempt, _ in pairs]
                    admitted += [(attempt.claim, receipt, str(batch.log.path)) for attempt, receipt in pairs]
        worker.store.admit_many(admitted)
        for batch in batches:
            if batch.attempts:
                batch.heartbeat = Heartbeat([attempt.claim for attempt in batch.attempts])
        worker.pulse.add(batch.heartbeat for batch in batches if batch.heartbeat is not None)
    return batches


def work(worker: Worker, batch: Batch) -> None:
    """Execute and audit an admitted batch; failed attempts get their result, the others may be published."""
    if batch.is_over or batch.executor is None or batch.heartbeat is None or batch.log is None:
        return
    with _recording_failures(worker, [batch]):
        for attempt in batch.attempts:
            _report_start(worker, attempt)
        done = execute(worker, batch.attempts, batch.executor, batch.heartbeat, batch.log)
        batch.produced = audit(worker, batch.attempts, batch.executor, done, batch.results)
        faults.point("audited")
        batch.worked = [runid for runid, work in done.items() if work.problem is None]


def end_all(worker: Worker, batches: Sequence[Batch]) -> None:
    """Publish the produced outputs, in one transaction if possible; afterwards each claim has its result."""
    with _recording_failures(worker, batches):
        results: dict[int, Result] = {}
        try:
            commit(worker, [pair for batch in batches if _shares_a_commit(batch) for pair in batch.produced], results)
            for batch in batches:
                if not _shares_a_commit(batch):
                    commit(worker, batch.produced, results)
        finally:
            for batch in batches:
                batch.results |= {runid: results[runid] for runid in batch.runids if runid in results}
    _close(worker, batches)


def give_back(worker: Worker, batch: Batch, why: str) -> None:
    """Return a batch that was not started to the queue; this uses no try."""
    for claim in batch.claims:
        if claim.runid not in batch.results:
            with suppress(LeaseLost, StoreUnreachable):  # otherwise the lease expires
                worker.store.give_back(claim, None, why, wait=0.0)
            if batch.log is not None:
                batch.log.note(f"run {claim.runid}: {why}")
    _close(worker, [batch])


def abandon(worker: Worker, batch: Batch, where: str) -> None:
    """End the run of code that hangs and cannot be stopped; its further output is never published."""
    assert batch.heartbeat is not None
    problem = cause(worker, batch.heartbeat, JobFailed(f"the code of the job hangs at {where}"))
    if batch.log is not None:
        batch.log.note(f"the code of the job hangs at {where}; the run ends without waiting for the code")
    for claim in batch.claims:
        if claim.runid not in batch.results:
            batch.results[claim.runid] = fail(worker, claim, ExecutorResult(problem=problem))
    _close(worker, [batch])


@contextmanager
def _recording_failures(worker: Worker, batches: Sequence[Batch]) -> Iterator[None]:
    """Record every exception inside as a failure, so that no chunk stays locked; a second signal waits until then."""
    try:
        yield
    except BaseException as problem:
        is_interrupt = not isinstance(problem, Exception)
        if is_interrupt:
            worker.store.end_soon()
        with Signals(worker.store.end_soon) as signals:
            for batch in batches:
                for claim in batch.claims:
                    if claim.runid not in batch.results:
                        batch.results[claim.runid] = fail(worker, claim, ExecutorResult(problem=_named(problem)))
            if is_interrupt or signals.count:
                _close(worker, batches)
        if is_interrupt:
            raise
        if signals.count:
            raise KeyboardInterrupt(signals.first) from None


def _close(worker: Worker, batches: Sequence[Batch]) -> None:
    """Stop the heartbeats, and close the logs and add them to the results."""
    worker.pulse.remove(batch.heartbeat for batch in batches if batch.heartbeat is not None)
    for batch in batches:
        log = batch.log
        if log is not None:
            _note(log, [batch.results[runid] for runid in batch.worked])
            log.close()
            batch.results = {runid: _with_log(result, log) for runid, result in batch.results.items()}
    worker.keep_log_tails(batches)


def begin(worker: Worker, request: RunRequest) -> Attempt | Result:
    """Claim and admit a chunk for an external process: the first half of a handshake."""
    claim = claim_chunk(worker, request, on_spark=False)
    if isinstance(claim, Result):
        return claim
    batch = Batch([claim])
    with _recording_failures(worker, [batch]):
        inputs = worker.store.input_chunks([claim])
        for attempt, receipt in admit(worker, worker.store.known, batch, inputs):
            worker.store.admit(claim, receipt)
            _report_start(worker, attempt)
            return attempt
    return batch.results[claim.runid]


def finish(worker: Worker, claim: Claim, executor: Executor, done: ExecutorResult) -> Result:
    """Audit and commit the output of an external process, or record its failure: the second half of a handshake.

    Raises if the output may not be published; the run then continues, so that its owner can fix the output and retry.
    """
    if done.problem is not None:
        if worker.teller is not None:
            worker.teller.catalogue = worker.store.known  # the start was reported by another process
        return fail(worker, claim, done)
    inputs = worker.store.input_chunks([claim])[claim.runid]
    attempt = Attempt.of(worker.project.environment, worker.store.known, claim, inputs)
    published = _audited(executor, attempt, done)
    remarks = publish(worker, [(attempt, published)])
    _report_published(worker, attempt, published)
    return _ready(claim, published, remarks[claim.runid])


# The steps ------------------------------------------------------------------------------------------------------------


def admit(
    worker: Worker, catalogue: Catalogue, batch: Batch, inputs: Mapping[int, tuple[InputChunk, ...]]
) -> list[tuple[Attempt, Receipt | None]]:
    """Answer the questions that need an inspection of the data; give refused claims back.

    Trust in the definitions is checked for forced runs too: force skips the checks of the data, not of the store.
    """
    store, environment, results = worker.store, worker.project.environment, batch.results
    job = catalogue.job(batch.claims[0].jobid)
    untrusted = worker.distrust(catalogue, job, on_spark=batch.executor is not None and batch.executor.on_spark)
    if untrusted:
        for claim in batch.claims:  # the definition changed after the claim
            no = with_distrust(claim.facts, untrusted)
            store.give_back(claim, no, no.no.why if no.no else "")
            results[claim.runid] = refusal(worker, no, untrusted)._replace(claim=claim)
        return []
    secrets = worker.vault.passwords(catalogue, job)
    admitted: list[tuple[Attempt, Receipt | None]] = []
    for claim in batch.claims:
        attempt = Attempt.of(environment, catalogue, claim, inputs[claim.runid], secrets, batch.code)
        receipt = None  # stored at the claim already if the run is forced or only tracked
        if claim.facts.needs_a_look:
            from .. import gate  # lazy: not needed for tracked datasets

            receipt = gate.ask(environment, catalogue, claim, attempt.inputs, attempt.locations)
            if receipt.no is not None:
                store.give_back(claim, receipt, receipt.no.why)
                code = exit_code_of(receipt.verdict)
                results[claim.runid] = Result(receipt.verdict, code, receipt.no.why, claim, receipt)
                continue
        admitted.append((attempt, receipt))
    return admitted


def execute(
    worker: Worker, attempts: Sequence[Attempt], executor: Executor, heartbeat: Heartbeat, log: LogFile
) -> Mapping[int, ExecutorResult]:
    """Run the executor; an exception is the problem of every attempt."""
    if executor.on_spark and (longest := attempts[0].job.timeout) is not None:
        heartbeat.deadline = time.monotonic() + longest * len(attempts)  # the launch of a script has its own timeout
    try:
        done = executor.execute(attempts, heartbeat, log)
        if heartbeat.is_late:
            raise heartbeat.timed_out()
        return done
    except Exception as raised:
        problem = cause(worker, heartbeat, raised)
        return {attempt.claim.runid: ExecutorResult(problem=problem) for attempt in attempts}


def cause(worker: Worker, heartbeat: Heartbeat, raised: Exception) -> OdfError:
    """The reason why the work ended: a lost lease, a timeout or a signal if there was one, otherwise the exception."""
    problem = _named(raised)
    if heartbeat.is_lost:
        return heartbeat.lease_lost()
    if heartbeat.is_late:
        return heartbeat.timed_out()
    if worker.cancelled.is_set() and not isinstance(problem, LeaseLost):
        return worker.stopped(problem.message)
    return problem


def audit(
    worker: Worker,
    attempts: Sequence[Attempt],
    executor: Executor,
    done: Mapping[int, ExecutorResult],
    results: dict[int, Result],
) -> list[tuple[Attempt, ExecutorResult]]:
    """The attempts that may be published, with their manifests; failures of the work or of checks are recorded."""
    produced = []
    for attempt in attempts:
        claim, work = attempt.claim, done[attempt.claim.runid]
        if work.problem is None:
            try:
                produced.append((attempt, _audited(executor, attempt, work)))
                continue
            except Exception as problem:
                work = ExecutorResult(problem=problem, exit_code=work.exit_code, ended=work.ended)
        results[claim.runid] = fail(worker, claim, work)
    return produced


def _shares_a_commit(batch: Batch) -> bool:
    """Whether a batch may share its transaction with others: only if its datasets are only tracked.

    A rollback caused by another batch would not undo renamed files, and quarantined rows belong to one chunk.
    """
    return not any(done.manifests for _, done in batch.produced)


def commit(worker: Worker, produced: Sequence[tuple[Attempt, ExecutorResult]], results: dict[int, Result]) -> None:
    """Publish everything in one transaction; if it fails, publish each chunk on its own to find the cause."""
    if not produced:
        return
    try:
        published = publish(worker, produced)
    except Exception as problem:
        if len(produced) > 1 and not isinstance(problem, StoreUnreachable):
            for pair in produced:
                commit(worker, [pair], results)
            return
        for attempt, done in produced:
            work = ExecutorResult(problem=problem, exit_code=done.exit_code, ended=done.ended)
            results[attempt.claim.runid] = fail(worker, attempt.claim, work)
        return
    for attempt, done in produced:
        _report_published(worker, attempt, done)
        results[attempt.claim.runid] = _ready(attempt.claim, done, published[attempt.claim.runid])


def publish(worker: Worker, produced: Sequence[tuple[Attempt, ExecutorResult]]) -> dict[int, str]:
    """Commit the outputs and their quarantined rows; returns the remarks by runid."""
    outputs: list[tuple[Claim, Mapping[str, Manifest], int | None]] = []
    quarantined: dict[str, Manifest] = {}
    for attempt, done in produced:
        claim = attempt.claim
        manifests = {name: manifest for name, manifest in done.manifests.items() if name in claim.outputs}
        quarantined |= {name: manifest for name, manifest in done.manifests.items() if name not in claim.outputs}
        outputs.append((claim, manifests, done.exit_code))
    if quarantined:
        from ..files.quarantine import rejected_dataset, rejected_id

        catalogue = produced[0][0].catalogue
        sources = [catalogue.dataset(name) for name in outputs[0][1] if rejected_id(name) in quarantined]
        worker.store.register([rejected_dataset(source) for source in sources])
    steps = [done.publish_files for _, done in produced if done.publish_files]
    return worker.store.commit_many(outputs, rejected=quarantined, publish_files=steps)


def fail(worker: Worker, claim: Claim, done: ExecutorResult) -> Result:
    """Record a failure, with secrets redacted: the chunk becomes FAILED, or RESUBMIT for a retry."""
    result = _failed(worker, claim, done)
    if worker.teller is not None:
        worker.teller.failed(claim, result.outcome, result.detail)
    return result


def _failed(worker: Worker, claim: Claim, done: ExecutorResult) -> Result:
    problem = _named(done.problem)
    if isinstance(problem, (LeaseLost, StoreUnreachable)):
        # Nothing can be recorded: another process takes the chunk over when the lease expires.
        return Result(problem.name, problem.exit_code, problem.message, claim, ended=done.ended)
    if isinstance(problem, Stopped) and not done.stopped_as:
        worker.store.end_soon()
    detail = worker.vault.redact(problem.message)[:_LONGEST_DETAIL]
    try:
        status = worker.store.fail(claim, problem.name, detail, exit_code=done.exit_code, hold=done.stopped_as == HOLD)
    except (LeaseLost, StoreUnreachable) as lost:
        return Result(lost.name, lost.exit_code, lost.message, claim, ended=done.ended)
    return Result(problem.name, problem.exit_code, f"{detail} ({status})", claim, status=status, ended=done.ended)


# Helpers --------------------------------------------------------------------------------------------------------------


def _audited(executor: Executor, attempt: Attempt, done: ExecutorResult) -> ExecutorResult:
    manifests = executor.audit(attempt, done)
    return done._replace(manifests=manifests, publish_files=partial(executor.publish_files, attempt, manifests))


def _ready(claim: Claim, done: ExecutorResult, remarks: str) -> Result:
    detail = f"{claim.jobid} {claim.dataid} is READY" + (f"; {remarks}" if remarks else "")
    return Result(READY, 0, detail, claim, status=READY, ended=done.ended, remarks=remarks)


def _report_start(worker: Worker, attempt: Attempt) -> None:
    if worker.teller is not None:
        worker.teller.started(attempt.claim, attempt.catalogue, attempt.inputs)


def _report_published(worker: Worker, attempt: Attempt, done: ExecutorResult) -> None:
    if worker.teller is not None:
        worker.teller.published(attempt.claim, attempt.catalogue, attempt.inputs, done.manifests)


def _named(problem: BaseException | None) -> OdfError:
    if isinstance(problem, OdfError):
        return problem
    if isinstance(problem, KeyboardInterrupt):
        return Stopped(f"stopped by {problem.args[0] if problem.args else 'SIGINT'}")
    return JobFailed(f"{type(problem).__name__}: {problem}")


def _note(log: LogFile, results: Sequence[Result]) -> None:
    """Write to the log why a finished run was not published, or the remarks on its output."""
    for result in results:
        if (result.outcome != READY or result.remarks) and result.claim is not None:
            log.note(f"run {result.claim.runid}: {result.outcome}: {result.detail}")


def _with_log(result: Result, log: LogFile) -> Result:
    return result if result.receipt is not None or result.log is not None else result._replace(log=log.path)
