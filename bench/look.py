"""Looking: what `odf status`, `why` and `explain` cost as processes at 1,000 and at 1,000,000 chunks of each input."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench._filled import filled
from bench._report import bar, figure, finish
from tests.support.postgres import start_postgres

VERBS = {
    "status": ["status"],
    "why_job": ["why", "load"],
    "why_chunk": ["why", "load", "499"],
    "explain": ["explain", "clean", "17"],
    "runs": ["runs"],
}


def once(words: list[str], url: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "opendataflow", *words, "--store", url], check=True, capture_output=True)
    return time.perf_counter() - start


def main() -> None:
    chunks = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder, start_postgres() as server:
        for label in ("sqlite", "postgres"):
            urls = [
                f"sqlite:///{folder}/{n}.db" if label == "sqlite" else server.create_database() for n in (1000, chunks)
            ]
            for url, n in zip(urls, (1000, chunks), strict=True):
                filled(url, n).close()
            for name, words in VERBS.items():
                # Turn about, the first time for the caches.
                times = [[once(words, url) for url in urls] for _ in range(6)][1:]
                few, many = (statistics.median(column) for column in zip(*times, strict=True))
                figure(f"{label}_{name}_at_1000", few * 1e3, "ms")
                figure(f"{label}_{name}_at_{chunks}", many * 1e3, "ms")
                bar(f"{label}_{name}_growth", many / few, 3.0, at_least=False)
    finish()


if __name__ == "__main__":
    main()
