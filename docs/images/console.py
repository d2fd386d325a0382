"""Makes the pictures of the console, light and dark: what a browser shows of the demo in the moment when nobody has mended it yet.

.venv/bin/python docs/images/console.py            plays the demo first, which takes minutes
.venv/bin/python docs/images/console.py FOLDER     keeps it there, or takes one that is there already
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from playwright.sync_api import sync_playwright

from opendataflow.cli.demo import PARTS, Story, make
from tests.support.browser import FLAGS, Console, find_chromium, visiting
from tests.support.shell import Shell

DAYS = 31
SIZE = 1280, 800
BROKEN = Story(Path(), DAYS, sys.stdout).broken
PAGES = {
    "overview": "/",
    "chunk": f"/chunk/flights/{BROKEN}",
    "flow": "/flow",
    "recovery": "/recovery",
}
SCHEMES = ("light", "dark")


def play(folder: Path) -> None:
    """The demo up to where a person is called: some days failed, one was refused, and a worker is dead."""
    make(folder, DAYS, again=False)
    story = Story(folder, DAYS, sys.stderr)
    for _, part in PARTS[:4]:
        part(story)


def look(folder: Path) -> None:
    """Take every picture, in both colours."""
    console = Console(Shell(folder))
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)
            width, height = SIZE
            for scheme in SCHEMES:
                view = {
                    "viewport": {"width": width, "height": height},
                    "color_scheme": scheme,
                    "reduced_motion": "reduce",
                }
                with visiting(browser, console, **view) as visit:
                    for name, path in PAGES.items():
                        page = visit.open(path)
                        page.locator("#live[data-state=on]").wait_for()
                        page.screenshot(path=HERE / f"console-{name}-{scheme}.png", animations="disabled")
            browser.close()
    finally:
        console.stop()


def main() -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(sys.argv[1]).absolute() if len(sys.argv) > 1 else Path(made) / "flights"
        if not (folder / "dataflow.db").exists():
            play(folder)
        look(folder)


if __name__ == "__main__":
    main()
