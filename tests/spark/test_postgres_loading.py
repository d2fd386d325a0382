"""Loading a table of PostgreSQL: a chunk is replaced all at once, by the newest attempt only."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from opendataflow.errors import (
    BadDefinition,
    JobFailed,
    LeaseLost,
    NotValidated,
    WrongData,
)
from opendataflow.model import Dataset, Partition
from opendataflow.spark.postgres import RowRange, drop_staging, read_table, stage_table
from tests.support.tables import count_rows, dataset_of, load, publish, rows_of_day, staging_tables

pytestmark = [pytest.mark.postgres, pytest.mark.spark]


def test_publishing_replaces_the_chunk_and_nothing_else(spark, sql, days: Dataset) -> None:
    staged = stage_table(spark, rows_of_day(spark, 5), days, None, dataid="2025-01-02", epoch=1)
    assert (staged.rows, staged.epoch) == (5, 1)
    assert count_rows(replace(days, tablename=staged.staging)) == 5
    assert sql("select count(*) from t where s = 'new'") == [(0,)]
    assert publish(days, staged) == 5
    assert sql("select day::text, s, count(*) from t group by 1, 2 order by 1") == [
        ("2025-01-01", "old", 2),
        ("2025-01-02", "new", 5),
        ("2025-01-03", "old", 2),
    ]
    assert sql("select tablename, dataid, epoch, rows from odf_epoch") == [("t", "2025-01-02", 1, 5)]
    assert staging_tables(sql) == 0


def test_loading_again_gives_the_same_rows(spark, sql, days: Dataset) -> None:
    for epoch in (1, 2):
        assert load(spark, rows_of_day(spark, 4), days, epoch=epoch).rows == 4
    assert sql("select count(*) from t where day = '2025-01-02'") == [(4,)]


def test_an_empty_chunk_empties_its_location(spark, sql, days: Dataset) -> None:
    assert load(spark, rows_of_day(spark, 3).where("n > 100"), days).rows == 0
    assert sql("select count(*) from t where day = '2025-01-02'") == [(0,)]


def test_a_zombie_is_refused_by_the_target(spark, sql, days: Dataset) -> None:
    zombie = stage_table(spark, rows_of_day(spark, 1, "zombie"), days, None, dataid="2025-01-02", epoch=1)
    load(spark, rows_of_day(spark, 2, "successor"), days, epoch=2)
    with pytest.raises(LeaseLost, match="epoch 2"):
        publish(days, zombie, epoch=1)
    assert sql("select distinct s from t where day = '2025-01-02'") == [("successor",)]
    assert drop_staging(days, None) >= 1
    assert staging_tables(sql) == 0


def test_two_that_publish_at_once_leave_the_newer_one(spark, sql, days: Dataset) -> None:
    staged = {
        epoch: stage_table(spark, rows_of_day(spark, epoch, f"e{epoch}"), days, None, dataid="2025-01-02", epoch=epoch)
        for epoch in (1, 2, 3)
    }

    def attempt(epoch: int) -> bool:
        try:
            publish(days, staged[epoch], epoch=epoch)
        except LeaseLost:
            return False
        return True

    with ThreadPoolExecutor(3) as pool:
        published = list(pool.map(attempt, (1, 2, 3)))
    assert published[2]
    assert sql("select s, count(*) from t where day = '2025-01-02' group by 1") == [("e3", 3)]


def test_publishing_the_same_twice_tells_the_same(spark, sql, days: Dataset) -> None:
    staged = stage_table(spark, rows_of_day(spark, 2), days, None, dataid="2025-01-02", epoch=1)
    assert publish(days, staged) == 2
    assert publish(days, staged) == 2


def test_rows_of_another_chunk_are_refused(spark, sql, days: Dataset) -> None:
    before = sql("select * from t order by n")
    for df in (
        rows_of_day(spark, 2, day="2025-01-03"),
        rows_of_day(spark, 2).selectExpr("cast(null as date) day", "n", "s"),
    ):
        with pytest.raises(WrongData, match="2 of 2 rows"):
            load(spark, df, days)
    assert sql("select * from t order by n") == before
    assert staging_tables(sql) == 0
    assert sql("select count(*) from odf_epoch") == [(0,)]


def test_a_staging_table_that_a_crash_emptied_is_not_published(spark, sql, days: Dataset) -> None:
    staged = stage_table(spark, rows_of_day(spark, 2), days, None, dataid="2025-01-02", epoch=1)
    sql(f'truncate "{staged.staging}"')
    with pytest.raises(JobFailed, match=r"\b2\b.*\b0\b"):
        publish(days, staged)
    sql(f'drop table "{staged.staging}" cascade')
    with pytest.raises(JobFailed, match=staged.staging):
        publish(days, staged)
    assert sql("select count(*) from t where day = '2025-01-02'") == [(2,)]


def test_text_and_number_chunks_are_replaced_by_their_dataid(spark, sql, days: Dataset) -> None:
    by_text = replace(days, tablename="t", partition=Partition("text", column="s"))
    load(spark, rows_of_day(spark, 2, "other"), by_text, "other")
    load(spark, rows_of_day(spark, 3, "other"), by_text, "other", epoch=2)
    assert sql("select s, count(*) from t group by 1 order by 1") == [("old", 6), ("other", 3)]
    by_number = replace(days, tablename="t", partition=Partition("number", column="n"))
    load(spark, rows_of_day(spark, 3, "number").where("n = 2"), by_number, "2")
    assert sql("select s from t where n = 2") == [("number",)]
    by_period = replace(days, tablename="p", partition=Partition("month", column="m"))
    sql("create table p (m int)", "insert into p values (202501), (202502)")
    load(spark, spark.sql("select 202502 as m from range(3)"), by_period, "2025-02")
    assert sql("select m, count(*) from p group by 1 order by 1") == [(202501, 1), (202502, 3)]


def test_a_table_without_a_column_is_replaced_only_when_that_is_said(spark, sql, days: Dataset) -> None:
    whole = replace(days, tablename="t", partition=Partition("day"))
    with pytest.raises(BadDefinition, match="2025-01-02"):
        load(spark, rows_of_day(spark, 1), whole)
    load(spark, rows_of_day(spark, 1), replace(whole, tablename="t", options={"replace": "table"}))
    assert sql("select s from t") == [("new",)]


def test_columns_must_fit_and_defaults_are_respected(spark, sql, days: Dataset) -> None:
    df = rows_of_day(spark, 1)
    for wrong, column in (
        (df.drop("s"), "s"),
        (df.withColumnRenamed("s", "renamed"), "renamed"),
        (df.selectExpr("*", "1 as more"), "more"),
    ):
        with pytest.raises(NotValidated, match=rf"\b{column}\b"):
            load(spark, wrong, days)
    sql(
        "create table d (id int generated always as identity, day date, n int, s text, at timestamptz default now(),"
        " twice int generated always as (n * 2) stored)"
    )
    target = replace(days, tablename="d")
    load(spark, rows_of_day(spark, 3).where("n = 2"), target)
    assert sql("select id, n, twice, at is not null from d") == [(1, 2, 4, True)]
    load(spark, rows_of_day(spark, 3).where("n = 2").selectExpr("7 as id", "*"), target, epoch=2)
    assert sql("select id from d") == [(7,)]


def test_vacuum_drops_what_attempts_left_and_spares_what_runs(spark, sql, days: Dataset) -> None:
    for dataid, epoch in (("2025-01-01", 1), ("2025-01-02", 1), ("2025-01-02", 2)):
        stage_table(spark, rows_of_day(spark, 1, day=dataid), days, None, dataid=dataid, epoch=epoch)
    sql("create table other__odf_not_ours (x int)")
    assert drop_staging(days, None, dataid="2025-01-02", older_than_epoch=2) >= 1
    assert drop_staging(days, None, may_go=lambda dataid, epoch: (dataid, epoch) != ("2025-01-02", 2)) >= 1
    left = [
        json.loads(note)
        for (note,) in sql("select obj_description(oid) from pg_class where relname like 't\\_\\_odf%'")
    ]
    assert {(each["dataid"], each["epoch"]) for each in left} == {("2025-01-02", 2)}
    assert drop_staging(days, None) >= 1
    assert staging_tables(sql) == 1


def test_hostile_names_are_only_names(spark, sql, postgres_url: str) -> None:
    table, column = "we\"ird'; drop table safe; --ä", "c\"o`l.u'm{n}; --"
    quoted, name = table.replace('"', '""'), column.replace('"', '""')
    sql(
        "create table safe (x int)",
        'create schema "Sch "" ema"',
        f'create table "Sch "" ema"."{quoted}" ("{name}" text, "select" int)',
    )
    dataset = dataset_of(postgres_url, table, schemaname='Sch " ema', partition=Partition("text", column=column))
    quoted_for_spark = column.replace("`", "``")
    df = spark.range(3).selectExpr(f"'d-1' as `{quoted_for_spark}`", "cast(id as int) as `select`")
    load(spark, df, dataset, "d-1")
    seen = read_table(spark, dataset, None, RowRange(column, equals="d-1"))
    assert (seen.columns, seen.count()) == ([column, "select"], 3)
    assert count_rows(dataset, RowRange(column, equals="'; drop table safe; --")) == 0
    assert count_rows(dataset, RowRange(column, "\\'", "z")) == 3
    assert sql("select count(*) from safe") == [(0,)]
