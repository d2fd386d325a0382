"""A store with very many chunks: every page stays small, and the matrix is walked from months to single chunks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from bench._forensics import dataid_of, filled, hours_of
from tests.support.browser import BROWSER, Console, Visit
from tests.support.shell import Shell

pytestmark = [*BROWSER, pytest.mark.slow]

# A million takes minutes to fill: bench/console.py has them.
CHUNKS = {"sqlite": 100_000, "postgresql": 20_000}
MOST_ELEMENTS = 8000


@pytest.fixture(scope="module")
def chunks(shell: Shell) -> int:
    return CHUNKS[str(shell.store_url).partition(":")[0]]


@pytest.fixture(scope="module")
def console(chromium: Browser, shell: Shell, chunks: int) -> Iterator[Console]:
    """A console without a project, on a store with a long past."""
    filled(str(shell.store_url), chunks).close()
    serving = Console(shell)
    yield serving
    serving.stop()
    assert "Traceback" not in serving.log, serving.log


def elements(page: Page) -> int:
    found: int = page.evaluate("document.querySelectorAll('*').length")
    return found


def test_the_matrix_is_walked_from_months_to_a_chunk_and_back(visit: Visit, chunks: int) -> None:
    hours = hours_of(chunks)
    hour = dataid_of(hours // 2 // 20 * 20 + 7, hours)
    day, month = hour[:10], hour[:7]
    page = visit.open("/?text=joined_3")
    whole = page.locator("#matrix caption").inner_text()
    if "month" in whole:  # as many hours as it takes for that
        page.get_by_role("link", name=f"look into {month}", exact=True).click()
    expect(page.locator("#matrix")).to_contain_text("A cell is one day")
    page.get_by_role("link", name=f"look into {day}", exact=True).click()
    expect(page.locator("#matrix")).to_contain_text("A cell is one hour")
    assert "joined_3" in page.url, "filters live in the address"
    page.locator(f"#matrix a[href$='/chunk/joined_3/{hour}']").click()
    expect(page.locator("h1")).to_contain_text(hour)
    page.go_back()
    page.get_by_role("navigation", name="Zoom").get_by_role("link").first.click()
    expect(page.locator("#matrix")).to_contain_text(whole)


@pytest.mark.parametrize("path", ["/", "/flow", "/recovery", "/job/join_3", "/timeline?since=7d", "/report?since=30d"])
def test_a_page_stays_small(visit: Visit, path: str) -> None:
    page = visit.open(path)
    expect(page.locator("main h1")).to_be_visible()
    assert elements(page) < MOST_ELEMENTS
