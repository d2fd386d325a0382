"""Lineage events of real runs, for every way in which a chunk is made and in which it can end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.odf import Odf
from tests.support.openlineage import check, events_in, lineage_server

PROJECT = """
[project]
name = "shop"
[dataset.raw]
location = "raw/{dataid}.txt"
partition = "day"
[dataset.made]
location = "made/{dataid}.txt"
partition = "day"
[job.load]
reads = ["raw"]
writes = ["made"]
lease = 2
"""
SCRIPT = """#!/bin/sh
case "$dataid" in
  *-02) echo "no luck with $raw_password" >&2; exit 3;;
  *-03) sleep 60;;
esac
cp "$raw_location" "$made_location"
"""
PASSPHRASE = "correct horse battery staple"


@pytest.fixture
def shop(tmp_path: Path, odf: Odf) -> Odf:
    (tmp_path / "jobs").mkdir()
    script = tmp_path / "jobs" / "load.sh"
    script.write_text(SCRIPT)
    script.chmod(0o755)
    (tmp_path / "raw").mkdir()
    for day in (1, 2, 3):
        (tmp_path / "raw" / f"2013-01-0{day}.txt").write_text(f"{day}\n")
    to = 'to = "told/lineage.jsonl"'
    (tmp_path / "dataflow.toml").write_text(f"{PROJECT}\n[lineage]\n{to}\n")
    odf("migrate")
    odf("apply", "--yes")
    odf("ready", "raw", "2013-01-01", "2013-01-02")
    return odf


def told(shop: Odf) -> list[Any]:
    return events_in(shop.folder / "told/lineage.jsonl")


def short(events: list[Any]) -> list[tuple[str, str]]:
    return [(event["job"]["name"], event["eventType"]) for event in events]


def test_a_drain_tells_of_itself_and_of_every_chunk(shop: Odf) -> None:
    shop("drain", "--workers", "1", code=1)
    events = told(shop)
    assert short(events) == [
        ("drain", "START"),
        ("load", "START"),
        ("load", "COMPLETE"),
        ("load", "START"),
        ("load", "FAIL"),
        ("drain", "COMPLETE"),
    ]
    drain, began, done, _, failed, _ = events
    assert began["run"]["runId"] == done["run"]["runId"] != failed["run"]["runId"]
    assert began["run"]["facets"]["parent"]["run"]["runId"] == drain["run"]["runId"]
    [written] = done["outputs"]
    assert (written["namespace"], written["name"]) == ("file", str(shop.folder / "made"))
    assert written["outputFacets"]["outputStatistics"]["size"] == 2
    assert failed["run"]["facets"]["errorMessage"]["message"].startswith("JOB_FAILED: exit")
    figures = {figure["name"]: figure["values"] for figure in shop("metrics", "--json").data}
    assert figures["odf_openlineage_sent"] == [{"labels": {}, "value": 6}]


def test_a_runjob_belongs_to_the_task_that_called_it(shop: Odf) -> None:
    run = "0c1a3f0e-5f0b-4c29-9b0f-0d1c0f3d8f10"
    shop("run", "load", OPENLINEAGE_PARENT_ID=f"airflow/dag.task/{run}")
    parent = told(shop)[-1]["run"]["facets"]["parent"]
    assert (parent["job"]["name"], parent["run"]["runId"]) == ("dag.task", run)


def test_a_handshake_and_a_forced_run_tell_the_same(shop: Odf) -> None:
    context = shop("start", "load", "--json").data
    (shop.folder / context["made_location"]).write_text("x")
    shop("end", context["ODF_RUN"], "READY")
    context = shop("start", "load", "--json").data
    shop("end", context["ODF_RUN"], "FAILED", "--why", "the file was cut")
    shop("run", "--force", "--dataid", "2013-01-01", "load")
    events = told(shop)
    assert short(events) == [("load", kind) for kind in ("START", "COMPLETE", "START", "FAIL", "START", "COMPLETE")]
    assert events[0]["run"]["runId"] == events[1]["run"]["runId"]
    assert events[2]["run"]["runId"] == events[3]["run"]["runId"]
    assert events[2]["outputs"][0]["name"] == events[3]["outputs"][0]["name"]
    assert events[-1]["run"]["facets"]["opendataflow"]["forced"] is True


def test_a_run_that_is_cancelled_or_interrupted_is_aborted(shop: Odf) -> None:
    shop("ready", "raw", "2013-01-03")
    environ = {**os.environ, "ODF_STORE": shop.store_url, "ODF_AS_SUPERUSER": "1"}
    for way in ("cancel", "SIGTERM"):
        words = [sys.executable, "-m", "opendataflow", "run", "--dataid", "2013-01-03", "load"]
        process = subprocess.Popen(words, cwd=shop.folder, env=environ, stdout=-3, stderr=-3)
        while "RUNNING" not in shop("runs", "--json").out:
            pass
        file = shop.folder / "told/lineage.jsonl"
        while not (file.exists() and (events := told(shop)) and events[-1]["eventType"] == "START"):
            pass
        if way == "cancel":
            shop("cancel", "load", "2013-01-03", "--why", "it hangs")
        else:
            process.terminate()
        assert process.wait(240)
        last = told(shop)[-1]
        assert (last["eventType"], last["job"]["name"]) == ("ABORT", "load")
        assert ("it hangs" in last["run"]["facets"]["errorMessage"]["message"]) == (way == "cancel")
        if way == "cancel":
            shop("resubmit", "made", "2013-01-03", "--yes")


@pytest.mark.fault(25)
def test_no_secret_is_ever_told(shop: Odf) -> None:
    key = {"PASSKEY": PASSPHRASE}
    with lineage_server() as server:
        file = shop.folder / "dataflow.toml"
        text = file.read_text().replace('told/lineage.jsonl"', f'told/lineage.jsonl", "{server.url}"]')
        text = text.replace("to = ", "to = [")
        file.write_text(text)
        sealed = shop("crypt", "encrypt", "--for-lineage", stdin="canary-api-key", **key).out.strip()
        file.write_text(text.replace("[lineage]", f'[lineage]\nencrypted = "{sealed}"'))
        token = shop("crypt", "encrypt", "--for", "raw", stdin="canary-password", **key).out.strip()
        changed = file.read_text().replace("[dataset.raw]", f'[dataset.raw]\nencryptedpass = "{token}"')
        file.write_text(changed)
        shop("apply", "--yes", **key)
        shop("run", "load", **key)
        failed = shop("run", "load", code=1, **key)
        figures = shop("metrics", **key)
        assert short(server.events) == [("load", kind) for kind in ("START", "COMPLETE", "START", "FAIL")]
        assert {header["Authorization"] for header in server.headers} == {"Bearer canary-api-key"}
        everything = "".join(map(str, server.events)) + (shop.folder / "told/lineage.jsonl").read_text()
        assert "no luck with" in everything
        for text in (everything, failed.out, failed.err, figures.out, figures.err):
            assert "canary" not in text
        list(map(check, server.events))


def test_a_server_that_hangs_or_refuses_delays_and_fails_nothing(shop: Odf) -> None:
    with lineage_server() as server:
        server.hold.clear()
        answer = shop("run", "load", OPENLINEAGE_URL=server.url)
        assert "READY" in answer.err
        assert "dropped" in answer.err
        assert short(told(shop)) == [("load", "START"), ("load", "COMPLETE")]
    shop("resubmit", "made", "2013-01-01", "--yes")
    assert "2 lineage events were dropped" in shop("run", "load", OPENLINEAGE_URL="http://127.0.0.1:9").err
    shop("resubmit", "made", "2013-01-01", "--yes")
    with lineage_server() as server:
        shop("run", "load", OPENLINEAGE_URL=server.url)
        assert short(server.events) == [("load", "START"), ("load", "COMPLETE")]
    shop("resubmit", "made", "2013-01-01", "--yes")
    before = len(told(shop))
    shop("run", "load", OPENLINEAGE_DISABLED="true")
    assert len(told(shop)) == before


def test_without_the_package_files_are_written_and_servers_are_named_with_what_to_install(shop: Odf) -> None:
    (shop.folder / "openlineage.py").write_text("raise ImportError('not here', name='openlineage')")
    there = {"PYTHONPATH": str(shop.folder), "OPENLINEAGE_URL": "http://127.0.0.1:9"}
    answer = shop("run", "load", **there)
    assert "pip install 'openlineage-python" in answer.err
    assert "READY" in answer.err
    assert short(told(shop)) == [("load", "START"), ("load", "COMPLETE")]


def test_whoever_does_not_want_it_pays_nothing(shop: Odf) -> None:
    file = shop.folder / "dataflow.toml"
    file.write_text(file.read_text().partition("[lineage]")[0])
    code = (
        "import sys; from opendataflow.cli.door import open_door; open_door(['run', 'load']);"
        "print([name for name in sys.modules if 'openlineage' in name or name.startswith('opendataflow.lineage.')])"
    )
    environ = {**os.environ, "ODF_STORE": shop.store_url, "ODF_AS_SUPERUSER": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=shop.folder, env=environ, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
