"""Rows 23, 24, 25 and 32: a password and the key stay where they belong, whoever tampers, steals, looks or kills."""

from __future__ import annotations

import http.client
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import opendataflow
from opendataflow.chaos.auditor import breaches
from opendataflow.project import load, roots_of
from tests.support.broken import CANARY, Flow, alive, until
from tests.support.stores import type_sql

PASSWORD = "sesame-canary-81c2"
OTHER = "another-canary-44d0"
NOBODY = 65534

TABLES = """
[lineage]
to = "told/lineage.jsonl"

[dataset.orders]
kind = "table"
hostname = "db.example"
database = "shop"
tablename = "orders"
username = "etl"
partition = "number"
encryptedpass = "{orders}"

[dataset.people]
kind = "table"
hostname = "db2.example"
database = "shop"
tablename = "people"
username = "etl"
partition = "number"
encryptedpass = "{people}"

[dataset.loaded]
partition = "number"

[job.load]
reads = ["raw"]
writes = ["loaded", "orders", "people"]
lease = "2s"
retries = 20
backoff = "0s"
"""
# Says its password aloud, in clear and in base64, and waits where it is told to.
LOAD = """
echo "login $orders_password"; echo "$people_password" | base64 >&2
[ "$orders_password" = PASSWORD ]
if [ -e hold ]; then echo $$ >writing.new; mv writing.new writing; while [ -e hold ]; do sleep 0.05; done; fi
[ ! -e broken ] || { echo "cannot log in with $orders_password" >&2; exit 3; }
"""


@pytest.fixture
def sealed(flow: Flow) -> Flow:
    """The flow, with a job that is given two passwords."""
    flow.prepare([1])
    flow.shell.extra["PASSKEY"] = CANARY
    toml = flow.folder / "dataflow.toml"
    declared = toml.read_text().replace("[project]\n", "")
    plain = TABLES.format(orders="", people="")
    toml.write_text(declared + plain.replace('encryptedpass = ""\n', ""))
    tokens = {
        name: flow.shell.odf("crypt", "encrypt", "--for", name, stdin=word).out.strip()
        for name, word in (("orders", PASSWORD), ("people", OTHER))
    }
    toml.write_text(declared + TABLES.format(**tokens))
    # What it compares with is made at run time: the script itself is a file of the project, which is searched.
    halves = f"{PASSWORD[:9]}''{PASSWORD[9:]}"
    flow.shell.script("jobs/load.sh", LOAD.replace("PASSWORD", halves))
    flow.shell.odf("apply", "--yes")
    return flow


def audit(flow: Flow, *folders: Path) -> None:
    """No promise is broken, and neither password nor key is in the store, a log, a page or any file."""
    flow.shell.odf("rescue")
    with opendataflow.open(flow.store_url) as store:
        project = load(flow.folder / "dataflow.toml", None)
        store.roots = lambda: roots_of(project, flow.store_url)
        secrets = [word.encode() for word in (PASSWORD, OTHER, CANARY)]
        assert breaches(store, project, secrets=secrets, folders=folders) == []
        assert store.views.running() == []


# Tampering -----------------------------------------------------------------------------------------------------------


@pytest.mark.fault(23)
def test_a_wrong_key_a_changed_token_and_swapped_rows_are_refused_with_one_message(sealed: Flow) -> None:
    rows = sealed.shell.odf(
        "sql", "select datasetid, encryptedpass from dataset where encryptedpass <> ''", "--json"
    ).data
    tokens = {row["datasetid"]: row["encryptedpass"] for row in rows}
    flipped = tokens["orders"][:-9] + ("A" if tokens["orders"][-9] != "A" else "B") + tokens["orders"][-8:]
    said = set()
    for key, orders, people in (
        ("not the key", tokens["orders"], tokens["people"]),
        (CANARY, flipped, tokens["people"]),
        (CANARY, tokens["people"], tokens["orders"]),
        (CANARY, tokens["people"], tokens["people"]),
    ):
        for name, value in (("orders", orders), ("people", people)):
            type_sql(sealed.store_url, f"update dataset set encryptedpass = '{value}' where datasetid = '{name}'")
        for door in (("run", "jobs/load.sh"), ("start", "load")):
            refused = sealed.shell.odf(*door, code=17, PASSKEY=key)
            assert PASSWORD not in refused.out + refused.err
            assert OTHER not in refused.out + refused.err
            assert key not in refused.out + refused.err
            said.add(refused.err)
    assert len(said) == 1, said
    assert "BAD_KEY" in said.pop()
    for name, value in tokens.items():
        type_sql(sealed.store_url, f"update dataset set encryptedpass = '{value}' where datasetid = '{name}'")
    sealed.shell.odf("run", "load", "--dataid", "1")
    sealed.heal()
    audit(sealed)


@pytest.mark.fault(24)
def test_a_stolen_store_holds_neither_a_password_nor_the_key(sealed: Flow, tmp_path: Path) -> None:
    sealed.shell.odf("drain")
    stolen = tmp_path / "stolen"
    stolen.mkdir()
    sealed.shell.odf("export", str(stolen / "export"))
    if sealed.shell.store_url is None:
        sealed.shell.odf("backup", str(stolen / "backup"))
        for file in sealed.folder.glob("dataflow.db*"):
            shutil.copy(file, stolen)
    else:
        with opendataflow.open(sealed.store_url) as store:
            for table in ("dataset", "job", "event", "run", "log_tail", "data_manifest", "meta", "note"):
                _, rows = store.sql(f"select t::text from {table} t")
                (stolen / table).write_text("\n".join(row for (row,) in rows))
    found = b"".join(file.read_bytes() for file in stolen.iterdir())
    assert b"odf2:" in found
    for word in (PASSWORD, OTHER, CANARY):
        assert word.encode() not in found
        assert word.encode().hex().encode() not in found.lower()
    audit(sealed, stolen)


# After success, failure and crash ----------------------------------------------------------------------------------------


@contextmanager
def own_temp(flow: Flow) -> Iterator[Path]:
    """A folder for temporary files that nobody else uses."""
    with tempfile.TemporaryDirectory(prefix="odf-temp-") as name:
        flow.shell.extra["TMPDIR"] = name
        yield Path(name)


def shown(flow: Flow, folder: Path) -> None:
    """Everything that tells people about the flow, as files in a folder."""
    folder.mkdir(exist_ok=True)
    for line in (
        *("status", "why load", "explain loaded 1", "runs --json", "history --json", "log load", "report --html -", "metrics"),
        *("lineage loaded 1", "jobs load", "datasets orders", "recover", "timeline", "doctor"),
    ):  # fmt: skip
        answer = flow.shell.odf(*line.split(), code=None)
        (folder / re.sub("[^a-z]", "-", line)).write_text(answer.out + answer.err)
    traced = flow.start("why", "nothing-here", "--debug")
    (folder / "traceback").write_text("".join(traced.communicate(timeout=240)))
    console = flow.start("serve", "--listen", "127.0.0.1:0")
    assert console.stderr is not None
    said = ""
    while (found := re.search(r"http://[^/]+:(\d+)/", said)) is None:
        line = console.stderr.readline()
        assert line, said
        said += line
    for path in (
        "/",
        "/job/load",
        "/chunk/loaded/1",
        "/run/1",
        "/dataset/orders",
        "/history",
        "/report",
        "/api/v1/runs",
    ):
        connection = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=240)
        connection.request("GET", path)
        (folder / f"page{path.replace('/', '-')}").write_bytes(connection.getresponse().read())
        connection.close()
    console.send_signal(signal.SIGTERM)
    console.communicate(timeout=240)


def command_lines(word: bytes) -> list[str]:
    """The processes whose command line, which everybody sees, holds a word."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word in path.read_bytes():
                found.append(str(path))
        except OSError:
            continue
    return found


@pytest.mark.fault(25)
def test_no_secret_is_left_anywhere_after_success_failure_and_crash(sealed: Flow, tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    with own_temp(sealed) as temp:
        broken = sealed.folder / "broken"
        broken.touch()
        failed = sealed.shell.odf("run", "jobs/load.sh", code=1)
        assert "login [redacted]" in failed.out + failed.err
        broken.unlink()
        for step in ("after claim", "spawned", "exited", "audited", "in commit"):
            worker = sealed.start("run", "jobs/load.sh", at=step)
            worker.communicate(timeout=240)
            assert worker.returncode == -signal.SIGKILL, step
            sealed.outlast()
        hold = sealed.hold_script()
        worker = sealed.start("drain", "load")
        script = sealed.writing(worker)
        for word in (PASSWORD, OTHER, CANARY):
            assert command_lines(word.encode()) == []
        worker.kill()
        worker.communicate()
        until(lambda: not alive(script), "the end of its script")
        hold.unlink()
        sealed.release_script()
        sealed.heal()
        shown(sealed, pages)
        assert "Traceback" in (pages / "traceback").read_text()
        assert "READY" in (pages / "explain-loaded--").read_text()
        audit(sealed, temp, pages)


# Another user of the machine -------------------------------------------------------------------------------------------

PEEP = """
import os, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
folder, temp, worker, script = sys.argv[1:]
found = []
def see(path):
    try:
        found.append(open(path, "rb").read())
    except OSError:
        pass
for pid in (worker, script):
    for name in ("environ", "cmdline", "maps", "auxv"):
        see(f"/proc/{pid}/{name}")
for top in (temp, folder + "/.odf", folder):
    for base, folders, names in os.walk(top):
        for name in names:
            if name.startswith(".odf-secret") or ".db" in name or base.endswith("logs") or "/logs/" in base or top == temp:
                path = os.path.join(base, name)
                try:
                    open(path, "rb"); print("read", path)
                except OSError:
                    pass
                try:
                    open(path, "ab"); print("wrote", path)
                except OSError:
                    pass
for word in (b"sesame-canary-81c2", b"another-canary-44d0", b"canary-5f3a9c71"):
    if any(word in each for each in found):
        print("found", word)
"""


@pytest.mark.fault(32)
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_another_user_of_the_machine_reads_and_writes_nothing(sealed: Flow) -> None:
    for parent in (sealed.folder, *sealed.folder.parents):
        if parent == Path("/tmp") or parent == Path(tempfile.gettempdir()):
            break
        parent.chmod(parent.stat().st_mode | stat.S_IXOTH | stat.S_IROTH)  # pytest's own folders are closed
    text = (sealed.folder / "dataflow.toml").read_text()
    (sealed.folder / "dataflow.toml").write_text(text.replace("[job.load]", '[job.load]\nsecrets = "file"'))
    script = (sealed.folder / "jobs/load.sh").read_text()
    (sealed.folder / "jobs/load.sh").write_text(script.replace("set -eu\n", 'set -eu\n. "$ODF_SECRETS"\n'))
    sealed.shell.odf("apply", "--yes")
    with own_temp(sealed) as temp:
        temp.chmod(0o755)
        sealed.hold_script()
        worker = sealed.start("drain", "load")
        writing = sealed.writing(worker)
        seen = subprocess.run(
            [sys.executable, "-c", PEEP, str(sealed.folder), str(temp), str(worker.pid), str(writing)],
            capture_output=True,
            text=True,
            timeout=240,
            check=True,
        )
        assert seen.stdout == ""
        sealed.release_script()
        worker.communicate(timeout=240)
        assert worker.returncode == 0
        sealed.heal()
        audit(sealed, temp)
