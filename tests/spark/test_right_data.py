"""Drift, quarantine, fingerprints, and figures that are believed only where they fit what was written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from opendataflow.errors import BadConfig, JobFailed, NotValidated
from opendataflow.model import Check, Dataset, InputChunk, Partition

DAY = Partition("day", column="day")


def flights(**more) -> Dataset:
    declared = {"location": "clean/{dataid}", "format": "parquet", "partition": DAY, **more}
    return Dataset("flights", kind="file", **declared)


def rows_of(spark, extra: str = "'x' AS carrier"):
    return spark.range(3).selectExpr("id", "DATE'2013-01-01' AS day", extra)


@pytest.mark.parametrize(
    ("column", "told"),
    [
        ("1.5D AS carrier", "carrier was STRING and is DOUBLE"),
        ("'x' AS airline", "carrier renamed to airline?"),
        ("1.5D AS delay", "carrier STRING dropped, delay DOUBLE added"),
        ("nullif('x', 'x') AS carrier", "carrier was NOT NULL and has nulls"),
    ],
)
def test_drift_from_the_pinned_schema_is_refused_and_shown(spark, produce, column, told):
    from opendataflow.spark.auditing import EarlierPublishes

    past = {"flights": EarlierPublishes("id BIGINT, day DATE, carrier STRING NOT NULL")}
    with pytest.raises(NotValidated) as problem:
        produce(lambda: rows_of(spark, column), flights(), past=past)
    assert f"drift: differences {told}" in problem.value.message


def test_drift_may_be_allowed_or_warned_about(spark, produce):
    from opendataflow.spark.auditing import EarlierPublishes

    past = {"flights": EarlierPublishes("carrier STRING, id BIGINT, day DATE")}
    same = produce(lambda: rows_of(spark), flights(), past=past)["flights"]
    assert same.schema.startswith("carrier STRING")  # in the order of the earlier ones
    warned = produce(lambda: rows_of(spark, "1 AS delay"), flights(options={"drift": "warn"}), past=past, epoch=2)
    assert warned["flights"].checks[0].passed is False
    allowed = produce(lambda: rows_of(spark, "1 AS delay"), flights(options={"drift": "allow"}), past=past, epoch=3)
    assert allowed["flights"].checks[0].passed is True
    with pytest.raises(BadConfig, match=r"drift.*'maybe'"):
        produce(lambda: rows_of(spark), flights(options={"drift": "maybe"}), past=past, epoch=4)


BAD = (
    Check("not_null", {"columns": ["carrier"]}),
    Check("range", {"column": "id", "max": 3}),
    Check("span"),
    Check("rows", {"min": 1}),
    Check("conserves", {"dataset": "raw"}),
)


def bad_rows(spark: Any) -> Any:
    return spark.sql(
        """SELECT * FROM VALUES (1L, DATE'2013-01-01', 'AA'), (2L, DATE'2013-01-01', NULL), (9L, DATE'2013-01-02', 'UA'),
        (3L, DATE'2013-01-01', 'UA') AS rows(id, day, carrier)"""
    )


def test_quarantine_publishes_the_good_rows_and_keeps_the_bad_ones_with_the_reason(spark, project, produce):
    raw = Dataset("raw", kind="file", location="raw/{dataid}", format="parquet", partition=DAY)
    bad_rows(spark).write.parquet(project.environment.roots[0] + "/raw/2013-01-01")
    dataset = flights(checks=BAD, options={"quarantine": {"max": "50 %"}})
    found = produce(lambda raw: raw, dataset, reads=[(raw, [InputChunk("raw", "2013-01-01", 1)])])
    good, rejected = found["flights"], found["flights__rejected"]
    assert (good.rows, rejected.rows, good.extra["rejected"]) == (2, 2, 2)
    assert good.passed
    figures = {check.kind: check.figures for check in good.checks}
    assert figures["not_null"] == {"nulls": {"carrier": 1}, "quarantined": True}
    assert figures["span"]["violations"] == 1
    assert figures["conserves"] == {"rows_in": 4, "rows_out": 2, "rejected": 2}
    assert rejected.location.endswith("/clean__rejected/2013-01-01/v000001")
    reasons = {row.id: row.rejected_because for row in spark.read.parquet(rejected.location).collect()}
    assert reasons == {2: "not_null(carrier)", 9: "range(id), span"}
    assert sorted(row.id for row in spark.read.parquet(good.location).collect()) == [1, 3]


def test_quarantine_of_nothing_writes_nothing_aside_and_other_checks_still_count(spark, produce):
    checks = (Check("range", {"column": "id", "max": 9}), Check("rows", {"min": 9}))
    assert list(produce(lambda: rows_of(spark), flights(checks=checks[:1], options={"quarantine": True}))) == [
        "flights"
    ]
    with pytest.raises(NotValidated, match="rows 3, min 9"):
        produce(lambda: rows_of(spark), flights(checks=checks, options={"quarantine": True}), epoch=2)


@pytest.mark.fault(44)
@pytest.mark.parametrize(
    ("quarantine", "told"),
    [
        (True, "2 of 4 rows rejected (max 10 %): not_null(carrier)=1 range(id)=1"),
        ({"max": "49.9 %"}, "2 of 4 rows rejected (max 49.9 %)"),
        ({"max": 1}, "2 of 4 rows rejected (max 1)"),
    ],
)
def test_more_rejected_rows_than_the_limit_fail_the_chunk(spark, produce, quarantine, told):
    with pytest.raises(NotValidated) as problem:
        produce(lambda: bad_rows(spark), flights(checks=BAD[:2], options={"quarantine": quarantine}))
    assert f"flights 2013-01-01: quarantine: {told}" in problem.value.message


@pytest.mark.fault(44)
def test_a_chunk_whose_rows_were_all_rejected_is_not_published_unless_empty_chunks_are_allowed(spark, produce):
    checks = (Check("range", {"column": "id", "min": 100}),)
    with pytest.raises(NotValidated, match=r"3 of 3 rows rejected \(max 100 %\)"):
        produce(lambda: rows_of(spark), flights(checks=checks, options={"quarantine": {"max": "100 %"}}))
    options = {"quarantine": {"max": "100 %"}, "empty": True}
    found = produce(lambda: rows_of(spark), flights(checks=checks, options=options), epoch=2)
    assert (found["flights"].rows, found["flights__rejected"].rows) == (0, 3)


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("csv", "id,day,carrier\n1,2013-01-01,AA\nx,2013-01-01,UA\n3,2013-01-01,UA\n"),
        (
            "json",
            '{"id": 1, "day": "2013-01-01", "carrier": "AA"}\n{"id": "x", "day": "2013-01-01"}\n{"id": 3, "day": "2013-01-01"}\n',
        ),
    ],
)
def test_malformed_values_go_into_quarantine_too(spark, project, produce, format, text):
    raw = Dataset(
        "raw", kind="file", location="raw/{dataid}", format=format, partition=DAY,
        options={"schema": "id BIGINT, day DATE, carrier STRING"},
    )  # fmt: skip
    file = Path(project.environment.roots[0], "raw/2013-01-01")
    file.parent.mkdir(parents=True)
    file.write_text(text)
    read = [(raw, [InputChunk("raw", "2013-01-01", 1)])]
    checks = (Check("conserves", {"dataset": "raw"}),)
    options: dict[str, object] = {"quarantine": {"max": 1}}
    found = produce(lambda raw: raw.select("id", "day"), flights(checks=checks, options=options), reads=read)
    assert (found["flights"].rows, found["flights__rejected"].rows) == (2, 1)
    assert {check.kind: check.passed for check in found["flights"].checks}["conserves"]
    (aside,) = spark.read.parquet(found["flights__rejected"].location).collect()
    assert (aside.id, str(aside.day)) == (None, "2013-01-01")
    assert aside.rejected_because.startswith("malformed raw: ")
    assert "x" in aside.rejected_because
    with pytest.raises(NotValidated, match=r"1 of 3 rows rejected \(max 0\): malformed=1"):
        produce(lambda raw: raw, flights(options={"quarantine": {"max": 0}}), reads=read, epoch=2)
    with pytest.raises(JobFailed):  # without a quarantine it is what it was
        produce(lambda raw: raw, flights(), reads=read, epoch=3)


def test_a_file_that_lacks_a_declared_column_is_not_read_as_nulls(spark, project, produce):
    options: dict[str, object] = {"schema": "id BIGINT, day DATE, amount DOUBLE"}
    raw = Dataset("raw", kind="file", location="raw/{dataid}", format="parquet", partition=DAY, options=options)
    spark.range(3).selectExpr("id", "DATE'2013-01-01' AS day").write.parquet(
        project.environment.roots[0] + "/raw/2013-01-01"
    )
    unseen = [InputChunk("raw", "2013-01-01", 1)]
    with pytest.raises(NotValidated, match="raw 2013-01-01: drift: differences amount DOUBLE dropped"):
        produce(lambda raw: raw, flights(), reads=[(raw, unseen)])
    allowed = replace(raw, options={**options, "drift": "allow"})
    found = produce(lambda raw: raw.drop("amount"), flights(), reads=[(allowed, unseen)], epoch=2)
    assert found["flights"].rows == 3


def test_rows_that_an_earlier_version_kept_aside_do_not_outlive_it(spark, produce):
    from opendataflow.spark.auditing import EarlierPublishes

    dataset = flights(checks=BAD[:1], options={"quarantine": {"max": 1}})
    produce(lambda: bad_rows(spark), dataset)
    found = produce(lambda: rows_of(spark), dataset, epoch=2, past={"flights": EarlierPublishes(rejected=True)})
    aside = found["flights__rejected"]
    assert aside.rows == 0
    assert aside.location.endswith("/v000002")
    assert spark.read.parquet(aside.location).count() == 0


def fingerprint(spark, query: str) -> str | None:
    from opendataflow.spark.auditing import Audit, Drift, EarlierPublishes, Surroundings
    from opendataflow.spark.observing import computed

    df = spark.sql(query)
    dataset = Dataset("x", kind="file")
    audit = Audit(df, dataset, "1", Surroundings(), Drift(dataset, EarlierPublishes(), df.schema))
    figures = computed(df, audit.metrics())
    return audit.fingerprint(figures, int(figures["rows"]))


def test_a_fingerprint_knows_the_rows_and_not_their_order(spark):
    def of(rows: str, names: str = "a, b") -> str | None:
        return fingerprint(spark, f"SELECT * FROM VALUES {rows} AS rows({names})")

    first = of("(1, 'x'), (2, 'y'), (3, NULL)")
    assert first == of("(3, NULL), (1, 'x'), (2, 'y')")
    assert first == fingerprint(spark, "SELECT b, a FROM VALUES (2, 'y'), (3, NULL), (1, 'x') AS rows(a, b)")
    others = [
        of("(1, 'x'), (2, 'y'), (3, '')"),
        of("(1, 'x'), (2, 'y')"),
        of("(1, 'x'), (2, 'y'), (3, NULL), (3, NULL), (3, NULL)"),
        of("(1, 'x'), (1, 'x')"),
        of("(2, 'x'), (2, 'x')"),
        of("(1, 'y'), (2, 'x'), (3, NULL)"),
        of("(1, map('k', array(1, 2)))"),
        of("(1, map('k', array(2, 1)))"),
        of("(1, named_struct('m', map('a', 1)))"),
        of("(1, named_struct('m', map('a', 2)))"),
    ]
    assert len({first, *others}) == 11
    assert of("(1, map('a', 1, 'b', 2))") == of("(1, map('b', 2, 'a', 1))")


def test_a_fingerprint_can_be_left_out(spark, produce):
    assert produce(lambda: rows_of(spark), flights(options={"fingerprint": False}))["flights"].fingerprint is None


def test_figures_that_do_not_fit_what_was_written_are_taken_from_there(spark, produce, monkeypatch):
    from opendataflow.spark import observing

    dataset = flights(checks=(Check("not_null", {"columns": ["carrier"]}),))
    right = produce(lambda: rows_of(spark), dataset)["flights"]
    figures = observing.Observed.figures
    monkeypatch.setattr(
        observing.Observed, "figures", lambda self: {**(figures(self) or {}), "rows": 6, "nulls carrier": 2}
    )
    counted_twice = produce(lambda: rows_of(spark), dataset, epoch=2)["flights"]
    monkeypatch.setattr(observing.Observed, "figures", lambda self: None)
    never_told = produce(lambda: rows_of(spark), dataset, epoch=3)["flights"]
    for manifest in (counted_twice, never_told):
        assert (manifest.rows, manifest.fingerprint, manifest.checks) == (3, right.fingerprint, right.checks)
        assert manifest.extra["metrics"] == "read back"


def test_observing_what_the_optimiser_removes_does_not_hang(spark, produce):
    manifest = produce(lambda: rows_of(spark).where("false").limit(0), flights())["flights"]
    assert manifest.rows == 0


def test_a_job_that_gives_other_rows_each_time_cannot_have_a_quarantine(spark, produce):
    checks = (Check("range", {"column": "id", "max": 0.5}),)
    dataset = flights(checks=checks, options={"quarantine": {"max": "99 %"}})
    random = "reflect('java.lang.Math', 'random')"
    with pytest.raises(JobFailed, match=r"flights 2013-01-01: \d+"):
        produce(
            lambda: spark.range(2000).selectExpr(f"CAST({random} AS DOUBLE) AS id", "DATE'2013-01-01' AS day"), dataset
        )
