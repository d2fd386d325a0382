"""The API of the console: it answers what the command line answers, in the form that it promises, and a look changes nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from starlette.testclient import TestClient

from opendataflow import Pool, Store
from opendataflow.cli.door import open_door
from opendataflow.project.web import new_token
from opendataflow.store import open_store
from opendataflow.web.api.description import description
from tests.support.console import console, csrf_of
from tests.support.flows import chain, claim_one, dump, put
from tests.support.odf import Answer

TOKENS = {role: new_token() for role in ("viewer", "operator", "admin")}
ABOUT = ("project", "environment", "store")


def fill(store: Store) -> None:
    """raw → make → product → use → report, with what a flow meets: failed, running, stale, held, recalled, typed by hand."""
    chain(store, pools=[Pool("etl", 2)], pool="etl")
    store.announce("raw", [str(n) for n in range(1, 9)])
    store.fail(claim_one(store, "make"), outcome="JOB_FAILED", detail="disk 7 is full")
    for claim in store.claim("make", 3):
        store.commit(claim)
    store.commit(claim_one(store, "use"))
    store.announce("raw", ["2"], again=True)
    store.recall("product", "3", why="half of it is missing")
    claim_one(store, "make")
    store.hold("raw", ["8"], why="the vendor sends it again")
    store.pause("use", why="repairs")
    put(store, "raw", "x", "READY")


@pytest.fixture
def folder(tmp_path: Path, store_url: str) -> Path:
    """A project whose console asks for tokens, and its store."""
    (tmp_path / "shop").mkdir()
    text = '[project]\nname = "shop"\ntimezone = "Europe/Berlin"\n'
    for role, (_, hash) in TOKENS.items():
        text += f'[web.token.{role}-1]\nrole = "{role}"\nhash = "{hash}"\n'
    (tmp_path / "shop/dataflow.toml").write_text(text)
    with open_store(store_url, create=True, who="ann@here:1") as store:
        fill(store)
    return tmp_path / "shop"


@pytest.fixture
def api(folder: Path, store_url: str) -> Callable[..., TestClient]:
    """The console for whoever has a token of this role."""

    def open_it(role: str = "viewer", **settings: Any) -> TestClient:
        return console(folder, store_url, headers={"authorization": f"Bearer {TOKENS[role][0]}"}, **settings)

    return open_it


@pytest.fixture
def odf(
    folder: Path, store_url: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., Any]:
    """The command line in the same folder, on the same store: what it answers as JSON."""
    for name in [name for name in os.environ if name.startswith(("ODF_", "PASSKEY"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("ODF_STORE", store_url)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(folder)

    def call(*arguments: str) -> Any:
        capfd.readouterr()
        answer = Answer(open_door([*arguments, "--json"]), *capfd.readouterr())
        assert answer.code in (0, 1, 2), answer
        return answer.data

    return call


def without(facts: Any, *names: str) -> Any:
    return {name: value for name, value in facts.items() if name not in names} if isinstance(facts, dict) else facts


def follows(schema: dict[str, Any], facts: object) -> None:
    """Whether facts are what the description promises."""
    whole = {**schema, "components": description()["components"]}
    jsonschema.Draft202012Validator(whole).validate(facts)


SAME = [
    ("/status", ["status"], ""),
    ("/status?dataset=raw&from=2&to=5", ["status", "raw", "--from", "2", "--to", "5"], ""),
    ("/status?status=FAILED", ["status", "--status", "FAILED"], ""),
    ("/chunks?n=1000", ["status", "--chunks"], "chunks"),
    ("/chunks?dataset=product&status=READY", ["status", "product", "--chunks", "--status", "READY"], "chunks"),
    ("/datasets", ["datasets"], "datasets"),
    ("/datasets/product", ["datasets", "product"], ""),
    ("/datasets/product/flow", ["lineage", "product"], ""),
    ("/jobs", ["jobs"], "jobs"),
    ("/jobs/make", ["jobs", "make"], ""),
    ("/jobs/use/why", ["why", "use"], ""),
    ("/jobs/make/why/1", ["why", "make", "1"], ""),
    ("/chunks/product/1", ["explain", "product", "1"], ""),
    ("/chunks/product/2", ["explain", "product", "2"], ""),
    ("/chunks/product/3", ["explain", "product", "3"], ""),
    ("/chunks/product/2/lineage", ["lineage", "product", "2"], ""),
    ("/chunks/raw/2/impact", ["impact", "raw", "2"], ""),
    ("/runs", ["runs"], "runs"),
    ("/runs?job=make&failed=true", ["runs", "make", "--failed"], "runs"),
    ("/history?n=1000", ["history", "-n", "1000"], ""),
    ("/history?dataset=product&dataid=1..2&kind=failed", ["history", "product", "1..2", "--kind", "failed"], ""),
    ("/history?downstream_of=raw:2&by=ann", ["history", "--downstream-of", "raw:2", "--by", "ann"], ""),
    ("/late", ["late"], ""),
    ("/recovery", ["recover"], ""),
    ("/recovery?cause=1", ["recover", "--cause", "1"], ""),
    ("/report?since=2001-01-01&until=2002-01-01", ["report", "--since", "2001-01-01", "--until", "2002-01-01"], ""),
    ("/pools", ["pool"], "pools"),
]


def test_the_api_answers_what_the_command_line_does(api, odf) -> None:
    client = api()
    for path, words, part in SAME:
        told = client.get(f"/api/v1{path}")
        assert told.status_code == 200, told.text
        expected = without(odf(*words), *ABOUT)
        found = told.json()[part] if part else without(told.json(), "next", *ABOUT)
        assert found == expected, path


def sample(path: str) -> str:
    """An address of a thing that is there."""
    found = path.format(dataset="product", dataid="2", job="make", run=1)
    needed = {"/log/search": "?text=disk", "/v1/search": "?text=prod", "/flow/chunks": "?node=product"}
    return found + next((query for end, query in needed.items() if path.endswith(end)), "")


def looks() -> list[str]:
    return [path for path, operations in description()["paths"].items() if "get" in operations]


def test_every_look_answers_as_described_and_changes_nothing(api, store_url) -> None:
    client = api()
    with open_store(store_url) as store, store.looking():  # folds in what was typed, as the first look would
        before = dump(store)
        for path in looks():
            told = client.get(sample(path))
            documented = description()["paths"][path]["get"]["responses"]
            assert str(told.status_code) in documented, (path, told.text)
            follows(documented[str(told.status_code)]["content"]["application/json"]["schema"], told.json())
            for method in ("post", "put", "delete", "patch"):
                assert getattr(client, method)(sample(path)).status_code in (404, 405), path
        assert dump(store) == before


def test_pages_follow_each_other(api) -> None:
    client = api()
    for path, cursor, name, key in (
        ("/runs", "before", "runs", "runid"),
        ("/history", "before", "events", "eventid"),
        ("/chunks", "after", "chunks", "dataid"),
    ):
        whole = client.get(f"/api/v1{path}", params={"n": 1000}).json()
        found, after = [], None
        while True:
            page = client.get(f"/api/v1{path}", params={"n": 2} | ({cursor: after} if after is not None else {})).json()
            found += page[name]
            after = page["next"]
            if after is None:
                break
        assert found == whole[name], path
        assert len(found) > 2, key


WRONG = [
    ("/nope", 404, "NO_SUCH_PAGE"),
    ("/jobs/nope", 404, "UNKNOWN_JOB"),
    ("/datasets/nope", 404, "UNKNOWN_DATASET"),
    ("/chunks/nope/1", 404, "UNKNOWN_DATASET"),
    ("/runs/999", 404, "UNKNOWN_RUN"),
    ("/runs/x", 400, "USAGE"),
    ("/runs?n=1001", 400, "USAGE"),
    ("/runs?n=0", 400, "USAGE"),
    ("/runs?before=99999999999999999999999", 400, "USAGE"),
    ("/history?wrong=1", 400, "USAGE"),
    ("/history?kind=nope", 400, "USAGE"),
    ("/history?status=nope", 400, "UNKNOWN_STATUS"),
    ("/history?by=%00", 400, "USAGE"),
    ("/status?at=never", 400, "BAD_TIME"),
    ("/status?at=2999-01-01", 400, "BAD_TIME"),
    ("/chunks/product/%2e%2e", 400, "USAGE"),
    ("/recovery?cause=77", 400, "USAGE"),
]


def test_what_is_wrong_is_told_by_name(api) -> None:
    client = api()
    for path, status, error in WRONG:
        told = client.get(f"/api/v1{path}")
        assert (told.status_code, told.json()["error"]) == (status, error), (path, told.text)
        assert set(told.json()) == {"error", "message", "hint"}


DEEDS = [
    ("resubmit", {"status": ["FAILED"], "why": "again"}, "operator", "resubmitted"),
    ("resubmit", {"stale": True, "all": True}, "operator", "resubmitted"),
    ("hold", {"dataset": ["raw"], "dataid": ["7"]}, "operator", "held"),
    ("release", {"dataset": ["raw"], "dataid": ["8"]}, "operator", "released"),
    ("fail", {"dataset": ["product"], "dataid": ["4"]}, "operator", "failed"),
    ("forget", {"dataset": ["product"], "dataid": ["1"]}, "admin", "forgotten"),
    ("recall", {"dataset": "product", "dataid": "2", "why": "bad"}, "admin", "recalled"),
    ("cancel", {"job": "make"}, "operator", "cancelled"),
    ("pause", {"job": "make", "why": "later"}, "operator", "paused"),
    ("resume", {"job": "use"}, "operator", "resumed"),
    ("pool", {"pool": "etl", "slots": 0}, "operator", None),
    ("recover", {"why": "over"}, "operator", "resubmitted"),
]


@pytest.mark.parametrize(("verb", "body", "role", "kind"), DEEDS, ids=[f"{each[0]} {each[1]}" for each in DEEDS])
def test_a_verb_is_tried_done_and_told_of_under_the_visitors_name(
    api, store_url, verb: str, body: dict[str, Any], role: str, kind: str | None
) -> None:
    schema = description()["paths"][f"/api/v1/verbs/{verb}"]["post"]["responses"]["200"]["content"]
    with open_store(store_url) as store, store.looking():  # folds in what was typed, as the first look would
        before, newest = dump(store), store.views.newest_event()
        lower = {"operator": "viewer", "admin": "operator"}[role]
        refused = api(lower).post(f"/api/v1/verbs/{verb}", json=body)
        assert (refused.status_code, refused.json()["error"]) == (403, "FORBIDDEN")
        read_only = api("admin", read_only=True).post(f"/api/v1/verbs/{verb}", json=body)
        assert read_only.status_code == 403
        tried = api(role).post(f"/api/v1/verbs/{verb}", json=body | {"dry_run": True})
        assert tried.status_code == 200, tried.text
        follows(schema["application/json"]["schema"], tried.json())
        assert dump(store) == before
        done = api(role).post(f"/api/v1/verbs/{verb}", json=body)
        assert done.status_code == 200, done.text
        follows(schema["application/json"]["schema"], done.json())
        events = store.views.events(after=newest)
        assert {event.who.partition("@")[0] for event in events if event.who and event.kind != "sql"} == {f"{role}-1"}
        assert kind is None or kind in {event.kind for event in events}


SENSELESS: list[tuple[str, Any]] = [
    ("resubmit", {}),
    ("resubmit", {"everything": True}),
    ("resubmit", []),
    ("hold", {"dataid": ["1"]}),
    ("hold", {"dataset": ["raw"], "dataid": ["../x"]}),
    ("recall", {"dataset": "product", "dataid": "2"}),
    ("recall", {"dataset": "product", "dataid": "2", "why": " "}),
    ("cancel", {}),
    ("cancel", {"run": 1, "job": "make"}),
    ("pool", {"pool": "etl", "slots": -1}),
    ("pause", {"job": "make", "why": "x\u0000"}),
]


def test_an_order_that_makes_no_sense_is_refused(api, store_url) -> None:
    client = api("admin")
    with open_store(store_url) as store, store.looking():  # folds in what was typed, as the first look would
        before = dump(store)
        for verb, body in SENSELESS:
            told = client.post(f"/api/v1/verbs/{verb}", json=body)
            assert (told.status_code, set(told.json())) == (400, {"error", "message", "hint"}), (verb, body, told.text)
        for content in (b"{", b"\xff\xfe", b"[" * 100_000, b""):
            told = client.post("/api/v1/verbs/hold", content=content, headers={"content-type": "application/json"})
            assert (told.status_code, set(told.json())) == (400, {"error", "message", "hint"}), told.text
        assert dump(store) == before


def test_a_browser_session_needs_its_csrf_header(tmp_path: Path, store_url: str) -> None:
    with open_store(store_url, create=True) as store:
        fill(store)
    client = console(tmp_path, store_url)
    token, order = csrf_of(client), {"dataset": ["raw"], "dataid": ["7"]}
    assert client.post("/api/v1/verbs/hold", json=order).status_code == 403
    assert client.post("/api/v1/verbs/hold", json=order, headers={"x-odf-csrf": token[:-1]}).status_code == 403
    assert client.post("/api/v1/verbs/hold", json=order | {"csrf": token}).status_code == 403
    assert client.post("/api/v1/verbs/hold", json=order, headers={"x-odf-csrf": token}).status_code == 200


def test_the_description_is_served_and_names_every_error(api) -> None:
    told = api().get("/api/v1/openapi.json").json()
    assert told == description()
    for path, operations in told["paths"].items():
        for method, operation in operations.items():
            assert operation["summary"], path
            expected = {"200", "400", "401", "404", "409", "503"} | ({"403", "413"} if method == "post" else set())
            assert set(operation["responses"]) == expected


def test_nobody_lifts_a_limit_by_leaving_a_word_out(api, store_url) -> None:
    client = api("operator")
    for order in ({"pool": "etl"}, {"pool": "etl", "slots": True}, {"pool": "etl", "slots": "3"}):
        assert client.post("/api/v1/verbs/pool", json=order).status_code == 400
    with open_store(store_url) as store:
        assert store.catalogue().pools["etl"].slots == 2
    assert client.post("/api/v1/verbs/pool", json={"pool": "etl", "slots": None}).json()["slots"] is None
