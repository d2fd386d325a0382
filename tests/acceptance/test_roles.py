"""The roles of docs/how-to/harden.md, on a server that wants passwords: what each is for works, and the rest is refused by name."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from opendataflow import Dataset, Input, Job, Mapping, Partition, Pool, Store
from opendataflow.errors import StoreReadOnly, UsageError
from opendataflow.files.quarantine import rejected_dataset
from opendataflow.model import Answer, Manifest, Receipt, RetryRule
from opendataflow.project import load
from opendataflow.store import open_store
from opendataflow.store.incidents import SENT, IncidentChunk, OpenIncident, Outgoing
from tests.support.flows import dump, fold_in
from tests.support.postgres import Server, quick_postgres
from tests.support.shell import Shell

pytestmark = pytest.mark.postgres

PAGE = (Path(__file__).parents[2] / "docs/how-to/harden.md").read_text(encoding="utf-8")
CREATE, GRANTS = re.findall(r"^```sql\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
PASSWORD = "open sesame"
OWNER, WORKER, OPERATOR, READER = "dataflow_owner", "etl", "olga", "rita"

PROJECT = """
[pool.etl]
slots = 2
[dataset.raw]
partition = "number"
location = "raw/{dataid}.csv"
[dataset.clean]
partition = "number"
location = "clean/{dataid}.csv"
[job.clean_raw]
reads = ["raw"]
writes = ["clean"]
pool = "etl"
[job.report]
reads = ["clean"]
"""


@dataclass(frozen=True)
class Site:
    """A database with the page's roles, and a project that its owner applied."""

    server: Server
    folder: Path

    def url(self, role: str) -> str:
        return self.server.url_of("dataflow").replace("postgres@", f"{role}@")

    def by(self, role: str) -> Shell:
        """A prompt of somebody with this role."""
        return Shell(self.folder, self.url(role), {"PGPASSWORD": PASSWORD, "ODF_AS_SUPERUSER": ""})

    @contextmanager
    def store(self, role: str) -> Iterator[Store]:
        with open_store(self.url(role), password=PASSWORD) as store:
            yield store

    def sql(self, role: str, statements: str) -> list[tuple[Any, ...]]:
        """Statements as a person types them into a client; the rows of the last one."""
        with psycopg.connect(self.url(role), password=PASSWORD, autocommit=True) as connection:
            for statement in filter(str.strip, statements.split(";\n")):
                cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def arrives(self, *dataids: str) -> None:
        for dataid in dataids:
            (self.folder / f"raw/{dataid}.csv").write_text(f"n\n{dataid}\n")
        self.by(WORKER).odf("ready", "raw", *dataids)

    def produced(self, *dataids: str) -> None:
        self.arrives(*dataids)
        for dataid in dataids:
            self.by(WORKER).odf("run", "--dataid", dataid, "clean_raw")

    def status(self, dataid: str) -> str | None:
        with self.store(READER) as store:
            chunk = store.views.chunk("clean", dataid)
            return chunk.status if chunk else None


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    with quick_postgres() as server:
        server.require_passwords()
        with psycopg.connect(server.url, autocommit=True) as connection:
            for statement in filter(str.strip, CREATE.replace("…", PASSWORD).split(";\n")):
                connection.execute(statement.encode())
        made = Site(server, folder)
        owner = made.by(OWNER)
        owner.write("dataflow.toml", PROJECT)
        owner.script("jobs/clean_raw.sh", 'cp "$raw_location" "$clean_location"; [ "$dataid" != 4 ]')
        owner.script("jobs/report.sh")
        for name in ("raw", "clean"):
            (folder / name).mkdir()
        owner.odf("migrate")
        made.sql(OWNER, GRANTS)
        owner.odf("apply", "--yes")
        yield made


@contextmanager
def unchanged(site: Site) -> Iterator[None]:
    """Nothing of the store is changed."""
    with site.store(OWNER) as store:
        before = dump(store)
        yield
        assert dump(store) == before


def refused(site: Site, role: str, *commands: list[str]) -> None:
    """The commands end by name, and change nothing."""
    for command in commands:
        with unchanged(site):
            said = site.by(role).odf(*command, code=2).err
            assert said.startswith("STORE_READ_ONLY: "), said
            assert f"//{role}@" in said


def refused_statements(site: Site, role: str, *statements: str) -> None:
    """So do statements, in any client and as odf dml runs them."""
    refused(site, role, ["dml", statements[0]])
    with unchanged(site), site.store(role) as store:
        for statement in statements:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                site.sql(role, f"set search_path = dataflow;\n{statement}")
            with pytest.raises((StoreReadOnly, UsageError)):
                store.dml(statement)


# What the roles are for -------------------------------------------------------------------------------------------------


def test_a_worker_does_all_that_runs_jobs(site: Site) -> None:
    worker = site.by(WORKER)
    for dataid in ("1", "2", "3", "4"):
        (site.folder / f"raw/{dataid}.csv").write_text(f"n\n{dataid}\n")
    assert "READY" in worker.odf("discover", "raw", "--quiet-for", "0").out
    worker.odf("ready", "raw", "5", "--unseen")  # nothing is there: a drain claims it and gives it back
    worker.odf("run", "clean_raw")
    drained = worker.odf("drain", code=1)
    assert "STORE_READ_ONLY" not in drained.out + drained.err
    assert [site.status(each) for each in ("1", "2", "3", "4", "5")] == ["READY", "READY", "READY", "FAILED", None]
    (site.folder / "raw/6.csv").write_text("n\n6\n")
    worker.odf("ready", "raw", "6")
    assert "export dataid=6" in worker.odf("start", "clean_raw", "--dataid", "6").out
    run = worker.odf("runs", "--json").data[0]["runid"]
    (site.folder / "clean/6.csv").write_text("n\n6\n")
    worker.odf("end", str(run), "READY")
    assert site.status("6") == "READY"
    for verb in (["rescue"], ["status"], ["why", "clean_raw"], ["explain", "clean", "4"], ["vacuum", "--yes"]):
        worker.odf(*verb)


def test_an_operator_steers(site: Site) -> None:
    site.produced("11", "12", "13")
    operator = site.by(OPERATOR)
    for verb, after in (
        ("hold", "HOLD"),
        ("release", "READY"),
        ("fail", "FAILED"),
        ("resubmit", "RESUBMIT"),
        ("forget", None),
    ):
        operator.odf(verb, "clean", "11")
        assert site.status("11") == after
    operator.odf("hold", "clean", "99")  # nothing was there: releasing it takes the row away
    operator.odf("release", "clean", "99")
    operator.odf("pool", "set", "etl", "3")
    operator.odf("pool", "set", "night", "1", "--create")
    operator.odf("pool", "drop", "night")
    operator.odf("rescue")
    operator.odf("dml", "UPDATE job_status SET status = 'RESUBMIT' WHERE datasetid = 'clean' AND dataid = '12'")
    site.sql(OPERATOR, "UPDATE dataflow.job_status SET status = 'HOLD' WHERE datasetid = 'clean' AND dataid = '13'")
    operator.odf("rescue")  # folds in what was typed
    with site.store(READER) as store:
        assert {event.who for event in store.views.events("clean", "13") if event.kind == "sql"} == {OPERATOR}
    assert [site.status(each) for each in ("12", "13")] == ["RESUBMIT", "HOLD"]


@pytest.mark.fault(33)
@pytest.mark.parametrize(("number", "role"), [("15", WORKER), ("16", OPERATOR)])
def test_a_change_by_sql_is_history_whatever_becomes_of_its_note(site: Site, number: str, role: str) -> None:
    site.produced(number)
    changed = f"UPDATE dataflow.datastatus SET status = 'FAILED' WHERE datasetid = 'clean' AND dataid = '{number}' AND locktype = 'OUT'"
    site.sql(role, f"BEGIN;\n{changed};\nDELETE FROM dataflow.note;\nCOMMIT")
    with site.store(READER) as store:
        last = store.views.events("clean", number)[-1]
        assert (last.kind, last.before, last.after, last.who) == ("sql", "READY", "FAILED", role)
    refused_statements(site, role, *HISTORY)


@pytest.mark.parametrize(("number", "role"), [("17", WORKER), ("18", OPERATOR)])
def test_a_change_that_claims_to_be_the_programs_own_is_history_too(site: Site, number: str, role: str) -> None:
    site.produced(number)
    row = f"datasetid = 'clean' AND dataid = '{number}' AND locktype = 'OUT'"
    again = (
        "INSERT INTO dataflow.datastatus (datasetid, dataid, jobid, locktype, status, seal)"
        f" VALUES ('clean', '{number}', 'clean_raw', 'OUT', 'HOLD', 1)"
    )
    for statement, before, after in (
        (f"UPDATE dataflow.datastatus SET status = 'FAILED', seal = seal + 1 WHERE {row}", "READY", "FAILED"),
        (
            f"UPDATE dataflow.datastatus SET seal = -1 WHERE {row};\nDELETE FROM dataflow.datastatus WHERE {row}",
            "FAILED",
            None,
        ),
        (again, None, "HOLD"),
        (f"UPDATE dataflow.datastatus SET dataid = '{number}0', seal = seal + 1 WHERE {row}", "HOLD", None),
    ):
        site.sql(role, f"BEGIN;\n{statement};\nDELETE FROM dataflow.note;\nCOMMIT")
        with site.store(READER) as store:
            last = store.views.events("clean", number)[-1]
            assert (last.kind, last.before, last.after, last.who) == ("sql", before, after, role)
    with site.store(READER) as store:
        last = store.views.events("clean", f"{number}0")[-1]
        assert (last.kind, last.before, last.after, last.who) == ("sql", None, "HOLD", role)


def test_the_programs_own_changes_are_in_the_history_once(site: Site) -> None:
    site.produced("19")
    operator = site.by(OPERATOR)
    for verb in ("hold", "release", "fail", "resubmit"):
        operator.odf(verb, "clean", "19")
    site.by(WORKER).odf("run", "--dataid", "19", "clean_raw")
    operator.odf("forget", "clean", "19")
    with site.store(OWNER) as store:
        assert not [event for event in store.views.events("clean", "19") if event.kind == "sql"]


def test_an_operator_steers_after_a_job_was_put_right_which_no_worker_has_seen(site: Site) -> None:
    site.produced("14")
    site.sql(OWNER, "UPDATE dataflow.jobrule SET options = 'x' WHERE jobid = 'report'")
    with site.store(WORKER) as worker:
        worker.claim("clean_raw")  # and marks the other one as broken
    site.sql(OWNER, "UPDATE dataflow.jobrule SET options = '{}' WHERE jobid = 'report'")
    for verb, after in (("hold", "HOLD"), ("release", "READY")):
        site.by(OPERATOR).odf(verb, "clean", "14")
        assert site.status("14") == after


def test_a_reader_looks_at_everything(site: Site) -> None:
    site.produced("21")
    reader = site.by(READER)
    reader.odf("prove", "raw", "21", code=None)
    for verb in (
        ["status"],
        ["why", "clean_raw"],
        ["explain", "clean", "21"],
        ["runs"],
        ["jobs"],
        ["datasets"],
        ["pool"],
        ["doctor"],
        ["apply", "--dry-run"],
        ["sql", "select * from receipt"],
        ["sql", "select who, session from event"],
    ):
        said = reader.odf(*verb)
        assert "STORE_READ_ONLY" not in said.out + said.err


# What they are not for --------------------------------------------------------------------------------------------------

DEFINITIONS = [
    "update dataset set location = '/etc'",
    "update dataset set modified = now()",
    "insert into dataset (datasetid) values ('more')",
    "insert into job (jobid, itemtype, datasetid) values ('more', 'OUT', 'raw')",
    "update job set itemvalue = 'x'",
    "delete from job",
    "update jobrule set lease = 1",
    "delete from jobrule",
    "update meta set value = 'test' where name = 'environment'",
    "delete from meta",
    "delete from migration",
]
HISTORY = [
    "update event set who = 'somebody'",
    "insert into event (eventid, kind) overriding system value values (9000000000000000000, 'sql')",
    "delete from event",
    "truncate event",
    "alter table event disable trigger all",
    "drop trigger event_is_never_emptied on event",
    "update data_manifest set location = '/etc'",
    "delete from data_manifest",
    "delete from run",
    "update run set owner = 'somebody'",
    "create or replace function lease_now() returns double precision language sql as 'select 0::double precision'",
    "create table dataflow.more (n int)",
]
POOLS = ["update pool set slots = 0", "insert into pool (poolid, slots) values ('more', 1)", "delete from pool"]
STATUSES = [
    "update job_status set status = 'HOLD'",
    "update datastatus set status = 'HOLD'",
    "insert into note (jobid) values ('clean_raw')",
    "insert into event (kind) values ('said')",
]
DOING = [
    ["resubmit", "clean", "31"],
    ["hold", "clean", "31"],
    ["release", "clean", "31"],
    ["fail", "clean", "31"],
    ["forget", "clean", "31"],
    ["rescue"],
    ["ready", "raw", "32", "--unseen"],
]
RUNNING = [["run", "clean_raw"], ["drain"], ["start", "clean_raw"]]
DEFINING = [["apply", "--yes"]]


@pytest.fixture
def work(site: Site) -> None:
    """A chunk that is READY, and one that waits to be produced."""
    if site.status("31") is None:
        site.produced("31")
        site.by(OPERATOR).odf("resubmit", "clean", "31")


@pytest.mark.fault(33)
def test_a_worker_changes_neither_definitions_nor_history(site: Site) -> None:
    refused_statements(site, WORKER, *DEFINITIONS, *HISTORY, *POOLS)
    refused(site, WORKER, *DEFINING, ["pool", "set", "etl", "9"])


@pytest.mark.fault(33)
def test_an_operator_neither_runs_jobs_nor_changes_definitions_or_history(site: Site, work: None) -> None:
    refused_statements(site, OPERATOR, *DEFINITIONS, *HISTORY)
    refused(site, OPERATOR, *RUNNING)


@pytest.mark.fault(33)
def test_a_reader_writes_nothing(site: Site, work: None) -> None:
    refused_statements(site, READER, *DEFINITIONS, *HISTORY, *POOLS, *STATUSES)
    refused(site, READER, *DOING, *RUNNING, *DEFINING, ["pool", "set", "etl", "9"])
    refused(site, READER, ["sql", "select pg_read_file('/etc/passwd')"])


def test_a_new_project_is_applied_by_the_owner_only(site: Site, tmp_path: Path) -> None:
    for role in (WORKER, OPERATOR, READER):
        shell = Shell(tmp_path, site.url(role), {"PGPASSWORD": PASSWORD})
        shell.write("dataflow.toml", PROJECT + '[dataset.more]\npartition = "number"\n')
        said = shell.odf("apply", "--yes", code=2)
        assert said.err.startswith("STORE_READ_ONLY: "), said
    with site.store(READER) as store:
        assert "more" not in store.catalogue().datasets


def test_an_operator_who_applies_changes_nothing_not_even_a_pool(site: Site) -> None:
    operator = site.by(OPERATOR)
    operator.odf("pool", "set", "etl", "7")
    with unchanged(site):
        said = operator.odf("apply", "--yes", code=2)
        assert said.err.startswith("STORE_READ_ONLY: "), said


def test_who_has_no_role_does_not_even_connect(site: Site) -> None:
    site.sql("postgres", f"CREATE ROLE stranger LOGIN PASSWORD '{PASSWORD}'")
    said = site.by("stranger").odf("status", code=75).err
    assert said.startswith("STORE_UNREACHABLE: ")
    assert "permission denied for database" in said
    site.sql("postgres", "GRANT CONNECT ON DATABASE dataflow TO stranger")
    assert site.by("stranger").odf("status", code=2).err.startswith("STORE_READ_ONLY: ")


# What the page says about the grants ------------------------------------------------------------------------------------


def test_every_table_has_its_grant(site: Site) -> None:
    """A migration that adds one must come with a new page."""
    tables = site.sql(
        "postgres",
        "select relname, has_table_privilege('rita', oid, 'select'),"
        " array(select who from unnest(array['etl', 'olga', 'rita']) who"
        "       where has_table_privilege(who, oid, 'truncate, trigger, references'))"
        " from pg_class where relnamespace = 'dataflow'::regnamespace and relkind in ('r', 'v')",
    )
    assert len(tables) > 10
    assert {(readable, tuple(more)) for _, readable, more in tables} == {(True, ())}


def granted() -> Iterator[tuple[str, str, str]]:
    """Every single right that the page grants to whoever writes: (what, on which table, to whom)."""
    for statement in GRANTS.split(";\n"):
        found = re.fullmatch(r"\s*GRANT (.*) ON ([\w, ]+) TO ([\w, ]+)", statement, re.DOTALL)
        if found and found[1] not in ("USAGE", "SELECT"):
            columns = re.fullmatch(r"(INSERT|UPDATE) \((.*)\)", found[1])
            rights = [f"{columns[1]} ({each})" for each in columns[2].split(", ")] if columns else found[1].split(", ")
            for table in found[2].split(", "):
                for role in found[3].split(", "):
                    yield from ((right, table, role) for right in rights)


def worked(site: Site, name: str) -> None:
    """All that a worker writes, in a flow of its own."""
    with site.store(OWNER) as owner, site.store(WORKER) as store:
        _register(owner, name)
        store.announce(f"raw_{name}", ["1", "2", "3", "4"], manifests={"1": Manifest(fingerprint="1")})
        owner.dml(f"update datastatus set status = 'HOLD' where datasetid = 'raw_{name}' and dataid = '4'")
        first, second, third = (store.claim(f"make_{name}", dataid=each)[0] for each in ("1", "2", "3"))
        store.admit(first, None, log="there")
        store.heartbeat(first)
        store.keep_log_tails({first.runid: "its last lines"})
        store.commit(first, {f"product_{name}": Manifest(schema="n INT")}, exit_code=0)
        store.announce(
            f"raw_{name}", ["1"], manifests={"1": Manifest(fingerprint="2")}
        )  # what was made of it is made again
        store.fail(second, exit_code=1)
        store.give_back(third, _no(third.jobid), "no", wait=0)
        store.claim(f"make_{name}", dataid="3", lease=0.001)
        store.rescue()
        store.rescue()
        _mends(owner, store, name)
        for _ in range(2):
            store.add_up({f"lineage sent {name}": 1})
        _told(store, name)


def _mends(owner: Store, store: Store, name: str) -> None:
    """A job is found broken, and then put right."""
    for options in ("x", "{}"):
        owner.dml(f"update jobrule set options = '{options}' where jobid = 'use_{name}'")
        fold_in(store)
        store.rescue()


def _told(store: Store, name: str) -> None:
    """Somebody is told of a chunk, and once that is over, it is not told again."""
    store.incidents.begin_noticing()
    found = IncidentChunk("refused", name, "it is empty", f"raw_{name}", "1", "outside")
    store.incidents.notice([found], [], lambda standing: [_first_message(standing, name)], up_to=1)
    message = store.incidents.take_message(name, 60.0)
    assert message is not None
    store.incidents.end_message(message, SENT)
    store.incidents.notice([], [("refused", f"raw_{name}", "1")], lambda standing: [], up_to=2)


def _first_message(standing: Sequence[OpenIncident], name: str) -> Outgoing:
    [number] = [each.incident.incidentid for each in standing if each.incident.cause == name]
    return Outgoing(number, name, "opened", 0, 1, 0.0)


def steered(site: Site, name: str) -> None:
    """All that an operator writes, in a flow of its own."""
    with site.store(OWNER) as owner, site.store(OPERATOR) as store:
        _register(owner, name)
        owner.announce(f"raw_{name}", ["1", "2", "3"])
        for version in ("a", "b"):
            if version == "b":
                store.resubmit(f"product_{name}", ["1"])
            [claim] = owner.claim(f"make_{name}", dataid="1")
            owner.commit(claim, {f"product_{name}": Manifest(location=version)})
        store.rollback(f"product_{name}", "1")
        store.announce(f"raw_{name}", ["1"], again=True)  # what was made of it is stale, and made again
        store.recall(f"product_{name}", "1", why="bad")
        store.hold(f"product_{name}", ["9"])
        store.release(f"product_{name}", ["9"])
        owner.claim(f"make_{name}", dataid="2")
        store.resubmit(f"product_{name}", ["2"], force=True)
        owner.claim(f"make_{name}", dataid="3", lease=0.001)
        store.rescue()
        store.dml(f"update job_status set status = 'HOLD' where datasetid = 'product_{name}' and dataid = '1'")
        fold_in(store)
        store.register(pools=[Pool(f"pool_{name}", 1)])
        store.register(pools=[Pool(f"pool_{name}", 2)])
        store.drop_pool(f"pool_{name}")
        store.pause(f"make_{name}")
        store.pause(f"make_{name}", why="again")
        store.resume(f"make_{name}")
        _mends(owner, store, name)


def _register(owner: Store, name: str) -> None:
    """raw → make → product → whole, which waits for all of product."""
    numbers = Partition("number", start="1", end="9")
    raw, product = (Dataset(f"{each}_{name}", partition=numbers) for each in ("raw", "product"))
    whole = Dataset(f"whole_{name}")
    make = Job(f"make_{name}", (Input(raw.datasetid),), (product.datasetid,), retry=RetryRule(1, 0))
    make = replace(make, options={"on_new_version": "rerun"})
    use = Job(f"use_{name}", (Input(product.datasetid, Mapping.from_data("all")),), (whole.datasetid,))
    owner.register([raw, product, whole], [make, use])


def _no(jobid: str) -> Receipt:
    return Receipt(jobid, "3", (Answer("place", False, why="outside the roots"),))


@pytest.mark.parametrize(("role", "act"), [("odf_worker", worked), ("odf_operator", steered)])
def test_every_grant_is_needed(site: Site, role: str, act: Callable[[Site, str], None]) -> None:
    act(site, role)
    idle = []
    for number, (right, table, to) in enumerate(granted()):
        if to != role:
            continue
        try:
            site.sql(OWNER, f"REVOKE {right} ON dataflow.{table} FROM {to}")
            act(site, f"{role}_{number}")
            idle.append((right, table))
        except StoreReadOnly:
            pass
        finally:
            site.sql(OWNER, f"GRANT {right} ON dataflow.{table} TO {to}")
            with site.store(OWNER) as owner:
                owner.rescue()
    assert idle == []


def test_a_reader_without_the_column_of_passwords_sees_nothing_at_all(site: Site) -> None:
    """As the page says: every command loads the whole table."""
    site.sql(
        OWNER,
        "REVOKE SELECT ON dataflow.dataset FROM odf_reader;\n"
        "GRANT SELECT (datasetid, location) ON dataflow.dataset TO odf_reader",
    )
    try:
        assert site.by(READER).odf("status", code=2).err.startswith("STORE_READ_ONLY: ")
    finally:
        site.sql(OWNER, "GRANT SELECT ON dataflow.dataset TO odf_reader")


def test_a_worker_keeps_rejected_rows_only_where_the_owner_declared_their_dataset(site: Site, tmp_path: Path) -> None:
    [toml] = [each for each in re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL) if "dataset" in each]
    assert set(tomllib.loads(toml)["dataset"]) == {"clean", "clean__rejected"}
    (tmp_path / "dataflow.toml").write_text(toml)
    declared = {dataset.datasetid: dataset for dataset in load(tmp_path / "dataflow.toml").datasets}
    assert rejected_dataset(declared["clean"]) == declared["clean__rejected"]
    other = Dataset("kept", location="kept/{dataid}", kind="file", format="csv", options={"quarantine": True})
    with site.store(OWNER) as owner, site.store(WORKER) as worker:
        owner.register([other])
        with pytest.raises(StoreReadOnly):
            worker.register([rejected_dataset(other)])
        owner.register([rejected_dataset(other)])
        assert worker.register([rejected_dataset(other)]) == []


def test_jobs_that_were_registered_by_sql_without_an_output_wait_for_the_owner(site: Site) -> None:
    site.sql(OWNER, "INSERT INTO dataflow.job (jobid, itemtype, datasetid) VALUES ('by_sql', 'IN', 'raw')")
    with site.store(WORKER) as worker:
        worker.claim("clean_raw")  # the others go on
        with pytest.raises(StoreReadOnly):
            worker.claim("by_sql")
        site.by(OWNER).odf("apply", "--yes")
        worker.claim("by_sql")
