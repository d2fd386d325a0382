"""odf metrics as a process: once, served, with a store that goes away, and without the package."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.odf import Odf
from tests.support.postgres import quick_postgres
from tests.support.shell import Shell


def made(odf: Odf) -> Odf:
    """A job that made one chunk, and failed on another."""
    odf("migrate")
    odf("dml", "insert into dataset (datasetid) values ('bobin'), ('bobout')")
    odf("dml", "insert into job (jobid, itemtype, datasetid) values ('load', 'IN', 'bobin'), ('load', 'OUT', 'bobout')")
    script = odf.folder / "load.sh"
    script.write_text('#!/bin/sh\n[ "$dataid" = 1 ]\n')
    script.chmod(0o755)
    odf("ready", "bobin", "1", "2", "3")
    odf("run", "./load.sh")
    odf("run", "./load.sh", code=1)
    return odf


def read(text: str) -> dict[tuple[str, ...], float]:
    """The samples of a text, by name and the texts of their labels."""
    samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
    return {(sample.name, *sample.labels.values()): sample.value for sample in samples}


@contextmanager
def listening(odf: Odf, *words: str) -> Iterator[str]:
    """The address of a server of figures, which ends as it should."""
    environ = {**os.environ, "ODF_STORE": odf.store_url, "ODF_AS_SUPERUSER": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "opendataflow", "metrics", "--listen", *words],
        cwd=odf.folder,
        env=environ,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        said = re.search(r"http://\S+", process.stderr.readline())
        assert said
        yield said[0]
        process.send_signal(signal.SIGTERM)
        assert process.wait(240) == 0
    finally:
        process.kill()
        process.communicate()


def scraped(url: str) -> dict[tuple[str, ...], float]:
    with urllib.request.urlopen(url, timeout=120) as answer:
        return read(answer.read().decode())


def test_figures_are_printed_once(odf: Odf) -> None:
    made(odf)
    figures = read(odf("metrics").out)
    assert figures["odf_up",] == 1
    assert figures["odf_chunks", "bobout", "FAILED"] == 1
    assert figures["odf_recent_failures", "load", "JOB_FAILED"] == 1
    totals = read(odf("metrics", "--totals").out)
    assert (totals["odf_claims_total", "load"], totals["odf_run_seconds_count", "load"]) == (2, 2)
    named = {figure["name"] for figure in odf("metrics", "--json").data}
    assert {"odf_up", "odf_chunks", "odf_recent_claims"} <= named


def test_totals_are_served_and_grow(odf: Odf) -> None:
    made(odf)
    with listening(odf, "127.0.0.1:0") as url:
        while ("odf_claims_total", "load") not in (figures := scraped(url)):
            pass
        assert (figures["odf_up",], figures["odf_claims_total", "load"]) == (1, 2)
        assert figures["odf_chunks", "bobin", "READY"] == 3
        odf("run", "./load.sh", code=1)
        while (figures := scraped(url))["odf_claims_total", "load"] < 3:
            pass
        assert figures["odf_failures_total", "load", "JOB_FAILED"] == 2


@pytest.mark.postgres
@pytest.mark.slow
def test_a_server_that_is_away_is_a_figure_and_comes_back(tmp_path: Path) -> None:
    with quick_postgres() as server:
        odf = made(Odf(tmp_path, server.create_database()))
        with listening(odf, "127.0.0.1:0") as url:
            while ("odf_claims_total", "load") not in scraped(url):
                pass
            server.kill()
            assert scraped(url) == {("odf_up",): 0}
            once = odf("metrics", code=75)
            assert "odf_up 0.0" in once.out
            assert "Traceback" not in once.err
            server.start()
            server.wait()
            while ("odf_claims_total", "load") not in (figures := scraped(url)):
                pass
            assert (figures["odf_up",], figures["odf_claims_total", "load"]) == (1, 2)


def test_what_cannot_be_right_is_refused_by_name(home: Shell) -> None:
    odf = Odf(home.folder, f"sqlite:///{home.folder}/dataflow.db")
    assert odf("metrics", code=2).err.startswith("STORE_MISSING")
    assert odf("metrics", "--listen", "9464", code=2).err.startswith("STORE_MISSING")
    assert odf("metrics", "--listen", "here", code=2).err.startswith("USAGE")
    assert odf("metrics", "--listen", "9464", "--totals", code=2).err.startswith("USAGE")


def test_without_the_package_it_says_what_to_install(home: Shell) -> None:
    odf = Odf(home.folder, f"sqlite:///{home.folder}/dataflow.db")
    odf("migrate")
    (home.folder / "prometheus_client.py").write_text("raise ImportError('not here')")
    answer = odf("metrics", code=2, PYTHONPATH=str(home.folder))
    assert answer.err.startswith("MISSING_DEPENDENCY")
    assert "pip install 'prometheus-client" in answer.err
    odf("metrics", "--json", PYTHONPATH=str(home.folder))
