"""A night at the console: find what failed, read why, heal it, and watch it become READY without touching anything."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, Locator, Page, expect

from tests.support.browser import BROWSER, Console, Visit, draining, visiting
from tests.support.shell import Shell, statuses
from tests.support.shop import DAYS, FAILED

pytestmark = BROWSER


def asked(page: Page, label: str) -> Locator:
    """The dialog that a button of a page opens."""
    page.wait_for_load_state()  # a button is there before its dialog is, and leads to a page of its own till then
    page.get_by_role("link", name=label, exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    return dialog


def confirm(dialog: Locator, label: str, reason: str = "") -> None:
    """Give a reason, and do it."""
    if reason:
        dialog.get_by_label("Reason").fill(reason)
    dialog.get_by_role("button", name=label, exact=True).click()


def test_a_failed_chunk_is_found_understood_healed_and_becomes_ready_by_itself(visit: Visit, shop: Shell) -> None:
    page = visit.open("/")
    incident = page.locator("#incidents li.FAILED").filter(has_text="db1 is unreachable")
    expect(incident).to_contain_text("3 chunks")
    expect(incident).to_contain_text("wait")
    (failed,) = [day for day in FAILED if f"loaded {day}" in incident.inner_text()]  # whichever failed first
    incident.get_by_role("link", name=f"loaded {failed}").click()
    now = page.locator("#now")
    expect(page.locator("h1")).to_contain_text(failed)
    expect(now).to_contain_text("db1 is unreachable")
    expect(now.locator(".badges .status-FAILED")).to_be_visible()

    shop.write("mended", "")
    dialog = asked(page, "Resubmit")
    expect(dialog).to_contain_text(f"loaded {failed} becomes RESUBMIT")
    confirm(dialog, "Resubmit", "the network is back")
    expect(now.locator(".badges .status-RESUBMIT")).to_be_visible()
    with draining(shop):
        expect(now.locator(".badges .status-READY")).to_be_visible()
        # What is made of it next is not cut off: a run that the end of its drain interrupts has failed.
        made = visit.open(f"/chunk/report/{failed}").locator("#now .badges .status-READY")
        expect(made).to_be_visible()
    assert statuses(shop)["loaded", failed] == "READY"
    told = shop.odf("history", "loaded", failed, "--json").data
    assert "the network is back" in [event["why"] for event in told["events"]]


def test_a_chunk_is_set_aside_and_released(visit: Visit, shop: Shell) -> None:
    page = visit.open(f"/chunk/report/{DAYS[3]}")
    badges = page.locator("#now .badges")
    confirm(asked(page, "Hold"), "Hold", "the vendor calls back")
    expect(badges.locator(".status-HOLD")).to_be_visible()
    expect(page.locator("#now")).to_contain_text("the vendor calls back")
    confirm(asked(page, "Release"), "Release")
    expect(badges.locator(".status-READY")).to_be_visible()


def test_the_dial_of_a_pool_holds_while_a_drain_runs(visit: Visit, shop: Shell) -> None:
    shop.odf("ready", "ticks", "1..3000")  # more than the drain can do meanwhile, however slow this machine is
    page = visit.open("/")
    pool = page.locator("#pools li").filter(has=page.get_by_text("slow", exact=True))
    with draining(shop, "crawl", "--workers", "8"):
        expect(pool).to_contain_text("1 of 1 taken")
        dial(pool, "4")
        expect(pool).to_contain_text("4 of 4 taken")
        dial(pool, "0")
        expect(pool).to_contain_text("paused")
        expect(pool).to_contain_text("0 of 0 taken")
        dial(pool, "8")
        expect(page.locator("#going")).to_contain_text("crawl")
    shop.odf("forget", "tocks", "--all", "--yes", code=None)
    shop.odf("forget", "ticks", "--all", "--yes", code=None)


def dial(pool: Locator, slots: str) -> None:
    pool.get_by_label("Slots of slow").fill(slots)
    pool.get_by_role("button", name="Set slots").click()
    dialog = pool.page.get_by_role("dialog")
    expect(dialog).to_contain_text(f"Slots of pool slow: {slots}")
    confirm(dialog, "Set slots", "by the dial")


def test_a_recall_shows_first_what_it_would_do(visit: Visit, shop: Shell) -> None:
    page = visit.open(f"/chunk/loaded/{DAYS[7]}")
    dialog = asked(page, "Recall")
    expect(dialog).to_contain_text(f"loaded {DAYS[7]}")
    expect(dialog).not_to_contain_text(f"report {DAYS[7]}")
    dialog.get_by_label(re.compile("made from it")).check()
    expect(dialog).to_contain_text(f"report {DAYS[7]}")
    assert statuses(shop)["report", DAYS[7]] == "READY", "a preview changes nothing"
    confirm(dialog, "Recall", "the currency was wrong")
    expect(page.locator("#now .badges .status-RESUBMIT")).to_be_visible()
    expect(page.locator("#now")).to_contain_text("the currency was wrong")
    assert statuses(shop)["report", DAYS[7]] == "RESUBMIT"


def test_a_plan_of_recovery_is_read_ticked_started_and_followed_to_its_end(visit: Visit, shop: Shell) -> None:
    shop.write("mended", "")
    page = visit.open("/recovery")
    for tick in page.locator("#causes").get_by_role("checkbox").all():
        tick.uncheck()
    page.locator("#causes").get_by_label(re.compile("db1 is unreachable")).check()
    left = [day for day in FAILED if statuses(shop)["loaded", day] == "FAILED"]  # one is healed, whichever failed first
    for day in left:
        expect(page.locator("#plan")).to_contain_text(day)
    page.get_by_label("Reason").fill("the network is back for good")
    page.get_by_role("button", name=re.compile("Start: RESUBMIT")).click()
    progress = page.locator("#progress")
    expect(progress).to_contain_text("Under way")
    expect(progress).to_contain_text("the network is back for good")
    with draining(shop):
        expect(progress).to_contain_text("of this recovery are READY")
    assert {statuses(shop)["report", day] for day in FAILED} == {"READY"}


def test_two_people_see_the_same_and_who_did_what(chromium: Browser, console: Console, visit: Visit) -> None:
    path = f"/chunk/report/{DAYS[9]}"
    mine = visit.open(path)
    with visiting(chromium, console) as other:
        theirs = other.open(path)
        expect(theirs.locator("#live")).to_have_text("live")
        confirm(asked(mine, "Hold"), "Hold", "I look into it")
        expect(theirs.locator("#now .badges .status-HOLD")).to_be_visible()
        confirm(asked(theirs, "Release"), "Release")
        expect(mine.locator("#now .badges .status-READY")).to_be_visible()


def test_everything_can_be_done_without_javascript(chromium: Browser, console: Console, shop: Shell) -> None:
    with visiting(chromium, console, java_script_enabled=False) as plain:
        page = plain.open("/")
        page.get_by_label("Search for a job").fill(f"report {DAYS[10]}")
        page.get_by_label("Search for a job").press("Enter")
        page.locator("main").get_by_role("link", name=f"report {DAYS[10]}").click()
        page.get_by_role("link", name="Hold", exact=True).click()
        expect(page.locator("main")).to_contain_text("becomes HOLD")
        page.get_by_label("Reason").fill("by hand")
        page.get_by_role("button", name="Hold", exact=True).click()
        expect(page.locator("#now .badges .status-HOLD")).to_be_visible()
        expect(page.locator(".notice")).to_contain_text("HOLD")
    assert statuses(shop)["report", DAYS[10]] == "HOLD"
    shop.odf("release", "report", DAYS[10], "--yes")


def test_what_is_searched_is_found_while_it_is_typed(visit: Visit) -> None:
    page = visit.open("/history")
    page.keyboard.press("/")
    page.keyboard.type("loa")
    expect(page.get_by_role("option").filter(has_text="job load")).to_be_visible()
    expect(page.get_by_role("option").filter(has_text="dataset loaded")).to_be_visible()
    page.get_by_role("option").filter(has_text="dataset loaded").click()
    expect(page.locator("h1")).to_have_text("loaded")
    for words, headline in (("1", "Run 1"), (f"loaded {DAYS[1]}", f"loaded {DAYS[1]}")):
        page.wait_for_load_state()  # a heading is there before the keys are listened to
        page.keyboard.press("/")
        expect(page.get_by_role("combobox")).to_be_focused()
        page.keyboard.type(words)
        page.keyboard.press("Enter")
        page.locator("main").get_by_role("link", name=re.compile(rf"^(run )?{words}$")).first.click()
        expect(page.locator("h1")).to_contain_text(headline)


def test_a_keyboard_is_enough(visit: Visit, shop: Shell) -> None:
    page = visit.open("/flow")
    keys = page.keyboard
    keys.press("g")
    keys.press("o")
    expect(page.locator("h1")).to_have_text("Overview")
    page.wait_for_load_state()
    keys.press("Tab")
    expect(page.get_by_role("link", name="Skip to the contents")).to_be_focused()
    keys.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    keys.press("Escape")
    expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()
    keys.press("/")
    field = page.get_by_label("Search for a job")
    expect(field).to_be_focused()
    keys.type(f"report {DAYS[11]}")
    keys.press("Enter")
    page.locator("main").get_by_role("link", name=f"report {DAYS[11]}").focus()
    keys.press("Enter")
    expect(page.locator("h1")).to_contain_text(DAYS[11])
    page.wait_for_load_state()
    tab_to(page, page.get_by_role("link", name="Hold", exact=True))
    keys.press("Enter")
    expect(page.get_by_role("dialog").get_by_label("Reason")).to_be_focused()
    keys.type("no mouse here")
    tab_to(page, page.get_by_role("dialog").get_by_role("button", name="Hold", exact=True))
    keys.press("Enter")
    expect(page.locator("#now .badges .status-HOLD")).to_be_visible()
    shop.odf("release", "report", DAYS[11], "--yes")


def tab_to(page: Page, target: Locator) -> None:
    """Go to something with the tabulator, as long as it takes to go once around the page."""
    for _ in range(200):
        if target.evaluate("each => each === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"the tabulator does not reach {target}")
