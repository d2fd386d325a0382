"""Rows that break a check which compares rows are kept aside like others."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from opendataflow.model import Dataset, InputChunk, Partition, parse_checks


def test_rows_with_a_repeated_key_or_an_unknown_reference_are_kept_aside(
    spark: SparkSession, produce: Any, tmp_path: Any
) -> None:
    airlines = Dataset("airlines", kind="file", format="parquet", location="airlines", partition=Partition("text"))
    spark.sql("SELECT 'AA' AS code UNION ALL SELECT 'UA' UNION ALL SELECT 'UA'").write.parquet(
        str(tmp_path / "data/airlines")
    )
    flights = Dataset(
        "flights",
        kind="file",
        format="parquet",
        location="flights/{dataid}",
        partition=Partition("day"),
        checks=parse_checks({"unique": ["id"], "references": {"carrier": "airlines.code"}}, "test"),
        options={"quarantine": {"max": "50 %"}},
    )
    rows = "SELECT * FROM VALUES (1, 'AA'), (2, 'UA'), (2, 'AA'), (3, 'XX'), (4, NULL), (NULL, 'UA'), (NULL, 'UA') t(id, carrier)"
    chunk = InputChunk("airlines", "all", 1, None)
    made = produce(
        lambda spark: spark.sql(rows),
        flights,
        others=[airlines],
        referenced=lambda name: [chunk] if name == "airlines" else [],
    )
    kept, aside = made["flights"], made["flights__rejected"]
    assert spark.read.parquet(kept.location).columns == ["id", "carrier"]
    assert sorted(map(tuple, spark.read.parquet(kept.location).collect()), key=str) == [
        (1, "AA"),
        (4, None),
        (None, "UA"),
        (None, "UA"),
    ]
    because = {(row[0], row[1]): row[2] for row in spark.read.parquet(aside.location).collect()}
    assert because == {(2, "UA"): "unique(id)", (2, "AA"): "unique(id)", (3, "XX"): "references(carrier)"}
    assert (kept.rows, aside.rows) == (4, 3)
