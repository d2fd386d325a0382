"""Implement the verbs of operators and outside producers on chunks, runs, jobs and pools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TypedDict, Unpack

from ..errors import BadTransition, StoreReadOnly, UnknownRun, UsageError
from ..model import READY, RUNNING, Manifest, Pool
from ..model.decision.transitions import STEERING
from . import records
from .drivers.base import Transaction
from .engine import announcing, definitions, folding, freshness, recalling, run_end, steering, versions
from .engine.announcing import Announcement
from .engine.inputs import ChunkId
from .engine.recalling import Recall
from .engine.recover import Recovered, recover
from .engine.repeated_content import Repeat
from .engine.transition import OperatorAct
from .plan_digest import refuse_changed_plan
from .records import Announced, Rescued, RolledBack, Run, Steered
from .rows import EventRow, as_objects
from .session import Session


class SteerOptions(TypedDict, total=False):
    """The options of a verb on chunks, as of `SteerVerbs.steer`."""

    why: str | None
    force: bool
    dry_run: bool
    seen: str


class SteerVerbs(Session):
    """Announce, resubmit, hold, release, fail, forget, roll back; each changes all given chunks or none."""

    def announce(
        self,
        datasetid: str,
        dataids: Iterable[str],
        *,
        manifests: Mapping[str, Manifest] | None = None,
        bounds: Mapping[str, tuple[str, str]] | None = None,
        why: str | None = None,
        only_new: bool = False,
        again: bool = False,
    ) -> Announced:
        """Make chunks of an outside producer READY, all of them or none.

        only_new refuses chunks that exist already (Locked); again publishes a new version even of unchanged chunks.
        """
        kept = {dataid: manifest.at(self.roots().kept) for dataid, manifest in (manifests or {}).items()}
        announcement = Announcement(datasetid, _listed(dataids), kept, bounds or {}, only_new=only_new, again=again)

        def work(tx: Transaction) -> Announced:
            catalogue = self._locked_catalogue(tx)
            repeats = bool(catalogue.dataset(datasetid).options.get("repeats", False))
            announced = announcing.announce(
                tx, catalogue, announcement._replace(repeats=repeats), OperatorAct(self._who, why)
            )
            freshness.mark_stale(
                tx, catalogue, [(datasetid, dataid) for dataid in announced.renewed], OperatorAct(self._who)
            )
            return announced

        try:
            return self._do(work, step="announce")
        except Repeat as problem:
            self.refuse_arrival(datasetid, problem.dataid, problem.name, problem.message)
            raise

    def refuse_arrival(self, datasetid: str, dataid: str, name: str, why: str) -> None:
        """Record why a delivered chunk was refused; its status does not change."""
        act = OperatorAct(self._who, why)
        self._do(lambda tx: announcing.remember_refusal(tx, datasetid, dataid, name, act))

    def steer(
        self,
        verb: str,
        chunks: Iterable[ChunkId],
        *,
        why: str | None = None,
        force: bool = False,
        dry_run: bool = False,
        seen: str = "",
    ) -> list[Steered]:
        """Resubmit, hold, release, fail or forget chunks of any number of datasets: all of them or none.

        `seen` is the digest of a preview: a plan that differs from it is refused.
        """
        if verb not in STEERING:
            raise UsageError(f"{verb} is not one of {', '.join(STEERING)}")
        selected = list(dict.fromkeys(chunks))

        def work(tx: Transaction) -> list[Steered]:
            catalogue = self._locked_catalogue(tx)
            folding.fold(tx, catalogue)
            if folding.is_changed_by_sql(tx, steering.lock_chunks(tx, catalogue, selected)):
                folding.fold(tx, catalogue)  # changes that were committed while this transaction waited for the locks
            act = OperatorAct(self._who, why)
            changed = steering.steer(tx, catalogue, verb, selected, act, force=force, dry_run=dry_run)
            refuse_changed_plan(changed, seen)
            if not dry_run:
                freshness.restore(tx, catalogue, [change[:2] for change in changed if change.after == READY], act.who)
            return changed

        return self._do_or_dry_run(work, dry_run, step=verb)

    def resubmit(self, datasetid: str, dataids: Iterable[str], **options: Unpack[SteerOptions]) -> list[Steered]:
        """Have chunks produced again, before new chunks."""
        return self.steer("resubmit", _chunks(datasetid, dataids), **options)

    def hold(self, datasetid: str, dataids: Iterable[str], **options: Unpack[SteerOptions]) -> list[Steered]:
        """Set chunks aside: they are neither read nor produced."""
        return self.steer("hold", _chunks(datasetid, dataids), **options)

    def release(self, datasetid: str, dataids: Iterable[str], **options: Unpack[SteerOptions]) -> list[Steered]:
        """Restore the status that held chunks had before."""
        return self.steer("release", _chunks(datasetid, dataids), **options)

    def fail_chunks(self, datasetid: str, dataids: Iterable[str], **options: Unpack[SteerOptions]) -> list[Steered]:
        """Mark chunks as bad: they are not read until they are produced again."""
        return self.steer("fail", _chunks(datasetid, dataids), **options)

    def forget(self, datasetid: str, dataids: Iterable[str], **options: Unpack[SteerOptions]) -> list[Steered]:
        """Remove the status of chunks, as if they were never produced; history and epochs stay."""
        return self.steer("forget", _chunks(datasetid, dataids), **options)

    def rollback(
        self,
        datasetid: str,
        dataid: str,
        to: int | None = None,
        *,
        why: str | None = None,
        dry_run: bool = False,
        seen: str = "",
    ) -> list[RolledBack]:
        """Make an older published version of a chunk current, by default the previous one, and the chunk READY.

        Other outputs of the same run are rolled back too. Later runs read that version; versions made from another one
        keep their lineage.
        """

        def work(tx: Transaction) -> list[RolledBack]:
            catalogue = self._locked_catalogue(tx)
            folding.fold(tx, catalogue)
            act = OperatorAct(self._who, why)
            changed = versions.rollback(tx, catalogue, datasetid, dataid, to, act, dry_run=dry_run)
            refuse_changed_plan(changed, seen)
            folding.retry_if_changed(tx, changed)
            if not dry_run:
                freshness.mark_after_rollback(tx, catalogue, changed, act)
            return changed

        return self._do_or_dry_run(work, dry_run)

    def recall(
        self,
        datasetid: str,
        dataid: str,
        *,
        why: str,
        cascade: bool = False,
        hold: bool = False,
        dry_run: bool = False,
        seen: str = "",
    ) -> Recall:
        """Recall a published version and, with cascade, all versions made from it: jobs no longer read them.

        The chunks are produced again, upstream first; with hold they stay in HOLD. Runs that read them lose their chunk.
        """

        def work(tx: Transaction) -> Recall:
            catalogue = self._locked_catalogue(tx)
            folding.fold(tx, catalogue)
            options = {"cascade": cascade, "hold": hold, "dry_run": dry_run}
            recall = recalling.recall(tx, catalogue, (datasetid, dataid), OperatorAct(self._who, why), **options)
            refuse_changed_plan((recall.versions, recall.changed), seen)
            folding.retry_if_changed(tx, recall.changed)
            return recall

        return self._do_or_dry_run(work, dry_run)

    def remake(
        self, chunks: Iterable[ChunkId], *, why: str | None = None, dry_run: bool = False, seen: str = ""
    ) -> list[Steered]:
        """Resubmit READY chunks whose inputs have newer versions.

        A chunk whose inputs turn out unchanged becomes READY again without a run.
        """
        selected = list(chunks)

        def work(tx: Transaction) -> list[Steered]:
            catalogue = self._locked_catalogue(tx)
            folding.fold(tx, catalogue)
            changed = freshness.remake(tx, catalogue, selected, OperatorAct(self._who, why), dry_run=dry_run)
            refuse_changed_plan(changed, seen)
            folding.retry_if_changed(tx, changed)
            return changed

        return self._do_or_dry_run(work, dry_run)

    def cancel(self, runid: int, *, why: str | None = None, dry_run: bool = False) -> Run:
        """Cancel a run on any machine: its chunk is FAILED at once; its processes end at the next heartbeat."""

        def work(tx: Transaction) -> Run:
            folding.fold(tx, self._locked_catalogue(tx))
            run = tx.first(records.run, "run_row", runid=runid)
            if run is None:
                raise UnknownRun(f"there is no run {runid}", hint="See: odf runs")
            if run.status != RUNNING or not run_end.cancel(tx, run, self._who, why):
                raise BadTransition(
                    f"run {runid} of {run.jobid} {run.dataid} is over: {run.outcome or run.status}",
                    hint="What runs now: odf status",
                )
            return run

        return self._do_or_dry_run(work, dry_run)

    def pause(self, jobid: str, *, why: str | None = None) -> None:
        """Stop claims of a job until it is resumed; running chunks continue."""

        def work(tx: Transaction) -> None:
            self._locked_catalogue(tx).job(jobid)
            tx.run("pause_put", jobid=jobid, who=self._who, why=why)
            _put_event(tx, "paused", jobid, OperatorAct(self._who, why))

        self._do(work)

    def resume(self, jobid: str, *, why: str | None = None) -> bool:
        """Resume a paused job; False if the job was not paused."""

        def work(tx: Transaction) -> bool:
            if jobid not in self._locked_catalogue(tx).paused:
                self._locked_catalogue(tx).job(jobid)
                return False
            tx.run("pause_drop", jobid=jobid)
            _put_event(tx, "resumed", jobid, OperatorAct(self._who, why))
            return True

        return self._do(work)

    def set_pool(self, pool: Pool, *, why: str | None = None, dry_run: bool = False) -> bool:
        """Set the slots and hours of a pool; False if nothing changes."""

        def work(tx: Transaction) -> bool:
            catalogue = self._locked_catalogue(tx)
            before = catalogue.pools.get(pool.poolid)
            selected, changes = definitions.plan(catalogue, (), (), [pool])
            if not dry_run:
                definitions.write(tx, catalogue, selected, changes)
            if not changes:
                return False
            reason = f"pool {pool.poolid}" + (f": {why}" if why else "")
            slots = (None if before is None else _slots(before.slots), _slots(pool.slots))
            event = EventRow("pool set", None, None, None, *slots, who=self._who, why=reason)
            tx.run("events_put", events=as_objects([event]))
            return True

        return self._do_or_dry_run(work, dry_run)

    def pinned_schema(self, datasetid: str) -> str | None:
        """The schema of a dataset's first publish, with which later publishes are compared."""
        schema: str | None = self.read(lambda tx: tx.value("schema_pinned", datasetid=datasetid))
        return schema

    def accept_schema(self, datasetid: str, *, why: str | None = None) -> bool:
        """Drop the pinned schema: the next publish pins its own. False if no schema was pinned."""

        def work(tx: Transaction) -> bool:
            self._locked_catalogue(tx).dataset(datasetid)
            pinned = tx.value("schema_pinned", datasetid=datasetid)
            if pinned is None:
                return False
            tx.run("schema_unpin", datasetid=datasetid)
            tx.run("revision_next")
            event = EventRow("schema accepted", datasetid, None, None, before=pinned, who=self._who, why=why)
            tx.run("events_put", events=as_objects([event]))
            return True

        return self._do(work)

    def recover(self, chunks: Iterable[ChunkId], *, why: str | None = None, dry_run: bool = False) -> Recovered:
        """Resubmit FAILED chunks of any number of datasets, in one transaction.

        Runs with expired leases are rescued first. Chunks that are no longer FAILED are left unchanged.
        """
        wanted = list(dict.fromkeys(chunks))

        def work(tx: Transaction) -> Recovered:
            catalogue = self._locked_catalogue(tx)
            folding.fold(tx, catalogue)
            rescued: list[Rescued] = []
            while not dry_run and (ended := run_end.rescue(tx, catalogue)):
                rescued += ended
            recovered = recover(tx, catalogue, wanted, rescued, OperatorAct(self._who, why), dry_run)
            folding.retry_if_changed(tx, recovered.changed)
            return recovered

        return self._do_or_dry_run(work, dry_run)

    def add_up(self, figures: dict[str, int]) -> None:
        """Add to counters that no history row records."""

        def work(tx: Transaction) -> None:
            for name, n in sorted(figures.items()):
                tx.run("counter_add", name=name, n=n)

        self._do(work)

    def vacuumed(
        self, datasetid: str, old: Iterable[tuple[str, int]], *, why: str | None = None
    ) -> list[tuple[str, int]]:
        """Record that the files of old versions (dataid, version) are about to be removed; returns those that may be.

        Versions that are current or being read are kept. Manifests stay in the history.
        """
        selected = list(dict.fromkeys(old))
        return self._do(lambda tx: versions.vacuumed(tx, datasetid, selected, OperatorAct(self._who, why)))

    def vacuumed_all(self, until: int) -> None:
        """Record that a vacuum removed all attempts up to this run; a no-op for read-only roles."""
        with suppress(StoreReadOnly):  # the next vacuum only checks more runs
            self._do(lambda tx: tx.run("counter_put", name="vacuumed until run", n=until))


def _put_event(tx: Transaction, kind: str, jobid: str, act: OperatorAct) -> None:
    tx.run("events_put", events=as_objects([EventRow(kind, None, None, jobid, None, None, *act)]))


def _slots(slots: int | None) -> str:
    return "unlimited" if slots is None else str(slots)


def _chunks(datasetid: str, dataids: Iterable[str]) -> list[ChunkId]:
    return [(datasetid, dataid) for dataid in _listed(dataids)]


def _listed(dataids: Iterable[str]) -> list[str]:
    """The dataids as a list; a single dataid may be given as a string."""
    return [dataids] if isinstance(dataids, str) else list(dataids)
