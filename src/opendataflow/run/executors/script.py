"""The executor of scripts: any executable, unchanged, with everything about its chunk in its environment."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import Cancelled, JobFailed, TimedOut
from ...model import Manifest
from ...secrets import child_environment, secret_file
from ..attempt import Attempt, Done
from ..context import variables
from ..heartbeat import Heartbeat
from ..process.command import Command
from ..process.ended import Ended
from ..process.launch import Terms, launch

if TYPE_CHECKING:
    from ..process.logs import LogFile
    from ..worker import Worker


class Handshake:
    """Whoever claims by `odf start` and reports by `odf end` does the work; we look at what was written."""

    on_spark = False

    def __init__(self, worker: Worker) -> None:
        self.worker = worker

    def execute(self, attempts: Sequence[Attempt], heartbeat: Heartbeat, log: LogFile) -> Mapping[int, Done]:
        """Nothing: the work was done elsewhere."""
        return {attempt.claim.runid: Done() for attempt in attempts}

    def audit(self, attempt: Attempt, done: Done) -> Mapping[str, Manifest]:
        """What lies at the outputs' locations: it is there, it is not empty, and its declared checks pass."""
        if attempt.catalogue.only_tracks(attempt.job):
            return {}
        from ..audit import seen_at_location  # here, since what is only tracked needs no look

        claim = attempt.claim
        seen = {
            name: seen_at_location(self.worker, attempt.catalogue.dataset(name), claim.dataid, claim.inputs)
            for name in attempt.job.outputs
        }
        return {name: manifest for name, manifest in seen.items() if manifest is not None}


@dataclass
class Script(Handshake):
    """Runs one command for one chunk; in a drain, where several run at once, its input is empty."""

    worker: Worker
    argv: Sequence[str]
    folder: Path
    in_drain: bool = False

    def execute(self, attempts: Sequence[Attempt], heartbeat: Heartbeat, log: LogFile) -> Mapping[int, Done]:
        """Run the command to its end."""
        [attempt] = attempts
        with ExitStack() as stack:
            stdin = None if self.in_drain or os.isatty(0) else 0
            command = Command(self.argv, self._environment(attempt, stack), self.folder, stdin)
            terms = Terms(
                timeout=attempt.job.timeout,
                tick=heartbeat.check,
                every=1.0,
                cancel=self.worker.cancelled if self.in_drain else None,
                echo=self.worker.echo,
            )
            ended = launch(command, log, terms)
        code = ended.exit_code if ended.exit_code is not None else -(ended.signal or 0)
        return {attempt.claim.runid: Done(problem=_problem(ended), exit_code=code, ended=ended)}

    def _environment(self, attempt: Attempt, stack: ExitStack) -> dict[str, str]:
        project, job, secrets = self.worker.project, attempt.job, attempt.secrets
        by_file = job.options.get("secrets") == "file"
        values = variables(
            attempt.catalogue, project.environment, attempt.claim, attempt.inputs, {} if by_file else secrets
        )
        if by_file and secrets:
            names = {f"{name}_password": value for name, value in secrets.items()}
            values["ODF_SECRETS"] = str(stack.enter_context(secret_file(project.logs.parent, names)))
        inherited = child_environment(os.environ)
        return {**inherited, **self.worker.with_items(inherited, job, values)}


def _problem(ended: Ended) -> JobFailed | Cancelled | None:
    if ended.ok:
        return None
    kind = TimedOut if ended.timed_out else Cancelled if ended.cancelled else JobFailed
    return kind(f"{ended}: {ended.tail}" if ended.tail else str(ended))
