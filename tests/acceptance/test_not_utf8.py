"""Bytes that are not UTF-8, in reasons, rows, names and paths: stored with U+FFFD or refused by name, never INTERNAL."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from opendataflow.model.printable import storable
from tests.support.console import console
from tests.support.shell import Shell

WHY = "caf\udce9 \U0001f600"  # as Python has the argument that a Latin-1 terminal typed
STORED = "caf\ufffd \U0001f600"
PROJECT = """
[pool.p]
[dataset.a]
location = "a/{dataid}"
[dataset.b]
location = "b/{dataid}"
[job.load]
reads = "a"
writes = "b"
"""
VERBS = (
    "end {run} FAILED",
    "pool set p 2",
    "hold a 1 --yes",
    "release a 1 --yes",
    "fail b 1 --yes",
    "resubmit b 1 --yes",
    "pause load",
    "resume load",
    "recall a 2 --yes",
    "forget a 3 --yes",
    "recover --yes",
)
LOOKS = ("history", "explain a 1", "explain b 1", "why load", "report", "recover", "status", "export {n}.jsonl")


def project(shell: Shell) -> None:
    shell.write("dataflow.toml", PROJECT)
    shell.odf("apply", "--yes")
    for dataid in ("1", "2", "3"):
        shell.write(f"a/{dataid}", dataid)
        shell.odf("ready", "a", dataid)
    shell.script("jobs/load.sh", 'mkdir -p b; cp "$a_location" "$b_location"')
    shell.runjob("load", "--dataid", "1")


def test_a_reason_that_is_not_utf8_is_stored_and_shown_by_every_verb(shell: Shell) -> None:
    project(shell)
    run = shell.odf("start", "load", "--dataid", "2", "--json").data["ODF_RUN"]
    for n, verb in enumerate(VERBS):
        shell.odf(*verb.format(run=run).split(), "--why", WHY)
        for look in LOOKS:
            assert "UnicodeDecodeError" not in shell.odf(*look.format(n=n).split(), code=None).err, (verb, look)
    whys = shell.odf("sql", "select why from event where why is not null", "--json").data
    assert sum(STORED in row["why"] for row in whys) >= len(VERBS) - 1, whys
    client = console(shell.folder, shell.store_url or f"sqlite:///{shell.folder}/dataflow.db")
    for path in ("/", "/history", "/report", "/chunk/a/1", "/chunk/b/2", "/api/v1/history"):
        assert client.get(path).status_code == 200, path
    assert STORED in client.get("/history").text


def test_rows_that_are_not_utf8_are_shown_and_exported(home: Shell) -> None:
    project(home)
    home.dml(
        "insert into event (kind, datasetid, dataid, jobid, before, after, who, why)"
        " values ('held', 'a', '1', 'outside', 'READY', 'HOLD', 'ada', cast(x'636166e9' as text))"
    )
    home.odf("pause", "load", "--why", "MARK")
    home.dml("update pause set why = cast(x'636166e9' as text)")
    for look in (*LOOKS, "why load", "doctor"):
        answer = home.odf(*look.format(n=0).split(), code=None)
        assert answer.code not in (2, 70), (look, answer)
    assert "caf\ufffd" in home.odf("history").out
    assert (
        home.odf("sql", "select why, eventid as n from event where why like 'caf%';", "--json").data[0]["why"]
        == "caf\ufffd"
    )
    assert json.dumps("caf\ufffd") in (home.folder / "0.jsonl").read_text()
    home.odf("resume", "load")
    home.runjob("load")


def test_sql_that_is_not_utf8_is_usage(shell: Shell) -> None:
    shell.odf("migrate")
    assert "USAGE" in shell.odf("sql", f"select '{WHY}'", code=2).err
    assert "USAGE" in shell.odf("dml", f"insert into dataset (datasetid) values ('{WHY}')", code=2).err


def test_a_project_whose_folder_is_not_utf8_is_invalid_path(shell: Shell) -> None:
    folder = Path(os.fsdecode(os.fsencode(shell.folder) + b"/\xff"))
    folder.mkdir()
    (folder / "dataflow.toml").write_text(PROJECT)
    inside = Shell(folder, shell.store_url)
    for verb in (["apply", "--yes"], ["status"], ["run", "load"]):
        answer = inside.odf(*verb, code=12)
        assert "INVALID_PATH" in answer.err
        assert "is not UTF-8" in answer.err


@pytest.mark.parametrize("name", ["q\udcff.csv", "\udcff.csv"])
def test_discover_names_what_is_not_utf8_and_announces_the_others(shell: Shell, name: str) -> None:
    shell.write("dataflow.toml", '[dataset.f]\nlocation = "f/{dataid}.csv"\n[dataset.d]\nlocation = "d/{dataid}"\n')
    shell.odf("apply", "--yes")
    for path in ("f/1.csv", f"f/{name}", "f/caf\udce9.txt", "f/caf\u00e9.csv", "d/1/part.csv", "d/z\udcff/part.csv"):
        shell.write(path, "a\n1\n")
    for verb in ("discover f --quiet-for 0 --dry-run", "discover f --quiet-for 0"):
        rows = shell.odf(*verb.split(), "--json", code=12).data
        assert [(row["dataid"], row["verdict"]) for row in rows] == [(storable(name), "INVALID_PATH"), ("1", "READY")]
        assert "is not UTF-8" in rows[0]["why"]
    answer = shell.odf("discover", "--all", "--quiet-for", "0", code=12)
    assert "z\ufffd" in answer.out
    assert "d/z\\udcff' is not UTF-8" in answer.out
    assert "READY" in shell.odf("explain", "d", "1", code=None).out


def test_a_store_whose_path_is_not_utf8_is_invalid_path(home: Shell) -> None:
    assert "INVALID_PATH" in home.odf("migrate", "--store", "sqlite:///x\udcff.db", code=12).err


@pytest.mark.parametrize(
    "data", [[{"why": "\udcff", "rest": "\U0001f600"}], {"inner": json.dumps(["\ud800 \U0001f600"])}]
)
def test_json_of_any_depth_becomes_storable(data: object) -> None:
    found = storable(json.dumps(data))
    for text in (found, json.dumps(json.loads(found), ensure_ascii=False)):
        text.encode()
    assert "\ufffd" in str(json.loads(found)) or "\\ufffd" in str(json.loads(found))
    whole = json.dumps([{"why": "C:\\udata \U0001f600"}])
    assert storable(whole) == whole
