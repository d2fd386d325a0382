"""The overview: incidents first, the matrix to zoom into, filters in the address, what runs, pools and their dial."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from opendataflow import Pool, Store
from opendataflow.web.kept import CachedAnswer, Kept
from opendataflow.web.site import Site
from tests.support.console import SITES, console, csrf_of
from tests.support.flows import chain, change, claim_one, dataset, drain, fold_in

DAYS = [f"2026-{month:02d}-{day:02d}" for month in range(2, 5) for day in range(1, 16)]
NASTY = "<script>alert(1)</script>\"'&\x1b[31m"
_SHORT = 300_000  # characters of a page


class Links(HTMLParser):
    """The addresses of a page, by what they are called."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: dict[str, str] = {}
        self._href = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self._href = (given.get("href") or "") if tag == "a" else ""
        if self._href and given.get("aria-label"):
            self.found[str(given["aria-label"])] = self._href

    def handle_data(self, data: str) -> None:
        if self._href and data.strip():
            self.found.setdefault(data.strip(), self._href)


@pytest.fixture
def flow(store: Store) -> Store:
    """raw → make → product → use → report by day, 45 days of it, in a pool."""
    chain(store, partition="day", pools=[Pool("etl", 4, {})], pool="etl")
    store.announce("raw", DAYS)
    drain(store, "make", "use")
    return store


@pytest.fixture
def look(tmp_path: Path, store_url: str) -> Callable[..., str]:
    """The text of a page."""
    client: list[TestClient] = []

    def get(path: str = "/", status: int = 200) -> str:
        client[:] = client or [console(tmp_path, store_url)]
        SITES[-1].kept.forget()
        answer = client[0].get(path)
        assert answer.status_code == status
        return answer.text

    return get


def section(text: str, name: str) -> str:
    """The part of a page with this id."""
    found = re.search(rf'<(section|div) id="{name}".*?(?=<section|</main>)', text, re.DOTALL)
    assert found is not None
    return found[0]


def words(text: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", text).split())


def test_an_empty_store_says_how_to_begin(store: Store, look: Callable[..., str]) -> None:
    text = look()
    assert "no datasets and no jobs yet" in text
    assert "odf init" in text
    assert "Nothing runs." in text
    assert "There is no pool" in text
    assert "odf init" in look("/history")
    store.register([dataset("raw")])
    assert "odf ready DATASET DATAID" in look("/history")


def test_an_empty_store_beside_a_project_file_begins_with_apply(
    store: Store, look: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "dataflow.toml").write_text("[dataset.raw]\n")
    for path in ("/", "/history"):
        text = look(path)
        assert "odf apply" in text
        assert "odf init" not in text  # which refuses a folder with a dataflow.toml


def test_where_nothing_is_wrong_nothing_needs_anybody(flow: Store, look: Callable[..., str]) -> None:
    assert "Nothing needs you." in section(look(), "incidents")


def test_a_project_without_a_chunk_says_so(store: Store, look: Callable[..., str]) -> None:
    chain(store)
    text = words(section(look(), "matrix"))
    assert "There is no chunk yet" in text
    assert "Without a chunk: raw , product , report" in text


def test_incidents_come_first_each_with_its_count_age_and_what_waits(flow: Store, look: Callable[..., str]) -> None:
    flow.announce("raw", ["2026-07-01", "2026-07-02"])
    for _ in range(2):
        flow.fail(claim_one(flow, "make"), detail="no space left on /scratch")
    text = look()
    assert (
        text.index('id="incidents"') < text.index('id="matrix"') < text.index('id="going"') < text.index('id="pools"')
    )
    told = words(section(text, "incidents"))
    assert "FAILED 2 chunks of product" in told
    assert " ago 2 wait behind" in told
    assert "JOB_FAILED no space left on /scratch" in told
    links = Links(section(text, "incidents")).found
    assert links["product 2026-07-01"] == "/chunk/product/2026-07-01"
    assert links["Recover"] == "/recovery?cause=1"


def test_a_cell_leads_into_its_month_and_there_to_its_chunk_and_back(flow: Store, look: Callable[..., str]) -> None:
    change(flow, "product", "2026-03-05", "FAILED")
    fold_in(flow)
    above = Links(look()).found
    assert above["2026-03: 1 FAILED of 15"] == "?from=2026-03&to=2026-03"
    assert above["look into 2026-03"] == "?from=2026-03&to=2026-03"
    text = look("/?from=2026-03&to=2026-03")
    below = Links(text).found
    assert below["2026-03-05: FAILED"] == "/chunk/product/2026-03-05"
    assert (below["Everything"], below["2026"]) == ("/", "?from=2026&to=2026")
    assert (below["‹ 2026-02"], below["2026-04 ›"]) == ("?from=2026-02&to=2026-02", "?from=2026-04&to=2026-04")


def test_every_status_has_a_sign_and_a_word_and_stale_is_marked(flow: Store, look: Callable[..., str]) -> None:
    flow.resubmit("product", ["2026-03-05"])
    drain(flow, "make")
    flow.hold("raw", ["2026-03-07"])
    text = look("/?from=2026-03&to=2026-03")
    assert 'aria-label="2026-03-05: READY, stale">●<i>≠</i>' in text
    assert 'aria-label="2026-03-07: HOLD">‖' in text
    legend = words(text[text.index('class="legend"') :])
    assert "● READY" in legend
    assert "‖ HOLD" in legend
    assert "≠ stale: made from an older version" in legend


def test_filters_live_in_the_address_and_stay_when_somebody_zooms(flow: Store, look: Callable[..., str]) -> None:
    text = look("/?text=rod&status=ready")
    assert 'name="text" value="rod"' in text
    assert "<option selected>READY</option>" in text
    assert Links(text).found["look into 2026-02"] == "?status=ready&text=rod&from=2026-02&to=2026-02"
    rows = re.findall(r'<th scope="row"><a href="/dataset/(\w+)"', text)
    assert rows == ["product"]
    assert re.findall(r'<th scope="row"><a href="/dataset/(\w+)"', look("/?job=use")) == ["product", "report"]
    assert "No chunk is like this." in look("/?status=HOLD")


@pytest.mark.parametrize(
    ("query", "status", "told"),
    [
        ("dataset=nosuch", 404, "there is no dataset nosuch"),
        ("job=nosuch", 404, "there is no job nosuch"),
        ("status=purple", 400, "is not a status"),
        ("from=never", 400, "no dataset has dataids like never"),
        ("from=../../etc", 400, "cannot be a dataid"),
    ],
)
def test_a_filter_that_means_nothing_is_named_and_the_rest_stays(
    flow: Store, look: Callable[..., str], query: str, status: int, told: str
) -> None:
    text = look(f"/?{query}", status)
    assert told in words(text)
    assert "Nothing needs you." in text


def test_odd_addresses_do_no_harm(flow: Store, look: Callable[..., str]) -> None:
    for query in ("start=-1", "start=999999999999", "start=x", "incidents=all", "text=%1b", "from=" + "9" * 500):
        look(f"/?{query}", 400 if query.startswith("from") else 200)


def test_what_others_wrote_is_text(flow: Store, look: Callable[..., str]) -> None:
    flow.announce("raw", ["2026-07-01"])
    flow.fail(claim_one(flow, "make"), detail=NASTY)
    flow.pause("use", why=NASTY)
    text = look("/?text=%3Cscript%3Ealert(2)")
    for page in (text, look(), look("/?dataset=%3Cscript%3E", 404)):
        assert "<script>alert" not in page
        assert "\x1b" not in page
    assert "&lt;script&gt;alert(2)" in text


def test_a_thousand_datasets_are_paged_and_no_page_is_heavy(store: Store, look: Callable[..., str]) -> None:
    names = [f"dataset_with_a_name_that_is_rather_long_{n:04d}" for n in range(1000)]
    store.register([dataset(name, "day") for name in names])
    for name in names[:120]:
        store.announce(name, DAYS)
    text = look()
    assert len(text) < _SHORT
    assert "120 datasets, here 1 to" in words(text)
    assert "and 860 more" in words(text)
    following = Links(text).found["next datasets →"]
    shown = re.findall(r'<th scope="row"><a href="/dataset/(\w+)"', text)
    other = re.findall(r'<th scope="row"><a href="/dataset/(\w+)"', look(following))
    assert not {*shown} & {*other}
    assert len(look("/?from=2026-02&to=2026-02")) < _SHORT


def test_what_runs_is_shown_with_its_job_and_chunk(flow: Store, look: Callable[..., str]) -> None:
    flow.announce("raw", ["2026-07-01"])
    claim = claim_one(flow, "make")
    told = section(look(), "going")
    assert f'href="/run/{claim.runid}"' in told
    assert 'href="/chunk/product/2026-07-01"' in told
    assert words(told).startswith("Now 1 running 0 could start")


def test_the_dial_sets_the_slots_of_a_pool(
    flow: Store, tmp_path: Path, store_url: str, open_again: Callable[..., Store]
) -> None:
    client = console(tmp_path, store_url)
    text = section(client.get("/").text, "pools")
    assert '<form class="dial" method="get" action="/act/pool" data-act>' in text
    assert 'value="4"' in text
    assert "csrf" not in text
    asked = client.get("/act/pool?pool=etl&next=%2F&slots=0").text
    assert "Slots of pool etl: 0 (paused); before: 4" in asked
    assert 'name="why"' in asked
    assert "Pool etl has 4 slots already" in client.get("/act/pool?pool=etl").text
    assert open_again().catalogue().pools["etl"].slots == 4, "a look changes nothing"
    form = {"csrf": csrf_of(client), "pool": "etl", "slots": "7", "next": "/"}
    answer = client.post("/act/pool", data=form, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert 'value="7"' in client.get("/").text
    assert open_again().catalogue().pools["etl"].slots == 7


def test_a_pool_without_slots_needs_somebody_and_its_history_names_it(
    flow: Store, look: Callable[..., str], open_again: Callable[..., Store]
) -> None:
    open_again().set_pool(Pool("etl", 0), why="a release")
    told = section(look(), "incidents")
    assert "PAUSED pool etl of make , use" in words(told)
    assert 'data-act href="/act/pool?next=%2F&amp;pool=etl"' in told
    assert ">pool etl</a>" in section(look("/history"), "events")


def test_who_may_only_look_sees_no_dial(flow: Store, tmp_path: Path, store_url: str) -> None:
    client = console(tmp_path, store_url, read_only=True)
    text = section(client.get("/").text, "pools")
    assert "0 of 4 taken" in words(text)
    assert "<form" not in text


# What is kept for a moment -------------------------------------------------------------------------------------------


class Clock:
    """A clock that stands still until somebody moves it."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def answered(kept: Kept, site: Site, key: object, find: Callable[[Store], int | float]) -> CachedAnswer[int | float]:
    """What one page gets."""
    with kept.look(site) as look:
        return look.answer(key, find)


@pytest.fixture
def site(flow: Store, tmp_path: Path, store_url: str) -> Site:
    console(tmp_path, store_url)
    return SITES[-1]


def test_an_answer_is_found_again_when_something_happened_and_time_has_passed(site: Site, flow: Store) -> None:
    clock = Clock()
    kept = Kept(clock)
    looks: list[int] = []

    def find(store: Store) -> int:
        looks.append(store.views.newest_event())
        clock.now += 0.01  # it took so long
        return len(looks)

    assert answered(kept, site, "x", find).value == 1
    flow.hold("raw", ["2026-03-07"])
    clock.now += 0.9
    old = answered(kept, site, "x", find)
    assert (old.value, round(old.seconds, 1), old.again > 0) == (1, 0.9, True)
    clock.now += 0.2
    assert answered(kept, site, "x", find).value == 2
    clock.now += 4
    assert answered(kept, site, "x", find).value == 2, "nothing happened"
    clock.now += 2
    assert answered(kept, site, "x", find).value == 3, "a change by SQL tells nobody"
    assert answered(kept, site, "y", find).value == 4
    kept.forget()
    assert answered(kept, site, "x", find).value == 5


def test_a_page_that_was_told_of_a_change_knows_that_its_answer_is_older(site: Site, flow: Store) -> None:
    clock = Clock()
    kept = Kept(clock)
    assert answered(kept, site, "x", lambda store: 1).again == 0
    flow.hold("raw", ["2026-03-07"])
    kept.noticed(flow.views.newest_event())
    clock.now += 0.1
    told = answered(kept, site, "x", lambda store: 2)
    assert (told.value, round(told.again, 1)) == (1, 0.9)
    clock.now += told.again + 0.1
    assert answered(kept, site, "x", lambda store: 2).value == 2


def test_what_takes_long_is_looked_for_less_often(site: Site, flow: Store) -> None:
    clock = Clock()
    kept = Kept(clock)

    def find(store: Store) -> float:
        clock.now += 0.5
        return clock.now

    first = answered(kept, site, "x", find).value
    flow.hold("raw", ["2026-03-07"])
    clock.now += 4.5
    answer = answered(kept, site, "x", find)
    assert (answer.value, round(answer.again, 1)) == (first, 0.5)
    clock.now += 0.6
    assert answered(kept, site, "x", find).value > first


def test_whoever_acts_here_sees_it_at_once(site: Site) -> None:
    answered(site.kept, site, "x", lambda store: 1)
    with site.acting("ada") as store:
        store.hold("raw", ["2026-03-07"])
    assert answered(site.kept, site, "x", lambda store: 2).value == 2


def test_a_question_that_fails_keeps_nothing(site: Site) -> None:
    def fail(store: Store) -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        answered(site.kept, site, "x", fail)
    assert answered(site.kept, site, "x", lambda store: 1).value == 1


def test_of_very_many_answers_the_oldest_go(site: Site) -> None:
    for n in range(150):
        answered(site.kept, site, n, lambda store, n=n: n)  # type: ignore[misc]
    assert answered(site.kept, site, 149, lambda store: -1).value == 149
    assert answered(site.kept, site, 0, lambda store: -1).value == -1


def test_what_somebody_typed_is_shown_as_the_next_claim_would_find_it(flow: Store, look: Callable[..., str]) -> None:
    change(flow, "product", "2026-03-05", "FAILED")
    text = look()
    assert "1 chunk" in section(text, "incidents")
    assert "1 change typed as SQL is pending: the next claim applies it" in words(text)
    assert flow.sql("select count(*) from note")[1] == [(1,)], "a look writes nothing"


def test_very_many_pools_are_cut(store: Store, look: Callable[..., str]) -> None:
    store.register(pools=[Pool(f"pool_{n:04d}", n, {}) for n in range(300)])
    text = look()
    assert "and 276 more" in words(section(text, "pools"))
    assert len(text) < _SHORT
