"""The page Recovery: a plan to read, tick and start, and how far it is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from opendataflow import Store
from opendataflow.insight.holdup import Holdup
from opendataflow.insight.recovery import causes
from opendataflow.project.web import new_token
from opendataflow.store import open_store
from tests.support.console import console, csrf_of
from tests.support.flows import claim_one, dataset, drain, dump, job, status

EVIL = "<img src=x onerror=alert(1)>"
TOKEN, HASH = new_token()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/dataflow.db"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """raw → make → product → use → report, in which chunk 1 and chunk 2 failed for different reasons."""
    with open_store(url, create=True) as store:
        store.register(
            [dataset(name) for name in ("raw", "product", "report")],
            [job("make", "raw", writes="product"), job("use", "product", writes="report")],
        )
        yield store


@pytest.fixture
def broken(store: Store) -> Store:
    store.announce("raw", ["1", "2", "3"])
    store.fail(claim_one(store, "make"), "JOB_FAILED", f"the network is away {EVIL}")
    store.fail(claim_one(store, "make"), "JOB_FAILED", "no space left")
    store.hold("raw", ["3"], why=EVIL)
    return store


@pytest.fixture
def browser(tmp_path: Path, url: str, store: Store) -> TestClient:
    return console(tmp_path, url)


def ticked(text: str) -> list[str]:
    return re.findall(r'name="cause" value="(c[0-9a-f]{10})" id="[^"]+" checked', text)


def start(browser: TestClient, *chosen: str, **fields: str) -> str:
    form = {"csrf": csrf_of(browser), "cause": list(chosen), **fields}
    return browser.post("/recovery", data=form).text


def test_where_all_is_well_the_page_says_so(browser: TestClient) -> None:
    text = browser.get("/recovery").text
    assert "Nothing to recover" in text
    assert "<button" not in text.partition("<main")[2]


def test_the_plan_names_causes_steps_and_what_only_people_can_heal(browser: TestClient, broken: Store) -> None:
    text = browser.get("/recovery").text
    assert len(ticked(text)) == 3
    assert "no space left" in text
    assert EVIL not in text
    assert "Start: RESUBMIT 2 chunks" in text
    assert "odf release raw 3" in text
    assert 'href="/chunk/product/1"' in text


def test_some_causes_can_be_ticked_and_the_address_keeps_them(browser: TestClient, broken: Store) -> None:
    first, second, _ = causes(broken)
    text = browser.get(f"/recovery?cause={second.id}").text
    assert ticked(text) == [second.id]
    assert "Start: RESUBMIT 1 chunk<" in text
    none = browser.get("/recovery?cause=none").text
    assert ticked(none) == []
    assert "Nothing is ticked" in none
    assert ticked(browser.get(f"/recovery?cause={first.id}&cause={EVIL}").text) == [first.id]


def test_starting_resubmits_what_was_ticked_in_the_name_of_the_visitor(browser: TestClient, broken: Store) -> None:
    first, *_ = causes(broken)
    text = start(browser, first.id, why="the network is back")
    assert "1 chunk is RESUBMIT now" in text
    assert "Under way" in text
    assert "the network is back" in text
    assert (status(broken, "product", "1"), status(broken, "product", "2")) == ("RESUBMIT", "FAILED")
    last = broken.views.last_events("product", "1")[0]
    assert (last.kind, last.why) == ("resubmitted", "the network is back")
    assert str(last.who).startswith("ada@")


def test_progress_is_shown_until_all_is_ready_again(browser: TestClient, broken: Store) -> None:
    broken.release("raw", ["3"])
    start(browser, *(cause.id for cause in causes(broken)), all="1")
    assert re.search(r"<strong>0</strong> of 4 done", browser.get("/recovery").text)
    drain(broken, "make")
    assert re.search(r"<strong>2</strong> of 4 done", browser.get("/recovery").text)
    drain(broken, "use")
    text = browser.get("/recovery").text
    assert "All 4 chunks of this recovery are READY" in text
    assert "<strong>4</strong> of 4 done" in text
    assert "What broke" not in text
    assert "still wrong" not in text


def test_a_recovery_that_is_over_says_nothing_about_what_else_is_wrong(browser: TestClient, broken: Store) -> None:
    first, *_ = causes(broken)
    broken.register([dataset("daily", "day", options={"expected": True}, start="2026-11-01", end="2026-11-01")])
    start(browser, first.id)
    drain(broken, "make")
    drain(broken, "use")
    text = browser.get("/recovery").text
    assert "All 2 chunks of this recovery are READY" in text
    assert "Something else is still wrong" in text
    assert "no space left" in text
    broken.resubmit("product", ["2"])
    broken.release("raw", ["3"])
    drain(broken, "make")
    drain(broken, "use")
    text = browser.get("/recovery").text
    assert "What broke" not in text
    assert "Left for people" in text
    assert "odf ready daily 2026-11-01" in text


def test_what_fails_again_is_stuck_and_back_in_the_plan(browser: TestClient, broken: Store) -> None:
    start(browser, *(cause.id for cause in causes(broken)), all="1")
    for _ in range(2):
        broken.fail(claim_one(broken, "make"), "JOB_FAILED", "no space left")
    text = browser.get("/recovery").text
    assert "stuck" in text
    assert "Start: RESUBMIT 2 chunks" in text


def test_two_operators_who_start_at_once_do_no_harm(tmp_path: Path, url: str, broken: Store) -> None:
    one, other = console(tmp_path, url, user="ada"), console(tmp_path, url, user="joan")
    chosen = [cause.id for cause in causes(broken)]
    assert "2 chunks are RESUBMIT now" in start(one, *chosen, all="1")
    before = dump(broken)
    assert "healed or under way already" in start(other, *chosen, all="1")
    assert dump(broken) == before


def test_looking_writes_nothing_and_a_start_needs_the_token_of_its_form(browser: TestClient, broken: Store) -> None:
    before = dump(broken)
    chosen = causes(broken)[0].id
    for path in ("/recovery", f"/recovery?cause={chosen}", "/recovery?cause=none"):
        assert browser.get(path).status_code == 200
    assert browser.post("/recovery", data={"cause": chosen}).status_code == 403
    assert browser.post("/recovery", data={"cause": chosen, "csrf": "wrong"}).status_code == 403
    assert browser.post("/recovery", data={"csrf": csrf_of(browser)}).status_code == 400
    assert (
        browser.post("/recovery", data={"csrf": csrf_of(browser), "cause": chosen, "why": "x" * 600}).status_code == 400
    )
    assert dump(broken) == before


def test_a_viewer_reads_the_plan_and_cannot_start_it(tmp_path: Path, url: str, broken: Store) -> None:
    (tmp_path / "dataflow.toml").write_text(
        f'[store]\nurl = "sqlite:///dataflow.db"\n[web.token.joan]\nrole = "viewer"\nhash = "{HASH}"\n',
        encoding="utf-8",
    )
    before = dump(broken)
    viewer = console(tmp_path, url, headers={"authorization": f"Bearer {TOKEN}"})
    text = viewer.get("/recovery").text
    assert "needs the role operator" in text
    assert '<button class="primary"' not in text
    assert viewer.post("/recovery", data={"cause": causes(broken)[0].id}).status_code == 403
    assert dump(broken) == before


def test_very_many_causes_and_chunks_stay_a_light_page(browser: TestClient, store: Store) -> None:
    dataids = [str(n) for n in range(1, 601)]
    store.announce("raw", dataids)
    for claim in store.claim("make", n=600):
        words = " ".join("abcdefghij"[int(digit)] * 3 for digit in claim.dataid)
        store.fail(claim, "JOB_FAILED", f"{words} " + "too long to read " * 50)
    answer = browser.get("/recovery")
    assert len(answer.content) < 300_000
    assert "odf recover" in answer.text


def test_a_failed_script_is_told_everywhere_by_its_last_line(browser: TestClient, store: Store) -> None:
    store.announce("raw", ["1"])
    rows = "".join(f"row {n}: ok\n" for n in range(200, 300))
    store.fail(claim_one(store, "make"), "JOB_FAILED", f"exit code 1 after 0.270 s: {rows}ConnectionError: db1 is away")
    for path in ("/", "/recovery", "/history", "/chunk/product/1", "/chunk/report/1"):
        text = browser.get(path).text.partition("<main")[2]
        assert "ConnectionError: db1 is away" in text, path
        assert "row 200" not in text, path
    (late,) = Holdup(store, store.catalogue()).chain("product", "1")
    assert late.why == "JOB_FAILED: ConnectionError: db1 is away"
