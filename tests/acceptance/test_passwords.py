"""Who writes rows of the store, or stands in for a server, gets no password; servers here keep what they are sent."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import opendataflow
from opendataflow import Dataset
from opendataflow.errors import OdfError, StoreUnreachable
from opendataflow.spark.postgres.connection import address_of, connected
from opendataflow.store import open_store
from tests.support.fake_postgres import CLEARTEXT, MD5, FakePostgres
from tests.support.odf import Odf
from tests.support.shell import Shell

SECRET = "canary-7d1e55"
KEY = {"PASSKEY": "correct horse"}


def java(plaintext: str) -> str:
    """What the Java tool writes, which is bound to nothing."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    iv, key = os.urandom(12), hashlib.sha512(KEY["PASSKEY"].encode()).digest()[:32]
    return base64.b64encode(iv + AESGCM(key).encrypt(iv, plaintext.encode(), None)).decode()


@pytest.fixture
def evil() -> Iterator[FakePostgres]:
    server = FakePostgres()
    yield server
    server.close()


def table(port: int, **more: Any) -> Dataset:
    more = {"hostname": "127.0.0.1", "options": {"port": port}} | more
    return Dataset("orders", kind="table", database="shop", tablename="orders", username="etl", **more)


def connect(dataset: Dataset, password: str | None = SECRET) -> None:
    with connected(address_of(dataset, password)):
        pass


# The wire -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asks", [CLEARTEXT, MD5])
def test_no_password_is_sent_in_clear_text_or_md5_unless_the_dataset_says_so(evil: FakePostgres, asks: bytes) -> None:
    evil.asks = asks
    with pytest.raises(OdfError) as caught:
        connect(table(evil.port))
    assert SECRET not in str(caught.value)
    assert evil.connections
    assert evil.passwords == []
    method = "password" if asks == CLEARTEXT else "md5"
    with pytest.raises(OdfError):
        connect(table(evil.port, options={"port": evil.port, "require_auth": ["scram-sha-256", method]}))
    assert len(evil.passwords) == 1, "the server would have got it"


@pytest.mark.parametrize("asks", [CLEARTEXT, MD5])
def test_the_store_sends_its_password_neither_in_clear_text_nor_in_md5(evil: FakePostgres, asks: bytes) -> None:
    evil.asks = asks
    address = f"127.0.0.1:{evil.port}/x"
    for url, password in ((f"postgresql://etl@{address}", SECRET), (f"postgresql://etl:{SECRET}@{address}", None)):
        with pytest.raises(StoreUnreachable) as caught:
            open_store(url, password=password)
        assert SECRET not in str(caught.value)
    assert evil.connections
    assert evil.passwords == []
    method = "password" if asks == CLEARTEXT else "md5"
    with pytest.raises(StoreUnreachable):
        open_store(f"postgresql://etl:{SECRET}@{address}?require_auth={method}")
    assert len(evil.passwords) == 1, "the server would have got it"


def test_a_connection_that_is_refused_is_closed_while_its_error_is_told(evil: FakePostgres) -> None:
    with pytest.raises(StoreUnreachable) as caught:
        open_store(f"postgresql://etl:{SECRET}@127.0.0.1:{evil.port}/x")
    assert evil.hung_up.wait(20), caught


@pytest.mark.parametrize("hostname", ["", "127.0.0.1"])
def test_the_environment_leads_no_connection_elsewhere(
    evil: FakePostgres, hostname: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "services").write_text(
        f"[evil]\nhost=127.0.0.1\nhostaddr=127.0.0.1\nport={evil.port}\nrequire_auth=password\n"
    )
    leads = {
        "PGHOST": "127.0.0.1",
        "PGHOSTADDR": "127.0.0.1",
        "PGPORT": str(evil.port),
        "PGREQUIREAUTH": "password",
        "PGSERVICEFILE": str(tmp_path / "services"),
        "PGSERVICE": "evil",
    }
    for name, value in leads.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(OdfError):
        connect(table(0, hostname=hostname, options={} if hostname == "" else {"port": 1}))
    assert evil.connections == 0


def test_a_database_that_looks_like_an_address_is_a_database(evil: FakePostgres) -> None:
    for database in (
        f"host=127.0.0.1 port={evil.port}",
        f"postgresql://127.0.0.1:{evil.port}/x",
        f"x' port='{evil.port}",
    ):
        with pytest.raises(OdfError):
            connect(Dataset("a", kind="table", hostname="127.0.0.1:1", database=database, tablename="t", username="u"))
    assert evil.connections == 0


def test_a_password_goes_to_a_server_that_asks_for_scram_and_none_is_needed_where_the_server_trusts(
    postgres_url: str,
) -> None:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    facts = conninfo_to_dict(postgres_url)
    trusting = Dataset(
        "orders",
        kind="table",
        hostname=str(facts["host"]),
        database=str(facts["dbname"]),
        tablename="orders",
        username="postgres",
        options={"port": int(str(facts["port"]))},
    )
    connect(trusting, None)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        assert connection.execute("show password_encryption").fetchone() == ("scram-sha-256",)
    # A server that asks for nothing has not shown that it knows the password either.
    with pytest.raises(OdfError):
        connect(trusting, SECRET)


# Rows of the store ----------------------------------------------------------------------------------------------------


@pytest.fixture
def loaded(shell: Shell, evil: FakePostgres) -> Shell:
    """A job that writes a table, whose password is bound to no address, as the original's users have it."""
    shell.extra = KEY
    shell.dml(
        "insert into dataset (datasetid) values ('days')",
        "insert into dataset (datasetid, kind, hostname, database, tablename, username, encryptedpass) "
        f"values ('orders', 'table', 'db.example', 'shop', 'orders', 'etl', '{java(SECRET)}')",
        "insert into job (jobid, itemtype, datasetid) values ('load', 'IN', 'days')",
        "insert into job (jobid, itemtype, datasetid) values ('load', 'OUT', 'orders')",
    )
    shell.odf("ready", "days", "1")
    shell.script("load.sh", 'echo "$orders_hostname $orders_password" >> sent')
    return shell


def sent(shell: Shell) -> str:
    file = shell.folder / "sent"
    return file.read_text() if file.exists() else ""


@pytest.mark.fault(31)
def test_an_unbound_password_goes_nowhere_on_the_word_of_the_store(loaded: Shell) -> None:
    for command in (("run", "./load.sh"), ("start", "load"), ("startjob", "load")):
        refused = loaded.odf(*command, code=18)
        assert "UNTRUSTED_DEFINITION" in refused.out + refused.err
        assert "db.example" in refused.out + refused.err
        assert "odf crypt rekey --for orders" in refused.out + refused.err
        assert SECRET not in refused.out + refused.err
    assert "UNTRUSTED_DEFINITION" not in loaded.odf("vacuum", "--yes").out
    assert "db.example" in loaded.odf("vacuum", "--yes").err
    assert sent(loaded) == ""
    loaded.odf("crypt", "rekey", "--for", "orders", "--same-key", "--yes")
    loaded.odf("run", "./load.sh")
    assert "db.example" in sent(loaded)


@pytest.mark.fault(31)
def test_a_row_that_was_moved_to_another_server_gets_no_password(loaded: Shell, evil: FakePostgres) -> None:
    loaded.odf("crypt", "rekey", "--for", "orders", "--same-key", "--yes")
    url = f"jdbc:postgresql://127.0.0.1:{evil.port}/x"
    for change in (
        f"hostname = '127.0.0.1:{evil.port}'",
        "hostname = 'db.example'",
        f"hostname = 'db.example', options = '{{\"port\": {evil.port}}}'",
        f"hostname = 'db.example', options = '{{\"url\": \"{url}\"}}', format = 'jdbc'",
        "hostname = '', options = '{}', format = ''",
        "hostname = 'db.example', username = 'postgres'",
        "username = 'etl', database = 'other'",
    ):
        loaded.dml(f"update dataset set {change} where datasetid = 'orders'")
        if change == "hostname = 'db.example'":
            continue
        refused = loaded.odf(
            "run", "./load.sh", code=None, PGHOST="127.0.0.1", PGPORT=str(evil.port), PGHOSTADDR="127.0.0.1"
        )
        assert refused.code in (17, 18), (change, refused)
        loaded.odf("vacuum", "--yes", code=None, PGHOST="127.0.0.1", PGPORT=str(evil.port))
        loaded.odf("start", "load", code=refused.code)
    assert sent(loaded) == ""
    assert evil.connections == 0


@pytest.mark.fault(31, 35)
def test_a_password_in_plain_text_in_a_row_stops_its_own_job_only_and_is_not_shown(loaded: Shell) -> None:
    # As an earlier version or another program may have written it, before the store refused it.
    done = loaded.odf("dml", "update dataset set encryptedpass = 'sesame' where datasetid = 'orders'", code=None)
    if done.code:
        assert "sesame" not in done.err
        return
    refused = loaded.odf("run", "./load.sh", code=2)
    assert refused.err.startswith("BAD_DEFINITION")
    assert "sesame" not in refused.out + refused.err
    loaded.dml(
        "insert into dataset (datasetid) values ('other')",
        "insert into job (jobid, itemtype, datasetid) values ('free', 'IN', 'days')",
        "insert into job (jobid, itemtype, datasetid) values ('free', 'OUT', 'other')",
    )
    loaded.script("free.sh", "true")
    loaded.odf("run", "./free.sh")


# Messages ---------------------------------------------------------------------------------------------------------------


@pytest.mark.fault(25)
def test_the_reason_that_somebody_gives_holds_no_password(shell: Shell) -> None:
    shell.extra = KEY
    shell.dml("insert into dataset (datasetid) values ('days'), ('out')")
    token = shell.odf("crypt", "encrypt", "--for", "days", stdin=SECRET).out.strip()
    shell.dml(
        f"update dataset set encryptedpass = '{token}' where datasetid = 'days'",
        "insert into job (jobid, itemtype, datasetid) values ('load', 'IN', 'days')",
        "insert into job (jobid, itemtype, datasetid) values ('load', 'OUT', 'out')",
    )
    shell.odf("ready", "days", "1")
    run = shell.odf("start", "load", "--json").data["ODF_RUN"]
    login = base64.b64encode(f"etl:{SECRET}".encode()).decode()
    answer = shell.odf("end", run, "FAILED", "--why", f"login {SECRET} {login} {SECRET.encode().hex()} failed")
    [row] = shell.odf("sql", "select detail from run", "--json").data
    for shown in (answer.out + answer.err, row["detail"], shell.odf("runs", "--json").out):
        assert SECRET not in shown
        assert base64.b64encode(SECRET.encode()).decode().rstrip("=")[:-2] not in shown
        assert SECRET.encode().hex() not in shown
    assert row["detail"].count("[redacted]") == 3


@pytest.mark.parametrize(
    "words",
    [
        "end {run} RESUBMIT",
        "resubmit out 1 --force --yes",
        "hold days 1 --yes",
        "pause load",
        "cancel {run}",
        "pool set p 2 --create",
    ],
)
def test_no_reason_repeats_the_password_of_a_dataset(shell: Shell, words: str) -> None:
    shell.extra = KEY
    run = _claimed(shell)
    shell.odf(*words.format(run=run).split(), "--why", f"password is {SECRET}, so")
    stored = "".join(shell.odf("sql", f"select * from {name}", "--json").out for name in ("event", "pause", "run"))
    assert SECRET not in stored
    assert "password is [redacted], so" in stored


def _claimed(shell: Shell) -> str:
    """A running claim of job load, which reads dataset days; a password is needed there."""
    shell.dml("insert into dataset (datasetid) values ('days'), ('out')")
    token = shell.odf("crypt", "encrypt", "--for", "days", stdin=SECRET).out.strip()
    shell.dml(
        f"update dataset set encryptedpass = '{token}' where datasetid = 'days'",
        "insert into job (jobid, itemtype, datasetid) values ('load', 'IN', 'days'), ('load', 'OUT', 'out')",
    )
    shell.odf("ready", "days", "1")
    return str(shell.odf("start", "load", "--json").data["ODF_RUN"])


@pytest.mark.parametrize("form", ["PASSKEY_FILE", "PASSKEY_COMMAND"])
def test_no_reason_repeats_a_key_of_a_file_or_command(shell: Shell, form: str) -> None:
    file = shell.write("key", SECRET)
    file.chmod(0o600)
    shell.extra = {form: str(file) if form == "PASSKEY_FILE" else f"cat {file}"}
    shell.dml("insert into dataset (datasetid) values ('a')")
    shell.odf("hold", "a", "1", "--yes", "--why", f"key is {SECRET} ok")
    shell.extra = {form: "/nowhere"}
    shell.odf("hold", "a", "2", "--yes", "--why", "fine")
    stored = shell.odf("sql", "select why from event", "--json").out
    assert SECRET not in stored
    assert "key is [redacted] ok" in stored
    assert "fine" in stored


@pytest.mark.parametrize("name", ["PASSKEY", "PASSKEY_FILE", "PGPASSWORD"])
def test_no_reason_given_in_python_repeats_what_the_environment_holds(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    shell.dml("insert into dataset (datasetid) values ('a')")
    file = shell.write("key", SECRET)
    file.chmod(0o600)
    monkeypatch.setenv(name, str(file) if name == "PASSKEY_FILE" else SECRET)
    with opendataflow.open(shell.store_url or f"sqlite:///{shell.folder}/dataflow.db") as store:
        store.hold("a", ["1"], why=f"it is {SECRET} or {base64.b64encode(SECRET.encode()).decode()}")
    assert os.environ[name]
    [row] = shell.odf("sql", "select why from event", "--json").data
    assert row["why"] == "it is [redacted] or [redacted]"


@pytest.mark.fault(25)
def test_the_key_shows_in_no_error_not_even_with_its_trace(tmp_path: Path) -> None:
    odf = Odf(tmp_path, f"sqlite:///{tmp_path}/dataflow.db")
    odf("migrate")
    for more in ((), ("--json",), ("--debug",)):
        answer = odf("why", "no-such-job-Swordf1sh", *more, code=2, PASSKEY="Swordf1sh")
        assert "Swordf1sh" not in answer.out + answer.err
        assert "[redacted]" in answer.out + answer.err


@pytest.mark.fault(25, 32)
def test_a_secret_file_of_a_killed_worker_is_gone_when_the_next_one_starts(home: Shell) -> None:
    left = home.write(".odf/.odf-secret-0123456789abcdef", "orders_password=sesame\n")
    home.dml("insert into dataset (datasetid) values ('a')")
    assert left.exists()
    home.odf("ready", "a", "1")
    assert not left.exists()


@pytest.mark.fault(32)
def test_a_key_file_that_its_group_can_read_is_refused_by_every_door(home: Shell) -> None:
    file = home.write("key", "correct horse\n")
    file.chmod(0o640)
    home.dml("insert into dataset (datasetid) values ('a')")
    for variable, command in (
        ("PASSKEY_FILE", ("ready", "a", "1")),
        ("NEW_PASSKEY_FILE", ("crypt", "rekey", "--all")),
    ):
        answer = home.odf(*command, code=2, **({variable: str(file)} | (KEY if variable[0] == "N" else {})))
        assert f"{variable} {file} is open to its group" in answer.err
        assert "chmod 600" in answer.err


@pytest.mark.fault(25)
def test_a_script_finds_neither_the_key_nor_the_stores_password_also_not_in_proc(home: Shell) -> None:
    home.dml(
        "insert into dataset (datasetid) values ('a'), ('b')",
        "insert into job (jobid, itemtype, datasetid) values ('load', 'IN', 'a')",
        "insert into job (jobid, itemtype, datasetid) values ('load', 'OUT', 'b')",
    )
    home.odf("ready", "a", "1")
    home.script("load.sh", "env > seen; cat /proc/$PPID/environ >> seen; cat /proc/self/environ >> seen")
    home.odf("run", "./load.sh", PASSKEY="canary-key", NEW_PASSKEY="canary-new")
    assert b"canary" not in (home.folder / "seen").read_bytes()
