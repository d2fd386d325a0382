"""Who may come in, and what each one finds: by token, and where nobody may change anything."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from opendataflow.project.web import new_token
from tests.support.browser import BROWSER, Console, axe_source, barriers, visiting
from tests.support.shell import Shell
from tests.support.shop import DAYS

pytestmark = BROWSER
CHUNK = f"/chunk/report/{DAYS[3]}"
TOKENS = {role: new_token() for role in ("viewer", "operator", "admin")}


@pytest.fixture(scope="module")
def guarded(shop: Shell) -> Iterator[Console]:
    """A console that asks who somebody is."""
    file = shop.folder / "dataflow.toml"
    before = file.read_text()
    tables = (f'\n[web.token.{role}-anna]\nrole = "{role}"\nhash = "{hash}"\n' for role, (_, hash) in TOKENS.items())
    file.write_text(before + "".join(tables))
    serving = Console(shop)
    file.write_text(before)
    yield serving
    serving.stop()
    assert not any(token in serving.log for token, _ in TOKENS.values())


@pytest.mark.parametrize(
    ("role", "buttons"),
    [("viewer", []), ("operator", ["Resubmit", "Hold"]), ("admin", ["Resubmit", "Hold", "Recall", "Forget"])],
)
def test_a_token_opens_what_its_role_may_do(chromium: Browser, guarded: Console, role: str, buttons: list[str]) -> None:
    with visiting(chromium, guarded) as visit:
        visit.forgive("status of 401")
        page = visit.open(CHUNK)
        expect(page.locator("h1")).to_have_text("Log in")
        assert barriers(page, axe_source()) == []
        page.get_by_label("Your token").fill("odfw_wrong")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_be_visible()
        page.get_by_label("Your token").fill(TOKENS[role][0])
        page.get_by_role("button", name="Log in").click()
        expect(page.locator("h1")).to_contain_text(DAYS[3])
        shown = page.locator("#now .buttons a").all_inner_texts()
        assert set(buttons) <= set(shown)
        assert bool(shown) == bool(buttons)
        told = page.get_by_text("You may look; to act needs the role operator.")
        expect(told).to_have_count(0 if buttons else 1)
        assert ("Recall" in shown) == (role == "admin")
        expect(page.locator("footer")).to_contain_text(f"{role}-anna")
        page.locator("footer").get_by_role("button", name="Log out").click()
        expect(page.locator("h1")).to_have_text("Log in")


def test_a_read_only_console_has_no_buttons(chromium: Browser, shop: Shell) -> None:
    serving = Console(shop, "--read-only")
    try:
        with visiting(chromium, serving) as visit:
            visit.forgive("status of 403")
            page = visit.open(CHUNK)
            expect(page.locator("#now .badges .status-READY")).to_be_visible()
            assert page.locator("#now .buttons a").count() == 0
            assert visit.open("/").locator(".dial").count() == 0
            expect(visit.open("/recovery").locator("main")).to_contain_text("read-only")
            expect(visit.open(f"/act/hold?dataset=report&dataid={DAYS[3]}").locator("main")).to_contain_text("operator")
    finally:
        serving.stop()
