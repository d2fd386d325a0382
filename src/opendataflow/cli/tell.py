"""What verbs that run something do so that people are told: nothing at all where the project tells nobody."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .app import App

if TYPE_CHECKING:
    from ..notify.background import BackgroundNotifier
    from ..notify.sending import Sent
    from ..store.incidents import IncidentChanges

_PATIENCE = 2.0  # seconds that the store is waited for, by somebody who may not hold anybody up


@contextmanager
def telling(app: App, *, with_late: bool = False) -> Iterator[Callable[[], None]]:
    """People are told meanwhile; gives what to call when something happened."""
    if app.project.notify is None:
        yield lambda: None
        return
    teller = _teller(app, with_late=with_late)
    teller.start()
    try:
        yield teller.stir
    finally:
        teller.finish()


def tell_once(app: App) -> None:
    """Tell people of what has happened, as far as that takes no time."""
    if app.project.notify is not None:
        teller = _teller(app)
        teller.start()
        teller.finish()


def _teller(app: App, *, with_late: bool = False) -> BackgroundNotifier:
    from ..notify.background import BackgroundNotifier

    key = app.key if any(target.needs_key for target in app.project.notify.targets.values()) else None  # type: ignore[union-attr]
    return BackgroundNotifier(
        lambda: app.another_store(_PATIENCE),
        app.project,
        key,
        app.taken.hidden,
        say=app.say,
        with_late=with_late,
    )


def tell_late(app: App) -> None:
    """Look at deadlines too, and tell people, with time enough to do so."""
    tell_now(app, with_late=True)


def tell_now(app: App, *, with_late: bool) -> tuple[IncidentChanges, Sent]:
    """Look, and send everything that is due, however long that takes."""
    from ..notify.looking import look
    from ..notify.sending import MessageSender

    noticed = look(app.store, app.project, with_late=with_late)
    sent = MessageSender(app.store, app.project, app.key, app.taken.hidden).send_due()
    for problem in sent.problems:
        app.say(f"not told: {problem}")
    return noticed, sent
