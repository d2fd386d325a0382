"""Vacuum takes what no version points to, and leaves everything else: no Spark, real folders, the embedded store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import opendataflow
from opendataflow import Dataset, Input, Job, Manifest, Partition, Store
from opendataflow.errors import BadTransition, InvalidPath
from opendataflow.files import list_files
from opendataflow.files.versions import mark_name
from opendataflow.project import Environment, Project
from opendataflow.run import vacuum as vacuuming
from opendataflow.run.rollback import rollback
from opendataflow.run.vacuum import VacuumPlan, is_over, plan, vacuum
from opendataflow.store import Claim

RAW = Dataset("raw", partition=Partition("number"))
CLEAN = Dataset("clean", kind="file", location="clean/{dataid}", format="csv", partition=Partition("number"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with opendataflow.open(f"sqlite:///{tmp_path}/store.db", create=True) as found:
        found.register([RAW, CLEAN], [Job("make", (Input("raw"),), ("clean",))])
        found.announce("raw", ["1"])
        yield found


@pytest.fixture
def project(tmp_path: Path) -> Project:
    data = tmp_path / "data"
    return Project(tmp_path, None, "p", (), Environment("dev", (str(data),)), ("dev",), tmp_path / "logs")


def claim(store: Store) -> Claim:
    if store.views.chunk("clean", "1"):
        store.resubmit("clean", ["1"])
    return store.claim("make")[0]


def written(project: Project, epoch: int, name: str = "", writer: str = "opendataflow") -> Manifest:
    folder = Path(project.environment.roots[0]) / "clean/1" / (name or f"v{epoch:06d}")
    folder.mkdir(parents=True)
    (folder / "part-0.csv").write_text(f"rows of {epoch}\n")
    return Manifest(location=str(folder), files=list_files(str(folder)) or (), extra={"writer": writer})


def marked(store: Store, taken: Claim, folder: Path) -> None:
    """The folder says that this run made it."""
    (folder / mark_name(store.identity(), taken.runid)).mkdir()


def publish(store: Store, project: Project, writer: str = "opendataflow") -> int:
    taken = claim(store)
    store.commit(taken, {"clean": written(project, taken.epoch, writer=writer)})
    return taken.epoch


def fail(store: Store, project: Project) -> int:
    taken = claim(store)
    marked(store, taken, Path(written(project, taken.epoch).location))
    store.fail(taken)
    return taken.epoch


def found(planned: VacuumPlan) -> list[tuple[str, int]]:
    return [(stray.what, stray.number) for stray in planned.strays]


def folders(project: Project) -> list[str]:
    return sorted(os.listdir(Path(project.environment.roots[0]) / "clean/1"))


@pytest.mark.parametrize("writer", ["opendataflow", "script"])
def test_failed_attempts_and_old_versions_go_and_the_rest_stays(store: Store, project: Project, writer: str) -> None:
    for _ in range(4):
        publish(store, project, writer)  # 1 to 4
    fail(store, project)  # 5
    running = claim(store)
    written(project, running.epoch)  # 6
    planned = plan(store, project)
    assert found(planned) == [("attempt", 5), ("version", 2), ("version", 1)]
    assert planned.bytes == 3 * len("rows of 1\n")
    assert len(folders(project)) == 6, "a plan changes nothing"
    gone, problems = vacuum(store, project, planned)
    assert (len(gone), problems) == (3, [])
    assert folders(project) == ["v000003", "v000004", "v000006"]
    assert plan(store, project).strays == []
    assert [each.version for each in store.views.manifests("clean", "1")] == [4, 3, 2, 1], "what they were stays known"
    store.commit(running, {"clean": Manifest()})


def test_a_whole_vacuum_does_not_look_at_old_attempts_again(
    store: Store, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        fail(store, project)
    vacuum(store, project, plan(store, project))
    assert store.views.vacuumed_until() == 0, "what ended today may still write"
    monkeypatch.setattr(vacuuming, "_MAY_STILL_WRITE", 0.0)
    vacuum(store, project, plan(store, project, ["clean"]))
    assert store.views.vacuumed_until() == 0, "other datasets were not looked at"
    vacuum(store, project, plan(store, project))
    assert store.views.vacuumed_until() == 3
    epoch = fail(store, project)
    running = claim(store)
    assert found(plan(store, project)) == [("attempt", epoch)]
    vacuum(store, project, plan(store, project))
    assert store.views.vacuumed_until() == running.runid - 1, "what runs may fail, and leave something"


def test_runs_that_published_are_not_looked_at_again_either(
    store: Store, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        publish(store, project)
    vacuum(store, project, plan(store, project))
    assert store.views.vacuumed_until() == 0, "their clocks may differ"
    monkeypatch.setattr(vacuuming, "_MAY_STILL_WRITE", 0.0)
    vacuum(store, project, plan(store, project))
    assert store.views.vacuumed_until() == 3


def test_the_current_version_stays_however_old_it_is(store: Store, project: Project) -> None:
    for _ in range(4):
        publish(store, project)
    assert rollback(store, project, "clean", "1", 1) == [("clean", "1", 4, 1)]
    vacuum(store, project, plan(store, project, ["clean"], keep=1))
    assert folders(project) == ["v000001", "v000004"]


def test_who_went_back_to_a_version_after_it_was_listed_keeps_it(store: Store, project: Project) -> None:
    for _ in range(3):
        publish(store, project)
    planned = plan(store, project, keep=1)
    assert found(planned) == [("version", 2), ("version", 1)]
    store.rollback("clean", "1", 2)
    vacuum(store, project, planned)
    assert folders(project) == ["v000002", "v000003"]


def test_the_dataset_says_how_many_versions_it_keeps(store: Store, project: Project) -> None:
    store.register([replace(CLEAN, options={"keep": 3})])
    for _ in range(4):
        publish(store, project)
    assert found(plan(store, project)) == [("version", 1)]


def test_folders_that_are_not_ours_stay(store: Store, project: Project) -> None:
    epoch = fail(store, project)
    home = Path(project.environment.roots[0]) / "clean/1"
    for name in ("v000009", "notes", "v1"):
        (home / name).mkdir()
    os.utime(home / f"v{epoch:06d}", (1e9, 1e9))  # of another store, long before this attempt
    assert plan(store, project).strays == []


@pytest.mark.parametrize("name", ["v000001", "v000001-1f2e3d"])
def test_the_version_of_another_store_with_the_same_epoch_stays(
    store: Store, project: Project, tmp_path: Path, name: str
) -> None:
    store.fail(claim(store))  # and wrote nothing
    with opendataflow.open(f"sqlite:///{tmp_path}/other.db", create=True) as other:
        other.register([RAW, CLEAN], [Job("make", (Input("raw"),), ("clean",))])
        other.announce("raw", ["1"])
        manifest = written(project, 1, name)
        taken = claim(other)
        marked(other, taken, Path(manifest.location))
        other.commit(taken, {"clean": manifest})
    assert plan(store, project).strays == []


def test_what_somebody_else_announced_stays(store: Store, project: Project) -> None:
    for epoch in range(1, 5):
        manifest = replace(written(project, epoch), extra={})
        store.announce("clean", ["1"], manifests={"1": replace(manifest, fingerprint=str(epoch))})
    assert plan(store, project).strays == []


def test_nothing_outside_the_roots_is_ever_touched(store: Store, project: Project, tmp_path: Path) -> None:
    for _ in range(4):
        publish(store, project)
    fail(store, project)
    planned = plan(store, project)
    inner = replace(project, environment=Environment("dev", (str(tmp_path / "other"),)))
    (tmp_path / "other").mkdir()
    assert plan(store, inner).strays == []
    gone, problems = vacuum(store, inner, planned)
    assert gone == []
    assert len(problems) == 3
    assert len(folders(project)) == 5


def test_a_link_is_not_followed(store: Store, project: Project, tmp_path: Path) -> None:
    taken = claim(store)
    written(project, taken.epoch)
    store.fail(taken)
    home = Path(project.environment.roots[0]) / "clean/1"
    (home / "v000001").rename(tmp_path / "elsewhere")
    (home / "v000001").symlink_to(tmp_path / "elsewhere")
    assert plan(store, project).strays == []


def test_what_was_prepared_for_a_fixed_place_goes_too(store: Store, project: Project) -> None:
    plain = replace(CLEAN, options={"layout": "plain"})
    project = replace(project, datasets=(plain,))
    store.register([plain])
    taken = claim(store)
    store.fail(taken)
    home = Path(project.environment.roots[0]) / "clean"
    for name in (".odf-1-v000001", ".odf-1-v000001.old", ".odf-2-v000001", ".odf-1-v000002"):
        (home / name).mkdir(parents=True)
    vacuum(store, project, plan(store, project))
    left = [".odf-1-v000001.old", ".odf-1-v000002", ".odf-2-v000001"]
    assert sorted(os.listdir(home)) == left, "the only copy of what was there before stays"
    (home / "1").mkdir()
    vacuum(store, project, plan(store, project))
    assert sorted(os.listdir(home)) == [*left[1:], "1"]


def test_the_rejected_rows_of_a_failed_attempt_go_with_it(store: Store, project: Project) -> None:
    from opendataflow.files.quarantine import rejected_dataset

    store.register([rejected_dataset(CLEAN)])
    taken = claim(store)
    folder = Path(project.environment.roots[0]) / "clean__rejected/1/v000001"
    folder.mkdir(parents=True)
    marked(store, taken, folder)
    store.fail(taken)
    assert [stray.location for stray in plan(store, project).strays] == [str(folder)]


def test_staging_tables_of_what_runs_or_is_unknown_stay(store: Store) -> None:
    failed = store.claim("make")[0]
    store.fail(failed)
    store.resubmit("clean", ["1"])
    store.claim("make")
    assert [is_over(store, "make", "1", epoch) for epoch in (1, 2, 3)] == [True, False, False]


def test_rollback_looks_at_the_files_first(store: Store, project: Project, tmp_path: Path) -> None:
    for _ in range(2):
        publish(store, project)
    old = Path(project.environment.roots[0]) / "clean/1/v000001"
    (old / "part-0.csv").write_text("")
    with pytest.raises(BadTransition, match=r"part-0\.csv"):
        rollback(store, project, "clean", "1")
    (old / "part-0.csv").unlink()
    old.rmdir()
    with pytest.raises(BadTransition, match="gone"):
        rollback(store, project, "clean", "1")
    with pytest.raises(InvalidPath):
        rollback(store, replace(project, environment=Environment("dev", (str(tmp_path / "x"),))), "clean", "1")
    chunk = store.views.chunk("clean", "1")
    assert chunk is not None
    assert chunk.version == 2


def test_a_remote_place_is_vacuumed_through_fsspec(store: Store) -> None:
    fsspec = pytest.importorskip("fsspec")
    system = fsspec.filesystem("memory")
    remote = Project(Path("/"), None, "p", (), Environment("dev", ("memory://lake",)), ("dev",), Path("/"))
    taken = claim(store)
    store.fail(taken)
    system.pipe("/lake/clean/1/v000001/part-0.csv", b"rows")
    system.pipe("/lake/clean/1/v000002/part-0.csv", b"rows")
    planned = plan(store, remote)
    assert [(stray.location, stray.bytes) for stray in planned.strays] == [("memory://lake/clean/1/v000001", 4)]
    vacuum(store, remote, planned)
    assert [path.rsplit("/", 2)[-2] for path in system.find("/lake")] == ["v000002"]


# Rows that somebody made up ------------------------------------------------------------------------------------------


def forge(store: Store, datasetid: str, version: int, location: str | Path, files: str = "[]") -> None:
    """A row of data_manifest as somebody who may write rows would write it."""
    body = f'{{"location": "{location}", "files": {files}, "extra": {{"writer": "opendataflow"}}}}'
    store.dml(
        "insert or replace into data_manifest (datasetid, dataid, version, jobid, location, body)"
        f" values ('{datasetid}', '1', {version}, 'make', '{location}', '{body}')"
    )


@pytest.fixture
def victim(store: Store, project: Project) -> Path:
    """The current version of another dataset; clean has versions of its own."""
    for _ in range(3):
        publish(store, project)
    store.register([replace(CLEAN, datasetid="other", location="other/{dataid}")])
    folder = Path(project.environment.roots[0]) / "other/1/v000001"
    folder.mkdir(parents=True)
    (folder / "part-0.csv").write_text("precious\n")
    manifest = Manifest(location=str(folder), files=list_files(str(folder)) or (), extra={"writer": "opendataflow"})
    store.announce("other", ["1"], manifests={"1": manifest})
    return folder


def test_a_forged_manifest_removes_no_version_of_another_dataset(
    store: Store, project: Project, victim: Path, tmp_path: Path
) -> None:
    (tmp_path / "data/clean/1/sub/v000001").mkdir(parents=True)
    for version, location in enumerate(
        (
            victim,
            f"{tmp_path}/data/clean/1/../../other/1/v000001",
            f"{tmp_path}/data/clean/../other/1/v000001",
            f"{victim}/",
            f"{tmp_path}/data/clean/1/sub/v000001",
            f"{tmp_path}/data/clean/1",
        )
    ):
        forge(store, "clean", 100 - version, str(location))
    store.dml("update datastatus set version = 3 where datasetid = 'clean' and locktype = 'OUT'")
    gone, problems = vacuum(store, project, plan(store, project, keep=1))
    assert ([stray.location for stray in gone], problems) == (
        [f"{tmp_path}/data/clean/1/v000002", f"{tmp_path}/data/clean/1/v000001"],
        [],
    )
    assert (victim / "part-0.csv").exists()


@pytest.mark.parametrize("template", ["other/{dataid}", "./other/{dataid}", "alias/{dataid}", "."])
def test_a_definition_that_points_at_another_dataset_removes_none_of_its_current_versions(
    store: Store, project: Project, victim: Path, template: str, tmp_path: Path
) -> None:
    (tmp_path / "data/alias").symlink_to(tmp_path / "data/other")
    store.dml(f"update dataset set location = '{template}' where datasetid = 'clean'")
    forge(store, "clean", 90, f"{tmp_path}/data/{template.replace('{dataid}', '1')}/v000001".replace("/./", "/"))
    store.dml(  # and an attempt that never was
        "insert into run (jobid, dataid, epoch, status, started) values ('make', '1', 1001, 'FAILED', '2000-01-01');"
        "update run set epoch = 2000 + runid; update run set epoch = 1, status = 'FAILED' where runid = 1"
    )
    vacuum(store, project, plan(store, project, keep=1))
    assert (victim / "part-0.csv").exists()


def test_a_folder_that_holds_a_current_version_stays(store: Store, project: Project, victim: Path) -> None:
    """other lies inside what looks like an old version of clean."""
    home = Path(project.environment.roots[0]) / "clean/1/v000001"
    inner = home / "1/v000001"
    inner.mkdir(parents=True)
    forge(store, "other", 1, inner)
    vacuum(store, project, plan(store, project, keep=1))
    assert inner.exists()
    assert not (home.parent / "v000002").exists(), "what nobody needs goes"


@pytest.mark.parametrize(
    ("location", "names"),
    [
        ("{root}/clean/1/\\\\../\\\\../\\\\../secret", "[]"),
        ("{root}/clean/1/../../../secret", "[]"),
        ("{root}/{{../../secret,x}}", "[]"),
        ("{root}/../secret", "[]"),
        ("{root}/clean/1/v000001", '[["../../../../secret/key", 3]]'),
        ("{root}/clean/1/v000001", '[["/etc/passwd", 3]]'),
        ("{root}/clean/1/v000001", '[["x/\\\\../y", 3]]'),
        ("{root}/linked", "[]"),
    ],
)
def test_nobody_goes_back_to_a_version_that_leads_elsewhere(
    store: Store, project: Project, victim: Path, tmp_path: Path, location: str, names: str
) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/key").write_text("key")
    (tmp_path / "data/linked").mkdir()
    (tmp_path / "data/linked/part-0.csv").symlink_to(tmp_path / "secret/key")
    forge(store, "clean", 1, location.format(root=tmp_path / "data"), names)
    with pytest.raises(InvalidPath):
        rollback(store, project, "clean", "1", 1)
    chunk = store.views.chunk("clean", "1")
    assert chunk is not None
    assert chunk.version == 3


# Where the next vacuum begins ----------------------------------------------------------------------------------------


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vacuuming, "_MAY_STILL_WRITE", 0.0)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("is_there", [False, True], ids=["no folder", "an empty folder"])
def test_what_a_root_that_is_not_mounted_holds_is_looked_at_once_it_is(
    store: Store, project: Project, is_there: bool
) -> None:
    epoch = fail(store, project)
    root = Path(project.environment.roots[0])
    root.rename(root.with_name("elsewhere"))
    if is_there:
        root.mkdir()
    planned = plan(store, project)
    assert (planned.strays, planned.is_root_missing) == ([], not is_there)
    vacuum(store, project, planned)
    assert store.views.vacuumed_until() == 0
    if is_there:
        root.rmdir()
    root.with_name("elsewhere").rename(root)
    assert found(plan(store, project)) == [("attempt", epoch)]


@pytest.mark.usefixtures("at_once")
def test_a_dataset_that_is_left_out_keeps_no_attempts_of_others_from_being_forgotten(
    store: Store, project: Project
) -> None:
    away = Dataset("away", kind="file", location="/elsewhere/{dataid}", format="csv", partition=Partition("number"))
    store.register([away], [Job("far", (Input("raw"),), ("away",))])
    fail(store, project)
    planned = plan(store, project)
    assert len(planned.left_out) == 1
    vacuum(store, project, planned)
    assert store.views.vacuumed_until() == 1
    far = store.claim("far")[0]
    store.fail(far)
    fail(store, project)
    vacuum(store, project, plan(store, project))
    assert store.views.vacuumed_until() == far.runid - 1, "what it left is looked at once its dataset can be"


@pytest.mark.usefixtures("at_once")
def test_what_lies_under_another_partition_is_looked_at_once_that_is_back(store: Store, project: Project) -> None:
    epoch = fail(store, project)
    store.dml("update dataset set partition = 'day'")
    vacuum(store, project, plan(store, project))
    assert store.views.vacuumed_until() == 0
    store.dml("update dataset set partition = 'number'")
    assert found(plan(store, project)) == [("attempt", epoch)]


@pytest.mark.usefixtures("at_once")
def test_the_only_copy_of_a_chunk_goes_once_another_one_is_there(store: Store, project: Project) -> None:
    plain = replace(CLEAN, options={"layout": "plain"})
    project = replace(project, datasets=(plain,))
    store.register([plain])
    store.fail(claim(store))
    home = Path(project.environment.roots[0]) / "clean"
    (home / ".odf-1-v000001.old").mkdir(parents=True)
    vacuum(store, project, plan(store, project))
    (home / "1").mkdir()
    vacuum(store, project, plan(store, project))
    assert os.listdir(home) == ["1"]
