"""The teller: what a worker says of its runs, handed to its senders."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from ..errors import Cancelled, LeaseLost, MissingDependency, OdfError, Stopped, StoreUnreachable, install_command
from ..model import Catalogue, InputChunk, Manifest
from ..project import Project
from ..secrets import Hidden, Key, decrypt, lineage_context, required
from ..store import Claim, Store
from ..tokens import without_secrets
from . import DROPPED, SENT, is_in_environment
from .events import ABORT, COMPLETE, FAIL, START, Events, Parent, RunStep
from .sending import Client, EventFile, EventSender, EventTarget, http_transport, transport_of_environment

_LAST_WAIT = 2.0
_LAST_OPENING = 20.0
_ENDPOINT = "api/v1/lineage"
_ABORTED = (Cancelled.name, Stopped.name, LeaseLost.name, StoreUnreachable.name)


class LineageEvents:
    """Tells of runs; no method waits, and none raises."""

    def __init__(
        self, project: Project, store: Store, key: Key | None, hidden: Hidden, say: Callable[[str], None]
    ) -> None:
        self._project, self._store, self._key, self._hidden = project, store, key, hidden
        self._say = say
        self.catalogue: Catalogue | None = None  # the last one that a run went by: a store that is away is not asked
        hidden.add(os.environ.get("OPENLINEAGE_API_KEY", ""))
        self._identity = store.identity()
        self._senders = [EventSender(place, say) for place in self._places()]

    def _places(self) -> list[EventTarget]:
        places: list[EventTarget] = []
        for to in self._project.lineage.to:
            if to.startswith(("http://", "https://")):
                places.append(Client(to, lambda to=to: self._http(to)))  # type: ignore[misc]
            else:
                places.append(EventFile(self._project.folder / to))
        if is_in_environment():
            places.append(Client("the place that OPENLINEAGE_… names", lambda: _needed(transport_of_environment)))
        return places

    def _http(self, url: str) -> Any:
        token, key = self._project.lineage.encrypted, ""
        if token:
            key = decrypt(token, required(self._key, "[lineage]"), lineage_context(url))
            self._hidden.add(key)
        parts = urlsplit(url)
        endpoint = parts.path.strip("/") or _ENDPOINT
        return _needed(lambda: http_transport(f"{parts.scheme}://{parts.netloc}", endpoint, key))

    @cached_property
    def _events(self) -> Events:
        """Made by the thread that sends first: nothing of it is needed to take a step along."""
        from importlib.metadata import version

        project = self._project
        namespace = project.lineage.namespace or f"{project.name}/{project.environment.name}"
        events = Events(project.environment, namespace, self._identity, version("opendataflow"), project.timezone)
        events.outer, events.drain = parent_of(os.environ), self._drain(namespace)
        return events

    # Runs ---------------------------------------------------------------------------------------------------------

    def started(self, claim: Claim, catalogue: Catalogue, inputs: Sequence[InputChunk]) -> None:
        """A run begins its work."""
        self.catalogue = catalogue
        self._tell(RunStep(START, time.time(), claim, catalogue, inputs))

    def published(
        self, claim: Claim, catalogue: Catalogue, inputs: Sequence[InputChunk], manifests: Mapping[str, Manifest]
    ) -> None:
        """A run published what it made."""
        self._tell(RunStep(COMPLETE, time.time(), claim, catalogue, inputs, manifests))

    def failed(self, claim: Claim, outcome: str, message: str) -> None:
        """A run failed, or was stopped."""
        kind = ABORT if outcome in _ABORTED else FAIL
        self._tell(RunStep(kind, time.time(), claim, self.catalogue, message=f"{outcome}: {message}"))

    # Drains -------------------------------------------------------------------------------------------------------

    _drain_run = ""

    def _drain(self, namespace: str) -> Parent | None:
        return Parent(namespace, "drain", self._drain_run) if self._drain_run else None

    def drain_began(self) -> None:
        """From now on runs belong to a drain."""
        self._drain_run = str(uuid.uuid4())
        self._tell(RunStep(START, time.time(), None))

    def drain_ended(self, problem: BaseException | None = None) -> None:
        """No more runs of the drain will come."""
        if problem is None:
            self._tell(RunStep(COMPLETE, time.time(), None))
            return
        kind = FAIL if isinstance(problem, Exception) else ABORT
        told = problem.message if isinstance(problem, OdfError) else type(problem).__name__
        self._tell(RunStep(kind, time.time(), None, message=told))

    # The way out --------------------------------------------------------------------------------------------------

    def _tell(self, step: RunStep) -> None:
        made: list[str] = []

        def make() -> str:
            if not made:  # once for all places, unless two of them ask at the same moment
                told = step._replace(message=without_secrets(self._hidden.redact(step.message)))
                made.append(self._events.text(told))
            return made[0]

        for sender in self._senders:
            sender.put(make)

    def close(self) -> None:
        """Send what is left, for at most two seconds once there is a client, and add up what became of all."""
        for sender in self._senders:
            sender.finish()
        for sender in self._senders:
            sender.wait_until_open(_LAST_OPENING)
        deadline = time.monotonic() + _LAST_WAIT
        for sender in self._senders:
            sender.wait(deadline - time.monotonic())
        sent, dropped = (sum(getattr(each, name) for each in self._senders) for name in ("sent", "dropped"))
        if dropped:
            self._say(f"{dropped} lineage events were dropped, {sent} were sent")
        if sent or dropped:
            before, self._store.patience = self._store.patience, 1.0
            try:
                self._store.add_up({SENT: sent, DROPPED: dropped})
            except OdfError:
                pass  # a store that is away, or a role that may not: the figures are only for watching
            finally:
                self._store.patience = before


def _needed(make: Callable[[], Any]) -> Any:
    try:
        return make()
    except ImportError as error:
        raise MissingDependency(
            f"OpenLineage needs {error.name}", hint=f"Install it: {install_command('lineage')}"
        ) from None


def parent_of(environ: Mapping[str, str]) -> Parent | None:
    """The run of an orchestrator that began this process, as it says by OPENLINEAGE_PARENT_ID or its three parts."""
    names = ("OPENLINEAGE_PARENT_JOB_NAMESPACE", "OPENLINEAGE_PARENT_JOB_NAME", "OPENLINEAGE_PARENT_RUN_ID")
    namespace, name, run = (environ.get(each, "") for each in names)
    if whole := environ.get("OPENLINEAGE_PARENT_ID", ""):
        rest, _, run = whole.rpartition("/")
        namespace, _, name = rest.rpartition("/")
    try:
        uuid.UUID(run)
    except ValueError:
        return None
    return Parent(namespace, name, run) if namespace and name else None
