"""The rows of two versions of a chunk beside each other: added, removed, changed, and what cannot be compared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.shell import Answer

pytestmark = pytest.mark.spark

PROJECT = """
[environment.dev]
roots = ["./data"]

[spark]
master = "local[2]"

[dataset.raw]
location = "raw/{dataid}.csv"
partition = "day"
schema = "x INT"

[dataset.orders]
location = "orders/{dataid}"
partition = "day"
drift = "allow"

[job.orders]
reads = ["raw"]
writes = ["orders"]
"""
DAY = "2013-01-01"
SAME = "(1, 'Ada', 1.5D, 'same'), (2, 'Grace', double('NaN'), 'x'), (3, null, null, 'x')"
FIRST = f"""
SELECT * FROM VALUES {SAME}, (4, 'Joan', 4D, 'x'), (5, 'Mary', 5D, 'x'), (6, null, 6D, 'x'), (7, 'Jean', 7D, 'x')
  AS t (id, name, amount, note)
"""
SECOND = f"""
SELECT * FROM VALUES {SAME}, (4, 'Joan', null, 'x'), (5, 'Mary\\n\\u001b[31mred', 50D, 'x'), (6, 'Barbara', 6D, 'x'), (8, '', 8D, 'x')
  AS t (id, name, amount, note)
"""

Odf = Callable[..., Answer]


@pytest.fixture
def publish(desk: Odf, tmp_path: Path) -> Callable[..., None]:
    """Publish the next version of one chunk: what this query answers."""

    def run(query: str, project: str = PROJECT) -> None:
        first = not (tmp_path / "dataflow.toml").exists()
        (tmp_path / "dataflow.toml").write_text(project)
        for folder in ("jobs", "data/raw"):
            (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / "jobs/orders.sql").write_text(query)
        desk("apply", "--yes")
        if first:
            (tmp_path / f"data/raw/{DAY}.csv").write_text("x\n1\n")
            desk("ready", "raw", DAY)
        else:
            desk("resubmit", "orders", DAY)
        desk("drain")

    return run


def test_added_removed_and_changed_rows_are_counted_and_shown(desk: Odf, publish: Callable[..., None]) -> None:
    publish(FIRST)
    publish(SECOND)
    rows = desk("diff", "orders", DAY, "--rows", "5", "--key", "ID", "--json").data["rows"]
    assert {name: rows[name] for name in ("added", "removed", "changed", "unchanged")} == {
        "added": 1,
        "removed": 1,
        "changed": 3,
        "unchanged": 3,
    }, "NaN is NaN, and null is null"
    assert rows["added_rows"] == [{"id": "8", "name": "", "amount": "8.0", "note": "x"}]
    assert rows["removed_rows"] == [{"id": "7", "name": "Jean", "amount": "7.0", "note": "x"}]
    assert rows["changed_rows"] == [
        {"key": {"id": "4"}, "changed": [{"column": "amount", "before": "4.0", "after": None}]},
        {
            "key": {"id": "5"},
            "changed": [
                {"column": "name", "before": "Mary", "after": "Mary\n\x1b[31mred"},
                {"column": "amount", "before": "5.0", "after": "50.0"},
            ],
        },
        {"key": {"id": "6"}, "changed": [{"column": "name", "before": None, "after": "Barbara"}]},
    ]
    assert rows["by_column"] == {"name": 2, "amount": 2}
    assert not any(rows[name] for name in ("only_before", "only_after", "retyped", "not_comparable"))

    out = desk("diff", "orders", DAY, "1", "2", "--rows", "2", "--key", "id").out
    assert out.splitlines()[-7:] == [
        "rows: 1 added, 1 removed, 3 changed, 3 unchanged",
        "+ id 8, name '', amount 8.0, note x",
        "- id 7, name Jean, amount 7.0, note x",
        "~ id 4: amount 4.0 → null",
        "~ id 5: name Mary → 'Mary\\n\\x1b[31mred', amount 5.0 → 50.0",
        "~ … and 1 more",
        "changed columns: amount (2), name (2)",
    ]
    assert "\x1b" not in out
    back = desk("diff", "orders", DAY, "2", "1", "--rows", "1", "--key", "id,note", "--json").data["rows"]
    assert (back["added"], back["removed"], back["changed"], back["unchanged"]) == (1, 1, 3, 3)
    assert back["added_rows"][0]["id"] == "7"
    same = desk("diff", "orders", DAY, "2", "2", "--rows", "1", "--key", "id").out
    assert "rows: 0 added, 0 removed, 0 changed, 7 unchanged" in same


def test_a_key_that_repeats_or_is_null_is_refused_with_examples(desk: Odf, publish: Callable[..., None]) -> None:
    publish("SELECT * FROM VALUES (1, 'a'), (2, 'b'), (3, 'c') AS t (id, name)")
    publish("SELECT * FROM VALUES (1, 'a'), (1, 'b'), (1, 'c'), (2, 'b'), (2, 'c'), (null, 'd') AS t (id, name)")
    err = desk("diff", "orders", DAY, "--rows", "5", "--key", "id", code=2).err
    assert (
        "USAGE: id is not a key: version 2 has 1 row with a null in it; "
        "in version 2, 2 values repeat, for instance id = 1 (3 rows) and id = 2 (2 rows)\n"
    ) in err
    assert "--key COLUMN" in err
    both = desk("diff", "orders", DAY, "--rows", "5", "--key", "id,name", code=2).err
    assert "USAGE: id, name is not a key: version 2 has 1 row with a null in it\n" in both


def test_columns_that_changed_are_named_and_others_compared(desk: Odf, publish: Callable[..., None]) -> None:
    publish(
        "SELECT 1 AS id, map('a', 1) AS tags, 'x' AS gone, 1 AS n, '7' AS word, array(1, null) AS list,"
        " CAST(1.5 AS DECIMAL(5,1)) AS price, X'CAFE' AS raw, named_struct('a', 1) AS `odd.name`,"
        " concat(repeat('-', 50), 'the old end') AS text"
    )
    publish(
        "SELECT 1L AS id, map('a', 2) AS tags, 'x' AS come, 1L AS n, 7 AS word, array(1, 2) AS list,"
        " CAST(1.5 AS DECIMAL(9,3)) AS price, X'CAFF' AS raw, named_struct('a', 2) AS `odd.name`,"
        " concat(repeat('-', 50), 'the new end') AS text"
    )
    found = desk("diff", "orders", DAY, "--rows", "5", "--key", "id", "--json").data["rows"]
    assert (found["changed"], found["by_column"]) == (1, {"list": 1, "raw": 1, "odd.name": 1, "text": 1})
    assert found["changed_rows"][0]["changed"][:3] == [
        {"column": "list", "before": "[1, null]", "after": "[1, 2]"},
        {"column": "raw", "before": "CAFE", "after": "CAFF"},
        {"column": "odd.name", "before": "{1}", "after": "{2}"},
    ]
    out = desk("diff", "orders", DAY, "--rows", "5", "--key", "id").out
    assert "text …------the old end → …------the new end" in out, "where they differ"
    assert out.splitlines()[-1] == (
        "not compared: gone (only in version 1), come (only in version 2), tags (cannot be compared), "
        "word was string and is int"
    )
    for key, told in (("tags", "map<string,int>, which cannot be a key"), ("word", "string in version 1 and int in")):
        assert told in desk("diff", "orders", DAY, "--rows", "5", "--key", key, code=2).err
    err = desk("diff", "orders", DAY, "--rows", "5", "--key", "gone", code=2).err
    assert err.startswith(f"USAGE: orders {DAY} version 2 has no column gone")
    assert "Its columns are id, tags, n, word, list, price, raw, odd.name, text, come." in err


def test_files_without_types_and_versions_without_rows_are_compared(desk: Odf, publish: Callable[..., None]) -> None:
    project = PROJECT.replace('drift = "allow"', 'drift = "allow"\nformat = "csv"\nempty = "allow"')
    publish("SELECT 1 AS id, 'a' AS name", project)
    publish("SELECT 1 AS id, '' AS name WHERE false", project)
    rows = desk("diff", "orders", DAY, "--rows", "1", "--key", "id", "--json").data["rows"]
    assert (rows["added"], rows["removed"], rows["changed"], rows["unchanged"]) == (0, 1, 0, 0)


def test_a_version_that_is_gone_is_refused(desk: Odf, publish: Callable[..., None], tmp_path: Path) -> None:
    for number in (1, 2, 3):
        publish(f"SELECT {number} AS id")
    desk("vacuum", "orders", "--keep", "2", "--yes")
    err = desk("diff", "orders", DAY, "1", "3", "--rows", "1", "--key", "id", code=12).err
    assert err.startswith(f"INVALID_PATH: the files of orders {DAY} version 1 were removed by odf vacuum")
    assert desk("diff", "orders", DAY, "1", "3").out, "manifests are still there"
    next((tmp_path / f"data/orders/{DAY}/v000003").glob("*.parquet")).write_bytes(b"somebody else's")
    err = desk("diff", "orders", DAY, "--rows", "1", "--key", "id", code=13).err
    assert err.startswith(f"NOT_VALIDATED: orders {DAY} version 3 is not what was published")


def test_a_plain_layout_has_only_its_newest_version(desk: Odf, publish: Callable[..., None]) -> None:
    plain = PROJECT.replace('drift = "allow"', 'layout = "plain"')
    publish("SELECT 1 AS id", plain)
    publish("SELECT 2 AS id", plain)
    err = desk("diff", "orders", DAY, "--rows", "1", "--key", "id", code=13).err
    assert err.startswith(f"NOT_VALIDATED: orders {DAY} version 1 is not what was published")
    assert 'layout = "versioned"' in err
