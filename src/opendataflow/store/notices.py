"""Notices: incidents, the chunks that they have, and an outbox of messages about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from ..shapes import NamedTuple
from . import records
from .backend import Row, Transaction
from .inputs import ChunkId
from .records import Event
from .rows import compact
from .session import Session

WAITING, SENDING, SENT, DROPPED = "WAITING", "SENDING", "SENT", "DROPPED"
OPENED, REMINDER, OVER = "opened", "reminder", "over"

_MOST_OPEN = 1000
_BEGUN, _SEEN = "begun", "seen"  # the last event before somebody first looked, and the last one that was looked at
_LATE_COMMITS = 1000  # events: their numbers are given before they can be seen, so some come after later ones


class Untold(NamedTuple):
    """A FAILED chunk that no incident has, and how its last attempt ended."""

    datasetid: str
    dataid: str
    jobid: str
    outcome: str | None
    detail: str | None


class Incident(NamedTuple):
    """Something that went wrong with one or more chunks for one reason; open until `closed`. The first chunk stands for all."""

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
    """One chunk of an incident as it is now; without a status where it was never produced."""

    datasetid: str
    dataid: str
    jobid: str | None
    status: str | None


class MemberKey(NamedTuple):
    """What names a chunk of an incident."""

    datasetid: str
    dataid: str


class Message(NamedTuple):
    """One message to one target; what it says is made of the incident when it is sent."""

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


class Found(NamedTuple):
    """A chunk that somebody should be told of, with the cause that it shares with others."""

    kind: str
    cause: str
    why: str
    datasetid: str
    dataid: str
    jobid: str
    eventid: int = 0


class Standing(NamedTuple):
    """An incident with some of its chunks and all messages about it."""

    incident: Incident
    members: tuple[Member, ...]
    messages: tuple[Message, ...]


class Outgoing(NamedTuple):
    """A message to write; not_before is a moment of the store's clock."""

    incidentid: int
    target: str
    what: str
    number: int
    chunks: int
    not_before: float


class Noticed(NamedTuple):
    """What one look changed: how many incidents were opened and closed, and how many messages were written."""

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
        tries=message.tries if isinstance(message.tries, (int, float)) else 0,  # it has to compare equal
        written=_moment(message.written),
        ended=records.moment(message.ended),
    )


def _moment(value: object) -> datetime:
    return records.moment(value) or datetime.fromtimestamp(0, UTC)  # typed by a person


def _number(value: Any) -> Any:
    return value if isinstance(value, (int, float)) and abs(value) < 2**62 else 0  # SQLite keeps whatever is typed


def _count(value: Any) -> int:
    return max(0, int(_number(value)))


class Notices(Session):
    """What people are told of. Nothing here knows an address."""

    # Looking -----------------------------------------------------------------------------------------------------

    def untold_failures(self, n: int) -> list[Untold]:
        """FAILED chunks that no incident has yet, at most n."""
        return self._fetch(Untold._make, "failures_untold", n=n)

    def news(self, n: int) -> tuple[list[Event], int | None]:
        """What was refused or recalled lately and still stands, and how far that reaches; None before the first look.

        A store that was never looked at begins with what comes next.
        """

        def work(tx: Transaction) -> tuple[list[Event], int | None]:
            cursor = tx.value("noticed_get", name=_SEEN)
            if cursor is None:
                return [], None
            begun = int(tx.value("noticed_get", name=_BEGUN) or 0)
            newest = int(tx.value("newest_event") or 0)
            until = min(newest, int(cursor) + n)
            after = max(int(cursor) - _LATE_COMMITS, begun)
            return tx.fetch(records.event, "news_page", after=after, until=until, n=n), until

        return self._do(work, reading=True)

    def noticed_up_to(self) -> int | None:
        """The last event that was looked at, if any was."""
        cursor = self._value("noticed_get", name=_SEEN)
        return int(cursor) if cursor is not None else None

    def members_of(self, kind: str, n: int) -> list[ChunkId]:
        """The chunks of all open incidents of one kind."""
        keys = self._fetch(MemberKey._make, "members_of_kind", kind=kind, n=n)
        return [(key.datasetid, key.dataid) for key in keys]

    def has_settled(self) -> bool:
        """Whether a chunk of an incident is what it should be by now."""
        return bool(self._value("members_settled"))

    def standing(self, members: int) -> list[Standing]:
        """The open incidents, each with at most so many chunks, and with its messages."""
        return self._do(lambda tx: _standing(tx, members), reading=True)

    def incident(self, incidentid: int) -> Incident | None:
        """One incident."""
        return self._first(_incident, "incident_row", incidentid=incidentid)

    def incident_members(self, incidentid: int, n: int) -> list[Member]:
        """Some chunks of an incident."""
        return self._fetch(Member._make, "incident_members", incidentid=incidentid, n=n)

    def incidents(self, *, before: int | None = None, n: int = 20) -> list[Incident]:
        """Incidents, newest first; pass the last incidentid as `before` for the next page."""
        return self._fetch(_incident, "incidents_page", before=2**62 if before is None else before, n=n)

    def messages_about(self, incidentid: int) -> list[Message]:
        """All messages about an incident, in their order."""
        return self._fetch(_message, "messages_of_incident", incidentid=incidentid)

    def unsent(self, n: int = 1000) -> list[Message]:
        """Messages that are written and not sent, by target, the oldest first."""
        return self._fetch(_message, "messages_unsent", n=n)

    # Writing -----------------------------------------------------------------------------------------------------

    def notice(
        self,
        found: Iterable[Found],
        gone: Iterable[tuple[str, str, str]],
        decide: Callable[[Sequence[Standing]], Sequence[Outgoing]],
        *,
        up_to: int | None = None,
        members: int = 200,
    ) -> Noticed:
        """Open, change and close incidents, and write the messages that `decide` wants, in one transaction.

        gone are (kind, datasetid, dataid) that are no longer what they were found to be.
        """
        wanted: dict[tuple[str, str], list[Found]] = {}
        for each in found:
            wanted.setdefault((each.kind, each.cause), []).append(each)
        dropped = list(gone)

        def work(tx: Transaction) -> Noticed:
            tx.lock("lock_notices")
            opened = sum(_add(tx, kind, cause, some) for (kind, cause), some in wanted.items())
            for kind, datasetid, dataid in dropped:
                tx.run("member_drop", kind=kind, datasetid=datasetid, dataid=dataid)
            tx.run("members_settle")
            tx.run("incidents_count")
            closed = tx.fetch(_incident, "incidents_close")
            over = [Standing(each, (), _messages(tx, each.incidentid)) for each in closed]
            outgoing = decide([*_standing(tx, members), *over])
            for each in closed:
                tx.run("messages_drop", incidentid=each.incidentid)
            for message in outgoing:
                tx.run("message_put", **message._asdict())
            if up_to is not None:
                tx.run("noticed_put", name=_SEEN, eventid=up_to)
            return Noticed(opened, len(closed), len(outgoing))

        return self._do(work)

    def begin_noticing(self) -> None:
        """From now on events count; what happened before is not told."""

        def work(tx: Transaction) -> None:
            newest = int(tx.value("newest_event") or 0)
            for name in (_BEGUN, _SEEN):
                tx.run("noticed_put_once", name=name, eventid=newest)

        self._do(work)

    def take_message(self, target: str, lease: float) -> Message | None:
        """The next message for a target, ours for so many seconds; None when there is none that may be sent now."""

        def work(tx: Transaction) -> Message | None:
            tx.lock("lock_notices")
            return tx.first(_message, "message_take", target=target, lease=lease, who=self._who)

        return self._do(work)

    def end_message(self, message: Message, state: str, problem: str = "") -> None:
        """A message that was taken is SENT, or is not to be sent any more."""
        self._do(lambda tx: tx.run("message_end", state=state, problem=problem, **_ours(message)))

    def give_back_message(self, message: Message, problem: str, delay: float) -> None:
        """A message that was taken could not be sent: somebody tries again, so many seconds later."""
        self._do(lambda tx: tx.run("message_give_back", problem=problem, delay=delay, **_ours(message)))


def _ours(message: Message) -> dict[str, Any]:
    return {"messageid": message.messageid, "who": message.who, "tries": message.tries}


def _add(tx: Transaction, kind: str, cause: str, found: Sequence[Found]) -> int:
    """Give chunks to the incident of their cause, which is opened where there is none; how many were opened."""
    chunks = {(each.datasetid, each.dataid): each for each in found}
    known = tx.fetch(MemberKey._make, "members_given", kind=kind, chunks=compact(list(chunks)))
    for key in known:
        del chunks[key.datasetid, key.dataid]
    if not chunks:
        return 0
    first = next(iter(chunks.values()))
    before = tx.value("incident_of_cause", kind=kind, cause=cause)
    if before is None:
        tx.run("incident_put", **{name: getattr(first, name) for name in Found._fields if name != "eventid"})
    incidentid = tx.value("incident_of_cause", kind=kind, cause=cause)
    listed = compact([(each.datasetid, each.dataid, each.eventid) for each in chunks.values()])
    tx.run("members_put", kind=kind, incidentid=incidentid, chunks=listed)
    return int(before is None)


def _standing(tx: Transaction, members: int) -> list[Standing]:
    return [
        Standing(
            incident,
            tuple(tx.fetch(Member._make, "incident_members", incidentid=incident.incidentid, n=members)),
            _messages(tx, incident.incidentid),
        )
        for incident in tx.fetch(_incident, "incidents_open", n=_MOST_OPEN)
    ]


def _messages(tx: Transaction, incidentid: int) -> tuple[Message, ...]:
    return tuple(tx.fetch(_message, "messages_of_incident", incidentid=incidentid))
