"""What came and was not taken looks different from what never came: in the matrix, in explain, in why."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.support.odf import Odf

TOML = """
[environment.dev]
roots = ["./data"]

[dataset.orders]
location = "orders/{dataid}.parquet"
partition = "day"
schema = "id BIGINT, amount DOUBLE"

[dataset.done]
location = "done/{dataid}"
partition = "day"

[job.load]
copy = { from = "orders", to = "done" }
"""


def deliver(folder: Path, dataid: str, **columns: list[object]) -> None:
    location = folder / f"data/orders/{dataid}.parquet"
    location.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.table(columns), location)


@pytest.fixture
def shop(odf: Odf) -> Odf:
    (odf.folder / "dataflow.toml").write_text(TOML)
    odf("migrate")
    odf("apply", "--yes")
    return odf


def test_each_cause_of_a_range_of_refusals_is_named(shop: Odf) -> None:
    deliver(shop.folder, "2025-11-12", id=[1])
    deliver(shop.folder, "2025-11-13", id=[2])
    deliver(shop.folder, "2025-11-14", id=[3], amount=[1.0], other=[2])
    shop("discover", "orders", "--quiet-for", "0", code=13)
    lines = shop("status").out.splitlines()
    first = lines.index("REFUSED  orders  2025-11-12..2025-11-14")
    assert lines[first + 1].startswith("         2025-11-12 and 1 more: NOT_VALIDATED: orders 2025-11-12: drift")
    assert lines[first + 2].startswith("         2025-11-14: NOT_VALIDATED: orders 2025-11-14: drift")


def test_the_command_that_shows_more_causes_shows_all_of_them(shop: Odf) -> None:
    for n in range(1, 9):
        columns: dict[str, list[object]] = {"id": [n], "amount": [1.0], f"other_{'abcdefgh'[n - 1]}": [n]}
        deliver(shop.folder, f"2025-11-{n:02}", **columns)
    shop("discover", "orders", "--quiet-for", "0", code=13)
    (told,) = (line for line in shop("status").out.splitlines() if "more causes" in line)
    more, _, command = told.strip().partition(": ")
    assert more == "3 more causes"
    shown = shop(*command.split()[1:]).out
    assert all(f"2025-11-{n:02}: NOT_VALIDATED" in shown for n in range(1, 9))
    assert "more causes" not in shown


def test_values_that_do_not_fit_are_no_new_columns(odf: Odf) -> None:
    text = TOML.replace("{dataid}.parquet", "{dataid}.csv").replace(
        'DOUBLE"', 'DOUBLE"\nchecks = { rows = { min = 1 } }'
    )
    (odf.folder / "dataflow.toml").write_text(text)
    odf("migrate")
    odf("apply", "--yes")
    (odf.folder / "data/orders").mkdir(parents=True)
    (odf.folder / "data/orders/2025-11-12.csv").write_text("id,amount\n1,5\nabc,7\n")
    refused = odf("ready", "orders", "2025-11-12", code=13).err
    assert "drift: misfits 1, example abc,7" in refused
    assert "new columns" not in refused
    assert "(values do not fit the types of the columns; to see them: odf schema orders)" in refused
    (odf.folder / "data/orders/2025-11-12.csv").write_text("id,amount,more\n1,5,abc\n")
    assert "(to accept the new columns: odf schema orders)" in odf("ready", "orders", "2025-11-12", code=13).err


TRACKED = """
[dataset.names]
location = "names/{dataid}.csv"
partition = "day"
[dataset.greetings]
partition = "day"
[job.greet]
reads = ["names"]
writes = ["greetings"]
script = "greet.sh"
"""


def test_a_job_whose_next_input_was_refused_is_not_without_work(odf: Odf) -> None:
    (odf.folder / "dataflow.toml").write_text(TRACKED)
    script = odf.folder / "greet.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    (odf.folder / "names").mkdir()
    for day in ("12", "13"):
        (odf.folder / f"names/2025-11-{day}.csv").write_text("name\nAda\n")
    odf("migrate")
    odf("apply", "--yes")
    odf("ready", "names", "2025-11-12")
    odf("run", "greet")
    assert "NOTHING_TO_DO" in odf("run", "greet").err
    odf("ready", "names", "2025-11-13", code=11)
    assert (
        "DATA_NOT_READY: no chunk of greet can run now; first in line is 2025-11-13" in odf("run", "greet", code=10).err
    )
    odf("run", "--quiet-no", "greet")
    told = odf("why", "greet").out
    assert "were refused when they arrived, for instance 2025-11-13: WRONG_DATA: names 2025-11-13 has exactly" in told
    assert "never produced" not in told
    (odf.folder / "names/2025-11-13.csv").write_text("name\nBob\n")
    odf("ready", "names", "2025-11-13")
    odf("run", "greet")
    assert "NOTHING_TO_DO" in odf("run", "greet").err


on_sqlite = pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)


@pytest.mark.fault(44)
def test_a_refused_arrival_has_a_sign_of_its_own(shop: Odf) -> None:
    deliver(shop.folder, "2025-11-12", id=[1, 2, 3], amount=[1.0, 2.0, 3.0])
    deliver(shop.folder, "2025-11-14", id=[4])  # its amounts would be read as nulls, and their sum as 0
    found = shop("discover", "orders", "--quiet-for", "0", "--json", code=13).data
    assert {chunk["dataid"]: chunk["verdict"] for chunk in found} == {
        "2025-11-12": "READY",
        "2025-11-14": "NOT_VALIDATED",
    }
    assert "drift: differences amount DOUBLE dropped" in found[1]["why"]
    published = shop("explain", "orders", "2025-11-12", "--json").data["published"]["manifest"]
    assert published["rows"] == 3, "from the footer"

    matrix = shop("status", "--json").data
    orders = next(line for block in matrix["blocks"] for line in block["lines"] if line["datasetid"] == "orders")
    assert [cell["status"] for cell in orders["cells"]] == ["READY", None, "REFUSED"]
    (refused,) = (each for each in matrix["exceptions"] if each["datasetid"] == "orders")
    assert (refused["status"], refused["n"]) == ("REFUSED", 1)
    (reason,) = matrix["reasons"]
    assert reason[:3] == ["orders", "2025-11-14", "REFUSED"]
    assert "amount DOUBLE dropped" in reason[3]
    told = shop("status").out
    assert "⊘ REFUSED" in told
    assert "REFUSED  orders  2025-11-14: NOT_VALIDATED" in told
    assert shop("status", "--status", "refused", "--json").data["exceptions"] == [refused]

    explained = shop("explain", "orders", "2025-11-14", "--json").data
    assert explained["refused"].startswith("NOT_VALIDATED")
    answers = {answer["question"]: answer for answer in explained["answers"]}
    assert (answers["ready"]["yes"], answers["validated"]["yes"]) == (False, False)
    assert "amount DOUBLE dropped" in answers["validated"]["why"]
    assert answers["right"]["yes"] is None
    assert "it came and was refused: NOT_VALIDATED" in shop("explain", "orders", "2025-11-14").out
    assert "it came and was refused" not in shop("explain", "orders", "2025-11-13").out
    assert "was refused at" in shop("why", "load", "2025-11-14").out

    # Offered again it is told again, and stored once; the right file takes its place.
    shop("discover", "orders", "--quiet-for", "0", code=13)
    assert len(shop("explain", "orders", "2025-11-14", "--json").data["events"]) == 1
    deliver(shop.folder, "2025-11-14", id=[4], amount=[4.0])
    shop("discover", "orders", "--quiet-for", "0")
    assert "REFUSED" not in shop("status").out


@on_sqlite
def test_a_repeated_and_a_refused_second_delivery_and_a_look_that_changes_nothing(shop: Odf) -> None:
    deliver(shop.folder, "2025-11-12", id=[1], amount=[1.0])
    deliver(shop.folder, "2025-11-13", id=[1], amount=[1.0])
    assert shop("ready", "orders", "2025-11-12").code == 0
    shop("ready", "orders", "2025-11-13", code=11)
    answers = {each["question"]: each for each in shop("explain", "orders", "2025-11-13", "--json").data["answers"]}
    assert answers["right"]["yes"] is False
    deliver(shop.folder, "2025-11-12", id=["x"], amount=[1.0])
    shop("ready", "orders", "2025-11-12", "--dry-run", code=13)
    assert not shop("explain", "orders", "2025-11-12", "--json").data["refused"]
    shop("ready", "orders", "2025-11-12", code=13)
    explained = shop("explain", "orders", "2025-11-12").out
    assert "orders 2025-11-12 is READY" in explained
    assert "a later delivery was refused: NOT_VALIDATED" in explained
    assert "id was BIGINT and is STRING" in explained
    shop("ready", "orders", "2025-11-20", code=12)
    assert not shop("explain", "orders", "2025-11-20", "--json").data["refused"], "it never came"


@on_sqlite
def test_days_after_the_last_delivery_are_shown_where_they_are_expected(shop: Odf) -> None:
    today = datetime.now(UTC).date()
    days = [(today - timedelta(days=n)).isoformat() for n in (4, 3, 2, 1)]
    deliver(shop.folder, days[0], id=[1], amount=[1.0])
    shop("ready", "orders", days[0])
    assert "MISSING" not in shop("status", "orders").out
    (shop.folder / "dataflow.toml").write_text(TOML.replace('schema = "id', 'expected = "1d"\nschema = "id'))
    shop("apply", "--yes")
    matrix = shop("status", "orders", "--json").data
    assert [cell["status"] for cell in matrix["blocks"][0]["lines"][0]["cells"]] == ["READY", "MISSING", "MISSING"]
    (missing,) = matrix["exceptions"]
    assert (missing["status"], missing["ranges"]) == ("MISSING", [[days[1], days[2]]])
    assert "○ MISSING" in shop("status", "orders").out
    assert "although it is expected by now" in shop("explain", "orders", days[2]).out
    assert "expected by now" not in shop("explain", "orders", days[3]).out
