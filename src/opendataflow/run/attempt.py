"""One attempt, from the claim to the publish. The order is written here and nowhere else:

    claim → admit → execute → audit → commit

An executor does the middle: a script, chunks on Spark, or whoever shook hands by `odf start` and `odf end`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from .. import faults
from ..errors import JobFailed, LeaseLost, OdfError, Stopped, StoreUnreachable, exit_code_of
from ..model import READY, Catalogue, InputChunk, Manifest, Receipt
from ..store import Claim
from .asking import claim_chunk, refusal, with_distrust
from .heartbeat import Heartbeat
from .parts import Asked, Attempt, Batch, Done, Executor, Result

if TYPE_CHECKING:
    from .process.logs import LogFile
    from .worker import Worker

_LONGEST_DETAIL = 4000


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
    [batch] = batches = admit_all(worker, catalogue, [claims], executor)
    work(worker, batch)
    end_all(worker, batches)
    return [batch.results[claim.runid] for claim in claims]


def admit_all(
    worker: Worker, catalogue: Catalogue, groups: Sequence[Sequence[Claim]], executor: Executor | None = None
) -> list[Batch]:
    """Admit claimed chunks of one job, of which each group is made together; one transaction records all answers."""
    batches = [Batch(claims) for claims in groups]
    with _leaving_nothing_locked(worker, batches):
        inputs = worker.store.input_chunks([claim for batch in batches for claim in batch.claims])
        admitted = []
        for batch in batches:
            with _leaving_nothing_locked(worker, [batch]):
                # Its code may be gone by now.
                batch.executor = executor or worker.executor(catalogue.job(batch.claims[0].jobid))
                asked = admit(worker, catalogue, batch, inputs, on_spark=batch.executor.on_spark)
                if asked:
                    batch.log = worker.new_log(asked[0][0].claim)
                    batch.attempts = [attempt for attempt, _ in asked]
                    admitted += [(attempt.claim, receipt, str(batch.log.path)) for attempt, receipt in asked]
        worker.store.admit_many(admitted)
        for batch in batches:
            if batch.attempts:
                batch.heartbeat = Heartbeat([attempt.claim for attempt in batch.attempts])
        worker.pulse.add(batch.heartbeat for batch in batches if batch.heartbeat is not None)
    return batches


def work(worker: Worker, batch: Batch) -> None:
    """Execute and audit what was admitted: what failed has its result, the rest may be published."""
    if batch.is_over or batch.executor is None or batch.heartbeat is None or batch.log is None:
        return
    with _leaving_nothing_locked(worker, [batch]):
        for attempt in batch.attempts:
            _tell_start(worker, attempt)
        done = execute(worker, batch.attempts, batch.executor, batch.heartbeat, batch.log)
        batch.produced = audit(worker, batch.attempts, batch.executor, done, batch.results)
        faults.point("audited")
        batch.worked = [runid for runid, work in done.items() if work.problem is None]


def end_all(worker: Worker, batches: Sequence[Batch]) -> None:
    """Publish what was produced, together where that may be; from here on each claim has its result."""
    with _leaving_nothing_locked(worker, batches):
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
    """Nothing of it was begun: it becomes what it was, and whoever comes next may take it. A try is not used up."""
    for claim in batch.claims:
        if claim.runid not in batch.results:
            with suppress(LeaseLost, StoreUnreachable):  # then its lease ends, or has ended
                worker.store.give_back(claim, None, why, wait=0.0)
            if batch.log is not None:
                batch.log.note(f"run {claim.runid}: {why}")
    _close(worker, [batch])


def abandon(worker: Worker, batch: Batch, where: str) -> None:
    """Its code hangs and nothing ends it: its run is over without it, and what it still does is never published."""
    assert batch.heartbeat is not None
    problem = cause(worker, batch.heartbeat, JobFailed(f"its code hangs at {where}"))
    if batch.log is not None:
        batch.log.note(f"its code hangs at {where}; its run ends without it")
    for claim in batch.claims:
        if claim.runid not in batch.results:
            batch.results[claim.runid] = fail(worker, claim, Done(problem=problem))
    _close(worker, [batch])


@contextmanager
def _leaving_nothing_locked(worker: Worker, batches: Sequence[Batch]) -> Iterator[None]:
    """Whatever goes wrong inside, no chunk may stay locked until its lease ends."""
    try:
        yield
    except BaseException as problem:
        is_end = not isinstance(problem, Exception)
        if is_end:
            worker.store.end_soon()  # whoever interrupts us wants an end
        for batch in batches:
            for claim in batch.claims:
                if claim.runid not in batch.results:
                    batch.results[claim.runid] = fail(worker, claim, Done(problem=_named(problem)))
        if is_end:
            _close(worker, batches)
            raise


def _close(worker: Worker, batches: Sequence[Batch]) -> None:
    """What happens beside the work ends, and each result knows its log."""
    worker.pulse.remove(batch.heartbeat for batch in batches if batch.heartbeat is not None)
    for batch in batches:
        log = batch.log
        if log is not None:
            _note(log, [batch.results[runid] for runid in batch.worked])
            log.close()
            batch.results = {runid: _with_log(result, log) for runid, result in batch.results.items()}
    worker.keep_log_tails(batches)


def begin(worker: Worker, asked: Asked) -> Attempt | Result:
    """Claim and admit a chunk for somebody who does the work without us: the first half of a handshake."""
    claim = claim_chunk(worker, asked, on_spark=False)
    if isinstance(claim, Result):
        return claim
    batch = Batch([claim])
    try:
        inputs = worker.store.input_chunks([claim])
        for attempt, receipt in admit(worker, worker.store.known, batch, inputs, on_spark=False):
            worker.store.admit(claim, receipt)
            _tell_start(worker, attempt)
            return attempt
    except BaseException as problem:
        result = fail(worker, claim, Done(problem=_named(problem)))
        if not isinstance(problem, Exception):
            raise
        return result
    return batch.results[claim.runid]


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
    remarks = publish(worker, [(attempt, published)])
    _tell_published(worker, attempt, published)
    return _ready(claim, published, remarks[claim.runid])


# Step by step ---------------------------------------------------------------------------------------------------------


def admit(
    worker: Worker,
    catalogue: Catalogue,
    batch: Batch,
    inputs: Mapping[int, tuple[InputChunk, ...]],
    *,
    on_spark: bool,
) -> list[tuple[Attempt, Receipt | None]]:
    """Ask what needs a look at the data itself; a no gives the claim back, a yes is kept with what the run needs.

    What the definitions may do is asked of forced runs too: whoever forces a run vouches for its data, not for the store.
    """
    store, environment, results = worker.store, worker.project.environment, batch.results
    job = catalogue.job(batch.claims[0].jobid)
    untrusted = worker.distrust(catalogue, job, on_spark=on_spark)
    if untrusted:
        for claim in batch.claims:  # somebody changed the store after it was claimed
            no = with_distrust(claim.facts, untrusted)
            store.give_back(claim, no, no.no.why if no.no else "")
            results[claim.runid] = refusal(worker, no, untrusted)._replace(claim=claim)
        return []
    secrets = worker.vault.passwords(catalogue, job)
    admitted: list[tuple[Attempt, Receipt | None]] = []
    for claim in batch.claims:
        receipt = None  # of a forced run, and of one with nothing to look at, the claim has stored it
        if claim.facts.needs_a_look:
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
    if executor.on_spark and (longest := attempts[0].job.timeout) is not None:
        heartbeat.deadline = time.monotonic() + longest * len(attempts)  # a script's launch keeps its own time
    try:
        done = executor.execute(attempts, heartbeat, log)
        if heartbeat.is_late:
            raise heartbeat.timed_out()
        return done
    except Exception as raised:
        problem = cause(worker, heartbeat, raised)
        return {attempt.claim.runid: Done(problem=problem) for attempt in attempts}


def cause(worker: Worker, heartbeat: Heartbeat, raised: Exception) -> OdfError:
    """Why the work ended: a lost lease or a signal stopped it, whatever it then raised, or else what it raised."""
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


def _shares_a_commit(batch: Batch) -> bool:
    """Whether others may be published in the same transaction: not where there is data, only where chunks are tracked.

    Files that were renamed stay so when another one undoes the transaction, and rows that were kept aside belong to the chunk
    that is published with them.
    """
    return not any(done.manifests for _, done in batch.produced)


def commit(worker: Worker, produced: Sequence[tuple[Attempt, Done]], results: dict[int, Result]) -> None:
    """Publish everything in one transaction; if one chunk may not be published, each on its own tells which."""
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
            work = Done(problem=problem, exit_code=done.exit_code, ended=done.ended)
            results[attempt.claim.runid] = fail(worker, attempt.claim, work)
        return
    for attempt, done in produced:
        _tell_published(worker, attempt, done)
        results[attempt.claim.runid] = _ready(attempt.claim, done, published[attempt.claim.runid])


def publish(worker: Worker, produced: Sequence[tuple[Attempt, Done]]) -> dict[int, str]:
    """The commit itself: the outputs, and with them the rows that were kept aside; returns the remarks, by runid."""
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
    return worker.store.commit_many(outputs, beside=aside, settle=[done.settle for _, done in produced if done.settle])


def fail(worker: Worker, claim: Claim, done: Done) -> Result:
    """Record what went wrong, without any secret in it: the chunk is FAILED, or RESUBMIT because it is to be tried again."""
    result = _failed(worker, claim, done)
    if worker.teller is not None:
        worker.teller.failed(claim, result.outcome, result.detail)
    return result


def _failed(worker: Worker, claim: Claim, done: Done) -> Result:
    problem = _named(done.problem)
    if isinstance(problem, (LeaseLost, StoreUnreachable)):
        # The store says nothing about the work: what it did not hear is taken up again when the lease ends.
        return Result(problem.name, problem.exit_code, problem.message, claim, ended=done.ended)
    if isinstance(problem, Stopped):
        worker.store.end_soon()
    detail = worker.vault.redact(problem.message)[:_LONGEST_DETAIL]
    try:
        status = worker.store.fail(claim, problem.name, detail, exit_code=done.exit_code)
    except (LeaseLost, StoreUnreachable) as lost:
        return Result(lost.name, lost.exit_code, lost.message, claim, ended=done.ended)
    return Result(problem.name, problem.exit_code, f"{detail} ({status})", claim, status=status, ended=done.ended)


# Helpers --------------------------------------------------------------------------------------------------------------


def _audited(executor: Executor, attempt: Attempt, done: Done) -> Done:
    manifests = executor.audit(attempt, done)
    return done._replace(manifests=manifests, settle=partial(executor.settle, attempt, manifests))


def _ready(claim: Claim, done: Done, told: str) -> Result:
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
        return Stopped(f"stopped by {problem.args[0] if problem.args else 'SIGINT'}")
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
