"""A store of the last schema, 16, is brought over, read and worked on; what it holds is in tests/data."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

import opendataflow
from opendataflow import Manifest, Store
from opendataflow.errors import SchemaOlder
from opendataflow.model import YES, Consumed, Facts, InputFact, Limit, decide
from opendataflow.secrets import decrypt, find_key
from opendataflow.store import open_store
from opendataflow.store.drivers.migrate import SCHEMA
from tests.support.catalog import postgres_catalog, sqlite_catalog
from tests.support.flows import claim_one, following, in_status, kinds, status
from tests.support.workers import ROOT

EXPORT = ROOT / "tests/data/store-16.jsonl"  # of the same store, written by the version that made it
PASSKEY = "correct horse battery staple"
DAYS = [f"2025-11-0{number}" for number in range(1, 7)]


@pytest.fixture
def url(store_url: str) -> str:
    """The address of a store with schema 16."""
    dialect = "sqlite" if store_url.startswith("sqlite") else "postgres"
    text = (ROOT / f"tests/data/store-16.{dialect}.sql").read_text(encoding="utf-8")
    if dialect == "sqlite":
        with closing(sqlite3.connect(store_url.removeprefix("sqlite:///"))) as connection:
            connection.executescript(text)
    else:
        with psycopg.connect(store_url, autocommit=True) as connected:
            connected.execute(text.encode())
    return store_url


@pytest.fixture
def migrated(url: str) -> Iterator[Store]:
    """The same with the schema of today."""
    with open_store(url, check=False, who="tester") as store:
        store.migrate()
        yield store


def test_it_is_refused_until_it_is_migrated(url: str) -> None:
    with pytest.raises(SchemaOlder, match="schema 16") as refused:
        opendataflow.open(url)
    assert refused.value.hint == "Bring it over: odf migrate"
    with open_store(url, check=False) as store:
        for dry_run in (True, False):
            assert [(step.number, step.name) for step in store.migrate(dry_run=dry_run)] == [(SCHEMA, "from 16")]
        assert store.migrate() == []
    with opendataflow.open(url) as store:
        assert store.environment() == "dev"
        assert store.missing() == []


def test_its_schema_is_that_of_a_new_store(migrated: Store, request: pytest.FixtureRequest) -> None:
    if migrated.url.startswith("sqlite"):
        found = sqlite_catalog(migrated.url.removeprefix("sqlite:///"))
        wanted = sqlite_catalog(str(request.getfixturevalue("migrated_sqlite")))
    else:
        found = postgres_catalog(migrated.url)
        wanted = postgres_catalog(request.getfixturevalue("migrated_postgres"))
    for what, rows in wanted.items():
        assert found[what] == rows


@pytest.mark.postgres
@pytest.mark.parametrize("store_url", ["postgres"], indirect=True)
def test_a_password_in_plain_text_from_before_is_named_and_stops_nothing(url: str) -> None:
    with psycopg.connect(url, autocommit=True, options="-c search_path=dataflow") as connected:
        ((rule,),) = connected.execute(
            "select pg_get_constraintdef(oid) from pg_constraint where conname = 'encryptedpass_is_encrypted'"
        ).fetchall()
        connected.execute("alter table dataset drop constraint encryptedpass_is_encrypted")
        connected.execute("update dataset set encryptedpass = 'sesame' where datasetid = 'orders'")
        connected.execute(f"alter table dataset add constraint encryptedpass_is_encrypted {rule}".encode())
        assert rule.endswith("NOT VALID")
    with open_store(url, check=False) as store:
        assert store.migrate()
        assert store.views.not_encrypted() == ["orders"]


def test_its_export_is_the_one_from_before(url: str, tmp_path: Path) -> None:
    before, after = tmp_path / "before.jsonl", tmp_path / "after.jsonl"
    with open_store(url, check=False) as store:
        store.write(lambda tx: None)  # stores the clock of this boot, which no look does
        store.export(before)
        store.migrate()
        store.export(after)
    assert after.read_text().splitlines()[1:] == before.read_text().splitlines()[1:], "all but the number of the schema"
    assert exported(after) == exported(EXPORT)


def test_its_export_is_loaded_into_a_new_store(store: Store, tmp_path: Path) -> None:
    store.load(EXPORT)
    store.export(tmp_path / "again.jsonl")
    assert exported(tmp_path / "again.jsonl") == exported(EXPORT)


def exported(file: Path) -> dict[str, list[Any]]:
    """The rows of an export by table, without what belongs to a machine, a store or a connection."""
    found: dict[str, list[Any]] = {}
    columns: list[str] = []
    for line in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
        if isinstance(line, dict):
            rows, columns = found.setdefault(line.get("table", ""), []), line.get("columns", [])
            of_a_store = {"session", "who"} if line.get("table") == "note" else {"session"}
        elif line[0] not in ("clock", "revision"):
            rows.append([_whole(value) for name, value in zip(columns, line, strict=True) if name not in of_a_store])
    return {table: sorted(rows, key=str) for table, rows in found.items()}


def _whole(value: Any) -> Any:
    """PostgreSQL tells every time with its microseconds, and knows no whole numbers among its floats."""
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?", value):
        return value.partition(".")[0] + "." + value.partition(".")[2].ljust(6, "0")
    return float(value) if isinstance(value, int) else value


def test_its_definitions_are_what_they_were(migrated: Store) -> None:
    catalogue = migrated.catalogue()
    assert set(catalogue.datasets) == {"today", "orders", "raw", "clean", "month", "seen", "copied"}
    clean = catalogue.dataset("clean")
    assert (clean.kind, clean.location, clean.format, clean.partition.start) == (
        "file",
        "clean/{dataid}",
        "parquet",
        DAYS[0],
    )
    assert sorted(check.kind for check in clean.checks) == ["not_null", "rows"]
    load, copy = catalogue.job("load"), catalogue.job("copy")
    assert (load.env, load.lease, load.timeout, load.pool) == ({"CURRENCY": "EUR"}, 45.0, 600.0, "etl")
    assert (copy.retry.retries, copy.retry.backoff, copy.retry.on) == (2, 30.0, ("JOB_FAILED",))
    assert str(catalogue.job("sum").inputs[0].mapping) == "rollup"
    assert (catalogue.pool("etl").slots, catalogue.pool("night").slots) == (4, 0)
    assert migrated.views.pool_now("etl")[0] in (2, 4)
    assert migrated.views.limits("sum") == [Limit("dataset", "clean", 3, 0)]


def test_its_password_decrypts(migrated: Store) -> None:
    key = find_key({"PASSKEY": PASSKEY})
    assert key is not None
    token = migrated.catalogue().dataset("orders").encryptedpass
    assert decrypt(token, key, "dataset/orders/encryptedpass") == "s3cret"


def test_its_chunks_are_what_they_were(migrated: Store) -> None:
    assert {chunk.dataid: chunk.status for chunk in migrated.views.all_chunks("clean")} == {
        DAYS[0]: "RESUBMIT",
        DAYS[1]: "READY",
        DAYS[2]: "FAILED",
        DAYS[3]: "HOLD",
        DAYS[4]: "RUNNING",
    }
    second = migrated.views.chunk("clean", DAYS[1])
    assert second is not None
    assert (second.version, second.epoch, second.runid) == (2, 2, 3)
    row = migrated.views.input_row("raw", DAYS[1], "load")
    assert row is not None
    assert (row.status, row.version, row.runid) == ("DONE", 1, 3)
    bounds = migrated.views.chunk("orders", "2")
    assert bounds is not None
    assert (bounds.lower, bounds.upper) == ("1000", "2000")


def test_its_columns_are_in_the_order_of_the_original(migrated: Store) -> None:
    names, rows = migrated.sql("select * from datastatus where runid = 3 order by locktype")
    assert names[:6] == ["datasetid", "jobid", "dataid", "locktype", "status", "modified"]
    assert [row[:5] for row in rows] == [
        ("raw", "load", DAYS[1], "IN", "DONE"),
        ("clean", "load", DAYS[1], "OUT", "READY"),
    ]
    assert migrated.sql("select count(*) from note")[1] == [(2,)], "bringing a store over is no change of a status"


@pytest.mark.postgres
@pytest.mark.parametrize("store_url", ["postgres"], indirect=True)
def test_its_grants_stay(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connected:
        connected.execute("grant select on all tables in schema dataflow to public")
        with open_store(url, check=False) as store:
            store.migrate()
        granted = "select grantee, privilege_type from information_schema.role_table_grants where table_name = %s"
        for table in ("datastatus", "job_status", "candidate_facts"):
            assert ("PUBLIC", "SELECT") in connected.execute(granted, (table,)).fetchall()


def test_its_manifests_are_what_they_were(migrated: Store) -> None:
    newest, first = migrated.views.manifests("clean", DAYS[1])
    manifest = newest.manifest
    assert (newest.version, first.version, newest.runid, newest.jobid) == (2, 1, 3, "load")
    assert (manifest.location, manifest.format) == (f"/data/clean/{DAYS[1]}/v2", "parquet")
    assert (manifest.rows, manifest.bytes, manifest.fingerprint) == (25, 300, f"25 {DAYS[1]}")
    assert (manifest.span_lower, manifest.schema, manifest.spark_app) == (
        DAYS[1],
        "carrier STRING, delay INT",
        "local-1",
    )
    assert [(result.kind, result.passed) for result in manifest.checks] == [("not_null", True), ("rows", True)]
    assert manifest.checks[1].figures == {"rows": 25}
    assert manifest.passed
    assert manifest.inputs == (Consumed("raw", DAYS[1], 1),)
    assert manifest.files[0].path == "part-0.parquet"
    assert manifest.extra == {"writer": "opendataflow"}
    assert [published.dataid for published in migrated.views.all_published("raw")] == DAYS
    assert migrated.past("clean", DAYS[4], 3).schema == "carrier STRING, delay INT"
    assert migrated.past("clean", DAYS[4], 3).rows == (25,)


def test_its_runs_and_history_are_what_they_were(migrated: Store) -> None:
    assert {run.runid: (run.dataid, run.status) for run in migrated.views.runs(jobid="load")} == {
        1: (DAYS[0], "READY"),
        2: (DAYS[1], "READY"),
        3: (DAYS[1], "READY"),
        4: (DAYS[2], "FAILED"),
        5: (DAYS[5], "REFUSED"),
        8: (DAYS[4], "RUNNING"),
    }
    failed = migrated.views.run(4)
    assert (failed.outcome, failed.detail, failed.exit_code) == ("JOB_FAILED", "exit code 3", 3)
    assert failed.log == "/logs/load/2025-11-03-4.log"
    assert (migrated.views.run(7).forced, migrated.views.run(6).forced) == (True, False)
    assert kinds(migrated, "clean", DAYS[1]) == [
        "claimed",
        "admitted",
        "published",
        "resubmitted",
        "claimed",
        "admitted",
        "published",
    ]
    assert migrated.views.events("clean", DAYS[3])[0].why == "ask the airline"


def test_its_receipts_are_read_and_shown_with_their_verdicts(migrated: Store) -> None:
    admitted, refused = migrated.views.receipts("load", DAYS[0])[0], migrated.views.receipts("load", DAYS[5])[0]
    assert admitted.receipt is not None
    assert (admitted.receipt.verdict, admitted.receipt.answer("place").evidence) == (YES, {"looked": "place"})
    assert refused.receipt is not None
    assert refused.receipt.no is not None
    assert (refused.receipt.verdict, refused.receipt.no.why) == ("INVALID_PATH", "outside the roots")
    _, rows = migrated.sql("select dataid, verdict from receipt where jobid = 'copy' order by receiptid")
    assert rows == [("1", YES), ("7", "NOT_ASKED"), ("8", "DATA_NOT_READY")]


def test_what_is_decided_about_its_chunks(migrated: Store) -> None:
    verdicts = {dataid: decide(migrated.views.facts("load", dataid)).verdict for dataid in DAYS}
    assert verdicts == {
        DAYS[0]: YES,
        DAYS[1]: "LOCKED",
        DAYS[2]: "LOCKED",
        DAYS[3]: "LOCKED",
        DAYS[4]: "LOCKED",
        DAYS[5]: YES,
    }
    facts: Facts = migrated.views.facts("copy", "2")
    assert facts.inputs == (InputFact("seen", "2", "READY", 1),)


def test_its_resubmitted_chunk_is_claimed_and_published(migrated: Store) -> None:
    claim = claim_one(migrated, "load")
    assert (claim.dataid, claim.epoch, claim.was_resubmit) == (DAYS[0], 2, True)
    assert status(migrated, "clean", DAYS[4]) == "RESUBMIT", "the lease of what was running is long over"
    assert migrated.views.run(8).status == "LOST"
    (chunk,) = migrated.input_chunks([claim])[claim.runid]
    assert chunk.manifest is not None
    assert chunk.manifest.location == f"/data/raw/{DAYS[0]}.csv"
    made = Manifest(f"/data/clean/{DAYS[0]}/v2", "parquet", rows=11, fingerprint="new")
    migrated.commit(claim, {"clean": made}, exit_code=0)
    assert (status(migrated, "clean", DAYS[0]), in_status(migrated, "raw", DAYS[0], "load")) == ("READY", "DONE")
    assert [published.version for published in migrated.views.manifests("clean", DAYS[0])] == [2, 1]
    assert kinds(migrated, "clean", DAYS[0])[-3:] == ["sql", "claimed", "published"]
    assert following(migrated, "load") == [DAYS[4], DAYS[5]]
    assert following(migrated, "copy") == ["2", "3", "10"]
    assert [step.after for step in migrated.rollback("clean", DAYS[0])] == [1], "versions from before are still there"
