"""The command line as a process."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.forks import run_odf


@dataclass(frozen=True)
class Answer:
    """What one command line answered."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """The answer as JSON data."""
        return json.loads(self.out)


@dataclass(frozen=True)
class Odf:
    """Runs `odf` in one folder on one store."""

    folder: Path
    store_url: str

    def __call__(self, *arguments: str, stdin: Any = "", code: Any = 0, **environ: str) -> Answer:
        """Run one command line, which must end with this code (None: any)."""
        known = {
            name: value for name, value in os.environ.items() if not name.startswith(("ODF_", "PASSKEY", "NEW_PASSKEY"))
        }
        done = run_odf(
            list(arguments),
            cwd=self.folder,
            env=known
            | {"ODF_STORE": self.store_url, "PYTHONIOENCODING": "utf-8", "COLUMNS": "100", "ODF_AS_SUPERUSER": "1"}
            | environ,
            stdin=stdin.encode() if isinstance(stdin, str) else stdin,
            timeout=240,
        )
        answer = Answer(done.returncode, done.stdout.decode(), done.stderr.decode())
        assert code is None or answer.code == code, f"odf {' '.join(arguments)}: {answer}"
        return answer
