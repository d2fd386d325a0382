"""Search: a page without scripts, and suggestions for whoever types."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from opendataflow import Store
from tests.support.console import console
from tests.support.flows import chain, produce


@pytest.fixture
def client(store: Store, tmp_path: Path, store_url: str) -> TestClient:
    chain(store)
    store.announce("raw", ["1", "2"])
    produce(store, "make", "1")
    return console(tmp_path, store_url)


def test_the_page_lists_what_is_meant_by_kind(client: TestClient) -> None:
    text = client.get("/search?q=1").text
    assert text.index("Runs") < text.index("Chunks")
    for link in ('href="/run/1"', 'href="/chunk/product/1"', 'href="/chunk/raw/1"'):
        assert link in text
    assert 'value="1"' in text, "the field keeps what was typed"
    assert 'href="/job/make"' in client.get("/search?q=mak").text


def test_nothing_typed_and_nothing_found_say_so(client: TestClient) -> None:
    assert "Type a part of the name" in client.get("/search").text
    assert "Nothing is called nosuch" in client.get("/search?q=nosuch").text


def test_what_was_typed_is_text(client: TestClient) -> None:
    for word in ("<script>alert(1)</script>", "'; drop table run; --", "\x1b[31m", "x" * 5000, "%", "..", "a b c d"):
        answer = client.get("/search", params={"q": word})
        assert answer.status_code == 200
        assert "<script>alert" not in answer.text
        assert client.get("/search/suggest", params={"q": word}).status_code == 200


def test_suggestions_are_few_and_lead_somewhere(client: TestClient) -> None:
    found = client.get("/search/suggest?q=r").json()
    assert [(each["kind"], each["name"], each["href"]) for each in found] == [
        ("dataset", "raw", "/dataset/raw"),
        ("dataset", "report", "/dataset/report"),
        ("dataset", "product", "/dataset/product"),
    ]
    assert client.get("/search/suggest").json() == []


def test_go_leads_to_the_only_one(client: TestClient) -> None:
    answer = client.get("/search?q=product:1&go=1", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/chunk/product/1")
    assert client.get("/search?q=r&go=1").status_code == 200
