"""The console as a process, and a browser that lets nothing pass: no error, no request to elsewhere, nothing that the policy refuses."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request

from tests.support.ports import free_port
from tests.support.shell import Shell

# What every module of browser tests is marked with.
BROWSER = [pytest.mark.browser, pytest.mark.timeout(1800)]
PATIENCE = 240_000  # milliseconds: a busy machine is slow, not wrong

ROOT = Path(__file__).parents[2]
_AXE = ROOT / ".venv/npm/node_modules/axe-core/axe.min.js"
_CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# The policy of a page tells its violations to the page alone.
_TELL_VIOLATIONS = """document.addEventListener("securitypolicyviolation",
    event => console.error("refused by the policy:", event.violatedDirective, event.blockedURI, event.sourceFile))"""


def find_chromium() -> str | None:
    """The Chromium of this machine, or the one that CHROMIUM names."""
    chosen = os.environ.get("CHROMIUM")
    names = [chosen] if chosen else _CHROMIUM
    return next(filter(None, map(shutil.which, names)), None)


def axe_source() -> str:
    """The text of axe-core; the test is skipped where `./dev setup` could not install it."""
    if not _AXE.exists():
        pytest.skip("axe-core is not installed: ./dev setup")
    return _AXE.read_text(encoding="utf-8")


class Console:
    """`odf serve` in one folder on one store; it can be stopped, and started again at the same address."""

    def __init__(self, shell: Shell, *options: str) -> None:
        self.shell = shell
        self.port = free_port()
        self.options = options
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._log = self.shell.folder / "serve.log"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._command(), *self.options],
                cwd=self.shell.folder,
                env=self.shell.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        until = time.monotonic() + 120
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"odf serve does not answer:\n{self.log}")
            time.sleep(0.05)

    def stop(self) -> None:
        """End it as Ctrl-C does."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(240)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
                raise

    @property
    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def _command(self) -> list[str]:
        from tests.support.shell import ODF

        return [*ODF, "serve", "--listen", f"127.0.0.1:{self.port}"]

    def _answers(self) -> bool:
        try:
            urllib.request.urlopen(self.url, timeout=120).close()
        except urllib.error.HTTPError as refused:
            refused.close()
        except OSError:
            return False
        return True


@dataclass
class Visit:
    """One person's browser window: a context of its own, and everything that went wrong in it."""

    context: BrowserContext
    page: Page
    console: Console
    wrong: list[str] = field(default_factory=list)
    forgiven: list[str] = field(default_factory=list)

    def open(self, path: str) -> Page:
        """Go to a page of the console."""
        self.page.goto(self.console.url + path)
        return self.page

    def forgive(self, *patterns: str) -> None:
        """Say which complaints this visit brings upon itself."""
        self.forgiven += patterns

    def complaints(self) -> list[str]:
        return [what for what in self.wrong if not any(re.search(pattern, what) for pattern in self.forgiven)]


@contextmanager
def visiting(browser: Browser, console: Console, **how: Any) -> Iterator[Visit]:
    """A window on a console; whatever was wrong in it fails the test at the end."""
    context = browser.new_context(**how)
    context.set_default_timeout(PATIENCE)
    context.set_default_navigation_timeout(PATIENCE)
    if how.get("java_script_enabled", True):
        context.add_init_script(_TELL_VIOLATIONS)
    visit = Visit(context, context.new_page(), console)
    here = f"127.0.0.1:{console.port}"

    def on_request(request: Request) -> None:
        where = urlsplit(request.url)
        if where.scheme not in ("data", "blob", "about") and where.netloc != here:
            visit.wrong.append(f"asked elsewhere: {request.url}")

    def on_console(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            visit.wrong.append(f"{message.type}: {message.text} ({message.location.get('url', '')})")

    context.on("request", on_request)
    context.on("console", on_console)
    context.on("weberror", lambda error: visit.wrong.append(f"uncaught: {error.error}"))
    try:
        yield visit
    finally:
        context.close()
    complaints = visit.complaints()
    assert not complaints, "\n".join(complaints)


@contextmanager
def draining(shell: Shell, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """An ordinary `odf drain --follow` at work beside the test."""
    from tests.support.shell import ODF

    with (shell.folder / "drain.log").open("ab") as log:
        process = subprocess.Popen(
            [*ODF, "drain", "--follow", *arguments],
            cwd=shell.folder,
            env=shell.environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(240)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def barriers(page: Page, axe: str, *rules: str) -> list[str]:
    """What keeps somebody out of a page who cannot see it or has no mouse: serious and critical findings of axe."""
    page.evaluate(axe)
    only: dict[str, Any] = {"runOnly": {"type": "rule", "values": list(rules)}} if rules else {}
    found = page.evaluate("how => axe.run(how)", {"resultTypes": ["violations"], **only})
    return [
        f"{page.url}: {one['id']} ({one['impact']}): {one['help']}: {node['html'][:300]} {node['failureSummary'][:300]}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"][:3]
    ]


def overflow(page: Page) -> int:
    """By how many pixels a page is wider than its window."""
    wide: int = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return wide
