"""The command line without a process of its own: the same door, quicker."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from opendataflow.cli.door import open_door

from .odf import Answer


@dataclass(frozen=True)
class Door:
    """Opens the door of `odf` in one folder on one store."""

    folder: Path
    capture: pytest.CaptureFixture[str]

    def __call__(self, *arguments: str, code: Any = 0) -> Answer:
        """One command line, which must end with this code (None: any)."""
        self.capture.readouterr()
        found = open_door(list(arguments))
        answer = Answer(found, *self.capture.readouterr())
        assert code is None or answer.code == code, f"odf {' '.join(arguments)}: {answer}"
        return answer

    def script(self, name: str, text: str) -> Path:
        """A shell script in the folder."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path


@pytest.fixture
def door(tmp_path: Path, store_url: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Door:
    """The command line in an empty folder, on the store of the test."""
    for name in [name for name in os.environ if name.startswith(("ODF_", "PASSKEY", "NEW_PASSKEY"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("ODF_STORE", store_url)
    monkeypatch.setenv("ODF_AS_SUPERUSER", "1")
    monkeypatch.chdir(tmp_path)
    return Door(tmp_path, capfd)
