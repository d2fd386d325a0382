"""Secrets in plain text are recognised, hidden and kept out of the store at every door."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import psycopg
import pytest

from tests.support.shell import Shell

SECRET = "canary-4c1b90"


# The address of the store -------------------------------------------------------------------------------------------


@pytest.mark.postgres
@pytest.mark.parametrize("form", ["password", "%70assword", "sslpassword"])
def test_no_verb_shows_a_secret_of_the_stores_address(fresh_postgres_url: str, tmp_path: Path, form: str) -> None:
    shell = Shell(tmp_path)
    address = f"{fresh_postgres_url}?{form}={SECRET}"
    for given in ({"ODF_STORE": address}, None):
        options = () if given else ("--store", address)
        for words in (
            ["migrate"],
            ["doctor"],
            ["doctor", "--json"],
            ["status", "--json"],
            ["report"],
            ["export", "x.jsonl"],
        ):
            answer = shell.odf(*words, *options, code=None, **(given or {}))
            assert SECRET not in answer.out + answer.err, words
        (tmp_path / "x.jsonl").unlink(missing_ok=True)


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://etl:{SECRET}/x@127.0.0.1:1/db",
        f"postgresql://etl:12/{SECRET}@127.0.0.1:1/db",
        f"postgresql://127.0.0.1:1/db?sslmode=%zz{SECRET}",
        f"postgresql://127.0.0.1:1/db?{SECRET}",
        f"jdbc:postgresql://127.0.0.1:1/db?password={SECRET}",
        f"host=127.0.0.1 password={SECRET}",
        f"mysql://etl:{SECRET}@db/x",
    ],
)
def test_an_address_that_is_not_understood_is_never_repeated(tmp_path: Path, address: str) -> None:
    shell = Shell(tmp_path)
    for words in (["status"], ["status", "--json"], ["doctor"], ["chaos", "--dry-run"]):
        for given, options in (({"ODF_STORE": address}, ()), ({}, ("--store", address))):
            answer = shell.odf(*words, *options, code=None, **given)
            assert answer.code != 70, answer
            assert SECRET not in answer.out + answer.err, (words, options)


# PGPASSWORD ---------------------------------------------------------------------------------------------------------


def test_a_script_finds_no_pgpassword_and_a_log_does_not_show_it(shell: Shell) -> None:
    if shell.store_url:
        shell.store_url += "?require_auth=none"  # the test server asks for no password
    shell.extra = {"PGPASSWORD": SECRET}
    shell.dml("insert into dataset (datasetid) values ('a'), ('b')")
    shell.dml("insert into job (jobid, itemtype, datasetid) values ('load', 'IN', 'a'), ('load', 'OUT', 'b')")
    shell.odf("ready", "a", "1")
    shell.script(
        "load.sh", f'echo "has ${{PGPASSWORD-none}}"; echo {SECRET}; tr "\\0" "\\n" </proc/$PPID/environ || true'
    )
    answer = shell.runjob("./load.sh")
    assert "has none" in answer.out
    assert SECRET not in answer.out + answer.err + shell.odf("log", "load").out


# Reasons ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", [["hold"], ["fail", "--force"], ["resubmit"], ["recall"]])
def test_a_reason_is_stored_without_secrets(shell: Shell, verb: list[str]) -> None:
    shell.extra = {"PASSKEY": SECRET}
    shell.dml("insert into dataset (datasetid) values ('a')")
    shell.odf("ready", "a", "1")
    said = f"key {SECRET}, moved to postgresql://etl:hunter2@db/x"
    shell.odf(verb[0], "a", "1", *verb[1:], "--yes", "--why", said, code=None)
    rows = shell.odf("sql", "select why from event where why is not null", "--json").out
    assert "[redacted]" in rows
    assert SECRET not in rows
    assert "hunter2" not in rows


def test_a_reason_for_a_pause_is_stored_without_secrets(shell: Shell) -> None:
    shell.extra = {"PASSKEY": SECRET}
    shell.dml("insert into dataset (datasetid) values ('b')")
    shell.dml("insert into job (jobid, itemtype, datasetid) values ('load', 'OUT', 'b')")
    shell.odf("pause", "load", "--why", f"key {SECRET}")
    assert SECRET not in shell.odf("sql", "select why from pause", "--json").out


# Facts of the store -------------------------------------------------------------------------------------------------


def test_facts_that_only_the_store_says_override_no_variable(shell: Shell) -> None:
    shell.dml("insert into dataset (datasetid, hostname, format) values ('DB', 'evil.example', ''), ('PS', '', 'args')")
    shell.dml("insert into dataset (datasetid) values ('out')")
    shell.dml(
        "insert into job (jobid, itemtype, datasetid) values ('j', 'IN', 'DB'), ('j', 'IN', 'PS'), ('j', 'OUT', 'out')"
    )
    shell.odf("ready", "DB", "1")
    shell.odf("ready", "PS", "1")
    shell.script("j.sh", 'echo "$DB_HOSTNAME|$DB_hostname|${PS_FORMAT-none}|$PS_format|$odf_DB_HOSTNAME|$out_dataid"')
    answer = shell.runjob("./j.sh", DB_HOSTNAME="db.example", DB_hostname="mine.example", code=None)
    assert "db.example|mine.example|none|args|evil.example|1" in answer.out


def test_a_run_inside_a_script_gets_its_own_facts(shell: Shell) -> None:
    shell.dml("insert into dataset (datasetid) values ('a'), ('b'), ('c')")
    shell.dml("insert into job (jobid, itemtype, datasetid) values ('outer', 'IN', 'a'), ('outer', 'OUT', 'b')")
    shell.dml("insert into job (jobid, itemtype, datasetid) values ('inner', 'IN', 'a'), ('inner', 'OUT', 'c')")
    shell.odf("ready", "a", "1", "2")
    shell.script("inner.sh", 'echo "inner $a_dataid"')
    shell.script("outer.sh", f'{sys.executable} -m opendataflow run --dataid 2 ./inner.sh; echo "outer $a_dataid"')
    answer = shell.runjob("--dataid", "1", "./outer.sh")
    assert "inner 2" in answer.out
    assert "outer 1" in answer.out


# Plain text in dataflow.toml and in rows ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        f'[dataset.a]\nlocation = "https://x.blob.example/b/{{dataid}}?sv=1&sig={SECRET}"',
        f'[dataset.a]\ntablename = "t"\nformat = "jdbc"\nurl = "jdbc:oracle:thin:etl/{SECRET}@//db:1521/x"',
        f'[dataset.a]\ntablename = "t"\nformat = "jdbc"\nurl = "jdbc:sqlserver://db;trustStorePassword={SECRET}"',
        f'[dataset.a]\ntablename = "t"\nhostname = "etl:{SECRET}@db"',
        f'[dataset.a]\nlocation = "a/{{dataid}}"\noptions = {{ sas_token = "{SECRET}" }}',
        f'[dataset.a]\nlocation = "a/{{dataid}}"\n[job.j]\nwrites = "a"\nenv = {{ API_TOKEN = "{SECRET}" }}',
        f'[environment.dev]\nroots = ["s3a://k:{SECRET}@b"]',
    ],
)
def test_a_secret_in_the_project_file_is_refused_and_not_repeated(tmp_path: Path, text: str) -> None:
    shell = Shell(tmp_path)
    shell.write("dataflow.toml", text)
    answer = shell.odf("apply", "--yes", code=2)
    assert "BAD_CONFIG" in answer.err
    assert SECRET not in answer.out + answer.err


def test_doctor_names_secrets_that_rows_hold(shell: Shell) -> None:
    shell.dml(f"insert into dataset (datasetid, hostname) values ('a', 'etl:{SECRET}@db')")
    answer = shell.odf("doctor", code=None)
    assert "dataset a: hostname is a secret in plain text" in answer.out + answer.err
    assert SECRET not in answer.out + answer.err


# The schema ---------------------------------------------------------------------------------------------------------


@pytest.mark.postgres
def test_a_function_in_public_is_never_called(fresh_postgres_url: str, tmp_path: Path) -> None:
    shell = Shell(tmp_path, fresh_postgres_url)
    with psycopg.connect(fresh_postgres_url, autocommit=True) as other:
        other.execute("grant create on schema public to public")
        path = "show search_path"
        assert "public" not in shell.odf("sql", path, "--json").out
    said = shell.odf("doctor", code=None)
    assert "every role of the server may create functions in schema public" in said.out
    assert "REVOKE CREATE ON SCHEMA" in said.out


# Planted files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["backup", "export"])
def test_a_planted_link_is_not_followed(tmp_path: Path, verb: str) -> None:
    shell = Shell(tmp_path)
    shell.dml("insert into dataset (datasetid) values ('a')")
    victim = shell.write("victim", "mine")
    (tmp_path / "copy.unfinished").symlink_to(victim)
    shell.odf(verb, "copy")
    assert victim.read_text() == "mine"
    assert stat.S_IMODE((tmp_path / "copy").lstat().st_mode) == 0o600
    (tmp_path / "other").symlink_to(tmp_path / "nowhere")
    assert "BAD_CONFIG" in shell.odf(verb, "other", code=2).err
    assert sorted(path.name for path in tmp_path.glob("*.unfinished")) == ["copy.unfinished"]


# What others can write ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["dataflow.toml", ".", "jobs", "jobs/load.sh"])
def test_what_every_user_can_write_is_not_obeyed(tmp_path: Path, path: str) -> None:
    shell = Shell(tmp_path)
    shell.write(
        "dataflow.toml", '[dataset.b]\nlocation = "b/{dataid}"\n[dataset.a]\n[job.load]\nreads = "a"\nwrites = "b"'
    )
    shell.script("jobs/load.sh", 'mkdir -p b; echo 1 > "$b_location"')
    shell.odf("apply", "--yes")
    shell.odf("ready", "a", "1")
    (tmp_path / path).chmod(0o777)
    answer = shell.runjob("load", code=2)
    assert "can be written by every user" in answer.err
    (tmp_path / path).chmod(0o700)
    shell.runjob("load")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
@pytest.mark.parametrize("path", ["jobs", "jobs/load.sh"])
def test_job_code_of_another_user_is_not_obeyed(tmp_path: Path, path: str) -> None:
    shell = Shell(tmp_path)
    shell.dml("insert into dataset (datasetid) values ('b')")
    shell.dml("insert into job (jobid, itemtype, datasetid) values ('load', 'OUT', 'b')")
    shell.script("jobs/load.sh", "true")
    os.chown(tmp_path / path, 65534, 65534)
    assert "belongs to" in shell.runjob("load", "--dataid", "1", code=2).err


# Names and sizes ----------------------------------------------------------------------------------------------------


def test_a_file_name_that_is_not_utf8_is_refused_by_name(shell: Shell) -> None:
    shell.write("dataflow.toml", '[dataset.d]\nlocation = "d/{dataid}"')
    shell.odf("apply", "--yes")
    folder = shell.folder / "d" / "1"
    folder.mkdir(parents=True)
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.csv")).write_text("a")
    assert "INVALID_PATH" in shell.odf("ready", "d", "1", code=12).err


def test_an_answer_that_is_too_big_is_named(shell: Shell) -> None:
    shell.dml("insert into dataset (datasetid) values ('a')")
    big = "select repeat(repeat('x', 100000000), 20)" if shell.store_url else "select zeroblob(2000000000)"
    assert "too big" in shell.odf("sql", big, code=2).err
