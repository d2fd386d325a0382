"""Rules: what has to be said to whom about which incident, and not before when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from typing import NamedTuple

from ..errors import OdfError
from ..insight.selection import Scope, scope
from ..model.definitions.hours import next_change, slots_at
from ..model.selector import Subject
from ..model.timezone import time_zone
from ..project import Project
from ..project.notify import DEFAULT_REMIND, RECOVERED, NotifyRule
from ..store import Store
from ..store.incidents import (
    DROPPED,
    OPENED,
    OVER,
    REMINDER,
    WAITING,
    Incident,
    Member,
    Message,
    OpenIncident,
    Outgoing,
)


class Rules(NamedTuple):
    """The rules of one environment, each with what it is for; those that name what there is not are left out, and said."""

    rules: Sequence[tuple[NotifyRule, Scope]]
    zone: tzinfo
    problems: tuple[str, ...] = ()

    @property
    def occasions(self) -> set[str]:
        """What anybody wants to be told of."""
        return {kind for rule, _ in self.rules for kind in rule.on}

    def outgoing(self, standing: Sequence[OpenIncident], now: float) -> list[Outgoing]:
        """The messages that have to be written about these incidents, as they stand."""
        return [message for each in standing for message in self._about(each, now)]

    def sends(self, incident: Incident, members: Sequence[Member], what: str, target: str) -> bool:
        """Whether a rule of this project has this said to this target: a row of the store alone decides nothing."""
        return target in self._targets(incident, members, what)

    def _about(self, standing: OpenIncident, now: float) -> Iterator[Outgoing]:
        incident, members, messages = standing
        if incident.closed is not None:
            for target, rule in self._targets(incident, members, OVER).items():
                told = [each for each in messages if each.target == target and each.what == OPENED]
                was_told = any(each.state not in (WAITING, DROPPED) for each in told)
                if was_told or incident.kind not in rule.on:
                    yield Outgoing(
                        incident.incidentid, target, OVER, 0, incident.most, _not_before(rule, self.zone, now)
                    )
            return
        for target, rule in self._targets(incident, members, OPENED).items():
            own = [each for each in messages if each.target == target]
            if not own:
                wait = _not_before(rule, self.zone, now)
                yield Outgoing(incident.incidentid, target, OPENED, 0, incident.chunks, wait)
            elif _wants_reminder(rule, incident, own, now):
                number = sum(each.what == REMINDER for each in own) + 1
                wait = _not_before(rule, self.zone, now)
                yield Outgoing(incident.incidentid, target, REMINDER, number, incident.chunks, wait)

    def _targets(self, incident: Incident, members: Sequence[Member], what: str) -> dict[str, NotifyRule]:
        """Who is told of this, each by the first rule that says so."""
        found: dict[str, NotifyRule] = {}
        first = Member(incident.datasetid, incident.dataid, incident.jobid or None, None)
        for rule, meant in self.rules:
            if what == OVER:
                # Its chunks are no longer its own by now: who was told of the first one is told of the end.
                applies = RECOVERED in rule.on and (incident.kind in rule.on or _is_meant(meant, incident, first))
            else:
                applies = incident.kind in rule.on and any(
                    _is_meant(meant, incident, member) for member in members or [first]
                )
            if applies:
                found = dict.fromkeys(rule.to, rule) | found
        return found


def rules_of(store: Store, project: Project) -> Rules | None:
    """The rules of this project in its environment; None where nobody is to be told of anything."""
    rules = project.notify.in_environment(project.environment.name) if project.notify is not None else ()
    if not rules:
        return None
    found, problems = [], []
    for rule in rules:
        try:
            found.append((rule, scope(store, rule.selector)))
        except OdfError as problem:
            problems.append(f"a rule of [notify] is left out: {problem.message}")
    return Rules(found, time_zone(project.timezone), tuple(problems))


def _is_meant(meant: Scope, incident: Incident, member: Member) -> bool:
    """Whether a rule is for one of an incident's chunks."""
    causes = (incident.cause, incident.why, incident.why.partition(":")[0])
    return meant.matches(Subject(member.datasetid, member.dataid, member.jobid, member.status, causes=causes))


def _wants_reminder(rule: NotifyRule, incident: Incident, own: Sequence[Message], now: float) -> bool:
    """While it lasts: every `remind` where the rule says so; else once an hour where its number of chunks has changed."""
    last = own[-1]
    if last.ended is None:
        return False  # what was written before is not even sent
    if rule.remind is None and incident.chunks == last.chunks:
        return False
    since = (datetime.fromtimestamp(now, UTC) - last.ended).total_seconds()
    return since >= (rule.remind if rule.remind is not None else DEFAULT_REMIND)


def _not_before(rule: NotifyRule, zone: tzinfo, now: float) -> float:
    """The moment from which it may be said: now, or when the quiet hours end."""
    if slots_at(None, rule.quiet, zone, now) is None:
        return 0.0
    change = next_change(None, rule.quiet, zone, now)
    return change[0] if change is not None else 0.0
