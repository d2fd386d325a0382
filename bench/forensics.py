"""Forensics: what a look into a long past costs as a process, at 1,000 and at 1,000,000 chunks with 5,000,000 events.

The commands of one round follow each other directly, small store and large store in turn: machines are noisy.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench._filled import define
from bench._forensics import dataid_of, filled, hours_of
from bench._report import bar, figure, finish
from bench.claims import ours, rate
from opendataflow.cli.door import VERBS
from opendataflow.store import open_store
from opendataflow.store.engine import freshness
from tests.support.postgres import start_postgres

ODF = str(Path(sys.executable).parent / "odf")
SMALL = 1000
ROUNDS = 9
WARM_UP = 2
# A cold start reads compiled modules, as it does wherever the program is installed.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def looks(chunks: int) -> dict[str, list[str]]:
    """What is asked: about a chunk in the middle of everything, whose job has run for years."""
    hours = hours_of(chunks)
    middle = hours // 2 // 20 * 20 + 7
    chunk, newest = dataid_of(middle, hours), dataid_of(hours, hours)
    known = {
        "explain": ["explain", "joined_3", chunk],
        "why_job": ["why", "tell_3"],
        "why_chunk": ["why", "tell_3", chunk],
        "lineage": ["lineage", "report_3", chunk],
        "impact": ["impact", "raw_3", chunk],
        "history": ["history"],
        "history_chunk": ["history", "joined_3", chunk],
        "history_job": ["history", "--job", "join_3"],
        "history_dataset": ["history", "joined_3"],
        "history_range": ["history", "joined_3", f"{chunk}..{newest}"],
        "history_since": ["history", "--since", "3h"],
        "history_by": ["history", "--by", "anna@desk:4711"],
        "history_cause": ["history", "--cause", "could not connect"],
        "history_failed": ["history", "--failed"],
    }
    return {name: words for name, words in known.items() if words[0] in VERBS}


def spent(words: list[str], folder: Path) -> float:
    """How long one command takes, from the shell."""
    start = time.perf_counter()
    done = subprocess.run([ODF, *words], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True)
    end = time.perf_counter()
    if done.returncode:
        sys.exit(f"odf {' '.join(words)}: exit {done.returncode}: {done.stderr}")
    return end - start


def looking(label: str, urls: dict[int, str], folder: Path) -> None:
    """Each look at both sizes, and `odf --version` between them."""
    commands = {("version", 0): ["--version"]}
    for name in looks(SMALL):
        for chunks, url in urls.items():
            commands[name, chunks] = [*looks(chunks)[name], "--store", url]
    times: dict[tuple[str, int], list[float]] = {command: [] for command in commands}
    for round_ in range(WARM_UP + ROUNDS):
        for command, words in commands.items():
            once = spent(words, folder)
            if round_ >= WARM_UP:
                times[command].append(once)
    found = {command: statistics.median(each) for command, each in times.items()}
    version = found["version", 0]
    figure(f"{label}_version", version * 1e3, "ms")
    small, large = urls
    for name in looks(SMALL):
        figure(f"{label}_{name}_at_{small}", found[name, small] * 1e3, "ms")
        figure(f"{label}_{name}_at_{large}", found[name, large] * 1e3, "ms")
        bar(f"{label}_{name}_over_version", found[name, large] / version, 3, at_least=False)
        bar(f"{label}_{name}_growth", found[name, large] / found[name, small], 2, at_least=False)


def staleness(label: str, url: str) -> None:
    """What it costs a claim and commit to keep account of who was made from what is no longer current: with and without, in turn."""
    store = open_store(url, create=True)
    define(store)
    store.announce("raw", [str(number) for number in range(6000)])
    kept = freshness.published
    pairs = []
    for round_ in range(WARM_UP + 20):
        rates = []
        for account in (kept, lambda *_: None):
            freshness.published = account
            rates.append(rate(lambda: ours(store), 60))
        if round_ >= WARM_UP:
            pairs.append(rates)
    freshness.published = kept
    store.close()
    figure(f"{label}_claim_and_commit_with_staleness", statistics.median(pair[0] for pair in pairs), "runs/s")
    cost = 1 - statistics.median(pair[0] / pair[1] for pair in pairs)
    bar(f"{label}_staleness_costs", cost, 0.05, at_least=False)


def main() -> None:
    large = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as name, start_postgres("max_wal_size=8GB") as server:
        folder = Path(name)
        for label in ("sqlite", "postgres"):
            staleness(label, f"sqlite:///{folder}/rate.db" if label == "sqlite" else server.create_database())
            urls = {
                chunks: f"sqlite:///{folder}/{chunks}.db" if label == "sqlite" else server.create_database()
                for chunks in (SMALL, large)
            }
            for chunks, url in urls.items():
                start = time.perf_counter()
                filled(url, chunks).close()
                figure(f"{label}_fill_{chunks}", time.perf_counter() - start, "s")
            looking(label, urls, folder)
            for url in urls.values():
                if label == "sqlite":
                    Path(url.removeprefix("sqlite:///")).unlink()
    finish()


if __name__ == "__main__":
    main()
