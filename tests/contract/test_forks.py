"""A forked `odf` does what one with an interpreter of its own does."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support import forks
from tests.support.forks import run_odf

DATASETS = "insert into dataset (datasetid) values ('raw'), ('clean')"
JOB = "insert into job (jobid, itemtype, datasetid) values ('make', 'IN', 'raw'), ('make', 'OUT', 'clean')"


def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *words: str, stdin: bytes = b"", **extra: str):
    """What each of the two answers, in a folder of its own."""
    for is_real in (False, True):
        monkeypatch.setattr(forks, "soaking", is_real)
        folder = tmp_path / "here"
        (folder / "store.db").unlink(missing_ok=True)
        folder.mkdir(exist_ok=True)
        env = {"PATH": os.environ["PATH"], "ODF_STORE": "sqlite:///store.db", **extra}
        for before in (["migrate"], ["dml", DATASETS], ["dml", JOB], ["ready", "raw", "1"]):
            run_odf(before, cwd=folder, env=env, stdin=b"", timeout=240).check_returncode()
        yield run_odf(list(words), cwd=folder, env=env, stdin=stdin, timeout=240)


@pytest.mark.parametrize(
    ("words", "stdin"),
    [
        (["sql", "select 'ä', 1", "--json"], b""),
        (["status"], b""),
        (["sql", "-"], b"select 2"),
        (["no-such-verb"], b""),
        (["ready", "nobody", "1"], b""),
        (["run", "./no-such.sh"], b""),
        (["crypt", "encrypt"], b"s3cret\n"),
    ],
)
def test_it_says_and_ends_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], stdin: bytes
) -> None:
    forked, real = both(tmp_path, monkeypatch, *words, stdin=stdin)
    assert (forked.returncode, forked.stdout, forked.stderr) == (real.returncode, real.stdout, real.stderr)


def test_what_it_starts_has_its_environment_folder_and_mask_of_modes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "make.sh"
    script.write_text("#!/bin/sh\necho $COLOUR $PATH $HOME $dataid; pwd; umask; ls /proc/self/fd\n")
    script.chmod(0o755)
    mask = os.umask(0o027)
    try:
        forked, real = both(tmp_path, monkeypatch, "run", str(script), COLOUR="red")
    finally:
        os.umask(mask)
    assert (forked.returncode, real.returncode) == (0, 0), forked
    assert forked.stdout == real.stdout
    assert b"red" in forked.stdout
    assert b"0027" in forked.stdout


def test_an_interpreter_that_is_told_something_is_a_real_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path)}
    (tmp_path / "sitecustomize.py").write_text("print('a real one')")
    assert b"a real one" in run_odf(["--version"], cwd=tmp_path, env=env, stdin=b"", timeout=240).stdout


def test_one_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "ODF_STORE": "sqlite:///store.db"}
    run_odf(["migrate"], cwd=tmp_path, env=env, stdin=b"", timeout=240)
    endless = "with recursive n (i) as (select 1 union all select i + 1 from n) select count(*) from n"
    with pytest.raises(subprocess.TimeoutExpired):
        run_odf(["sql", endless], cwd=tmp_path, env=env, stdin=b"", timeout=1)
