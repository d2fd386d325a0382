"""Runs a script or any executable, with the facts of its chunk in environment variables."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ... import faults
from ...errors import JobFailed, NoSpace, Stopped, TimedOut
from ...model import Manifest
from ...pause import pause
from ...project.trust import require
from ...secrets import child_environment, secret_file
from ...store import Claim
from ..context import variables
from ..heartbeat import Heartbeat
from ..process.command import Command
from ..process.launch import Terms, launch
from ..process.process_end import ProcessEnd
from ..process.process_tree import MARKER, AttemptMark, end_predecessors, mark_of
from ..records import Attempt, ExecutorResult

if TYPE_CHECKING:
    from ..process.logs import LogFile
    from ..staging import Snapshots, StagedOutput
    from ..worker import Worker


# The messages of libc, Java, Python, SQLite and PostgreSQL.
_NO_SPACE = r"(?i)no space left|\bENOSPC\b|disk quota exceeded|\bEDQUOT\b|disk is full|disk full"

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
# The exit codes of a script that such a signal ended, and of a shell whose command it ended.
_BY_STOP_SIGNAL = frozenset(code for number in _STOP_SIGNALS for code in (-number, 128 + number))
_SIGNAL_DELAY = 1.0  # seconds by which the worker may receive a signal later than its script


class Handshake:
    """The executor of `odf start` and `odf end`: the caller does the work, and this program audits the output."""

    on_spark = False

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.outputs: Mapping[str, StagedOutput] = {}

    def execute(self, attempts: Sequence[Attempt], heartbeat: Heartbeat, log: LogFile) -> Mapping[int, ExecutorResult]:
        """No-op: the caller has done the work."""
        return {attempt.claim.runid: ExecutorResult() for attempt in attempts}

    def prepared(self, attempt: Attempt) -> tuple[Mapping[str, StagedOutput], Snapshots]:
        """This attempt's outputs, at the locations that `odf start` printed, and the snapshots that it saved."""
        from ..staging import load_snapshots, staged_outputs

        project, suffix = self.worker.project, _handshake_suffix(self.worker, attempt.claim)
        for name in attempt.claim.outputs:  # another process admitted the attempt, possibly long ago
            require(project, attempt.catalogue.dataset(name), self.worker.store.applied, on_spark=False)
        outputs = staged_outputs(project, attempt, suffix)
        return outputs, load_snapshots(project, attempt.claim, outputs, suffix)

    def audit(self, attempt: Attempt, done: ExecutorResult) -> Mapping[str, Manifest]:
        """The manifests of the outputs, which must exist, must not be empty, and must pass their checks."""
        if attempt.only_tracks:
            return {}
        from ..audit import attempt_manifests  # lazy: not needed for tracked datasets

        self.outputs, before = self.prepared(attempt)
        return attempt_manifests(self.worker, attempt, self.outputs, before)

    def publish_files(self, attempt: Attempt, manifests: Mapping[str, Manifest]) -> None:
        """Move the staged outputs to the chunk's location, and verify them again."""
        if manifests:
            from ..staging import publish_files

            publish_files(attempt.claim, self.outputs, manifests)


@dataclass
class Script(Handshake):
    """Runs one command for one chunk; in a drain, its stdin is empty."""

    worker: Worker
    argv: Sequence[str]
    folder: Path
    in_drain: bool = False
    before: Snapshots = field(default_factory=dict)
    outputs: Mapping[str, StagedOutput] = field(default_factory=dict)

    def prepared(self, attempt: Attempt) -> tuple[Mapping[str, StagedOutput], Snapshots]:
        """The outputs that were created, and the snapshots that were taken, before the script started."""
        return self.outputs, self.before

    def execute(self, attempts: Sequence[Attempt], heartbeat: Heartbeat, log: LogFile) -> Mapping[int, ExecutorResult]:
        """Run the command until it ends."""
        [attempt] = attempts
        with ExitStack() as stack:
            if not attempt.only_tracks:
                from ..staging import discard, prepare, take_snapshots

                self.outputs = prepare(self.worker.project, attempt, self.worker.mark(attempt.claim))
                stack.callback(discard, self.outputs)
                self.before = take_snapshots(attempt, self.outputs)
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
        return {attempt.claim.runid: ExecutorResult(problem=problem, exit_code=code, ended=ended)}

    def _problem(self, attempt: Attempt, ended: ProcessEnd) -> JobFailed | Stopped | None:
        if ended.ok:
            return None
        detail = f"{ended}: {ended.tail}" if ended.tail else str(ended)
        if ended.timed_out:
            return TimedOut(detail)
        if stopped_by := self._stopped_by(ended):
            return Stopped(f"stopped by {stopped_by}: {detail}")
        if re.search(_NO_SPACE, ended.tail):
            return NoSpace(detail)
        if not attempt.only_tracks:
            from ..staging import full_disk

            if location := full_disk(self.outputs):
                return NoSpace(f"the disk of {location} is full: {detail}")
        return JobFailed(detail)

    def _stopped_by(self, ended: ProcessEnd) -> str:
        """The signal or the worker that stopped the script; empty if the script ended by itself.

        A service manager may signal the processes of a service in any order.
        """
        code = -ended.signal if ended.signal is not None else ended.exit_code
        if not ended.cancelled and code not in _BY_STOP_SIGNAL:
            return ""
        until = time.monotonic() + (0.0 if ended.cancelled else _SIGNAL_DELAY)
        while not (stopped_by := ended.stopped_by or self.worker.stopped_by) and time.monotonic() < until:
            pause(0.02)
        return stopped_by or ("its worker" if ended.cancelled else "")

    def _end_predecessors(self, claim: Claim, log: LogFile) -> None:
        """End the processes that earlier attempts of this chunk left running on this host."""
        if claim.epoch != 1:
            end_predecessors(self._mark(claim), log.note)

    def _mark(self, claim: Claim) -> AttemptMark:
        return mark_of(self.worker.store.identity(), claim.jobid, claim.dataid, claim.epoch)

    def _environment(self, attempt: Attempt, stack: ExitStack) -> dict[str, str]:
        project, job, secrets = self.worker.project, attempt.job, attempt.secrets
        by_file = job.options.get("secrets") == "file"
        plain = {} if by_file else secrets
        outputs = {name: output.written for name, output in self.outputs.items()}
        values = variables(project.environment, attempt, plain, outputs)
        values[MARKER] = str(self._mark(attempt.claim))
        if by_file and secrets:
            names = {f"{name}_password": value for name, value in secrets.items()}
            values["ODF_SECRETS"] = str(stack.enter_context(secret_file(project.logs.parent, names)))
        inherited = child_environment(os.environ)
        return {**inherited, **self.worker.with_items(inherited, job, values)}


def output_locations(worker: Worker, attempt: Attempt) -> dict[str, str]:
    """Create the folders of a handshake, and return the locations of its outputs by dataset."""
    if attempt.only_tracks:
        return {}
    from ..staging import prepare, save_snapshots  # lazy: not needed for tracked datasets

    suffix = _handshake_suffix(worker, attempt.claim)
    outputs = prepare(worker.project, attempt, worker.mark(attempt.claim), suffix)
    save_snapshots(worker.project, attempt, outputs, suffix)
    return {name: output.written for name, output in outputs.items()}


def _handshake_suffix(worker: Worker, claim: Claim) -> str:
    from ..staging import handshake_suffix

    return handshake_suffix(worker.store.views.run(claim.runid).started, claim.runid)
