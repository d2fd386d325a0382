"""A chunk whose every attempt is refused says so at every door, under the name of the refusal, until an attempt passes."""

from __future__ import annotations

import pytest

from tests.support.console import SITES, console
from tests.support.odf import Odf

DAY = "2026-01-01"
TOML = """
[environment.dev]
roots = ["./data"]

[dataset.raw]
location = "raw/{dataid}.csv"
partition = "day"

[dataset.clean]
partition = "day"

[dataset.down]
partition = "day"

[job.load]
reads = ["raw"]
writes = ["clean"]

[job.after]
reads = ["clean"]
writes = ["down"]
"""


@pytest.fixture
def shop(odf: Odf) -> Odf:
    """A job whose input was announced, and is gone by now: its one attempt was refused, more than a minute ago."""
    (odf.folder / "dataflow.toml").write_text(TOML)
    (odf.folder / "jobs").mkdir()
    script = odf.folder / "jobs/load.sh"
    script.write_text("#!/bin/sh\necho loaded\n")
    script.chmod(0o755)
    odf("migrate")
    odf("apply", "--yes")
    deliver(odf, "a,b\n1,2\n")
    odf("ready", "raw", DAY)
    (odf.folder / f"data/raw/{DAY}.csv").unlink()
    odf("run", "load", code=12)
    odf("dml", "update candidate set state = 'CLAIMABLE', not_before = 0")
    return odf


def deliver(odf: Odf, text: str) -> None:
    """Put a file where the input lies."""
    path = odf.folder / f"data/raw/{DAY}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_every_door_names_the_refusal(shop: Odf) -> None:
    of_job = shop("why", "load", "--json").data
    assert of_job["verdict"] == "INVALID_PATH"
    assert [reason["name"] for reason in of_job["reasons"]] == ["INVALID_PATH"], "and not YES beside it"
    of_chunk = shop("why", "load", DAY, "--json").data
    assert of_chunk["verdict"] == "INVALID_PATH"
    assert not any("ready --again" in command for reason in of_chunk["reasons"] for command in reason["commands"])

    checked = shop("check", code=2).out
    assert "1 chunk REFUSED with INVALID_PATH (clean 2026-01-01)" in checked
    assert "refused=1" in checked

    seen = shop("status", "--json").data
    assert [each[:3] for each in seen["reasons"]] == [["clean", DAY, "REFUSED"]]
    assert seen["reasons"][0][3].startswith("INVALID_PATH: nothing is at ")

    plan = shop("recover", "--json").data
    assert [(cause["status"], cause["outcome"]) for cause in plan["causes"]] == [("REFUSED", "INVALID_PATH")]
    assert [each["name"] for each in plan["by_hand"]] == ["INVALID_PATH"]
    assert (plan["runs"], plan["resubmit"]) == (0, []), "it does not run by itself"

    figures = {each["name"]: each["values"] for each in shop("metrics", "--json").data}
    assert figures["odf_refused"] == [{"labels": {"dataset": "clean", "name": "INVALID_PATH"}, "value": 1.0}]


def test_it_is_named_beside_chunks_that_can_run(shop: Odf) -> None:
    path = shop.folder / "data/raw/2026-01-02.csv"
    path.write_text("a,b\n3,4\n")
    shop("ready", "raw", "2026-01-02")
    told = shop("why", "load", "--json").data
    assert [reason["name"] for reason in told["reasons"]] == ["YES", "INVALID_PATH"]
    assert "1 chunk of load can run now; next: 2026-01-02" in told["reasons"][0]["text"]
    assert "1 chunk of load was refused: 2026-01-01" in told["reasons"][1]["text"]


def test_what_waits_behind_it_names_the_refusal(shop: Odf) -> None:
    reason = shop("why", "after", DAY, "--json").data["reasons"][0]
    assert f"the last attempt of load at {DAY} was refused: INVALID_PATH" in " ".join(reason["because"])
    assert "has all its inputs" not in shop("why", "after", DAY).out
    reason = shop("why", "after", "--json").data["reasons"][0]
    assert f"the last attempt of load at {DAY} was refused: INVALID_PATH" in " ".join(reason["because"])
    said = f"never produced; the last attempt of load at {DAY} was refused: INVALID_PATH"
    assert said in shop("explain", "clean", DAY, "--json").data["meaning"]
    assert said in console(shop.folder, shop.store_url).get(f"/chunk/clean/{DAY}").text


def test_the_console_shows_it_too(shop: Odf) -> None:
    client = console(shop.folder, shop.store_url)
    SITES[-1].kept.forget()
    page = client.get("/").text
    assert "INVALID_PATH" in page
    assert "nothing is at " in page
    of_job = client.get("/job/load").text
    assert "INVALID_PATH" in of_job


def test_the_refusal_stands_when_the_input_cannot_be_looked_at_from_here(shop: Odf) -> None:
    (shop.folder / "dataflow.toml").write_text(TOML.replace('"./data"', '"./elsewhere"'))
    assert shop("why", "load", DAY, "--json").data["verdict"] == "INVALID_PATH"


def test_it_is_over_when_an_attempt_passes(shop: Odf) -> None:
    deliver(shop, "a,b\n1,2\n")
    shop("run", "load", "--dataid", DAY)
    assert shop("check").code == 0
    assert shop("status", "--json").data["reasons"] == []
    assert shop("recover", "--json").data["causes"] == []


def test_it_is_over_when_its_input_gets_another_version(shop: Odf) -> None:
    deliver(shop, "a,b\n1,2\n3,4\n")
    shop("ready", "--again", "raw", DAY)
    assert shop("why", "load", "--json").data["verdict"] == "YES"
    assert shop("why", "load", DAY, "--json").data["verdict"] == "YES"
    assert shop("check").code == 0
    assert shop("status", "--json").data["reasons"] == []
    assert shop("recover", "--json").data["causes"] == []
    figures = {each["name"]: each["values"] for each in shop("metrics", "--json").data}
    assert not figures.get("odf_refused")
    assert "INVALID_PATH" not in shop("explain", "clean", DAY, "--json").data["meaning"]
    client = console(shop.folder, shop.store_url)
    SITES[-1].kept.forget()
    assert "INVALID_PATH" not in client.get("/").text
    shop("run", "load", "--dataid", DAY)


def test_a_chunk_that_waits_for_its_input_again_is_not_refused(shop: Odf) -> None:
    shop("dml", f"update datastatus set status = 'RESUBMIT' where datasetid = 'raw' and dataid = '{DAY}'")
    assert shop("why", "load", DAY, "--json").data["verdict"] == "DATA_NOT_READY"
    shop("run", "load", code=None)  # folds it in
    assert [each["outcome"] for each in shop("recover", "--json").data["causes"]] == [""]


def test_an_output_outside_the_roots_is_no_yes_before_an_attempt(shop: Odf) -> None:
    toml = TOML.replace("[dataset.clean]", '[dataset.clean]\nlocation = "/elsewhere/{dataid}.csv"')
    (shop.folder / "dataflow.toml").write_text(toml)
    shop("apply", "--yes")
    (shop.folder / "data/raw/2026-01-02.csv").write_text("a,b\n3,4\n")
    shop("ready", "raw", "2026-01-02")
    before = shop("why", "load", "2026-01-02", "--json").data
    assert before["verdict"] == "INVALID_PATH"
    assert "/elsewhere/2026-01-02.csv' is outside the roots" in before["reasons"][0]["text"]
    shop("run", "load", "--dataid", "2026-01-02", code=12)
    assert shop("why", "load", "2026-01-02", "--json").data["verdict"] == "INVALID_PATH"
