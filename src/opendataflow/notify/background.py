"""In the background: a thread that looks and sends while others work, and never fails or delays them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from ..errors import OdfError
from ..project import Project
from ..secrets import Hidden, Key
from ..store import Store
from .looking import look
from .sending import MessageSender

_BETWEEN = 2.0  # seconds between two looks, however much happens
_AT_LEAST = 10.0  # seconds until the next look where nothing is said to have happened
_LATE = 60.0  # seconds between two looks at deadlines
PATIENCE = 3.0  # seconds that whoever ends waits for what is being sent
_TO_GIVE_BACK = 1.0  # seconds to leave to others what was being sent


class BackgroundNotifier:
    """Tells people of what happens meanwhile, by a thread and a connection of its own."""

    def __init__(
        self,
        open_store: Callable[[], Store],
        project: Project,
        key: Key | None,
        hidden: Hidden,
        *,
        say: Callable[[str], None],
        with_late: bool = False,
    ) -> None:
        self._open_store, self._project, self._key, self._hidden = open_store, project, key, hidden
        self._say, self._with_late = say, with_late
        self._stirred, self._finishing, self._ended = threading.Event(), threading.Event(), threading.Event()
        self._sender: MessageSender | None = None
        self._unsent = ""
        self._thread = threading.Thread(target=self._loop, name="notify", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stir(self) -> None:
        """Something happened that people may have to be told of."""
        self._stirred.set()

    def finish(self, patience: float = PATIENCE) -> None:
        """Look once more and send what can be sent in so many seconds; what cannot stays in the outbox, and is said."""
        self._finishing.set()
        self._stirred.set()
        if not self._ended.wait(patience):
            sender = self._sender
            if sender is not None:
                sender.stop()
            self._ended.wait(_TO_GIVE_BACK)
            self._unsent = self._unsent or "it takes too long"
        if self._unsent:
            self._say(f"somebody is not told yet ({self._unsent}); the next odf drain, or odf notify, does it")

    def _loop(self) -> None:
        try:
            with self._open_store() as store:
                self._sender = MessageSender(store, self._project, self._key, self._hidden)
                self._work(store, self._sender)
        except Exception as problem:  # whatever it is, it is nobody else's problem
            self._unsent = _named(problem)
        finally:
            self._ended.set()

    def _look(self, store: Store, with_late: bool) -> str:
        try:
            look(store, self._project, with_late=with_late)
        except OdfError:
            raise
        except Exception as problem:  # what a look cannot make sense of keeps nothing from being sent
            return _named(problem)
        return ""

    def _work(self, store: Store, sender: MessageSender) -> None:
        late_due = 0.0 if self._with_late else float("inf")
        is_last = False
        while not is_last:
            self._stirred.clear()
            is_last, now = self._finishing.is_set(), time.monotonic()
            with_late = now >= late_due
            if with_late:
                late_due = now + _LATE
            try:
                unseen = self._look(store, with_late)
                self._unsent = "; ".join(filter(None, (unseen, *sender.send_due().problems)))
            except Exception as problem:  # a store that is away comes back, or is somebody else's to tell of
                self._unsent = _named(problem)
            if not is_last and not self._finishing.wait(_BETWEEN):
                self._stirred.wait(_AT_LEAST)


def _named(problem: Exception) -> str:
    name, said = (problem.name, problem.message) if isinstance(problem, OdfError) else (type(problem).__name__, problem)
    return f"{name}: {said}"
