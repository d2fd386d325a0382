"""What happens between pages and the server: it goes away, and comes back."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.support.browser import BROWSER, Console, Visit
from tests.support.shell import Shell
from tests.support.shop import DAYS

pytestmark = BROWSER


def test_a_page_shows_that_the_server_is_gone_and_comes_back_by_itself(
    visit: Visit, console: Console, shop: Shell
) -> None:
    visit.forgive("net::ERR_")
    page = visit.open(f"/chunk/report/{DAYS[1]}")
    light = page.locator("#live")
    expect(light).to_have_text("live")
    console.stop()
    expect(light).to_have_text("not connected")
    shop.odf("hold", "report", DAYS[1], "--yes")
    console.start()
    expect(light).to_have_text("live")
    expect(page.locator("#now .badges .status-HOLD")).to_be_visible()
    # Its session was of the other process; what is asked for now works all the same.
    page.get_by_role("link", name="Release", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Release", exact=True).click()
    expect(page.locator("#now .badges .status-READY")).to_be_visible()
