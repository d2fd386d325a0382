"""Which log may be read for a run, and what is said where there is none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from opendataflow import Store
from opendataflow.errors import InvalidPath, UnknownRun
from opendataflow.insight.run_log import last_of_log, part_of_log, pieces_of_log, search_log
from opendataflow.project import Project, without_file
from opendataflow.store import Run
from tests.support.flows import chain, claim_one

HERE = f"me@{os.uname().nodename}:7"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = without_file(tmp_path, None)
    (made.logs / "make").mkdir(parents=True)
    return made


def a_run(store: Store, log: Path | str | None, owner: str = HERE) -> Run:
    """The first run of a flow, which wrote this log."""
    if not store.catalogue().jobs:
        chain(store)
        store.announce("raw", ["1"])
    claim = claim_one(store, "make") if not store.views.runs() else None
    runid = claim.runid if claim else store.views.runs()[0].runid
    path = "null" if log is None else "'" + str(log).replace("'", "''") + "'"
    store.dml(f"update run set owner = '{owner}', log = {path} where runid = {runid}")
    return store.views.run(runid)


def test_a_log_in_the_folder_of_logs_is_read_with_escapes_as_text(store: Store, project: Project) -> None:
    log = project.logs / "make/1.1.1.log"
    log.write_bytes(b"one\r\n\x1b[31mred\x1b[0m <b>\xe2\x80\xae two\nthree\n")
    run = a_run(store, log)
    last = last_of_log(store, project, run, 2)
    assert (last.text, last.line, last.is_over, last.problem) == ("␛[31mred␛[0m <b>\\u202e two\nthree\n", 2, False, "")
    assert part_of_log(store, project, run, 0).text.startswith("one\n␛[31m")
    assert part_of_log(store, project, run, last.end).text == ""
    assert "".join(pieces_of_log(store, project, run)).encode() == log.read_bytes()
    found = search_log(store, project, run, "RED")
    assert [(line.line, line.text) for line in found.lines] == [(2, "␛[31mred␛[0m <b>\\u202e two")]


def test_a_row_opens_no_other_file(store: Store, project: Project, tmp_path: Path) -> None:
    secret = tmp_path / "secret.log"
    secret.write_text("hunter2")
    link, folder = project.logs / "make/link.log", project.logs / "linked"
    link.symlink_to(secret)
    folder.symlink_to(tmp_path)
    os.mkfifo(project.logs / "make/pipe.log")
    (project.logs / "make/notes.txt").write_text("hunter2")
    for path in (
        secret,
        link,
        folder / "secret.log",
        f"{project.logs}/make/../../../secret.log",
        project.logs / "make/pipe.log",
        project.logs / "make/notes.txt",
        project.logs / "make",
        "/etc/passwd",
        "../secret.log",
        "",
    ):
        run = a_run(store, path)
        for told in (last_of_log(store, project, run), part_of_log(store, project, run, 0)):
            assert told.problem, path
            assert told.text == ""
        assert search_log(store, project, run, "hunter").problem
        with pytest.raises((InvalidPath, UnknownRun)):
            list(pieces_of_log(store, project, run))


def test_of_another_machine_only_the_last_lines_are_known(store: Store, project: Project) -> None:
    run = a_run(store, "/srv/other/.odf/logs/make/1.1.1.log", "etl@elsewhere:9")
    told = last_of_log(store, project, run)
    assert "etl@elsewhere:9 wrote it to /srv/other" in told.problem
    assert "keep_log_tail" in told.hint
    store.keep_log_tails({run.runid: "a\nb\n\x1b]0;title\x07c\n"})
    told = last_of_log(store, project, run, 2)
    assert told.text == "b\n␛]0;title␇c\n"
    assert told.elsewhere.startswith("the log of run 1 is not here: ")
    assert part_of_log(store, project, run, told.end).text == ""
    assert [line.line for line in search_log(store, project, run, "B").lines] == [2]
    assert "".join(pieces_of_log(store, project, run)).startswith("# the log of run 1 is not here: ")


def test_a_run_without_a_log_or_with_one_that_is_gone_says_so(store: Store, project: Project) -> None:
    assert last_of_log(store, project, a_run(store, None)).hint == "It is still running."
    gone = last_of_log(store, project, a_run(store, project.logs / "make/9.log"))
    assert gone.problem.startswith("there is no log ")
    assert "30 days" in gone.hint
