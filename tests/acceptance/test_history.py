"""odf history, as a process."""

from __future__ import annotations

import pytest

from opendataflow import Store
from tests.support.flows import chain
from tests.support.odf import Odf


@pytest.fixture
def flow(store: Store) -> Store:
    chain(store)
    store.announce("raw", ["1", "2"])
    for claim in store.claim("make", 2):
        if claim.dataid == "2":
            store.fail(claim, detail="exit code 3 after 7 s: no space left on device " + "x" * 200)
        else:
            store.commit(claim)
    store.hold("raw", ["1"], why="the vendor calls back")
    return store


def test_the_history_says_when_what_by_whom_and_why(flow: Store, odf: Odf):
    out = odf("history").out
    assert max(map(len, out.splitlines())) <= 120
    assert "raw 1" in out
    assert "READY → HOLD" in out
    assert "the vendor calls back" in out
    assert "JOB_FAILED: no space left on device" in out
    assert "…" in out
    me = flow.views.events()[-1].who
    assert me is not None
    assert me.rpartition(":")[0] in out
    answer = odf("history", "--failed", "--json").data
    (failed,) = answer["events"]
    assert (failed["kind"], failed["datasetid"], failed["before"], failed["after"], failed["outcome"]) == (
        *("failed", "product", "RUNNING", "FAILED", "JOB_FAILED"),
    )
    assert failed["why"].endswith("x")


def test_the_next_page_is_a_command_to_type(flow: Store, odf: Odf):
    last = odf("history", "product", "-n", "1", "--since", "1d").out.splitlines()[-1]
    words = last.removeprefix("older: odf ").split()
    assert words[:2] == ["history", "product"]
    assert odf(*words).out != odf("history", "product", "-n", "1").out


def test_times_are_those_of_the_project(flow: Store, odf: Odf):
    at = flow.views.events()[-1].at
    assert at is not None
    assert f"{at:%Y-%m-%d %H:%M:%S} UTC" in odf("history", "-n", "1").out


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_a_time_that_is_copied_from_a_line_means_its_event(flow: Store, odf: Odf, zone: str):
    (odf.folder / "dataflow.toml").write_text(f'[project]\ntimezone = "{zone}"\n')
    lines = [line for line in odf("history").out.splitlines() if line[:1].isdigit()]
    for line in lines:
        copied = line[:24].strip()
        assert line in odf("history", "--since", copied, "--until", copied).out
    date, clock, label = lines[0].split()[:3]
    for other in (f"{clock} {label}", f"{date} {label} {clock}"):
        assert lines[0] in odf("history", "--since", other, "--until", other).out


def test_what_cannot_be_meant_is_named(flow: Store, odf: Odf):
    for words, name in (
        (("--since", "soon"), "BAD_TIME"),
        (("nothing",), "UNKNOWN_DATASET"),
        (("--job", "nothing"), "UNKNOWN_JOB"),
        (("--status", "GOOD"), "UNKNOWN_STATUS"),
        (("--kind", "nothing"), "USAGE"),
        (("--downstream-of", "raw:one"), "BAD_DATAID"),
        (("--since", "1h", "--until", "2h"), "USAGE"),
        (("--failed", "--status", "READY"), "USAGE"),
    ):
        assert odf("history", *words, code=2).err.startswith(name + ":"), words
    assert odf("history", "--by", "nobody").out == "no such events\n"
