"""The words of a command line that runs something: which are options of ours, which name what runs, and which are for it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ..errors import BadConfig, UsageError
from ..secrets import KEY_VARIABLES
from .app import App


def is_script(target: str) -> bool:
    """Whether a word is the path of a script rather than the name of a job."""
    path = Path(target)
    return path.is_file() and ("/" in target or bool(path.suffix) or os.access(path, os.X_OK))


def target_of(app: App, target: str) -> tuple[str, Path | None]:
    """The job that a command line names, and the script if it is one: a path to a file, or the name of a job."""
    path = Path(target)
    if is_script(target):
        from ..project import refuse_foreign

        refuse_foreign(path.absolute(), app.project.folder)
        return path.name.removesuffix(path.suffix), path.absolute()
    if "/" in target:
        raise BadConfig(f"there is no script {target}", hint="Check the path.")
    from ..project import code_of, is_for_spark

    code = code_of(app.project, target)
    return target, code if code is not None and not is_for_spark(code) else None


def refuse_key(app: App, program: str, first: str, following: Sequence[str]) -> None:
    """The original took its key as the first word; whatever stands there is not repeated."""
    if following and not is_script(first) and is_script(following[0]):
        app.script_folder = Path(following[0]).absolute().parent
        if app.is_missing and not app.store_url:
            raise no_key(_joined([program, *following]))
    if following and not is_script(first) and first not in app.store.catalogue().jobs:
        raise no_key(_joined([program, *following]))


def no_key(command: str) -> UsageError:
    """The error for a key in front of a command, as the original had it."""
    return UsageError(
        "the first word is no job, script or verb, and other words follow it",
        hint="If it is a key: a key is no argument here, since ps and the history of the shell show arguments. "
        f"Give it in {', '.join(KEY_VARIABLES[:-1])} or {KEY_VARIABLES[-1]}, and write: {command}",
    )


def command_of(app: App, jobid: str, words: Sequence[str]) -> list[str]:
    """The executable that a command line gives for a job without code of its own, with its arguments; never a shell's line."""
    from ..project import code_of
    from ..run.decorated_jobs import is_declared

    is_copy = "copy" in app.store.catalogue().job(jobid).options
    if is_copy or code_of(app.project, jobid) is not None or is_declared(app.project, jobid):
        raise UsageError(
            f"job {jobid} has code of its own, so {words[0]!r} cannot be its command",
            hint=f"For its script: {_joined(['odf', 'run', jobid, '--', *words])}\n"
            f"  For one chunk: {_joined(['odf', 'run', jobid, '--dataid', words[0]])}",
        )
    return executable(jobid, words)


def executable(jobid: str, words: Sequence[str]) -> list[str]:
    """A command as it was typed, in one word or several, with the path of its executable."""
    from shutil import which  # here, since it takes milliseconds

    first = [words[0]] if Path(words[0]).is_file() else _split(words[0])
    found = which(first[0]) if first else None
    if found is None:
        line = _joined(["sh", "-c", " ".join(words)])
        raise UsageError(
            f"there is no executable {first[0] if first else words[0]!r}",
            hint="A command is an executable and its arguments. "
            f"What only a shell understands is given to one: {_joined(['RunJob', jobid, line])}",
        )
    return [str(Path(found).absolute()), *first[1:], *words[1:]]


def _joined(words: Sequence[str]) -> str:
    from shlex import join  # here, since only hints need it

    return join(words)


def _split(line: str) -> list[str]:
    from shlex import split

    try:
        return split(line)
    except ValueError as problem:
        raise UsageError(f"{line!r} is no command: {problem}", hint="Check its quotes.") from None
