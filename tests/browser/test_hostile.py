"""Everything that somebody else can write is text on a page, and only text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, expect

from opendataflow.chaos.report import save
from opendataflow.project import load
from tests.support.browser import BROWSER, Console, Visit, visiting
from tests.support.chaos import report
from tests.support.shell import Shell
from tests.support.shop import at_prompt
from tests.support.stores import type_sql

pytestmark = [*BROWSER, pytest.mark.fault(26)]

EVIL = """'"><img src=x onerror="window.ran=1"><script>window.ran=1</script></title></textarea></script><svg onload=window.ran=1> {{13371337*7}} ${13371337*7} javascript:ran=1"""
ESCAPES = "\x1b[31mred\x1b]0;title\x07\x1b[2J"
DAY = "2025-11-12"

_TOML = """
[project]
name = "evil"
jobs = ["jobs"]

[environment.dev]
roots = ["./data"]

[pool.etl]
slots = 2
description = EVIL

[dataset.raw]
location = "raw/{dataid}.csv"
partition = { type = "day", start = "2025-11-10", end = "2025-11-14" }
description = EVIL
owner = EVIL
tags = [EVIL]
expected = true
deadline = "06:00"

[dataset.made]
location = "made/{dataid}.csv"
partition = "day"
description = EVIL

[job.make]
reads = ["raw"]
writes = ["made"]
pool = "etl"
description = EVIL
env = { GREETING = EVIL }
"""

PAGES = [
    "/",
    f"/?text={quote(EVIL)}",
    "/flow",
    "/flow?node=dataset:raw",
    f"/flow/made/{DAY}",
    f"/chunk/made/{DAY}",
    "/chunk/made/2025-11-11",
    "/chunk/raw/2025-11-11",
    "/dataset/raw",
    "/dataset/made",
    "/job/make",
    "/run/1",
    "/run/2",
    "/timeline",
    "/history",
    f"/history?by={quote(EVIL)}",
    "/report",
    "/chaos",
    "/recovery",
    f"/search?q={quote(EVIL)}",
    f"/act/resubmit?dataset=made&dataid={DAY}&why={quote(EVIL)}&next={quote('//evil.example/' + EVIL)}",
]
WRONG = [
    f"/flow?around={quote(EVIL)}",
    f"/chunk/made/{quote(EVIL, safe='')}",
    f"/dataset/{quote(EVIL, safe='')}",
    f"/job/{quote(EVIL, safe='')}",
    f"/run/{quote(EVIL, safe='')}",
    f"/{quote(EVIL, safe='')}",
    f"/act/recall?dataset=made&dataid={quote(EVIL)}",
    f"/?dataset={quote(EVIL)}&status={quote(EVIL)}",
]


@pytest.fixture(scope="module")
def console(chromium: Browser, shell: Shell) -> Iterator[Console]:
    """The console of a project in which everybody writes what he wants."""
    shell.write("dataflow.toml", _TOML.replace("EVIL", json.dumps(EVIL)))
    shell.write("said", EVIL + ESCAPES)
    shell.script(
        "jobs/make.sh",
        f'cat "{shell.folder}/said"; cat "{shell.folder}/said" >&2; [ $dataid = 2025-11-11 ]; mkdir -p data/made; cp "$raw_location" "$made_location"',
    )
    for day in ("2025-11-11", DAY):
        shell.write(f"data/raw/{day}.csv", f"{day}\n{EVIL}\n")
    with at_prompt(shell) as odf:
        odf("apply", "--yes")
        odf("discover", "raw")
        odf("drain", code=1)
        odf("hold", "raw", "2025-11-11", "--yes", "--why", EVIL)
        odf("pause", "make", "--why", EVIL)
        odf("recall", "made", "2025-11-11", "--yes", "--why", EVIL)
    # Braces would be placeholders of a location, and a definition that does not load has no pages.
    evil = (EVIL + ESCAPES).replace("'", "''").replace("{", "(").replace("}", ")")
    for change in (
        "update run set owner = 'EVIL', detail = 'EVIL', log = 'EVIL' where runid = 2",
        "update data_manifest set location = 'EVIL', format = 'EVIL', fingerprint = 'EVIL'",
        "update dataset set location = 'EVIL', format = 'EVIL', username = 'EVIL', hostname = 'EVIL', tablename = 'EVIL' where datasetid = 'made'",
    ):
        type_sql(str(shell.store_url), change.replace("EVIL", evil))
    save(load(shell.folder / "dataflow.toml"), report(EVIL + ESCAPES, evidence=(EVIL,)))
    serving = Console(shell)
    yield serving
    serving.stop()
    assert "Traceback" not in serving.log, serving.log


@pytest.fixture(scope="module")
def window(chromium: Browser, console: Console) -> Iterator[Visit]:
    with visiting(chromium, console) as visit:
        visit.forgive("status of 40[0-9]")
        yield visit


@pytest.mark.parametrize("path", [*PAGES, *WRONG])
def test_what_somebody_wrote_is_text(window: Visit, path: str) -> None:
    page = window.page
    answer = page.goto(window.console.url + path)
    assert answer is not None
    assert answer.status in ([200] if path in PAGES else [200, 400, 404]), answer.text()
    expect(page.locator("main h1")).to_be_visible()
    made = page.evaluate(
        """() => [...document.querySelectorAll("img, script:not([src]), svg[onload], [onerror], [onload], [onclick], a[href^='javascript']")]
            .map(each => each.outerHTML).concat(window.ran === undefined ? [] : ["it ran"])"""
    )
    assert made == []
    text = page.content()
    assert "\x1b" not in text
    assert "{{13371337*7}}" in text or "93599359" not in text
    assert "Traceback" not in text
    assert window.complaints() == []
