"""Who can write rows of the store, and nothing else, can run nothing, read nothing and redirect nothing."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.support.shell import Shell, statuses

pytestmark = pytest.mark.fault(31)

# What programs obey without being asked; a list of such names would never be complete.
OBEYED = (
    *("BASH_ENV", "ENV", "PATH", "LD_PRELOAD", "PYTHONSTARTUP", "TAR_OPTIONS", "MAKEFLAGS", "PSQLRC", "_JAVA_OPTIONS"),
    *("GCONV_PATH", "LESSOPEN", "OPENSSL_CONF", "PGHOSTADDR", "https_proxy", "NEVER_HEARD_OF"),
)
LOAD = """
[project]
name = "shop"
[dataset.raw]
location = "raw/{dataid}.csv"
[dataset.clean]
location = "clean/{dataid}.csv"
[job.load]
reads = ["raw"]
writes = ["clean"]
env = { LIMIT = "10", COLOUR = "red" }
"""


def tracked(shell: Shell, *items: tuple[str, str]) -> None:
    """One job over two datasets that are only tracked, registered by SQL alone, with a chunk to run."""
    shell.dml(
        "insert into dataset (datasetid) values ('bobin'), ('bobout')",
        "insert into job (jobid, itemtype, datasetid) values ('loadbob', 'IN', 'bobin'), ('loadbob', 'OUT', 'bobout')",
    )
    if items:
        rows = ", ".join(f"('loadbob', '{name}', '{value}')" for name, value in items)
        shell.dml(f"insert into job (jobid, itemtype, itemvalue) values {rows}")
    shell.odf("ready", "bobin", "1")


def project(shell: Shell) -> None:
    """A project whose script writes one row, applied, with a chunk to run."""
    shell.write("dataflow.toml", LOAD)
    shell.script(
        "jobs/load.sh",
        'mkdir -p "$(dirname "$clean_location")"; cp "$raw_location" "$clean_location"; echo "limit=$LIMIT $COLOUR"',
    )
    shell.write("raw/1.csv", "id\n1\n")
    shell.odf("apply", "--yes")
    shell.odf("ready", "raw", "1")
    shell.dml("insert into dataset (datasetid) values ('secret')")
    shell.odf("ready", "secret", "1")


# Items of a job -------------------------------------------------------------------------------------------------------


@pytest.mark.fault(21)
def test_an_item_of_the_store_comes_under_no_name_that_a_program_reads(shell: Shell) -> None:
    tracked(shell, *((name, "./evil.sh") for name in (*OBEYED, "CURRENCY")))
    shell.script("evil.sh", "touch pwned")
    shell.script("loadbob.sh", "bash -c true; env > environment.txt")
    shell.runjob("./loadbob.sh")
    given = dict(
        line.split("=", 1) for line in (shell.folder / "environment.txt").read_text().splitlines() if "=" in line
    )
    assert {name for name, value in given.items() if value == "./evil.sh"} == {
        f"item_{name}" for name in (*OBEYED, "CURRENCY")
    }
    assert not (shell.folder / "pwned").exists()


@pytest.mark.parametrize("verb", [["start", "--json"], ["startjob"], ["forcejob", "1"]])
def test_a_handshake_gets_the_items_that_a_script_gets(shell: Shell, verb: list[str]) -> None:
    tracked(
        shell, *((name, "planted") for name in ("COLOUR", "BASH_ENV", "dataid", "jobid", "ODF_RUN", "bobin_location"))
    )
    given = json.loads(shell.odf(verb[0], "loadbob", *verb[1:]).out)
    planted = {name for name, value in given.items() if value == "planted"}
    assert planted == {
        f"item_{name}" for name in ("COLOUR", "BASH_ENV", "dataid", "jobid", "ODF_RUN", "bobin_location")
    }
    assert given["dataid"] == "1"


@pytest.mark.fault(21, 22)
def test_what_odf_start_prints_runs_nothing_when_it_is_evaluated(shell: Shell) -> None:
    tracked(shell, ("BASH_ENV", "./evil.sh"), ("dataid", "$(touch pwned)"), ("X", "''; touch pwned; ''"))
    shell.script("evil.sh", "touch pwned")
    shell.write("exports", shell.odf("start", "loadbob").out)
    shell.script("user.sh", '. ./exports; bash -c true; echo "$dataid" > told')
    subprocess.run(["./user.sh"], cwd=shell.folder, check=True, env=shell.environment)
    assert (shell.folder / "told").read_text() == "1\n"
    assert not (shell.folder / "pwned").exists()


def test_an_item_comes_under_its_own_name_where_somebody_trusted_names_it(shell: Shell) -> None:
    tracked(shell, ("CURRENCY", "EUR"), ("REGION", "north"))
    shell.script("loadbob.sh", 'echo "[${CURRENCY:-} $item_CURRENCY ${REGION:-}]"')
    assert "CURRENCY, REGION" in shell.runjob("--item", "CURENCY", "./loadbob.sh", code=2).err
    assert "[EUR EUR ]" in shell.runjob("--item", "CURRENCY", "./loadbob.sh").out
    shell.odf("resubmit", "bobout", "1")
    config = shell.write("config.toml", '[trust]\nitems = ["REGION"]\n')
    config.chmod(0o600)
    assert "[ EUR north]" in shell.runjob("./loadbob.sh", ODF_CONFIG=str(config)).out


@pytest.mark.parametrize("name", ["dataid", "ODF_RUN", "PASSKEY", "bobin_location"])
def test_not_even_a_named_item_takes_the_place_of_a_fact(shell: Shell, name: str) -> None:
    tracked(shell, (name, "planted"))
    shell.script("loadbob.sh", f'echo "[${{{name}:-}}]"')
    assert "[planted]" not in shell.runjob("--item", name, "./loadbob.sh").out


def test_an_item_that_no_program_could_be_given_is_refused(shell: Shell) -> None:
    tracked(shell, ("LONG", "x" * 40_000))
    shell.script("loadbob.sh", "touch ran")
    refused = shell.runjob("./loadbob.sh", code=18)
    assert "LONG" in refused.err
    assert not (shell.folder / "ran").exists()


# Definitions that the project declares ----------------------------------------------------------------------------------


def test_an_applied_project_runs_and_its_items_come_under_their_names(shell: Shell) -> None:
    project(shell)
    assert "limit=10 red" in shell.runjob("load").out
    assert statuses(shell)["clean", "1"] == "READY"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("update dataset set location = 'elsewhere/{dataid}.csv' where datasetid = 'clean'", "location is"),
        ("""update dataset set checks = '{"not_null": ["x"]}' where datasetid = 'clean'""", "checks is"),
        ("update job set itemvalue = '10000' where jobid = 'load' and itemtype = 'LIMIT'", "env LIMIT is"),
        ("insert into job (jobid, itemtype, datasetid) values ('load', 'IN', 'secret')", "reads is"),
        (
            """update jobrule set options = '{"copy": {"from": "raw", "to": "clean"}}' where jobid = 'load'""",
            "copy is",
        ),
    ],
)
def test_a_changed_definition_is_refused_with_the_difference(shell: Shell, change: str, told: str) -> None:
    project(shell)
    shell.dml(change)
    refused = shell.runjob("load", code=18)
    assert "UNTRUSTED_DEFINITION" in refused.err
    assert told in refused.err
    assert "odf apply --dry-run" in refused.err  # the store was changed after it was applied
    assert ("clean", "1") not in statuses(shell)
    assert "UNTRUSTED_DEFINITION" in shell.odf("why", "load", "1").out
    assert "UNTRUSTED_DEFINITION" in shell.odf("why", "load").out
    assert "UNTRUSTED_DEFINITION" in shell.runjob("--dry-run", "--dataid", "1", "load").out
    assert shell.odf("sql", "--json", "select verdict from receipt").data[-1]["verdict"] == "UNTRUSTED_DEFINITION"
    found = {each["what"]: each for each in shell.odf("doctor", "--json", code=1).data}
    assert told in found["definition"]["found"]
    shell.odf("drain", "load", code=18)
    shell.odf("apply", "--yes")
    shell.runjob("--dataid", "1", "load")
    assert statuses(shell)["clean", "1"] == "READY"


def test_no_force_makes_a_changed_definition_act(shell: Shell) -> None:
    project(shell)
    shell.dml("update dataset set location = 'elsewhere/{dataid}.csv' where datasetid = 'clean'")
    shell.runjob("--force", "--dataid", "1", "load", code=18)
    shell.odf("forcejob", "load", "1", code=18)
    assert ("clean", "1") not in statuses(shell)


def test_another_version_of_the_project_is_told_from_a_changed_store(shell: Shell) -> None:
    project(shell)
    shell.write("dataflow.toml", LOAD.replace("clean/{dataid}.csv", "cleaner/{dataid}.csv"))
    assert "another version of this project" in shell.runjob("load", code=18).err
    shell.odf("apply", "--yes")


def test_explain_looks_nowhere_that_a_manifest_leads(shell: Shell) -> None:
    project(shell)
    outside = shell.folder.parent / f"{shell.folder.name}-outside"
    outside.mkdir()
    (outside / "name-of-a-secret").write_text("x")
    shell.dml(
        f"""update data_manifest set location = '{outside}', body = '{{"files": [["a", 1]]}}' where datasetid = 'raw'"""
    )
    told = shell.odf("explain", "raw", "1").out
    assert "leads outside the roots" in told
    assert "name-of-a-secret" not in told


def test_explain_names_a_changed_partition(shell: Shell) -> None:
    project(shell)
    shell.dml("""update dataset set partition = '{"type": "text", "column": "x"}' where datasetid = 'raw'""")
    assert "partition is" in shell.odf("explain", "raw", "1").out


# Definitions that nobody declares ---------------------------------------------------------------------------------------


def derby(folder: Path) -> tuple[str, ...]:
    """Rows that make an embedded Derby whose first statement does what its author wants."""
    url = f"jdbc:derby:{folder}/derby;create=true"
    options = {
        "url": url,
        "driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver",
        "options": {"sessionInitStatement": "call sqlj.install_jar('evil.jar', 'APP.EVIL', 0)"},
    }
    return (
        "insert into dataset (datasetid, kind, tablename, format, options) values "
        f"('evil', 'table', 'SYSIBM.SYSDUMMY1', 'jdbc', '{json.dumps(options).replace(chr(39), chr(39) * 2)}')",
        "insert into dataset (datasetid, kind, location) values ('loot', 'file', 'loot/{dataid}')",
        "insert into job (jobid, itemtype, datasetid) values ('steal', 'IN', 'evil'), ('steal', 'OUT', 'loot')",
        """insert into jobrule (jobid, options) values ('steal', '{"copy": {"from": "evil", "to": "loot"}}')""",
    )


@pytest.mark.fault(22)
def test_rows_that_make_a_jdbc_dataset_run_nothing_in_the_next_drain(shell: Shell) -> None:
    project(shell)
    shell.dml(*derby(shell.folder))
    shell.odf("ready", "evil", "1", "--unseen")
    drained = shell.odf("drain", code=18)
    assert "UNTRUSTED_DEFINITION" in drained.err
    assert "steal" in drained.err
    assert statuses(shell)["clean", "1"] == "READY"  # everybody else works
    assert not (shell.folder / "derby").exists()
    assert not (shell.folder / "loot").exists()
    shell.odf("run", "steal", code=18)


def test_a_trust_list_is_narrow(shell: Shell) -> None:
    """A copy and its format may be allowed, and still no option that is not listed."""
    shell.dml(*derby(shell.folder))
    shell.odf("ready", "evil", "1", "--unseen")
    config = shell.write(
        "config.toml", '[trust]\ncopies = ["steal"]\nformats = ["jdbc"]\noptions = ["url", "driver", "create"]\n'
    )
    config.chmod(0o600)
    refused = shell.odf("run", "steal", code=18, ODF_CONFIG=str(config))
    assert "sessionInitStatement" in refused.err
    assert not (shell.folder / "derby").exists()


def test_a_copy_of_any_file_is_refused_where_no_project_declares_it(shell: Shell) -> None:
    shell.dml(
        "insert into dataset (datasetid, kind, location, format) values ('secret', 'file', '/etc/passwd', 'text')",
        "insert into dataset (datasetid, kind, location) values ('loot', 'file', 'loot/{dataid}')",
        "insert into job (jobid, itemtype, datasetid) values ('steal', 'IN', 'secret'), ('steal', 'OUT', 'loot')",
        """insert into jobrule (jobid, options) values ('steal', '{"copy": {"from": "secret", "to": "loot"}}')""",
    )
    shell.odf("ready", "secret", "1", "--unseen")
    shell.odf("drain", code=18)
    shell.odf("run", "steal", code=18)
    config = shell.write("config.toml", '[trust]\ncopies = ["steal"]\n')
    config.chmod(0o600)
    refused = shell.odf("run", "steal", code=18, ODF_CONFIG=str(config))
    assert "/etc/passwd" in refused.err
    assert not (shell.folder / "loot").exists()


def test_the_passive_part_works_without_a_project_file(shell: Shell) -> None:
    """As the original's users work: SQL alone, with locations, hosts, tables, users and plain items."""
    shell.dml(
        "insert into dataset (datasetid, hostname, database, schemaname, tablename, username) "
        "values ('orders', 'db.example', 'shop', 'public', 'orders', 'etl')",
        "insert into dataset (datasetid, location) values ('report', 'report/{dataid}.txt')",
        "insert into job (jobid, itemtype, datasetid) values ('sum', 'IN', 'orders'), ('sum', 'OUT', 'report')",
        "insert into job (jobid, itemtype, itemvalue) values ('sum', 'CURRENCY', 'EUR')",
    )
    shell.odf("ready", "orders", "1", "--unseen")
    shell.script(
        "sum.sh", 'mkdir -p report; echo "$orders_hostname $orders_username $item_CURRENCY" > "$report_location"'
    )
    shell.runjob("./sum.sh")
    assert (shell.folder / "report/1.txt").read_text() == "db.example etl EUR\n"


def test_a_forced_script_is_not_led_to_a_file_of_somebody_else(shell: Shell) -> None:
    project(shell)
    shell.runjob("load")
    shell.dml(
        "update data_manifest set location = '/etc/passwd' where datasetid = 'raw'",
    )
    refused = shell.runjob("--force", "--dataid", "1", "load", code=12)
    assert "/etc/passwd" in refused.err
