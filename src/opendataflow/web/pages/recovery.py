"""The page Recovery: what an outage left, a plan to read, tick and start, and how far it is."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import parse_qs

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from ...errors import Forbidden, UsageError
from ...insight.recovery import causes as causes_now
from ...insight.recovery import headline, plan
from ...insight.words import are, count
from ...steer import verbs
from ..access import OPERATOR
from ..actions import LONGEST_REASON, FormValues
from ..recoveries import recoveries_of
from ..show import Addresses, page
from ..site import site_of

router = APIRouter()
url = Addresses()

NOTHING = "none"  # what an address says when nothing is ticked
_MOST_CAUSES = 100  # that a page lists
_MOST_STEPS = 50
_MOST_BY_HAND = 50
_MOST_FIELDS = 1000


@router.get("/recovery")
def recovery_page(request: Request, cause: Annotated[list[str] | None, Query(max_length=200)] = None) -> Response:
    """What broke, by its causes, the smallest set of RESUBMITs for those that are ticked, and what is left for people."""
    wanted = tuple(sorted({*cause} - {"", NOTHING})) if cause else None
    known = recoveries_of(request)
    with site_of(request).reading() as store:
        made, followed = known.look(store, wanted)
    chosen = {each.id for each in made.causes if made.only is None or each.number in made.only}
    return page(
        request,
        "recovery.html",
        title="Recovery",
        plan=made,
        chosen=chosen,
        are_all=len(chosen) == len(made.causes),
        causes=made.causes[:_MOST_CAUSES],
        more_causes=max(len(made.causes) - _MOST_CAUSES, 0),
        steps=made.steps[:_MOST_STEPS],
        more_steps=made.steps[_MOST_STEPS:],
        by_hand=made.by_hand[:_MOST_BY_HAND],
        more_by_hand=max(len(made.by_hand) - _MOST_BY_HAND, 0),
        headline=headline(made),
        followed=followed,
        most=LONGEST_REASON,
        here=url.recovery(cause=list(wanted or ())),
    )


@router.post("/recovery")
async def start(request: Request) -> Response:
    """Start it: one transaction. What was healed meanwhile is left alone."""
    if not request.state.visitor.may(OPERATOR):
        raise Forbidden(
            f"to recover needs the role {OPERATOR}; you are {request.state.visitor.role or 'nobody'}",
            hint="Ask an administrator of this console.",
        )
    try:
        fields = parse_qs((await request.body()).decode("utf-8", "replace"), max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise UsageError("this form cannot be read", hint="Load the page again, and repeat it.") from None
    return await run_in_threadpool(_started, request, FormValues(fields))


def _started(request: Request, given: FormValues) -> Response:
    site, visitor = site_of(request), request.state.visitor
    wanted = given.many("cause")
    if not wanted and not given.has("all"):
        raise UsageError("no cause is ticked", hint="Tick what you want to recover.")
    with site.acting(visitor.who) as store:
        with store.looking():
            are_all = given.has("all") and {each.id for each in causes_now(store)} <= {*wanted}
            made = plan(store, None if are_all else wanted, lenient=True)
        done = verbs.apply_plan(store, made, why=given.why)
    if done is None or not (done.changed or done.rescued):
        note = "Nothing was changed: what you ticked is healed or under way already"
    else:
        recoveries_of(request).begin(made, visitor.name, given.why, done)
        n = len(done.changed)
        left = f"; {count(len(done.skipped), 'chunk')} left alone: not FAILED any more" if done.skipped else ""
        note = f"{count(n, 'chunk')} {are(n)} RESUBMIT now{left}"
    site.access.leave_note(request.state.arrival, note)
    return RedirectResponse(url.recovery(), 303)
