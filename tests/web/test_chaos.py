"""The page of the last chaos: the words of the terminal, whatever the file holds, and nothing of it acts."""

from __future__ import annotations

from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import opendataflow
from opendataflow.chaos import words
from opendataflow.chaos.report import path_of, save
from opendataflow.model.data import plain
from opendataflow.project import without_file
from tests.support.chaos import report
from tests.support.console import console
from tests.web.test_sheets import EVIL, Looked


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    opendataflow.open(f"sqlite:///{tmp_path}/dataflow.db", create=True).close()
    return tmp_path


@pytest.fixture
def client(folder: Path) -> TestClient:
    return console(folder, f"sqlite:///{folder}/dataflow.db")


def test_where_there_is_none_the_page_says_how_to_make_one(client: TestClient) -> None:
    text = client.get("/chaos").text
    assert '<code class="command">odf chaos</code>' in text
    assert client.get("/api/v1/chaos").json() == {"report": None}
    assert 'href="/chaos" aria-current="page"' in text


def test_the_page_says_what_the_terminal_said(folder: Path, client: TestClient) -> None:
    told = report(verdict="PROMISE_BROKEN", evidence=("made 1 holds b'x', not b'y'",))
    save(without_file(folder, None), told)
    text = unescape(client.get("/chaos").text)
    assert words.verdict(told) in text
    for kind in told.kinds:
        assert kind.meaning in text
    for each in told.promises:
        assert each.promise in text
    assert "made 1 holds b'x', not b'y'" in text
    assert "BROKEN" in text
    assert told.command in text
    assert client.get("/api/v1/chaos").json() == {"report": plain(told)}


def test_a_promise_that_nothing_tried_is_said_to_be_so(folder: Path, client: TestClient) -> None:
    kept, other = report().promises
    told = replace(report(), promises=(kept, replace(other, kept=None, evidence=("no file was damaged",))))
    save(without_file(folder, None), told)
    text = unescape(client.get("/chaos").text)
    assert "not tested</span>" in text
    assert "no file was damaged" in text
    assert words.verdict(told) in text
    assert client.get("/api/v1/chaos").json()["report"]["promises"][1]["kept"] is None


def test_whatever_is_in_the_report_stays_text(folder: Path, client: TestClient) -> None:
    save(without_file(folder, None), report(EVIL, evidence=(EVIL,)))
    answer = client.get("/chaos")
    assert answer.status_code == 200
    page = Looked()
    page.feed(answer.text)
    assert page.forbidden == []
    assert "&lt;script&gt;" in answer.text
    assert "\x1b" not in answer.text


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff\xfe", b'{"format": 1, "verdict": "<script>"}', b"[" * 100_000])
def test_a_file_that_is_no_report_is_named_and_breaks_nothing(folder: Path, client: TestClient, content: bytes) -> None:
    path = path_of(without_file(folder, None))
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    answer = client.get("/chaos")
    assert (answer.status_code, "BAD_CONFIG" in answer.text) == (200, True)
    assert client.get("/api/v1/chaos").json()["error"] == "BAD_CONFIG"
