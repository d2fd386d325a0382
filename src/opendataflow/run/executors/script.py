"""The executor of scripts: any executable, unchanged, with everything about its chunk in its environment."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from ... import faults
from ...errors import JobFailed, NoSpace, Stopped, TimedOut
from ...model import Manifest
from ...secrets import child_environment, secret_file
from ...shapes import dataclass, field
from ...store import Claim
from ..context import variables
from ..heartbeat import Heartbeat
from ..parts import Attempt, Done
from ..process.command import Command
from ..process.ended import Ended
from ..process.launch import Terms, launch
from ..process.tree import MARKER, Mark, end_predecessors, mark_of

if TYPE_CHECKING:
    from ..process.logs import LogFile
    from ..staging import Before, Home
    from ..worker import Worker


# As libc, Java, Python, SQLite and PostgreSQL say it, in English as in most logs.
_SAYS_FULL = r"(?i)no space left|\bENOSPC\b|disk quota exceeded|\bEDQUOT\b|disk is full|disk full"


class Handshake:
    """Whoever claims by `odf start` and reports by `odf end` does the work; we look at what was written."""

    on_spark = False

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.before: Before = {}
        self.own: Mapping[str, Home] = {}

    def execute(self, attempts: Sequence[Attempt], heartbeat: Heartbeat, log: LogFile) -> Mapping[int, Done]:
        """Nothing: the work was done elsewhere."""
        return {attempt.claim.runid: Done() for attempt in attempts}

    def homes(self, attempt: Attempt) -> Mapping[str, Home]:
        """Where the outputs go that have a location of this attempt alone: as `odf start` told it."""
        from ..staging import homes

        return homes(self.worker.project, attempt, _handshake_suffix(self.worker, attempt.claim))

    def audit(self, attempt: Attempt, done: Done) -> Mapping[str, Manifest]:
        """What lies at the outputs' locations: it is there, it is not empty, and its declared checks pass."""
        if attempt.catalogue.only_tracks(attempt.job):
            return {}
        from ..audit import seen_of_attempt  # here, since what is only tracked needs no look

        self.own = self.homes(attempt)
        return seen_of_attempt(self.worker, attempt, self.own, self.before)

    def settle(self, attempt: Attempt, manifests: Mapping[str, Manifest]) -> None:
        """Put what was written to the location of the attempt at that of the chunk, and look at it once more."""
        if manifests:
            from ..staging import settle

            settle(attempt.claim, self.own, manifests)


@dataclass
class Script(Handshake):
    """Runs one command for one chunk; in a drain, where several run at once, its input is empty."""

    worker: Worker
    argv: Sequence[str]
    folder: Path
    in_drain: bool = False
    before: Before = field(default_factory=dict)
    own: Mapping[str, Home] = field(default_factory=dict)

    def homes(self, attempt: Attempt) -> Mapping[str, Home]:
        """Those that were created before the script started; the disk is not asked again."""
        return self.own

    def execute(self, attempts: Sequence[Attempt], heartbeat: Heartbeat, log: LogFile) -> Mapping[int, Done]:
        """Run the command to its end."""
        [attempt] = attempts
        with ExitStack() as stack:
            if not attempt.catalogue.only_tracks(attempt.job):
                from ..staging import before, discard, prepare

                self.own = prepare(self.worker.project, attempt)
                stack.callback(discard, self.own)
                self.before = before(self.worker.project, attempt, self.own)
            stdin = None if self.in_drain or os.isatty(0) else 0
            command = Command(self.argv, self._environment(attempt, stack), self.folder, stdin)
            terms = Terms(
                timeout=attempt.job.timeout,
                tick=heartbeat.check,
                every=1.0,
                cancel=self.worker.cancelled if self.in_drain else None,
                echo=self.worker.echo,
            )
            self._end_predecessors(attempt.claim, log)
            ended = launch(command, log, terms)
            faults.point("exited")
            problem = self._problem(attempt, ended)
        code = ended.exit_code if ended.exit_code is not None else -(ended.signal or 0)
        return {attempt.claim.runid: Done(problem=problem, exit_code=code, ended=ended)}

    def _problem(self, attempt: Attempt, ended: Ended) -> JobFailed | Stopped | None:
        if ended.ok:
            return None
        told = f"{ended}: {ended.tail}" if ended.tail else str(ended)
        if ended.timed_out:
            return TimedOut(told)
        if ended.cancelled:
            return Stopped(f"stopped by {ended.stopped_by or self.worker.stopped_by}: {told}")
        if re.search(_SAYS_FULL, ended.tail):
            return NoSpace(told)
        if not attempt.catalogue.only_tracks(attempt.job):
            from ..staging import full_disk

            if location := full_disk(self.own):
                return NoSpace(f"the disk of {location} is full: {told}")
        return JobFailed(told)

    def _end_predecessors(self, claim: Claim, log: LogFile) -> None:
        """What earlier attempts at this chunk left running on this host is ended before another one begins."""
        if claim.epoch != 1:
            end_predecessors(self._mark(claim), log.note)

    def _mark(self, claim: Claim) -> Mark:
        return mark_of(self.worker.store.identity(), claim.jobid, claim.dataid, claim.epoch)

    def _environment(self, attempt: Attempt, stack: ExitStack) -> dict[str, str]:
        project, job, secrets = self.worker.project, attempt.job, attempt.secrets
        by_file = job.options.get("secrets") == "file"
        given = {} if by_file else secrets
        own = {name: home.written for name, home in self.own.items()}
        values = variables(attempt.catalogue, project.environment, attempt.claim, attempt.inputs, given, own)
        values[MARKER] = str(self._mark(attempt.claim))
        if by_file and secrets:
            names = {f"{name}_password": value for name, value in secrets.items()}
            values["ODF_SECRETS"] = str(stack.enter_context(secret_file(project.logs.parent, names)))
        inherited = child_environment(os.environ)
        return {**inherited, **self.worker.with_items(inherited, job, values)}


def own_locations(worker: Worker, attempt: Attempt) -> dict[str, str]:
    """The locations that the outputs of a handshake are to be written to, by dataset; their folders are created."""
    if attempt.catalogue.only_tracks(attempt.job):
        return {}
    from ..staging import prepare  # here, since what is only tracked is written nowhere

    own = prepare(worker.project, attempt, _handshake_suffix(worker, attempt.claim))
    return {name: home.written for name, home in own.items()}


def _handshake_suffix(worker: Worker, claim: Claim) -> str:
    from ..staging import handshake_suffix

    return handshake_suffix(worker.store.run(claim.runid).started, claim.runid)
