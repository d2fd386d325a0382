#!/usr/bin/env python3
"""A script: any program that finds its chunk in its environment. This one draws bars, with nothing but the standard library."""

import csv
import os
from pathlib import Path
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT, TOP, ROW, BAR = 760, 60, 60, 90, 40, 14
SERIES = (("mean_delay", "#4c78a8", "all flights"), ("mean_delay_when_rough", "#e45756", "in rain, snow or fog"))


def text(x, y, words, more=""):
    return f'<text x="{x:.0f}" y="{y:.0f}" {more}>{escape(words)}</text>'


def drawn(rows, month, title):
    """The whole picture, the largest carrier first."""
    rows = sorted(rows, key=lambda row: -int(row["flights"]))
    height = TOP + ROW * len(rows) + 30
    longest = max(1.0, *(float(row[name] or 0) for row in rows for name, _, _ in SERIES))
    flights = sum(int(row["flights"]) for row in rows)
    yield f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="12">'
    yield '<rect width="100%" height="100%" fill="white"/>'
    yield text(20, 32, f"{title}, New York, {month}", 'font-size="18"')
    yield text(20, 54, f"{flights:,} flights, by carrier", 'fill="#666"')
    for index, (_, colour, label) in enumerate(SERIES):
        yield f'<rect x="{20 + 110 * index}" y="66" width="10" height="10" fill="{colour}"/>'
        yield text(35 + 110 * index, 75, label)
    for row_number, row in enumerate(rows):
        y = TOP + ROW * row_number
        yield text(LEFT - 10, y + BAR - 2, row["carrier"], 'text-anchor="end" font-weight="bold"')
        yield text(
            LEFT - 10, y + 2 * BAR - 2, f"{int(row['flights']):,}", 'text-anchor="end" fill="#666" font-size="10"'
        )
        for index, (name, colour, _) in enumerate(SERIES):
            if row[name]:
                delay = float(row[name])
                length = max(0.0, delay) / longest * (WIDTH - LEFT - RIGHT)
                top = y + index * (BAR + 1)
                yield f'<rect x="{LEFT}" y="{top}" width="{length:.1f}" height="{BAR}" fill="{colour}"/>'
                yield text(LEFT + length + 5, top + BAR - 3, f"{delay:.1f}", 'fill="#666"')
    yield "</svg>"


def main():
    rows = []
    for file in sorted(Path(os.environ["delays_location"]).glob("*.csv")):
        with file.open(newline="", encoding="utf-8") as lines:
            rows += csv.DictReader(lines)
    target = Path(os.environ["plot_location"])
    target.parent.mkdir(parents=True, exist_ok=True)
    picture = "\n".join(drawn(rows, os.environ["dataid"], os.environ["PLOT_TITLE"]))
    target.write_text(picture + "\n", encoding="utf-8")
    print(f"drew {len(rows)} carriers into {target}")


main()
