"""Store: one object whose methods are the verbs of the protocol. All logic is written once, above both databases."""

from __future__ import annotations

import json
import os
import pwd
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, TypeVar

from ..errors import BadDefinition, InvalidPath, StoreReadOnly, StoreUnreachable, UnknownRun, UsageError
from ..model import (
    CLAIMABLE,
    READY,
    RUNNING,
    Catalogue,
    Dataset,
    Facts,
    InputChunk,
    InputFact,
    Job,
    Limit,
    Manifest,
    Pool,
    Receipt,
    canonical,
    check_dataid,
    sort_key,
)
from ..model.timezone import time_zone
from . import candidates, claims, definitions, facts, folding, limits, migrations, records, steering
from .backend import Backend, ConnectionLost, Migration, Retry, Row, Transaction
from .records import Announced, Change, Chunk, Claim, Event, InputRow, Past, Published, Run

_T = TypeVar("_T")
_REFUSED_WAIT = 60.0
_RECENT_RUNS = 20_000


class _Reload(Exception):
    """The definitions are not those that this process knows."""


def _schema_of(datasetid: str) -> str:
    """The name under which the schema of a dataset's first publish is remembered."""
    return f"schema of {datasetid}"


def whoami() -> str:
    """Who acts, for the history: user@host:pid."""
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = str(os.getuid())
    return f"{user}@{os.uname().nodename}:{os.getpid()}"


class Store:
    """The state of all chunks: status, lock, lineage and history in one place.

    Safe to share between threads; each call is one short transaction.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        who: str | None = None,
        patience: float = 60.0,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self._backend = backend
        self._lock = threading.RLock()
        self._who = who or whoami()
        self._patience = patience
        self._say = say or (lambda message: None)
        self._catalogue: Catalogue | None = None
        self._revision = ""
        self._today: tuple[str, str] = ("", "")
        self._announced: tuple[str, str] = ("", "")
        self._pinned: set[str] = set()
        self._clock: Callable[[], float] = time.time

    # Transactions ------------------------------------------------------------------------------------------------

    def _do(self, work: Callable[[Transaction], _T], *, reading: bool = False) -> _T:
        """Run one transaction; lost races are run again, and a broken connection is waited for."""
        with self._lock:
            deadline = 0.0
            while True:
                try:
                    with self._backend.reading() if reading else self._backend.writing() as transaction:
                        return work(transaction)
                except Retry:
                    time.sleep(0.001)
                except _Reload:
                    self._catalogue = None
                except ConnectionLost as error:
                    deadline = deadline or time.monotonic() + self._patience
                    self._reconnect(deadline, str(error))

    def _reconnect(self, deadline: float, why: str) -> None:
        wait = 0.05
        while True:
            try:
                self._backend.reconnect()
                return
            except StoreUnreachable:
                if time.monotonic() > deadline:
                    raise
                self._say(f"the store {self.url} does not answer ({why}); waiting")
                time.sleep(wait)
                wait = min(wait * 2, 2.0)

    def _known(self, tx: Transaction) -> Catalogue:
        """The catalogue, as the store has it in this transaction."""
        tx.run("lock_definitions")
        revision = tx.rows("revision")[0][0]
        if self._catalogue is None or revision != self._revision:
            self._catalogue = definitions.load(tx)
            if self._catalogue.implicit:
                definitions.store_implicit(tx, self._catalogue)
                revision = tx.rows("revision")[0][0]
            self._revision = revision
        return self._catalogue

    @property
    def url(self) -> str:
        """The address, without a password."""
        return self._backend.shown_url

    @property
    def dialect(self) -> str:
        """sqlite or postgres."""
        return self._backend.dialect

    def close(self) -> None:
        """Give the connection back."""
        with self._lock:
            self._backend.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Schema and environment --------------------------------------------------------------------------------------

    def migrate(self, *, dry_run: bool = False) -> list[Migration]:
        """Bring the tables up to date; returns the migrations that were (or would be) applied."""
        with self._lock:
            return migrations.pending(self._backend) if dry_run else migrations.migrate(self._backend)

    def environment(self) -> str | None:
        """The environment that this store belongs to, if it was stamped."""
        row = self._do(lambda tx: tx.row("meta_get", name="environment"), reading=True)
        return str(row[0]) if row else None

    def stamp(self, environment: str) -> None:
        """Say to which environment this store belongs; another one is refused from then on."""
        self.check_environment(environment)
        if self.environment() is None:
            self._do(lambda tx: tx.run("meta_put", name="environment", value=environment))

    def check_environment(self, environment: str) -> None:
        """InvalidPath when this store was stamped for another environment."""
        found = self.environment()
        if found is not None and found != environment:
            raise InvalidPath(
                f"this store belongs to environment {found}, not {environment}",
                hint="choose the store of the environment, or the environment of the store (--env)",
            )

    # Definitions -------------------------------------------------------------------------------------------------

    def catalogue(self) -> Catalogue:
        """All datasets, jobs and pools as they are registered now; loaded when they are not what they were."""

        return self._do(self._seen, reading=True)

    def _seen(self, tx: Transaction) -> Catalogue:
        """The same in a transaction that only reads."""
        revision = tx.rows("revision")[0][0]
        if self._catalogue is None or revision != self._revision:
            catalogue = definitions.load(tx)
            if catalogue.implicit:
                return catalogue  # whoever writes next stores them
            self._catalogue, self._revision = catalogue, revision
        return self._catalogue

    @property
    def known(self) -> Catalogue:
        """The catalogue that the last claim or commit went by; for who has just claimed."""
        return self._catalogue or self.catalogue()

    def register(
        self,
        datasets: Iterable[Dataset] = (),
        jobs: Iterable[Job] = (),
        pools: Iterable[Pool] = (),
        *,
        prune: bool = False,
        dry_run: bool = False,
    ) -> list[Change]:
        """Register definitions in one transaction; what is the same already is left alone. prune removes all others."""
        datasets, jobs, pools = list(datasets), list(jobs), list(pools)

        def work(tx: Transaction) -> list[Change]:
            return definitions.register(tx, self._known(tx), datasets, jobs, pools, prune=prune, dry_run=dry_run)

        return self._do(work)

    def drop_pool(self, poolid: str) -> Pool:
        """Forget a pool that no job runs in; returns what it was."""

        def work(tx: Transaction) -> Pool:
            catalogue = self._known(tx)
            pool = catalogue.pool(poolid)
            users = sorted(job.jobid for job in catalogue.jobs.values() if job.pool == poolid)
            if users:
                raise BadDefinition(
                    f"pool {poolid} is in use by {', '.join(users)}",
                    hint="give the jobs another pool first, or lift its limit: odf pool set " + poolid + " unlimited",
                )
            tx.run("pool_drop", poolid=poolid)
            return pool

        return self._do(work)

    # Life of a run -----------------------------------------------------------------------------------------------

    def claim(
        self,
        jobid: str,
        n: int = 1,
        *,
        dataid: str | None = None,
        force: bool = False,
        owner: str | None = None,
        lease: float | None = None,
    ) -> list[Claim]:
        """Take the next chunk of a job, or up to n, or one given dataid; an empty list when there is none to take.

        force takes a given dataid without asking, unless it is running now; lease is the job's unless one is given.
        """
        if force and dataid is None:
            raise UsageError("force needs a dataid", hint="name the chunk: --dataid")
        if n < 1:
            raise UsageError(f"n must be at least 1, not {n}")
        who = owner or self._who

        def work(tx: Transaction) -> list[Claim]:
            return self._claim(tx, jobid, n, dataid, force, who, lease)

        while True:
            try:
                taken = self._do(work)
                self._today = self._announced  # known only now that it is committed
                return taken
            except claims.Stale:
                # What is derived did not fit what is: derive it anew, then look again.
                self._do(lambda tx: candidates.rebuild(tx, self._known(tx), jobid))

    def _claim(
        self, tx: Transaction, jobid: str, n: int, dataid: str | None, force: bool, owner: str, lease: float | None
    ) -> list[Claim]:
        catalogue = self._catalogue or self._known(tx)
        prepared = False
        while True:
            if jobid not in catalogue.jobs:
                catalogue = self._known(tx)  # it may have been registered since this process last looked
            job = catalogue.job(jobid)
            if any(item.datasetid == "today" for item in job.inputs):
                catalogue = self._known(tx)
                self._announce_today(tx, catalogue)
            if dataid is not None and not prepared:
                check_dataid(catalogue.output_partition(job), dataid, job.outputs[0])
                candidates.decide(tx, catalogue, [(jobid, dataid)], asked_for=True)
                if force:
                    self._force(tx, catalogue, job, dataid)
                prepared = True
            limited = [] if force else limits.of_job(tx, catalogue, job, lock=True)
            free = min([n, *(limit.free for limit in limited)])
            if dataid is None:
                rows = tx.rows("claim_pick", jobid=jobid, n=free)
            else:
                rows = tx.rows("claim_pick_dataid", jobid=jobid, dataid=dataid)
            revision, notes, expired, due = rows[0][:4]
            if revision != self._revision:
                catalogue = self._known(tx)
                prepared = False
            elif notes:
                folding.fold(tx, catalogue)
                prepared = False
            elif expired:
                claims.rescue(tx, catalogue)
                prepared = False
            elif due:
                tx.run("candidates_due")
            elif rows[0][4] is None or free < 1:
                return []
            else:
                how = claims.How(owner, float(lease or job.lease), force)
                return claims.take(tx, catalogue, job, [row[4:] for row in rows], limited, how)

    def _force(self, tx: Transaction, catalogue: Catalogue, job: Job, dataid: str) -> None:
        pair = candidates.pair(tx, catalogue, job.jobid, dataid)
        chunks = tx.rows("chunks_given", chunks=records.compact([(datasetid, dataid) for datasetid in job.outputs]))
        if pair is not None and not any(row[3] == RUNNING for row in chunks):
            row = (pair.jobid, pair.dataid, pair.sort_key, 1, CLAIMABLE, 0, records.compact(pair.inputs))
            tx.run("candidates_put", candidates=records.compact([row]))

    def _announce_today(self, tx: Transaction, catalogue: Catalogue) -> None:
        """The chunk of the current day is always READY."""
        name = str(catalogue.datasets["today"].options.get("timezone", "UTC"))
        day = datetime.fromtimestamp(self._clock(), time_zone(name, "dataset today")).date().isoformat()
        if self._today != (self._revision, day):
            steering.announce(tx, catalogue, "today", [day], {}, {}, "clock", None, repeats=True)
            self._announced = (self._revision, day)

    def admit(self, claim: Claim, receipt: Receipt | None, *, log: str | None = None) -> None:
        """Record the five answers that let a claimed run start, and where its log is."""
        self.admit_many([(claim, receipt, log)])

    def admit_many(self, admitted: Iterable[tuple[Claim, Receipt | None, str | None]]) -> None:
        """The same for several runs in one transaction; without a receipt only the log is recorded."""
        events: list[dict[str, Any]] = []
        logs = []
        for claim, receipt, log in admitted:
            if receipt is not None:
                events += records.receipt_events("admitted", claim.outputs, receipt, self._who, claim=claim)
            if log is not None:
                logs.append((claim.runid, log))

        def work(tx: Transaction) -> None:
            if events:
                tx.run("events_put", events=records.compact(events))
            if logs:
                tx.run("run_logs_put", logs=records.compact(logs))

        if events or logs:
            self._do(work)

    def refuse(self, receipt: Receipt, why: str | None = None) -> None:
        """Store a no: nothing was claimed, nothing changes, the answers stay."""

        def work(tx: Transaction) -> None:
            outputs = self._known(tx).job(receipt.jobid).outputs
            events = records.receipt_events("refused", outputs, receipt, self._who, why=why)
            tx.run("events_put", events=records.compact(events))

        self._do(work)

    def give_back(self, claim: Claim, receipt: Receipt, why: str, *, wait: float = _REFUSED_WAIT) -> None:
        """The gate said no after the claim: everything becomes what it was, the receipt stays, others go first for a while."""
        self._do(lambda tx: claims.give_back(tx, self._known(tx), claim, receipt, why, wait))

    def heartbeat(self, claim: Claim) -> float:
        """Extend the lease; LeaseLost when the chunk is no longer ours."""
        row = self._do(lambda tx: tx.row("heartbeat", runid=claim.runid))
        if row is None:
            raise claims.lease_lost(claim)
        return float(row[0])

    def commit(
        self,
        claim: Claim,
        manifests: Mapping[str, Manifest] | None = None,
        *,
        exit_code: int | None = None,
        beside: Mapping[str, Manifest] | None = None,
    ) -> None:
        """Publish what the run produced; LeaseLost when the epoch is no longer ours.

        `beside` are chunks of the same dataid in datasets that are no outputs of the job: rows that were kept aside.
        """
        self.commit_many([(claim, manifests or {}, exit_code)], beside=beside)

    def commit_many(
        self,
        done: Sequence[tuple[Claim, Mapping[str, Manifest], int | None]],
        *,
        beside: Mapping[str, Manifest] | None = None,
    ) -> None:
        """Publish several runs in one transaction, all of them or none."""
        first = True
        schemas = {
            datasetid: manifest.schema
            for _, manifests, _ in done
            for datasetid, manifest in manifests.items()
            if manifest.schema and datasetid not in self._pinned
        }

        def work(tx: Transaction) -> None:
            nonlocal first
            catalogue = self._catalogue or self._known(tx)
            if not first and self._is_published(tx, done):
                return  # the answer to an earlier commit was lost on the way, not the commit
            first = False
            claims.commit(tx, catalogue, done, self._revision_holds)
            for datasetid, schema in sorted(schemas.items()):
                tx.run("meta_put_once", name=_schema_of(datasetid), value=schema)
            for datasetid, manifest in (beside or {}).items():
                claim, why = done[0][0], f"rejected by run {done[0][0].runid}"
                found = {claim.dataid: manifest}
                steering.announce(tx, catalogue, datasetid, list(found), found, {}, self._who, why, repeats=True)

        self._do(work)
        self._pinned |= schemas.keys()  # known only now that it is committed

    def _revision_holds(self, revision: str) -> None:
        if revision != self._revision:
            raise _Reload

    def _is_published(self, tx: Transaction, done: Sequence[tuple[Claim, Mapping[str, Manifest], int | None]]) -> bool:
        rows = [tx.row("run_row", runid=claim.runid) for claim, _, _ in done]
        return all(row is not None and row[4] == READY for row in rows)

    def fail(
        self, claim: Claim, outcome: str = "JOB_FAILED", detail: str | None = None, *, exit_code: int | None = None
    ) -> str:
        """End a run that failed; returns what its chunk became: FAILED, or RESUBMIT by the job's retry rule."""
        first = True

        def work(tx: Transaction) -> str:
            nonlocal first
            catalogue = self._known(tx)
            if not first:
                row = tx.row("run_row", runid=claim.runid)
                if row is not None and row[4] == "FAILED":
                    chunk = tx.row("chunk", datasetid=claim.outputs[0], dataid=claim.dataid)
                    return str(chunk[3]) if chunk else "FAILED"
            first = False
            return claims.fail(tx, catalogue, claim, outcome, detail, exit_code)

        return self._do(work)

    def claim_of(self, runid: int) -> Claim:
        """The claim that a run holds, for whoever ends it in another process; LeaseLost when it holds none."""

        def work(tx: Transaction) -> Claim:
            catalogue = self._known(tx)
            row = tx.row("run_row", runid=runid)
            if row is None:
                raise UnknownRun(f"there is no run {runid}", hint="see: odf runs")
            run = records.run(row)
            outputs = catalogue.job(run.jobid).outputs
            chunk = tx.row("chunk", datasetid=outputs[0], dataid=run.dataid)
            taken = Facts(
                run.jobid,
                run.dataid,
                inputs=tuple(InputFact(item.datasetid, item.dataid, READY, item.version) for item in run.inputs),
                partition=catalogue.output_partition(catalogue.job(run.jobid)).type,
                epoch=run.epoch,
                forced=run.forced,
            )
            claim = Claim(
                runid,
                run.jobid,
                run.dataid,
                run.epoch,
                run.inputs,
                outputs,
                0.0,
                chunk[8] if chunk else 1,
                False,
                run.forced,
                run.owner,
                taken,
            )
            if run.status != "RUNNING":
                raise claims.lease_lost(claim)
            return claim

        return self._do(work)

    def rescue(self) -> list[tuple[int, str, str, str]]:
        """End every run whose lease ran out: (runid, jobid, dataid, FAILED or RESUBMIT) of each."""

        def work(tx: Transaction) -> list[tuple[int, str, str, str]]:
            catalogue = self._known(tx)
            folding.fold(tx, catalogue)
            return claims.rescue(tx, catalogue, n=100_000)

        return self._do(work)

    def log(self, runid: int, path: str) -> None:
        """Remember where the log of a run is."""
        self._do(lambda tx: tx.run("run_logs_put", logs=records.compact([(runid, path)])))

    def input_chunks(self, claims: Iterable[Claim]) -> dict[int, tuple[InputChunk, ...]]:
        """What each of these runs reads, by runid: every input chunk with its manifest and bounds."""
        wanted = [(claim.runid, *item) for claim in claims for item in claim.inputs]
        chunks: dict[int, list[InputChunk]] = {claim.runid: [] for claim in claims}
        if wanted:
            for runid, chunk in map(records.input_chunk, self._read("inputs_given", inputs=records.compact(wanted))):
                chunks[runid].append(chunk)
        return {runid: tuple(read) for runid, read in chunks.items()}

    def past(self, datasetid: str, dataid: str, trailing: int = 0, beside: str | None = None) -> Past:
        """What earlier publishes of a dataset say about a chunk that is judged: the pinned schema, the rows of the last
        `trailing` published chunks before it, and whether dataset `beside` has this chunk."""

        def work(tx: Transaction) -> Past:
            key = sort_key(self._seen(tx).dataset(datasetid).partition, dataid)
            schema = tx.row("meta_get", name=_schema_of(datasetid))
            rows = tx.rows("rows_before", datasetid=datasetid, before_key=key, n=trailing) if trailing else []
            kept = tx.row("chunk", datasetid=beside, dataid=dataid) if beside else None
            return Past(schema[0] if schema else "", tuple(row[0] for row in rows), kept is not None)

        return self._do(work, reading=True)

    # Steering ----------------------------------------------------------------------------------------------------

    def announce(
        self,
        datasetid: str,
        dataids: Iterable[str],
        *,
        manifests: Mapping[str, Manifest] | None = None,
        bounds: Mapping[str, tuple[str, str]] | None = None,
        why: str | None = None,
        only_new: bool = False,
    ) -> Announced:
        """An outside producer says that chunks are there: they become READY, all of them or none.

        only_new refuses, as Locked, chunks that are there already.
        """
        wanted = [dataids] if isinstance(dataids, str) else list(dataids)

        def work(tx: Transaction) -> Announced:
            catalogue = self._known(tx)
            repeats = bool(catalogue.dataset(datasetid).options.get("repeats", False))
            return steering.announce(
                tx,
                catalogue,
                datasetid,
                wanted,
                manifests or {},
                bounds or {},
                self._who,
                why,
                repeats=repeats,
                only_new=only_new,
            )

        try:
            return self._do(work)
        except steering.Repeat as problem:
            repeat = problem
            self._do(lambda tx: steering.refused(tx, datasetid, repeat, self._who))
            raise

    def _steer(
        self, verb: str, datasetid: str, dataids: Iterable[str], why: str | None, force: bool, dry_run: bool
    ) -> list[tuple[str, str, str | None, str | None]]:
        wanted = [dataids] if isinstance(dataids, str) else list(dataids)

        def work(tx: Transaction) -> list[tuple[str, str, str | None, str | None]]:
            catalogue = self._known(tx)
            folding.fold(tx, catalogue)
            return steering.steer(tx, catalogue, verb, datasetid, wanted, self._who, why, force=force, dry_run=dry_run)

        return self._do(work)

    def resubmit(
        self,
        datasetid: str,
        dataids: Iterable[str],
        *,
        why: str | None = None,
        force: bool = False,
        dry_run: bool = False,
    ) -> list[tuple[str, str, str | None, str | None]]:
        """Have chunks produced again, before anything new; returns (datasetid, dataid, before, after) of each."""
        return self._steer("resubmit", datasetid, dataids, why, force, dry_run)

    def hold(
        self,
        datasetid: str,
        dataids: Iterable[str],
        *,
        why: str | None = None,
        force: bool = False,
        dry_run: bool = False,
    ) -> list[tuple[str, str, str | None, str | None]]:
        """Set chunks aside: nobody reads or produces them."""
        return self._steer("hold", datasetid, dataids, why, force, dry_run)

    def release(
        self,
        datasetid: str,
        dataids: Iterable[str],
        *,
        why: str | None = None,
        force: bool = False,
        dry_run: bool = False,
    ) -> list[tuple[str, str, str | None, str | None]]:
        """Give held chunks back what they were before."""
        return self._steer("release", datasetid, dataids, why, force, dry_run)

    def fail_chunks(
        self,
        datasetid: str,
        dataids: Iterable[str],
        *,
        why: str | None = None,
        force: bool = False,
        dry_run: bool = False,
    ) -> list[tuple[str, str, str | None, str | None]]:
        """Say that chunks are bad: nobody reads them until they are produced again."""
        return self._steer("fail", datasetid, dataids, why, force, dry_run)

    def forget(
        self,
        datasetid: str,
        dataids: Iterable[str],
        *,
        why: str | None = None,
        force: bool = False,
        dry_run: bool = False,
    ) -> list[tuple[str, str, str | None, str | None]]:
        """Make chunks never produced; history and epochs stay."""
        return self._steer("forget", datasetid, dataids, why, force, dry_run)

    def rollback(
        self, datasetid: str, dataid: str, to: int | None = None, *, why: str | None = None, dry_run: bool = False
    ) -> list[tuple[str, str, int, int]]:
        """Let a READY chunk be an older published version again, by default the one before.

        Returns (datasetid, dataid, version before, version after) of the chunk and of what the same runs produced with
        it. Whoever reads it next reads that version; who consumed another one keeps saying so.
        """

        def work(tx: Transaction) -> list[tuple[str, str, int, int]]:
            catalogue = self._known(tx)
            folding.fold(tx, catalogue)
            return steering.rollback(tx, catalogue, datasetid, dataid, to, self._who, why, dry_run=dry_run)

        return self._do(work)

    def vacuumed(
        self, datasetid: str, versions: Iterable[tuple[str, int]], *, why: str | None = None
    ) -> list[tuple[str, int]]:
        """Say that the files of old versions (dataid, version) are to be removed; returns those that may be.

        What is current, or read right now, may not. Manifests stay: they are history.
        """
        wanted = list(dict.fromkeys(versions))
        return self._do(lambda tx: steering.vacuumed(tx, datasetid, wanted, self._who, why))

    # Reading -----------------------------------------------------------------------------------------------------

    def _read(self, query: str, /, **parameters: Any) -> list[Row]:
        return self._do(lambda tx: tx.rows(query, **parameters), reading=True)

    def chunk(self, datasetid: str, dataid: str) -> Chunk | None:
        """One chunk as a product; None when it was never produced."""
        rows = self._read("chunk", datasetid=datasetid, dataid=dataid)
        return records.chunk(rows[0]) if rows else None

    def chunks(
        self, datasetid: str, *, status: str | None = None, after: Chunk | None = None, n: int = 1000
    ) -> list[Chunk]:
        """A page of a dataset's chunks in the order of their dataids; pass the last one as `after` for the next page."""
        key, dataid = (after.sort_key, after.dataid) if after else ("", "")
        if status is None:
            rows = self._read("chunks_page", datasetid=datasetid, after_key=key, after_dataid=dataid, n=n)
        else:
            query = "chunks_with_status_page" if canonical(status) == READY else "unsettled_page"
            rows = self._read(
                query, datasetid=datasetid, status=canonical(status), after_key=key, after_dataid=dataid, n=n
            )
        return [records.chunk(row) for row in rows]

    def all_chunks(self, datasetid: str, *, status: str | None = None) -> Iterator[Chunk]:
        """Every chunk of a dataset, page by page."""
        after: Chunk | None = None
        while page := self.chunks(datasetid, status=status, after=after, n=10_000):
            yield from page
            after = page[-1]

    def status_counts(self) -> dict[str, dict[str, int]]:
        """How many chunks of each dataset have each status."""
        counts: dict[str, dict[str, int]] = {}
        for datasetid, status, n in self._read("status_counts"):
            counts.setdefault(datasetid, {})[status] = n
        return counts

    def candidate_counts(self) -> dict[str, dict[str, int]]:
        """How many chunks each job could take now (CLAIMABLE), later (DEFERRED), or when more inputs are READY (WAITING)."""
        counts: dict[str, dict[str, int]] = {}
        for jobid, state, n in self._read("candidate_counts"):
            counts.setdefault(jobid, {})[state] = n
        return counts

    def candidate(self, jobid: str, dataid: str) -> tuple[str, int, float] | None:
        """The state of one candidate, its rank, and until when it is deferred."""
        rows = self._read("candidate_row", jobid=jobid, dataid=dataid)
        return (rows[0][0], rows[0][1], rows[0][2]) if rows else None

    def next_dataids(self, jobid: str, n: int = 10) -> list[str]:
        """What the job would take next, in order; fold_in first where changes from outside have to count."""

        def work(tx: Transaction) -> list[str]:
            self._seen(tx).job(jobid)
            return [row[0] for row in tx.rows("candidates_page", jobid=jobid, n=n)]

        return self._do(work, reading=True)

    def facts(self, jobid: str, dataid: str) -> Facts:
        """Everything in the store that decides whether a job may run for this dataid: what `model.decide` takes."""

        def work(tx: Transaction) -> Facts:
            catalogue = self._seen(tx)
            return facts.of_chunk(tx, catalogue, catalogue.job(jobid), dataid)

        return self._do(work, reading=True)

    def input_row(self, datasetid: str, dataid: str, jobid: str) -> InputRow | None:
        """One job's relation to one chunk."""
        rows = self._read("inputs_of_job", datasetid=datasetid, dataid=dataid, jobid=jobid)
        return records.input_row(rows[0]) if rows else None

    def run(self, runid: int) -> Run:
        """One attempt, or UnknownRun."""
        rows = self._read("run_row", runid=runid)
        if not rows:
            raise UnknownRun(f"there is no run {runid}", hint="see: odf runs")
        return records.run(rows[0])

    def failed_runs(
        self, *, jobid: str | None = None, before: int | None = None, n: int = 20, look_back: int = 100_000
    ) -> list[Run]:
        """Attempts that did not end well, newest first, among the last look_back ones."""
        edge = int(self._read("newest_run")[0][0] or 0) + 1 if before is None else before
        rows = self._read("runs_failed_page", before=edge, floor=edge - look_back, n=look_back if jobid else n)
        return [records.run(row) for row in rows if jobid is None or row[1] == jobid][:n]

    def runs(
        self, *, jobid: str | None = None, dataid: str | None = None, before: int | None = None, n: int = 20
    ) -> list[Run]:
        """Attempts, newest first; pass the last runid as `before` for the next page."""
        edge = 2**62 if before is None else before
        if jobid is not None and dataid is not None:
            rows = [row for row in self._read("runs_of_dataid", jobid=jobid, dataid=dataid) if row[0] < edge][:n]
        elif jobid is not None:
            # A busy job has its newest attempts among the newest of all; the attempts of a rare one are few.
            newest = min(int(self._read("newest_run")[0][0] or 0) + 1, edge)
            rows = self._read("runs_of_job_recent", jobid=jobid, before=newest, floor=newest - _RECENT_RUNS, n=n)
            if len(rows) < n:
                rows = self._read("runs_of_job_page", jobid=jobid, before=edge, n=n)
        else:
            rows = self._read("runs_page", before=edge, n=n)
        return [records.run(row) for row in rows]

    def running(self) -> list[Run]:
        """What runs now, on all machines."""
        return [records.run(row) for row in self._read("runs_running")]

    def clock(self) -> float:
        """The clock that leases are measured by, in seconds since 1970."""
        return float(self._read("lease_clock")[0][0])

    def expired(self) -> list[Run]:
        """Attempts whose lease ran out and that nobody has ended yet."""
        return [records.run(row) for row in self._read("runs_over")]

    def events(
        self, datasetid: str | None = None, dataid: str | None = None, *, after: int = 0, n: int = 1000
    ) -> list[Event]:
        """History, oldest first, of one chunk or of everything; pass the last eventid as `after` for the next page."""
        if datasetid is not None:
            rows = self._read("events_of_chunk_page", datasetid=datasetid, dataid=dataid, after=after, n=n)
        else:
            rows = self._read("events_page", after=after, n=n)
        return [records.event(row) for row in rows]

    def receipts(self, jobid: str, dataid: str, *, after: int = 0, n: int = 1000) -> list[Event]:
        """The stored answers to the five questions for (jobid, dataid), oldest first."""
        job = self.catalogue().job(jobid)
        return [event for event in self.events(job.outputs[0], dataid, after=after, n=n) if event.receipt is not None]

    def manifest(self, datasetid: str, dataid: str, version: int | None = None) -> Published | None:
        """DataLoc: where a chunk is and what it was when it was published; the newest version unless one is named."""
        if version is None:
            chunk = self.chunk(datasetid, dataid)
            if chunk is None:
                return None
            version = chunk.version
        rows = self._read("manifest", datasetid=datasetid, dataid=dataid, version=version)
        return records.published(rows[0]) if rows else None

    def manifests(self, datasetid: str, dataid: str) -> list[Published]:
        """All manifests of a chunk, newest first."""
        return [records.published(row) for row in self._read("manifests_of_chunk", datasetid=datasetid, dataid=dataid)]

    def all_published(self, datasetid: str) -> Iterator[Published]:
        """The manifest of the current version of every READY chunk that has one, in order, page by page."""
        after = ("", "")
        while page := self._read(
            "published_page", datasetid=datasetid, after_key=after[0], after_dataid=after[1], n=10_000
        ):
            yield from map(records.published, page)
            after = (page[-1][15], page[-1][1])

    def dataids_with_versions(self, datasetid: str, more_than: int) -> list[str]:
        """The chunks of a dataset that were published more often than this."""
        return [str(row[0]) for row in self._read("dataids_with_versions", datasetid=datasetid, n=more_than)]

    def unpublished_attempts(self) -> Iterator[tuple[str, str, int, datetime | None]]:
        """(jobid, dataid, epoch, started) of every attempt that failed or lost its chunk, oldest first."""
        after = 0
        while page := self._read("attempts_unpublished_page", after=after, n=10_000):
            yield from ((row[1], row[2], row[3], records.moment(row[4])) for row in page)
            after = page[-1][0]

    def same_content(self, datasetid: str, dataid: str, fingerprint: str) -> str | None:
        """Another chunk of this dataset that stands with exactly this content."""
        rows = self._read("same_content", datasetid=datasetid, dataid=dataid, fingerprint=fingerprint)
        return str(rows[0][0]) if rows else None

    def slots_taken(self, poolid: str) -> int:
        """How many chunks run in a pool now, on all machines."""
        return int(self._read("slots_taken", pool=poolid)[0][0])

    def limits(self, jobid: str) -> list[Limit]:
        """The limits on running chunks that a job is under now, with their use."""
        catalogue = self.catalogue()
        return self._do(lambda tx: limits.of_job(tx, catalogue, catalogue.job(jobid), lock=False), reading=True)

    def pool_now(self, poolid: str) -> tuple[int | None, tuple[float, int | None] | None]:
        """How many slots a pool has by its hours at this moment, and when (seconds since 1970) that changes to how many."""
        rows = self._read("pool_row", pool=poolid)
        return limits.pool_now(poolid, *rows[0]) if rows else (None, None)

    def readers_running(self, datasetid: str) -> int:
        """How many chunks run now, on all machines, that read a dataset."""
        return int(self._read("readers_running", datasetid=datasetid)[0][0])

    def claimable_jobs(self) -> set[str]:
        """Every job that has something to claim, whatever limits say; with an empty name while a claim has to look first."""
        return {str(row[0]) for row in self._read("jobs_claimable")}

    def deferred_counts(self) -> dict[str, int]:
        """How many chunks of each job wait until they are tried again."""
        return {str(jobid): int(n) for jobid, n in self._read("deferred_counts")}

    # Looking: bounded answers for people --------------------------------------------------------------------------

    def fold_in(self) -> None:
        """Act on what was changed from outside and on what is due again, as the next claim would.

        Costs one look when there is nothing to do; a store that cannot be written stays as it is.
        """
        if not self._read("changes_wait")[0][0]:
            return

        def work(tx: Transaction) -> None:
            folding.fold(tx, self._known(tx))
            tx.run("candidates_due")

        with suppress(StoreReadOnly):
            self._do(work)

    def lease_now(self) -> float:
        """The clock that leases and deferred candidates are measured by, in seconds."""
        return float(self._read("lease_clock")[0][0])

    def ends(self, datasetid: str) -> tuple[str, str] | None:
        """The first and the last dataid of a dataset, of those that have a position in its order."""
        first, last = self._read("first_chunk", datasetid=datasetid), self._read("last_chunk", datasetid=datasetid)
        return (str(first[0][0]), str(last[0][0])) if first and last else None

    def chunks_between(self, datasetid: str, from_key: str, to_key: str, n: int) -> list[tuple[str, str, str]]:
        """(dataid, sort_key, status) of at most n chunks between two positions in the order."""
        rows = self._read("chunks_between", datasetid=datasetid, from_key=from_key, to_key=to_key, n=n)
        return [(dataid, key, status) for dataid, key, status in rows]

    def span_counts(self, spans: Sequence[tuple[str, str, str]], most: int) -> list[dict[str, int]]:
        """For each (datasetid, first key, last key): how many chunks in all (under "") and by status other than READY.

        Nobody counts further than most, so that a look at a million chunks costs what a look at a thousand does.
        """
        names = ("", "RUNNING", "FAILED", "RESUBMIT", "HOLD", "PENDING")
        rows = self._read("span_counts", spans=records.compact(spans), most=most)
        return [dict(zip(names, row[1:], strict=True)) for row in rows]

    def given_chunks(self, chunks: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """The statuses of these chunks, without those that were never produced."""
        rows = self._read("statuses_given", chunks=records.compact(chunks)) if chunks else []
        return {(row[0], row[1]): row[2] for row in rows}

    def readers(self, datasetid: str, dataid: str) -> list[InputRow]:
        """Every job's relation to one chunk."""
        return [records.input_row(row) for row in self._read("readers_of_chunk", datasetid=datasetid, dataid=dataid)]

    def newest_ready(self, datasetid: str, until_key: str) -> str | None:
        """The newest READY chunk that is not after a position in the order."""
        rows = self._read("newest_ready", datasetid=datasetid, until_key=until_key)
        return str(rows[0][0]) if rows else None

    def claimable(self, jobid: str, most: int) -> int:
        """How many chunks a job could take now; nobody counts further than most."""
        return int(self._read("claimable_count", jobid=jobid, most=most)[0][0])

    def candidates_sample(self, jobid: str, n: int) -> list[tuple[str, str, list[tuple[str, str]]]]:
        """(dataid, state, input chunks) of at most n candidates of a job."""
        rows = self._read("candidates_sample", jobid=jobid, n=n)
        return [(row[0], row[1], [(each[0], each[1]) for each in json.loads(row[4])]) for row in rows]

    def deferred(self, jobid: str, n: int) -> list[tuple[str, float]]:
        """(dataid, not before) of the deferred candidates of a job, the next one first."""
        return [(row[0], row[1]) for row in self._read("candidates_deferred_page", jobid=jobid, n=n)]

    def last_events(self, datasetid: str, dataid: str, n: int = 100) -> list[Event]:
        """The last events of one chunk, newest first."""
        return [
            records.event(row) for row in self._read("events_of_chunk_newest", datasetid=datasetid, dataid=dataid, n=n)
        ]

    # A person's own SQL ------------------------------------------------------------------------------------------

    def sql(self, statement: str) -> tuple[list[str], list[Row]]:
        """A read-only statement: column names and rows."""
        with self._lock:
            return self._backend.select(statement)

    def dml(self, statement: str, *, dry_run: bool = False) -> int:
        """A statement that may write; the next claim acts on what it changed. Number of rows changed; dry_run undoes it."""
        with self._lock:
            return self._backend.execute(statement, dry_run=dry_run)
