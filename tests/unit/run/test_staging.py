"""What scripts write reaches readers only through the commit of the attempt that holds the chunk."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import pytest

import opendataflow
from opendataflow import Dataset, Input, Job, Partition, Store
from opendataflow.errors import InvalidPath, LeaseLost, NotValidated
from opendataflow.files import replacement
from opendataflow.model import Catalogue
from opendataflow.project import Environment, Project, locations, trust
from opendataflow.run import vacuum
from opendataflow.run.attempt import begin, finish, run_next
from opendataflow.run.executors.script import Handshake, Script, output_locations
from opendataflow.run.records import Attempt, ExecutorResult, Result, RunRequest
from opendataflow.run.rollback import rollback
from opendataflow.run.worker import Worker

NUMBER = Partition("number")
OUT = Dataset("out", kind="file", location="out/{dataid}.csv", partition=NUMBER)


class Desk:
    """A project whose job `load` makes a chunk of `out` from one of `raw`."""

    def __init__(self, folder: Path, store: Store, out: Dataset) -> None:
        self.folder, self.store, self.out = folder, store, out
        environment = Environment("dev", (str(folder / "data"),))
        job = Job("load", (Input("raw"),), ("out",))
        datasets = (Dataset("raw", partition=NUMBER), out)
        self.project = Project(
            folder, None, "t", (folder / "jobs",), environment, ("dev",), folder / "logs", datasets, (job,)
        )
        store.register(datasets, [job])
        store.announce("raw", ["1", "2"])
        self.worker = Worker(store, self.project, None, echo=False)

    def run(self, script: str, dataid: str = "1") -> Result:
        path = self.folder / "load.sh"
        path.write_text("#!/bin/sh\nset -eu\n" + script)
        path.chmod(stat.S_IRWXU)
        return run_next(self.worker, RunRequest("load", dataid), Script(self.worker, [str(path)], self.folder))

    def again(self, script: str) -> Result:
        if self.store.views.chunk("out", "1"):
            self.store.resubmit("out", ["1"])
        return self.run(script)

    def begin(self) -> tuple[Attempt, Path]:
        """An attempt by hand, and the location that it is told."""
        attempt = begin(self.worker, RunRequest("load", "1"))
        assert isinstance(attempt, Attempt)
        return attempt, Path(output_locations(self.worker, attempt)["out"])

    def end(self, attempt: Attempt, handshake: Handshake | None = None) -> Result:
        return finish(self.worker, attempt.claim, handshake or Handshake(self.worker), ExecutorResult())

    def take_away(self, attempt: Attempt) -> None:
        """The lease of an attempt is over, and its chunk goes to another one."""
        self.store.dml("update datastatus set status = 'RESUBMIT' where datasetid = 'out'")

    def location(self) -> str:
        published = self.store.views.manifest("out", "1")
        return published.manifest.location if published else ""

    def names(self) -> list[str]:
        folder = self.folder / "data" / "out"
        return sorted(
            str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() or path.is_symlink()
        )


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Callable[..., Desk]]:
    with opendataflow.open(f"sqlite:///{tmp_path}/store.db", create=True) as store:
        yield lambda **options: Desk(tmp_path, store, replace(OUT, **options))


@pytest.fixture
def plain(desk: Callable[..., Desk]) -> Desk:
    return desk()


def test_a_script_writes_to_a_location_of_its_attempt_and_the_commit_puts_it_at_the_chunks(plain: Desk) -> None:
    result = plain.run('echo "$out_location" >told; test ! -e data/out/1.csv; echo a >"$out_location"')
    assert result.outcome == "READY"
    told = Path((plain.folder / "told").read_text().strip())
    assert (told.name, told.parent.name) == ("1.csv", ".odf-1.csv-v000001")
    assert plain.location() == str(plain.folder / "data/out/1.csv")
    assert plain.names() == ["1.csv"]
    assert plain.again('echo b >"$out_LOCATION"').outcome == "READY"
    assert (plain.folder / "data/out/1.csv").read_text() == "b\n"
    assert os.listdir(plain.folder / "data/out") == ["1.csv"]


def test_a_folder_takes_the_place_of_a_folder_as_a_whole(desk: Callable[..., Desk]) -> None:
    here = desk(location="out/{dataid}")
    for name in ("a", "b"):
        assert here.again(f'mkdir "$out_location"; echo {name} >"$out_location/{name}"').outcome == "READY"
        assert here.names() == [f"1/{name}"]
    refused = here.again('echo x >"$out_location"')
    assert (refused.outcome, "is a folder" in refused.detail) == ("INVALID_PATH", True)


def test_a_failed_script_leaves_what_is_published_alone(plain: Desk) -> None:
    plain.run('echo good >"$out_location"')
    assert plain.again('echo half >"$out_location"; exit 3').outcome == "JOB_FAILED"
    assert (plain.folder / "data/out/1.csv").read_text() == "good\n"
    assert ".odf-1.csv-v000002/1.csv" in plain.names(), "somebody may want to look at it"
    strays = vacuum.plan(plain.store, plain.project).strays
    assert [Path(stray.location).name for stray in strays] == [".odf-1.csv-v000002"]
    plain.again("exit 3")
    assert not (plain.folder / "data/out/.odf-1.csv-v000003").exists(), "nothing to look at"


def test_with_versions_the_store_points_to_what_each_attempt_wrote(desk: Callable[..., Desk]) -> None:
    here = desk(options={"layout": "versioned"})
    for word in ("a", "b", "c"):
        assert here.again(f'echo {word} >"$out_location"').outcome == "READY"
    assert here.location() == str(here.folder / "data/out/1.csv/v000003/1.csv")
    assert Path(here.location()).read_text() == "c\n"
    [back] = rollback(here.store, here.project, "out", "1")
    assert (back[2], back[3]) == (3, 2)
    planned = vacuum.plan(here.store, here.project, keep=1)
    gone, problems = vacuum.vacuum(here.store, here.project, planned)
    assert ([stray.number for stray in gone], problems) == ([1], [])
    assert here.names() == ["1.csv/v000002/1.csv", "1.csv/v000003/1.csv"]


def test_an_attempt_that_lost_its_chunk_changes_nothing_that_anybody_reads(plain: Desk) -> None:
    """On another host nobody can end it: it writes on while its successor commits, and reports success afterwards."""
    first, old = plain.begin()
    old.write_text("orphan")
    plain.take_away(first)
    second, new = plain.begin()
    new.write_text("successor")
    old.write_text("orphan again")
    assert plain.end(second).outcome == "READY"
    old.parent.mkdir(exist_ok=True)
    old.write_text("orphan for ever")
    with pytest.raises(LeaseLost):
        plain.end(first)
    assert (plain.folder / "data/out/1.csv").read_text() == "successor"


@pytest.mark.parametrize("location", ["out/{dataid}.csv", "out/{dataid}"])
def test_who_was_frozen_after_the_fence_finds_nothing_to_put_there(desk: Callable[..., Desk], location: str) -> None:
    here = desk(location=location)

    def write(path: Path, text: str) -> None:
        if "." not in location:
            path.mkdir()
        (path if "." in location else path / "part").write_text(text)

    first, old = here.begin()
    write(old, "zombie")
    here.take_away(first)
    second, new = here.begin()
    write(new, "successor")
    here.end(second)
    target = here.location()
    with pytest.raises(LeaseLost):
        replacement.swap_in(str(old), target, str(old.parent))  # what it does next when it wakes up
    there = Path(target) if "." in location else Path(target) / "part"
    assert there.read_text() == "successor"


def test_folders_change_places_in_two_steps_where_the_system_knows_no_better(
    desk: Callable[..., Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replacement, "_exchange", lambda one, other: False)
    here = desk(location="out/{dataid}")
    for name in ("a", "b"):
        here.again(f'mkdir "$out_location"; echo {name} >"$out_location/{name}"')
    assert here.names() == ["1/b"]
    (here.folder / "data/out/empty").mkdir()
    monkeypatch.setattr(os, "rename", _second_fails(os.rename))
    with pytest.raises(LeaseLost):
        replacement.swap_in(
            str(here.folder / "data/out/empty"), str(here.folder / "data/out/1"), str(here.folder / "s")
        )
    assert "1/b" in here.names(), "what was there is back"


def _second_fails(real: Callable[[str, str], None]) -> Callable[[str, str], None]:
    calls: list[str] = []

    def rename(old: str, new: str) -> None:
        calls.append(old)
        if len(calls) == 2:
            raise FileNotFoundError(old)
        real(old, new)

    return rename


def test_what_ignores_the_location_is_looked_at_again_inside_the_commit(plain: Desk) -> None:
    assert plain.run("mkdir -p data/out; echo direct >data/out/1.csv").outcome == "READY"
    assert plain.names() == ["1.csv"]

    class Disturbed(Handshake):
        def audit(self, attempt: Attempt, done: ExecutorResult) -> object:  # type: ignore[override]
            seen = super().audit(attempt, done)
            (plain.folder / "data/out/1.csv").write_text("an orphan was here")
            return seen

    plain.store.resubmit("out", ["1"])
    attempt, _ = plain.begin()
    (plain.folder / "data/out/1.csv").write_text("direct again")
    with pytest.raises(NotValidated, match="changed after its script ended"):
        plain.end(attempt, Disturbed(plain.worker))
    chunk = plain.store.views.chunk("out", "1")
    assert chunk is not None
    assert chunk.status == "RUNNING"
    assert plain.end(attempt).outcome == "READY"


def test_what_lies_beside_the_location_is_not_lost_without_a_word(plain: Desk) -> None:
    refused = plain.run('echo a >"$out_location"; touch "$out_location.bak" "$(dirname "$out_location")/.crc"')
    assert (refused.outcome, "1.csv.bak" in refused.detail) == ("NOT_VALIDATED", True)
    assert not (plain.folder / "data/out/1.csv").exists()


def test_chunks_that_share_a_location_are_written_as_ever(desk: Callable[..., Desk]) -> None:
    here = desk(location="out/all.csv")
    for dataid in ("1", "2"):
        assert here.run('mkdir -p data/out; echo "$dataid" >>"$out_location"', dataid).outcome == "READY"
    assert (here.folder / "data/out/all.csv").read_text() == "1\n2\n"


def test_what_no_project_declares_is_moved_only_inside_the_roots(plain: Desk, tmp_path: Path) -> None:
    """A row of the store may say any location; that makes us replace nothing there."""
    worker = Worker(plain.store, replace(plain.project, datasets=(), jobs=()), None, echo=False)
    plain.store.register([replace(OUT, location=str(tmp_path / "{dataid}" / "home"))])
    attempt = begin(worker, RunRequest("load", "1"))
    assert isinstance(attempt, Result)
    assert attempt.outcome == "INVALID_PATH"
    loose = replace(
        plain.project, datasets=(), jobs=(), environment=replace(plain.project.environment, is_declared=False)
    )
    worker = Worker(plain.store, loose, None, echo=False)
    attempt = begin(worker, RunRequest("load", "2"))
    assert isinstance(attempt, Attempt)
    assert output_locations(worker, attempt) == {}


def test_a_folder_of_a_store_that_is_gone_is_not_taken_over(plain: Desk) -> None:
    left = plain.folder / "data/out/.odf-1.csv-v000001"
    left.mkdir(parents=True)
    (left / "1.csv").write_text("of another store")
    assert plain.run('echo mine >"$out_location"').outcome == "READY"
    assert (plain.folder / "data/out/1.csv").read_text() == "mine\n"
    assert (left / "1.csv").read_text() == "of another store"


def test_where_no_folder_can_be_made_the_problem_is_named(desk: Callable[..., Desk]) -> None:
    here = desk(options={"layout": "versioned"})
    (here.folder / "data/out").mkdir(parents=True)
    (here.folder / "data/out/1.csv").write_text("a file where versions should lie")
    result = here.run("true")
    assert result.outcome == InvalidPath.name


@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        ("echo 'cp: error writing: No space left on device' >&2; exit 1", "NO_SPACE"),
        ("echo 'java.io.IOException: Disk quota exceeded' >&2; exit 1", "NO_SPACE"),
        ("echo 'No space left on device, retrying'; echo x >\"$out_location\"", "READY"),
        ("echo 'nothing of that kind' >&2; exit 1", "JOB_FAILED"),
    ],
)
def test_a_full_disk_is_told_from_other_failures(plain: Desk, script: str, outcome: str) -> None:
    assert plain.run(script).outcome == outcome


def test_a_full_disk_of_the_output_is_seen_also_when_nobody_says_so(
    plain: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = os.statvfs_result((4096, 4096, 100, 0, 0, 1, 1, 1, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda path: full)
    failed = plain.run("exit 1")
    assert (failed.outcome, "out/1.csv is full" in failed.detail) == ("NO_SPACE", True)


def test_what_admission_decided_is_not_asked_again(plain: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by the gate, nor by the script's environment, nor by the audit, nor by the commit."""
    asked: list[str] = []

    def counted(name: str, whole: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **more: Any) -> Any:
            asked.append(name)
            return whole(*given, **more)

        return call

    monkeypatch.setattr(locations, "resolve_location", counted("location", locations.resolve_location))
    monkeypatch.setattr(Catalogue, "only_tracks", counted("only tracks", Catalogue.only_tracks))
    monkeypatch.setattr(trust, "_of_dataset", counted("trust", trust._of_dataset))
    assert plain.run('echo a >"$out_location"').outcome == "READY"
    once = {"location": ["raw", "out"], "trust": ["raw", "out"], "only tracks": ["the claim", "the admission"]}
    assert {name: asked.count(name) for name in once} == {name: len(of) for name, of in once.items()}


def test_an_attempt_cannot_be_changed(plain: Desk) -> None:
    attempt, _ = plain.begin()
    with pytest.raises(FrozenInstanceError):
        attempt.only_tracks = True  # type: ignore[misc]
