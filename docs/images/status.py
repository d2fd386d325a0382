"""Makes status.svg, the picture of the status matrix: what `odf status` really prints about a small flow."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

HERE = Path(__file__).parent
WIDTH = 84
DAYS = [f"2013-01-{day:02d}" for day in range(1, 32)]

FLOW = """
[environment.dev]
roots = ["data"]

[dataset]
flights_raw = { location = "raw/{dataid}.csv", partition = "day" }
flights = { location = "flights/{dataid}.csv", partition = "day" }
with_weather = { location = "with_weather/{dataid}.csv", partition = "day" }
delays = { location = "delays/{dataid}.csv", partition = "day" }

[job]
flights = { reads = ["flights_raw"], writes = ["flights"] }
with_weather = { reads = ["flights"], writes = ["with_weather"] }
delays = { reads = ["with_weather"], writes = ["delays"] }
"""
CLEAN = """#!/bin/sh
[ "$dataid" != 2013-01-18 ] || { echo "two rows have no carrier"; exit 1; }
mkdir -p "$(dirname "$flights_location")" && cp "$flights_raw_location" "$flights_location"
"""
COPY = """#!/bin/sh
mkdir -p "$(dirname "$%(to)s_location")" && cp "$%(of)s_location" "$%(to)s_location"
"""


def odf(folder: Path, *arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "opendataflow", *arguments], cwd=folder, check=False, capture_output=True)


def play(folder: Path) -> None:
    """A flow in which something of everything happens."""
    (folder / "dataflow.toml").write_text(FLOW)
    for name, text in (
        ("flights", CLEAN),
        ("with_weather", COPY % {"of": "flights", "to": "with_weather"}),
        ("delays", COPY % {"of": "with_weather", "to": "delays"}),
    ):
        code = folder / f"jobs/{name}.sh"
        code.parent.mkdir(exist_ok=True)
        code.write_text(text)
        code.chmod(0o755)
    raw = folder / "data/raw"
    raw.mkdir(parents=True)
    for day in DAYS:
        (raw / f"{day}.csv").write_text(f"carrier,day\nAA,{day}\n")
    odf(folder, "apply", "--yes")
    odf(folder, "ready", "flights_raw", f"{DAYS[0]}..{DAYS[25]}")
    odf(folder, "hold", "with_weather", DAYS[10], "--why", "the weather of this day is asked for again")
    odf(folder, "drain")
    odf(folder, "resubmit", "delays", f"{DAYS[6]}..{DAYS[7]}", "--yes")
    odf(folder, "ready", "flights_raw", f"{DAYS[26]}..{DAYS[29]}")
    odf(folder, "drain", "flights")
    odf(folder, "start", "with_weather")
    odf(folder, "start", "with_weather")


def seen(folder: Path, *arguments: str) -> str:
    """What a terminal of our width shows, colours included."""
    pid, master = pty.fork()
    if pid == 0:
        os.chdir(folder)
        environ = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(WIDTH), "LINES": "50"}
        environ.pop("NO_COLOR", None)
        os.execve(sys.executable, [sys.executable, "-m", "opendataflow", *arguments], environ)
    found = b""
    while True:
        try:
            found += os.read(master, 65536)
        except OSError:
            break
    os.waitpid(pid, 0)
    return found.decode().replace("\r\n", "\n")


def picture(text: str) -> str:
    """The same as SVG; its font is the reader's own, so that nothing is fetched from anywhere."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text("$ ", style="bold green") + Text("odf status", style="bold"))
    console.print(Text.from_ansi(text))
    template = re.sub(r"@font-face \{\{.*?\n    \}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    return console.export_svg(title="OpenDataFlow", code_format=template, unique_id="status")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        play(Path(folder))
        shown = seen(Path(folder), "status").rstrip()
    print(shown)
    (HERE / "status.svg").write_text(picture(shown), encoding="utf-8")
