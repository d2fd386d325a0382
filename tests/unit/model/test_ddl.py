"""The columns of a schema, told without Spark."""

from __future__ import annotations

from opendataflow.model.definitions.ddl import column_differences, columns_of


def test_columns_are_told_as_spark_writes_them() -> None:
    ddl = "id LONG NOT NULL COMMENT 'a, b', `x y` Varchar(3), d: DECIMAL( 4, 1), m DEC, s STRUCT<a: INT, b: STRING>, t TIMESTAMP_NTZ"
    assert columns_of(ddl) == {
        "id": "bigint",
        "x y": "string",
        "d": "decimal(4,1)",
        "m": "decimal(10,0)",
        "s": "",
        "t": "timestamp",
    }
    assert columns_of("") == {}


def test_names_in_another_case_and_types_that_nobody_knows_do_not_differ() -> None:
    assert column_differences({"Id": "int", "s": ""}, {"ID": "int", "S": "string"}) == []
    assert column_differences({"id": "int", "a": "date"}, {"id": "bigint", "b": ""}) == [
        "a DATE dropped",
        "b added",
        "id was INT and is BIGINT",
    ]
