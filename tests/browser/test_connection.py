"""What happens between pages and the server: it goes away and comes back, and several people look at once."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.support.browser import BROWSER, Console, Visit

pytestmark = BROWSER


def test_a_page_shows_that_the_server_is_gone_and_comes_back_by_itself(visit: Visit, console: Console) -> None:
    visit.forgive("net::ERR_")
    page = visit.open("/about")
    light = page.locator("#live")
    expect(light).to_have_text("live")
    console.stop()
    expect(light).to_have_text("not connected")
    console.start()
    expect(light).to_have_text("live")
