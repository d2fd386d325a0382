"""Peers: the same number of empty chunks through queues and a scheduler that others use, and through ours, on one PostgreSQL.

PgQueuer, Procrastinate and Luigi are installed into an environment of their own in build/peers, never into ours. Each side has one
process (bench/_peer.py says how each is used), and all take turns: a round is the same number of chunks for each of them, the
next round begins with another side. A queue knows nothing of data: it keeps no status of chunks, asks no questions, and has no
lineage. What it does have is the price of handing out and ending work durably, which is what is compared here.

./dev bench peers       5 rounds of 1,000 chunks
./dev bench peers 200   5 rounds of 200
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bench._crew import Cost, ratio
from bench._report import bar, finish, say
from tests.support.postgres import start_postgres

ENVIRONMENT = ROOT / "build" / "peers"
PEERS = ("pgqueuer[asyncpg]==1.6.0", "procrastinate==3.10.0", "luigi==3.8.1", "psycopg[binary]>=3.2", "uvloop")
SIDES = {
    "ours": ["ours"],
    "drain_1_worker": ["drain", "1"],
    "drain_4_workers": ["drain", "4"],
    "procrastinate": ["procrastinate"],
    "pgqueuer_batch_1": ["pgqueuer", "1"],
    "pgqueuer_batch_4": ["pgqueuer", "4"],
    "luigi": ["luigi"],
}
ROUNDS = 5


def installed() -> str:
    """The Python of an environment that has the peers."""
    python, stamp = ENVIRONMENT / "bin" / "python", ENVIRONMENT / "installed"
    if not stamp.exists() or stamp.read_text() != "\n".join(PEERS):
        say(f"installing {', '.join(PEERS)} into build/peers, once")
        for command in (
            [sys.executable, "-m", "venv", "--clear", str(ENVIRONMENT)],
            [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *PEERS],
        ):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(f"the peers cannot be installed, and nothing is measured:\n{done.stderr.strip()[-2000:]}")
        stamp.write_text("\n".join(PEERS))
    return str(python)


class Side:
    """A process that fills and empties one queue."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self._process, self._url = process, url

    def ask(self, words: str) -> dict[str, float]:
        """What it answers."""
        sent, answers = self._process.stdin, self._process.stdout
        assert sent
        assert answers
        sent.write(words + "\n")
        sent.flush()
        line = answers.readline()
        if not line:
            sys.exit(f"{self._process.args} ended; what it said is above")
        answer: dict[str, float] = json.loads(line)
        return answer

    def fill(self, chunks: int) -> None:
        """Have it put chunks into its queue; the planner gets to know of them."""
        self.ask(f"fill {chunks}")
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute("vacuum analyze")


@contextmanager
def side(python: str, words: list[str], url: str) -> Iterator[Side]:
    command = [python, str(ROOT / "bench" / "_peer.py"), words[0], url, *words[1:]]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Side(process, url)
        process.communicate()


def main() -> None:
    chunks = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    peers_python = installed()
    costs: dict[str, Cost] = {name: Cost() for name in SIDES}
    with ExitStack() as stack:
        server = stack.enter_context(start_postgres())
        sides: dict[str, Any] = {}
        for name, words in SIDES.items():
            python = sys.executable if words[0] in ("ours", "drain") else peers_python
            sides[name] = stack.enter_context(side(python, words, server.create_database()))
        for round_ in range(-1, ROUNDS):  # the first one warms them up
            say(f"round {round_ + 1} of {ROUNDS}, {chunks} chunks for each side" if round_ >= 0 else "warming up")
            names = list(sides)
            for name in names[round_ % len(names) :] + names[: round_ % len(names)]:
                sides[name].fill(chunks)
                before = server.cpu_seconds()
                found = sides[name].ask("run")
                on_server = server.cpu_seconds() - before
                assert found["runs"] == chunks, (name, found)
                if round_ >= 0:
                    costs[name].add(chunks, found["seconds"], found["cpu"], on_server)
    for name, cost in costs.items():
        cost.show(name, on_server=name != "luigi")
    bar("ours_over_procrastinate", ratio(costs["ours"], costs["procrastinate"]), 1.2, at_least=True)
    bar("ours_over_pgqueuer_batch_1", ratio(costs["ours"], costs["pgqueuer_batch_1"]), 1.0, at_least=True)
    over = ratio(costs["drain_1_worker"], costs["pgqueuer_batch_4"])
    bar("drain_1_worker_over_pgqueuer_batch_4", over, 1.0, at_least=True)
    finish()


if __name__ == "__main__":
    main()
