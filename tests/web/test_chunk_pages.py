"""The pages of a chunk and of a dataset, and the history: what they tell, and that what others wrote stays text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from opendataflow import Dataset, Manifest, Partition, Store
from opendataflow.store import open_store
from tests.support.console import console
from tests.support.flows import chain, claim_one, drain, dump

# They share one store, in this order.

EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>'\"&\x1b]0;x\x07"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("sheets")
    with open_store(f"sqlite:///{folder}/dataflow.db", create=True, who=f"{EVIL}@host:1") as store:
        chain(store)
        store.register(
            [
                Dataset(
                    "odd", kind="file", location=f"/x/{EVIL}/{{dataid}}", options={"description": EVIL, "owner": EVIL}
                )
            ]
        )
        store.register([Dataset("empty", partition=Partition("day"))])
        check: Any = {"check": EVIL, "kind": "sql", "passed": True, "figures": {EVIL: EVIL}}
        many = {
            str(n): Manifest(
                location=f"/x/{EVIL}",
                rows=n,
                bytes=n,
                schema=EVIL,
                span_lower=EVIL,
                span_upper=EVIL,
                fingerprint=f"{EVIL}{n}",
                format=EVIL,
                checks=(check,),
            )
            for n in range(1, 41)
        }
        store.announce("raw", list(many), manifests=many, why=EVIL)
        store.fail(claim_one(store, "make"), "JOB_FAILED", EVIL)
        drain(store, "make", "use")
        store.hold("product", ["2"], why=EVIL)
        store.recall("product", "3", why=EVIL)
        store.pause("use", why=EVIL)
        yield store


@pytest.fixture(scope="module")
def site(store: Store) -> TestClient:
    return console(Path(store.url.removeprefix("sqlite:///")).parent, store.url)


def words(answer: Any) -> str:
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", answer.text)).split())


PAGES = [
    *(f"/chunk/product/{n}" for n in (1, 2, 3, 4)),
    "/chunk/product/2?run=2",
    "/chunk/product/4?run=999",
    "/chunk/product/4?look=1",
    "/chunk/report/1",
    "/chunk/raw/5",
    "/chunk/raw/99",
    "/chunk/odd/x",
    "/dataset/raw",
    "/dataset/odd",
    "/dataset/empty",
    "/dataset/raw?status=FAILED",
    "/dataset/raw?before=20",
    "/history",
    "/history?dataset=product&dataid=1..3&kind=failed&status=FAILED",
    "/history?before=20",
]


@pytest.mark.parametrize("path", PAGES)
def test_what_others_wrote_is_text_and_a_look_writes_nothing(store: Store, site: TestClient, path: str) -> None:
    before = dump(store)
    answer = site.get(path)
    assert answer.status_code == 200
    assert "<script>alert" not in answer.text
    assert "<img src=x" not in answer.text
    assert "\x1b" not in answer.text
    assert not re.search(r'<[a-z][^>]*\s(style|on[a-z]+)="', answer.text)
    assert dump(store) == before


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/chunk/nosuch/1", 404),
        ("/chunk/raw/x", 400),
        ("/chunk/raw/1?run=x", 400),
        ("/chunk/raw/%3Cscript%3E", 400),
        ("/dataset/nosuch", 404),
        ("/dataset/%3Cscript%3E", 404),
        ("/dataset/raw?status=nosuch", 400),
        ("/dataset/raw?before=x", 400),
        ("/history?since=nonsense", 400),
        ("/history?dataset=nosuch", 404),
        ("/history?kind=nosuch", 400),
        ("/history?before=0", 400),
        ("/history?status=%3Cscript%3Ealert(1)%3C/script%3E", 400),
    ],
)
def test_bad_addresses_are_answered_in_words(site: TestClient, path: str, code: int) -> None:
    answer = site.get(path)
    assert answer.status_code == code
    assert "<script>" not in answer.text


def test_a_failed_chunk_says_why_and_offers_to_heal_it(site: TestClient) -> None:
    answer = site.get("/chunk/product/1")
    told = words(answer)
    assert "✗ FAILED" in told
    assert "stays FAILED until it is resubmitted" in told
    assert "the last attempt failed; stays FAILED until it is resubmitted" in told
    assert not re.search(r"(?<![.\d])0 s(?! ago)", told), "an attempt is as exact as on the page of its run"
    assert "/act/resubmit?next=%2Fchunk%2Fproduct%2F1&amp;dataset=product&amp;dataid=1" in answer.text
    assert "DATA_NOT_READY" in told
    assert "1 chunk waits behind it: report 1 by use" in told
    preview = words(site.get("/act/resubmit?dataset=product&dataid=1"))
    assert "1 chunk waits for it; downstream job: use." in preview


def test_the_answers_of_a_past_attempt_can_be_chosen(site: TestClient) -> None:
    answer = site.get("/chunk/product/1")
    run = re.search(r'href="(/chunk/product/1\?run=\d+)#questions"', answer.text)
    assert run is not None
    assert "as answered for run" in words(site.get(run[1]))


def test_what_is_not_there_says_so_and_why(site: TestClient) -> None:
    told = words(site.get("/chunk/raw/99"))
    assert "never produced" in told
    assert "comes from outside, and nobody announced it so far" in told
    assert "odf ready raw 99" in told


def test_a_viewer_sees_no_buttons(store: Store, tmp_path: Path) -> None:
    viewer = console(tmp_path, store.url, read_only=True)
    text = viewer.get("/chunk/product/1").text
    assert "/act/" not in text
    assert "This console is read-only: you may look." in text


def test_chunks_of_a_dataset_come_page_by_page(site: TestClient) -> None:
    answer = site.get("/dataset/raw")
    older = re.search(r'rel="next" href="([^"#]+)', answer.text)
    assert older is not None
    met = re.findall(r'href="/chunk/raw/(\d+)"', answer.text + site.get(unescape(older[1])).text)
    assert set(met) == {str(n) for n in range(1, 41)}


def test_history_is_chosen_by_the_words_of_the_address(site: TestClient) -> None:
    told = words(site.get("/history?dataset=product&dataid=2"))
    assert "held" in told
    assert "product 3" not in told
    assert "job paused" in words(site.get("/history?kind=paused"))
    assert "Nothing like that happened" in words(site.get("/history?by=nobody"))
    answer = site.get("/history")
    older = re.search(r'rel="next" href="([^"]+)"', answer.text)
    assert older is not None
    assert site.get(unescape(older[1])).status_code == 200


def test_all_that_failed_can_be_healed_at_once(site: TestClient) -> None:
    link = re.search(r'data-act href="([^"]+)">Resubmit all', site.get("/dataset/product?status=FAILED").text)
    assert link is not None
    assert "product 1 becomes RESUBMIT" in words(site.get(unescape(link[1])))


def test_two_versions_are_compared(store: Store, site: TestClient) -> None:
    store.announce("raw", ["40"], manifests={"40": Manifest(rows=7, fingerprint="another", schema="a INT")})
    told = words(site.get("/chunk/raw/40?compare=1"))
    assert "Version 2 against version 1" in told
    assert "The content differs" in told
    assert site.get("/chunk/raw/40?compare=9").status_code == 400


def test_a_corrected_delivery_is_followed_and_healed_at_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/dataflow.db"
    with open_store(url, create=True, who="ada@host:1") as store:
        chain(store)
        for content in ("a", "b"):
            store.announce("raw", ["1"], manifests={"1": Manifest(fingerprint=content)})
            drain(store, *(("make", "use") if content == "a" else ()))
    site = console(tmp_path, url)
    answer = site.get("/chunk/raw/1")
    assert "2 chunks at any distance, 2 of them" in words(answer)
    assert 'href="/chunk/report/1"' in answer.text
    link = re.search(r'data-act href="([^"]+)">Make what is stale again', answer.text)
    assert link is not None
    assert "2 chunks become RESUBMIT" in words(site.get(unescape(link[1])))
    link = re.search(r'data-act href="([^"]+)">Make them again', site.get("/").text)
    assert link is not None
    assert "2 chunks become RESUBMIT" in words(site.get(unescape(link[1])))
    stale = site.get("/chunk/product/1")
    assert "Make it again" not in stale.text
    assert stale.text.count(">Resubmit<") == 1


def test_a_chunk_that_is_not_there_says_whether_it_was_refused_or_is_missing(site: TestClient, store: Store) -> None:
    expected = Partition("day", start="2026-11-01", end="2026-11-03")
    store.register([Dataset("awaited", partition=expected, options={"expected": True})])
    store.refuse_arrival("awaited", "2026-11-02", "WRONG_DATA", "it has 0 rows")
    refused, missing = (site.get(f"/chunk/awaited/{day}") for day in ("2026-11-02", "2026-11-01"))
    assert re.search(r'class="badges">\s*<span class="status status-REFUSED"', refused.text)
    assert re.search("Why it is not there REFUSED it came at .*: WRONG_DATA: it has 0 rows", words(refused))
    assert "nobody announced it" not in words(refused)
    assert re.search(r'class="badges">\s*<span class="status status-MISSING"', missing.text)
    assert "Why it is not there MISSING" in words(missing)
    assert "never produced" in words(site.get("/chunk/empty/2026-11-02"))


def test_events_are_told_in_the_words_of_the_history(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/dataflow.db"
    with open_store(url, create=True, who="ada@host:1") as store:
        chain(store)
        store.announce("raw", ["1"])
        claim = claim_one(store, "make")
        store.admit(claim, claim.receipt)
    told = words(console(tmp_path, url).get("/chunk/product/1"))
    assert "allowed to run" in told
    assert "admitted" not in told
