"""What holds a chunk up: the way up its inputs to the first thing that has to be delivered, mended or waited for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ..errors import OdfError
from ..model import FAILED, HOLD, PENDING, RESUBMIT, RUNNING, Catalogue, may_read
from ..store import Event, Run, Store
from .usual import seconds_so_far, usual_seconds
from .words import count, duration, said, when

_DEEPEST = 50
WAITING, CLAIMABLE, REFUSED, NOT_DELIVERED, BROKEN = "WAITING", "CLAIMABLE", "REFUSED", "NOT DELIVERED", "BROKEN"


@dataclass(frozen=True, slots=True)
class HoldupStep:
    """One chunk on the way: its job, what it is, why in words, and how long its job usually takes from here."""

    datasetid: str
    dataid: str
    jobid: str | None
    state: str
    why: str
    runid: int | None = None
    since: datetime | None = None
    seconds_left: float | None = None

    @property
    def goes_on(self) -> bool:
        """Whether it comes by itself."""
        return self.state in (RUNNING, CLAIMABLE)


class Holdup:
    """Walks up from late chunks; what many of them share is looked at once."""

    def __init__(self, store: Store, catalogue: Catalogue) -> None:
        self._store, self._catalogue = store, catalogue
        self._links: dict[tuple[str, str], tuple[HoldupStep, tuple[str, str] | None]] = {}
        self._usual: dict[str, float | None] = {}
        self._refused: dict[tuple[str, str], Event] | None = None

    def chain(self, datasetid: str, dataid: str) -> list[HoldupStep]:
        """From what holds a chunk up, in the end, down to the chunk itself."""
        chain: list[HoldupStep] = []
        chunk: tuple[str, str] | None = (datasetid, dataid)
        seen: set[tuple[str, str]] = set()
        while chunk is not None and chunk not in seen and len(chain) < _DEEPEST:
            seen.add(chunk)
            if chunk not in self._links:
                self._links[chunk] = self._link(*chunk)
            link, chunk = self._links[chunk]
            chain.append(link)
        return chain[::-1]

    def _link(self, datasetid: str, dataid: str) -> tuple[HoldupStep, tuple[str, str] | None]:
        """One chunk, and the input that it waits for, if that is what it does."""
        chunk = self._store.views.chunk(datasetid, dataid)
        job = self._catalogue.producer(datasetid)
        jobid = job.jobid if job else None
        status = chunk.status if chunk else None
        if chunk is not None and status == RUNNING and chunk.runid is not None:
            return self._running(datasetid, dataid, self._store.views.run(chunk.runid)), None
        usual = self._usual_of(jobid)
        if chunk is not None and status in (FAILED, HOLD, PENDING):
            why, runid = self._why_not(datasetid, dataid, status, chunk.runid)
            return HoldupStep(datasetid, dataid, jobid, status, why, runid, chunk.modified, usual), None
        if job is None:
            return self._from_outside(datasetid, dataid, status), None
        return self._waiting(datasetid, dataid, job.jobid, usual)

    def _running(self, datasetid: str, dataid: str, run: Run) -> HoldupStep:
        so_far, usual = seconds_so_far(run), self._usual_of(run.jobid)
        known = f", usually {duration(usual)}" if usual is not None else ""
        why = f"{run.jobid} has been running for {duration(so_far)}{known}"
        left = max(usual - so_far, 0.0) if usual is not None else None
        return HoldupStep(datasetid, dataid, run.jobid, RUNNING, why, run.runid, run.started, left)

    def _why_not(self, datasetid: str, dataid: str, status: str, runid: int | None) -> tuple[str, int | None]:
        if status == FAILED and runid is not None:
            try:
                run = self._store.views.run(runid)
            except OdfError:
                run = None
            if run is not None and run.status != "READY":
                return f"{run.outcome or FAILED}: {said(run.detail) or 'no reason was given'}", runid
        for event in self._store.views.last_events(datasetid, dataid, 20):
            if event.after == status:
                told = f": {event.why}" if event.why else ""
                return f"{event.kind} by {event.who or 'somebody'}{told}", None
        return f"{status}, by SQL", None

    def _from_outside(self, datasetid: str, dataid: str, status: str | None) -> HoldupStep:
        broken = self._catalogue.broken_producer(datasetid)
        if broken is not None:
            return HoldupStep(datasetid, dataid, broken.name, BROKEN, f"job {broken.name} is broken: {broken.message}")
        if self._refused is None:
            refusals = self._store.views.refusals()
            self._refused = {(event.datasetid or "", event.dataid or ""): event for event in refusals}
        refusal = self._refused.get((datasetid, dataid))
        if refusal is not None:
            return HoldupStep(datasetid, dataid, None, REFUSED, f"{refusal.after}: {refusal.why}", since=refusal.at)
        why = "nobody has delivered it" + (" again" if status == RESUBMIT else "")
        return HoldupStep(datasetid, dataid, None, NOT_DELIVERED, why)

    def _waiting(
        self, datasetid: str, dataid: str, jobid: str, usual: float | None
    ) -> tuple[HoldupStep, tuple[str, str] | None]:
        facts = self._store.views.facts(jobid, dataid)
        blocking = [item for item in facts.inputs if not may_read(item.status)]
        if blocking:
            first = blocking[0]
            others = f" and {count(len(blocking) - 1, 'more input')}" if len(blocking) > 1 else ""
            why = f"{jobid} waits for {first.datasetid} {first.dataid}{others}"
            return HoldupStep(datasetid, dataid, jobid, WAITING, why, seconds_left=usual), (
                first.datasetid,
                first.dataid,
            )
        state, why = CLAIMABLE, f"{jobid} can run now, and was not started"
        full = next((limit for limit in facts.limits if not limit.free), None)
        if facts.malformed:
            state, why = BROKEN, facts.malformed
        elif facts.unresolved:
            state, why = WAITING, facts.unresolved[0].why
        elif full is not None:
            state, why = WAITING, str(full)
        elif facts.deferred:
            why = f"{jobid} is tried again in {duration(facts.deferred)}"
        return HoldupStep(datasetid, dataid, jobid, state, why, seconds_left=usual), None

    def _usual_of(self, jobid: str | None) -> float | None:
        if jobid is None:
            return None
        if jobid not in self._usual:
            self._usual[jobid] = usual_seconds(self._store, jobid)
        return self._usual[jobid]


def left_of(chain: Sequence[HoldupStep]) -> float | None:
    """How long the jobs of a chain usually take from here; None where that is known of none of them."""
    known = [link.seconds_left for link in chain if link.seconds_left is not None]
    return sum(known) if known else None


def link_text(link: HoldupStep) -> str:
    """One link in words."""
    since = f" since {when(link.since)}" if link.since is not None and link.state in (FAILED, HOLD, PENDING) else ""
    return f"{link.datasetid} {link.dataid}: {link.state}{since}: {link.why}"
