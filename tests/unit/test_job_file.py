"""Job code is recognised by what a file's syntax says, and never imported for that."""

from __future__ import annotations

from pathlib import Path

import pytest

from opendataflow.model import Input, Job
from opendataflow.project import is_for_spark
from opendataflow.project.job_file import JobFile, JobFunction, job_file, job_files

LITERAL = Job("clean", (Input("raw"),), ("clean",))


@pytest.fixture
def read(tmp_path: Path):
    def read(text: str) -> JobFile:
        path = tmp_path / "clean.py"
        path.write_text("raise SystemExit('imported')\n" + text)
        return job_file(path)

    return read


@pytest.mark.parametrize(
    "text",
    [
        "from opendataflow import job\n@job",
        "from opendataflow.api import job\n@job",
        "from opendataflow import Chunk, job as task\n@task",
        "from opendataflow import *\n@job",
        "import opendataflow\n@opendataflow.job",
        "import opendataflow as odf\n@odf.job",
        "import opendataflow.api\n@opendataflow.api.job",
        "import opendataflow.api as api\n@api.job",
        "from opendataflow import api\n@api.job",
        "import opendataflow as odf\ntask = odf.job\n@task",
        "try:\n    from opendataflow import job\nexcept ImportError:\n    raise\n@job",
    ],
)
def test_the_decorator_is_known_under_any_name(read, text: str) -> None:
    declared = read(f"{text}(reads='raw', writes=['clean'])\ndef clean(raw): ...\n")
    assert declared.functions == (JobFunction("clean", "clean", True, LITERAL),)
    assert not declared.is_open
    assert read(f"{text}\nasync def clean(raw): ...\n").functions == (JobFunction("clean", "clean"),)


@pytest.mark.parametrize(
    "text",
    [
        "# opendataflow: @job(reads='raw')\ndef clean(raw): ...\n",
        '"""from opendataflow import job\n\n@job\ndef clean(raw): ..."""\ndef clean(raw): ...\n',
        "from dagster import job  # not of opendataflow\n@job\ndef clean(raw): ...\n",
        "import opendataflow\nopendataflow.open('x')\ndef clean(raw): ...\n",
        "from opendataflow import Dataset\nclass A:\n    def job(self): ...\n@A().job\ndef clean(raw): ...\n",
    ],
)
def test_the_word_alone_makes_no_job(read, text: str) -> None:
    file = read(text)
    assert not file.has_jobs
    assert not is_for_spark(file.path)


@pytest.mark.parametrize(
    ("decorator", "function"),
    [
        ("job(name='other.name', writes='b')", JobFunction("f", "other.name", True, Job("other.name", (), ("b",)))),
        ("job(retries=2)", JobFunction("f", "f")),
        ("job(reads=RAW, writes='b')", JobFunction("f", "f", True)),
        ("job(writes=f'{X}')", JobFunction("f", "f", True)),
        ("job(reads={'data': 'a'}, writes='b')", JobFunction("f", "f", True)),
        ("job(reads='a', nosuch=1)", JobFunction("f", "f", True)),
    ],
)
def test_what_is_no_literal_only_importing_tells(read, decorator: str, function: JobFunction) -> None:
    file = read(f"from opendataflow import job\n@job\ndef first(): ...\n@{decorator}\ndef f(a): ...\n")
    assert file.function(function.jobid) == function
    assert file.declares is function.declares


@pytest.mark.parametrize(
    "text",
    [
        "@job(name=NAME)\ndef f(a): ...\n",
        "@job(**WORDS)\ndef f(a): ...\n",
        "f = job(writes='a')(print)\n",
        "for name in 'ab':\n    globals()[name] = job(name=name, writes=name)(print)\n",
    ],
)
def test_a_file_whose_jobs_have_other_names_may_have_any(read, text: str) -> None:
    file = read(f"from opendataflow import job\n{text}")
    assert file.is_open
    assert file.may_have("anything")
    assert file.declared("anything") is None
    assert is_for_spark(file.path)


def test_the_code_of_a_job_is_the_function_of_its_name_or_the_only_one(read) -> None:
    one = read("from opendataflow import job\n@job(writes='b')\ndef f(a): ...\ndef plain(a): ...\n")
    assert [one.declared(name) for name in ("f", "whatever")] == [one.functions[0]] * 2
    assert one.declared("plain") == JobFunction("plain", "plain")
    two = read("from opendataflow import job\n@job\ndef f(a): ...\n@job\ndef g(a): ...\n")
    assert two.declared("whatever") is None


def test_what_cannot_be_parsed_is_a_script_only_where_it_says_so(tmp_path: Path) -> None:
    broken, script, other = (tmp_path / name for name in ("broken.py", "script.py", "other.py"))
    broken.write_text("from opendataflow import job\n@job(\n")
    script.write_text("#!/usr/bin/python2\nprint 'opendataflow'\n")
    other.write_text("print 'hello'\n")
    assert [is_for_spark(path) for path in (broken, script, other)] == [True, False, False]
    problem = job_file(broken).problem
    assert problem is not None
    assert problem.message.startswith(f"{broken}: line 2: ")
    assert [file.path for file in job_files([tmp_path, tmp_path])] == [broken]


def test_a_file_is_read_again_only_after_it_was_changed(tmp_path: Path) -> None:
    path = tmp_path / "clean.py"
    path.write_text("from opendataflow import job\n@job\ndef f(a): ...\n")
    first = job_file(path)
    assert job_file(path) is first
    path.write_text("from opendataflow import job\n@job\ndef other(a): ...\n")
    assert job_file(path).digest != first.digest
    assert job_file(path).function("other")
