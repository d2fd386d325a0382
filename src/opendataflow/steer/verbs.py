"""Implements the operators' verbs on chunks, runs, jobs and pools. A dry run writes nothing and returns the plan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import UnknownPool, UnknownRun, UsageError
from ..model import FAILED, HOLD, PENDING, READY, RESUBMIT, RUNNING, Pool, check_id

if TYPE_CHECKING:
    from ..insight.recovery import RecoveryPlan
    from ..insight.selection import Selected
    from ..model.selector import Selector
    from ..project import Project
    from ..store import Recall, Recovered, RolledBack, Run, Steered, Store

# verb → its default statuses, and whether a range includes dataids that have no chunk yet.
VERBS: dict[str, tuple[tuple[str, ...], bool]] = {
    "resubmit": ((READY, FAILED, HOLD, PENDING, RESUBMIT), False),
    "hold": ((READY, FAILED, RESUBMIT, PENDING), True),
    "release": ((HOLD, PENDING), False),
    "fail": ((READY, RESUBMIT, HOLD, PENDING), True),
    "forget": ((READY, FAILED, RESUBMIT, HOLD, PENDING), False),
}

_MOST_DIGITS = 18  # both databases store numbers of this length


# Chunks --------------------------------------------------------------------------------------------------------------


def select_chunks(store: Store, verb: str, selector: Selector) -> list[Selected]:
    """The chunks that a verb applies to, as the next claim sees them."""
    from ..insight.selection import select

    statuses, new_ones = VERBS[verb]
    with store.looking():
        return select(store, selector, statuses=statuses, new_ones=new_ones)


def steer_chunks(
    store: Store,
    verb: str,
    chunks: Iterable[Selected],
    *,
    why: str | None = None,
    force: bool = False,
    dry_run: bool = False,
    seen: str = "",
) -> list[Steered]:
    """Resubmit, hold, release, fail or forget these chunks, all of them or none."""
    wanted = [(datasetid, dataid) for datasetid, dataids in chunks for dataid in dataids]
    return store.steer(verb, wanted, why=why, force=force, dry_run=dry_run, seen=seen)


def steer(
    store: Store,
    verb: str,
    selector: Selector,
    *,
    why: str | None = None,
    force: bool = False,
    dry_run: bool = False,
) -> list[Steered]:
    """Resubmit, hold, release, fail or forget the chunks that a selector matches now."""
    return steer_chunks(store, verb, select_chunks(store, verb, selector), why=why, force=force, dry_run=dry_run)


def select_stale(store: Store, selector: Selector) -> list[tuple[str, str]]:
    """The stale chunks that a selector matches, upstream first."""
    from ..insight.stale import stale_selected

    with store.looking():
        return stale_selected(store, selector)


def remake(store: Store, selector: Selector, *, why: str | None = None, dry_run: bool = False) -> list[Steered]:
    """Resubmit stale chunks; chunks downstream of an unchanged result need no run."""
    return store.remake(select_stale(store, selector), why=why, dry_run=dry_run)


def check_reason(why: str) -> str:
    """The reason for a recall; UsageError if it is blank."""
    if not why.strip():
        raise UsageError("a recall needs a reason", hint='Say it in a few words: --why "half the rows are missing"')
    return why


def recall(
    store: Store,
    datasetid: str,
    dataid: str,
    *,
    why: str,
    cascade: bool = False,
    hold: bool = False,
    dry_run: bool = False,
    seen: str = "",
) -> Recall:
    """Recall bad published data, so that no job reads it again. The reason is required and stored."""
    check_id("dataset", datasetid)
    check_id("dataid", dataid)
    if not dry_run:
        check_reason(why)
    return store.recall(datasetid, dataid, why=why, cascade=cascade, hold=hold, dry_run=dry_run, seen=seen)


def rollback(
    store: Store,
    project: Project,
    datasetid: str,
    dataid: str,
    to: int | None = None,
    *,
    why: str | None = None,
    dry_run: bool = False,
    seen: str = "",
) -> list[RolledBack]:
    """Make an older version of a chunk current again, if its files are unchanged since it was published."""
    from ..run.rollback import rollback

    check_id("dataset", datasetid)
    check_id("dataid", dataid)
    return rollback(store, project, datasetid, dataid, to, why=why, dry_run=dry_run, seen=seen)


# Runs and jobs -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CancelledRun:
    """A cancelled run, and the seconds until its worker notices; `by_hand` for a run of odf start, which has no worker."""

    run: Run
    within: float | None
    by_hand: bool = False

    @property
    def following(self) -> str:
        """The sentence that says how its processes end."""
        if self.by_hand:
            return f"odf start began the run as {self.run.owner}, without a worker: end its processes there"
        from ..insight.words import duration

        soon = "at its next heartbeat" if self.within is None else f"within {duration(self.within)}"
        return f"{self.run.owner} ends its processes {soon}"


def cancel(
    store: Store, run_or_job: str, dataid: str | None = None, *, why: str | None = None, dry_run: bool = False
) -> CancelledRun:
    """Cancel a run on any machine, by its number or by its job and dataid."""
    run = store.cancel(_running(store, run_or_job, dataid), why=why, dry_run=dry_run)
    job = store.catalogue().jobs.get(run.jobid)
    # A worker's lease is never longer than that of its job.
    left = run.lease_until - store.views.clock() if run.lease_until is not None else 0.0
    by_hand = job is not None and left > job.lease
    return CancelledRun(run, job.lease / 3 if job is not None else None, by_hand)


def _running(store: Store, run_or_job: str, dataid: str | None) -> int:
    """The number of a run that is given by number, or by job and dataid."""
    if dataid is None and run_or_job.isascii() and run_or_job.isdigit():
        if len(run_or_job) > _MOST_DIGITS:
            raise UnknownRun(f"there is no run {run_or_job[:_MOST_DIGITS]}…", hint="See: odf runs")
        return int(run_or_job)
    jobid = store.catalogue().job(check_id("job", run_or_job)).jobid
    runs = [run for run in store.views.running() if run.jobid == jobid and dataid in (None, run.dataid)]
    if len(runs) == 1:
        return runs[0].runid
    if runs:
        listed = ", ".join(f"{run.dataid} (run {run.runid})" for run in runs[:5])
        raise UsageError(f"{len(runs)} chunks of {jobid} are {RUNNING}: {listed}", hint="Name the run or the dataid.")
    name = f"{jobid} {dataid}" if dataid else jobid
    raise UnknownRun(f"{name} is not running", hint=f"See: odf runs {jobid}")


def pause(store: Store, job: str, *, why: str | None = None, dry_run: bool = False) -> str:
    """Start no further chunk of a job until it is resumed; returns its id."""
    jobid = store.catalogue().job(check_id("job", job)).jobid
    if not dry_run:
        store.pause(jobid, why=why)
    return jobid


def resume(store: Store, job: str, *, why: str | None = None, dry_run: bool = False) -> bool:
    """Resume a paused job; False if it was not paused."""
    catalogue = store.catalogue()
    jobid = catalogue.job(check_id("job", job)).jobid
    return jobid in catalogue.paused if dry_run else store.resume(jobid, why=why)


# Pools ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PoolSet:
    """A changed pool: its slots, the slots in effect now, and their next change."""

    pool: Pool
    before: Pool | None
    now: int | None
    changes: tuple[float, int | None] | None
    is_changed: bool

    @property
    def hours(self) -> tuple[str, ...]:
        """The hours with a different number of slots."""
        lines = self.pool.options.get("hours")
        return tuple(map(str, lines)) if isinstance(lines, list) else ()


def set_pool(
    store: Store,
    name: str,
    slots: str | None = None,
    *,
    hours: Sequence[str] = (),
    timezone: str | None = None,
    always: bool = False,
    **store_options: Any,
) -> PoolSet:
    """Change the slots or hours of a pool; other settings stay. A new pool requires create=True."""
    create, dry_run = store_options.pop("create", False), store_options.get("dry_run", False)
    poolid = check_id("pool", name)
    if always and (hours or timezone):
        raise UsageError("--always means no hours", hint="Leave out --hours and --timezone, or --always.")
    requested = slots_of(slots) if slots is not None else None
    before = store.catalogue().pools.get(poolid)
    if before is None and not (create and slots is not None):
        _refuse_new_pool(store, poolid, slots)
    options: dict[str, Any] = dict(before.options) if before else {}
    if always:
        options = {key: value for key, value in options.items() if key not in ("hours", "timezone")}
    if hours:
        options["hours"] = list(hours)
    if timezone:
        options["timezone"] = timezone
    number = before.slots if before and slots is None else requested
    pool = Pool(poolid, number, options)
    is_changed = store.set_pool(pool, **store_options)
    now, changes = (number, None) if dry_run else store.views.pool_now(poolid)
    return PoolSet(pool, before, now, changes, is_changed)


def slots_of(text: str) -> int | None:
    """Parse a number of slots; None is unlimited."""
    if text.strip().lower() == "unlimited":
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise UsageError(f"{text[:40]!r} is not a number of slots", hint="Give a whole number from 0, or unlimited.")
    return int(text)


# After an outage -----------------------------------------------------------------------------------------------------


def recover(
    store: Store, causes: Sequence[int | str] = (), *, why: str | None = None, dry_run: bool = False
) -> tuple[RecoveryPlan, Recovered | None]:
    """Resubmit the smallest set of chunks that unblocks all others, or all chunks that these causes broke.

    Returns the plan and its result; a dry run has no result.
    """
    from ..insight.recovery import plan

    with store.looking():
        planned = plan(store, causes or None)
    return planned, None if dry_run else apply_plan(store, planned, why=why)


def apply_plan(store: Store, plan: RecoveryPlan, *, why: str | None = None) -> Recovered | None:
    """Apply a recovery plan in one transaction; None if it is empty."""
    if not plan.resubmit and not plan.found.expired:
        return None
    return store.recover(plan.resubmit, why=why)


def _refuse_new_pool(store: Store, poolid: str, slots: str | None) -> None:
    """UNKNOWN_POOL with the existing pools and the command that creates this one."""
    try:
        store.catalogue().pool(poolid)
    except UnknownPool as error:
        new = f"Create it: odf pool set {poolid} {slots} --create" if slots is not None else ""
        raise UnknownPool(error.message, hint=" ".join(filter(None, (error.hint, new)))) from None
