"""A file of secrets is private, and gone with the script that it was made for."""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from opendataflow import secrets
from opendataflow.errors import UsageError

OURS = {**os.environ, "PYTHONPATH": str(Path(secrets.__file__).parents[2])}


def test_a_secret_file_is_private_readable_by_a_shell_and_gone_afterwards(tmp_path: Path) -> None:
    values = {"PW": "p'a \"s/s\\wö&rd?+\n" + "$HOME `id`", "_n2": "", "Z": "\udcff"}
    with secrets.secret_file(tmp_path, values) as path:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert path.parent == tmp_path
        script = f'. {shlex.quote(str(path))}; printf \'%s|%s|%s\' "$PW" "$_n2" "$Z"'
        read = subprocess.run(["sh", "-c", script], capture_output=True, check=True).stdout
        assert read == os.fsencode("|".join(values.values()))
        assert secrets.sweep_secret_files(tmp_path) == 0
        assert path.exists()
    assert list(tmp_path.iterdir()) == []


def test_a_secret_file_is_gone_after_an_error_and_may_be_removed_by_the_job(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), secrets.secret_file(tmp_path, {"A": "b"}):
        raise ZeroDivisionError
    with secrets.secret_file(tmp_path, {"A": "b"}) as path:
        path.unlink()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("values", [{"A B": "x"}, {"1A": "x"}, {"A\n": "x"}, {"A;id": "x"}, {"A": "swordfish\0"}])
def test_what_a_shell_cannot_read_is_refused_and_leaves_no_file(tmp_path: Path, values: dict[str, str]) -> None:
    with pytest.raises(UsageError) as caught, secrets.secret_file(tmp_path, values):
        pass
    assert "swordfish" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_the_secret_file_of_a_killed_process_is_swept(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from opendataflow.secrets import secret_file\n"
        "with secret_file(sys.argv[1], {'A': 'swordfish'}): os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], env=OURS)
    assert len(list(tmp_path.iterdir())) == 1
    (tmp_path / "other").write_text("kept")
    assert secrets.sweep_secret_files(tmp_path) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["other"]
