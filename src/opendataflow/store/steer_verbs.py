"""What a person, or a producer outside, says about chunks: the verbs of whoever steers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

from ..errors import BadTransition, InvalidPath, StoreReadOnly, StoreUnreachable, UnknownRun
from ..model import READY, RUNNING, Manifest, Pool
from . import announcing, definitions, endings, folding, freshness, recalling, records, steering, versions
from .announcing import Act, Announcement
from .backend import ConnectionLost, Retry, Transaction
from .recalling import Recall
from .records import Announced, RolledBack, Run, Steered
from .repeats import Repeat
from .rows import EventRow, as_objects
from .session import Session


def schema_of(datasetid: str) -> str:
    """The name under which the schema of a dataset's first publish is remembered."""
    return f"schema of {datasetid}"


class SteerVerbs(Session):
    """Announce, resubmit, hold, release, fail, forget, roll back; each takes everything or nothing."""

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
        """An outside producer says that chunks are there: they become READY, all of them or none.

        only_new refuses, as Locked, chunks that are there already; again makes a new version even of what has not changed.
        """
        kept = {dataid: manifest.at(self.roots().kept) for dataid, manifest in (manifests or {}).items()}
        announcement = Announcement(datasetid, _listed(dataids), kept, bounds or {}, only_new=only_new, again=again)

        def work(tx: Transaction) -> Announced:
            catalogue = self._known(tx)
            repeats = bool(catalogue.dataset(datasetid).options.get("repeats", False))
            announced = announcing.announce(tx, catalogue, announcement._replace(repeats=repeats), Act(self._who, why))
            freshness.settle(tx, catalogue, [(datasetid, dataid) for dataid in announced.renewed], Act(self._who))
            return announced

        try:
            return self._do(work, step="announce")
        except Repeat as problem:
            self.refuse_arrival(datasetid, problem.dataid, problem.name, problem.message)
            raise

    def refuse_arrival(self, datasetid: str, dataid: str, name: str, why: str) -> None:
        """Something from outside was offered and not taken: nothing changes, and the reason stays."""
        act = Act(self._who, why)
        self._do(lambda tx: announcing.remember_refusal(tx, datasetid, dataid, name, act))

    def _steer(
        self, verb: str, datasetid: str, dataids: Iterable[str], why: str | None, force: bool, dry_run: bool
    ) -> list[Steered]:
        wanted = _listed(dataids)

        def work(tx: Transaction) -> list[Steered]:
            catalogue = self._known(tx)
            folding.fold(tx, catalogue)
            if datasetid in catalogue.datasets and folding.is_typed(
                tx, steering.lock(tx, catalogue, datasetid, wanted)
            ):
                folding.fold(tx, catalogue)  # what came while we waited for the rows; from here on nothing does
            act = Act(self._who, why)
            changed = steering.steer(tx, catalogue, verb, datasetid, wanted, act, force=force, dry_run=dry_run)
            if not dry_run:
                freshness.restore(tx, catalogue, [change[:2] for change in changed if change.after == READY], act.who)
            return changed

        return self._do_or_try(work, dry_run, step=verb)

    def resubmit(
        self,
        datasetid: str,
        dataids: Iterable[str],
        *,
        why: str | None = None,
        force: bool = False,
        dry_run: bool = False,
    ) -> list[Steered]:
        """Have chunks produced again, before anything new."""
        return self._steer("resubmit", datasetid, dataids, why, force, dry_run)

    def hold(
        self,
        datasetid: str,
        dataids: Iterable[str],
        *,
        why: str | None = None,
        force: bool = False,
        dry_run: bool = False,
    ) -> list[Steered]:
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
    ) -> list[Steered]:
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
    ) -> list[Steered]:
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
    ) -> list[Steered]:
        """Make chunks never produced; history and epochs stay."""
        return self._steer("forget", datasetid, dataids, why, force, dry_run)

    def rollback(
        self, datasetid: str, dataid: str, to: int | None = None, *, why: str | None = None, dry_run: bool = False
    ) -> list[RolledBack]:
        """Let a chunk be an older published version again, by default the one before; what is FAILED or RESUBMIT is READY again.

        What the same run produced with it goes back too. Whoever reads it next reads that version; who consumed another
        one keeps saying so.
        """

        def work(tx: Transaction) -> list[RolledBack]:
            catalogue = self._known(tx)
            folding.fold(tx, catalogue)
            act = Act(self._who, why)
            changed = versions.rollback(tx, catalogue, datasetid, dataid, to, act, dry_run=dry_run)
            folding.check(tx, changed)
            if not dry_run:
                freshness.rolled_back(tx, catalogue, changed, act)
            return changed

        return self._do_or_try(work, dry_run)

    def recall(
        self,
        datasetid: str,
        dataid: str,
        *,
        why: str,
        cascade: bool = False,
        hold: bool = False,
        dry_run: bool = False,
    ) -> Recall:
        """Published data was bad: no job reads it again and, with cascade, nor what was really made from it.

        It is produced again, upstream first; hold leaves it recalled. Runs that read it now lose their chunk.
        """

        def work(tx: Transaction) -> Recall:
            catalogue = self._known(tx)
            folding.fold(tx, catalogue)
            how = {"cascade": cascade, "hold": hold, "dry_run": dry_run}
            recall = recalling.recall(tx, catalogue, (datasetid, dataid), Act(self._who, why), **how)
            folding.check(tx, recall.changed)
            return recall

        return self._do_or_try(work, dry_run)

    def remake(
        self, chunks: Iterable[tuple[str, str]], *, why: str | None = None, dry_run: bool = False
    ) -> list[Steered]:
        """Have READY chunks made again because what they were made from is newer.

        One whose inputs come out as they were is kept as it is, without a run.
        """
        wanted = list(chunks)

        def work(tx: Transaction) -> list[Steered]:
            catalogue = self._known(tx)
            folding.fold(tx, catalogue)
            changed = freshness.remake(tx, catalogue, wanted, Act(self._who, why), dry_run=dry_run)
            folding.check(tx, changed)
            return changed

        return self._do_or_try(work, dry_run)

    def cancel(self, runid: int, *, why: str | None = None, dry_run: bool = False) -> Run:
        """End a run wherever it is: its chunk is FAILED at once, and its processes end at its next heartbeat."""

        def work(tx: Transaction) -> Run:
            folding.fold(tx, self._known(tx))
            run = tx.first(records.run, "run_row", runid=runid)
            if run is None:
                raise UnknownRun(f"there is no run {runid}", hint="See: odf runs")
            if run.status != RUNNING or not endings.cancel(tx, run, self._who, why):
                raise BadTransition(
                    f"run {runid} of {run.jobid} {run.dataid} is over: {run.outcome or run.status}",
                    hint="What runs now: odf status",
                )
            return run

        return self._do_or_try(work, dry_run)

    def pause(self, jobid: str, *, why: str | None = None) -> None:
        """Start nothing more of a job until it is resumed; what runs goes on."""

        def work(tx: Transaction) -> None:
            self._known(tx).job(jobid)
            tx.run("pause_put", jobid=jobid, who=self._who, why=why)
            _remember(tx, "paused", jobid, Act(self._who, why))

        self._do(work)

    def resume(self, jobid: str, *, why: str | None = None) -> bool:
        """Let a paused job go on; False when it was not paused."""

        def work(tx: Transaction) -> bool:
            if jobid not in self._known(tx).paused:
                self._known(tx).job(jobid)
                return False
            tx.run("pause_drop", jobid=jobid)
            _remember(tx, "resumed", jobid, Act(self._who, why))
            return True

        return self._do(work)

    def set_pool(self, pool: Pool, *, why: str | None = None, dry_run: bool = False) -> bool:
        """Give a pool its number of slots and its hours, with an event; False when it has them already."""

        def work(tx: Transaction) -> bool:
            catalogue = self._known(tx)
            before = catalogue.pools.get(pool.poolid)
            wanted, changes = definitions.planned(catalogue, (), (), [pool])
            if not dry_run:
                definitions.write(tx, catalogue, wanted, changes)
            if not changes:
                return False
            told = f"pool {pool.poolid}" + (f": {why}" if why else "")
            slots = (None if before is None else _slots(before.slots), _slots(pool.slots))
            event = EventRow("pool set", None, None, None, *slots, who=self._who, why=told)
            tx.run("events_put", events=as_objects([event]))
            return True

        return self._do_or_try(work, dry_run)

    def pinned_schema(self, datasetid: str) -> str | None:
        """The schema of a dataset's first publish, which the later ones are compared with."""
        schema: str | None = self._value("meta_get", name=schema_of(datasetid))
        return schema

    def accept_schema(self, datasetid: str, *, why: str | None = None) -> bool:
        """Forget the schema of the first publish: the next publish pins its own. False when there was none."""

        def work(tx: Transaction) -> bool:
            self._known(tx).dataset(datasetid)
            pinned = tx.value("meta_get", name=schema_of(datasetid))
            if pinned is None:
                return False
            tx.run("meta_drop", name=schema_of(datasetid))
            tx.run("revision_next")
            event = EventRow("schema accepted", datasetid, None, None, before=pinned, who=self._who, why=why)
            tx.run("events_put", events=as_objects([event]))
            return True

        return self._do(work)

    def vacuumed(
        self, datasetid: str, old: Iterable[tuple[str, int]], *, why: str | None = None
    ) -> list[tuple[str, int]]:
        """Say that the files of old versions (dataid, version) are to be removed; returns those that may be.

        What is current, or read right now, may not. Manifests stay: they are history.
        """
        wanted = list(dict.fromkeys(old))
        return self._do(lambda tx: versions.vacuumed(tx, datasetid, wanted, Act(self._who, why)))

    def vacuumed_all(self, until: int) -> None:
        """Say that a whole vacuum left nothing of attempts up to this run; a role that may not leaves the mark as it is."""
        with suppress(StoreReadOnly):  # the next vacuum only looks at more
            self._do(lambda tx: tx.run("meta_put", name="vacuumed until run", value=str(until)))

    def fold_in(self) -> None:
        """Act on what was changed from outside and on what is due again, as the next claim would.

        Costs one look when there is nothing to do; a store that cannot be written, or is another environment's, stays as it is.
        """
        if self._value("changes_wait"):
            with suppress(StoreReadOnly, StoreUnreachable, InvalidPath):
                self._do(self._fold)

    @contextmanager
    def looking(self) -> Iterator[bool]:
        """Everything that is read inside is as the next claim would find it: what waits is folded in first, as that claim would.

        That is a short transaction of its own: the look itself holds no lock, however long it takes. False when it cannot be:
        a role that may only read sees what was folded in already.
        """
        is_folded = not self._value("changes_wait")
        if not is_folded and self._open is None:
            with self._lock, suppress(StoreReadOnly, StoreUnreachable, InvalidPath, Retry, ConnectionLost):
                self._once(self._fold, reading=False, step="fold")
                is_folded = True
        yield is_folded

    def _fold(self, tx: Transaction) -> None:
        folding.fold(tx, self._known(tx))
        tx.run("candidates_due")


def _remember(tx: Transaction, kind: str, jobid: str, act: Act) -> None:
    tx.run("events_put", events=as_objects([EventRow(kind, None, None, jobid, None, None, *act)]))


def _slots(slots: int | None) -> str:
    return "unlimited" if slots is None else str(slots)


def _listed(dataids: Iterable[str]) -> list[str]:
    """A single dataid may be given as it is."""
    return [dataids] if isinstance(dataids, str) else list(dataids)
