"""odf diff, as a process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from opendataflow import Dataset, Manifest, Store
from opendataflow.files import light_manifest
from tests.support.flows import chain, claim_one
from tests.support.odf import Odf

ROWS = ("--rows", "5", "--key", "id")


def test_two_versions_are_compared(store: Store, odf: Odf):
    chain(store)
    store.announce("raw", ["1"])
    store.commit(claim_one(store, "make"), {"product": Manifest(rows=1000, fingerprint="a", schema="id INT")})
    assert odf("diff", "product", "1", code=10).err.startswith("DATA_NOT_READY")
    store.resubmit("product", ["1"])
    store.commit(claim_one(store, "make"), {"product": Manifest(rows=1200, fingerprint="b", schema="id BIGINT")})
    out = odf("diff", "product", "1").out
    assert "column id was INT and is BIGINT" in out
    assert "1,000" in out
    assert "1,200" in out
    assert "the content differs" in out
    facts = odf("diff", "product", "1", "1", "2", "--json").data["facts"]
    assert {"what": "rows", "before": 1000, "after": 1200} in facts or ["rows", 1000, 1200] in facts
    assert odf("diff", "product", "1", "1", "9", code=2).err.startswith("USAGE")
    assert odf("diff", "nothing", "1", code=2).err.startswith("UNKNOWN_DATASET")


@pytest.fixture
def lake(store: Store, tmp_path: Path) -> Path:
    """Two versions of lake 1, each in a place of its own, as far as their manifests tell."""
    store.register([Dataset("lake", "file", location="lake/{dataid}", format="csv")])
    for number in (1, 2):
        file = tmp_path / f"lake/1/v{number}/part.csv"
        file.parent.mkdir(parents=True)
        file.write_text(f"id,name\n{number},Ada\n")
        manifest = replace(light_manifest(str(file.parent), "csv"), rows=1, schema="id INT, name STRING")
        store.announce("lake", ["1"], manifests={"1": manifest}, again=True)
    return tmp_path / "lake/1"


def test_rows_need_a_key_that_is_there(lake: Path, odf: Odf) -> None:
    without = odf("diff", "lake", "1", "--rows", "5", code=2).err
    assert without.startswith("USAGE: rows can only be compared by a key")
    assert "--key COLUMN,… Its columns are id, name." in without
    unknown = odf("diff", "lake", "1", "--rows", "5", "--key", "id,nosuch", code=2).err
    assert unknown.startswith("USAGE: lake 1 version 1 has no column nosuch")
    assert "Its columns are id, name." in unknown
    assert "--rows 10" in odf("diff", "lake", "1", "--key", "id", code=2).err
    assert odf("diff", "lake", "1", "--rows", "0", "--key", "id", code=2).err.startswith("USAGE")


def test_rows_of_versions_that_are_not_there_are_not_compared(lake: Path, store: Store, odf: Odf) -> None:
    (lake / "v1/part.csv").write_text("id,name\n7,Eve\n")
    changed = odf("diff", "lake", "1", *ROWS, code=13).err
    assert changed.startswith("NOT_VALIDATED: lake 1 version 1 is not what was published: the content of file part.csv")
    assert "a new delivery takes the place of the one before" in changed
    store.vacuumed("lake", [("1", 1)])
    removed = odf("diff", "lake", "1", *ROWS, code=12).err
    assert removed.startswith("INVALID_PATH: the files of lake 1 version 1 were removed by odf vacuum")
    assert "the content differs" in odf("diff", "lake", "1").out


def test_without_spark_it_says_what_to_install(lake: Path, odf: Odf, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    (tmp_path / "none/pyspark.py").write_text("raise ModuleNotFoundError('there is none', name='pyspark')")
    answer = odf("diff", "lake", "1", *ROWS, code=2, PYTHONPATH=str(tmp_path / "none"))
    assert answer.err.startswith("MISSING_DEPENDENCY: rows are compared on Spark, and pyspark is not installed")
    assert "pip install" in answer.err


def test_rows_are_compared_of_files_that_may_be_read_only(store: Store, odf: Odf, tmp_path: Path) -> None:
    outside = Manifest(location="/etc", format="csv", files=(("passwd", 1, 1.0, None),), schema="id INT")  # type: ignore[arg-type]
    store.register(
        [
            Dataset("tracked"),
            Dataset("rows", "table", tablename="t"),
            Dataset("odd", "file", location="odd/{dataid}", format="jdbc"),
            Dataset("led", "file", location="led/{dataid}", format="csv"),
            Dataset("vague", "file", location="vague/{dataid}", format="csv"),
        ]
    )
    for name in ("tracked", "rows", "odd", "led", "vague"):
        for _ in range(2):
            store.announce(name, ["1"], manifests={"1": outside if name == "led" else Manifest()}, again=True)
    for name, code, told in (
        ("tracked", 2, "USAGE: dataset tracked is only tracked"),
        ("rows", 2, "USAGE: dataset rows is a table"),
        ("odd", 18, "UNTRUSTED_DEFINITION: dataset odd has format"),
        ("led", 12, "INVALID_PATH: led 1 version 1: /etc leads outside"),
        ("vague", 13, "NOT_VALIDATED: vague 1 version 1: nobody recorded which files"),
    ):
        answer = odf("diff", name, "1", *ROWS, code=code)
        assert answer.err.startswith(told), answer
