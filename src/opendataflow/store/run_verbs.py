"""Implement the verbs of a run, from the claim to its end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from ..errors import BadDefinition, LeaseLost, Stopped, UnknownRun, UsageError
from ..model import (
    FAILED,
    HOLD,
    READY,
    RUNNING,
    Catalogue,
    Facts,
    InputChunk,
    InputFact,
    Manifest,
    Receipt,
    sort_key,
)
from ..model.decision.transitions import LOST
from ..model.definitions.calendar import comes_by_clock
from . import records
from .drivers.base import Backend, Retry, Transaction, Unreadable
from .engine import candidates, claims, definitions, folding, freshness, limits, run_end
from .engine.announcing import Announcement, announce, announce_by_clock
from .engine.claims import ClaimOptions
from .engine.repeated_content import wrong_repeat_of
from .engine.run_end import FinishedRun
from .engine.steering import steer
from .engine.transition import OperatorAct
from .records import Claim, EarlierChunks, ReadRow, Rescued
from .rows import EventRow, ExtendedLease, PickedCandidate, as_objects, compact, receipt_events
from .session import Session

_REFUSED_WAIT = 60.0
_MAX_RESCUED = 100_000
_MAX_REBUILDS = 20  # of a job's candidates, per claim
_MAX_ROUNDS = 100  # rounds of preparation per claim transaction
_LOOK_BACK = 20  # recent events of a chunk that are searched for its last receipt


class RunVerbs(Session):
    """Claim, admit, heartbeat, publish and fail runs."""

    def __init__(self, backend: Backend, **options: Any) -> None:
        super().__init__(backend, **options)
        self._by_clock: dict[
            str, tuple[str, int]
        ] = {}  # by dataset: the revision and period of its last announcement by clock
        self._announced = self._by_clock  # the same, not committed yet
        self._pinned: set[str] = set()  # datasets with a pinned schema, as of `_pinned_at`
        self._pinned_at = ""

    def claim(
        self,
        jobid: str,
        n: int = 1,
        *,
        dataid: str | None = None,
        force: bool = False,
        owner: str | None = None,
        lease: float | None = None,
        held: Sequence[Claim] = (),
    ) -> list[Claim]:
        """Claim the next chunk of a job, up to n chunks, or a given dataid; an empty list if none can be claimed.

        `force` claims a given dataid without the questions, unless it is RUNNING; `lease` overrides the job's.
        `held` are claims that the caller works on: expired leases of them are extended before others are rescued.
        """
        if force and dataid is None:
            raise UsageError("force needs a dataid", hint="Name the chunk: --dataid")
        if n < 1:
            raise UsageError(f"n must be at least 1, not {n}")
        options = ClaimOptions(owner or self._who, lease, force, held)
        was_unreadable = False
        for _ in range(_MAX_REBUILDS):
            self._announced = self._by_clock  # drops announcements of a rolled-back claim
            try:
                work = partial(self._claim, jobid=jobid, n=n, dataid=dataid, options=options)
                claimed = self._do(work, is_committed=claims.are_runs, step="claim")
                self._by_clock = self._announced
                return claimed
            except claims.LeasesOverdue:
                # The caller is alive, even if it was suspended or could not reach the store for longer than its lease.
                self.heartbeat_many(held)
                return self.claim(jobid, n, dataid=dataid, force=force, owner=owner, lease=lease)
            except (claims.CandidateOutdated, Unreadable) as problem:
                # The candidates do not match the rows, or SQL wrote into them: derive them again and retry.
                if was_unreadable:
                    raise  # rebuilding does not help: another row is unreadable
                was_unreadable = isinstance(problem, Unreadable)
                self._do(lambda tx: candidates.rebuild(tx, self._locked_catalogue(tx), jobid))
        raise BadDefinition(
            f"the candidates of {jobid} do not match its rows after {_MAX_REBUILDS} rebuilds",
            hint="Nothing was claimed. Look for a definition that keeps changing: odf doctor",
        )

    def _claim(self, tx: Transaction, jobid: str, n: int, dataid: str | None, options: ClaimOptions) -> list[Claim]:
        catalogue = self._catalogue or self._locked_catalogue(tx)
        is_prepared = False
        for _ in range(_MAX_ROUNDS):
            if jobid not in catalogue.jobs:
                catalogue = self._locked_catalogue(tx)  # it may have been registered since the last transaction
            job = catalogue.job(jobid)
            if jobid in _markers(catalogue):
                catalogue = self._locked_catalogue(tx)
                if jobid in _markers(catalogue):  # not stored yet: runs of the job need it
                    definitions.store_implicit(tx, catalogue)
            if any(comes_by_clock(catalogue.dataset(item.datasetid)) for item in job.inputs):
                catalogue = self._locked_catalogue(tx)
                self._announced = announce_by_clock(tx, catalogue, job, self._clock(), (self._revision, self._by_clock))
            if dataid is not None and not is_prepared:
                catalogue = self._locked_catalogue(tx)
                claims.prepare_requested(tx, catalogue, job, dataid, options)
                is_prepared = True
            limiting = [] if options.forced else limits.of_job(tx, catalogue, job, lock=True)
            free = min([n, *(limit.free for limit in limiting)])
            if dataid is None:
                picked = tx.fetch(PickedCandidate._make, "claim_pick", jobid=jobid, n=free)
            else:
                picked = tx.fetch(PickedCandidate._make, "claim_pick_dataid", jobid=jobid, dataid=dataid)
            state = picked[0]
            if state.revision != self._recorded_revision:
                catalogue = self._locked_catalogue(tx)
                is_prepared = False
            elif state.notes:
                catalogue = self._locked_catalogue(tx)
                folding.fold(tx, catalogue)
                is_prepared = False
            elif state.expired and options.held:
                raise claims.LeasesOverdue
            elif state.expired:
                if not run_end.rescue(tx, catalogue):
                    raise Retry  # another transaction rescues them and may wait for our locks
                is_prepared = False
            elif state.due:
                tx.run("candidates_due")
            elif state.dataid is None or free < 1:
                if dataid is not None:  # a requested dataid that cannot be claimed is not kept as WAITING
                    candidates.derive(tx, catalogue, [(jobid, dataid)])
                return []
            else:
                return claims.take(tx, catalogue, job, picked, limiting, options)
        raise claims.CandidateOutdated  # definitions or statuses change faster than they can be folded in

    def claim_of(self, runid: int) -> Claim:
        """The claim of a running run, for another process that ends it; LeaseLost if the run is over."""

        def work(tx: Transaction) -> Claim:
            catalogue = self._locked_catalogue(tx)
            run = tx.first(records.run, "run_row", runid=runid)
            if run is None:
                raise UnknownRun(f"there is no run {runid}", hint="See: odf runs")
            job = catalogue.job(run.jobid)
            chunks = [tx.first(records.chunk, "chunk", datasetid=name, dataid=run.dataid) for name in job.outputs]
            facts = Facts(
                run.jobid,
                run.dataid,
                inputs=tuple(InputFact(item.datasetid, item.dataid, READY, item.version) for item in run.inputs),
                partition=catalogue.output_partition(job).type,
                epoch=run.epoch,
                forced=run.forced,
            )
            claim = Claim(
                runid,
                run.jobid,
                run.dataid,
                run.epoch,
                run.inputs,
                job.outputs,
                0.0,
                max((chunk.tries for chunk in chunks if chunk), default=1),
                False,
                run.forced,
                run.owner,
                facts,
            )
            if run.status != RUNNING:
                raise LeaseLost(
                    f"run {runid} of {run.jobid} {run.dataid} is over: it ended {run.status}",
                    hint=f"See its chunk: odf explain {job.outputs[0]} {run.dataid}",
                )
            return claim

        return self._do(work)

    def admit(self, claim: Claim, receipt: Receipt | None, *, log: str | None = None) -> None:
        """Record the receipt that lets a claimed run start, and the path of its log."""
        self.admit_many([(claim, receipt, log)])

    def admit_many(self, admitted: Iterable[tuple[Claim, Receipt | None, str | None]]) -> None:
        """Admit several runs in one transaction; without a receipt, only the log path is recorded."""
        events: list[EventRow] = []
        logs = []
        for claim, receipt, log in admitted:
            if receipt is not None:
                common = {"runid": claim.runid, "epoch": claim.epoch}
                events += receipt_events("admitted", claim.outputs, receipt, self._who, **common)
            if log is not None:
                logs.append((claim.runid, log))

        def work(tx: Transaction) -> None:
            if events:
                tx.run("events_put", events=as_objects(events))
            if logs:
                tx.run("run_logs_put", logs=compact(logs))

        if events or logs:
            self._do(work, step="admit")

    def refuse(self, receipt: Receipt, why: str | None = None, *, again: bool = True) -> None:
        """Store the receipt of a refusal; no chunk was claimed and no status changes.

        With again=False it is a no-op if the chunk's last receipt has the same answer.
        """

        def work(tx: Transaction) -> None:
            outputs = self._locked_catalogue(tx).job(receipt.jobid).outputs
            if not again and _is_same_refusal(tx, outputs[0], receipt):
                return
            tx.run("events_put", events=as_objects(receipt_events("refused", outputs, receipt, self._who, why=why)))

        self._do(work)

    def give_back(self, claim: Claim, receipt: Receipt | None, why: str, *, wait: float = _REFUSED_WAIT) -> None:
        """Undo a claim that the gate refused, and store the receipt; without a receipt, the run never began (GIVEN_BACK)."""
        self._do(
            lambda tx: claims.give_back(tx, self._locked_catalogue(tx), claim, receipt, why, wait), step="give back"
        )

    def input_chunks(self, claims: Sequence[Claim]) -> dict[int, tuple[InputChunk, ...]]:
        """By runid, the input chunks of each run with manifest, bounds, and the chunk that has the same content, if wrong."""
        reading = [claim.runid for claim in claims if claim.inputs]
        roots = self.roots()

        def work(tx: Transaction) -> dict[int, tuple[InputChunk, ...]]:
            chunks: dict[int, list[InputChunk]] = {claim.runid: [] for claim in claims}
            catalogue = self._catalogue or self.catalogue_in(tx)
            for row in tx.fetch(ReadRow._make, "inputs_given", runids=compact(reading)):
                chunk = records.input_chunk(row)
                dataset = partial(catalogue.datasets.get, row.datasetid)
                manifest = chunk.manifest and roots.located(chunk.manifest, dataset)
                same = wrong_repeat_of(tx, dataset(), row.dataid, manifest, row.made_by)
                chunks[row.runid].append(chunk._replace(manifest=manifest, same_as=same))
            return {runid: tuple(read) for runid, read in chunks.items()}

        return self._do(work, reading=True) if reading else {claim.runid: () for claim in claims}

    def past(self, datasetid: str, dataid: str, trailing: int = 0, rejected: str | None = None) -> EarlierChunks:
        """Facts of earlier publishes: the pinned schema, the row counts of the `trailing` chunks before, and whether
        dataset `rejected` has this dataid."""

        def work(tx: Transaction) -> EarlierChunks:
            key = sort_key(self.catalogue_in(tx).dataset(datasetid).partition, dataid)
            schema = tx.value("schema_pinned", datasetid=datasetid)
            rows = tx.values("rows_before", datasetid=datasetid, before_key=key, n=trailing) if trailing else []
            has_rejected = rejected is not None and bool(tx.rows("chunk", datasetid=rejected, dataid=dataid))
            return EarlierChunks(schema or "", tuple(rows), has_rejected)

        return self._do(work, reading=True)

    def heartbeat(self, claim: Claim) -> float:
        """Extend the lease of a run; LeaseLost if the run no longer holds its chunk."""
        until = self.heartbeat_many([claim])
        if not until:
            raise run_end.lease_lost(claim)
        return until[claim.runid]

    def heartbeat_many(self, held: Iterable[Claim]) -> dict[int, float]:
        """Extend the leases of several runs; returns the end of each lease by runid. A missing run lost its lease."""
        runids = compact([claim.runid for claim in held])
        return dict(self._do(lambda tx: tx.fetch(ExtendedLease._make, "heartbeat", runids=runids), step="heartbeat"))

    def log(self, runid: int, path: str) -> None:
        """Record the path of a run's log."""
        self._do(lambda tx: tx.run("run_logs_put", logs=compact([(runid, path)])))

    def keep_log_tails(self, tails: Mapping[int, str]) -> None:
        """Store the last lines of logs, by runid, for readers without access to the files."""
        self._do(lambda tx: [tx.run("log_tail_put", runid=runid, tail=tail) for runid, tail in tails.items()])

    def commit(
        self,
        claim: Claim,
        manifests: Mapping[str, Manifest] | None = None,
        *,
        exit_code: int | None = None,
        rejected: Mapping[str, Manifest] | None = None,
    ) -> str:
        """Publish the outputs of a run; returns the remarks. LeaseLost if the run no longer holds its chunk.

        `rejected` are manifests of rejected rows, by dataset; these datasets are not outputs of the job.
        """
        return self.commit_many([(claim, manifests or {}, exit_code)], rejected=rejected)[claim.runid]

    def commit_many(
        self,
        done: Sequence[tuple[Claim, Mapping[str, Manifest], int | None]],
        *,
        rejected: Mapping[str, Manifest] | None = None,
        publish_files: Sequence[Callable[[], None]] = (),
    ) -> dict[int, str]:
        """Publish several runs in one transaction, all or none; returns the remarks by runid.

        The first publish of a dataset pins its schema. `publish_files` are called last, after all epochs were checked; an
        exception there rolls the transaction back.
        """
        kept = self.roots().kept
        runs = [
            FinishedRun(claim, {name: manifest.at(kept) for name, manifest in produced.items()}, code)
            for claim, produced, code in done
        ]
        if self._pinned_at != self._revision:  # another schema may have been accepted since
            self._pinned, self._pinned_at = set(), self._revision
        schemas = {
            datasetid: manifest.schema
            for run in runs
            for datasetid, manifest in run.manifests.items()
            if manifest.schema and datasetid not in self._pinned
        }

        def work(tx: Transaction) -> dict[int, str]:
            catalogue, confirm = self._cached_catalogue(tx)
            statuses, remarks = run_end.commit(tx, catalogue, runs, confirm)
            for datasetid, schema in sorted(schemas.items()):
                tx.run("schema_pin", datasetid=datasetid, schema=schema)
            for datasetid, manifest in (rejected or {}).items():
                claim = runs[0].claim
                announcement = Announcement(datasetid, [claim.dataid], {claim.dataid: manifest.at(kept)}, repeats=True)
                act = OperatorAct(self._who, f"rejected by run {claim.runid} of {claim.jobid}")
                announce(tx, catalogue, announcement._replace(jobid=claim.jobid, runid=claim.runid), act)
            freshness.mark_after_publish(tx, catalogue, runs, rejected or (), OperatorAct(self._who), statuses)
            if publish_files:
                tx.lock("lock_while_publishing")
                tx.sync()
                with self._watchdog_suspended():
                    for step in publish_files:
                        step()
            return remarks

        remarks = self._do(
            work, is_committed=lambda tx, _: claims.are_runs(tx, [run.claim for run in runs], READY), step="commit"
        )
        self._pinned |= schemas.keys()  # only after the commit
        return remarks

    def fail(
        self,
        claim: Claim,
        outcome: str = "JOB_FAILED",
        detail: str | None = None,
        *,
        exit_code: int | None = None,
        hold: bool = False,
    ) -> str:
        """End a run that failed or was stopped; returns its chunk's status: FAILED, RESUBMIT or, with hold, HOLD."""
        run_status = LOST if outcome == Stopped.name else FAILED

        def work(tx: Transaction) -> str:
            catalogue = self._locked_catalogue(tx)
            status = run_end.fail(tx, catalogue, claim, outcome, detail, exit_code)
            if not hold:
                return status
            steer(tx, catalogue, "hold", [(claim.outputs[0], claim.dataid)], OperatorAct(self._who, detail))
            return HOLD

        return self._do(work, is_committed=lambda tx, _: claims.are_runs(tx, [claim], run_status), step="fail")

    def rescue(self) -> list[Rescued]:
        """End every run with an expired lease: its chunk becomes FAILED or RESUBMIT."""

        def work(tx: Transaction) -> list[Rescued]:
            catalogue = self._locked_catalogue(tx)
            folding.fold(tx, catalogue)
            return run_end.rescue(tx, catalogue, _MAX_RESCUED)

        return self._do(work, step="rescue")


def _is_same_refusal(tx: Transaction, datasetid: str, receipt: Receipt) -> bool:
    page = {"datasetid": datasetid, "dataid": receipt.dataid, "n": _LOOK_BACK}
    events = tx.fetch(records.event, "events_of_chunk_newest", **page)
    last = next((event.receipt for event in events if event.receipt is not None), None)
    if last is None or last.no is None or receipt.no is None:
        return False
    return (last.verdict, last.no.why) == (receipt.verdict, receipt.no.why)


def _markers(catalogue: Catalogue) -> set[str]:
    """Jobs without outputs whose marker dataset is not stored yet."""
    return {dataset.datasetid for dataset in catalogue.implicit}
