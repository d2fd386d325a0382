"""Lines that are too long: refused with a name before Spark holds them, and the application goes on."""

from __future__ import annotations

import bz2
import gzip
import os
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from opendataflow.errors import InvalidPath, NotValidated
from opendataflow.model import Dataset, InputChunk
from opendataflow.project import Project
from opendataflow.spark import lines
from opendataflow.spark.lines import check_files
from opendataflow.spark.reading import read_chunk
from tests.support.shell import Shell, statuses

LIMIT = 100_000
SHORT = b"a,b\n" + b"1,2\n" * 100_000
LONG = SHORT + b"1," + b"x" * (LIMIT + 1) + b"\n" + SHORT


def zstd(data: bytes) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return bytes(sink.getvalue())


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".deflate": zlib.compress,
    ".zst": zstd,
}


def dataset(tmp_path: Path, **options: object) -> Dataset:
    return Dataset("d", kind="file", format="csv", location=str(tmp_path), options={"max_line": LIMIT, **options})


@pytest.mark.parametrize("suffix", PACKED)
def test_a_line_that_is_too_long_is_found_wherever_it_is(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.csv{suffix}"
    for good in (SHORT, b"x" * LIMIT, b"x" * LIMIT + b"\n" + b"y" * LIMIT, SHORT.replace(b"\n", b"\r")):
        path.write_bytes(PACKED[suffix](good))
        check_files(dataset(tmp_path), str(tmp_path))
    tail = SHORT + b"x" * (LIMIT + 1)
    for bad in (LONG, tail, b"x" * (LIMIT + 1) + b"\n" + SHORT, b"\0" * 3_000_000, LONG.replace(b"\n", b"\r")):
        path.write_bytes(PACKED[suffix](bad))
        for location in (tmp_path, path):
            with pytest.raises(NotValidated, match="longer than 100,000 bytes"):
                check_files(dataset(tmp_path), str(location))
        check_files(dataset(tmp_path, max_line="1GiB"), str(tmp_path))


def test_many_gzips_in_one_file_are_all_looked_through(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(SHORT) + gzip.compress(LONG))
    with pytest.raises(NotValidated, match="longer than"):
        check_files(dataset(tmp_path), str(tmp_path))


def test_what_cannot_be_unpacked_is_not_taken_for_short(tmp_path: Path) -> None:
    packed = gzip.compress(os.urandom(1_000_000))
    for content in (packed[:-20], packed[:500] + b"x" * 500 + packed[1000:], packed + b"rubbish" * 1000):
        (tmp_path / "a.csv.gz").write_bytes(content)
        with pytest.raises(NotValidated, match=r"cannot be unpacked|longer than"):
            check_files(dataset(tmp_path), str(tmp_path))
    (tmp_path / "a.csv.gz").unlink()
    (tmp_path / "a.csv.lz4").write_bytes(b"x" * 1000)
    with pytest.raises(NotValidated, match="only Spark could unpack it"):
        check_files(dataset(tmp_path), str(tmp_path))


def test_a_declared_separator_counts_instead_of_the_usual_ones(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(SHORT)
    with pytest.raises(NotValidated):
        check_files(dataset(tmp_path, options={"lineSep": ";"}), str(tmp_path))
    (tmp_path / "a.csv").write_bytes(SHORT.replace(b"\n", b";"))
    check_files(dataset(tmp_path, options={"lineSep": ";"}), str(tmp_path))


def test_what_is_not_text_has_no_lines_but_must_be_regular_files(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"x" * (LIMIT + 1))
    parquet = Dataset("d", kind="file", format="parquet", location=str(tmp_path), options={"max_line": LIMIT})
    check_files(parquet, str(tmp_path))
    os.mkfifo(tmp_path / "b.parquet")
    with pytest.raises(InvalidPath, match="a named pipe"):
        check_files(parquet, [str(tmp_path)])


def test_a_good_file_is_looked_through_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(SHORT))
    check_files(dataset(tmp_path), str(tmp_path))
    monkeypatch.setattr(lines, "_problem", lambda *arguments: "again")
    check_files(dataset(tmp_path), str(tmp_path))
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(SHORT + b"1,2\n"))
    with pytest.raises(NotValidated, match="again"):
        check_files(dataset(tmp_path), str(tmp_path))


def test_a_chunk_with_a_pipe_in_it_is_refused_before_spark_waits_for_it(
    spark: SparkSession, project: Project, tmp_path: Path
) -> None:
    folder = tmp_path / "data" / "1"
    folder.mkdir(parents=True)
    (folder / "a.csv").write_text("a\n1\n")
    os.mkfifo(folder / "b.csv")
    with pytest.raises(InvalidPath, match="a named pipe"):
        read_chunk(
            spark,
            project,
            Dataset("d", kind="file", format="csv", location="{dataid}"),
            InputChunk("d", "1", 1, None),
            str,
        )


TOML = """
[environment.dev]
roots = ["./data"]

[spark]
master = "local[2]"
memory = "1g"

[dataset.raw]
location = "raw/{dataid}.csv.gz"
schema = "a STRING"

[dataset.checked]
location = "raw/{dataid}.csv.gz"
schema = "a STRING"
checks = { rows = { min = 1 } }

[dataset.copied]
location = "copied/{dataid}"

[job.copies]
copy = { from = "raw", to = "copied" }
retries = 0
"""


def test_a_gzip_that_is_one_line_of_3_gb_is_refused_and_the_other_chunks_run(tmp_path: Path) -> None:
    home = Shell(tmp_path, patience=1500)
    home.write("dataflow.toml", TOML)
    home.odf("apply", "--yes")
    folder = home.folder / "data/raw"
    folder.mkdir(parents=True)
    for day in "abyz":
        with gzip.open(folder / f"{day}.csv.gz", "wb") as stream:
            stream.write(b"a\n" + day.encode() + b"\n")
    with gzip.open(folder / "m.csv.gz", "wb", compresslevel=9) as stream:
        stream.write(b"a\n")
        for _ in range(3 << 10):
            stream.write(b"x" * (1 << 20))
    assert (folder / "m.csv.gz").stat().st_size < 4_000_000
    refused = home.odf("ready", "checked", "m", code=13)
    assert "NOT_VALIDATED" in refused.err
    assert "max_line" in refused.err
    home.odf("ready", "raw", "a", "b", "m", "y", "z")
    drained = home.odf("drain", code=None)
    assert "NOT_VALIDATED" in drained.out + drained.err
    found = statuses(home)
    assert {dataid: found["copied", dataid] for dataid in "abyz"} == dict.fromkeys("abyz", "READY")
    assert found["copied", "m"] == "FAILED"
