"""A light manifest, and what differs from it later."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import uuid4

import pytest

from opendataflow.errors import InvalidPath
from opendataflow.files import difference, light_manifest, list_files, manifests
from opendataflow.model import Manifest, ManifestFile


@pytest.fixture
def chunk(tmp_path: Path) -> Path:
    folder = tmp_path / "chunk"
    (folder / "x=1").mkdir(parents=True)
    (folder / "a.csv").write_text("one\n")
    (folder / "x=1/b.csv").write_text("two\n")
    (folder / "_SUCCESS").touch()
    return folder


@pytest.fixture(autouse=True)
def small_is_eight_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "SMALL", 8)


def test_a_light_manifest_says_what_is_there(chunk: Path) -> None:
    manifest = light_manifest(str(chunk), "csv", rows=2)
    assert (manifest.location, manifest.format, manifest.rows, manifest.bytes) == (str(chunk), "csv", 2, 8)
    assert [(file.path, file.bytes) for file in manifest.files] == [("a.csv", 4), ("x=1/b.csv", 4)]
    assert all(file.checksum and file.mtime for file in manifest.files)
    assert difference(manifest) == ""


def test_there_is_no_manifest_of_nothing(tmp_path: Path) -> None:
    with pytest.raises(InvalidPath):
        light_manifest(str(tmp_path / "nowhere"))


def test_the_same_bytes_have_the_same_fingerprint_wherever_and_under_whatever_name(chunk: Path, tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    root = f"/{uuid4().hex}"
    fsspec.filesystem("memory").pipe({f"{root}/p.csv": b"two\n", f"{root}/q.csv": b"one\n"})
    remote = light_manifest(f"memory:/{root}")
    assert remote.fingerprint == light_manifest(str(chunk)).fingerprint
    (chunk / "a.csv").write_text("uno\n")
    assert remote.fingerprint != light_manifest(str(chunk)).fingerprint
    assert difference(remote) == ""
    fsspec.filesystem("memory").pipe(f"{root}/q.csv", b"uno\n")
    assert "q.csv" in difference(remote)


def test_nothing_but_empty_files_has_no_fingerprint(tmp_path: Path) -> None:
    (tmp_path / "a.csv").touch()
    manifest = light_manifest(str(tmp_path))
    assert (len(manifest.files), manifest.bytes, manifest.fingerprint) == (1, 0, None)


def test_the_content_of_every_file_tells_unless_only_size_and_time_are_to_count(chunk: Path) -> None:
    (chunk / "a.csv").write_text("a large file\n")
    assert all(file.checksum for file in light_manifest(str(chunk)).files)
    before = light_manifest(str(chunk), verify="stat")
    assert [file.checksum is None for file in before.files] == [True, False]
    (chunk / "a.csv").write_text("a Large file\n")
    assert light_manifest(str(chunk), verify="stat").fingerprint != before.fingerprint, "its ends tell"


def test_a_changed_byte_with_size_and_time_kept_is_told_by_content_alone(chunk: Path) -> None:
    manifest = light_manifest(str(chunk))
    moment = (chunk / "a.csv").stat().st_mtime
    write(chunk / "a.csv", "onf\n", moment)
    assert difference(manifest) == ""
    assert " a.csv " in difference(manifest, by_content=True)
    assert [told.split()[-1] for told in manifests.differences(manifest, by_content=True)] == ["published"]


@pytest.mark.parametrize(
    ("verify", "location", "together", "expected"),
    [
        ("content", "s3a://lake/x", 1 << 40, True),
        ("stat", "/data/x", 1, False),
        (None, "/data/x", manifests.LITTLE, True),
        (None, "/data/x", manifests.LITTLE + 1, False),
        (None, "s3a://lake/x", 1, False),
    ],
)
def test_content_is_read_where_it_is_wanted_or_costs_nothing(
    verify: str | None, location: str, together: int, expected: bool
) -> None:
    assert manifests.reads_content(verify, location, together) is expected


def write(path: Path, content: str, moment: float = 1.0) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    os.utime(path, (moment, moment))


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("c.csv", ""),
        ("_y=2/c.csv", "in a partition"),
        ("a.csv", "one more\n"),
        ("a.csv", "uno\n"),
        ("large.csv", "a Large file\n"),
    ],
)
def test_a_change_is_told_with_the_name_of_the_file(chunk: Path, file: str, content: str) -> None:
    (chunk / "large.csv").write_text("a large file\n")
    manifest = light_manifest(str(chunk))
    write(chunk / file, content)
    assert f" {file} " in difference(manifest)


def test_a_file_that_is_gone_is_told(chunk: Path) -> None:
    manifest = light_manifest(str(chunk))
    (chunk / "x=1/b.csv").unlink()
    assert " x=1/b.csv " in difference(manifest)


def test_a_location_that_is_gone_is_told(chunk: Path) -> None:
    manifest = light_manifest(str(chunk))
    chunk.rename(chunk.parent / "elsewhere")
    assert str(chunk) in difference(manifest)


def test_what_is_no_data_changes_nothing(chunk: Path) -> None:
    manifest = light_manifest(str(chunk))
    for name in ("_metadata", ".a.csv.crc", "_notes.txt"):
        (chunk / name).write_text("x")
    write(chunk / "a.csv", "one\n")
    assert difference(manifest) == "", "a copy has another time and the same bytes"


def test_files_that_an_older_version_counted_do_not_differ(chunk: Path) -> None:
    """It took `_metadata` and whatever else begins with _ on a disk for data, unless it knew the name."""
    (chunk / "_metadata").write_text("x")
    stored = Manifest(
        location=str(chunk), files=(*(list_files(str(chunk)) or ()), ManifestFile("_metadata", 1, 5.0, "0f"))
    )
    assert difference(stored) == ""
    assert difference(Manifest(location=str(chunk), files=(*stored.files, ManifestFile("c.csv", 1)))) != ""


def test_a_manifest_without_files_or_location_cannot_differ() -> None:
    assert difference(Manifest()) == difference(Manifest(location="/nowhere")) == ""
