"""Proof by rows: one pass over the source finds what each chunk holds, and every difference to what was published."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from opendataflow.errors import BadDefinition
from opendataflow.insight.proof import Proof, ProofRows
from opendataflow.insight.prove import prove
from opendataflow.model import Dataset, Input, InputChunk, Job, Manifest, Partition
from opendataflow.model.bounds import Size
from opendataflow.project import Project
from opendataflow.run.sharding import announce, plan
from opendataflow.run.worker import Worker
from opendataflow.spark.proving import contents_of
from opendataflow.store import Store, open_store
from tests.support.flows import declaring
from tests.support.tables import SQL, dataset_of

pytestmark = [pytest.mark.postgres, pytest.mark.spark]


def no_password(dataset: Dataset) -> str:
    return ""


@pytest.fixture
def orders(postgres_url: str, sql: SQL) -> Dataset:
    sql("create table orders (id int, name text, amount numeric(8,2), at timestamptz)")
    sql(
        "insert into orders select i, 'n' || i % 7, i / 4.0, timestamptz '2025-01-01 00:00+00' + i * interval '1 hour'"
        " from generate_series(1, 1000) i"
    )
    return dataset_of(postgres_url, "orders", datasetid="orders", partition=Partition("range", column="id"))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(f"sqlite:///{tmp_path}/store.db", create=True)


def migrated(spark, store: Store, project: Project, orders: Dataset, lake: Dataset, copy: Job, count: int) -> None:
    """The table sharded, and every chunk of it copied."""
    store.register([orders, lake], [copy])
    announce(store, plan(store, project, "orders", lambda: spark, no_password, size=Size(count=count)))
    drained(spark, store, project, copy)


def drained(spark, store: Store, project: Project, copy: Job) -> list[str]:
    worker = Worker(store, declaring(project, store), None)
    worker._spark = spark
    outcomes = []
    while claims := store.claim(copy.jobid):
        outcomes.append(worker.run(store.catalogue(), claims)[0].outcome)
    return outcomes


def proven_rows(proof: Proof) -> ProofRows:
    """How many rows were counted for a proof that held."""
    assert proof.verdict == "PROVEN", proof
    assert proof.rows is not None
    return proof.rows


LAKE = Dataset("lake", "file", location="lake/{dataid}", format="parquet", partition=Partition("range", column="id"))
COPY = Job("copy", (Input("orders"),), ("lake",), options={"copy": {"from": "orders", "to": "lake"}})


def test_rows_and_fingerprints_of_a_copy_are_those_of_the_source_until_one_of_them_changes(
    spark, store: Store, project: Project, orders: Dataset, sql: SQL
) -> None:
    renamed = {"from": "orders", "to": "lake", "columns": ["amount", "id", "at"], "rename": {"amount": "price"}}
    copy = replace(COPY, options={"copy": renamed})
    migrated(spark, store, project, orders, LAKE, copy, 5)
    rows = proven_rows(prove(store, project, "lake", spark=lambda: spark))
    assert (rows.source, rows.published, rows.fingerprints) == (1000, 1000, 5)

    sql("update orders set name = 'not copied' where id = 5")
    assert prove(store, project, "lake", spark=lambda: spark).verdict == "PROVEN"
    sql("update orders set amount = amount + 1 where id = 250")
    other = prove(store, project, "lake", spark=lambda: spark)
    assert [(each.name, each.ranges) for each in other.problems] == [("content", (("2", "2"),))]
    assert other.exit_code == 11
    sql("delete from orders where id in (250, 999)")
    fewer = prove(store, project, "lake", spark=lambda: spark)
    assert [(each.name, each.ranges) for each in fewer.problems] == [("rows", (("2", "2"), ("5", "5")))]
    assert "200 published" in fewer.problems[0].text
    assert prove(store, project, "lake", "3", "4", spark=lambda: spark).verdict == "PROVEN"

    sql("insert into orders (id) values (0), (-4), (5000), (null)")
    outside = prove(store, project, "orders", spark=lambda: spark)
    assert sorted(each.text for each in outside.problems) == [
        "1 row of orders lies beyond the last chunk",
        "1 row of orders lies without a key",
        "2 rows of orders lie below the first chunk",
    ]
    assert outside.exit_code == 10

    store.resubmit("lake", ["2", "5"])
    assert drained(spark, store, project, copy) == ["READY", "READY"]
    sql("delete from orders where id is null")
    announce(store, plan(store, project, "orders", lambda: spark, no_password, extend=True))
    assert set(drained(spark, store, project, copy)) == {"READY"}
    mended = proven_rows(prove(store, project, "lake", spark=lambda: spark))
    assert mended.source == mended.published == 1001
    store.close()


def test_rejected_rows_are_accounted_for_and_other_jobs_only_counted(
    spark, store: Store, project: Project, orders: Dataset, sql: SQL
) -> None:
    from opendataflow.model import parse_checks

    strict = replace(
        LAKE, checks=parse_checks({"range": {"amount": {"max": 200}}}, ""), options={"quarantine": {"max": "40 %"}}
    )
    migrated(spark, store, project, orders, strict, COPY, 2)
    rows = proven_rows(prove(store, project, "lake", spark=lambda: spark))
    assert (rows.source, rows.published, rows.rejected) == (1000, 800, 200)

    project.job_folders[0].mkdir()
    (project.job_folders[0] / "some.sql").write_text("SELECT * FROM orders WHERE id % 2 = 0")
    some = Dataset("some", "file", location="some/{dataid}", format="parquet", partition=Partition("range"))
    job = Job("some", (Input("orders"),), ("some",))
    store.register([some], [job])
    assert drained(spark, store, project, job) == ["READY", "READY"]
    counted = proven_rows(prove(store, project, "some", spark=lambda: spark))
    assert (counted.source, counted.published, counted.is_copy) == (1000, 500, False)
    store.close()


def test_days_months_numbers_and_names_are_counted_by_their_column(
    spark, project: Project, orders: Dataset, sql: SQL
) -> None:
    sql("alter table orders add day date, add ymd int, add word text")
    sql(
        "update orders set day = at::date, ymd = to_char(at, 'YYYYMMDD')::int, word = to_char(at, 'YYYY-MM-DD HH24:MI')"
    )

    def counts(column: str, type_name: str, dataids: list[str], **options: object) -> dict[str, int]:
        dataset = replace(orders, partition=Partition(type_name, column=column), options=options)
        found = contents_of(
            spark,
            project,
            dataset,
            [InputChunk("orders", each, 1) for each in dataids],
            {each: each for each in dataids},
            no_password,
        )
        return {dataid: content.rows for dataid, content in found.chunks.items()} | dict(found.outside)

    wanted = {"2025-01-01": 23, "2025-01-02": 24, "beyond the last chunk": 953}
    for column in ("day", "ymd", "word", "at"):
        assert counts(column, "day", ["2025-01-01", "2025-01-02"]) == wanted, column
    assert counts("at", "day", ["2025-01-01"], timezone="Europe/Berlin") == {
        "2025-01-01": 22,
        "beyond the last chunk": 978,
    }
    assert counts("day", "month", ["2025-01", "2025-02"]) == {"2025-01": 743, "2025-02": 257}
    assert counts("at", "hour", ["2025-01-01T05"]) == {
        "2025-01-01T05": 1,
        "below the first chunk": 4,
        "beyond the last chunk": 995,
    }
    assert counts("name", "text", ["n1", "n6"]) == {"n1": 143, "n6": 143, "between chunks": 714}
    assert counts("id", "number", ["7", "9"]) == {
        "7": 1,
        "9": 1,
        "between chunks": 1,
        "below the first chunk": 6,
        "beyond the last chunk": 991,
    }
    with pytest.raises(BadDefinition, match=r"\bday\b"):
        counts("day", "hour", ["2025-01-01T05"])


def test_chunks_in_places_of_their_own_are_told_apart_by_their_files(spark, project: Project) -> None:
    folder = project.folder / "data" / "raw"
    folder.mkdir(parents=True)
    for day in range(1, 4):
        rows = "".join(f"{n},öä {day}\n" for n in range(day * 10))
        (folder / f"2025-01-0{day} ü%20.csv").write_text("n,s\n" + rows)
    dataset = Dataset(
        "raw",
        "file",
        location="raw/{dataid} ü%20.csv",
        format="csv",
        partition=Partition("month"),
        options={"schema": "n int, s string"},
    )
    dataset = replace(dataset, partition=Partition("day"))
    chunks = [
        InputChunk("files", f"2025-01-0{day}", 1, Manifest(location=str(folder / f"2025-01-0{day} ü%20.csv")))
        for day in range(1, 4)
    ]
    groups = {"2025-01-01": "2025-01", "2025-01-02": "2025-01", "2025-01-03": "other"}
    found = contents_of(spark, project, dataset, chunks, groups, no_password)
    assert {name: content.rows for name, content in found.chunks.items()} == {"2025-01": 30, "other": 30}
    assert found.outside == {}


def test_a_set_of_files_is_sharded_copied_and_proven_like_a_table(spark, store: Store, project: Project) -> None:
    events = Dataset("orders", "file", location="events", format="parquet", partition=Partition("range", column="word"))
    folder = str(project.folder / "data" / "events")
    spark.range(500).selectExpr("concat('w ', id % 97, ' é') as word", "id").repartition(3).write.parquet(folder)
    lake = replace(LAKE, partition=Partition("range", column="word"))
    migrated(spark, store, project, events, lake, COPY, 6)
    proof = prove(store, project, "lake", spark=lambda: spark)
    rows = proven_rows(proof)
    assert (proof.published, rows.published, rows.fingerprints) == (6, 500, 6)

    spark.range(3).selectExpr("'zz' as word", "id").write.mode("append").parquet(folder)
    later = prove(store, project, "lake", spark=lambda: spark)
    assert [each.text for each in later.problems] == ["3 rows of orders lie beyond the last chunk"]
    store.close()
