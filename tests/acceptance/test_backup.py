"""A backup of a store, while others work."""

from __future__ import annotations

from pathlib import Path

import pytest

import opendataflow
from tests.support.odf import Odf


def fill(folder: Path, url: str) -> Odf:
    """A store with a chunk that is done and one that is not, and a script that makes them."""
    script = folder / "load.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o700)
    odf = Odf(folder, url)
    with opendataflow.open(url, create=True) as store:
        store.dml("insert into dataset (datasetid) values ('raw'), ('made')")
        store.dml("insert into job (jobid, itemtype, datasetid) values ('load', 'IN', 'raw'), ('load', 'OUT', 'made')")
        store.announce("raw", ["1", "2"])
        store.commit(store.claim("load")[0])
    return odf


def test_a_backup_is_a_whole_store_although_somebody_writes(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    odf = fill(tmp_path, url)
    with opendataflow.open(url) as store:
        claim = store.claim("load")[0]  # a worker at work
        odf("backup", "copy.db")
        store.commit(claim)
    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.glob("copy.db*")] == ["copy.db"]
    with opendataflow.open(f"sqlite:///{tmp_path}/copy.db") as copy:
        assert copy.damage() == []
        assert [run.status for run in copy.views.runs()] == ["RUNNING", "READY"]
    again = odf("backup", "copy.db", code=2)
    assert again.err.startswith("BAD_CONFIG")


@pytest.mark.postgres
def test_a_store_on_postgresql_is_backed_up_by_its_server(tmp_path: Path, postgres_url: str) -> None:
    opendataflow.open(postgres_url, create=True).close()
    answer = Odf(tmp_path, postgres_url)("backup", "copy.db", code=2)
    assert "pg_dump" in answer.err
    assert list(tmp_path.iterdir()) == []
