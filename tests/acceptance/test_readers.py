"""Reading needs only the right to read: on a file, and with the role that the page for teams gives to people who look."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import nullcontext, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import psycopg
import pytest

import opendataflow
from opendataflow import Store
from opendataflow.cli.door import open_door
from tests.support.flows import chain, claim_one, dump, produce
from tests.support.forks import import_program
from tests.support.odf import Odf
from tests.support.workers import ROOT

NOBODY = 65534
LOOKS = [
    ["status"],
    ["status", "--chunks"],
    ["why", "make"],
    ["why", "make", "1"],
    ["why", "make", "2"],
    ["explain", "product", "1"],
    ["runs"],
    ["jobs"],
    ["datasets"],
    ["pool"],
    ["sql", "select * from job_status"],
]


def flow(store: Store) -> None:
    """raw 1, 2, 3 → make → product 1, READY, and 2, which runs."""
    chain(store)
    store.announce("raw", ["1", "2", "3"])
    produce(store, "make", "1")
    claim_one(store, "make")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everybody may read, and nobody but its owner write."""
    made = Path(tempfile.mkdtemp())
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def as_nobody(act: Callable[[], None]) -> str:
    """Does something as a user without rights, in a process of its own; returns what was said."""
    import_program()  # nobody may be unable to read our interpreter
    read, write = os.pipe()
    child = os.fork()
    if not child:
        said = StringIO()
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            with redirect_stdout(said), redirect_stderr(said):
                act()
        except BaseException as error:  # it must not come back into the test session twice
            said.write(f"{type(error).__name__}: {error}")
        os.write(write, said.getvalue().encode()[:60_000])
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        text = pipe.read().decode()
    os.waitpid(child, 0)
    return text


def look(url: str, verb: list[str]) -> str:
    """One verb as that user, in the same Python."""

    def act() -> None:
        os.chdir("/")
        os.environ["ODF_STORE"] = url
        open_door(verb)

    return as_nobody(act)


@pytest.mark.parametrize("is_open", [True, False])
def test_a_reader_of_a_file_needs_no_right_to_write(folder: Path, is_open: bool) -> None:
    file = folder / "store.db"
    url = f"sqlite:///{file}"
    with opendataflow.open(url, create=True) as store:
        flow(store)
        before = dump(store)
    with opendataflow.open(url) if is_open else nullcontext():
        for each in folder.iterdir():
            each.chmod(0o444)
        folder.chmod(0o555)
        for verb in LOOKS:
            said = look(url, verb)
            assert not {word for word in ("STORE_", "INTERNAL", "Error") if word in said}, (verb, said)
        assert "product" in look(url, ["status"])
        assert "STORE_READ_ONLY" in look(url, ["hold", "product", "1"])
        folder.chmod(0o755)
        for each in folder.iterdir():
            each.chmod(0o644)
    with opendataflow.open(url) as store:
        assert dump(store) == before


def test_a_store_that_was_not_closed_says_who_has_to_look_first(folder: Path, tmp_path: Path) -> None:
    file = folder / "store.db"
    with opendataflow.open(f"sqlite:///{tmp_path}/store.db", create=True) as store:
        flow(store)
        for name in ("store.db", "store.db-wal"):
            shutil.copy(tmp_path / name, folder / name)
            (folder / name).chmod(0o444)
    folder.chmod(0o555)
    said = look(f"sqlite:///{file}", ["status"])
    folder.chmod(0o755)
    assert said.startswith("STORE_READ_ONLY")
    assert "was not closed" in said
    assert "Traceback" not in said


@pytest.mark.postgres
def test_the_role_of_the_page_for_teams_looks_at_everything(postgres_url: str, tmp_path: Path) -> None:
    role = "ana_" + postgres_url[-6:]
    page = (ROOT / "docs/how-to/postgresql-for-a-team.md").read_text(encoding="utf-8")
    grants = page.partition("CREATE ROLE ana")[2].partition("```")[0]
    ana = postgres_url.replace("postgres@", f"{role}@")
    with (
        opendataflow.open(postgres_url, create=True) as store,
        psycopg.connect(postgres_url, autocommit=True) as owner,
    ):
        flow(store)
        owner.execute(f"CREATE ROLE ana{grants}".replace("ana", role).encode())
        try:
            with psycopg.connect(ana, autocommit=True) as client:
                client.execute("UPDATE dataflow.job_status SET status = 'RESUBMIT' WHERE dataid = '1'")
            before = dump(store)
            for verb in LOOKS:
                assert "STORE_READ_ONLY" not in Odf(tmp_path, ana)(*verb).err
            assert "next: 1, 3" in Odf(tmp_path, ana)("why", "make").out, (
                "what was typed is seen without a right to write"
            )
            assert dump(store) == before
        finally:
            owner.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())


def test_a_look_shows_typed_sql_as_the_next_claim_will_find_it_and_changes_nothing(store: Store, odf: Odf) -> None:
    flow(store)
    store.dml("update job_status set status = 'RESUBMIT', modified = '2020-02-29 12:00:00' where dataid = '1'")
    store.dml(
        "insert into datastatus (datasetid, jobid, dataid, locktype, status) values ('raw', 'me', '4', 'OUT', 'READY')"
    )
    store.dml("delete from datastatus where datasetid = 'product' and dataid = '2'")
    typed = dump(store)
    looked = odf("why", "make")
    assert "next: 1, 2, 3, 4" in looked.out
    assert "3 changes typed as SQL are pending: the next claim applies them" in looked.err
    for verb in LOOKS:
        odf(*verb)
    assert " 4 " in odf("status", "raw", "--chunks").out
    assert dump(store) == typed
    assert [claim.dataid for claim in store.claim("make", n=9)] == ["1", "2", "3", "4"]
