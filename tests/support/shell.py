"""A person at a prompt: runs odf and RunJob as processes, in a folder, on a store."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.forks import run_odf

ODF = [sys.executable, "-m", "opendataflow"]
_KEPT = ("PATH", "HOME", "LANG", "JAVA_HOME", "TMPDIR", "SPARK_SUBMIT_OPTS")


@dataclass
class Shell:
    """One folder, one store, and the commands that were typed there."""

    folder: Path
    store_url: str | None = None
    extra: dict[str, str] = field(default_factory=dict)
    patience: float = 240

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        store = {"ODF_STORE": self.store_url} if self.store_url else {}
        # The role of the test server that trusts everybody is a superuser.
        return {**kept, **store, "ODF_AS_SUPERUSER": "1", **self.extra}

    def start(self, *arguments: str, **extra: str) -> subprocess.Popen[str]:
        """A command that goes on running."""
        return subprocess.Popen(
            [*ODF, *arguments],
            cwd=self.folder,
            env={**self.environment, **extra},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def odf(self, *arguments: str, code: int | None = 0, stdin: str | None = None, **extra: str) -> Answer:
        """A command to its end; code None accepts any exit code."""
        given = {"cwd": self.folder, "env": {**self.environment, **extra}, "stdin": (stdin or "").encode()}
        done = run_odf(list(arguments), timeout=self.patience, **given)  # type: ignore[arg-type]
        answer = Answer(done.returncode, _text(done.stdout), _text(done.stderr))
        assert code is None or answer.code == code, (arguments, answer)
        assert "Traceback" not in answer.err, answer.err
        return answer

    def runjob(self, *arguments: str, code: int | None = 0, **extra: str) -> Answer:
        return self.odf("run", *arguments, code=code, **extra)

    def dml(self, *statements: str) -> None:
        for statement in statements:
            self.odf("dml", statement)

    def script(self, name: str, text: str = "", *, mode: int = stat.S_IRWXU) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/usr/bin/env bash\nset -eu\n" + text + "\n")
        path.chmod(mode)
        return path

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path


def _text(said: bytes) -> str:
    return said.decode().replace("\r\n", "\n").replace("\r", "\n")  # as a pipe of text has it


@dataclass
class Answer:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


def statuses(shell: Shell) -> Mapping[tuple[str, str], str]:
    """Status of every produced chunk, through the SQL door."""
    rows = shell.odf("sql", "select datasetid, dataid, status from datastatus where locktype = 'OUT'", "--json").data
    return {(row["datasetid"], row["dataid"]): row["status"] for row in rows}
