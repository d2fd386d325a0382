"""Outdated: whether the project's files changed since this process read them."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from ..errors import OdfError, ProjectChanged
from ..project import Project, code_of, is_for_spark, load

_Stamp = tuple[int, int, int]


class Outdated:
    """What a long-lived process read once: the project file, and the job code that it loads into its Spark session.

    Scripts are not among it: each run starts them anew.
    """

    def __init__(self, project: Project, say: Callable[[str], None]) -> None:
        self._project, self._say = project, say
        self._stamps: dict[Path, _Stamp | None] = {path: _stamp(path) for path in _loaded_code(project)}
        self._code = {path: _digest(path) for path in self._stamps}

    def check(self) -> None:
        """Raise PROJECT_CHANGED when what is read now differs; a project file that does not load is not finished yet."""
        file = self._project.file
        if file is not None and self._is_touched(file) and self._is_other_project(file):
            raise self._changed(file)
        for path, digest in self._code.items():
            if self._is_touched(path) and _digest(path) != digest:
                raise self._changed(path)

    def _is_touched(self, path: Path) -> bool:
        before, self._stamps[path] = self._stamps.get(path), _stamp(path)
        return self._stamps[path] != before

    def _is_other_project(self, file: Path) -> bool:
        try:
            return load(file, self._project.environment.name) != self._project
        except OdfError:
            return False

    def _changed(self, path: Path) -> ProjectChanged:
        changed = f"{path.name} changed since this drain began"
        self._say(f"{changed}: no more chunks are taken, and running ones finish")
        return ProjectChanged(changed, hint="Start it again: odf drain --follow")


def _loaded_code(project: Project) -> set[Path]:
    found = {path for folder in project.job_folders if folder.is_dir() for path in folder.glob("*.py")}
    found |= {path for folder in project.job_folders if folder.is_dir() for path in folder.glob("*.sql")}
    for job in project.jobs:
        with suppress(OdfError):
            found |= {path for path in [code_of(project, job.jobid)] if path is not None}
    return {path for path in found if os.access(path, os.R_OK) and is_for_spark(path)}


def _stamp(path: Path) -> _Stamp | None:
    try:
        state = os.stat(path)
    except OSError:
        return None
    return state.st_mtime_ns, state.st_size, state.st_ino


def _digest(path: Path) -> bytes:
    try:
        return sha256(path.read_bytes()).digest()
    except OSError:
        return b""
