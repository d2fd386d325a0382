"""Sending: takes messages out of the outbox under a lease, has them delivered, and marks them.

Where a message goes is said by the project's own file alone; what it says is made of facts when it is sent.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from ..errors import BadKey, OdfError
from ..insight.behind import waiting_behind
from ..model.timezone import time_zone
from ..project import Project, refuse_foreign
from ..project.notify import NotifyTarget
from ..secrets import Hidden, Key, child_environment, decrypt, notify_context
from ..store import Store
from ..store.incidents import DROPPED, OPENED, OVER, SENT, Message
from .rules import Rules, rules_of
from .wording import About, Text, text_of, trial

TIMEOUT = 20.0  # seconds that one delivery may take
LEASE = 60.0  # much longer: whoever holds it is ended before it runs out
_FIRST_PAUSE, _LONGEST_PAUSE = 30.0, 3600.0
_MEMBERS = 200
_KEPT = timedelta(days=1)  # a message that no rule of ours wants may be somebody's with another version of the project
NO_KEY = "its address is encrypted, and there is no key here"


class Sent(NamedTuple):
    """How many messages were sent, and why others were not, in words that hold no secret."""

    sent: int = 0
    problems: tuple[str, ...] = ()


class MessageSender:
    """Sends what is due, for whoever can be told from here."""

    def __init__(self, store: Store, project: Project, key: Key | None, hidden: Hidden) -> None:
        self._store, self._project, self._key, self._hidden = store, project, key, hidden
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    def stop(self) -> None:
        """End what is being sent: it stays in the outbox."""
        self._stopped.set()
        with self._lock:
            if self._process is not None:
                _end(self._process)

    def send_due(self) -> Sent:
        """Send everything that may be sent now; a target that fails is left alone until the next time."""
        rules = rules_of(self._store, self._project)
        if rules is None or self._project.notify is None:
            return Sent()
        waiting = {message.target for message in self._store.incidents.unsent()}
        sent, problems = 0, list(rules.problems)
        for name in sorted(waiting & set(self._project.notify.targets)):
            target = self._project.notify.targets[name]
            if target.needs_key and self._key is None:
                problems.append(f"{name}: {NO_KEY}")
                continue
            n, problem = self._send_to(target, rules)
            sent += n
            problems += [f"{name}: {problem}"] if problem else []
        return Sent(sent, tuple(problems))

    def try_out(self, target: NotifyTarget) -> str:
        """Send a message that only says that it arrives; empty when it was delivered, else why not."""
        return self._deliver(target, trial(target.name, self._project.name, self._project.environment.name))

    def _send_to(self, target: NotifyTarget, rules: Rules) -> tuple[int, str]:
        sent = 0
        while (
            not self._stopped.is_set()
            and (message := self._store.incidents.take_message(target.name, LEASE)) is not None
        ):
            text = self._text(message, rules)
            if text is None:
                continue
            problem = self._deliver(target, text)
            if problem:
                pause = 0.0 if self._stopped.is_set() else _FIRST_PAUSE * 2 ** min(message.tries - 1, 10)
                self._store.incidents.give_back_message(message, problem, min(pause, _LONGEST_PAUSE))
                return sent, problem
            self._store.incidents.end_message(message, SENT)
            sent += 1
        return sent, ""

    def _text(self, message: Message, rules: Rules) -> Text | None:
        """What a message says now; None where there is nothing more to say, which is marked."""
        store = self._store
        incident = store.incidents.incident(message.incidentid)
        members = store.incidents.incident_members(message.incidentid, _MEMBERS) if incident is not None else []
        if incident is None:
            store.incidents.end_message(message, DROPPED, "there is no such incident")
            return None
        if message.what != OVER and incident.closed is not None:
            store.incidents.end_message(message, DROPPED, "the incident closed before the message was sent")
            return None
        if message.what == OVER and self._was_never_told(message):
            store.incidents.end_message(message, DROPPED, "its beginning was not told")
            return None
        if not rules.sends(incident, members, message.what, message.target):
            if datetime.now(UTC) - message.written > _KEPT:
                store.incidents.end_message(message, DROPPED, "no rule of the project sends it")
            else:
                store.incidents.give_back_message(
                    message, "no rule of the project as it is there sends it", _LONGEST_PAUSE
                )
            return None
        chunks = [(member.datasetid, member.dataid) for member in members]
        behind = len(waiting_behind(store, chunks)) if message.what != OVER else None
        about = About(self._project.name, self._project.environment.name, time_zone(self._project.timezone), behind)
        return text_of(incident, members, message.what, about, datetime.now(UTC))

    def _was_never_told(self, message: Message) -> bool:
        own = [
            each for each in self._store.incidents.messages_about(message.incidentid) if each.target == message.target
        ]
        opened = [each for each in own if each.what == OPENED]
        return bool(opened) and all(each.state == DROPPED for each in opened)

    def _deliver(self, target: NotifyTarget, text: Text) -> str:
        try:
            if target.command:
                return self._run_command(target, text)
            return self._run_messenger(self._address(target), text)
        except OdfError as problem:
            return self._hidden.redact(f"{problem.name}: {problem.message}")
        except OSError as problem:
            return f"it cannot be started: {problem.strerror}"

    def _address(self, target: NotifyTarget) -> str:
        if not target.encrypted:
            return target.url
        if self._key is None:
            raise BadKey(NO_KEY)
        address = decrypt(target.encrypted, self._key, notify_context(target.name))
        self._hidden.add(address)
        return address

    def _run_messenger(self, address: str, text: Text) -> str:
        asked = {"url": address, "title": text.subject, "body": text.body, "kind": text.type}
        # -P: a file of the project must not stand in for one of ours.
        argv = [sys.executable, "-P", "-m", "opendataflow.notify.messenger"]
        code, out = self._run(argv, json.dumps(asked), child_environment(os.environ), Path("/"), out=subprocess.PIPE)
        try:
            problem = json.loads(out)["problem"] if code == 0 else ""
        except (ValueError, KeyError, TypeError):
            code, problem = 1, ""
        return str(problem) if code == 0 else _ending(code)

    def _run_command(self, target: NotifyTarget, text: Text) -> str:
        path = self._project.folder / target.command
        refuse_foreign(path, self._project.folder)
        facts = text.facts
        own = {
            "ODF_NOTIFY_TARGET": target.name,
            "ODF_NOTIFY_WHAT": str(facts["what"]),
            "ODF_NOTIFY_KIND": str(facts.get("kind", "")),
            "ODF_NOTIFY_SUBJECT": text.subject,
        }
        given = child_environment(os.environ) | own
        code, _ = self._run([str(path)], json.dumps(facts), given, self._project.folder)
        return "" if code == 0 else _ending(code)

    def _run(
        self, argv: Sequence[str], given: str, environ: dict[str, str], folder: Path, *, out: int = subprocess.DEVNULL
    ) -> tuple[int | None, bytes]:
        """Run a process of this command, without a shell, for a limited time; its exit code, None when it was ended."""
        with self._lock:
            if self._stopped.is_set():
                return None, b""
            process = self._process = subprocess.Popen(
                argv,
                cwd=folder,
                env=environ,
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        try:
            try:
                said, _ = process.communicate(given.encode(), timeout=TIMEOUT)
            except subprocess.TimeoutExpired as late:
                said = late.output
                process.poll()  # it may have ended, and left a child behind that keeps its pipes open
            return (None if self._stopped.is_set() else process.returncode), said or b""
        finally:
            with self._lock:
                _end(process)
                self._process = None
            process.wait()
            for pipe in filter(None, (process.stdin, process.stdout)):
                with suppress(OSError):
                    pipe.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and whatever it started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _ending(code: int | None) -> str:
    return "it was not delivered in time" if code is None else f"it ended with exit code {code}"
