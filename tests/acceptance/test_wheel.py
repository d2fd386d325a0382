"""The wheel in an empty environment: all of the program is in it, it is small, and RunJob works."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
MOST_PACKAGES, MOST_BYTES = 15, 40_000_000
NOT_OURS = ("pip", "setuptools", "pkg_resources", "_distutils_hack")  # what every new environment has

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def call(*command: str | Path, cwd: Path) -> str:
    """Run one program to its end, without what this environment says about Python."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV", "ODF_"))}
    done = subprocess.run(command, cwd=cwd, env=kept, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    call(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def binaries(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Path:
    """The programs of a new environment with the wheel, and nothing else, installed."""
    folder = tmp_path_factory.mktemp("empty")
    call(sys.executable, "-m", "venv", folder, cwd=folder)
    python = folder / "bin/python"
    call(python, "-m", "pip", "install", "-qq", "-c", ROOT / "constraints.txt", wheel, cwd=folder)
    return folder / "bin"


def test_the_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    tracked = call("git", "ls-files", "src/opendataflow", cwd=ROOT).splitlines()
    assert held >= {name.removeprefix("src/") for name in tracked if (ROOT / name).is_file()}
    assert not [name for name in held if name.endswith((".pyc", ".db"))]
    assert "opendataflow/py.typed" in held
    for part in (
        ".sql",
        "templates/scripts/jobs/greet.sh",
        "templates/spark/dataflow.toml",
        "templates/demo/deliver.py",
    ):
        assert any(name.endswith(part) for name in held), part


def test_the_base_install_is_small(binaries: Path) -> None:
    """As the wheels carry it: the bytecode that Python makes of it, a third more, can be made anew at any time."""
    (site,) = binaries.parent.glob("lib/python*/site-packages")
    packages = [path.name for path in site.glob("*.dist-info") if not path.name.startswith(NOT_OURS)]
    files = [path for path in site.rglob("*") if not path.relative_to(site).parts[0].startswith(NOT_OURS)]
    size = sum(path.stat().st_size for path in files if path.is_file() and path.suffix != ".pyc")
    assert len(packages) <= MOST_PACKAGES, packages
    assert size <= MOST_BYTES, f"{size / 1e6:.1f} MB"


def test_all_extras_are_installed_together_and_agree() -> None:
    """This environment was made with every extra at once: each of their packages is there, and none minds another."""
    for line in metadata.requires("opendataflow") or ():
        wanted = Requirement(line)
        if wanted.name != "opendataflow":
            assert metadata.version(wanted.name) in wanted.specifier, line
    call(sys.executable, "-m", "pip", "check", cwd=ROOT)


def test_it_runs_a_script_without_spark(binaries: Path, tmp_path: Path) -> None:
    call(
        binaries / "python",
        "-c",
        "import sys, importlib.util as u; sys.exit(bool(u.find_spec('pyspark')))",
        cwd=tmp_path,
    )
    call(binaries / "odf", "init", "shop", cwd=tmp_path)
    shop = tmp_path / "shop"
    call(binaries / "odf", "apply", "--yes", cwd=shop)
    call(binaries / "odf", "discover", "names_raw", cwd=shop)
    call(binaries / "RunJob", "jobs/greet.sh", cwd=shop)
    for program in ("ForceJob", "ForceCmd"):
        call(binaries / program, "--help", cwd=shop)
    assert '"READY"' in call(binaries / "odf", "status", "greetings", "--json", cwd=shop)
    assert (shop / "data/greetings/2025-11-12.txt").read_text(encoding="utf-8") == "Hello, Ada!\nHello, Grace!\n"
    for template in ("spark", "migration"):  # installing compiles the templates too: that must not end up in projects
        call(binaries / "odf", "init", "--template", template, template, cwd=tmp_path)
        assert not [*(tmp_path / template).rglob("__pycache__")]
