"""Recovery: what `odf recover` costs as a process over 700 jobs × 30 days with 2,000 failures, beside `odf --version`."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import opendataflow
from bench._report import bar, figure, finish
from opendataflow.insight.recovery import plan
from tests.support.outage import Flow, break_down, days
from tests.support.postgres import start_postgres

JOBS, DAYS, MOST = 700, 30, 10.0
SHARES = (0.02, 0.02, 0.03, 0.06, 0.14, 0.9)  # of each level that fails: about 2,000 chunks in all


def once(words: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "opendataflow", *words], check=True, capture_output=True)
    return time.perf_counter() - start


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, start_postgres() as server:
        for label in ("sqlite", "postgres"):
            url = f"sqlite:///{folder}/store.db" if label == "sqlite" else server.create_database()
            with opendataflow.open(url, create=True) as store:
                flow = Flow(JOBS)
                flow.register(store)
                start = time.perf_counter()
                failed = break_down(store, flow, days(DAYS), SHARES)
                figure(f"{label}_filled", time.perf_counter() - start, "s")
                figure(f"{label}_failures", failed, "chunks")
                made = plan(store)
                start = time.perf_counter()
                made = plan(store)
                figure(f"{label}_plan_in_process", (time.perf_counter() - start) * 1e3, "ms")
                figure(f"{label}_to_resubmit", len(made.resubmit), "chunks")
                figure(f"{label}_runs", made.runs, "chunks")
            # Turn about, the first time for the caches.
            times = [(once(["--version"]), once(["recover", "--store", url])) for _ in range(8)][1:]
            version, recover = (statistics.median(column) for column in zip(*times, strict=True))
            figure(f"{label}_version", version * 1e3, "ms")
            figure(f"{label}_recover", recover * 1e3, "ms")
            bar(f"{label}_recover_over_version", recover / version, MOST, at_least=False)
    finish()


if __name__ == "__main__":
    main()
