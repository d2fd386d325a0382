"""Java: the one that Spark would start, and whether it can. Needs no pyspark."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

OLDEST_JAVA = 17
INSTALL_JAVA = "Install Java 17 or 21, or point JAVA_HOME to one. On Debian: apt-get install openjdk-21-jre-headless"

_NEEDED_MODULE = "jdk.incubator.vector"  # Spark's own start script asks for it, and small Javas lack it


@dataclass(frozen=True, slots=True)
class Java:
    """A Java: where it is (empty for nowhere), its version, and what is wrong with it (empty for nothing)."""

    path: str = ""
    version: int | None = None
    problem: str = ""


def find_java(environ: Mapping[str, str] = os.environ) -> Java:
    """The Java that Spark would use in this environment."""
    home = environ.get("JAVA_HOME")
    path = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if path is None:
        return Java(problem="there is no Java: JAVA_HOME is not set and java is not on the PATH")
    if not os.access(path, os.X_OK):
        return Java(problem=f"JAVA_HOME is {home}, but there is no {path}")
    version, said = _version_of(path)
    if version is None:
        return Java(path, problem=f"{path} does not tell its version: {said[:200] or 'it says nothing'}")
    if version < OLDEST_JAVA:
        return Java(path, version, f"{path} is Java {version}, which is too old for Spark")
    is_complete, said = _run(path, f"--add-modules={_NEEDED_MODULE}", "-version")
    if not is_complete:
        return Java(path, version, f"{path} (Java {version}) lacks the module {_NEEDED_MODULE}: {said[:200]}")
    return Java(path, version)


def _version_of(path: str) -> tuple[int | None, str]:
    _, said = _run(path, "-version")
    match = re.search(r'version "(?:1\.)?(?P<number>\d+)', said)
    return (int(match["number"]) if match else None), said


def _run(*command: str) -> tuple[bool, str]:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as problem:
        return False, str(problem)
    return done.returncode == 0, " ".join((done.stderr + done.stdout).split())
