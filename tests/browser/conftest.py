"""The console in a real browser: one Chromium for all tests, one shop and one server for each module and store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.support.browser import FLAGS, PATIENCE, Console, Visit, find_chromium, visiting
from tests.support.postgres import Server
from tests.support.shell import Shell
from tests.support.shop import open_shop
from tests.support.stores import BOTH


# Not longer than this folder: Playwright keeps an event loop in the thread of the tests.
@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """A real browser."""
    found = find_chromium()
    if found is None:
        pytest.skip("there is no Chromium on this machine, or CHROMIUM does not name one: ./dev setup")
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=FLAGS, timeout=3 * PATIENCE)
        yield browser
        browser.close()


@pytest.fixture(scope="module", params=BOTH)
def shell(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """An empty folder with an empty store, for the whole module."""
    folder = tmp_path_factory.mktemp("shop")
    if request.param == "sqlite":
        yield Shell(folder, f"sqlite:///{folder}/store.db")
        return
    server: Server = request.getfixturevalue("postgres_server")
    url = server.create_database(request.getfixturevalue("migrated_postgres"))
    yield Shell(folder, url)
    server.drop_database(url)


@pytest.fixture(scope="module")
def shop(chromium: Browser, shell: Shell) -> Shell:
    """A project to which everything has happened that can; not made where there is no browser to look at it."""
    open_shop(shell)
    return shell


@pytest.fixture(scope="module")
def console(shop: Shell) -> Iterator[Console]:
    """The console of the shop."""
    serving = Console(shop)
    yield serving
    serving.stop()
    assert "Traceback" not in serving.log, serving.log


@pytest.fixture
def visit(chromium: Browser, console: Console) -> Iterator[Visit]:
    """Somebody who looks at it."""
    with visiting(chromium, console) as window:
        yield window
