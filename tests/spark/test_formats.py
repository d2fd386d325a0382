"""Round trips: what is written in a format reads back as it was."""

from __future__ import annotations

from dataclasses import replace

import pytest

from opendataflow.errors import InvalidPath, NotValidated
from opendataflow.model import Check, Dataset, InputChunk, Partition

SIMPLE = """
    SELECT * FROM VALUES
        (1, 'plain', 1.5D, DATE'2013-01-01', TIMESTAMP'2013-01-01 05:06:07.123456', 123456789.123456789BD, true),
        (2, '', -0.0D, NULL, NULL, NULL, NULL),
        (3, NULL, NULL, DATE'1970-01-01', TIMESTAMP'1969-07-20 20:17:40.123456', -0.000000001BD, false),
        (4, 'ünï "quoted", \\\\ back\\\\', 1e300D, NULL, TIMESTAMP'2013-01-01 05:06:07Z', NULL, NULL)
    AS rows(id, name, number, day, ts, exact, flag)
"""
NESTED = f"""
    SELECT *, array(1, NULL, 3) AS list, named_struct('a', id, 'b c', name) AS inner, map('k', id) AS pairs
    FROM ({SIMPLE})
"""
DAY = Partition("day")


@pytest.mark.parametrize(
    ("format", "query", "options"),
    [
        ("parquet", NESTED, {"compression": "zstd"}),
        ("orc", NESTED, {}),
        ("json", NESTED, {}),
        ("csv", SIMPLE, {}),
        ("csv", SIMPLE, {"compression": "gzip", "options": {"sep": ";"}}),
        ("text", "SELECT * FROM VALUES ('a'), (''), ('ü') AS rows(value)", {}),
    ],
)
def test_what_is_written_reads_back_as_it_was(spark, project, produce, format, query, options):
    from opendataflow.spark.chunks import no_password
    from opendataflow.spark.reading import read_chunk

    dataset = Dataset("out", kind="file", location="out/{dataid}", format=format, partition=DAY, options=options)
    manifest = produce(lambda: spark.sql(query), dataset)["out"]
    assert manifest.rows == spark.sql(query).count()
    assert manifest.format == format
    back = read_chunk(spark, project, dataset, InputChunk("out", "2013-01-01", 1, manifest), no_password)
    key = back.columns[0]
    before, after = spark.sql(query).orderBy(key).collect(), back.orderBy(key).collect()
    assert after == before
    if "compression" in options:
        assert all(options["compression"][:2] in file.path for file in manifest.files)


@pytest.fixture
def location(project):
    def write(name: str, text: str) -> str:
        path = project.folder / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return str(path)

    return write


RAW = Dataset("raw", kind="file", location="raw/{dataid}.csv", format="csv", partition=DAY)
DECLARED = Dataset(
    "raw",
    kind="file",
    location="raw/{dataid}.csv",
    format="csv",
    partition=DAY,
    checks=(Check("schema", {"schema": "carrier string, delay double"}),),
)


def test_a_found_csv_is_read_once_and_its_inferred_schema_is_told(spark, location):
    from opendataflow.spark.found import audit_location

    manifest = audit_location(spark, RAW, location("raw/2013-01-01.csv", "carrier,delay\nAA,1\nUA,\n"), "2013-01-01")
    assert (manifest.rows, manifest.schema) == (2, "carrier STRING, delay INT")
    assert [file.path for file in manifest.files] == ["2013-01-01.csv"]
    assert manifest.bytes == 23


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("carrier,delay\nAA,1.5\nUA,late\n", "misfits 1"),
        ("carrier,delay,more\nAA,1.5,x\n", "more STRING added"),
        ("carrier\nAA\n", "delay DOUBLE dropped"),
        ("airline,delay\nAA,1.5\n", "carrier renamed to airline?"),
    ],
)
def test_a_found_csv_that_does_not_fit_its_schema_is_refused(spark, location, text, told):
    from opendataflow.spark.found import audit_location

    with pytest.raises(NotValidated) as problem:
        audit_location(spark, DECLARED, location("raw/2013-01-01.csv", text), "2013-01-01")
    assert told in problem.value.message


def test_a_found_csv_may_have_its_columns_in_another_order(spark, project, location):
    from opendataflow.spark.chunks import no_password
    from opendataflow.spark.found import audit_location
    from opendataflow.spark.reading import read_chunk

    text = "delay,carrier\n1.5,AA\n"
    manifest = audit_location(spark, DECLARED, location("raw/2013-01-01.csv", text), "2013-01-01")
    df = read_chunk(spark, project, DECLARED, InputChunk("raw", "2013-01-01", 1, manifest), no_password)
    assert [(row.carrier, row.delay) for row in df.collect()] == [("AA", 1.5)]


def test_a_pinned_schema_stays_when_a_day_looks_narrower(spark, location):
    from opendataflow.spark.auditing import EarlierPublishes, Surroundings
    from opendataflow.spark.found import audit_location

    around = Surroundings(EarlierPublishes("carrier STRING, delay DOUBLE"))
    text = '{"carrier": "AA", "delay": 1}\n'
    dataset = Dataset("raw", kind="file", location="raw/{dataid}", format="json", partition=DAY)
    manifest = audit_location(spark, dataset, location("raw/2013-01-01", text), "2013-01-01", around=around)
    assert manifest.schema == "carrier STRING, delay DOUBLE"
    text = '{"carrier": "AA", "delay": "soon"}\n'
    with pytest.raises(NotValidated, match="delay was DOUBLE and is STRING"):
        audit_location(spark, dataset, location("raw/2013-01-02", text), "2013-01-02", around=around)


def test_what_is_missing_or_no_parquet_is_named(spark, location):
    from opendataflow.spark.found import audit_location

    dataset = Dataset("raw", kind="file", location="raw/{dataid}", format="parquet", partition=DAY)
    with pytest.raises(InvalidPath, match="/nowhere/at/all"):
        audit_location(spark, dataset, "/nowhere/at/all", "2013-01-01")
    with pytest.raises(NotValidated, match="parquet"):
        audit_location(spark, dataset, location("raw/2013-01-01/part-0.parquet", "no parquet"), "2013-01-01")


def test_a_found_json_whose_keys_differ_in_case_is_refused_and_read_where_it_is_only_a_warning(spark, location):
    from opendataflow.spark.found import audit_location
    from opendataflow.spark.reading import read_location
    from opendataflow.spark.schema import from_ddl

    place, options = location("raw/2013-01-01.json", '{"ID": 1, "delay": 2.5}\n'), {"schema": "id BIGINT, delay DOUBLE"}
    dataset = replace(RAW, format="json", checks=(Check("not_null", {"columns": ["id"]}),), options=options)
    with pytest.raises(NotValidated, match=r"drift: differences id renamed to ID\?"):
        audit_location(spark, dataset, place, "2013-01-01")
    warned = audit_location(spark, replace(dataset, options={**options, "drift": "warn"}), place, "2013-01-01")
    assert [check.passed for check in warned.checks] == [False, True]
    assert read_location(spark, dataset, place, schema=from_ddl(warned.schema)).collect() == [(1, 2.5)]
