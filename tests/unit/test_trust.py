"""What the store may say of datasets and jobs, and what it may not: the comparison itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from opendataflow.errors import InvalidPath
from opendataflow.model import TODAY, Catalogue, Check, Dataset, Input, Job, Partition
from opendataflow.project import Environment, Project, Trust, resolve_location
from opendataflow.project.trust import Distrust, digest, distrust, remedy
from opendataflow.store import open_store

RAW = Dataset("raw", kind="file", location="raw/{dataid}.csv", format="csv", partition=Partition("day", column="at"))
CLEAN = replace(RAW, datasetid="clean", location="clean/{dataid}", checks=(Check("not_null", {"columns": ["id"]}),))
LOAD = Job("load", (Input("raw"),), ("clean",), {"LIMIT": "10"})


NO_TRUST = Trust()


def project(folder: Path, *datasets: Dataset, jobs: tuple[Job, ...] = (), trust: Trust = NO_TRUST) -> Project:
    environment = Environment("dev", (str(folder),))
    file = folder / "dataflow.toml"
    return Project(
        folder,
        file,
        "shop",
        (folder / "jobs",),
        environment,
        ("dev",),
        folder / ".odf/logs",
        datasets,
        jobs,
        trust=trust,
    )


def told(own: Project, job: Job, *datasets: Dataset, on_spark: bool = True) -> list[str]:
    catalogue = Catalogue.build((TODAY, *datasets), (job,))
    return [problem.what for problem in distrust(own, catalogue, job, own.job(job.jobid), on_spark=on_spark)]


def test_what_is_in_the_store_as_it_is_declared_is_trusted(tmp_path: Path) -> None:
    assert told(project(tmp_path, RAW, CLEAN, jobs=(LOAD,)), LOAD, RAW, CLEAN) == []


@pytest.mark.parametrize(
    "change",
    [
        {"location": "other/{dataid}"},
        {"hostname": "evil.example"},
        {"kind": "table", "tablename": "t"},
        {"format": "json"},
        {"username": "postgres"},
        {"checks": ()},
        {"partition": Partition("day", column="other")},
        {"partition": Partition("day")},
        {"options": {"layout": "plain"}},
        {"options": {"keep": 0}},
        {"options": {"unsafe_sql": True}},
    ],
)
def test_every_part_that_acts_is_compared(tmp_path: Path, change: dict[str, object]) -> None:
    changed: Dataset = replace(CLEAN, **change)  # type: ignore[arg-type]
    problems = told(project(tmp_path, RAW, CLEAN, jobs=(LOAD,)), LOAD, RAW, changed)
    assert len(problems) >= 1
    assert "dataset clean" in problems[0]


@pytest.mark.parametrize("key", ["location", "hostname", "format", "checks", "partition"])
def test_an_option_cannot_stand_in_for_a_column(tmp_path: Path, key: str) -> None:
    """A row may have an option of any name; it hides nothing."""
    own: object = {"location": CLEAN.location, "hostname": "", "format": "csv", "checks": {}, "partition": "day"}[key]
    changed = replace(CLEAN, location="victim/{dataid}", hostname="evil.example", options={key: own})
    problems = told(project(tmp_path, RAW, CLEAN, jobs=(LOAD,)), LOAD, RAW, changed)
    assert any("location is" in problem for problem in problems)
    assert any("hostname is" in problem for problem in problems)


@pytest.mark.parametrize("remark", ["description", "owner", "tags", "readers"])
def test_a_remark_is_none_of_our_business(tmp_path: Path, remark: str) -> None:
    changed = replace(CLEAN, options={remark: 3 if remark == "readers" else "x"})
    assert told(project(tmp_path, RAW, CLEAN, jobs=(LOAD,)), LOAD, RAW, changed) == []


@pytest.mark.parametrize(
    "change",
    [
        {"inputs": (Input("raw"), Input("secret"))},
        {"outputs": ("loot",)},
        {"env": {"LIMIT": "100"}},
        {"env": {}},
        {"options": {"secrets": "env"}},
        {"options": {"copy": {"from": "raw", "to": "clean"}}},
        {"options": {"spark": {"spark.sql.ansi.enabled": "false"}}},
    ],
)
def test_every_part_of_a_declared_job_that_acts_is_compared(tmp_path: Path, change: dict[str, object]) -> None:
    changed: Job = replace(LOAD, **change)  # type: ignore[arg-type]
    others = (replace(RAW, datasetid="secret", kind="", location=""), replace(RAW, datasetid="loot", location="loot"))
    problems = told(project(tmp_path, RAW, CLEAN, jobs=(LOAD,)), changed, RAW, CLEAN, *others, on_spark=False)
    assert "job load" in problems[0]


def test_settings_of_spark_count_only_where_the_project_declares_the_job(tmp_path: Path) -> None:
    job = replace(LOAD, options={"spark": {"spark.sql.ansi.enabled": "false"}})
    assert told(project(tmp_path, RAW, CLEAN, jobs=(job,)), job, RAW, CLEAN) == []
    problems = told(project(tmp_path, RAW, CLEAN), job, RAW, CLEAN)
    assert "job load has settings of Spark" in problems[0]


@pytest.mark.parametrize(
    ("dataset", "word"),
    [
        ({"format": "jdbc"}, "format"),
        ({"options": {"url": "jdbc:derby:x"}}, "url"),
        ({"options": {"layout": "plain"}}, "layout"),
        ({"options": {"compression": "com.evil.Codec"}}, "compression"),
        ({"options": {"options": {"path": "/etc/passwd"}}}, "'path'"),
        ({"options": {"options": {"sessionInitStatement": "x"}}}, "sessionInitStatement"),
        ({"location": "/etc/{dataid}"}, "/etc"),
        ({"location": "{dataid}/../victim"}, "victim"),
        ({"location": "in/\\../\\../outside/{dataid}"}, "outside"),
        ({"location": "."}, "not inside"),
        ({"location": "jobs/{dataid}"}, "own files"),
        ({"location": ".odf/logs/x"}, "own files"),
        ({"kind": "table", "location": "", "tablename": "t", "hostname": "evil.example"}, "evil.example"),
        ({"checks": (Check("sql", {"name": "a", "expression": "a < 0"}),)}, "kind sql"),
    ],
)
def test_what_nobody_declares_may_only_be_passive(tmp_path: Path, dataset: dict[str, object], word: str) -> None:
    stored = Dataset("loot", **{"kind": "file", "location": "loot/{dataid}", **dataset})  # type: ignore[arg-type]
    problems = told(project(tmp_path), Job("make", (), ("loot",)), stored)
    assert any(word in problem for problem in problems), problems


def test_what_is_passive_needs_no_declaration(tmp_path: Path) -> None:
    stored = Dataset(
        "loot",
        kind="file",
        location="loot/{dataid}",
        format="csv",
        options={"compression": "gzip", "options": {"SEP": ";", "header": True}, "description": "x"},
        checks=(Check("not_null", {"columns": ["id"]}),),
    )
    assert told(project(tmp_path), Job("make", (), ("loot",)), stored) == []


def test_trust_allows_exactly_what_it_lists(tmp_path: Path) -> None:
    stored = Dataset("loot", kind="file", location="loot/{dataid}", format="delta", options={"layout": "plain"})
    job = Job("make", (), ("loot",))
    assert told(project(tmp_path, trust=Trust(formats=("delta",), options=("layout",))), job, stored) == []
    assert len(told(project(tmp_path, trust=Trust(formats=("delta",))), job, stored)) == 1


@pytest.mark.parametrize("location", ["a/{dataid}/../../b", "a\\b/{dataid}", "{dataid}/.."])
def test_a_location_stays_with_its_chunk(tmp_path: Path, location: str) -> None:
    with pytest.raises(InvalidPath):
        resolve_location(Environment("dev", (str(tmp_path),)), Dataset("a", location=location), "1")


def test_the_row_of_today_says_nothing_but_its_time_zone(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path}/dataflow.db", create=True) as store:
        store.catalogue()
        store.dml(
            "insert into dataset (datasetid, kind, format, tablename, partition, options) values ('today', 'table', 'jdbc', 't', "
            """'day', '{"timezone": "Europe/Berlin", "url": "jdbc:derby:memory:x;create=true"}') on conflict (datasetid) do update """
            "set kind = excluded.kind, format = excluded.format, options = excluded.options"
        )
        today = store.catalogue().dataset("today")
    assert today == replace(TODAY, options={"timezone": "Europe/Berlin"})


def test_the_way_out_tells_a_changed_store_from_another_version(tmp_path: Path) -> None:
    own = project(tmp_path, RAW, CLEAN, jobs=(LOAD,))
    problems = [Distrust("place", "x")]
    assert "changed the store" in remedy(own, problems, lambda: digest(own))
    assert "another version" in remedy(own, problems, lambda: "other")
    assert "never applied" in remedy(own, problems, lambda: None)
