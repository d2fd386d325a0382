"""The door of the console: who comes in, what is refused, and what every answer carries."""

from __future__ import annotations

from ipaddress import ip_network

import pytest
from starlette.testclient import TestClient

from opendataflow.errors import StoreUnreachable
from opendataflow.model.listen_address import ListenAddress
from opendataflow.project.settings import Proxy, Token, Web
from opendataflow.project.web import ADMIN, new_token
from opendataflow.store import open_store
from opendataflow.web.access import Access, Arrival
from opendataflow.web.site import Stores
from tests.support.console import console, csrf_of

TOKEN, HASH = new_token()


@pytest.fixture
def url(tmp_path) -> str:
    url = f"sqlite:///{tmp_path}/dataflow.db"
    open_store(url, create=True).close()
    return url


@pytest.fixture
def open_console(tmp_path, url) -> TestClient:
    return console(tmp_path, url)


@pytest.fixture
def locked_console(tmp_path, url) -> TestClient:
    (tmp_path / "dataflow.toml").write_text(
        f'[store]\nurl = "sqlite:///dataflow.db"\n[web.token.joan]\nrole = "viewer"\nhash = "{HASH}"\n',
        encoding="utf-8",
    )
    return console(tmp_path, url)


def test_every_answer_forbids_scripts_of_others(open_console) -> None:
    for path in ("/about", "/nope", "/static/console.css", "/api/v1/nope"):
        headers = open_console.get(path).headers
        assert "script-src 'self'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


def test_a_foreign_host_name_is_refused(open_console) -> None:
    for host in ("evil.example", "evil.example:8460", "127.0.0.1:1", "localhost.evil.example:8460", ""):
        assert open_console.get("/about", headers={"host": host}).status_code == 400
    for host in ("127.0.0.1:8460", "localhost:8460", "[::1]:8460"):
        assert open_console.get("/about", headers={"host": host}).status_code == 200


def test_a_write_needs_the_token_of_its_session(open_console) -> None:
    token = csrf_of(open_console)
    assert open_console.post("/logout").status_code == 403
    assert open_console.post("/logout", data={"csrf": "wrong"}).status_code == 403
    foreign = {"origin": "http://evil.example"}
    assert open_console.post("/logout", data={"csrf": token}, headers=foreign).status_code == 403
    assert open_console.post("/logout", data={"csrf": token}, follow_redirects=False).status_code == 303


def test_a_body_has_an_end(open_console) -> None:
    token = csrf_of(open_console)
    assert open_console.post("/logout", data={"csrf": token, "more": "x" * 2_000_000}).status_code == 413


def test_the_session_cookie_is_for_nobody_else(open_console) -> None:
    cookie = open_console.get("/about").headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie


def test_with_tokens_nobody_sees_anything_without_one(locked_console) -> None:
    asked = locked_console.get("/about?x=1", follow_redirects=False)
    assert (asked.status_code, asked.headers["location"]) == (303, "/login?next=%2Fabout%3Fx%3D1")
    assert locked_console.get("/api/v1/anything").status_code == 401
    assert (
        locked_console.get("/about", headers={"authorization": "Bearer odfw_wrong"}, follow_redirects=False).status_code
        == 303
    )
    assert locked_console.get("/about", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_a_token_begins_a_session_with_its_role(locked_console) -> None:
    form = {"csrf": csrf_of(locked_console, "/login"), "token": TOKEN, "next": "/about"}
    shown = locked_console.post("/login", data=form)
    assert "joan · viewer" in shown.text
    assert TOKEN not in shown.text


def test_a_wrong_token_says_so_and_lets_nobody_in(locked_console) -> None:
    form = {"csrf": csrf_of(locked_console, "/login"), "token": "odfw_wrong"}
    assert locked_console.post("/login", data=form).status_code == 401
    assert locked_console.get("/about", follow_redirects=False).status_code == 303


@pytest.mark.parametrize(
    "elsewhere", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)", "//[", "/a\nb"]
)
def test_nobody_is_sent_elsewhere_after_logging_in(locked_console, elsewhere) -> None:
    form = {"csrf": csrf_of(locked_console, "/login"), "token": TOKEN, "next": elsewhere}
    assert locked_console.post("/login", data=form, follow_redirects=False).headers["location"] == "/"


def test_addresses_that_make_no_sense_are_refused_in_words(open_console) -> None:
    for path in (f"/run/{'1' * 5000}", f"/run/{'1' * 5000}/log", "/job/x?before=9999999999999999999"):
        assert open_console.get(path).status_code in (400, 404)
    for origin in ("http://[::1", "null", "", "http://127.0.0.1:8460.evil.example"):
        assert open_console.post("/logout", headers={"origin": origin}).status_code == 403


def test_the_ends_of_the_calendar_are_a_period_like_any_other(open_console) -> None:
    for period in ("since=0800-01-01", "until=0001-01-03", "since=0001-01-02&until=0001-01-03", "until=9999-12-30"):
        for path in ("/report", "/report/file", "/timeline", "/api/v1/report"):
            assert open_console.get(f"{path}?{period}").status_code in (200, 400)


def test_strangers_are_told_nothing_about_the_project(tmp_path, locked_console) -> None:
    for path, host in (("/login", "127.0.0.1:8460"), ("/login", "evil.example"), ("/static/nope", "127.0.0.1:8460")):
        shown = locked_console.get(path, headers={"host": host}).text
        assert tmp_path.name not in shown
        assert "sqlite" not in shown


def test_strangers_end_nobody_s_session(monkeypatch, locked_console) -> None:
    monkeypatch.setattr("opendataflow.web.access._MOST_SESSIONS", 5)
    form = {"csrf": csrf_of(locked_console, "/login"), "token": TOKEN}
    locked_console.post("/login", data=form)
    mine = dict(locked_console.cookies)
    for _ in range(10):
        locked_console.get("/login")
    locked_console.cookies.clear()
    locked_console.cookies.update(mine)
    assert locked_console.get("/about", follow_redirects=False).status_code == 200


def test_whoever_finds_no_connection_for_long_is_told(url) -> None:
    stores = Stores(lambda: open_store(url), most=1, patience=0.01)
    with stores.lent(), pytest.raises(StoreUnreachable), stores.lent():
        pass
    with stores.lent() as store:
        assert store.views.newest_event() == 0
    stores.close()


def test_a_link_elsewhere_ends_no_session(locked_console) -> None:
    """The browser keeps the cookie back then: a page of ours leads it to the same address, with the cookie."""
    for path in ("/about?x=1&y=%22%3E", "/chunk/a%2Fb/c", "/login", "/api/v1/status"):
        led = locked_console.get(path, headers={"sec-fetch-site": "cross-site"}, follow_redirects=False)
        assert "set-cookie" not in led.headers
        assert f'content="0; url={path.replace("&", "&amp;")}"' in led.text
    for path in ("//evil.example/x", "/\\evil.example"):
        led = locked_console.get(f"http://127.0.0.1:8460{path}", headers={"sec-fetch-site": "cross-site"})
        assert "evil.example" not in led.text
    form = {"csrf": csrf_of(locked_console, "/login"), "token": TOKEN}
    locked_console.post("/login", data=form)
    assert "joan · viewer" in locked_console.get("/about", headers={"sec-fetch-site": "cross-site"}).text


def test_no_text_holds_a_nul(open_console) -> None:
    for path in ("/flow/a%00/x", "/history?by=%00", "/chunk/a/%00"):
        assert open_console.get(path).status_code == 400
    form = {"csrf": csrf_of(open_console), "why": "\0"}
    assert open_console.post("/act/hold", data=form).status_code == 400


@pytest.mark.parametrize("name", ["jo\x7fan", "jo\x9fan", "joan" * 33, "jo\u200ean", "joan\x1f", ""])
def test_a_name_that_cannot_be_shown_is_nobody_s(name) -> None:
    access = Access(_proxied(), ListenAddress("127.0.0.1", 8460), user="ada")
    sent = name.encode().decode("latin-1")
    assert access.visitor(Arrival({"x-user": sent}, "127.0.0.1", {}))[0].role == ""


def test_a_proxy_writes_names_in_utf_8() -> None:
    access = Access(_proxied(), ListenAddress("127.0.0.1", 8460), user="ada")
    found, _ = access.visitor(Arrival({"x-user": "jörg".encode().decode("latin-1")}, "127.0.0.1", {}))
    assert (found.name, found.role) == ("jörg", "admin")


def _proxied() -> Web:
    return Web(proxy=Proxy("X-User", (ip_network("127.0.0.1"),), {"joan": "admin", "jörg": "admin"}, "viewer"))


def test_a_store_that_was_taken_away_is_said_to_be_missing(tmp_path, open_console) -> None:
    """What is open has no name any more: nobody would ever see what is done there."""
    assert open_console.get("/history").status_code == 200
    form = {"csrf": csrf_of(open_console), "all": "1"}
    file = tmp_path / "dataflow.db"
    (tmp_path / "aside").mkdir()
    for part in tmp_path.glob("dataflow.db*"):
        part.rename(tmp_path / "aside" / part.name)
    for path in ("/", "/history", "/recovery", "/api/v1/status"):
        assert open_console.get(path).status_code == 503
    assert open_console.post("/act/hold", data=form).status_code == 503
    open_store(f"sqlite:///{file}", create=True).close()
    for _ in range(5):  # each connection finds out by itself, and is opened again
        open_console.get("/history")
    assert open_console.get("/history").status_code == 200
    assert open_console.get("/").status_code == 200


def test_two_headers_that_name_a_user_are_refused(tmp_path, url) -> None:
    (tmp_path / "dataflow.toml").write_text(
        '[store]\nurl = "sqlite:///dataflow.db"\n[web.proxy]\nheader = "X-Forwarded-User"\naddress = "127.0.0.1"\nrole = "viewer"\n',
        encoding="utf-8",
    )
    behind = console(tmp_path, url)
    twice = [("x-forwarded-user", "alice"), ("X-Forwarded-User", "mallory")]
    refused = behind.get("/about", headers=[("host", "127.0.0.1:8460"), *twice])
    assert (refused.status_code, "names its user twice" in refused.text) == (400, True)


def test_a_session_is_of_whoever_began_it_and_a_cookie_alone_is_no_proof() -> None:
    web = Web(tokens=(Token("joan", ADMIN, HASH),))
    access = Access(web, ListenAddress("127.0.0.1", 8460), user="me")
    victim = Arrival({}, "127.0.0.1", {}, "127.0.0.1 1000")
    begun = access.log_in(TOKEN, victim)
    assert begun is not None
    shown = victim._replace(cookies={access.cookie: begun[0]})
    assert access.visitor(shown)[0].name == "joan"
    access.leave_note(shown, "held 3 chunks")
    for peer in ("127.0.0.1 1001", "", "10.0.0.7"):
        stolen = shown._replace(peer=peer)
        assert access.visitor(stolen)[0].role == ""
        assert access.take_note(stolen) == ""
        access.log_out(stolen)
    assert access.take_note(shown) == "held 3 chunks"
    assert access.visitor(shown)[0].name == "joan", "a thief ends no session"
