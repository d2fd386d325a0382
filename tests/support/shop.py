"""A small project with one of everything that a person on call meets: failed, held, late, missing, stale, recalled, refused."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from opendataflow.chaos.report import save
from opendataflow.cli.door import open_door
from opendataflow.project import load
from tests.support.chaos import report
from tests.support.shell import Shell

DAYS = [f"2025-11-{day:02d}" for day in range(1, 13)]
FAILED = DAYS[4:7]
HELD = DAYS[8]
STALE = DAYS[2]
RECALLED = DAYS[0]
REFUSED = "2025-11-13"

_TOML = """
[project]
name = "shop"
jobs = ["jobs"]
timezone = "Europe/Berlin"

[environment.dev]
roots = ["./data"]

[pool.etl]
slots = 2

[pool.slow]
slots = 1

[dataset.orders]
location = "orders/{dataid}.csv"
partition = { type = "day", start = "2025-11-01", end = "2025-11-14" }
expected = true
description = "What the shops sold, day by day"

[dataset.loaded]
location = "loaded/{dataid}.csv"
partition = { type = "day", start = "2025-11-01", end = "2025-11-12" }
deadline = "06:00"

[dataset.report]
location = "report/{dataid}.txt"
partition = "day"
layout = "versioned"

[dataset.months]
location = "months/{dataid}.txt"
partition = "month"

[dataset.ticks]
partition = "number"

[dataset.tocks]
partition = "number"

[job.load]
reads = ["orders"]
writes = ["loaded"]
pool = "etl"

[job.sum]
reads = ["loaded"]
writes = ["report"]
pool = "etl"

[job.by_month]
reads = [{ dataset = "report", mapping = "rollup" }]
writes = ["months"]

[job.crawl]
reads = ["ticks"]
writes = ["tocks"]
pool = "slow"
"""


def open_shop(shell: Shell) -> None:
    """Make the project, let it run once, and let everything happen to it that can."""
    shell.write("dataflow.toml", _TOML)
    shell.script(
        "jobs/load.sh",
        'echo "loading $dataid"\n'
        'if grep -q broken "$orders_location" && [ ! -e mended ]; then echo "db1 is unreachable" >&2; exit 3; fi\n'
        'mkdir -p "$(dirname "$loaded_location")"; sed "s/$/,loaded/" "$orders_location" > "$loaded_location"',
    )
    shell.script(
        "jobs/sum.sh",
        'mkdir -p "$(dirname "$report_location")"; { echo "$dataid"; wc -l < "$loaded_location"; } > "$report_location"',
    )
    shell.script("jobs/by_month.sh", 'mkdir -p "$(dirname "$months_location")"; echo "$dataid" > "$months_location"')
    shell.script("jobs/crawl.sh", 'for n in 1 2 3 4; do echo "tick $dataid.$n"; sleep 0.1; done')
    for day in DAYS:
        deliver(shell, day, "broken" if day in FAILED else "fine")
    save(
        load(shell.folder / "dataflow.toml"),
        report(verdict="PROMISE_BROKEN", evidence=("made 1 holds b'x', not b'y'",)),
    )
    with at_prompt(shell) as odf:
        odf("apply", "--yes")
        odf("discover", "orders")
        odf("drain", code=1)
        deliver(shell, STALE, "fine\nand corrected")
        odf("ready", "orders", STALE)
        odf("hold", "report", HELD, "--yes", "--why", "the vendor sends it again")
        odf("recall", "orders", RECALLED, "--yes", "--why", "half of the orders are missing")
        shell.write(f"data/orders/{REFUSED}.csv", (shell.folder / f"data/orders/{DAYS[-1]}.csv").read_text())
        odf("discover", "orders", code=11)


@contextmanager
def at_prompt(shell: Shell) -> Iterator[Callable[..., None]]:
    """Many commands in the folder of a shell, without a process for each of them."""

    def odf(*words: str, code: int = 0) -> None:
        assert open_door(list(words)) == code, words

    with pytest.MonkeyPatch.context() as here:
        here.chdir(shell.folder)
        for name in [name for name in os.environ if name.startswith(("ODF_", "PASSKEY"))]:
            here.delenv(name)
        for name, value in shell.environment.items():
            here.setenv(name, value)
        yield odf


def deliver(shell: Shell, day: str, text: str) -> None:
    """The file of one day."""
    shell.write(f"data/orders/{day}.csv", f"{day},{text}\n" + "".join(f"{day},{n}\n" for n in range(int(day[-2:]))))
