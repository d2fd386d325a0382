"""Each kind of check: when it passes, when not, and the figures that it tells."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from opendataflow.errors import BadDefinition
from opendataflow.model import Check, CheckResult, Dataset, Partition

NOW = datetime(2013, 1, 3, tzinfo=UTC)
SCHEMA = "id INT, carrier STRING, delay DOUBLE, tail STRING, day DATE, ts TIMESTAMP, number STRING, ok BOOLEAN"
ROWS = """
    VALUES (1, 'AA', 1D, 'N1', DATE'2013-01-01', TIMESTAMP'2013-01-01 05:00:00', '10', true),
           (2, 'UA', -200D, 'N22', DATE'2013-01-01', TIMESTAMP'2013-01-02 12:00:00', '-5', false),
           (3, 'XX', 5000D, 'Z9', DATE'2013-01-01', NULL, 'x', NULL),
           (3, NULL, NULL, NULL, DATE'2013-01-02', NULL, NULL, NULL)
    AS rows(id, carrier, delay, tail, day, ts, number, ok)
"""

CASES = [
    (Check("schema", {"schema": SCHEMA}), True, {}),
    (Check("schema", {"schema": SCHEMA.replace("delay DOUBLE", "delay INT")}), False, "delay was INT and is DOUBLE"),
    (Check("schema", {"schema": SCHEMA + ", more STRING"}), False, "more STRING dropped"),
    (Check("schema", {"schema": SCHEMA.replace("tail STRING, ", "")}), False, "tail STRING added"),
    (Check("schema", {"schema": SCHEMA.replace("delay", "lateness")}), False, "lateness renamed to delay?"),
    (Check("schema", {"schema": SCHEMA.replace("carrier STRING", "carrier STRING NOT NULL")}), False, "has nulls"),
    (Check("schema", {"schema": SCHEMA.replace("id INT", "id INT NOT NULL")}), True, {}),
    (Check("rows", {"min": 4, "max": 4}), True, {"rows": 4, "min": 4, "max": 4}),
    (Check("rows", {"max": 3}), False, {"rows": 4, "max": 3}),
    (Check("rows", {"within_percent": 50}), True, {"median": 6.0, "rows": 4, "within_percent": 50, "trailing": 7}),
    (Check("rows", {"within_percent": 10, "trailing": 1}), False, "'median': 8.0"),
    (Check("not_null", {"columns": ["id", "day"]}), True, {"nulls": {"id": 0, "day": 0}}),
    (Check("not_null", {"columns": ["carrier", "ts"]}), False, {"nulls": {"carrier": 1, "ts": 2}}),
    (Check("not_null", {"columns": ["nowhere"]}), False, {"missing": ["nowhere"]}),
    (Check("unique", {"columns": ["carrier"]}), True, {"repeated_keys": 0, "surplus_rows": 0}),
    (Check("unique", {"columns": ["id"]}), False, {"repeated_keys": 1, "surplus_rows": 1, "examples": ["{3}"]}),
    (Check("unique", {"columns": ["id", "day"]}), True, {"repeated_keys": 0, "surplus_rows": 0}),
    (Check("accepted", {"column": "carrier", "values": ["AA", "UA", "XX"]}), True, {"violations": 0}),
    (Check("accepted", {"column": "carrier", "values": ["AA"]}), False, {"violations": 2, "examples": ["UA", "XX"]}),
    (Check("accepted", {"column": "id", "values": [1, 2]}), False, {"violations": 2, "examples": ["3"]}),
    (
        Check("accepted", {"column": "day", "values": ["2013-01-01"]}),
        False,
        {"violations": 1, "examples": ["2013-01-02"]},
    ),
    (Check("accepted", {"column": "ok", "values": [True]}), False, {"violations": 1, "examples": ["false"]}),
    (Check("range", {"column": "delay", "min": -200, "max": 5000}), True, {"violations": 0, "min": -200, "max": 5000}),
    (Check("range", {"column": "delay", "min": -100, "max": 3000}), False, "'violations': 2"),
    (Check("range", {"column": "day", "max": "2013-01-01"}), False, "'examples': ['2013-01-02']"),
    (Check("range", {"column": "number", "min": 0}), False, "'examples': ["),
    (Check("regex", {"column": "tail", "pattern": "[NZ][0-9]+"}), True, "'violations': 0"),
    (Check("regex", {"column": "tail", "pattern": "N[0-9]"}), False, "'violations': 2"),
    (Check("span"), False, {"violations": 1, "column": "day", "dataid": "2013-01-01"}),
    (Check("fresh", {"column": "ts", "max_age": "36h"}), True, "'age_seconds': 43200"),
    (Check("fresh", {"column": "ts", "max_age": "1h"}), False, "2013-01-02T12:00:00+00:00"),
    (Check("references", {"column": "carrier", "dataset": "airlines", "its_column": "code"}), False, "'rows': 1"),
    (Check("references", {"column": "id", "dataset": "airlines", "its_column": "number"}), True, "'rows': 0"),
    (Check("references", {"column": "id", "dataset": "airlines", "its_column": "none"}), False, "airlines.none"),
    (Check("conserves", {"dataset": "raw"}), True, {"rows_in": 4, "rows_out": 4, "rejected": 0}),
    (Check("conserves", {"dataset": "other"}), False, {"rows_in": None, "rows_out": 4, "rejected": 0}),
    (Check("sql", {"name": "s", "expression": "delay < 6000"}), True, "'violations': 0"),
    (Check("sql", {"name": "s", "expression": "delay < 3000 AND id > 0"}), False, "'violations': 1"),
    (Check("sql", {"name": "s", "expression": "count(DISTINCT id) = 3"}), True, "'value': True"),
    (Check("sql", {"name": "s", "expression": "max(delay) < 3000"}), False, "'value': False"),
]


@pytest.fixture(scope="module")
def results(spark) -> list[CheckResult]:
    """All of them at once: the figures come from one pass."""
    from opendataflow.spark.auditing import Audit, Drift, EarlierPublishes, Surroundings
    from opendataflow.spark.observing import computed

    df = spark.sql(ROWS)
    airlines = spark.sql("VALUES ('AA', 1), ('UA', 2), ('DL', 3) AS rows(code, number)")
    around = Surroundings(
        EarlierPublishes(rows=(8, 6, 4)),
        rows_in=lambda name: 4 if name == "raw" else None,
        load=lambda name: airlines,
        now=NOW,
    )
    found = []
    # A dataset keeps its checks in an order of its own, so each kind is asked by itself.
    for kind in dict.fromkeys(check.kind for check, _, _ in CASES):
        checks = tuple(check for check, _, _ in CASES if check.kind == kind)
        dataset = Dataset("flights", kind="file", partition=Partition("day", column="day"), checks=checks)
        audit = Audit(df, dataset, "2013-01-01", around, Drift(dataset, EarlierPublishes(), df.schema))
        metrics = audit.metrics()
        found += audit.results(computed(df, metrics), 4, lambda: df)
    return found


@pytest.mark.parametrize("index", range(len(CASES)), ids=[f"{n}-{case[0].label}" for n, case in enumerate(CASES)])
def test_a_check_passes_or_not_and_tells_its_figures(results, index):
    check, passed, figures = CASES[index]
    result = results[index]
    assert (result.check, result.severity) == (check.label, "error")
    assert result.passed is passed, result
    if isinstance(figures, str):
        assert figures in str(result.figures)
    else:
        assert result.figures == figures


def test_an_expression_that_does_not_work_is_a_bad_definition(spark):
    from opendataflow.spark.check_kinds import probes

    for expression in ("nowhere > 1", "delay <"):
        dataset = Dataset("flights", checks=(Check("sql", {"name": "s", "expression": expression}),))
        with pytest.raises(BadDefinition, match=r"checks\.sql"):
            probes(spark.sql(ROWS), dataset, "1")
    with pytest.raises(BadDefinition, match="span"):
        probes(spark.sql(ROWS), Dataset("flights", checks=(Check("span"),)), "1")


BELONGS = [
    ("day", "2013-01-01", "DATE'2013-01-01'", "DATE'2013-01-02'"),
    ("day", "2013-01-01", "TIMESTAMP'2013-01-01 23:59:59'", "TIMESTAMP'2013-01-02 00:00:00'"),
    ("day", "2013-01-01", "'2013-01-01'", "'2013-01-02'"),
    ("day", "2013-01-01", "'2013-01-01 07:00:00'", "'later'"),
    ("day", "2013-01-01", "20130101", "20130102"),
    ("hour", "2013-01-01T05", "TIMESTAMP'2013-01-01 05:30:00'", "TIMESTAMP'2013-01-01 06:00:00'"),
    ("hour", "2013-01-01T05", "DATE'2013-01-01'", "DATE'2013-01-02'"),
    ("month", "2013-01", "DATE'2013-01-31'", "DATE'2013-02-01'"),
    ("month", "2013-01", "'2013-01'", "'2013-02'"),
    ("year", "2013", "2013", "2014"),
    ("number", "7", "7L", "8L"),
    ("text", "eu", "'eu'", "'us'"),
    ("text", "eu", "'eu'", "CAST(NULL AS STRING)"),
]


def test_a_row_belongs_to_its_chunk_whatever_the_type_of_its_column(spark):
    from pyspark.sql import functions as F

    from opendataflow.spark.columns import in_chunk

    names = [(f"yes{n}", yes, f"no{n}", no) for n, (_, _, yes, no) in enumerate(BELONGS)]
    df = spark.range(1).selectExpr(
        *(f"{yes} AS {a}" for a, yes, _, _ in names), *(f"{no} AS {b}" for _, _, b, no in names)
    )
    asked = []
    for n, (kind, dataid, _, _) in enumerate(BELONGS):
        for name in (f"yes{n}", f"no{n}"):
            belongs = in_chunk(df.schema, Partition(kind, column=name), dataid)
            assert belongs is not None
            asked.append(belongs.alias(name))
    found = df.select(*asked).collect()[0].asDict()
    assert found == {name: name.startswith("yes") for name in found}
    shard = in_chunk(df.schema, Partition("range", column="yes10", count=2, lower="0", upper="14"), "2")
    assert shard is not None
    assert df.select(shard, F.lit(1)).collect()[0][0] is True
