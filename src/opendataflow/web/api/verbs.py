"""Verbs: what somebody may do to chunks, runs, jobs and pools, and what it would do."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from starlette.responses import Response

from ... import steer
from ...errors import Forbidden, UsageError
from ...store import Recall, Recovered, RolledBack, Steered, Store
from ..access import Visitor
from ..actions import ACTIONS
from ..site import site_of
from .asking import LAST, LAST_VERSION, Chosen, Function, IdText, LineText, answer, responses
from .happening import PLAN
from .schema import COUNT, FLAG, TABLE, TEXT, Schema, maybe, of, table, with_more

router = APIRouter()

_OF_VERBS = (400, 401, 403, 404, 409, 413, 503)
_DONE = {"verb": TEXT, "dry_run": FLAG}

WhyText = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x08\x0b-\x1f\x7f]*$", max_length=1000)]


class Order(BaseModel):
    """How something is done."""

    model_config = ConfigDict(extra="forbid")

    why: WhyText | None = Field(None, description="The reason, for the history.")
    dry_run: bool = Field(False, description="Say what would change, and change nothing.")


class ChunksOrder(Chosen):
    """Which chunks, and how. Nothing is meant by an empty order: say `all`, or name something."""

    all: bool = Field(False, description="Every chunk that the verb applies to.")
    force: bool = Field(False, description="Take RUNNING chunks away from their runs, which then cannot publish.")
    why: WhyText | None = Field(None, description="The reason, for the history.")
    dry_run: bool = Field(False, description="Say what would change, and change nothing.")


class ResubmitOrder(ChunksOrder):
    """The same, and whether only what is stale is meant."""

    stale: bool = Field(False, description="Only what was made from an older version; each once, upstream first.")


class ChunkOrder(Order):
    """One chunk."""

    dataset: IdText
    dataid: IdText


class RollbackOrder(ChunkOrder):
    """One chunk, and the version to go back to."""

    to: int | None = Field(None, ge=1, le=LAST_VERSION, description="This version, instead of the previous one.")


class RecallOrder(ChunkOrder):
    """One chunk whose data was bad."""

    why: WhyText = Field(description="The reason, for the history and for whoever asks.")
    cascade: bool = Field(False, description="Everything that was really made from it too.")
    hold: bool = Field(False, description="Leave it recalled, on HOLD, instead of having it made again.")


class CancelOrder(Order):
    """One run, by its number or by its job."""

    run: int | None = Field(None, ge=1, le=LAST, description="The number of the run.")
    job: IdText | None = Field(None, description="The job whose run is meant, where only one runs.")
    dataid: IdText | None = Field(None, description="The dataid of the job's run.")


class JobOrder(Order):
    """One job."""

    job: IdText


class PoolOrder(Order):
    """A pool and its slots."""

    pool: IdText
    # Never left out: whoever forgets it would lift the limit.
    slots: int | None = Field(ge=0, le=999_999_999, strict=True, description="How many; null is unlimited.")


class RecoverOrder(Order):
    """Which causes are healed; without any, everything is."""

    cause: list[LineText] = Field([], max_length=100, description="Numbers of causes in the plan, or what they say.")


def _verb(name: str, schema: Schema) -> Callable[[Function], Function]:
    """An address that does something, for visitors whose role the console's own table allows it."""
    role = ACTIONS[name].role

    def decorate(function: Function) -> Function:
        said, _, more = (function.__doc__ or "").partition("\n")
        router.post(
            f"/verbs/{name}",
            response_class=Response,
            responses=responses(schema, "What was done, or would be.", _OF_VERBS),
            summary=said.rstrip("."),
            description=f"{' '.join(more.split()) or said} Needs the role {role}.",
            tags=["verbs"],
            operation_id=function.__name__,
            openapi_extra={"x-role": role},
        )(function)
        return function

    return decorate


def _acting(request: Request, verb: str) -> AbstractContextManager[Store]:
    """The store, with the visitor as who does it; FORBIDDEN when he may not."""
    visitor: Visitor = request.state.visitor
    role = ACTIONS[verb].role
    if not visitor.may(role):
        raise Forbidden(f"this needs the role {role}", hint="Ask somebody who has it.")
    return site_of(request).acting(visitor.who)


# Chunks --------------------------------------------------------------------------------------------------------------

_STEERED = table(_DONE | {"changed": of(list[Steered])})


def _steer(request: Request, verb: str, order: ChunksOrder) -> Response:
    selector = order.selector(site_of(request).project, everything=order.all)
    how: dict[str, Any] = {"why": order.why, "dry_run": order.dry_run}
    with _acting(request, verb) as store:
        if isinstance(order, ResubmitOrder) and order.stale:
            changed = steer.remake(store, selector, **how)
        else:
            changed = steer.steer(store, verb, selector, force=order.force, **how)
    return answer(request, {"verb": verb, "dry_run": order.dry_run, "changed": changed})


@_verb("resubmit", _STEERED)
def post_resubmit(request: Request, order: ResubmitOrder) -> Response:
    """Have chunks produced again, before anything new: `odf resubmit`."""
    return _steer(request, "resubmit", order)


@_verb("hold", _STEERED)
def post_hold(request: Request, order: ChunksOrder) -> Response:
    """Set chunks aside: no job reads or produces them: `odf hold`."""
    return _steer(request, "hold", order)


@_verb("release", _STEERED)
def post_release(request: Request, order: ChunksOrder) -> Response:
    """Restore held chunks to the status that they had before: `odf release`."""
    return _steer(request, "release", order)


@_verb("fail", _STEERED)
def post_fail(request: Request, order: ChunksOrder) -> Response:
    """Mark chunks as bad until they are produced again: `odf fail`."""
    return _steer(request, "fail", order)


@_verb("forget", _STEERED)
def post_forget(request: Request, order: ChunksOrder) -> Response:
    """Reset chunks to never produced; their history stays: `odf forget`."""
    return _steer(request, "forget", order)


@_verb("rollback", table(_DONE | {"changed": of(list[RolledBack])}))
def post_rollback(request: Request, order: RollbackOrder) -> Response:
    """Go back to an older version of a chunk: `odf rollback`."""
    site = site_of(request)
    how: dict[str, Any] = {"why": order.why, "dry_run": order.dry_run}
    with _acting(request, "rollback") as store:
        changed = steer.rollback(store, site.project, order.dataset, order.dataid, order.to, **how)
    return answer(request, {"verb": "rollback", "dry_run": order.dry_run, "changed": changed})


@_verb("recall", with_more(Recall, _DONE))
def post_recall(request: Request, order: RecallOrder) -> Response:
    """Call published data back: no job reads it again: `odf recall`."""
    steer.check_reason(order.why)
    how: dict[str, Any] = {"cascade": order.cascade, "hold": order.hold, "dry_run": order.dry_run}
    with _acting(request, "recall") as store:
        done = steer.recall(store, order.dataset, order.dataid, why=order.why, **how)
    return answer(request, {"verb": "recall", "dry_run": order.dry_run, **done._asdict()})


# Runs, jobs, pools ---------------------------------------------------------------------------------------------------


@_verb("cancel", table({"run": COUNT, "jobid": TEXT, "dataid": TEXT, "owner": TEXT, "dry_run": FLAG}))
def post_cancel(request: Request, order: CancelOrder) -> Response:
    """End a run, on whichever machine it is: `odf cancel`."""
    if (order.run is None) == (order.job is None):
        raise UsageError("which run?", hint="Name the number of a run, or a job.")
    meant = order.job if order.job is not None else str(order.run)
    with _acting(request, "cancel") as store:
        done = steer.cancel(store, meant, order.dataid, why=order.why, dry_run=order.dry_run).run
    facts = {"run": done.runid, "jobid": done.jobid, "dataid": done.dataid, "owner": done.owner}
    return answer(request, facts | {"dry_run": order.dry_run})


@_verb("pause", table({"jobid": TEXT, "paused": FLAG, "why": maybe(TEXT), "dry_run": FLAG}))
def post_pause(request: Request, order: JobOrder) -> Response:
    """Start nothing more of a job until it is resumed: `odf pause`."""
    with _acting(request, "pause") as store:
        jobid = steer.pause(store, order.job, why=order.why, dry_run=order.dry_run)
    facts = {"jobid": jobid, "paused": not order.dry_run, "why": order.why, "dry_run": order.dry_run}
    return answer(request, facts)


@_verb("resume", table({"jobid": TEXT, "paused": FLAG, "was_paused": FLAG, "dry_run": FLAG}))
def post_resume(request: Request, order: JobOrder) -> Response:
    """Let a paused job go on: `odf resume`."""
    with _acting(request, "resume") as store:
        was_paused = steer.resume(store, order.job, why=order.why, dry_run=order.dry_run)
    facts = {"jobid": order.job, "paused": False, "was_paused": was_paused, "dry_run": order.dry_run}
    return answer(request, facts)


_POOL = {"pool": TEXT, "slots": maybe(COUNT), "now": maybe(COUNT), "options": TABLE, "changed": FLAG, "dry_run": FLAG}


@_verb("pool", table(_POOL))
def post_pool(request: Request, order: PoolOrder) -> Response:
    """Set how many chunks of a pool may run at once, across all machines: `odf pool set`."""
    slots = "unlimited" if order.slots is None else str(order.slots)
    with _acting(request, "pool") as store:
        done = steer.set_pool(store, order.pool, slots, why=order.why, dry_run=order.dry_run)
    facts = {"pool": done.pool.poolid, "slots": done.pool.slots, "now": done.now, "options": dict(done.pool.options)}
    return answer(request, facts | {"changed": done.is_changed, "dry_run": order.dry_run})


@_verb("recover", table(PLAN | {"done": maybe(of(Recovered))}))
def post_recover(request: Request, order: RecoverOrder) -> Response:
    """Resubmit the fewest chunks that let everything run, in one transaction: `odf recover --yes`."""
    with _acting(request, "recover") as store:
        plan, done = steer.recover(store, order.cause, why=order.why, dry_run=order.dry_run)
    return answer(request, plan.to_data() | {"done": done})
