"""Where a published chunk lies: `odf where` answers by the same rule as question 3 of `odf explain`."""

from __future__ import annotations

from contextlib import closing

import pytest

from opendataflow import Manifest
from opendataflow.model.roots import Roots
from opendataflow.store import open_store
from tests.support.odf import Odf

TOML = """
[environment.dev]
roots = ["./data"]
hosts = ["db.example"]

[dataset.raw]

[dataset.far]
kind = "table"
format = "postgresql"
hostname = "{host}"
database = "shop"
tablename = "far"

[dataset.named]
kind = "table"
tablename = "sales.named"

[dataset.tracked]

[dataset.used]

[dataset.lake]
kind = "table"
format = "delta"
database = "spark_catalog"
schemaname = "sales"
tablename = "lake"

[job.load]
reads = ["raw"]
writes = ["far", "named", "tracked"]

[job.fill]
reads = ["raw"]
writes = ["lake"]

[job.use]
reads = ["lake"]
writes = ["used"]
"""


@pytest.fixture
def shop(odf: Odf) -> Odf:
    """A script has loaded tables, and something that is only tracked."""
    (odf.folder / "dataflow.toml").write_text(TOML.format(host="db.example"))
    (odf.folder / "jobs").mkdir()
    script = odf.folder / "jobs/load.sh"
    script.write_text("#!/bin/sh\necho loaded\n")
    script.chmod(0o755)
    odf("migrate")
    odf("apply", "--yes")
    odf("ready", "raw", "1")
    odf("run", "load")
    return odf


def _place(odf: Odf, name: str) -> str:
    line = next(line for line in odf("explain", name, "1").out.splitlines() if "Is it in the right place?" in line)
    return line.split("Is it in")[0].strip()


def test_a_table_is_found_where_question_3_says_yes(shop: Odf) -> None:
    assert _place(shop, "far") == "yes"
    assert shop("where", "far", "1").out.strip() == "postgresql://db.example/shop/far"


def test_a_table_on_another_host_is_in_the_wrong_place_for_both(shop: Odf) -> None:
    (shop.folder / "dataflow.toml").write_text(
        TOML.format(host="db.example").replace('db.example"]', 'other.example"]')
    )
    assert _place(shop, "far") == "no"
    assert "INVALID_PATH" in shop("where", "far", "1", code=12).err


def test_a_table_without_a_host_is_where_its_name_says(shop: Odf) -> None:
    assert shop("where", "named", "1").out.strip() == "sales.named"


def test_a_table_of_the_catalogue_of_spark_is_found_by_its_name(shop: Odf, store_url: str) -> None:
    """Before, the store took its name for a file in the first root."""
    with closing(open_store(store_url)) as store:
        store.roots = lambda: Roots([str(shop.folder / "data")])
        (claim,) = store.claim("fill")
        store.commit(claim, {"lake": Manifest("spark_catalog.sales.lake", format="delta", rows=3)})
    assert shop("where", "lake", "1").out.strip() == "spark_catalog.sales.lake"
    assert _place(shop, "lake") == "yes"
    assert "data/spark_catalog" not in shop("explain", "lake", "1").out
    script = shop.folder / "jobs/use.sh"
    script.write_text('#!/bin/sh\necho "reads $lake_location"\n')
    script.chmod(0o755)
    assert "reads spark_catalog.sales.lake\n" in shop("run", "use").out


def test_what_is_only_tracked_lies_nowhere(shop: Odf) -> None:
    assert "it is only tracked" in shop("where", "tracked", "1", code=2).err
