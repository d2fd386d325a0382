"""Secrets in plain text are recognised, hidden and kept out of the store at every door."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

import opendataflow
from opendataflow.errors import StoreMissing
from tests.support.shell import Shell

SECRET = "canary-4c1b90"


# The address of the store -------------------------------------------------------------------------------------------


def test_the_python_door_shows_no_secret_of_the_address_of_a_file(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(StoreMissing) as refused:
            opendataflow.open(f"sqlite:///{folder}/x.db?password={SECRET}")
        assert SECRET not in f"{refused.value} {refused.value.hint}"
    (tmp_path / "file").touch()
    with pytest.raises(StoreMissing) as refused:
        opendataflow.open(f"sqlite:///{tmp_path}/file/x.db?password={SECRET}", create=True)
    assert SECRET not in f"{refused.value} {refused.value.hint}"


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
        f"postgresql://etl:p@ss{SECRET}@127.0.0.1:1/db",
        f"postgresql://etl%3A{SECRET}%40127.0.0.1:1/db",
        f"postgresql://127.0.0.1:1/db?host=etl:{SECRET}@127.0.0.1",
        f"etl:{SECRET}",
        f"postgresql://etl:{SECRET}%CA@127.0.0.1:1/db",
        f"postgresql://etl:{SECRET}\udcca@127.0.0.1:1/db",
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
    said = f"token=hunter2 and key {SECRET}, moved to postgresql://etl:hunter2@db/x, password: hunter2, Bearer hunter2"
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


def test_a_reason_given_in_python_is_stored_without_secrets(shell: Shell) -> None:
    shell.dml("insert into dataset (datasetid) values ('a')")
    shell.odf("ready", "a", "1")
    address = shell.store_url or f"sqlite:///{shell.folder}/dataflow.db"
    with opendataflow.open(address, password=SECRET if address.startswith("sqlite") else None) as store:
        store.hold("a", ["1"], why=f"{SECRET if address.startswith('sqlite') else ''} moved to s3a://key:hunter2@box")
    rows = shell.odf("sql", "select why from event where why is not null", "--json").out
    assert "moved to s3a://key:[redacted]@box" in rows
    assert SECRET not in rows


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
        f'[environment.dev]\nhosts = ["u:{SECRET}@db"]',
        f'[trust]\nhosts = ["u:{SECRET}@db"]',
        *[
            f'[dataset.a]\nlocation = "a/{{dataid}}"\n{line}'
            for line in (
                f'options.fs.s3a.secret.key = "{SECRET}"',
                f'options.fs.azure.account.key = ["{SECRET}"]',
                f'options = {{ password = ["{SECRET}"] }}',
                f'tags = ["password={SECRET}"]',
                f'username = "etl:{SECRET}"',
                f'username = "etl/{SECRET}"',
                f'[job.j]\nwrites = "a"\nspark."spark.sql.catalog.pg.password" = "{SECRET}"',
                f'[job.j]\nwrites = "a"\nspark.spark.sql.catalog.pg.password = "{SECRET}"',
                f'[job.j]\nwrites = "a"\ntags = ["token={SECRET}"]',
                *(
                    f'[job.j]\nwrites = "a"\nenv = {{ X = "{text}" }}'
                    for text in (
                        f"scott/{SECRET}@ORCL",
                        f"token={SECRET}",
                        f"sas_token={SECRET}",
                        f"sig={SECRET}&sv=1",
                        f"Authorization: Bearer {SECRET}",
                    )
                ),
            )
        ],
        f'[dataset.a]\nlocation = "https://{SECRET}@git.example/{{dataid}}"',
    ],
)
def test_a_secret_in_the_project_file_is_refused_and_not_repeated(tmp_path: Path, text: str) -> None:
    shell = Shell(tmp_path)
    shell.write("dataflow.toml", text)
    answer = shell.odf("apply", "--yes", code=2)
    assert "BAD_CONFIG" in answer.err
    assert SECRET not in answer.out + answer.err


def test_a_secret_in_a_decorator_is_refused_and_not_repeated(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.write("dataflow.toml", "[dataset.a]\n[dataset.b]")
    code = f"from opendataflow import job\n@job(reads='a', writes='b', env={{'X': 'token={SECRET}'}})\ndef j(a): ...\n"
    shell.write("jobs/j.py", code)
    answer = shell.odf("apply", "--yes", code=2)
    assert "the item 'X' is a secret in plain text" in answer.err
    assert SECRET not in answer.out + answer.err


def test_doctor_names_secrets_that_rows_hold(shell: Shell) -> None:
    shell.dml(f"insert into dataset (datasetid, hostname) values ('a', 'etl:{SECRET}@db')")
    shell.dml(
        f"""insert into dataset (datasetid, options) values ('b', '{{"options": {{"fs": {{"key": "pwd={SECRET}"}}}}}}')"""
    )
    shell.dml("insert into job (jobid, itemtype, datasetid) values ('load', 'OUT', 'a'), ('spark', 'OUT', 'b')")
    shell.dml(f"insert into job (jobid, itemtype, itemvalue) values ('load', 'CONN', 'scott/{SECRET}@ORCL')")
    shell.dml(
        f"""insert into jobrule (jobid, options) values ('spark', '{{"spark": {{"spark.sql.x.password": "{SECRET}"}}}}')"""
    )
    answer = shell.odf("doctor", code=None)
    for named in ("a: hostname", "b: options.options.fs.key", "job load: env.CONN", "job spark: options.spark."):
        assert named in answer.out + answer.err
    assert SECRET not in answer.out + answer.err


def test_a_difference_is_shown_without_the_secrets_that_rows_hold(shell: Shell) -> None:
    shell.write(
        "dataflow.toml", '[dataset.a]\n[dataset.b]\n[job.load]\nreads = "a"\nwrites = "b"\nenv = { CONN = "here" }'
    )
    shell.script("jobs/load.sh", "true")
    shell.odf("apply", "--yes")
    shell.odf("ready", "a", "1")
    shell.dml(f"update job set itemvalue = 'scott/{SECRET}@ORCL' where itemtype = 'CONN'")
    shell.dml(
        f"""update dataset set username = 'etl/{SECRET}', options = '{{"tags": ["token={SECRET}"]}}' where datasetid = 'a'"""
    )
    looks = (["apply", "--dry-run"], ["run", "load"], ["why", "load"], ["doctor"], ["apply", "--dry-run", "--json"])
    for words in (*looks, ["apply", "--yes"]):
        answer = shell.odf(*words, code=None)
        assert SECRET not in answer.out + answer.err, words
    assert "scott/[redacted]@ORCL -> " in answer.out
    assert SECRET not in shell.odf("sql", "select * from dataset", "--json").out


# What rows of the store hold, by the forms that secrets have.
HELD = {
    "host": f"hostname = 'etl:{SECRET}@db'",
    "bucket": f"location = 's3a://key:{SECRET}@box/{{dataid}}'",
    "signed": f"location = 'https://box.example/{{dataid}}?sv=1&sig={SECRET}'",
    "dsn": f"database = 'host=db password={SECRET}'",
    "jdbc": f"""kind = 'table', format = 'jdbc', tablename = 't', options = '{{"url": "jdbc:x://db;pwd={SECRET}"}}'""",
    "keys": f"""options = '{{"options": {{"fs.s3a.secret.key": "{SECRET}"}}}}'""",
    "dots": f"""options = '{{"options": {{"fs": {{"s3a": {{"secret": {{"key": "{SECRET}"}}}}}}}}}}'""",
    "listed": f"""options = '{{"options": {{"password": ["{SECRET}"]}}, "tags": ["token={SECRET}"]}}'""",
    "user": f"username = 'etl/{SECRET}'",
    "git": f"location = 'https://{SECRET}@git.example/{{dataid}}'",
}
LOOKS = (
    *("run ./read_{}.sh", "run ./write_{}.sh", "why read_{} 1", "explain {} 1", "explain out_{} 1", "where {} 1"),
    *("head {} 1", "datasets {}", "jobs read_{}", "getds {}", "getjob read_{}", "prove {}"),
)


def test_a_secret_that_a_row_holds_is_neither_shown_nor_stored_elsewhere(shell: Shell) -> None:
    rows = ["insert into dataset (datasetid) values ('days')"]
    for name, held in HELD.items():
        for script in (shell.script(f"read_{name}.sh", "true"), shell.script(f"write_{name}.sh", "true")):
            assert script.exists()
        rows += [
            f"insert into dataset (datasetid) values ('{name}'), ('out_{name}')",
            f"update dataset set {held} where datasetid = '{name}'",
            f"insert into job (jobid, itemtype, datasetid) values ('read_{name}', 'IN', '{name}'), ('read_{name}', 'OUT', "
            f"'out_{name}'), ('write_{name}', 'IN', 'days'), ('write_{name}', 'OUT', '{name}')",
            f"insert into job (jobid, itemtype, itemvalue) values ('read_{name}', 'API_TOKEN', '{SECRET}'), "
            f"('read_{name}', 'CONN', 'scott/{SECRET}@ORCL'), ('read_{name}', 'X', 'token={SECRET}')",
        ]
    shell.dml(*rows)
    for name in ("days", *HELD):
        shell.odf("ready", name, "1", code=None)
    looks = [look.format(name).split() for name in HELD for look in LOOKS]
    for words in (
        *looks,
        *map(str.split, ("status", "datasets", "history", "vacuum --dry-run", "recover", "export x")),
    ):
        for form in ((), ("--json",)) if words[0] not in ("export", "run") else ((),):
            answer = shell.odf(*words, *form, code=None)
            assert answer.code not in (1, 70), (words, answer)
            assert SECRET not in answer.out + answer.err, (words, form)
    assert SECRET not in (shell.folder / "x").read_text()
    for table in ("event", "receipt", "run", "data_manifest", "incident", "message"):
        assert SECRET not in shell.odf("sql", f"select * from {table}", "--json").out, table
    assert SECRET in shell.odf("sql", "select itemvalue from job where itemtype = 'API_TOKEN'").out, "as it was typed"


def test_what_only_looks_like_a_secret_is_shown_and_exported(shell: Shell) -> None:
    shell.write(
        "dataflow.toml",
        '[dataset.token]\nschema = "id INT, tokens_used INT"\nlocation = "raw/token={dataid}/a@b:c.csv"\nchecks.not_null = ["tokens_used"]\n'
        '[dataset.out]\nlocation = "out/{dataid}.csv"\n[job.j]\nreads = "token"\nwrites = "out"\nenv = { MAX_TOKENS = "4096" }',
    )
    shell.script("jobs/j.sh", 'mkdir -p out; echo "$MAX_TOKENS" > "$out_location"')
    shell.odf("apply", "--yes")
    shell.write("raw/token=1/a@b:c.csv", "id,tokens_used\n1,2\n")
    shell.odf("ready", "token", "1")
    shell.runjob("j")
    shell.dml("insert into dataset (datasetid) values ('pwd=eu')")
    shell.odf("export", "x")
    assert '"pwd=eu"' in (shell.folder / "x").read_text()
    for answer in (
        shell.odf("explain", "out", "1").out,
        shell.odf("datasets", "token").out,
        (shell.folder / "x").read_text(),
    ):
        assert "[redacted]" not in answer
        assert "token=" in answer


# The schema ---------------------------------------------------------------------------------------------------------


# Names that our SQL uses, with arguments for which PostgreSQL would prefer them to its own wherever public is looked at.
SHADOWS = (
    "lease_now()",
    "lower(varchar)",
    "upper(varchar)",
    "now()",
    "pg_advisory_xact_lock(integer)",
    "hashtext(varchar)",
)


@pytest.mark.postgres
def test_a_function_in_public_is_never_called(fresh_postgres_url: str, tmp_path: Path) -> None:
    shell = Shell(tmp_path, fresh_postgres_url)
    with psycopg.connect(fresh_postgres_url, autocommit=True) as other:
        other.execute("grant create on schema public to public")
        other.execute("create table public.called (who text)")
        for name in SHADOWS:
            body = "language plpgsql as $$ begin insert into public.called values (current_user); return null; end $$"
            other.execute(f"create function public.{name} returns text {body}".encode())
        assert "public" not in shell.odf("sql", "show search_path", "--json").out
        shell.dml("insert into dataset (datasetid) values ('a'), ('b')")
        shell.dml("insert into job (jobid, itemtype, datasetid) values ('load', 'IN', 'a'), ('load', 'OUT', 'b')")
        shell.script("load.sh", "true")
        shell.odf("ready", "a", "1")
        shell.runjob("./load.sh")
        shell.dml("update job_status set status = 'RESUBMIT' where datasetid = 'b'")
        shell.odf("status")
        shell.odf("why", "load")
        assert other.execute("select * from public.called").fetchall() == []
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
    assert "is writable by every user" in answer.err
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


@pytest.mark.parametrize("has_project", [True, False])
@pytest.mark.parametrize("is_foreign", [True, False])
def test_a_script_by_its_path_is_not_obeyed_either(tmp_path: Path, has_project: bool, is_foreign: bool) -> None:
    shell = Shell(tmp_path)
    if has_project:
        shell.write("dataflow.toml", "")
    shell.dml(
        "insert into dataset (datasetid) values ('b')",
        "insert into job (jobid, itemtype, datasetid) values ('load', 'OUT', 'b')",
    )
    script = shell.script("jobs/load.sh", "touch ran")
    if is_foreign and os.geteuid() == 0:
        os.chown(script, 65534, 65534)
    else:
        (tmp_path / "jobs").chmod(0o777)
    for words in ("run --dataid 1 ./jobs/load.sh", "ForceJob ./jobs/load.sh 1"):
        answer = shell.odf(*words.split(), code=2)
        assert "decides what runs here" in answer.err
    assert not (tmp_path / "ran").exists()
    shell.write("config.toml", f'safe = ["{tmp_path}"]').chmod(0o600)
    shell.runjob("--dataid", "1", "./jobs/load.sh", ODF_CONFIG=str(tmp_path / "config.toml"))
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "path", ["jobs/flows.py", "jobs/helper.py", "tools/deep.py", "tools/__init__.py", "jobs/__pycache__"]
)
def test_python_code_that_every_user_can_write_is_not_loaded(tmp_path: Path, path: str) -> None:
    shell = Shell(tmp_path)
    shell.write("dataflow.toml", "[dataset.a]\n[dataset.b]\n[dataset.c]\n")
    shell.write("tools/__init__.py", "")
    shell.write("tools/deep.py", "")
    shell.write("jobs/helper.py", "import tools.deep")
    shell.write(
        "jobs/flows.py",
        "import helper\nfrom opendataflow import job\nopen('ran', 'w').close()\n"
        "@job(reads='a', writes='b')\ndef one(a): ...\n@job(reads='a', writes='c')\ndef two(a): ...\n",
    )
    (tmp_path / "jobs/__pycache__").mkdir()
    (tmp_path / path).chmod(0o777)
    answer = shell.odf("apply", "--yes", code=2)
    assert f"{path} is writable by every user" in answer.err
    assert not (tmp_path / "ran").exists()
    (tmp_path / path).chmod(0o700)
    shell.odf("apply", "--yes")
    assert (tmp_path / "ran").exists()


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


ROWS_TOO_BIG = {
    "sqlite": "with recursive n(i) as (select 1 union all select i + 1 from n where i < 3000000) "
    "select hex(zeroblob(500)) from n",
    "postgres": "select repeat('x', 1000) from generate_series(1, 3000000)",
}
VALUE_TOO_BIG = {"sqlite": "select hex(zeroblob(400000000))", "postgres": "select repeat('x', 600000000)"}


@pytest.mark.parametrize("statements", [ROWS_TOO_BIG, VALUE_TOO_BIG])
def test_an_answer_that_fills_the_memory_is_named_at_once(shell: Shell, statements: dict[str, str]) -> None:
    shell.dml("insert into dataset (datasetid) values ('a')")
    limited = ["/bin/sh", "-c", 'ulimit -v 1200000; exec "$@"', "sh", sys.executable, "-m", "opendataflow", "sql"]
    statement = statements["postgres" if shell.store_url else "sqlite"]
    done = subprocess.run(
        [*limited, statement], cwd=shell.folder, env=shell.environment, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 2, done.stderr
    assert "too big" in done.stderr
    assert "waiting for the store" not in done.stderr


def test_an_empty_answer_has_its_columns(shell: Shell) -> None:
    shell.dml("insert into dataset (datasetid) values ('a')")
    assert "datasetid" in shell.odf("sql", "select datasetid from dataset where 1 = 0").out
    [row] = shell.odf("sql", "select datasetid, 1 as n from dataset where datasetid = 'a'", "--json").data
    assert row == {"datasetid": "a", "n": 1}
