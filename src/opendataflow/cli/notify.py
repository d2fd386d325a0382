"""The verb notify: tell people what is due now, try it out, and list what was told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from ..errors import JobFailed, UsageError
from .app import App, Line, one_line, plain
from .common import Whole, verb
from .tell import tell_now

if TYPE_CHECKING:
    from ..store.incidents import Incident, Message

_STYLES = {"SENT": "yes", "WAITING": "", "SENDING": "", "DROPPED": "faint"}


@verb("notify")
@click.option("-n", "most", type=Whole(1), default=20, show_default=True, help="At most this many incidents.")
@click.argument("action", type=click.Choice(["send", "test", "list"]), default="send")
@click.argument("name", required=False)
def notify_verb(app: App, action: str, name: str | None, most: int) -> int:
    """Tell people what went wrong, by the rules of [notify] in dataflow.toml.

    Without a word it looks for what failed, is late, was refused or recalled, and for what is over, and sends everything
    that is due now, also what another process left. test sends one message to one target. list shows the last incidents
    with their messages. Drains and RunJob do the same in the background; call it from cron for what is late, and for what
    could not be sent. Exit code 1 when something could not be sent.

    \b
      odf notify
      odf notify test oncall
      odf notify list
    """
    if action != "test" and name is not None:
        raise UsageError(f"what is {name}?", hint=f"A name belongs to: odf notify test {name}")
    if action == "list":
        return _list(app, most)
    if app.project.notify is None:
        raise UsageError(
            "nobody is to be told: there is no [notify] in dataflow.toml", hint="See: docs/how-to/telling-people.md"
        )
    if action == "test":
        return _test(app, name)
    noticed, sent = tell_now(app, with_late=True)
    left = app.store.incidents.unsent()
    data = {
        "opened": noticed.opened,
        "over": noticed.closed,
        "sent": sent.sent,
        "unsent": len(left),
        "problems": list(sent.problems),
    }
    app.show(
        data,
        lambda: [
            f"{noticed.opened} new, {noticed.closed} over; {sent.sent} sent, {len(left)} not sent"
            + ("; see: odf notify list" if left else "")
        ],
    )
    return 1 if sent.problems else 0


def _test(app: App, name: str | None) -> int:
    from ..notify.sending import MessageSender
    from ..project.section import nearest

    targets = app.project.notify.targets if app.project.notify is not None else {}
    if name is None or name not in targets:
        what = f"there is no [notify.{name}]" if name else "who is to be told?"
        raise UsageError(what, hint=nearest(name or "", targets))
    if targets[name].needs_key:
        app.taken.require_key(f"the address of {name}")
    problem = MessageSender(app.store, app.project, app.key, app.taken.hidden).try_out(targets[name])
    app.show(
        {"target": name, "sent": not problem, "problem": problem}, lambda: [f"{name} is told"] if not problem else []
    )
    if problem:
        app.say(f"{JobFailed.name}: {name} is not told: {problem}")
    return 1 if problem else 0


def _list(app: App, most: int) -> int:
    incidents = app.store.incidents.page(n=most)
    about = {each.incidentid: app.store.incidents.messages_about(each.incidentid) for each in incidents}
    data: list[dict[str, Any]] = [plain(each) | {"messages": plain(about[each.incidentid])} for each in incidents]
    app.show(data, lambda: _lines(incidents, about), overview=True)
    return 0


def _lines(incidents: list[Incident], about: dict[int, list[Message]]) -> Iterator[Line]:
    from ..insight.words import many, when

    if not incidents:
        yield "nobody was told of anything yet"
    for each in incidents:
        state = f"over since {when(each.closed)}" if each.closed else f"{many(each.chunks)}"
        yield [
            (f"{each.incidentid} ", "strong"),
            (each.kind, "faint" if each.closed else "no"),
            (f" since {when(each.opened)}, {state}: {each.datasetid} {each.dataid}: {one_line(each.why)[:200]}", ""),
        ]
        for message in about[each.incidentid]:
            at = when(message.ended or message.written)
            tries = f", {message.tries} tries" if message.tries > 1 else ""
            why = f": {one_line(message.problem)}" if message.problem and message.state != "SENT" else ""
            yield [
                ("    ", ""),
                (message.state, _STYLES.get(message.state, "")),
                (f" {message.what} to {message.target} {at}{tries}{why}", ""),
            ]
