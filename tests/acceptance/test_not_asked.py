"""A question that was not asked is not a yes: what is READY says whether anything was looked at or checked."""

from __future__ import annotations

import pytest

from tests.support.console import SITES, console
from tests.support.odf import Odf

TOML = """
[environment.dev]
roots = ["./data"]

[dataset.tracked]
partition = "day"

[dataset.unchecked]
location = "unchecked/{dataid}.csv"
partition = "day"
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
