"""Store incidents, their chunks, and an outbox of messages about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from . import records
from .drivers.base import Row, Transaction
from .engine.inputs import ChunkId
from .records import Event
from .rows import compact
from .views.view import View

WAITING, SENDING, SENT, DROPPED = "WAITING", "SENDING", "SENT", "DROPPED"
OPENED, REMINDER, OVER = "opened", "reminder", "over"

_MOST_OPEN = 1000
_FIRST, _PROCESSED = "begun", "seen"  # the last event before noticing began, and the last processed event
_LATE_COMMITS = 1000  # events that may commit after events with higher ids


class UnreportedFailure(NamedTuple):
    """A FAILED chunk without an incident, and the outcome of its last attempt."""

    datasetid: str
    dataid: str
    jobid: str
    outcome: str | None
    detail: str | None


class Incident(NamedTuple):
    """A problem of one or more chunks with one cause; open until `closed`. The first chunk represents all."""

    incidentid: int
    kind: str
    cause: str
    why: str
    datasetid: str
    dataid: str
    jobid: str
    chunks: int
    most: int
    opened: datetime
    closed: datetime | None


class Member(NamedTuple):
    """A chunk of an incident with its current status; None if it was never produced."""

    datasetid: str
    dataid: str
    jobid: str | None
    status: str | None


class MemberKey(NamedTuple):
    """The key of a chunk of an incident."""

    datasetid: str
    dataid: str


class Message(NamedTuple):
    """A message to one target; its text is generated from the incident when it is sent."""

    messageid: int
    incidentid: int
    target: str
    what: str
    number: int
    state: str
    chunks: int
    not_before: float
    lease_until: float
    tries: int
    problem: str
    who: str
    written: datetime
    ended: datetime | None


class IncidentChunk(NamedTuple):
    """A chunk to report, with the cause that it shares with others."""

    kind: str
    cause: str
    why: str
    datasetid: str
    dataid: str
    jobid: str
    eventid: int = 0


class OpenIncident(NamedTuple):
    """An incident with some of its chunks and all its messages."""

    incident: Incident
    members: tuple[Member, ...]
    messages: tuple[Message, ...]


class Outgoing(NamedTuple):
    """A message to write; not_before is in the store's clock."""

    incidentid: int
    target: str
    what: str
    number: int
    chunks: int
    not_before: float


class IncidentChanges(NamedTuple):
    """The number of incidents that were opened and closed, and of messages that were written."""

    opened: int = 0
    closed: int = 0
    written: int = 0


def _incident(row: Row) -> Incident:
    incident = Incident._make(row)
    return incident._replace(
        chunks=_count(incident.chunks),
        most=_count(incident.most),
        opened=_moment(incident.opened),
        closed=records.moment(incident.closed),
    )


def _message(row: Row) -> Message:
    message = Message._make(row)
    return message._replace(
        number=_count(message.number),
        chunks=_count(message.chunks),
        not_before=_number(message.not_before),
        lease_until=_number(message.lease_until),
        tries=message.tries if isinstance(message.tries, (int, float)) else 0,  # part of a comparison: must be a number
        written=_moment(message.written),
        ended=records.moment(message.ended),
    )


def _moment(value: object) -> datetime:
    return records.moment(value) or datetime.fromtimestamp(0, UTC)  # malformed: typed by SQL


def _number(value: Any) -> Any:
    return value if isinstance(value, (int, float)) and abs(value) < 2**62 else 0  # SQLite stores any typed value


def _count(value: Any) -> int:
    return max(0, int(_number(value)))


class Incidents(View):
    """Read and write incidents and messages; addresses of targets are not known here."""

    def untold_failures(self, n: int) -> list[UnreportedFailure]:
        """At most n FAILED chunks without an incident."""
        return self._fetch(UnreportedFailure._make, "failures_untold", n=n)

    def news(self, n: int) -> tuple[list[Event], int | None]:
        """New events of refused or recalled chunks, and the last event id that they cover; None before the first call.

        Events before begin_noticing are not included.
        """

        def work(tx: Transaction) -> tuple[list[Event], int | None]:
            cursor = tx.value("noticed_get", name=_PROCESSED)
            if cursor is None:
                return [], None
            begun = int(tx.value("noticed_get", name=_FIRST) or 0)
            newest = int(tx.value("newest_event") or 0)
            until = min(newest, int(cursor) + n)
            after = max(int(cursor) - _LATE_COMMITS, begun)
            return tx.fetch(records.event, "news_page", after=after, until=until, n=n), until

        return self._read(work)

    def noticed_up_to(self) -> int | None:
        """The id of the last processed event, if any."""
        cursor = self._value("noticed_get", name=_PROCESSED)
        return int(cursor) if cursor is not None else None

    def members_of(self, kind: str, n: int) -> list[ChunkId]:
        """The chunks of all open incidents of one kind."""
        keys = self._fetch(MemberKey._make, "members_of_kind", kind=kind, n=n)
        return [(key.datasetid, key.dataid) for key in keys]

    def has_settled(self) -> bool:
        """Whether a chunk of an open incident is no longer affected."""
        return bool(self._value("members_settled"))

    def standing(self, members: int) -> list[OpenIncident]:
        """The open incidents, each with at most `members` chunks, and with its messages."""
        return self._read(lambda tx: _open_incidents(tx, members))

    def incident(self, incidentid: int) -> Incident | None:
        """One incident by id."""
        return self._first(_incident, "incident_row", incidentid=incidentid)

    def incident_members(self, incidentid: int, n: int) -> list[Member]:
        """Some chunks of an incident."""
        return self._fetch(Member._make, "incident_members", incidentid=incidentid, n=n)

    def page(self, *, before: int | None = None, n: int = 20) -> list[Incident]:
        """Incidents, newest first; pass the last incidentid as `before` for the next page."""
        return self._fetch(_incident, "incidents_page", before=2**62 if before is None else before, n=n)

    def messages_about(self, incidentid: int) -> list[Message]:
        """All messages about an incident, in order."""
        return self._fetch(_message, "messages_of_incident", incidentid=incidentid)

    def unsent(self, n: int = 1000) -> list[Message]:
        """Unsent messages by target, oldest first."""
        return self._fetch(_message, "messages_unsent", n=n)

    def notice(
        self,
        found: Iterable[IncidentChunk],
        gone: Iterable[tuple[str, str, str]],
        decide: Callable[[Sequence[OpenIncident]], Sequence[Outgoing]],
        *,
        up_to: int | None = None,
        members: int = 200,
    ) -> IncidentChanges:
        """Open, change and close incidents, and write the messages that `decide` returns, in one transaction.

        `gone` are (kind, datasetid, dataid) of chunks that are no longer affected.
        """
        wanted: dict[tuple[str, str], list[IncidentChunk]] = {}
        for each in found:
            wanted.setdefault((each.kind, each.cause), []).append(each)
        dropped = list(gone)

        def work(tx: Transaction) -> IncidentChanges:
            tx.lock("lock_notices")
            opened = sum(_add(tx, kind, cause, some) for (kind, cause), some in wanted.items())
            for kind, datasetid, dataid in dropped:
                tx.run("member_drop", kind=kind, datasetid=datasetid, dataid=dataid)
            tx.run("members_settle")
            tx.run("incidents_count")
            closed = tx.fetch(_incident, "incidents_close")
            over = [OpenIncident(each, (), _messages(tx, each.incidentid)) for each in closed]
            outgoing = decide([*_open_incidents(tx, members), *over])
            for each in closed:
                tx.run("messages_drop", incidentid=each.incidentid)
            for message in outgoing:
                tx.run("message_put", **message._asdict())
            if up_to is not None:
                tx.run("noticed_put", name=_PROCESSED, eventid=up_to)
            return IncidentChanges(opened, len(closed), len(outgoing))

        return self._store.write(work)

    def begin_noticing(self) -> None:
        """Begin with the current last event: earlier events are not reported."""

        def work(tx: Transaction) -> None:
            newest = int(tx.value("newest_event") or 0)
            for name in (_FIRST, _PROCESSED):
                tx.run("noticed_put_once", name=name, eventid=newest)

        self._store.write(work)

    def take_message(self, target: str, lease: float) -> Message | None:
        """Take the next message for a target for `lease` seconds; None if there is none to send now."""

        def work(tx: Transaction) -> Message | None:
            tx.lock("lock_notices")
            return tx.first(_message, "message_take", target=target, lease=lease, who=self._store.who)

        return self._store.write(work)

    def end_message(self, message: Message, state: str, problem: str = "") -> None:
        """End a taken message: it is SENT, or is not retried."""
        self._store.write(lambda tx: tx.run("message_end", state=state, problem=problem, **_ours(message)))

    def give_back_message(self, message: Message, problem: str, delay: float) -> None:
        """Give back a message that could not be sent; it is retried after `delay` seconds."""
        self._store.write(lambda tx: tx.run("message_give_back", problem=problem, delay=delay, **_ours(message)))


def _ours(message: Message) -> dict[str, Any]:
    return {"messageid": message.messageid, "who": message.who, "tries": message.tries}


def _add(tx: Transaction, kind: str, cause: str, found: Sequence[IncidentChunk]) -> int:
    """Add chunks to the incident of their cause, opening one if needed; returns how many were opened."""
    chunks = {(each.datasetid, each.dataid): each for each in found}
    known = tx.fetch(MemberKey._make, "members_given", kind=kind, chunks=compact(list(chunks)))
    for key in known:
        del chunks[key.datasetid, key.dataid]
    if not chunks:
        return 0
    first = next(iter(chunks.values()))
    before = tx.value("incident_of_cause", kind=kind, cause=cause)
    if before is None:
        tx.run("incident_put", **{name: getattr(first, name) for name in IncidentChunk._fields if name != "eventid"})
    incidentid = tx.value("incident_of_cause", kind=kind, cause=cause)
    listed = compact([(each.datasetid, each.dataid, each.eventid) for each in chunks.values()])
    tx.run("members_put", kind=kind, incidentid=incidentid, chunks=listed)
    return int(before is None)


def _open_incidents(tx: Transaction, members: int) -> list[OpenIncident]:
    return [
        OpenIncident(
            incident,
            tuple(tx.fetch(Member._make, "incident_members", incidentid=incident.incidentid, n=members)),
            _messages(tx, incident.incidentid),
        )
        for incident in tx.fetch(_incident, "incidents_open", n=_MOST_OPEN)
    ]


def _messages(tx: Transaction, incidentid: int) -> tuple[Message, ...]:
    return tuple(tx.fetch(_message, "messages_of_incident", incidentid=incidentid))
