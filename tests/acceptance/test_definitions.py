"""Definitions as people meet them: broken ones, applied ones, retired ones, and those of a folder without a store."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import opendataflow
from opendataflow.cli.door import open_door
from tests.support.odf import Answer

TOML = """
[project]
name = "shop"
[environment.dev]
roots = ["."]
{more}
[dataset.a]
partition = "number"
[dataset.b]
partition = "number"
[dataset.c]
partition = "number"
[job.first]
reads = ["a"]
writes = ["b"]
[job.second]
reads = ["b"]
writes = ["c"]
"""
SCRIPT = "#!/bin/sh\ntrue\n"

Door = Callable[..., Answer]


@pytest.fixture
def door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Door:
    """odf in this process, in a folder with a project whose jobs are scripts."""
    write(tmp_path, TOML)
    for job in ("first", "second"):
        (tmp_path / "jobs").mkdir(exist_ok=True)
        (tmp_path / "jobs" / f"{job}.sh").write_text(SCRIPT)
        (tmp_path / "jobs" / f"{job}.sh").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ODF_AS_SUPERUSER", "1")

    def odf(*arguments: str, code: int | None = 0, **environ: str) -> Answer:
        capsys.readouterr()
        with monkeypatch.context() as patched:
            for name, value in environ.items():
                patched.setenv(name, value)
            ended = open_door(list(arguments))
        told = capsys.readouterr()
        assert code is None or ended == code, (arguments, ended, told.out, told.err)
        return Answer(ended, told.out, told.err)

    return odf


def write(folder: Path, toml: str, more: str = "") -> None:
    (folder / "dataflow.toml").write_text(toml.replace("{more}", more))


@pytest.fixture
def applied(door: Door, store_url: str, monkeypatch: pytest.MonkeyPatch) -> Door:
    """The same on a store of either kind, with the project applied."""
    monkeypatch.setenv("ODF_STORE", store_url)
    opendataflow.open(store_url, create=True).close()
    door("apply", "--yes")
    return door


@pytest.mark.fault(35)
def test_a_broken_definition_stops_its_own_job_at_every_door_and_nothing_else(applied: Door) -> None:
    applied("ready", "a", "1")
    applied("dml", "update dataset set partition = 'weekly' where datasetid = 'c'")
    applied("run", "first")
    applied("ready", "a", "2")
    drained = applied("drain", "--json", code=2).data
    assert drained["outcomes"] == {"READY": 1}
    assert [(left["jobid"], left["outcome"], left["chunks"]) for left in drained["left_out"]] == [
        ("second", "BAD_DEFINITION", 2)
    ]
    for refused in (("run", "second"), ("start", "second"), ("why", "second"), ("explain", "c", "1")):
        told = applied(*refused, code=2).err
        assert told.startswith("BAD_DEFINITION")
        assert "weekly" in told
        assert "odf apply" in told, "the project declares it"
    for fine in (("why", "first"), ("explain", "b", "1"), ("rescue",), ("jobs",), ("runs", "second"), ("pool",)):
        applied(*fine)
    (broken,) = applied("status", "--json").data["broken"]
    assert (broken["what"], broken["name"], broken["jobs"]) == ("dataset", "c", ["second"])
    assert "BAD_DEFINITION: dataset c" in applied("status").out
    assert "BAD_DEFINITION: dataset c" in applied("doctor", code=None).out
    assert "partition: weekly -> number" in applied("apply", "--yes").out
    assert applied("drain", "--json").data["outcomes"] == {"READY": 2}


def test_what_no_project_declares_is_put_right_by_the_statement_of_the_hint(applied: Door) -> None:
    applied("dml", "insert into job (jobid, itemtype, itemvalue) values ('typed', 'X', '1')")
    told = applied("why", "typed", code=2).err
    assert "BAD_DEFINITION" in told
    applied("drain")
    statement = told.partition('odf dml "')[2].partition('"')[0]
    applied("dml", statement)
    assert applied("status", "--json").data["broken"] == []


def test_nothing_is_applied_where_nobody_can_be_asked(door: Door, tmp_path: Path) -> None:
    answer = door("apply", code=2)
    assert "+ job first" in answer.out
    assert "    reads = a" in answer.out
    assert "--yes" in answer.err
    assert not (tmp_path / "dataflow.db").exists()
    assert "applied 5 changes" in door("apply", "--yes").err
    door("apply")  # nothing to ask about
    door("pool", "set", "etl", "2", "--create")
    write(tmp_path, TOML, "[pool.etl]\nslots = 4")
    answer = door("apply", code=2)
    assert "slots: 2 -> 4" in answer.out
    assert door("pool", "--json").data[0]["slots"] == 2
    assert "applied 1 change " in door("apply", "--yes").err


def test_a_job_that_is_no_longer_declared_is_retired_and_those_of_others_stay(applied: Door, tmp_path: Path) -> None:
    applied("ready", "a", "1")
    applied("drain")
    applied("dml", "insert into job (jobid, itemtype, datasetid) values ('sqljob', 'IN', 'c')")
    write(tmp_path, TOML.partition("[job.second]")[0])
    assert "- job second: no longer declared" in applied("apply", "--dry-run").out
    applied("apply", code=2)
    applied("apply", "--yes")
    assert {job["jobid"] for job in applied("jobs", "--json").data} == {"first", "sqljob"}
    assert applied("apply", "--dry-run", "--json").data["changes"] == []
    assert applied("explain", "c", "1", "--json").data["status"] == "READY"
    assert len(applied("runs", "--json").data) == 2
    applied("ready", "a", "2")
    assert applied("drain", "--json", code=None).data["outcomes"] == {"READY": 1}


@pytest.mark.parametrize(
    "looks",
    [
        ("status",),
        ("jobs",),
        ("datasets",),
        ("runs",),
        ("why", "first"),
        ("explain", "a", "1"),
        ("sql", "select 1"),
        ("pool",),
    ],
)
def test_a_look_creates_no_store(door: Door, tmp_path: Path, looks: tuple[str, ...]) -> None:
    assert "odf apply" in door(*looks, code=2).err
    (tmp_path / "dataflow.toml").unlink()
    told = door(*looks, code=2).err
    assert told.startswith("STORE_MISSING")
    assert "odf init" in told
    assert "STORE_MISSING" in door("doctor", code=1).out
    assert not (tmp_path / "dataflow.db").exists()


def test_overviews_say_where_they_look(applied: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    for looks in (("status",), ("drain",)):
        facts = applied(*looks, "--json").data
        assert (facts["project"], facts["environment"]) == ("shop", "dev")
        assert "store" in facts
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    for looks in (("status",), ("jobs",), ("datasets",), ("runs",), ("pool",), ("drain",), ("doctor",)):
        assert "project shop · environment dev · store " in applied(*looks, code=None).out.partition("\n")[0], looks


def test_a_key_that_does_not_open_what_a_job_needs_is_told_by_why_doctor_and_drain(
    applied: Door, tmp_path: Path
) -> None:
    token = encrypted(applied)
    write(
        tmp_path,
        TOML.replace(
            '[dataset.b]\npartition = "number"',
            f'[dataset.b]\npartition = "number"\nkind = "table"\nhostname = "127.0.0.1"\ndatabase = "d"\ntablename = "t"\nusername = "etl"\nencryptedpass = "{token}"',
        ),
    )
    applied("apply", "--yes")
    applied("ready", "a", "1")
    for key, name, code in (({"PASSKEY": "another key"}, "BAD_KEY", 17), ({}, "BAD_KEY", 17)):
        assert applied("why", "first", "--json", **key).data["verdict"] == name
        assert applied("why", "first", "1", "--json", **key).data["verdict"] == name
        left = applied("drain", "--json", code=code, **key).data["left_out"]
        assert [(each["jobid"], each["outcome"]) for each in left] == [("first", name)]
    findings = json.loads(applied("doctor", "--json", code=None, PASSKEY="another key").out)
    assert any(each["what"] == "key" and each["ok"] is False and "dataset b" in each["found"] for each in findings)
    findings = json.loads(applied("doctor", "--json", code=None, PASSKEY="the right key").out)
    assert [each["ok"] for each in findings if each["what"] == "key"] == [True]
    assert applied("why", "first", "--json", PASSKEY="the right key").data["verdict"] == "YES"


def encrypted(door: Door) -> str:
    from opendataflow import Dataset, secrets

    dataset = Dataset("b", kind="table", hostname="127.0.0.1", database="d", tablename="t", username="etl")
    key: Any = secrets.take({"PASSKEY": "the right key"}).key
    return secrets.encrypt("word", key, secrets.dataset_context(dataset))


def test_a_job_whose_code_is_missing_cannot_run(applied: Door, tmp_path: Path) -> None:
    applied("ready", "a", "1")
    (tmp_path / "jobs" / "first.sh").unlink()
    assert applied("why", "first", "--json").data["verdict"] == "BAD_CONFIG"
    left = applied("drain", "--json", code=2).data["left_out"]
    assert [(each["jobid"], each["outcome"]) for each in left] == [("first", "BAD_CONFIG")]
