"""Crash: what is broken on purpose, as long as its bars ask for; a case that breaks a promise is a miss. Two hours in all.

./dev bench crash                 all of it
./dev bench crash matrix          a kill at every step of a run, 20 times each
./dev bench crash histories       10,000 random histories on each store, and 1,000 of several processes at once
./dev bench crash storm stampede  workers and servers that die while 500 chunks drain; 16 processes that race for 10,000
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench._report import bar, figure, finish, say

PARTS = {
    "matrix": ("tests/faults/test_kill_matrix.py", "-n", "2"),
    "histories": ("tests/histories/test_histories.py", "-n", "2"),
    "storm": ("tests/faults/test_kill_storm.py",),
    "stampede": ("tests/faults/test_stampede.py",),
}


def play(part: str) -> None:
    """Run the long version of one part, and tell how many of its cases broke a promise."""
    say(f"{part}: pytest --soak {' '.join(PARTS[part])}")
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "told.xml"
        command = [sys.executable, "-m", "pytest", "--soak", "-q", "-o", "junit_family=xunit1", f"--junitxml={told}"]
        ended = subprocess.run([*command, *PARTS[part]], stdout=sys.stderr, check=False)
        if not told.is_file():
            sys.exit(f"pytest ended with {ended.returncode} and told nothing")
        suite = next(ElementTree.parse(told).iter("testsuite"))
    count = {name: int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped")}
    figures: Counter[str] = Counter()
    for each in suite.iter("property"):
        figures[str(each.get("name"))] += int(str(each.get("value")))  # a block of histories each
    for name, value in figures.items():
        figure(f"{part}_{name}", value, "s" if name.endswith("seconds") else "in all")
    figure(f"{part}_cases", count["tests"] - count["skipped"], "in all")
    bar(f"{part}_broken", count["failures"] + count["errors"], 0, at_least=False)


if __name__ == "__main__":
    wanted = sys.argv[1:] or list(PARTS)
    if unknown := set(wanted) - PARTS.keys():
        sys.exit(f"no such part: {', '.join(sorted(unknown))}; there are {' '.join(PARTS)}")
    for part in wanted:
        play(part)
    finish()
