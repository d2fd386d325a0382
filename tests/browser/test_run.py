"""A run at the console: its log grows on the page, is searched and downloaded, and the run is cancelled; its job pauses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.browser import BROWSER, Visit, draining
from tests.support.shell import Shell

pytestmark = BROWSER

DECLARED = '[dataset.raw]\npartition = "number"\n[dataset.loaded]\npartition = "number"\n[job.load]\nreads = ["raw"]\nwrites = ["loaded"]\nlease = "3s"\n'
SCRIPT = """echo "begin $dataid"
printf '\\033[31mred\\033[0m <b>bold</b>\\n'
while [ ! -e "go" ]; do sleep 0.1; done
echo "going on"
while true; do sleep 0.1; done"""


@pytest.fixture(scope="module")
def shop(chromium: Browser, shell: Shell) -> Shell:
    """A project whose only job never ends by itself."""
    shell.write("dataflow.toml", DECLARED)
    shell.script("jobs/load.sh", SCRIPT)
    shell.odf("apply", "--yes")
    shell.odf("ready", "raw", "1")
    return shell


def act(page: Page, label: str) -> None:
    """Press a button of a page, and agree to what its dialog says."""
    page.wait_for_load_state()  # a button is there before its dialog is, and leads to a page of its own till then
    page.get_by_role("link", name=label, exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name=label, exact=True).click()


def test_a_run_is_followed_searched_downloaded_and_cancelled(visit: Visit, shop: Shell, tmp_path: Path) -> None:
    page = visit.open("/job/load")
    expect(page.locator("#now")).to_contain_text("Nothing of this job runs now.")
    with draining(shop):
        page.locator("#now").get_by_role("link", name=re.compile(r"^run \d+$")).click()
        log = page.locator("#text")
        expect(log).to_contain_text("begin 1\n␛[31mred␛[0m <b>bold</b>")
        expect(page.get_by_label("follow")).to_be_checked()
        # Nothing happens meanwhile; its time goes on all the same, and its lease is looked at again.
        for name in ("data-since", "data-until"):
            goes_on = page.locator(f"#top [{name}]")
            expect(goes_on).not_to_have_text(goes_on.inner_text())
        lease = page.locator("#top [data-until]")
        for _ in range(2):
            expect(lease).not_to_have_attribute("data-until", lease.get_attribute("data-until") or "")
        shop.write("go", "")
        expect(log).to_contain_text("going on")

        page.get_by_label("Search in this log").fill("GOING")
        page.get_by_role("button", name="Search", exact=True).click()
        expect(page.locator(".found mark")).to_have_text("going")
        page.locator(".found a.n").click()
        expect(page.locator("#hit")).to_have_text("going on")
        with page.expect_download() as begun:
            page.get_by_role("link", name="Download", exact=True).click()
        begun.value.save_as(tmp_path / "run.log")
        assert "␛[31mred" in (tmp_path / "run.log").read_text(encoding="utf-8")

        act(page, "Cancel the run")
        expect(page.locator("#top")).to_contain_text("CANCELLED")
        expect(page.get_by_role("link", name="Cancel the run", exact=True)).to_have_count(0)


def test_a_job_is_paused_and_resumed(visit: Visit) -> None:
    page = visit.open("/job/load")
    act(page, "Pause")
    expect(page.locator("#now")).to_contain_text("Paused")
    act(page, "Resume")
    expect(page.get_by_role("link", name="Pause", exact=True)).to_be_visible()
    expect(page.locator("#now")).not_to_contain_text("Paused")
