"""What a person, or a producer outside, says about chunks: the verbs of whoever steers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

from ..errors import InvalidPath, StoreReadOnly, StoreUnreachable
from ..model import Manifest
from . import announcing, folding, steering, versions
from .announcing import Act, Announcement
from .backend import ConnectionLost, Retry, Transaction
from .records import Announced, RolledBack, Steered
from .session import Session


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
    ) -> Announced:
        """An outside producer says that chunks are there: they become READY, all of them or none.

        only_new refuses, as Locked, chunks that are there already.
        """
        announcement = Announcement(datasetid, _listed(dataids), manifests or {}, bounds or {}, only_new=only_new)

        def work(tx: Transaction) -> Announced:
            catalogue = self._known(tx)
            repeats = bool(catalogue.dataset(datasetid).options.get("repeats", False))
            return announcing.announce(tx, catalogue, announcement._replace(repeats=repeats), Act(self._who, why))

        try:
            return self._do(work)
        except announcing.Repeat as problem:
            repeat = problem
            self._do(lambda tx: announcing.remember_refusal(tx, datasetid, repeat, self._who))
            raise

    def _steer(
        self, verb: str, datasetid: str, dataids: Iterable[str], why: str | None, force: bool, dry_run: bool
    ) -> list[Steered]:
        wanted = _listed(dataids)

        def work(tx: Transaction) -> list[Steered]:
            catalogue = self._known(tx)
            folding.fold(tx, catalogue)
            act = Act(self._who, why)
            return steering.steer(tx, catalogue, verb, datasetid, wanted, act, force=force, dry_run=dry_run)

        return self._do(work)

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
            return versions.rollback(tx, catalogue, datasetid, dataid, to, Act(self._who, why), dry_run=dry_run)

        return self._do(work)

    def vacuumed(
        self, datasetid: str, old: Iterable[tuple[str, int]], *, why: str | None = None
    ) -> list[tuple[str, int]]:
        """Say that the files of old versions (dataid, version) are to be removed; returns those that may be.

        What is current, or read right now, may not. Manifests stay: they are history.
        """
        wanted = list(dict.fromkeys(old))
        return self._do(lambda tx: versions.vacuumed(tx, datasetid, wanted, Act(self._who, why)))

    def fold_in(self) -> None:
        """Act on what was changed from outside and on what is due again, as the next claim would.

        Costs one look when there is nothing to do; a store that cannot be written, or is another environment's, stays as it is.
        """
        if not self._value("changes_wait"):
            return

        def work(tx: Transaction) -> None:
            folding.fold(tx, self._known(tx))
            tx.run("candidates_due")

        with suppress(StoreReadOnly, StoreUnreachable, InvalidPath):
            self._do(work)

    @contextmanager
    def as_if_folded(self) -> Iterator[bool]:
        """Everything that is read inside is as the next claim would find it, and nothing of that is written.

        False when it cannot be: whoever may only read sees what was folded in already.
        """
        if not self._value("changes_wait"):
            yield True
            return
        is_open = False
        with self._lock:
            try:
                with self._backend.writing() as tx:
                    folding.fold(tx, self._known(tx))
                    tx.run("candidates_due")
                    self._open, is_open = tx, True
                    yield True
                    raise _Undo
            except _Undo:
                return
            except (StoreReadOnly, Retry, ConnectionLost):
                if is_open:
                    raise
            finally:
                self._open, self._catalogue = None, None  # what was read may not have been committed
            yield False


class _Undo(Exception):
    """Ends a transaction without a trace."""


def _listed(dataids: Iterable[str]) -> list[str]:
    """A single dataid may be given as it is."""
    return [dataids] if isinstance(dataids, str) else list(dataids)
