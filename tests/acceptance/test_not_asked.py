"""A question that was not asked is not a yes: what is READY says whether anything was looked at or checked."""

from __future__ import annotations

import pytest

from opendataflow import Store
from opendataflow.errors import LeaseLost
from tests.support.console import SITES, console
from tests.support.flows import dataset, job, produce
from tests.support.odf import Odf

TOML = """
[environment.dev]
roots = ["./data"]
hosts = ["db.example"]

[dataset.tracked]
partition = "day"

[dataset.unchecked]
location = "unchecked/{dataid}.csv"
partition = "day"
"""

TABLE = """
[dataset.far]
kind = "table"
format = "postgresql"
hostname = "db.example"
database = "shop"
tablename = "far"
partition = "day"

[dataset.used]
partition = "day"

[job.load]
reads = ["tracked"]
writes = ["far"]

[job.use]
reads = ["far"]
writes = ["used"]
"""

on_sqlite = pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)


@on_sqlite
def test_ready_says_what_was_not_asked(odf: Odf) -> None:
    (odf.folder / "dataflow.toml").write_text(TOML)
    (odf.folder / "data/unchecked").mkdir(parents=True)
    (odf.folder / "data/unchecked/2026-01-01.csv").write_text("a\n1\n")
    odf("apply", "--yes")
    odf("ready", "tracked", "2026-01-01")
    odf("ready", "unchecked", "2026-01-01")
    client = console(odf.folder, odf.store_url)
    for name, said in (("tracked", "only tracked: no data was looked at"), ("unchecked", "no checks are declared")):
        told = odf("explain", name, "2026-01-01").out.splitlines()[0]
        assert told.endswith(f"version 1: published; {said}")
        SITES[-1].kept.forget()
        page = client.get(f"/chunk/{name}/2026-01-01").text
        assert f"published; {said}" in page
        assert "validated" not in told


def test_data_without_checks_and_files_was_not_validated(odf: Odf) -> None:
    (odf.folder / "dataflow.toml").write_text(TOML + TABLE)
    (odf.folder / "jobs").mkdir()
    for name in ("load", "use"):
        script = odf.folder / f"jobs/{name}.sh"
        script.write_text("#!/bin/sh\n")
        script.chmod(0o755)
    odf("migrate")
    odf("apply", "--yes")
    odf("ready", "tracked", "2026-01-01")
    odf("run", "load")
    odf("run", "use")
    said = "not asked  Did it pass its checks, and is it unchanged since?  no checks are declared, and there are no"
    assert said in odf("explain", "far", "2026-01-01").out
    assert said in odf("explain", "used", "2026-01-01", "--receipt").out


def test_a_chunk_that_a_person_set_ready_was_published_by_no_run(store: Store, odf: Odf) -> None:
    store.register([dataset("raw"), dataset("clean")], [job("load", "raw", writes="clean")])
    store.announce("raw", ["1"])
    (claim,) = store.claim("load")
    odf("dml", "update datastatus set status = 'READY' where datasetid = 'clean'")
    with pytest.raises(LeaseLost):
        store.commit(claim)
    odf(
        "dml",
        "insert into datastatus (datasetid, dataid, jobid, locktype, status) values ('raw', '2', 'x', 'OUT', 'READY')",
    )
    client = console(odf.folder, odf.store_url)
    for name, dataid in (("clean", "1"), ("raw", "2")):
        told = odf("explain", name, dataid).out.splitlines()[0]
        assert "published" not in told
        assert "set READY by SQL by " in told
        assert "set READY by SQL by " in client.get(f"/chunk/{name}/{dataid}").text
    produce(store, "load", "2")
    assert "version 1: published; only tracked" in odf("explain", "clean", "2").out
