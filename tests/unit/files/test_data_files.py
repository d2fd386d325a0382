"""What counts as data, by name, on a disk and by fsspec."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from opendataflow.files import is_data, list_files
from tests.support.data_files import NAMES


def on_disk(tmp_path: Path) -> str:
    for name in NAMES:
        path = tmp_path / "chunk" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return str(tmp_path / "chunk")


def in_memory(tmp_path: Path) -> str:
    fsspec = pytest.importorskip("fsspec")
    folder = f"/{uuid4().hex}/chunk"
    for name in NAMES:
        fsspec.filesystem("memory").pipe(f"{folder}/{name}", name.encode())
    return f"memory:/{folder}"


@pytest.mark.parametrize(("name", "expected"), NAMES.items())
def test_a_name_is_data_or_not(name: str, expected: bool) -> None:
    assert is_data(name) is expected


@pytest.mark.parametrize("write", [on_disk, in_memory])
def test_a_folder_lists_its_data_and_nothing_else(tmp_path: Path, write: Callable[[Path], str]) -> None:
    location = write(tmp_path)
    listed = list_files(location)
    assert listed is not None
    assert [file.path for file in listed] == sorted(name for name, expected in NAMES.items() if expected)
    assert [file.bytes for file in listed] == [len(file.path.encode()) for file in listed]
    assert all(file.mtime for file in listed)


@pytest.mark.parametrize("name", ["_orders.csv", ".orders", "orders.csv"])
def test_a_location_that_is_one_file_is_data_whatever_its_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("1")
    listed = list_files(str(tmp_path / name))
    assert listed is not None
    assert [file.path for file in listed] == [name]
