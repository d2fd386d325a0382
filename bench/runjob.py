"""RunJob: what one cold call costs, that looking does not grow with the store, and that no secret leaks.

./dev bench runjob         all of it
./dev bench runjob 20000   with so many chunks instead of 1,000,000
./dev bench runjob quick   few rounds, and no large store
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench._filled import define, filled
from bench._report import bar, figure, finish
from opendataflow.store import open_store
from tests.support.postgres import start_postgres

BIN = Path(sys.executable).parent
CANARY = "kanarienvogel-7f3a9c"


class Spent(NamedTuple):
    """What a command took, in seconds: by the clock, and of the processor, with everything that it started here."""

    wall: float
    cpu: float


def spent(command: list[str], folder: Path) -> Spent:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryFile() as told:
        start = time.perf_counter()
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=told)
        _, status, used = os.wait4(process.pid, 0)
        end = time.perf_counter()
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            told.seek(0)
            sys.exit(f"{' '.join(command)}: exit {process.returncode}: {told.read().decode()}")
    return Spent(end - start, used.ru_utime + used.ru_stime)


def medians(commands: dict[str, list[str]], folder: Path, rounds: int) -> dict[str, Spent]:
    """The median time of each command; they alternate, so that noise hits all of them."""
    times: dict[str, list[Spent]] = {name: [] for name in commands}
    for round_ in range(rounds + 2):
        for name, command in commands.items():
            once = spent(command, folder)
            if round_ > 1:
                times[name].append(once)
    return {name: Spent(*map(statistics.median, zip(*each, strict=True))) for name, each in times.items()}


def cold(folder: Path, server_url: str, rounds: int) -> None:
    script = folder / "load.sh"
    script.write_text("#!/usr/bin/env bash\n")
    script.chmod(0o755)
    urls = {"sqlite": f"sqlite:///{folder}/cold.db", "postgres": server_url}
    for url in urls.values():
        store = open_store(url, create=True)
        define(store)
        store.announce("raw", [str(number) for number in range(100_000)])
        store.claim("load")
        store.close()
    found = medians(
        {
            "bash": ["bash", "load.sh"],
            "python": [sys.executable, "-c", "pass"],
            **{name: [str(BIN / "RunJob"), "--store", url, "./load.sh"] for name, url in urls.items()},
        },
        folder,
        rounds,
    )
    for name, taken in found.items():
        figure(f"cold_{name}", taken.wall * 1e3, "ms")
        figure(f"cold_{name}_cpu", taken.cpu * 1e3, "ms")
    alone = Spent(*map(sum, zip(found["bash"], found["python"], strict=True)))
    bar("runjob_sqlite_over_bash_plus_python", found["sqlite"].wall / alone.wall, 7, at_least=False)
    figure("runjob_sqlite_over_bash_plus_python_cpu", found["sqlite"].cpu / alone.cpu, "times")
    bar("runjob_postgres_over_sqlite", found["postgres"].wall / found["sqlite"].wall, 2.0, at_least=False)
    figure("runjob_postgres_over_sqlite_cpu", found["postgres"].cpu / found["sqlite"].cpu, "times")
    verbs(folder, urls, rounds)


def verbs(folder: Path, urls: dict[str, str], rounds: int) -> None:
    """What verbs that look cost a person who types them, beside one that only says its version."""
    asked = (["why", "load"], ["explain", "clean", "100"], ["runs"])
    commands = {
        f"{store}_{verb[0]}": [str(BIN / "odf"), *verb, "--store", url] for store, url in urls.items() for verb in asked
    }
    found = medians({"version": [str(BIN / "odf"), "--version"], **commands}, folder, rounds // 2)
    for name, taken in found.items():
        figure(f"cold_{name}", taken.wall * 1e3, "ms")
        figure(f"cold_{name}_cpu_over_version", taken.cpu / found["version"].cpu, "times")


def looking(folder: Path, large_chunks: int, make_postgres: object) -> None:
    for label in ("sqlite", "postgres"):
        small, large = (
            f"sqlite:///{folder}/{name}.db" if label == "sqlite" else make_postgres() for name in ("small", "large")
        )  # type: ignore[operator]
        filled(small, 1000).close()
        filled(large, large_chunks).close()
        for verb in (["status"], ["why", "load"], ["explain", "clean", "100"]):
            commands = {
                name: [str(BIN / "odf"), *verb, "--store", url] for name, url in (("small", small), ("large", large))
            }
            found = medians(commands, folder, 5)
            figure(f"{label}_{verb[0]}_at_1000", found["small"].wall * 1e3, "ms")
            figure(f"{label}_{verb[0]}_at_1000000", found["large"].wall * 1e3, "ms")
            bar(f"{label}_{verb[0]}_growth", found["large"].wall / found["small"].wall, 3, at_least=False)


def canary(folder: Path) -> None:
    """A password that the script prints, after success, failure and Ctrl-C: it must be nowhere but in the script's environment."""
    home = folder / "canary"
    home.mkdir()
    environment = dict(os.environ) | {"PASSKEY": "the-key-" + CANARY[:6]}
    odf = [str(BIN / "odf")]
    token = subprocess.run(
        [*odf, "crypt", "encrypt", "--for", "db", "--hostname", ""],
        input=CANARY,
        env=environment,
        cwd=home,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    url = f"sqlite:///{home}/dataflow.db"
    store = open_store(url, create=True)
    store.dml(f"insert into dataset (datasetid, encryptedpass) values ('db', '{token}'), ('out', '')")
    store.dml("insert into job (jobid, itemtype, datasetid) values ('leak', 'IN', 'db'), ('leak', 'OUT', 'out')")
    store.announce("db", ["1", "2", "3"])
    script = home / "leak.sh"
    script.write_text(
        '#!/usr/bin/env bash\necho "password is $db_password"; echo "$db_password" >&2\n[ "$dataid" = 2 ] && exit 3\n[ "$dataid" = 3 ] && sleep 30\nexit 0\n'
    )
    script.chmod(0o755)
    run = [str(BIN / "RunJob"), "./leak.sh"]
    shown = ""
    for _ in range(2):
        done = subprocess.run(run, env=environment, cwd=home, capture_output=True, text=True)
        shown += done.stdout + done.stderr
    running = subprocess.Popen(
        run, env=environment, cwd=home, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    time.sleep(3)
    shown += subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, text=True).stdout
    running.send_signal(2)
    shown += running.communicate(timeout=60)[0]
    store.close()
    kept = b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file() and path != script)
    bar(
        "secret_canary_hits",
        shown.count(CANARY) + kept.count(CANARY.encode()) + shown.count("the-key-"),
        0,
        at_least=False,
    )
    bar("secret_canary_runs_that_redacted", kept.count(b"[redacted]") >= 3, 1, at_least=True)


def main() -> None:
    is_quick = sys.argv[1:] == ["quick"]
    large = int(sys.argv[1]) if len(sys.argv) > 1 and not is_quick else 1_000_000
    with tempfile.TemporaryDirectory() as name, start_postgres() as server:
        folder = Path(name)
        cold(folder, server.create_database(), 5 if is_quick else 25)
        canary(folder)
        if not is_quick:
            looking(folder, large, server.create_database)
    finish()


if __name__ == "__main__":
    main()
