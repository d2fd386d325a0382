"""The life of a run, from the claim to its end: the verbs of whoever works."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..errors import BadDefinition, LeaseLost, Stopped, UnknownRun, UsageError
from ..model import (
    FAILED,
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
from ..model.calendar import comes_by_clock
from . import candidates, claims, definitions, endings, folding, freshness, limits, records
from .announcing import Act, Announcement, announce, announce_by_clock
from .backend import Backend, Retry, Transaction, Unreadable
from .endings import Done
from .records import Claim, Past, ReadRow, Rescued
from .repeats import wrong_repeat_of
from .rows import EventRow, Held, Picked, as_objects, compact, receipt_events
from .session import Session
from .steer_verbs import schema_of

_REFUSED_WAIT = 60.0
_MOST_RESCUED = 100_000
_MOST_REBUILDS = 20  # of a job's candidates, in one claim
_MOST_LOOKS = 100  # at what has to be done before a chunk is taken, in one transaction
_LOOK_BACK = 20  # events of a chunk, among which its last receipt is looked for


class RunVerbs(Session):
    """Claim, admit, heartbeat, publish, fail: what a run does to its chunk."""

    def __init__(self, backend: Backend, **how: Any) -> None:
        super().__init__(backend, **how)
        self._clock = time.time
        self._by_clock: dict[str, tuple[str, int]] = {}  # the revision and period for which a dataset was announced
        self._announced = self._by_clock  # the same, before it is committed
        self._pinned: set[str] = set()  # datasets whose schema is remembered for sure, at this revision
        self._pinned_at = ""

    # Claim -------------------------------------------------------------------------------------------------------

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
        """Take the next chunk of a job, or up to n, or one given dataid; an empty list when there is none to take.

        force takes a given dataid without asking, unless it is running now; lease is the job's unless one is given.
        held is what the caller works on already: if a lease is over, these are extended before others are ended.
        """
        if force and dataid is None:
            raise UsageError("force needs a dataid", hint="Name the chunk: --dataid")
        if n < 1:
            raise UsageError(f"n must be at least 1, not {n}")
        how = claims.How(owner or self._who, lease, force, held)
        was_unreadable = False
        for _ in range(_MOST_REBUILDS):
            self._announced = self._by_clock  # what an undone claim announced is not there
            try:
                taken = self._do(lambda tx: self._claim(tx, jobid, n, dataid, how), is_so=claims.are_runs, step="claim")
                self._by_clock = self._announced  # known only now that it is committed
                return taken
            except claims.Overdue:
                # Who claims is alive, however long it stood still or could not reach the store to say so.
                self.heartbeat_many(held)
                return self.claim(jobid, n, dataid=dataid, force=force, owner=owner, lease=lease)
            except (claims.Stale, Unreadable) as problem:
                # What is derived did not fit what is, or somebody wrote into it: derive it anew, then look again.
                if was_unreadable:
                    raise  # it is something else that cannot be read
                was_unreadable = isinstance(problem, Unreadable)
                self._do(lambda tx: candidates.rebuild(tx, self._known(tx), jobid))
        raise BadDefinition(
            f"the candidates of {jobid} do not fit its rows, although they were derived anew {_MOST_REBUILDS} times",
            hint="Nothing was claimed. Look for a definition that changes all the time: odf doctor",
        )

    def _claim(self, tx: Transaction, jobid: str, n: int, dataid: str | None, how: claims.How) -> list[Claim]:
        catalogue = self._catalogue or self._known(tx)
        is_prepared = False
        for _ in range(_MOST_LOOKS):
            if jobid not in catalogue.jobs:
                catalogue = self._known(tx)  # it may have been registered since this process last looked
            job = catalogue.job(jobid)
            if jobid in _markers(catalogue):
                catalogue = self._known(tx)
                if jobid in _markers(catalogue):  # we may not store it, and its runs could not be remembered
                    definitions.store_implicit(tx, catalogue)
            if any(comes_by_clock(catalogue.dataset(item.datasetid)) for item in job.inputs):
                catalogue = self._known(tx)
                self._announced = announce_by_clock(tx, catalogue, job, self._clock(), (self._revision, self._by_clock))
            if dataid is not None and not is_prepared:
                catalogue = self._known(tx)
                claims.prepare(tx, catalogue, job, dataid, how)
                is_prepared = True
            limited = [] if how.forced else limits.of_job(tx, catalogue, job, lock=True)
            free = min([n, *(limit.free for limit in limited)])
            if dataid is None:
                picked = tx.fetch(Picked._make, "claim_pick", jobid=jobid, n=free)
            else:
                picked = tx.fetch(Picked._make, "claim_pick_dataid", jobid=jobid, dataid=dataid)
            state = picked[0]
            if state.revision != self._caught_up:
                catalogue = self._known(tx)
                is_prepared = False
            elif state.notes:
                catalogue = self._known(tx)  # a definition that comes now is folded in by whoever knows it
                folding.fold(tx, catalogue)
                is_prepared = False
            elif state.expired and how.held:
                raise claims.Overdue
            elif state.expired:
                if not endings.rescue(tx, catalogue):
                    raise Retry  # somebody ends them right now, who may wait for a lock that we have
                is_prepared = False
            elif state.due:
                tx.run("candidates_due")
            elif state.dataid is None or free < 1:
                if dataid is not None:  # that somebody named it is no reason to wait for it
                    candidates.derive(tx, catalogue, [(jobid, dataid)])
                return []
            else:
                return claims.take(tx, catalogue, job, picked, limited, how)
        raise claims.Stale  # others change definitions or statuses faster than they can be folded in

    def claim_of(self, runid: int) -> Claim:
        """The claim that a run holds, for whoever ends it in another process; LeaseLost when it holds none."""

        def work(tx: Transaction) -> Claim:
            catalogue = self._known(tx)
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
                    hint=f"See what became of its chunk: odf explain {job.outputs[0]} {run.dataid}",
                )
            return claim

        return self._do(work)

    # Admit -------------------------------------------------------------------------------------------------------

    def admit(self, claim: Claim, receipt: Receipt | None, *, log: str | None = None) -> None:
        """Record the five answers that let a claimed run start, and where its log is."""
        self.admit_many([(claim, receipt, log)])

    def admit_many(self, admitted: Iterable[tuple[Claim, Receipt | None, str | None]]) -> None:
        """The same for several runs in one transaction; without a receipt only the log is recorded."""
        events: list[EventRow] = []
        logs = []
        for claim, receipt, log in admitted:
            if receipt is not None:
                about = {"runid": claim.runid, "epoch": claim.epoch}
                events += receipt_events("admitted", claim.outputs, receipt, self._who, **about)
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
        """Store a no: nothing was claimed, nothing changes, the answers stay.

        Not again where the last receipt of the chunk says the same: a schedule asks every minute.
        """

        def work(tx: Transaction) -> None:
            outputs = self._known(tx).job(receipt.jobid).outputs
            if not again and _says_the_same(tx, outputs[0], receipt):
                return
            tx.run("events_put", events=as_objects(receipt_events("refused", outputs, receipt, self._who, why=why)))

        self._do(work)

    def give_back(self, claim: Claim, receipt: Receipt | None, why: str, *, wait: float = _REFUSED_WAIT) -> None:
        """The gate said no after the claim: everything becomes what it was, the receipt stays, others go first for a while.

        Without a receipt nothing was refused: nobody began it, and it is GIVEN_BACK.
        """
        self._do(lambda tx: claims.give_back(tx, self._known(tx), claim, receipt, why, wait), step="give back")

    # Execute -----------------------------------------------------------------------------------------------------

    def input_chunks(self, claims: Sequence[Claim]) -> dict[int, tuple[InputChunk, ...]]:
        """What each of these runs reads, by runid: every input chunk with its manifest, bounds, and who has its content."""
        wanted = [(claim.runid, *item) for claim in claims for item in claim.inputs]
        found = self.roots().found

        def work(tx: Transaction) -> dict[int, tuple[InputChunk, ...]]:
            chunks: dict[int, list[InputChunk]] = {claim.runid: [] for claim in claims}  # anew each time that it is run
            catalogue = self._catalogue or self._seen(tx)
            for row in tx.fetch(ReadRow._make, "inputs_given", inputs=compact(wanted)):
                chunk = records.input_chunk(row)
                manifest = chunk.manifest and chunk.manifest.at(found)
                same = wrong_repeat_of(tx, catalogue.datasets.get(row.datasetid), row.dataid, manifest)
                chunks[row.runid].append(chunk._replace(manifest=manifest, same_as=same))
            return {runid: tuple(read) for runid, read in chunks.items()}

        return self._do(work, reading=True) if wanted else {claim.runid: () for claim in claims}

    def past(self, datasetid: str, dataid: str, trailing: int = 0, beside: str | None = None) -> Past:
        """What earlier publishes say: the first schema, the rows of `trailing` chunks before, and whether `beside` has it."""

        def work(tx: Transaction) -> Past:
            key = sort_key(self._seen(tx).dataset(datasetid).partition, dataid)
            schema = tx.value("meta_get", name=schema_of(datasetid))
            rows = tx.values("rows_before", datasetid=datasetid, before_key=key, n=trailing) if trailing else []
            has_beside = beside is not None and bool(tx.rows("chunk", datasetid=beside, dataid=dataid))
            return Past(schema or "", tuple(rows), has_beside)

        return self._do(work, reading=True)

    def heartbeat(self, claim: Claim) -> float:
        """Extend the lease; LeaseLost when the chunk is no longer ours."""
        until = self.heartbeat_many([claim])
        if not until:
            raise endings.lease_lost(claim)
        return until[claim.runid]

    def heartbeat_many(self, held: Iterable[Claim]) -> dict[int, float]:
        """Extend the leases of several runs together: until when each one is ours, by runid; one that is not there is lost."""
        runids = compact([claim.runid for claim in held])
        return dict(self._do(lambda tx: tx.fetch(Held._make, "heartbeat", runids=runids), step="heartbeat"))

    def log(self, runid: int, path: str) -> None:
        """Remember where the log of a run is."""
        self._do(lambda tx: tx.run("run_logs_put", logs=compact([(runid, path)])))

    def keep_log_tails(self, tails: Mapping[int, str]) -> None:
        """Keep the last lines of runs' logs, by runid, for those who cannot reach the files."""
        self._do(lambda tx: [tx.run("log_tail_put", runid=runid, tail=tail) for runid, tail in tails.items()])

    # Commit, or fail ---------------------------------------------------------------------------------------------

    def commit(
        self,
        claim: Claim,
        manifests: Mapping[str, Manifest] | None = None,
        *,
        exit_code: int | None = None,
        beside: Mapping[str, Manifest] | None = None,
    ) -> str:
        """Publish what the run produced, and return the remarks on it; LeaseLost when the epoch is no longer ours.

        `beside` are chunks of the same dataid in datasets that are no outputs of the job: rows that were kept aside.
        """
        return self.commit_many([(claim, manifests or {}, exit_code)], beside=beside)[claim.runid]

    def commit_many(
        self,
        done: Sequence[tuple[Claim, Mapping[str, Manifest], int | None]],
        *,
        beside: Mapping[str, Manifest] | None = None,
        settle: Sequence[Callable[[], None]] = (),
    ) -> dict[int, str]:
        """Publish several runs in one transaction, all of them or none, and return the remarks on each, by runid.

        The first publish of a dataset pins its schema. `settle` comes last, once every epoch was found to be current:
        what raises there undoes the commit.
        """
        kept = self.roots().kept
        runs = [
            Done(claim, {name: manifest.at(kept) for name, manifest in made.items()}, code)
            for claim, made, code in done
        ]
        if self._pinned_at != self._revision:  # somebody may have accepted another schema since
            self._pinned, self._pinned_at = set(), self._revision
        schemas = {
            datasetid: manifest.schema
            for run in runs
            for datasetid, manifest in run.manifests.items()
            if manifest.schema and datasetid not in self._pinned
        }

        def work(tx: Transaction) -> dict[int, str]:
            catalogue, confirm = self._presumed(tx)
            seen, remarks = endings.commit(tx, catalogue, runs, confirm)
            for datasetid, schema in sorted(schemas.items()):
                tx.run("meta_put_once", name=schema_of(datasetid), value=schema)
            for datasetid, manifest in (beside or {}).items():
                claim = runs[0].claim
                aside = Announcement(datasetid, [claim.dataid], {claim.dataid: manifest.at(kept)}, repeats=True)
                aside = aside._replace(jobid=claim.jobid, runid=claim.runid)
                announce(tx, catalogue, aside, Act(self._who, f"rejected by run {claim.runid} of {claim.jobid}"))
            freshness.published(tx, catalogue, runs, beside or (), Act(self._who), seen)
            if settle:
                tx.lock("lock_while_settling")
                tx.sync()
                with self._asking_nobody():
                    for step in settle:
                        step()
            return remarks

        remarks = self._do(
            work, is_so=lambda tx, _: claims.are_runs(tx, [run.claim for run in runs], READY), step="commit"
        )
        self._pinned |= schemas.keys()  # known only now that it is committed
        return remarks

    def fail(
        self, claim: Claim, outcome: str = "JOB_FAILED", detail: str | None = None, *, exit_code: int | None = None
    ) -> str:
        """End a run that failed or was stopped; returns what its chunk became: FAILED, or RESUBMIT to be made again."""
        run_status = endings.LOST if outcome == Stopped.name else FAILED
        return self._do(
            lambda tx: endings.fail(tx, self._known(tx), claim, outcome, detail, exit_code),
            is_so=lambda tx, _: claims.are_runs(tx, [claim], run_status),
            step="fail",
        )

    def rescue(self) -> list[Rescued]:
        """End every run whose lease ran out: its chunk becomes FAILED or RESUBMIT."""

        def work(tx: Transaction) -> list[Rescued]:
            catalogue = self._known(tx)
            folding.fold(tx, catalogue)
            return endings.rescue(tx, catalogue, _MOST_RESCUED)

        return self._do(work, step="rescue")


def _says_the_same(tx: Transaction, datasetid: str, receipt: Receipt) -> bool:
    page = {"datasetid": datasetid, "dataid": receipt.dataid, "n": _LOOK_BACK}
    events = tx.fetch(records.event, "events_of_chunk_newest", **page)
    last = next((event.receipt for event in events if event.receipt is not None), None)
    if last is None or last.no is None or receipt.no is None:
        return False
    return (last.verdict, last.no.why) == (receipt.verdict, receipt.no.why)


def _markers(catalogue: Catalogue) -> set[str]:
    """The jobs without an output whose marker dataset is not stored."""
    return {dataset.datasetid for dataset in catalogue.implicit}
