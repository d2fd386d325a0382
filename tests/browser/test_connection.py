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


def test_a_dialog_outlives_the_server_and_keeps_what_was_written(visit: Visit, console: Console) -> None:
    visit.forgive("net::ERR_", "status of 403")
    page = visit.open(f"/chunk/report/{DAYS[3]}")
    dialog = page.get_by_role("dialog")
    hold = dialog.get_by_role("button", name="Hold", exact=True)
    page.get_by_role("link", name="Hold", exact=True).click()
    dialog.get_by_label("Reason").fill("the vendor calls back")
    console.stop()
    expect(page.locator("#live")).to_have_text("not connected")
    hold.click()
    expect(dialog).to_contain_text("The console does not answer.")
    console.start()
    hold.click()
    expect(dialog).to_contain_text("The console was restarted: confirm again.")
    expect(dialog.get_by_label("Reason")).to_have_value("the vendor calls back")
    hold.click()
    expect(page.locator("#now .badges .status-HOLD")).to_be_visible()
    expect(page.locator("#now")).to_contain_text("the vendor calls back")


def test_a_button_that_nobody_answers_says_so_on_the_page(visit: Visit, console: Console) -> None:
    visit.forgive("net::ERR_")
    page = visit.open(f"/chunk/report/{DAYS[9]}")
    expect(page.locator("#live")).to_have_text("live")
    console.stop()
    expect(page.locator("#live")).to_have_text("not connected")
    page.get_by_role("link", name="Resubmit", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("The console does not answer.")
    dialog.get_by_role("button", name="Close", exact=True).click()
    expect(dialog).to_be_hidden()
    console.start()
    expect(page.locator("#live")).to_have_text("live")
