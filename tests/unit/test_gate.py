"""The gate looks at spans, contents, locations, hosts and files, and says what is wrong; the model decides."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from opendataflow.files import light_manifest
from opendataflow.gate import NO_CHECKS, NO_LOCATION, ask
from opendataflow.model import (
    NOT_ASKED,
    YES,
    Catalogue,
    CheckResult,
    Dataset,
    Facts,
    Input,
    InputChunk,
    InputFact,
    Job,
    Manifest,
    OutputFact,
    Partition,
    Receipt,
    parse_checks,
)
from opendataflow.project import Environment, leads_outside, location_of
from opendataflow.run.records import Attempt
from opendataflow.store import Claim

DAY = Partition("day")
Asking = Callable[..., Receipt]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "data" / "raw").mkdir(parents=True)
    (tmp_path / "data" / "raw" / "2013-01-01.csv").write_text("a,b\n1,2\n")
    return tmp_path / "data"


@pytest.fixture
def gate(root: Path) -> Asking:
    """Ask about 2013-01-01 of a job that reads raw and writes clean, with changes."""

    def asking(
        raw: dict[str, Any] | None = None,
        clean: dict[str, Any] | None = None,
        manifest: Manifest | None = None,
        environment: dict[str, Any] | None = None,
        same: str | None = None,
    ) -> Receipt:
        location = {"kind": "file", "location": "raw/{dataid}.csv", "partition": DAY}
        datasets = [
            Dataset("raw", **{**location, **(raw or {})}),
            Dataset("clean", **{"kind": "file", "location": "clean/{dataid}", "partition": DAY, **(clean or {})}),
        ]
        job = Job("load", (Input("raw"),), ("clean",))
        facts = Facts(
            "load",
            "2013-01-01",
            inputs=(InputFact("raw", "2013-01-01", "READY", 1),),
            outputs=(OutputFact("clean", None),),
            partition="day",
        )
        claim = Claim(1, "load", "2013-01-01", 1, (), ("clean",), 30.0, 1, False, False, "test", facts)
        world = Environment("dev", **{"roots": (str(root),), **(environment or {})})
        chunk = InputChunk("raw", "2013-01-01", 1, manifest, None, same)
        attempt = Attempt.of(world, Catalogue.build(datasets, [job]), claim, (chunk,), {})
        return ask(world, attempt.catalogue, claim, attempt.inputs, attempt.locations)

    return asking


def test_where_all_is_well_every_question_is_a_yes(gate: Asking, root: Path):
    receipt = gate(manifest=light_manifest(str(root / "raw" / "2013-01-01.csv"), "csv"))
    assert receipt.verdict == YES
    assert [answer.yes for answer in receipt.answers] == [True] * 5
    assert receipt.answer("place").evidence["environment"] == "dev"


def test_without_a_manifest_and_checks_nobody_validated_anything(gate: Asking):
    receipt = gate()
    assert receipt.verdict == YES
    assert (receipt.answer("validated").yes, receipt.answer("validated").why) == (None, NO_CHECKS)


@pytest.mark.parametrize("kind", ["file", "table"])
def test_without_checks_and_files_nobody_validated_anything_either(gate: Asking, root: Path, kind: str):
    """A table, or a set of files that many chunks share, has a manifest without files."""
    manifest = Manifest(str(root / "raw" / "2013-01-01.csv"), rows=3)
    receipt = gate(raw={"kind": kind, "tablename": "raw"}, manifest=manifest)
    assert (receipt.answer("validated").yes, receipt.answer("validated").why) == (None, NO_CHECKS)
    passed = (CheckResult("unique(id)", "unique", "error", True, {}),)
    receipt = gate(raw={"kind": kind, "tablename": "raw"}, manifest=replace(manifest, checks=passed))
    assert receipt.answer("validated").yes is True


def test_what_is_only_tracked_is_not_looked_at(gate: Asking):
    tracked = {"kind": "", "location": ""}
    receipt = gate(raw=tracked, clean=tracked)
    assert (receipt.answer("place").yes, receipt.answer("validated").yes) == (None, None)
    assert receipt.verdict == NOT_ASKED, "the claim itself says why nobody looks; the gate adds nothing"


def test_a_table_without_a_host_has_no_location(gate: Asking):
    table = {"kind": "table", "location": "", "tablename": "t"}
    receipt = gate(raw=table, clean=table)
    assert (receipt.answer("place").yes, receipt.answer("place").why) == (None, NO_LOCATION)


@pytest.mark.parametrize(
    ("facts", "verdict"),
    [
        ({"span_lower": "2013-01-01", "span_upper": "2013-01-01"}, YES),
        ({"span_lower": "2013-01-01T00:00:00", "span_upper": "2013-01-01T23:59:59"}, YES),
        ({"span_lower": "2013-01-01", "span_upper": "2013-01-02"}, "WRONG_DATA"),
        ({"span_lower": "2012-12-31", "span_upper": "2012-12-31"}, "WRONG_DATA"),
    ],
)
def test_the_span_must_be_the_one_that_the_dataid_promises(gate: Asking, facts: dict[str, str], verdict: str):
    assert gate(manifest=Manifest(**facts)).verdict == verdict  # type: ignore[arg-type]


def test_the_content_of_another_chunk_is_wrong_unless_repeats_are_normal(gate: Asking):
    same = {"manifest": Manifest(fingerprint="abc"), "same": "2012-12-31"}
    receipt = gate(**same)
    assert receipt.verdict == "WRONG_DATA"
    assert receipt.answer("right").evidence["same_as"] == "2012-12-31"
    assert gate(raw={"options": {"repeats": True}}, **same).verdict == YES


def test_a_missing_input_file_is_an_invalid_path(gate: Asking, root: Path):
    (root / "raw" / "2013-01-01.csv").unlink()
    assert gate().verdict == "INVALID_PATH"


def test_a_location_outside_the_roots_is_an_invalid_path(gate: Asking):
    assert gate(clean={"location": "/elsewhere/{dataid}"}).verdict == "INVALID_PATH"


def test_a_link_that_leads_out_of_the_roots_is_an_invalid_path(gate: Asking, root: Path, tmp_path: Path):
    outside = tmp_path / "secret.csv"
    outside.write_text("a\n")
    file = root / "raw" / "2013-01-01.csv"
    file.unlink()
    file.symlink_to(outside)
    receipt = gate()
    assert receipt.verdict == "INVALID_PATH"
    assert str(file) in receipt.answer("place").why


def test_an_output_that_cannot_be_written_is_an_invalid_path(gate: Asking, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root could write whatever the mode says
    assert gate().verdict == "INVALID_PATH"


def test_a_host_of_another_environment_is_an_invalid_path(gate: Asking):
    there = {"kind": "table", "location": "", "tablename": "t", "hostname": "prod.example"}
    assert gate(raw=there, environment={"hosts": ("dev.example",)}).verdict == "INVALID_PATH"
    assert gate(raw=there, environment={"hosts": ("prod.example",)}).verdict == YES


def test_checks_that_are_declared_must_have_passed(gate: Asking):
    checks = {"checks": parse_checks({"rows": {"min": 1}}, "test")}
    passed = CheckResult("rows", "rows", "error", True, {})
    assert gate(raw=checks).verdict == "NOT_VALIDATED"
    assert gate(raw=checks, manifest=Manifest()).verdict == "NOT_VALIDATED"
    assert gate(raw=checks, manifest=Manifest(checks=(passed,))).verdict == YES
    failed = gate(raw=checks, manifest=Manifest(checks=(passed._replace(passed=False),)))
    assert failed.verdict == "NOT_VALIDATED"
    assert failed.answer("validated").why.endswith("rows")


def test_a_file_that_changed_after_it_was_published_is_not_validated(gate: Asking, root: Path):
    file = root / "raw" / "2013-01-01.csv"
    manifest = light_manifest(str(file), "csv")
    file.write_text("a,b\n1,2\n3,4\n")
    receipt = gate(manifest=manifest)
    assert receipt.verdict == "NOT_VALIDATED"
    assert "2013-01-01.csv" in receipt.answer("validated").why


def test_the_first_problem_ends_the_looking(gate: Asking, root: Path):
    (root / "raw" / "2013-01-01.csv").unlink()
    receipt = gate(manifest=Manifest(span_lower="2012-01-01", span_upper="2012-01-01"))
    assert [answer.question for answer in receipt.answers] == ["ready", "right"]


def test_without_declared_roots_any_location_will_do(tmp_path: Path):
    anywhere = replace(Environment("dev"), is_declared=False)
    dataset = Dataset("raw", kind="file", location=f"{tmp_path}/{{dataid}}", partition=DAY)
    assert location_of(anywhere, dataset, "2013-01-01") == f"{tmp_path}/2013-01-01"
    assert leads_outside(anywhere, str(tmp_path)) == ""


@pytest.mark.parametrize(
    "name",
    [
        {"tablename": "text.`/etc/passwd`"},
        {"database": "text", "tablename": "`/etc/passwd`"},
        {"schemaname": "text", "tablename": "/etc/passwd"},
        {"tablename": "(select * from secrets) x"},
        {"tablename": "orders; drop table x"},
        {"tablename": "../../etc/passwd"},
        {"tablename": "file:/etc/passwd"},
        {"tablename": ""},
    ],
)
def test_a_table_needs_a_name_and_no_path(gate: Asking, name: dict[str, str]):
    table = {"kind": "table", "format": "delta", "location": "", **name}
    for where in ({"raw": table}, {"clean": table}):
        assert gate(**where).verdict == "INVALID_PATH"
    good = {"kind": "table", "format": "delta", "location": "", "database": "main", "tablename": "sales.orders_2"}
    assert gate(raw=good, clean=good).verdict == YES


@pytest.mark.parametrize("kind", ["file", "table"])
@pytest.mark.parametrize(
    "manifest",
    [
        Manifest(location="/etc/passwd"),
        Manifest(location="file:/etc/passwd"),
        Manifest(location="{root}/raw/\\../\\../secret"),
        Manifest(location="{root}/raw/../../secret"),
        Manifest(location="{root}/{{../secret,raw}}"),
        Manifest(location="{root}/raw", files=(("../../secret", 1),)),  # type: ignore[arg-type]
        Manifest(location="{root}/raw", files=(("/etc/passwd", 1),)),  # type: ignore[arg-type]
        Manifest(location="{root}/linked"),
    ],
)
def test_a_manifest_that_leads_elsewhere_is_an_invalid_path(
    gate: Asking, root: Path, tmp_path: Path, manifest: Manifest, kind: str
):
    (tmp_path / "secret").write_text("key")
    (root / "linked").mkdir()
    (root / "linked/part-0.csv").symlink_to(tmp_path / "secret")
    location = manifest.location.format(root=root) if "{root}" in manifest.location else manifest.location
    receipt = gate(raw={"kind": kind, "tablename": "t"}, manifest=replace(manifest, location=location))
    assert receipt.verdict == "INVALID_PATH"
