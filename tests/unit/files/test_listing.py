"""Looking at locations, local and remote alike, and taking them away."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

import pytest

from opendataflow import files
from opendataflow.errors import InvalidPath, MissingDependency
from opendataflow.files.filesystems import filesystem_for


@pytest.fixture(params=["disk", "memory"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A folder with two files and a hidden one, wherever it lies."""
    contents = {"a.csv": b"1234", "b=1/c.csv": b"56", "_SUCCESS": b"789"}
    if request.param == "disk":
        for name, content in contents.items():
            path = tmp_path / "chunk" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return str(tmp_path / "chunk")
    root = f"/{uuid4().hex}"
    for name, content in contents.items():
        pytest.importorskip("fsspec").filesystem("memory").pipe(f"{root}/chunk/{name}", content)
    return f"memory:/{root}/chunk"


def test_the_size_of_a_folder_is_that_of_everything_in_it(folder: str) -> None:
    assert files.size(folder) == 9


def test_names_are_those_of_everything_right_inside(folder: str) -> None:
    assert files.names(folder) == ["_SUCCESS", "a.csv", "b=1"]
    assert files.names(f"{folder}/nowhere") == []


def test_what_is_not_there_is_none_and_not_an_empty_folder(folder: str) -> None:
    assert files.list_files(f"{folder}/nowhere") is None
    assert (files.exists(folder), files.exists(f"{folder}/nowhere")) == (True, False)


def test_a_file_is_no_folder(folder: str) -> None:
    assert (files.is_folder(folder), files.is_folder(f"{folder}/a.csv")) == (True, False)
    listed = files.list_files(f"{folder}/a.csv")
    assert [(file.path, file.bytes) for file in listed or ()] == [("a.csv", 4)]


def test_a_folder_knows_when_it_was_written(folder: str) -> None:
    listed = files.list_files(folder)
    written = files.written(folder)
    assert listed is not None
    assert written is not None
    assert abs(written - max(file.mtime or 0 for file in listed)) < 60


def test_what_is_removed_is_gone_and_may_be_removed_again(folder: str) -> None:
    files.remove(f"{folder}/a.csv")
    assert files.names(folder) == ["_SUCCESS", "b=1"]
    files.remove(folder)
    files.remove(folder)
    assert not files.exists(folder)


def test_of_a_link_only_the_link_is_removed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert not files.is_folder(str(tmp_path / "link"))
    files.remove(str(tmp_path / "link"))
    assert sorted(os.listdir(tmp_path)) == ["real"]


def test_links_are_told_at_whatever_depth_and_never_followed(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    for link in ("one", "a/two", "a/b/three"):
        (tmp_path / link).symlink_to(tmp_path)
    names = {os.path.relpath(link, tmp_path) for link in files.links(str(tmp_path))}
    assert names == {"one", "a/two", "a/b/three"}
    assert list(files.links(str(tmp_path / "nowhere"))) == []
    assert list(files.links("spoken-by-spark-alone://bucket/raw/1")) == []


def test_a_link_that_leads_nowhere_takes_its_place_but_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    assert files.exists(str(tmp_path / "link"))
    assert files.list_files(str(tmp_path / "link")) is None


def test_a_file_that_cannot_be_looked_at_is_a_wrong_place(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InvalidPath) as problem:
        files.list_files(str(tmp_path))
    assert str(tmp_path) in problem.value.message


def test_a_folder_that_cannot_be_listed_is_not_an_empty_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "inner").mkdir()
    scandir = os.scandir

    def refuse(folder: str) -> Iterator[os.DirEntry[str]]:
        if folder.endswith("inner"):
            raise PermissionError(13, "Permission denied")
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(InvalidPath):
        files.list_files(str(tmp_path))


def test_what_is_not_there_yet_is_writable_where_its_nearest_folder_is(tmp_path: Path) -> None:
    assert files.is_writable(str(tmp_path / "not/yet"))
    assert files.is_writable("memory://anything")


def test_a_scheme_that_nobody_knows_says_what_is_missing() -> None:
    pytest.importorskip("fsspec")
    with pytest.raises(MissingDependency) as problem:
        files.exists("nosuch://bucket/key")
    assert "nosuch" in problem.value.hint


def test_a_driver_that_keeps_listings_is_asked_anew_each_time() -> None:
    """As the drivers of s3 and gs do: a file that still grows would be taken for quiet."""
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.get_filesystem_class("memory")

    class Keeping(memory):  # type: ignore[misc, valid-type]
        protocol = "keeping"
        kept: ClassVar[dict[str, Any]] = {}

        @classmethod
        def _strip_protocol(cls, path: str) -> Any:
            return super()._strip_protocol(path.removeprefix("keeping:/"))

        def info(self, path: str, **more: Any) -> Any:
            if path not in self.kept:
                self.kept[path] = super().info(path, **more)
            return self.kept[path]

        def invalidate_cache(self, path: str | None = None) -> None:
            self.kept.clear()

    fsspec.register_implementation("keeping", Keeping, clobber=True)
    name = f"/{uuid4().hex}.csv"
    fsspec.filesystem("memory").pipe(name, b"1")
    before = files.list_files(f"keeping:/{name}")
    fsspec.filesystem("memory").pipe(name, b"12")
    after = files.list_files(f"keeping:/{name}")
    assert [[file.bytes for file in listed or ()] for listed in (before, after)] == [[1], [2]]


def special(folder: Path, kind: str) -> Path:
    """Something in a folder that is no regular file."""
    path = folder / "special.csv"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        here = os.getcwd()
        os.chdir(folder)  # the name of a socket must be short
        try:
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(path.name)
        finally:
            os.chdir(here)
    else:
        path.symlink_to("/dev/zero")
    return path


@pytest.mark.parametrize(("kind", "word"), [("pipe", "a named pipe"), ("socket", "a socket"), ("device", "a device")])
def test_what_is_no_regular_file_is_refused_by_its_name_and_nobody_waits_for_it(
    tmp_path: Path, kind: str, word: str
) -> None:
    folder = tmp_path / "chunk"
    folder.mkdir()
    (folder / "a.csv").write_text("1")
    published = files.light_manifest(str(folder))
    path = special(folder, kind)
    for look in (
        lambda: files.list_files(str(folder)),
        lambda: files.list_files(str(path)),
        lambda: files.light_manifest(str(folder)),
        lambda: files.light_manifest(str(path)),
        lambda: files.difference(published),
    ):
        with pytest.raises(InvalidPath, match=word):
            look()
    files.remove(str(path))
    assert files.difference(published) == ""


def test_a_pipe_that_took_the_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    os.mkfifo(path)
    with pytest.raises(InvalidPath, match="a named pipe"):
        filesystem_for(str(path)).open(str(path))


def test_a_hidden_pipe_is_not_data(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1")
    os.mkfifo(tmp_path / "_pipe")
    os.mkfifo(tmp_path / ".pipe")
    assert [file.path for file in files.list_files(str(tmp_path)) or ()] == ["a.csv"]


@pytest.mark.parametrize("location", ["github://a/b", "/data/a\0b", "memory://a\0b"])
def test_a_location_that_nobody_can_look_at_is_refused(location: str) -> None:
    with pytest.raises((InvalidPath, MissingDependency)):
        files.list_files(location)
