"""Incidents and messages: told once by many, lost by none."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

import opendataflow
from opendataflow import Store
from opendataflow.model.selector import Selector
from opendataflow.notify.background import BackgroundNotifier
from opendataflow.notify.looking import OTHERS, look
from opendataflow.notify.rules import rules_of
from opendataflow.project import Environment, Project
from opendataflow.project.notify import Notify, NotifyRule, NotifyTarget
from opendataflow.secrets import Hidden
from opendataflow.store.incidents import DROPPED, SENT, Incident, Message, UnreportedFailure
from tests.support.flows import chain, claim_one, dataset, job, produce

KINDS = ("failed", "recovered", "late", "refused", "recalled")
NIGHT = datetime(2026, 11, 15, 23, 0, tzinfo=UTC).timestamp()


def project(*rules: NotifyRule, targets: Sequence[str] = ("oncall",)) -> Project:
    """A project that tells people by these rules; one that tells all of everything, unless others are given."""
    told = Notify(
        {name: NotifyTarget(name, command="tell.sh") for name in targets}, rules or (NotifyRule(KINDS, tuple(targets)),)
    )
    folder = Path("/nowhere")
    environment = Environment("prod", (str(folder),))
    return Project(folder, None, "shop", (folder,), environment, ("prod",), folder, notify=told)


def messages(store: Store) -> list[tuple[str, str, str]]:
    """(target, what, state) of every message, in the order of the incidents."""
    found = [
        message
        for incident in reversed(store.incidents.page())
        for message in store.incidents.messages_about(incident.incidentid)
    ]
    return [(each.target, each.what, each.state) for each in found]


def send(store: Store, target: str = "oncall") -> list[str]:
    """Sends everything that may be sent: what it was."""
    sent = []
    while (message := store.incidents.take_message(target, 60.0)) is not None:
        store.incidents.end_message(message, SENT)
        sent.append(message.what)
    return sent


def fails(store: Store, dataid: str, why: str = "the disk is full") -> None:
    store.announce("raw", [dataid])
    store.fail(claim_one(store, "make", dataid=dataid), "JOB_FAILED", detail=why)


def opened(store: Store) -> list[Incident]:
    return [each for each in store.incidents.page() if each.closed is None]


@pytest.fixture
def flow(store: Store) -> Store:
    chain(store)
    return store


def test_nothing_is_written_where_nothing_is_wrong(flow: Store) -> None:
    flow.announce("raw", ["1"])
    produce(flow, "make")
    assert look(flow, project()) == (0, 0, 0)
    assert flow.incidents.page() == []


def test_chunks_of_one_cause_are_one_incident_and_one_message(flow: Store) -> None:
    for n in range(1, 4):
        fails(flow, str(n), f"cannot write /data/{n}: disk full after {n} s")
    assert look(flow, project()) == (1, 0, 1)
    (incident,) = opened(flow)
    assert (incident.kind, incident.chunks, incident.datasetid) == ("failed", 3, "product")
    assert look(flow, project()) == (0, 0, 0)
    assert messages(flow) == [("oncall", "opened", "WAITING")]


def test_other_causes_are_other_incidents(flow: Store) -> None:
    fails(flow, "1", "the disk is full")
    fails(flow, "2", "the table is locked")
    assert look(flow, project()).opened == 2


def test_very_many_causes_become_one(flow: Store) -> None:
    for n in range(1, 31):
        fails(flow, str(n), f"cause {'abcdefghijklmnopqrstuvwxyzäöüß'[n - 1] * 3}")
    assert look(flow, project()).opened == 21
    assert sum(each.chunks for each in opened(flow) if each.cause == OTHERS) == 10
    assert look(flow, project()) == (0, 0, 0)


def test_when_all_chunks_are_ready_it_is_over_and_said_once(flow: Store) -> None:
    fails(flow, "1")
    fails(flow, "2")
    look(flow, project())
    assert send(flow) == ["opened"]
    flow.resubmit("product", ["1", "2"])
    assert look(flow, project()) == (0, 0, 0), "what is to be made again is not made yet"
    produce(flow, "make", "1")
    look(flow, project())
    assert [each.chunks for each in opened(flow)] == [1]
    produce(flow, "make", "2")
    assert look(flow, project()) == (0, 1, 1)
    assert send(flow) == ["over"]
    assert look(flow, project()) == (0, 0, 0)
    (incident,) = flow.incidents.page()
    assert (incident.chunks, incident.most) == (0, 2)


def test_what_a_person_forgets_or_sets_aside_is_over(flow: Store) -> None:
    for n, deal in (("1", flow.forget), ("2", flow.hold)):
        fails(flow, n)
        look(flow, project())
        deal("product", [n])
        assert look(flow, project()).closed == 1


def test_a_beginning_that_nobody_was_told_of_has_no_end(flow: Store) -> None:
    fails(flow, "1")
    look(flow, project())
    flow.resubmit("product", ["1"])
    produce(flow, "make")
    look(flow, project())
    assert messages(flow) == [("oncall", "opened", DROPPED)]
    assert send(flow) == []


def test_the_same_cause_later_is_a_new_incident(flow: Store) -> None:
    for _ in range(2):
        flow.announce("raw", ["1"])
        if flow.views.chunk("product", "1") is not None:
            flow.resubmit("product", ["1"])
        flow.fail(claim_one(flow, "make"), detail="no")
        look(flow, project())
        flow.resubmit("product", ["1"])
        produce(flow, "make")
        look(flow, project())
    assert [each.closed is not None for each in flow.incidents.page()] == [True, True]


def test_two_machines_that_look_at_once_open_one_incident(flow: Store, open_again: Callable[..., Store]) -> None:
    other = open_again(who="other")
    fails(flow, "1")
    untold = flow.incidents.untold_failures(10)
    assert [each.dataid for each in untold] == [each.dataid for each in other.incidents.untold_failures(10)]
    look(flow, project())
    assert look(other, project()) == (0, 0, 0)
    assert len(messages(flow)) == 1


def test_a_message_is_taken_by_one_alone(flow: Store, open_again: Callable[..., Store]) -> None:
    other = open_again(who="other")
    fails(flow, "1")
    look(flow, project())
    assert flow.incidents.take_message("oncall", 60.0) is not None
    assert other.incidents.take_message("oncall", 60.0) is None


def test_a_message_of_a_sender_that_died_is_taken_by_the_next(flow: Store, open_again: Callable[..., Store]) -> None:
    other = open_again(who="other")
    fails(flow, "1")
    look(flow, project())
    dead = flow.incidents.take_message("oncall", -1.0)
    assert dead is not None
    again = other.incidents.take_message("oncall", 60.0)
    assert again is not None
    assert (again.messageid, again.tries) == (dead.messageid, 2)
    flow.incidents.end_message(dead, SENT)
    assert [each.state for each in other.incidents.unsent()] == ["SENDING"], "who lost it marks nothing"


def test_a_message_that_cannot_be_sent_is_tried_again_later(flow: Store) -> None:
    fails(flow, "1")
    look(flow, project())
    message = flow.incidents.take_message("oncall", 60.0)
    assert message is not None
    flow.incidents.give_back_message(message, "not delivered", 3600.0)
    assert flow.incidents.take_message("oncall", 60.0) is None
    assert [(each.state, each.problem) for each in flow.incidents.unsent()] == [("WAITING", "not delivered")]


def test_nothing_overtakes_a_message_about_the_same_incident(flow: Store) -> None:
    fails(flow, "1")
    look(flow, project())
    first = flow.incidents.take_message("oncall", 60.0)
    assert first is not None
    flow.resubmit("product", ["1"])
    produce(flow, "make")
    look(flow, project())
    assert flow.incidents.take_message("oncall", 60.0) is None, "the end waits until the beginning is told"
    flow.incidents.end_message(first, SENT)
    assert send(flow) == ["over"]


def test_a_reminder_comes_after_so_long_with_the_count_of_then(flow: Store) -> None:
    rule = NotifyRule(KINDS, ("oncall",), remind=1e-6)
    fails(flow, "1")
    look(flow, project(rule))
    assert look(flow, project(rule)).written == 0, "what is not told yet needs no reminder"
    assert send(flow) == ["opened"]
    fails(flow, "2")
    look(flow, project(rule))
    assert [each.chunks for each in flow.incidents.unsent()] == [2]
    assert send(flow) == ["reminder"]


def test_without_remind_only_another_count_is_told_again_and_not_at_once(flow: Store) -> None:
    fails(flow, "1")
    look(flow, project())
    send(flow)
    fails(flow, "2")
    assert look(flow, project()).written == 0
    assert [each.chunks for each in opened(flow)] == [2]
    at(flow, flow.views.clock() + 7200)
    assert look(flow, project()).written == 1


def at(store: Store, moment: float) -> None:
    store.views.clock = lambda: moment  # type: ignore[method-assign]


def test_in_quiet_hours_messages_wait_until_they_end(flow: Store) -> None:
    from opendataflow.model.definitions.hours import parse_window

    rule = NotifyRule(KINDS, ("oncall",), quiet=(parse_window("22:00-06:00 -> 0"),))
    at(flow, NIGHT)
    fails(flow, "1")
    look(flow, project(rule))
    (message,) = flow.incidents.unsent()
    assert message.not_before == NIGHT + 7 * 3600


def test_a_rule_is_for_what_it_selects(flow: Store) -> None:
    rules = (
        NotifyRule(("failed",), ("a",), Selector(datasets=("product",))),
        NotifyRule(("failed",), ("b",), Selector(datasets=("report",))),
        NotifyRule(("failed",), ("c",), Selector(upstream_of=("report",))),
        NotifyRule(("failed",), ("d",), Selector(causes=("disk is full",))),
        NotifyRule(("failed",), ("e",), Selector(causes=("timed out",))),
        NotifyRule(("refused",), ("f",)),
        NotifyRule(("failed",), ("g",), environments=("dev",)),
    )
    fails(flow, "1")
    look(flow, project(*rules, targets=tuple("abcdefg")))
    assert {target for target, _, _ in messages(flow)} == {"a", "c", "d"}


def test_a_rule_that_names_what_there_is_not_is_left_out_and_said(flow: Store) -> None:
    rules = rules_of(
        flow,
        project(NotifyRule(("failed",), ("oncall",), Selector(datasets=("nosuch",))), NotifyRule(KINDS, ("oncall",))),
    )
    assert rules is not None
    assert len(rules.rules) == 1
    assert "nosuch" in rules.problems[0]


def test_arrivals_that_were_refused_are_told_until_something_else_comes(flow: Store) -> None:
    flow.refuse_arrival("raw", "7", "NOT_VALIDATED", "before anybody looked")
    look(flow, project())
    assert opened(flow) == [], "what happened before is not told"
    flow.refuse_arrival("raw", "8", "NOT_VALIDATED", "it has 0 rows")
    look(flow, project())
    assert [(each.kind, each.dataid) for each in opened(flow)] == [("refused", "8")]
    flow.refuse_arrival("raw", "8", "NOT_VALIDATED", "it has 0 rows")
    assert look(flow, project()) == (0, 0, 0)
    flow.announce("raw", ["8"])
    assert look(flow, project()).closed == 1
    assert look(flow, project()) == (0, 0, 0)


def test_a_recall_is_told_until_the_chunk_is_ready_again(flow: Store) -> None:
    look(flow, project())
    flow.announce("raw", ["1"])
    produce(flow, "make")
    flow.recall("product", "1", why="wrong prices")
    look(flow, project())
    assert [(each.kind, "wrong prices" in each.why) for each in opened(flow)] == [("recalled", True)]
    assert send(flow) == ["opened"]
    produce(flow, "make")
    assert look(flow, project()) == (0, 1, 1)
    assert look(flow, project()) == (0, 0, 0)


def test_what_is_late_is_told_by_its_root_cause(store: Store) -> None:
    store.register(
        [
            dataset("raw", "day", start="2026-11-14"),
            *(dataset(name, "day", start="2026-11-14", options={"deadline": "06:00"}) for name in ("one", "two")),
        ],
        [job("make_one", "raw", writes="one"), job("make_two", "raw", writes="two")],
    )
    at(store, datetime(2026, 11, 15, 7, 0, tzinfo=UTC).timestamp())
    assert look(store, project()) == (0, 0, 0), "who does not look at deadlines finds nothing"
    assert look(store, project(), with_late=True).opened == 1
    (incident,) = opened(store)
    assert (incident.kind, incident.chunks, incident.cause) == ("late", 2, "raw: NOT DELIVERED")
    assert send(store) == ["opened"]
    store.announce("raw", ["2026-11-14"])
    produce(store, "make_one")
    produce(store, "make_two")
    assert look(store, project()).closed == 1, "that it is over is seen by everybody"
    assert send(store) == ["over"]


def test_who_changes_the_deadline_ends_the_lateness(store: Store) -> None:
    late = {"options": {"deadline": "06:00"}}
    store.register([dataset("raw", "day", start="2026-11-14", **late)])
    at(store, datetime(2026, 11, 15, 7, 0, tzinfo=UTC).timestamp())
    look(store, project(), with_late=True)
    store.register([dataset("raw", "day", start="2026-11-14", options={"deadline": "12:00"})])
    assert look(store, project(), with_late=True).closed == 1


def test_no_table_of_ours_has_an_address(flow: Store) -> None:
    assert not {"url", "address", "encrypted"} & {*Incident._fields, *Message._fields}


def test_a_recall_of_what_was_forgotten_is_no_news(flow: Store) -> None:
    """Else every look would open an incident and close it again."""
    look(flow, project())
    flow.announce("raw", ["1", "2"])
    flow.recall("raw", "1", why="wrong prices")
    assert look(flow, project()).opened == 1
    flow.forget("raw", ["1"])
    assert look(flow, project()).closed == 1
    for _ in range(3):
        assert look(flow, project()) == (0, 0, 0)
    assert len(flow.incidents.page()) == 1


def test_numbers_and_times_that_are_none_are_read_all_the_same(flow: Store) -> None:
    if not flow.url.startswith("sqlite"):
        return  # PostgreSQL keeps numbers and times only
    fails(flow, "1")
    look(flow, project())
    flow.dml("update incident set opened = 'garbage', chunks = 'x', most = -5")
    flow.dml("update message set not_before = 'abc', tries = 'zz', written = '0001-01-01T00:00+14:00', chunks = 'x'")
    (incident,) = flow.incidents.page()
    assert (incident.chunks, incident.most, incident.opened.year) == (0, 0, 1970)
    (message,) = flow.incidents.messages_about(incident.incidentid)
    assert (message.not_before, message.tries, message.chunks, message.written.year) == (0, 0, 0, 1970)
    flow.dml("update message set not_before = 0, tries = -1e300")
    assert send(flow) == ["opened"], "what is sent is not sent again"


def test_whoever_tells_in_the_background_survives_any_look(flow: Store, store_url: str) -> None:
    looked = [threading.Event(), threading.Event()]
    left = iter(looked)

    def open_store() -> Store:
        store = opendataflow.open(store_url)

        def untold(n: int) -> list[UnreportedFailure]:
            look = next(left)
            look.set()
            if look is looked[0]:
                raise OverflowError("date value out of range")
            return []

        store.incidents.untold_failures = untold  # type: ignore[method-assign]
        return store

    said: list[str] = []
    teller = BackgroundNotifier(open_store, project(), None, Hidden(), say=said.append)
    teller.start()
    assert looked[0].wait(30.0)
    teller.finish(patience=30.0)
    assert looked[1].is_set()
    assert said == []
