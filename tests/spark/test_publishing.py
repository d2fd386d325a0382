"""Outputs: a folder of each epoch, a manifest that says what is in it, and nothing visible when a check fails."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from opendataflow import files
from opendataflow.errors import JobFailed, LeaseLost, NotValidated
from opendataflow.files.checks import ChecksFailed
from opendataflow.model import Check, Dataset, InputChunk, Partition
from opendataflow.spark.reading import read_location
from opendataflow.spark.sinks import FileSink
from opendataflow.spark.writing import free_location

DAY = Partition("day", column="day")


def flights(**more) -> Dataset:
    declared = {"location": "clean/{dataid}", "format": "parquet", "partition": DAY, **more}
    return Dataset("flights", kind="file", **declared)


def rows_of(spark, n: int = 3, day: str = "2013-01-01"):
    return spark.range(n).selectExpr("id", f"DATE'{day}' AS day", "concat('c', id) AS carrier", "id * 1.5D AS delay")


def test_each_epoch_writes_a_folder_of_its_own_and_says_what_is_in_it(spark, project, produce):
    first = produce(lambda: rows_of(spark), flights())["flights"]
    second = produce(lambda: rows_of(spark, 5), flights(), epoch=2)["flights"]
    assert first.location.endswith("/clean/2013-01-01/v000001")
    assert second.location.endswith("/clean/2013-01-01/v000002")
    assert (first.rows, second.rows) == (3, 5)
    assert (first.span_lower, first.span_upper) == ("2013-01-01", "2013-01-01")
    assert first.bytes == sum(file.bytes for file in first.files) > 0
    assert all(os.path.getsize(Path(first.location, file.path)) == file.bytes for file in first.files)
    assert first.schema == "id BIGINT NOT NULL, day DATE NOT NULL, carrier STRING NOT NULL, delay DOUBLE NOT NULL"
    assert first.fingerprint
    assert first.fingerprint != second.fingerprint
    assert first.spark_app.startswith("local-")
    assert first.extra["metrics"] == "observed"
    assert spark.read.parquet(first.location).count() == 3


def test_an_epoch_whose_folder_is_there_already_takes_another(spark, produce):
    first = produce(lambda: rows_of(spark), flights())["flights"]
    again = produce(lambda: rows_of(spark, 4), flights())["flights"]
    assert again.location.startswith(f"{first.location}-")
    assert spark.read.parquet(first.location).count() == 3
    assert spark.read.parquet(again.location).count() == 4


def test_two_stores_on_one_data_folder_never_share_the_folder_of_a_version(spark, tmp_path):
    stores = [FileSink(spark, flights(), "2013-01-01", 1, str(tmp_path), rows_of(spark).schema) for _ in range(2)]
    for rows, sink in enumerate(stores, 3):
        sink.write(rows_of(spark, rows))
    first, second = (sink.location for sink in stores)
    assert second.startswith(f"{first}-")
    assert [sink.read_back().count() for sink in stores] == [3, 4]


def test_of_all_who_want_a_folder_at_once_each_gets_one_of_its_own(spark, tmp_path):
    wanted = [str(tmp_path / "2013-01-01/v000001")] * 32
    with ThreadPoolExecutor(8) as threads:
        given = list(threads.map(partial(free_location, spark), wanted))
    assert wanted[0] in given
    assert len(set(given)) == len(os.listdir(tmp_path / "2013-01-01")) == 32


def test_a_location_that_does_not_name_the_chunk_gets_the_dataid(spark, produce):
    dataset = flights(location="clean")
    assert produce(lambda: rows_of(spark), dataset)["flights"].location.endswith("/clean/2013-01-01/v000001")


def test_a_failing_check_publishes_nothing_and_tells_its_figures(spark, produce):
    dataset = flights(checks=(Check("rows", {"min": 10}), Check("not_null", {"columns": ["carrier"]})))
    with pytest.raises(ChecksFailed) as problem:
        produce(lambda: rows_of(spark), dataset)
    assert "rows: rows 3, min 10" in problem.value.message
    assert [result.passed for result in problem.value.results] == [False, True]


def test_a_warning_publishes_and_stays_in_the_manifest(spark, produce):
    manifest = produce(lambda: rows_of(spark), flights(checks=(Check("rows", {"min": 10}, "warn"),)))["flights"]
    assert manifest.passed
    assert manifest.checks[0].passed is False


def test_an_empty_chunk_gets_an_explicit_verdict(spark, produce):
    empty = produce(lambda: rows_of(spark, 0), flights())["flights"]
    assert (empty.rows, empty.fingerprint, empty.checks[0].check) == (0, None, "empty")
    allowed = produce(lambda: rows_of(spark, 0), flights(options={"empty": True}), epoch=2)["flights"]
    assert allowed.checks[0].passed is True
    with pytest.raises(NotValidated, match="empty"):
        produce(lambda: rows_of(spark, 0), flights(options={"empty": False}), epoch=3)


def test_plain_layout_replaces_a_fixed_folder_when_it_is_published(spark, project, produce):
    dataset = flights(options={"layout": "plain"}, checks=(Check("unique", {"columns": ["id"]}),))
    location = project.environment.roots[0] + "/clean/2013-01-01"
    assert produce(lambda: rows_of(spark), dataset)["flights"].location == location
    manifest = produce(lambda: rows_of(spark, 5), dataset, epoch=2)["flights"]
    assert spark.read.parquet(location).count() == 5
    assert os.listdir(Path(location).parent) == ["2013-01-01"]
    assert all(Path(location, file.path).is_file() for file in manifest.files)


def test_plain_layout_of_a_location_named_like_a_file_is_one_file(spark, project, produce):
    dataset = flights(location="out/{dataid}.csv", format="csv", options={"layout": "plain"})
    for epoch in (1, 2):
        manifest = produce(lambda: rows_of(spark), dataset, epoch=epoch)["flights"]
    assert manifest.location.endswith("/out/2013-01-01.csv")
    assert Path(manifest.location).read_text().splitlines()[0] == "id,day,carrier,delay"
    assert manifest.files[0].path == "2013-01-01.csv"
    assert os.listdir(Path(manifest.location).parent) == ["2013-01-01.csv"]


def test_who_lost_the_lease_leaves_a_fixed_place_alone(spark, project, produce):
    dataset = flights(options={"layout": "plain"})
    location = produce(lambda: rows_of(spark), dataset)["flights"].location

    def gone(claim: object) -> None:
        raise LeaseLost("not ours any more")

    with pytest.raises(LeaseLost):
        produce(lambda: rows_of(spark, 5), dataset, epoch=2, fence=gone)
    assert spark.read.parquet(location).count() == 3


@pytest.mark.parametrize("how", [{}, {"location": "out/{dataid}.csv", "format": "csv"}])
def test_who_was_frozen_between_the_fence_and_the_rename_does_not_replace_its_successors_files(spark, produce, how):
    dataset = flights(options={"layout": "plain"}, **how)
    published = {}

    def frozen(claim: object) -> None:
        """Right after its last look at the fence: another attempt takes the chunk, writes and publishes it."""
        published.update(produce(lambda: rows_of(spark, 5), dataset, epoch=3))

    with pytest.raises(LeaseLost):
        produce(lambda: rows_of(spark, 9), dataset, epoch=2, fence=frozen)
    manifest = published["flights"]
    assert files.difference(manifest) == ""
    location = Path(manifest.location)
    assert os.listdir(location.parent) == [location.name]
    assert read_location(spark, dataset, str(location)).count() == 5


def test_several_outputs_come_as_a_dict(spark, produce):
    other = Dataset("other", kind="file", location="other/{dataid}", format="json", partition=Partition("day"))
    found = produce(lambda: {"flights": rows_of(spark), "other": rows_of(spark, 2)}, flights(), other)
    assert {name: manifest.rows for name, manifest in found.items()} == {"flights": 3, "other": 2}
    with pytest.raises(JobFailed, match=r"\bother\b"):
        produce(lambda: {"flights": rows_of(spark)}, flights(), other, epoch=2)


def test_a_job_sees_exactly_the_rows_of_its_chunk(spark, project, produce):
    raw = Dataset("raw", kind="file", location="raw", format="parquet", partition=DAY)
    location = project.environment.roots[0] + "/raw"
    rows_of(spark, 3).union(rows_of(spark, 4, "2013-01-02")).write.parquet(location)
    manifest = produce(
        lambda raw: raw, flights(), reads=[(raw, [InputChunk("raw", "2013-01-02", 1)])], dataid="2013-01-02"
    )
    assert manifest["flights"].rows == 4


def test_many_published_chunks_are_read_together_and_old_versions_are_not(spark, produce):
    one = produce(lambda: rows_of(spark), flights())["flights"]
    produce(lambda: rows_of(spark, 9), flights(), epoch=2)
    two = produce(lambda: rows_of(spark, 4, "2013-01-02"), flights(), dataid="2013-01-02")["flights"]
    total = Dataset("total", kind="file", location="total/{dataid}", partition=DAY)
    chunks = [InputChunk("flights", "2013-01-01", 1, one), InputChunk("flights", "2013-01-02", 1, two)]
    assert produce(lambda flights: flights, total, reads=[(flights(), chunks)])["total"].rows == 7


def test_what_job_code_raises_is_a_failed_job(spark, produce, caplog):
    def broken():
        raise ValueError("no such carrier")

    with pytest.raises(JobFailed, match="ValueError: no such carrier"):
        produce(broken, flights())
    assert "Traceback" in caplog.text
    with pytest.raises(JobFailed, match="DIVIDE_BY_ZERO"):
        produce(lambda: rows_of(spark).selectExpr("1 / (id - 1) AS x"), flights(), epoch=2)
