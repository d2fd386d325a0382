"""Wording: what a message says, in plain words, made of facts when it is sent."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

from ..insight.words import are, count, duration, many
from ..model.printable import clean, one_line
from ..project.notify import FAILED, LATE, RECALLED, REFUSED
from ..store.incidents import OPENED, OVER, REMINDER, Incident, Member

_LONGEST_SUBJECT = 160
_LONGEST_REASON = 600
_NAMED = 5
# What chats take for a call to all members; a log must not be able to make one.
_CALL = re.compile(r"<!|<@|@(?=(?:everyone|here|channel|all)\b)")

_STATES = {FAILED: "FAILED", LATE: "late", REFUSED: "refused", RECALLED: "recalled"}
_TYPES = {OPENED: "failure", REMINDER: "warning", OVER: "success"}


@dataclass(frozen=True, slots=True)
class Text:
    """One message, ready to be sent: a subject, lines, and the facts for a program."""

    subject: str
    body: str
    type: str  # of apprise: failure, warning, success
    facts: dict[str, object]


@dataclass(frozen=True, slots=True)
class About:
    """What a message is about: where, and what stands behind it."""

    project: str
    environment: str
    zone: tzinfo
    behind: int | None = None  # chunks that wait


def text_of(incident: Incident, members: Sequence[Member], what: str, about: About, now: datetime) -> Text:
    """What is said about an incident."""
    where = f"[{about.project}/{about.environment}]"
    state = _STATES[incident.kind]
    since = _moment(incident.opened, about.zone)
    lasted = duration(((incident.closed or now) - incident.opened).total_seconds())
    if what == OVER:
        subject = f"{where} over: {many(incident.most)} {_was(incident.most)} {state}"
        lines = [
            f"It is over after {lasted}: nothing of it is {state} any more.",
            f"It was, since {since}: {_reason(incident)}",
            f"Up to {many(incident.most)}, the first of them {incident.datasetid} {incident.dataid}.",
            "",
            f"To look at it: odf explain {incident.datasetid} {incident.dataid}",
        ]
    else:
        still = f"still {state} after {lasted}" if what == REMINDER else state
        subject = f"{where} {many(incident.chunks)} {still}: {_reason(incident)}"
        lines = [
            f"{many(incident.chunks)} {are(incident.chunks)} {state}, since {since}"
            + (f" ({lasted})." if what == REMINDER else "."),
            f"Reason: {_reason(incident)}",
            f"The first: {incident.datasetid} {incident.dataid}"
            + (f", by job {incident.jobid}." if incident.jobid else "."),
        ]
        names = [f"{member.datasetid} {member.dataid}" for member in members[:_NAMED]]
        if incident.chunks > 1 and names:
            more = ", …" if incident.chunks > len(names) else ""
            lines.append(f"They are: {', '.join(names)}{more}")
        if about.behind:
            lines.append(f"{count(about.behind, 'chunk')} {are(about.behind)} waiting behind.")
        lines += ["", "To look at it:", *(f"  {command}" for command in _commands(incident))]
    facts: dict[str, object] = {
        "project": about.project,
        "environment": about.environment,
        "what": what,
        "kind": incident.kind,
        "incident": incident.incidentid,
        "chunks": incident.chunks,
        "most": incident.most,
        "since": incident.opened.astimezone(UTC).isoformat(timespec="seconds"),
        "over": incident.closed.astimezone(UTC).isoformat(timespec="seconds") if incident.closed else None,
        "behind": about.behind,
        "dataset": incident.datasetid,
        "dataid": incident.dataid,
        "job": incident.jobid or None,
        "reason": _reason(incident),
        "first": [[member.datasetid, member.dataid] for member in members[:_NAMED]],
    }
    subject = harmless(one_line(subject))
    subject = subject if len(subject) <= _LONGEST_SUBJECT else subject[: _LONGEST_SUBJECT - 1] + "…"
    body = harmless("\n".join(clean(line) for line in lines))
    return Text(subject, body, _TYPES[what], facts | {"subject": subject, "body": body})


def trial(name: str, project: str, environment: str) -> Text:
    """A message that only says that it arrives."""
    subject = f"[{project}/{environment}] a test of OpenDataFlow"
    body = f"This is a test: messages to {name} arrive here. Nothing is wrong."
    facts: dict[str, object] = {"project": project, "environment": environment, "what": "test", "target": name}
    return Text(subject, body, "info", facts | {"subject": subject, "body": body})


def harmless(text: str) -> str:
    """The text without calls to all members of a chat."""
    return _CALL.sub(lambda call: call[0][0] + "​" + call[0][1:], text)


def _reason(incident: Incident) -> str:
    reason = one_line(incident.why)
    return reason if len(reason) <= _LONGEST_REASON else reason[: _LONGEST_REASON - 1] + "…"


def _commands(incident: Incident) -> list[str]:
    explain = f"odf explain {incident.datasetid} {incident.dataid}"
    match incident.kind:
        case "failed":
            return ["odf recover", explain]
        case "late":
            return ["odf late", explain]
        case _:
            return [explain]


def _was(n: int) -> str:
    return "was" if n == 1 else "were"


def _moment(moment: datetime, zone: tzinfo) -> str:
    return moment.astimezone(zone).strftime("%Y-%m-%d %H:%M %Z")
