"""The pages of a job and of a run, the timeline and the report: what others wrote stays text, and no other file is read."""

from __future__ import annotations

import os
import re
import tracemalloc
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import opendataflow
from opendataflow import Manifest, Pool
from tests.support.console import console
from tests.support.flows import claim_one, dataset, job, produce

# They share one store, in this order.

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)> \x1b]0;title\x07\x1b[31mred\u202e"
SECRET = "hunter2-never-shown"


class Looked(HTMLParser):
    """What a page must not have: scripts and styles in its text."""

    def __init__(self) -> None:
        super().__init__()
        self.forbidden: list[object] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("style", "img", "iframe", "base") or (
            tag == "script" and not (given.get("src") or "").startswith("/")
        ):
            self.forbidden.append((tag, attrs))
        self.forbidden += [name for name in given if name == "style" or name.startswith("on")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("console")


@pytest.fixture(scope="module")
def client(folder: Path) -> TestClient:
    """A console on a flow in which runs are done, failed, running, lost and without a log."""
    url = f"sqlite:///{folder}/store.db"
    (folder / "jobs").mkdir()
    (folder / "jobs/make.sh").write_text("#!/bin/sh\n")
    with opendataflow.open(url, create=True, who=EVIL) as store:
        items = {"API_TOKEN": SECRET}
        store.register(
            [dataset("raw"), dataset("product"), dataset("report")],
            [job("make", "raw", writes="product", pool="etl", env=items), job("use", "product", writes="report")],
            [Pool("etl", 3)],
        )
        store.announce("raw", [str(number) for number in range(1, 10)])
        store.commit(claim_one(store, "make"), {"product": Manifest(rows=5)})  # run 1
        failed = claim_one(store, "make")  # run 2
        store.admit(failed, failed.receipt)
        store.fail(failed, detail=f"exit code 3 after 0.1 s: begin\n{EVIL}", exit_code=3)
        claim_one(store, "make")  # run 3 runs
        produce(store, "use")  # run 4
        store.pause("use", why=EVIL)
        logs = folder / ".odf/logs/make"
        logs.mkdir(parents=True)
        for runid, text in ((1, "one\ntwo\nthree\n"), (2, f"begin\n{EVIL} needle\nend\n"), (3, "# odf log\nhello\n")):
            (logs / f"{runid}.log").write_text(text)
            store.log(runid, str(logs / f"{runid}.log"))
    return console(folder, url)


def shown(client: TestClient, path: str, status: int = 200) -> str:
    answer = client.get(path)
    assert answer.status_code == status, path
    text = answer.text
    assert "<script>alert" not in text
    assert "<img" not in text
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text)
    looked = Looked()
    looked.feed(text)
    assert looked.forbidden == []
    assert SECRET not in text
    return text


def test_a_job_shows_what_it_does_and_no_values(client: TestClient) -> None:
    text = shown(client, "/job/make")
    for told in ("the same number", "jobs/make.sh", "API_TOKEN", "JOB_FAILED", 'href="/run/3"', "/act/pause?", ">etl<"):
        assert told in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert 'class="bars"' in text
    paused = shown(client, "/job/use")
    assert "/act/resume?" in paused
    assert "Paused" in paused
    assert "2" in shown(client, "/job/make?before=2")
    assert "UNKNOWN_JOB" in shown(client, "/job/nobody", 404)
    for bad in ("/job/%3Cscript%3Ealert(1)%3C%2Fscript%3E", "/job/..%2F..%2Fetc", "/job/make?before=x"):
        assert client.get(bad).status_code in (400, 404)


def test_a_run_shows_its_answers_its_names_and_its_log_as_text(client: TestClient) -> None:
    text = shown(client, "/run/2")
    for told in (
        "Is every input chunk READY?",
        "item_API_TOKEN",
        "product_location",
        "Exit code",
        "␛]0;title␇␛[31mred",
    ):
        assert told in text
    assert "\\u202e" in text
    assert "/act/cancel" not in text
    running = shown(client, "/run/3")
    assert "/act/cancel?" in running
    asked = shown(client, "/act/cancel?run=3")
    assert '<h1>Cancel <span class="id">run 3</span></h1>' in asked
    assert "Leave it" not in asked
    assert 'data-part="/run/3/log/part"' in running
    assert "has no log" in shown(client, "/run/4")
    for bad in ("/run/99", "/run/x", "/run/-1", "/run/1e3", "/run/²", f"/run/{10**30}", "/run/1%2F..%2F2"):
        assert client.get(bad).status_code == 404, bad


def test_what_goes_on_carries_its_moment(client: TestClient) -> None:
    for path in ("/", "/job/make", "/run/3"):
        text = shown(client, path)
        found = re.search(r'<span data-since="([^"]+)">\d+ s</span>', text)
        assert found is not None, path
        assert datetime.fromisoformat(found[1]) < datetime.now(UTC)
        assert re.search(r'<body[^>]* data-now="[^"]+"', text)
    lease = re.search(r'lasts another <span data-until="([^"]+)">', shown(client, "/run/3"))
    assert lease is not None
    assert datetime.fromisoformat(lease[1]) > datetime.now(UTC)
    assert re.search(r'<time data-ago datetime="[^"]+"[^>]*>\d+ s ago</time>', shown(client, "/job/make"))
    assert "aria-live" not in shown(client, "/run/3")


def test_a_log_is_searched_paged_followed_and_downloaded(client: TestClient) -> None:
    found = shown(client, "/run/2?q=NEEDLE")
    assert "<mark>needle</mark>" in found
    assert "1 line holds" in found
    assert "No line holds" in shown(client, "/run/1?q=nothing")
    assert "<mark>&lt;script&gt;</mark>" in shown(client, "/run/2?q=%3Cscript%3E")
    assert '>begin\n<mark id="hit">&lt;script&gt;alert(1)' in shown(client, "/run/2?q=needle&at=6")
    assert ">two\nthree\n</pre>" in shown(client, "/run/1?at=4")
    assert client.get("/run/3/log/part?at=0").json() | {"size": 0} == {
        "runid": 3,
        "text": "# odf log\nhello\n",
        "start": 0,
        "end": 16,
        "size": 0,
        "line": 1,
        "is_over": False,
        "elsewhere": "",
        "problem": "",
        "hint": "",
    }
    assert client.get("/run/3/log/part?at=16").json()["text"] == ""
    file = client.get("/run/2/log")
    assert file.headers["content-type"] == "text/plain; charset=utf-8"
    assert file.headers["content-disposition"] == 'attachment; filename="run-2.log"'
    assert file.text.startswith("begin\n<script>")
    assert "\x1b" not in file.text
    assert "␛[31mred" in file.text
    assert client.get("/run/4/log").status_code == 404
    assert client.get("/run/99/log/part").status_code == 404


def test_no_address_and_no_row_leads_to_another_file(client: TestClient, folder: Path) -> None:
    outside = folder / "outside.log"
    outside.write_text(f"{SECRET}\n")
    link = folder / ".odf/logs/make/link.log"
    link.symlink_to(outside)
    with opendataflow.open(f"sqlite:///{folder}/store.db") as store:
        try:
            for path in (outside, link, folder / ".odf/logs/../../outside.log", "/etc/passwd"):
                store.log(4, str(path))
                assert "is not here" in shown(client, "/run/4")
                assert client.get("/run/4/log").status_code == 409
                assert client.get("/run/4/log/part").json()["text"] == ""
        finally:
            store.dml("update run set log = null where runid = 4")
    for path in ("/run/1/log/../../../../outside.log", "/run/1/log/%2e%2e%2foutside.log", "/run/1/log/outside.log"):
        answer = client.get(path)
        assert answer.status_code == 404
        assert SECRET not in answer.text


def test_a_huge_log_costs_little_memory(client: TestClient, folder: Path) -> None:
    path = folder / ".odf/logs/make/1.log"
    before = path.read_text()
    with path.open("ab") as file:
        os.truncate(file.fileno(), 100 * 2**20)
        file.write(b"\nthe end\n")
    client.get("/run/1")
    tracemalloc.start()
    try:
        assert "the end" in client.get("/run/1").text
        assert client.get("/run/1?q=nothing").status_code == 200
        assert len(client.get("/run/1?at=1000000").content) < 300_000
        assert tracemalloc.get_traced_memory()[1] < 16 * 2**20
    finally:
        tracemalloc.stop()
        path.write_text(before)


def test_the_timeline_shows_runs_as_bars(client: TestClient) -> None:
    for by in ("worker", "pool", "job"):
        text = shown(client, f"/timeline?by={by}")
        assert 'href="/run/2"' in text
        assert "4 runs" in text
        assert 'class="lane"' in text
    assert "3 runs" in shown(client, "/timeline?job=make")
    assert "Nothing ran" in shown(client, "/timeline?since=2020-01-01&until=2020-01-02")
    for bad in ("by=colour", "since=never", "since=400d", "job=%3Cscript%3E", "since=2999-01-01"):
        assert client.get(f"/timeline?{bad}").status_code == 400, bad


def test_the_report_is_a_page_of_the_console_and_a_file(client: TestClient) -> None:
    text = shown(client, "/report?since=1d&job=make")
    assert "<style" not in text
    assert "What failed" in text
    assert '<a href="/job/make">make</a>' in text
    assert "/report/file?since=1d&amp;job=make" in text
    file = client.get("/report/file?since=1d")
    assert file.headers["content-disposition"].startswith('attachment; filename="report-')
    assert "<style>" in file.text
    assert "<script" not in file.text
    for bad in ("since=never", "job=%3Cscript%3E", "job=nobody", "dataset=nothing"):
        assert client.get(f"/report?{bad}").status_code in (400, 404), bad


def test_a_reader_of_a_console_that_is_read_only_gets_no_buttons(folder: Path, client: TestClient) -> None:
    reader = console(folder, f"sqlite:///{folder}/store.db", read_only=True)
    for path in ("/job/make", "/job/use", "/run/3"):
        assert "/act/" not in shown(reader, path)


def test_searches_through_logs_leave_connections_to_others(client: TestClient) -> None:
    site = client.app.state.site  # type: ignore[attr-defined]
    with site.searching(), site.searching():
        for path in ("/run/1?q=a", "/api/v1/runs/1/log/search?text=a"):
            assert client.get(path).status_code == 503
        assert client.get("/run/1").status_code == 200
    assert client.get("/run/1?q=a").status_code == 200
