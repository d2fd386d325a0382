"""Real processes that work on one store at the same time: python -m tests.support.workers WHAT URL ARG…

Each says "ready", waits for a line, does its work and answers with one line of JSON. So a test can start many of them,
and let them all go at once. When their input ends, those that wait for more know that nothing more will come.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import opendataflow
from opendataflow import Manifest, Store

ROOT = Path(__file__).parents[2]


def drain(store: Store, jobid: str, n: str, waits: str = "") -> list[tuple[str, int]]:
    """Claims and publishes n at a time until there is nothing to do, and nothing more to wait for; what it published."""
    done: list[tuple[str, int]] = []
    while True:
        may_come = bool(waits) and not select.select([sys.stdin], [], [], 0)[0]
        claims = store.claim(jobid, n=int(n))
        if claims:
            store.commit_many([(claim, {}, 0) for claim in claims])
            done += [(claim.dataid, claim.epoch) for claim in claims]
        elif not may_come:
            return done
        else:
            time.sleep(0.005)


def publish(store: Store, datasetid: str, first: str, last: str) -> int:
    """Announces chunks one by one."""
    for number in range(int(first), int(last)):
        store.announce(datasetid, [str(number)])
    return int(last) - int(first)


def contents(store: Store, datasetid: str, content: str, count: str) -> int:
    """Announces the same chunks as everybody else, each with contents of its own."""
    for number in range(int(count)):
        store.announce(datasetid, [str(number)], manifests={str(number): Manifest(fingerprint=f"{content} {number}")})
    return int(count)


def resubmit(store: Store, datasetid: str, times: str, stop: str) -> int:
    """Types RESUBMIT again and again over whatever is READY, a few chunks each time; how many chunks it hit."""
    hit = number = 0
    while number < int(times):
        hit += store.dml(
            f"update datastatus set status = 'RESUBMIT' where datasetid = '{datasetid}' and locktype = 'OUT' "
            f"and status = 'READY' and dataid in ('{number}', '{number + 7}', '{number * 3}')"
        )
        number += 1 if hit else 0  # nobody types it before there is something to type it over
        time.sleep(float(stop))
    return hit


def hold_places(store: Store, jobid: str, rounds: str, seconds: str, least: str = "1") -> list[int]:
    """Takes a location and keeps it for a moment, again and again; how many were taken meanwhile.

    The first one is kept until so many were taken: whoever looks first after that sees them all.
    """
    seen: list[int] = []
    for _ in range(int(rounds)):
        claims = store.claim(jobid)
        if claims:
            while not seen and len(store.views.runs(jobid=jobid)) < int(least):
                time.sleep(0.001)
            seen.append(store.views.slots_taken("pool"))
            time.sleep(float(seconds))
            store.commit(claims[0])
        else:
            time.sleep(0.001)
    return seen


def main(what: str, url: str, *arguments: str) -> None:
    """The process."""
    with opendataflow.open(url) as store:
        print("ready", flush=True)
        sys.stdin.readline()
        print(json.dumps(globals()[what](store, *arguments)))


class Workers:
    """Processes that wait for their start together."""

    def __init__(self, url: str, *calls: Sequence[str]) -> None:
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.support.workers", call[0], url, *call[1:]],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
            )
            for call in calls
        ]

    def go(self, patience: float = 200, *, in_turn: Sequence[Sequence[int]] = ()) -> list[Any]:
        """Lets them all go at once and returns what each answered.

        The input of those that are named in turn ends when all others have ended, and then of the next ones.
        """
        waiting = {number for each in in_turn for number in each}
        turns = [[number for number in range(len(self._processes)) if number not in waiting], *in_turn]
        try:
            for process in self._processes:
                assert process.stdout is not None
                first = process.stdout.readline()
                if first != "ready\n":
                    raise RuntimeError(f"a worker did not start: {process.communicate()[1]}")
            for process in self._processes:
                assert process.stdin is not None
                process.stdin.write("\n")
                process.stdin.flush()
            answers: dict[int, Any] = {}
            for turn in turns:
                for number in turn:
                    stdin = self._processes[number].stdin
                    assert stdin is not None
                    stdin.close()
                for number in turn:
                    process = self._processes[number]
                    process.stdin = None  # it has ended
                    out, err = process.communicate(timeout=patience)
                    if process.returncode != 0:
                        raise RuntimeError(f"a worker died:\n{err}")
                    answers[number] = json.loads(out)
            return [answers[number] for number in sorted(answers)]
        finally:
            for process in self._processes:
                process.kill()
                process.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
