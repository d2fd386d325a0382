"""Every page: for whoever cannot see it or has no mouse, on a phone, in both colours, and without JavaScript."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.support.browser import BROWSER, Console, Visit, axe_source, barriers, overflow, visiting
from tests.support.shell import Shell
from tests.support.shop import DAYS, FAILED, HELD, RECALLED, REFUSED, STALE

pytestmark = BROWSER
PHONE = {"viewport": {"width": 360, "height": 740}, "device_scale_factor": 2, "is_mobile": True, "has_touch": True}

PAGES = {
    "recovery": "/recovery",
    "about": "/about",
    "overview": "/",
    "overview of a month": f"/?from={DAYS[0][:7]}&to={DAYS[0][:7]}",
    "overview of nothing": "/?status=PENDING",
    "search": "/search?q=load",
    "search for nothing": "/search?q=nosuchthing",
    "flow": "/flow",
    "a node of the flow": "/flow?node=job:load",
    "the versions of a chunk": f"/flow/report/{DAYS[3]}",
    "chunk that failed": f"/chunk/loaded/{FAILED[0]}",
    "chunk that is READY": f"/chunk/report/{DAYS[3]}",
    "chunk that is stale": f"/chunk/report/{STALE}",
    "chunk that is held": f"/chunk/report/{HELD}",
    "chunk that was recalled": f"/chunk/orders/{RECALLED}",
    "chunk that was refused": f"/chunk/orders/{REFUSED}",
    "dataset": "/dataset/loaded",
    "dataset without a chunk": "/dataset/ticks",
    "history": "/history",
    "history of a dataset": "/history?dataset=loaded&kind=failed",
    "job": "/job/load",
    "job that never ran": "/job/crawl",
    "run that failed": "/run/{failed}",
    "timeline": "/timeline",
    "timeline by pool": "/timeline?since=1d&by=pool",
    "report": "/report",
    "chaos": "/chaos",
    "resubmit": f"/act/resubmit?dataset=loaded&dataid={FAILED[0]}",
    "recall": f"/act/recall?dataset=loaded&dataid={DAYS[3]}&cascade=1",
    "no such page": "/nowhere",
}


@pytest.fixture(scope="module")
def windows(chromium: Browser, console: Console) -> Iterator[dict[str, Visit]]:
    """One window for each way of looking, for all pages."""
    with (
        visiting(chromium, console, color_scheme="light") as light,
        visiting(chromium, console, color_scheme="dark") as dark,
        visiting(chromium, console, **PHONE) as phone,
        visiting(chromium, console, java_script_enabled=False) as plain,
    ):
        found = {"light": light, "dark": dark, "phone": phone, "plain": plain}
        for visit in found.values():
            visit.forgive("status of 404")
        yield found


@pytest.fixture(scope="module")
def failed(shop: Shell) -> str:
    """The number of a run that failed."""
    return str(shop.odf("sql", "select max(runid) as n from run where status = 'FAILED'", "--json").data[0]["n"])


# Both stores have the same pages, so that one of them has to do for the closer look.
@pytest.mark.parametrize("shell", ["sqlite"], indirect=True, scope="module")
@pytest.mark.parametrize("path", PAGES.values(), ids=PAGES)
def test_a_page_is_for_everybody(windows: dict[str, Visit], failed: str, path: str) -> None:
    axe, path = axe_source(), path.replace("{failed}", failed)
    headline = windows["phone"].open(path).locator("main h1").all_inner_texts()
    assert headline
    assert overflow(windows["phone"].page) == 0
    # Whoever has no JavaScript finds the same page.
    assert windows["plain"].open(path).locator("main h1").all_inner_texts() == headline
    assert barriers(windows["light"].open(path), axe) == []
    assert overflow(windows["light"].page) == 0
    assert barriers(windows["dark"].open(path), axe, "color-contrast") == []


@pytest.mark.postgres
@pytest.mark.parametrize("shell", ["postgres"], indirect=True, scope="module")
def test_every_page_opens_on_the_other_store_too(windows: dict[str, Visit], failed: str) -> None:
    for path in PAGES.values():
        page = windows["phone"].open(path.replace("{failed}", failed))
        expect(page.locator("main h1").first).to_be_visible()
        assert overflow(page) == 0


def test_a_phone_shows_all_pages_and_the_newest_chunks(chromium: Browser, console: Console) -> None:
    with visiting(chromium, console, **PHONE | {"viewport": {"width": 390, "height": 844}}) as visit:
        page = visit.open("/")
        for link in page.get_by_role("navigation", name="Pages").get_by_role("link").all():
            expect(link).to_be_in_viewport(ratio=1)
        hidden = """box => { const last = [...box.querySelectorAll("tbody tr:first-child td:not(.sum)")].pop().getBoundingClientRect();
            return last.right > box.getBoundingClientRect().right + 1; }"""
        boxes = page.locator(".heat:has(td)")
        assert any(box.evaluate("each => each.scrollWidth > each.clientWidth") for box in boxes.all())
        for box in boxes.all():
            assert not box.evaluate(hidden), box.inner_text()
