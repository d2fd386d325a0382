"""Actions of the console: a look writes nothing, a deed is done once, by whom and why, and only by whoever may."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from opendataflow import Manifest, Pool, Store
from opendataflow.project.web import new_token
from opendataflow.steer import preview
from opendataflow.store import open_store
from tests.support.console import console, csrf_of
from tests.support.flows import chain, claim_one, drain, dump, status

# They share one store, in this order.

TOKENS = {role: new_token() for role in ("viewer", "operator", "admin")}
EVIL = "<script>alert(1)</script>'\"&\x1b[31m"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("act")
    tokens = "".join(
        f'[web.token.{role}_ann]\nrole = "{role}"\nhash = "{hashed}"\n' for role, (_, hashed) in TOKENS.items()
    )
    (folder / "dataflow.toml").write_text(f'[store]\nurl = "sqlite:///dataflow.db"\n{tokens}', encoding="utf-8")
    with open_store(f"sqlite:///{folder}/dataflow.db", create=True) as store:
        chain(store, pools=[Pool("etl", 4)], pool="etl")
        many = [str(n) for n in range(1, 40)]
        store.announce("raw", many, manifests={each: Manifest(fingerprint=f"raw {each}") for each in many})
        drain(store, "make", "use")
        yield store


@pytest.fixture(scope="module")
def site(store: Store) -> TestClient:
    url = store.url
    return console(Path(url.removeprefix("sqlite:///")).parent, url)


class Person:
    """Somebody with a token, who fills in forms."""

    def __init__(self, site: TestClient, role: str) -> None:
        self._site, self._headers = site, {"authorization": f"Bearer {TOKENS[role][0]}"}

    def look(self, verb: str, **query: Any) -> Any:
        return self._site.get(f"/act/{verb}", params=query, headers=self._headers)

    def do(self, verb: str, **form: Any) -> Any:
        return self._site.post(f"/act/{verb}", data=form, headers=self._headers, follow_redirects=False)


@pytest.fixture(scope="module")
def operator(site: TestClient) -> Person:
    return Person(site, "operator")


@pytest.fixture(scope="module")
def admin(site: TestClient) -> Person:
    return Person(site, "admin")


def words(answer: Any) -> str:
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", answer.text)).split())


def test_a_look_says_what_would_happen_and_writes_nothing(store: Store, operator: Person, admin: Person) -> None:
    before = dump(store)
    one = {"dataset": "product", "dataid": "1"}
    told = words(operator.look("resubmit", **one))
    assert "product 1 becomes RESUBMIT" in told
    assert "make makes it again at the next ordinary start" in told
    assert "1 chunk made from it stays unchanged, and is STALE if the new version has other content" in told
    assert "until an operator releases it" in words(operator.look("hold", **one))
    assert "produced again (RESUBMIT)" in words(operator.look("fail", **one))
    assert "as never produced" in words(admin.look("forget", **one))
    assert "1 version will be blocked for all jobs" in words(admin.look("recall", **one))
    assert "2 versions will be blocked for all jobs" in words(admin.look("recall", cascade="1", **one))
    assert "No chunk of make will start" in words(operator.look("pause", job="make"))
    assert "make is not paused" in words(operator.look("resume", job="make"))
    assert "Slots of pool etl: 8; before: 4" in words(operator.look("pool", pool="etl", slots="8"))
    assert "Nothing to recover" in words(operator.look("recover"))
    assert dump(store) == before


def test_a_deed_is_done_by_the_visitor_for_his_reason(store: Store, operator: Person) -> None:
    answer = operator.do("resubmit", dataset="product", dataid="2", why=" late  data ")
    assert (answer.status_code, answer.headers["location"]) == (303, "/chunk/product/2")
    assert status(store, "product", "2") == "RESUBMIT"
    event = store.views.last_events("product", "2")[0]
    assert (event.kind, event.why) == ("resubmitted", "late data")
    assert str(event.who).startswith("operator_ann@")


def test_every_deed_that_the_terminal_knows(store: Store, operator: Person, admin: Person) -> None:
    for verb, after in (("hold", "HOLD"), ("release", "READY"), ("fail", "FAILED"), ("resubmit", "RESUBMIT")):
        assert operator.do(verb, dataset="product", dataid="3").status_code == 303
        assert status(store, "product", "3") == after
    assert admin.do("forget", dataset="product", dataid="3").status_code == 303
    assert status(store, "product", "3") is None
    assert admin.do("recall", dataset="raw", dataid="4", why="bad", cascade="1").status_code == 303
    assert [status(store, name, "4") for name in ("raw", "product", "report")] == ["RESUBMIT"] * 3
    assert operator.do("pause", job="use").status_code == 303
    assert "use" in store.catalogue().paused
    assert operator.do("resume", job="use").status_code == 303
    assert operator.do("pool", pool="etl", slots="7").status_code == 303
    assert store.catalogue().pool("etl").slots == 7
    assert operator.do("resubmit", dataset="product", dataid="2").status_code == 303
    run = claim_one(store, "make", dataid="2")
    assert operator.do("cancel", run=str(run.runid), why="hangs").status_code == 303
    assert status(store, "product", "2") == "FAILED"
    assert "1 chunk becomes RESUBMIT" in words(operator.look("recover"))
    assert operator.do("recover", why="mended").status_code == 303
    assert status(store, "product", "2") == "RESUBMIT"


def test_a_recall_needs_a_reason(store: Store, admin: Person) -> None:
    before = dump(store)
    answer = admin.do("recall", dataset="product", dataid="5", why="  ")
    assert answer.status_code == 400
    assert "a recall needs a reason" in words(answer)
    assert dump(store) == before


def test_what_cannot_be_is_said_in_words(store: Store, operator: Person, admin: Person) -> None:
    assert operator.do("resubmit", dataset="product", dataid="2").status_code == 303
    run = claim_one(store, "make", dataid="2")
    for answer in (
        operator.look("resubmit", dataset="product", dataid="2"),
        operator.do("resubmit", dataset="product", dataid="2"),
    ):
        assert answer.status_code == 409
        assert "LOCKED product 2 is RUNNING" in words(answer)
    assert "1 run loses its chunk" in words(operator.look("resubmit", dataset="product", dataid="2", force="1"))
    store.fail(run, "JOB_FAILED", "no")
    refused = operator.look("release", dataset="product", dataid="6")
    assert refused.status_code == 409
    assert "BAD_TRANSITION product 6 is READY: release needs HOLD, PENDING" in words(refused)
    assert re.search(r"<button[^>]* disabled>Release", refused.text)
    assert "BAD_TRANSITION" in words(admin.look("rollback", dataset="product", dataid="6"))


@pytest.mark.parametrize(
    ("verb", "fields", "code"),
    [
        ("nosuch", {}, 404),
        ("resubmit", {}, 400),
        ("resubmit", {"dataset": "nosuch", "dataid": "1"}, 404),
        ("resubmit", {"dataset": "product", "dataid": EVIL}, 400),
        ("resubmit", {"dataset": EVIL, "dataid": "1"}, 400),
        ("resubmit", {"status": EVIL}, 400),
        ("hold", {"dataset": "product", "dataid": "x"}, 400),
        ("cancel", {"run": EVIL}, 400),
        ("cancel", {"run": "9" * 300}, 404),
        ("pause", {"job": "nosuch"}, 404),
        ("pause", {"job": EVIL}, 400),
        ("pool", {"pool": "etl", "slots": EVIL}, 400),
        ("pool", {"pool": EVIL, "slots": "1"}, 400),
        ("rollback", {"dataset": "product", "dataid": "1", "version": EVIL}, 400),
        ("recall", {"dataset": "product"}, 400),
        ("recover", {"cause": EVIL}, 400),
    ],
)
def test_bad_words_are_refused_and_shown_as_text(
    store: Store, admin: Person, verb: str, fields: dict[str, str], code: int
) -> None:
    before = dump(store)
    for answer in (admin.look(verb, **fields), admin.do(verb, why=EVIL, **fields)):
        assert answer.status_code == code, words(answer)
        assert "<script>alert" not in answer.text
        assert "\x1b" not in answer.text
    assert dump(store) == before


def test_a_reason_is_bounded_and_kept_as_text(store: Store, operator: Person) -> None:
    assert operator.do("hold", dataset="product", dataid="7", why="x" * 501).status_code == 400
    assert status(store, "product", "7") == "READY"
    assert operator.do("hold", dataset="product", dataid="7", why=EVIL).status_code == 303
    assert str(store.views.last_events("product", "7")[0].why).startswith("<script>")


def test_roles_are_asked_before_anything_else(store: Store, site: TestClient, operator: Person) -> None:
    before, viewer = dump(store), Person(site, "viewer")
    for verb in ("resubmit", "hold", "release", "fail", "forget", "recall", "rollback"):
        assert viewer.look(verb, dataset="product", dataid="1").status_code == 403
        assert viewer.do(verb, dataset="product", dataid="1", why="x").status_code == 403
    for verb, fields in (("pause", {"job": "make"}), ("pool", {"pool": "etl", "slots": "1"}), ("recover", {})):
        assert viewer.do(verb, **fields).status_code == 403
    for verb in ("recall", "rollback", "forget"):
        assert operator.do(verb, dataset="product", dataid="1", why="x").status_code == 403
    assert dump(store) == before


def test_a_form_of_another_session_does_nothing(store: Store, tmp_path: Path) -> None:
    browser = console(tmp_path, store.url)
    before = dump(store)
    form = {"dataset": "product", "dataid": "8"}
    assert browser.post("/act/hold", data=form).status_code == 403
    assert browser.post("/act/hold", data={**form, "csrf": "wrong"}).status_code == 403
    assert dump(store) == before
    form |= {"csrf": csrf_of(browser), "next": "/about"}
    shown = browser.post("/act/hold", data=form)
    assert "product 8 is HOLD now" in words(shown), "the next page says what was done"
    assert "product 8 is HOLD now" not in words(browser.get("/about")), "once"
    assert str(store.views.last_events("product", "8")[0].who).startswith("ada@")


def test_read_only_means_nobody(store: Store, tmp_path: Path) -> None:
    browser = console(tmp_path, store.url, read_only=True)
    form = {"dataset": "product", "dataid": "9", "csrf": csrf_of(browser)}
    assert browser.post("/act/hold", data=form).status_code == 403
    assert status(store, "product", "9") == "READY"


@pytest.mark.parametrize("elsewhere", ["//evil.example", "https://evil.example", "javascript:alert(1)"])
def test_nobody_is_sent_elsewhere_afterwards(operator: Person, elsewhere: str) -> None:
    answer = operator.do("hold", dataset="product", dataid="10", next=elsewhere)
    assert answer.headers["location"] == "/"


def test_what_changed_since_the_look_has_to_be_read_again(store: Store, operator: Person) -> None:
    fields = {"dataset": "product", "dataid": "11..13"}
    seen = re.search(r'name="seen" value="(\w+)"', operator.look("fail", **fields).text)
    assert seen is not None
    store.hold("product", ["12"])
    answer = operator.do("fail", seen=seen[1], **fields)
    assert answer.status_code == 409
    assert "something changed since the preview" in words(answer)
    assert status(store, "product", "11") == "READY"
    again = re.search(r'name="seen" value="(\w+)"', answer.text)
    assert again is not None
    assert operator.do("fail", seen=again[1], **fields).status_code == 303
    assert status(store, "product", "11") == "FAILED"


def test_a_page_changes_only_so_many_chunks_at_once(
    store: Store, operator: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preview, "MOST", 5)
    before = dump(store)
    for answer in (operator.look("hold", dataset="raw", all="1"), operator.do("hold", dataset="raw", all="1")):
        assert answer.status_code == 400
        assert "a page changes at most 5 at once" in words(answer)
    assert dump(store) == before
    assert operator.look("hold", dataset="raw", dataid="20..24").status_code == 200
