"""Jobs that only a decorator declares."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from opendataflow import Input, Job, Pool
from opendataflow.errors import BadConfig, MissingDependency, UnknownPool
from opendataflow.project import Project
from opendataflow.run.decorated_jobs import file_of, is_declared, jobs_of

CODE = """
from opendataflow import job

@job(reads="raw", writes="clean", retries=2)
def clean(raw):
    return raw

@job(reads={"dataset": "clean", "mapping": "rollup"}, writes="month", name="by_month")
def anything(clean):
    return clean

@job
def told_elsewhere(raw):
    return raw
"""


@pytest.fixture
def home(project: Project) -> Project:
    (project.folder / "jobs").mkdir()
    (project.folder / "jobs/flights.py").write_text(CODE)
    (project.folder / "jobs/helpers.py").write_text("raise RuntimeError('nobody loads this')")
    return project


def in_toml(home: Project, **how) -> Project:
    return replace(home, file=home.folder / "dataflow.toml", jobs=(Job("clean", (Input("raw"),), **how),))


def test_what_a_decorator_declares_is_a_job_of_the_project(home: Project):
    found = {job.jobid: job for job in jobs_of(home)}
    assert sorted(found) == ["by_month", "clean"]
    assert (found["clean"].inputs, found["clean"].outputs, found["clean"].retry.retries) == (
        (Input("raw"),),
        ("clean",),
        2,
    )
    assert found["by_month"].inputs[0].mapping.kind == "rollup"


def test_a_job_in_both_places_must_say_the_same(home: Project):
    same = in_toml(home, outputs=("clean",), retry=replace(Job("x", outputs=("y",)).retry, retries=2), lease=3.0)
    assert [job.jobid for job in jobs_of(same)] == ["clean", "by_month"]
    assert jobs_of(same)[0].lease == 3.0, "the file may say more"
    with pytest.raises(BadConfig, match=r"dataflow\.toml.*flights\.py"):
        jobs_of(in_toml(home, outputs=("cleaned",)))
    with pytest.raises(BadConfig, match="retries"):
        jobs_of(in_toml(home, outputs=("clean",)))


def test_two_files_cannot_declare_one_job(home: Project):
    (home.folder / "jobs/more.py").write_text(CODE)
    with pytest.raises(BadConfig, match=r"flights\.py and in .*more\.py"):
        jobs_of(home)
    with pytest.raises(BadConfig, match=r"flights\.py and .*more\.py"):
        file_of(home, "clean")


@pytest.mark.parametrize(
    ("arguments", "error"), [('pool="etl"', UnknownPool), ('env={"ODF_X": "1"}', BadConfig), ("timeout=-1", BadConfig)]
)
def test_what_the_project_file_would_refuse_is_refused(home: Project, arguments: str, error: type[Exception]):
    (home.folder / "jobs/bad.py").write_text(CODE.replace("retries=2", arguments).replace("clean", "clean2"))
    with pytest.raises(error, match=r"bad\.py"):
        jobs_of(home)


def test_a_pool_of_the_project_is_fine(home: Project):
    (home.folder / "jobs/flights.py").write_text(CODE.replace("retries=2", 'pool="etl"'))
    assert jobs_of(replace(home, pools=(Pool("etl", 2),)))[0].pool == "etl"


def test_the_code_of_a_job_is_found_in_a_file_of_another_name(home: Project):
    assert file_of(home, "by_month") == home.folder / "jobs/flights.py"
    assert file_of(home, "told_elsewhere") == home.folder / "jobs/flights.py"
    assert file_of(home, "nosuch") is None
    (home.folder / "jobs/broken.py").write_text("from opendataflow import job\n@job(\n")
    assert file_of(home, "clean") == home.folder / "jobs/flights.py"
    with pytest.raises(BadConfig, match=r"broken\.py"):
        file_of(home, "nosuch")


def test_a_hint_needs_no_loading(home: Project):
    (home.folder / "jobs/flights.py").write_text("raise SystemExit(1)\n" + CODE)
    assert is_declared(home, "clean")
    assert is_declared(home, "by_month")
    assert not is_declared(home, "cle")


def test_without_pyspark_it_says_what_is_missing(home: Project, monkeypatch: pytest.MonkeyPatch, project: Project):
    monkeypatch.setattr("opendataflow.run.decorated_jobs.find_spec", lambda name: None)
    with pytest.raises(MissingDependency, match=r"flights\.py"):
        jobs_of(home)
    (home.folder / "jobs/flights.py").unlink()
    assert jobs_of(home) == ()


def test_a_project_without_such_code_loads_nothing(project: Project, tmp_path: Path):
    assert jobs_of(project) == ()
    assert not any(name.startswith("_odf_job_helpers") for name in sys.modules)
