"""A whole store, carried to another one of either kind and back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import opendataflow
from opendataflow import Manifest, Pool, Store
from opendataflow.errors import SchemaNewer, StoreTaken, UsageError
from opendataflow.store.transfer.export import TABLES
from tests.support.flows import chain, claim_one, dataset, status
from tests.support.stores import BOTH

Open = Callable[[str], Store]


@pytest.fixture
def make(tmp_path: Path, request: pytest.FixtureRequest) -> Open:
    """A new store of a kind; the second one of SQLite has another file, PostgreSQL has one."""
    opened: list[Store] = []

    def make_one(kind: str) -> Store:
        sqlite = f"sqlite:///{tmp_path}/store{len(opened)}.db"
        opened.append(
            opendataflow.open(
                sqlite if kind == "sqlite" else request.getfixturevalue("postgres_url"), create=True, who="tester"
            )
        )
        request.addfinalizer(opened[-1].close)
        return opened[-1]

    return make_one


def lived_in(store: Store) -> None:
    """Versions, a failure, a hold, a change by SQL that nobody has acted on, and a pool."""
    chain(store, pools=[Pool("db", 3)], pool="db")
    store.register([dataset("odd", "text", options={"description": "naïve 'quotes' \\ and\nlines"})])
    store.announce("raw", ["1", "2", "3", "10"], bounds={"3": ("a", "b")})
    for n in range(2):
        claim = claim_one(store, "make", dataid="1")
        store.commit(claim, {"product": Manifest(location=f"/v{n}", rows=n, fingerprint=f"f{n}", schema="x INT")})
        if not n:
            store.resubmit("product", ["1"])
    store.rollback("product", "1")
    store.fail(claim_one(store, "make", dataid="2"), "JOB_FAILED", "it was bad", exit_code=3)
    store.hold("raw", ["10"])
    store.stamp("prod")
    store.dml("update datastatus set status = 'RESUBMIT' where datasetid = 'product' and dataid = '2'")


def content(store: Store) -> dict[str, Any]:
    """Every row of every table by the names of its columns, as the other kind of store would say it."""
    found: dict[str, Any] = {}
    for table in TABLES:
        names, rows = store.sql(f"select * from {table}")
        facts = [dict(zip(names, row, strict=True)) for row in rows]
        for fact in facts:
            fact.pop("session", None)  # whoever is connected
            if table == "note":
                fact.pop("who")
            for name, value in fact.items():
                if hasattr(value, "astimezone"):
                    fact[name] = value.astimezone(None).timestamp()
                elif name in ("modified", "at", "started", "ended", "published") and value:
                    from datetime import UTC, datetime

                    fact[name] = datetime.fromisoformat(value).replace(tzinfo=UTC).timestamp()
                elif isinstance(value, bool):
                    fact[name] = int(value)
        if table == "meta":
            facts = [fact for fact in facts if fact["name"] not in ("clock", "revision")]
        found[table] = sorted((sorted(fact.items(), key=str) for fact in facts), key=str)
    return found


@pytest.mark.postgres
@pytest.mark.parametrize(("first", "second"), [("sqlite", "postgres"), ("postgres", "sqlite"), ("sqlite", "sqlite")])
def test_nothing_is_lost_and_work_goes_on(first: str, second: str, make: Open, tmp_path: Path) -> None:
    old, new = make(first), make(second)
    lived_in(old)
    old.export(tmp_path / "store.jsonl")
    before = content(old)
    counts = new.load(tmp_path / "store.jsonl")
    assert content(new) == before
    assert counts["run"] == 3
    for store in (old, new):
        assert [event.kind for event in store.views.events("product", "1")].count("published") == 2
        claims = store.claim("make", n=5)
        assert [(claim.dataid, claim.epoch, claim.runid) for claim in claims] == [("2", 2, 4), ("3", 1, 5)]
        store.commit(claims[0])
        assert status(store, "product", "2") == "READY"
    assert [(chunk.dataid, chunk.version) for chunk in [new.views.chunk("product", "1")] if chunk] == [("1", 1)]


@pytest.mark.parametrize("kind", BOTH)
def test_only_a_new_store_is_filled_and_only_whole(kind: str, make: Open, tmp_path: Path) -> None:
    store = make(kind)
    file = tmp_path / "store.jsonl"
    full = make("sqlite")
    lived_in(full)
    full.export(file)
    lines = file.read_text().splitlines(keepends=True)
    empty = content(store)
    for wrong, problem in (
        (lines[:-1], UsageError),
        (lines[1:], UsageError),
        (lines[:-3] + lines[-1:], UsageError),
        ([*lines[:3], "x\n", *lines[3:]], UsageError),
        ([lines[0].replace('"schema": ', '"schema": 9'), *lines[1:]], SchemaNewer),
        ([lines[0], lines[1].replace('"datasetid"', '"nosuch"'), *lines[2:]], UsageError),
    ):
        file.write_text("".join(wrong))
        with pytest.raises(problem):
            store.load(file)
        assert content(store) == empty
    file.write_text("".join(lines))
    assert store.load(file, dry_run=True)["run"] == 3
    assert content(store) == empty
    store.load(file)
    with pytest.raises(StoreTaken):
        store.load(file)


def test_every_table_is_carried(make: Open) -> None:
    names = make("sqlite").sql("select name from sqlite_master where type = 'table' and name not like 'sqlite_%'")[1]
    assert {name for (name,) in names} == {*TABLES, "migration"}
