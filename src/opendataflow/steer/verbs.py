"""The verbs of whoever steers: each does one thing, or says what it would do. A dry run writes nothing at all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import UnknownPool, UnknownRun, UsageError
from ..model import FAILED, HOLD, PENDING, READY, RESUBMIT, RUNNING, Pool, check_id
from ..shapes import dataclass

if TYPE_CHECKING:
    from ..insight.recovery import Plan
    from ..insight.selection import Selected
    from ..model.selector import Selector
    from ..project import Project
    from ..store import Recall, Recovered, RolledBack, Run, Steered, Store

# verb → the chunks that it means where no status is named, and whether a range means dataids without a chunk too.
VERBS: dict[str, tuple[tuple[str, ...], bool]] = {
    "resubmit": ((READY, FAILED, HOLD, PENDING, RESUBMIT), False),
    "hold": ((READY, FAILED, RESUBMIT, PENDING), True),
    "release": ((HOLD, PENDING), False),
    "fail": ((READY, RESUBMIT, HOLD, PENDING), True),
    "forget": ((READY, FAILED, RESUBMIT, HOLD, PENDING), False),
}

_MOST_DIGITS = 18  # of a number that both databases can hold


# Chunks --------------------------------------------------------------------------------------------------------------


def meant(store: Store, verb: str, selector: Selector) -> list[Selected]:
    """The chunks that a verb would be done to, as the next claim would find them."""
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
) -> list[Steered]:
    """Resubmit, hold, release, fail or forget these chunks."""
    steer_one = getattr(store, {"fail": "fail_chunks"}.get(verb, verb))
    return [
        change
        for datasetid, dataids in chunks
        for change in steer_one(datasetid, dataids, why=why, force=force, dry_run=dry_run)
    ]


def steer(
    store: Store,
    verb: str,
    selector: Selector,
    *,
    why: str | None = None,
    force: bool = False,
    dry_run: bool = False,
) -> list[Steered]:
    """Resubmit, hold, release, fail or forget what a selector means now."""
    return steer_chunks(store, verb, meant(store, verb, selector), why=why, force=force, dry_run=dry_run)


def stale_meant(store: Store, selector: Selector) -> list[tuple[str, str]]:
    """The stale chunks that a selector means, upstream first."""
    from ..insight.stale import stale_selected

    with store.looking():
        return stale_selected(store, selector)


def remake(store: Store, selector: Selector, *, why: str | None = None, dry_run: bool = False) -> list[Steered]:
    """Have what is stale made again; what comes out the same is kept without a run."""
    return store.remake(stale_meant(store, selector), why=why, dry_run=dry_run)


def check_reason(why: str) -> str:
    """The reason for a recall; UsageError when there is none."""
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
) -> Recall:
    """Published data was bad: no job reads it again. Never without a reason, which those who ask later are told."""
    check_id("dataset", datasetid)
    check_id("dataid", dataid)
    if not dry_run:
        check_reason(why)
    return store.recall(datasetid, dataid, why=why, cascade=cascade, hold=hold, dry_run=dry_run)


def rollback(
    store: Store,
    project: Project,
    datasetid: str,
    dataid: str,
    to: int | None = None,
    *,
    why: str | None = None,
    dry_run: bool = False,
) -> list[RolledBack]:
    """Make an older version of a chunk the current one again, if its files are what was published."""
    from ..run.rollback import rollback

    check_id("dataset", datasetid)
    check_id("dataid", dataid)
    return rollback(store, project, datasetid, dataid, to, why=why, dry_run=dry_run)


# Runs and jobs -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cancelled:
    """A run that is ended, or would be, and within how many seconds its worker finds out."""

    run: Run
    within: float | None


def cancel(
    store: Store, run_or_job: str, dataid: str | None = None, *, why: str | None = None, dry_run: bool = False
) -> Cancelled:
    """End a run, on whichever machine it is: its number, or its job and dataid."""
    run = store.cancel(_running(store, run_or_job, dataid), why=why, dry_run=dry_run)
    job = store.catalogue().jobs.get(run.jobid)
    return Cancelled(run, job.lease / 3 if job is not None else None)


def _running(store: Store, word: str, dataid: str | None) -> int:
    """The number of the run that is meant."""
    if dataid is None and word.isascii() and word.isdigit():
        if len(word) > _MOST_DIGITS:
            raise UnknownRun(f"there is no run {word[:_MOST_DIGITS]}…", hint="See: odf runs")
        return int(word)
    jobid = store.catalogue().job(check_id("job", word)).jobid
    runs = [run for run in store.running() if run.jobid == jobid and dataid in (None, run.dataid)]
    if len(runs) == 1:
        return runs[0].runid
    if runs:
        listed = ", ".join(f"{run.dataid} (run {run.runid})" for run in runs[:5])
        raise UsageError(f"{len(runs)} chunks of {jobid} are {RUNNING}: {listed}", hint="Name the run or the dataid.")
    what = f"{jobid} {dataid}" if dataid else jobid
    raise UnknownRun(f"nothing of {what} is running", hint=f"See: odf runs {jobid}")


def pause(store: Store, job: str, *, why: str | None = None, dry_run: bool = False) -> str:
    """Start nothing more of a job until it is resumed; returns its id."""
    jobid = store.catalogue().job(check_id("job", job)).jobid
    if not dry_run:
        store.pause(jobid, why=why)
    return jobid


def resume(store: Store, job: str, *, why: str | None = None, dry_run: bool = False) -> bool:
    """Let a paused job go on; False when it was not paused."""
    catalogue = store.catalogue()
    jobid = catalogue.job(check_id("job", job)).jobid
    return jobid in catalogue.paused if dry_run else store.resume(jobid, why=why)


# Pools ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PoolSet:
    """What a pool is now, or would be: its slots, how many of them there are at this moment, and when that changes."""

    pool: Pool
    before: Pool | None
    now: int | None
    changes: tuple[float, int | None] | None
    is_changed: bool

    @property
    def hours(self) -> tuple[str, ...]:
        """When it has other slots."""
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
    **how: Any,
) -> PoolSet:
    """Give a pool another number of slots, or other hours; what is not named stays. A new pool takes create=True."""
    create, dry_run = how.pop("create", False), how.get("dry_run", False)
    poolid = check_id("pool", name)
    if always and (hours or timezone):
        raise UsageError("--always means no hours", hint="Leave out --hours and --timezone, or --always.")
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
    number = before.slots if before and slots is None else slots_of(slots or "")
    pool = Pool(poolid, number, options)
    is_changed = store.set_pool(pool, **how)
    now, changes = (number, None) if dry_run else store.pool_now(poolid)
    return PoolSet(pool, before, now, changes, is_changed)


def slots_of(word: str) -> int | None:
    """A number of slots that somebody wrote; None is unlimited."""
    if word.strip().lower() == "unlimited":
        return None
    if not word.isascii() or not word.isdigit() or len(word) > 9:
        raise UsageError(
            f"{word[:40]!r} is not a number of slots", hint="Give a whole number from 0, or say unlimited."
        )
    return int(word)


# After an outage -----------------------------------------------------------------------------------------------------


def recover(
    store: Store, causes: Sequence[int | str] = (), *, why: str | None = None, dry_run: bool = False
) -> tuple[Plan, Recovered | None]:
    """Resubmit the smallest set of chunks that lets everything run; with causes, what these broke. The plan, and what was done."""
    from ..insight.recovery import plan

    with store.looking():
        planned = plan(store, causes or None)
    return planned, None if dry_run else carry_out(store, planned, why=why)


def carry_out(store: Store, plan: Plan, *, why: str | None = None) -> Recovered | None:
    """Do what a plan says, in one transaction; None when there is nothing to do."""
    if not plan.resubmit and not plan.found.expired:
        return None
    return store.recover(plan.resubmit, why=why)


def _refuse_new_pool(store: Store, poolid: str, slots: str | None) -> None:
    """UNKNOWN_POOL with the pools that there are, and the line that creates this one."""
    try:
        store.catalogue().pool(poolid)
    except UnknownPool as error:
        new = f"Create it: odf pool set {poolid} {slots} --create" if slots is not None else ""
        raise UnknownPool(error.message, hint=" ".join(filter(None, (error.hint, new)))) from None
