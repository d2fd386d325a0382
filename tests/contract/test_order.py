"""Which tests share a process, and which begin first."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.order import begins

ROOT = Path(__file__).parents[2]


def test_what_takes_long_begins_first() -> None:
    files = [
        "spark/test_a.py",
        "browser/test_a.py",
        "acceptance/test_a.py",
        "contract/test_a.py",
        "unit/model/test_a.py",
    ]
    ranks = [begins(f"tests/{file}::test_it[x/y::z]") for file in files]
    assert ranks == sorted(set(ranks))


def test_one_process_runs_a_file_and_a_folder_that_shares_something(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "from tests.conftest import pytest_addoption, pytest_collection_modifyitems, pytest_xdist_make_scheduler"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    for folder, file in (("spark", "a"), ("spark", "b"), ("unit", "c"), ("unit", "d"), ("unit", "e")):
        path = tmp_path / f"tests/{folder}/test_{file}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("import pytest\n@pytest.mark.parametrize('n', range(4))\ndef test_it(n): pass\n")
    command = [sys.executable, "-m", "pytest", "-v", "-n2", "--dist=loadgroup", "-c", "pytest.ini", "tests"]
    done = subprocess.run(command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    ran = {
        (line.split()[-1].partition("::")[0], line.split()[0]) for line in done.stdout.splitlines() if "PASSED" in line
    }
    by_file = {file: [process for each, process in ran if each == file] for file, _ in ran}
    assert len(by_file) == 5
    assert all(len(processes) == 1 for processes in by_file.values()), by_file
    assert by_file["tests/spark/test_a.py"] == by_file["tests/spark/test_b.py"] != by_file["tests/unit/test_c.py"]
