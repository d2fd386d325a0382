"""What a killed chaos left: only what is marked and this project's is removed, whatever its records say."""

from __future__ import annotations

import json
import shutil
import socket
import threading
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from opendataflow.chaos.leftovers import sweep
from opendataflow.chaos.places import place_of
from opendataflow.chaos.plan import Settings
from opendataflow.chaos.scratch import MARK, Where, made, records_of, where
from opendataflow.errors import StoreTaken, StoreUnreachable
from opendataflow.project import Project, load
from opendataflow.store.drivers import postgres_schema
from opendataflow.store.drivers.scratch_schema import create
from tests.support.postgres import quick_postgres

ID = "0123abcd"
SQLITE = "sqlite:///dataflow.db"


def project_in(folder: Path, root: str = "./data") -> Project:
    folder.mkdir(exist_ok=True)
    (folder / "data").mkdir(exist_ok=True)
    (folder / "dataflow.toml").write_text(
        f'[environment.dev]\nroots = ["{root}"]\n[environment.other]\nroots = ["./other"]\n'
    )
    return load(folder / "dataflow.toml", "dev")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return project_in(tmp_path / "mine")


def recorded(project: Project, folder: Path, store: str, *, marked: bool = True) -> Path:
    """A record as a killed chaos leaves it, and its folder."""
    if marked:
        folder.mkdir(parents=True)
        (folder / MARK).write_text(ID)
        (folder / "data").mkdir()
    return write(project, json.dumps({"folder": str(folder), "store": store}))


def write(project: Project, text: str) -> Path:
    path = records_of(project) / f"{ID}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def swept(project: Project, url: str = SQLITE, password: str | None = None) -> list[str]:
    said: list[str] = []
    sweep(project, url, password, said.append)
    return said


@pytest.mark.parametrize("environment", ["data", "other"])
def test_what_a_killed_chaos_left_is_removed_in_any_environment(project: Project, environment: str) -> None:
    folder, store = project.folder / environment / f".odf-chaos-{ID}", project.folder / f".odf-chaos-{ID}.db"
    store.write_text("rows")
    record = recorded(project, folder, f"sqlite:///{store}")
    (said,) = swept(project)
    assert said.startswith(f"removed {folder}")
    assert not any(path.exists() for path in (folder, store, record))
    assert swept(project) == []


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_copy_of_a_project_leaves_a_scratch_alone_that_lives(tmp_path: Path, is_shared: bool) -> None:
    """Its root may be the same folder, or one of its own."""
    project = project_in(tmp_path / "mine", str(tmp_path / "mine/data") if is_shared else "./data")
    at = where(project, SQLITE)
    with made(project, at, None, Settings(chunks=2), keep=False) as scratch:
        shutil.copytree(project.folder, tmp_path / "copy")
        copy = load(tmp_path / "copy/dataflow.toml", "dev")
        shown = swept(copy, f"sqlite:///{project.folder}/dataflow.db")
        assert scratch.project_file.exists()
        assert Path(scratch.store_url.removeprefix("sqlite:///")).exists()
        assert [each.partition(" and ")[0] for each in shown] == ([] if is_shared else [str(at.folder)])
        assert swept(project) == []
        assert len(list(records_of(project).iterdir())) == 1
    assert not at.folder.exists()
    assert not records_of(project).exists()


def test_a_store_is_not_removed_by_its_name_where_the_marked_folder_is_gone(project: Project) -> None:
    store = project.folder / f".odf-chaos-{ID}.db"
    store.write_text("precious")
    record = recorded(project, project.folder / "data" / f".odf-chaos-{ID}", f"sqlite:///{store}", marked=False)
    (said,) = swept(project)
    assert f"rm {store}" in said
    assert store.read_text() == "precious"
    assert not record.exists()


@pytest.mark.parametrize("mark", ["", "89abcdef"])
def test_a_folder_with_another_mark_is_left_alone(project: Project, mark: str) -> None:
    folder, store = project.folder / "data" / f".odf-chaos-{ID}", project.folder / f".odf-chaos-{ID}.db"
    record = recorded(project, folder, f"sqlite:///{store}")
    store.write_text("precious")
    (folder / MARK).write_text(mark)
    assert "is not a scratch of odf chaos" in swept(project)[0]
    assert folder.exists()
    assert store.exists()
    assert not record.exists()


def test_a_store_elsewhere_is_left_alone(project: Project, tmp_path: Path) -> None:
    store = tmp_path / f".odf-chaos-{ID}.db"
    store.write_text("precious")
    recorded(project, project.folder / "data" / f".odf-chaos-{ID}", f"sqlite:///{store}")
    assert "left alone" in swept(project)[0]
    assert store.exists()
    assert swept(project) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[" * 100_000,
        "null",
        "{}",
        "\x00",
        json.dumps({"folder": f"/x/.odf-chaos-{ID}", "store": "sqlite:///"}),
        json.dumps({"folder": f"/x/.odf-chaos-{ID}", "store": "mysql://x"}),
        json.dumps({"folder": f"/x\0/.odf-chaos-{ID}", "store": "sqlite:////x/y.db"}),
        json.dumps({"folder": "/etc", "store": "sqlite:////x/y.db"}),
        json.dumps({"folder": 1, "store": 2}),
    ],
)
def test_a_record_that_cannot_be_read_is_told_once(project: Project, text: str) -> None:
    write(project, text)
    (said,) = swept(project)
    assert "is no record of a scratch" in said
    assert swept(project) == []


def test_a_folder_or_a_link_with_the_name_of_a_record_is_told_once(project: Project, tmp_path: Path) -> None:
    write(project, "").unlink()
    (records_of(project) / "x.json").mkdir()
    (records_of(project) / "y.json").symlink_to(tmp_path / "nowhere")
    (records_of(project) / "z.json").write_bytes(b"\xff\xfe")
    assert len(swept(project)) == 3
    assert swept(project) == []


def test_a_password_goes_to_no_server_but_the_store_s_own(project: Project) -> None:
    """Nobody even calls at the address of a record that is not the store's; its folder goes all the same."""
    folder = project.folder / "data" / f".odf-chaos-{ID}"
    called = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                server.accept()[0].close()
                called.set()

        threading.Thread(target=serve, daemon=True).start()
        record = recorded(project, folder, f"postgresql://team@127.0.0.1:{server.getsockname()[1]}/x?schema=a")
        (said,) = swept(project, "postgresql://team@127.0.0.1:1/x", "the-password")
        assert not called.is_set()
        assert f"odf chaos --store postgresql://team@127.0.0.1:{server.getsockname()[1]}/x removes it" in said
        assert "the-password" not in said
        assert record.exists()
        assert not folder.exists()


def test_the_folder_goes_also_where_the_server_is_out_of_reach(project: Project) -> None:
    folder = project.folder / "data" / f".odf-chaos-{ID}"
    record = recorded(project, folder, "postgresql://team@127.0.0.1:1/x")
    assert StoreUnreachable.name in swept(project, "postgresql://team:secret@127.0.0.1:1/x")[0]
    assert not folder.exists()
    assert record.exists()


@pytest.mark.postgres
def test_the_password_of_the_address_that_is_used_now_opens_what_was_left(project: Project) -> None:
    with quick_postgres() as server:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("create role team login password 'only-in-the-address'")
            connection.execute("create database team owner team")
        server.require_passwords()
        url = server.url_of("team").replace("postgres@", "team:only-in-the-address@")
        at = Where(project.folder / "data" / f".odf-chaos-{ID}", place_of(url, ID))
        create(postgres_schema.within(url, f"dataflow_chaos_{ID}"), None)
        assert "only-in-the-address" not in recorded(project, at.folder, at.store.address).read_text()
        (said,) = swept(project, url)
        assert said.startswith("removed ")
        assert "only-in-the-address" not in said
        with psycopg.connect(url) as connection:
            assert connection.execute("select to_regnamespace(%s)", [f"dataflow_chaos_{ID}"]).fetchone() == (None,)


@pytest.mark.postgres
def test_a_schema_that_is_there_already_is_neither_marked_nor_dropped(project: Project, postgres_url: str) -> None:
    at = where(project, postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"create schema dataflow_chaos_{at.id}".encode())
        with pytest.raises(StoreTaken), made(project, at, None, Settings(chunks=2), keep=False):
            pass
        comment = f"select obj_description(to_regnamespace('dataflow_chaos_{at.id}')::oid, 'pg_namespace'), 1"
        assert connection.execute(comment.encode()).fetchone() == (None, 1)
        found = connection.execute("select to_regnamespace(%s)::text", [f"dataflow_chaos_{at.id}"]).fetchone()
        assert found == (f"dataflow_chaos_{at.id}",)
    assert not at.folder.exists()
    assert not records_of(project).exists()


def test_a_file_that_is_there_already_is_not_taken_for_a_scratch(project: Project) -> None:
    at = where(project, SQLITE)
    store = Path(at.store.address.removeprefix("sqlite:///"))
    store.write_text("precious")
    with pytest.raises(StoreTaken), made(project, at, None, Settings(chunks=2), keep=False):
        pass
    assert store.read_text() == "precious"
    assert not at.folder.exists()
