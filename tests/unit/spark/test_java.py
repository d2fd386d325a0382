"""The Java that Spark would start, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from opendataflow.spark.java import Java, find_java

MODULE = "jdk.incubator.vector"


def fake(home: Path, script: str) -> dict[str, str]:
    java = home / "bin/java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return {"JAVA_HOME": str(home)}


def test_a_java_that_is_good_enough_has_no_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = fake(tmp_path, """echo 'openjdk version "21.0.1"' >&2""")
    assert find_java(environ) == Java(f"{tmp_path}/bin/java", 21)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin")
    assert find_java({}) == Java(f"{tmp_path}/bin/java", 21)


@pytest.mark.parametrize(
    ("script", "version", "fact"),
    [
        ("""echo 'java version "1.8.0_292"' >&2""", 8, "Java 8"),
        ("exit 1", None, "version"),
        (f"""[ $# = 1 ] && echo 'version "21.0.1"' >&2 || {{ echo no {MODULE}; exit 1; }}""", 21, MODULE),
    ],
)
def test_a_java_that_spark_cannot_use_has_a_problem(
    tmp_path: Path, script: str, version: int | None, fact: str
) -> None:
    java = find_java(fake(tmp_path, script))
    assert (java.path, java.version) == (f"{tmp_path}/bin/java", version)
    assert fact in java.problem


def test_a_java_that_is_not_there_has_no_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for environ in ({"JAVA_HOME": str(tmp_path)}, {}):
        java = find_java(environ)
        assert (java.path, java.version) == ("", None)
        assert java.problem
