"""File modes and the unit of docs/how-to/harden.md: the modes are set, the unit is judged, and a drain runs inside it."""

from __future__ import annotations

import grp
import os
import pwd
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import sandbox

PAGE = (Path(__file__).parents[2] / "docs/how-to/harden.md").read_text(encoding="utf-8")
[UNIT] = re.findall(r"^```ini\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
[MODES] = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
[CONFIG] = re.findall(r"^```toml\n# config.toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)

PROJECT = """
[project]
jobs = ["jobs"]
[environment.prod]
roots = ["/srv/lake/shop"]
store.url = "sqlite:////srv/shop/.odf/dataflow.db"
[spark]
master = "local[1]"
"spark.sql.shuffle.partitions" = 1
[dataset.raw]
partition = "number"
location = "raw/{dataid}.csv"
schema = "n INT"
[dataset.copy]
partition = "number"
location = "copy/{dataid}.csv"
[dataset.clean]
partition = "number"
location = "clean/{dataid}"
[job.copy_raw]
reads = ["raw"]
writes = ["copy"]
[job.clean_raw]
reads = ["raw"]
writes = ["clean"]
"""
SCRIPT = """#!/bin/sh
set -eu
mkdir -p "$(dirname "$copy_location")"
cp "$raw_location" "$copy_location"
for path in /srv/shop/dataflow.toml /srv/shop/jobs/copy_raw.sh /etc/passwd /srv/etc/config.toml; do
    if (echo >> "$path") 2> /dev/null; then echo "$path can be written"; fi
done
if cat /srv/etc/key 2> /dev/null; then echo "the key can be read"; fi
grep NoNewPrivs: /proc/self/status
"""
SPARK = """
from opendataflow import job

@job
def clean_raw(raw):
    return raw.where("n > 1")
"""


def install(folder: Path) -> Path:
    """Play the page's commands with a folder in place of /, and users that are there; returns what is at /srv."""
    source = folder / "source"
    (source / "jobs").mkdir(parents=True)
    (source / "dataflow.toml").write_text(PROJECT)
    (source / "jobs/copy_raw.sh").write_text(SCRIPT)
    (source / "jobs/clean_raw.py").write_text(SPARK)
    (source / "config.toml").write_text(CONFIG)
    (source / "key").write_text("a key\n")
    (folder / "srv/lake").mkdir(parents=True)
    folder.joinpath("srv").chmod(0o755)
    first, *rest = MODES.splitlines()
    assert first.startswith("useradd ")
    me, mine = pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(os.getegid()).gr_name
    users = {"deploy": "daemon", "etl": "nobody", "root": "root"} if os.geteuid() == 0 else {}
    groups = {"etl": "nogroup", "root": "root"} if os.geteuid() == 0 else {}
    for line in rest:
        line = re.sub(r"-o (\w+)", lambda found: f"-o {users.get(found[1], me)}", line)
        line = re.sub(r"-g (\w+)", lambda found: f"-g {groups.get(found[1], mine)}", line)
        line = line.replace("/srv/", f"{folder}/srv/").replace("/etc/odf", f"{folder}/srv/etc")
        subprocess.run(["bash", "-euc", line], cwd=source, check=True)
    return folder / "srv"


def mode(path: Path) -> str:
    return f"{stat.S_IMODE(path.stat().st_mode):04o}"


@pytest.mark.fault(32)
def test_the_page_sets_the_modes_that_it_names(tmp_path: Path) -> None:
    srv = install(tmp_path)
    modes = {
        "shop": "0750",
        "shop/jobs": "0750",
        "shop/dataflow.toml": "0640",
        "shop/.odf": "0700",
        "lake/shop": "0700",
        "etc/key": "0600",
        "etc/config.toml": "0644",
    }
    assert {path: mode(srv / path) for path in modes} == modes


@pytest.mark.fault(32)
def test_the_unit_is_as_closed_as_the_page_says(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze")
    (below,) = re.findall(r"an exposure below ([0-9.]+),", PAGE)
    unit = tmp_path / "odf-shop.service"
    unit.write_text(UNIT)
    judge = ["systemd-analyze", "security", "--offline=true", "--no-pager"]
    if "unrecognized option" in subprocess.run([*judge, unit], capture_output=True, text=True).stderr:
        pytest.skip("needs systemd 250, which judges a unit that is not installed")
    judged = subprocess.run([*judge, f"--threshold={float(below) * 10:.0f}", unit], capture_output=True, text=True)
    assert judged.returncode == 0, judged.stdout + judged.stderr
    assert float(below) <= 2


def drained(srv: Path, *jobs: str) -> str:
    """Apply and drain, as the unit would."""
    for dataid in ("1", "2"):
        raw = srv / f"lake/shop/raw/{dataid}.csv"
        raw.parent.mkdir(exist_ok=True)
        raw.write_text(f"n\n1\n{dataid}\n3\n")
    for path in (srv / "lake/shop/raw").rglob("*"):
        shutil.chown(path, "nobody", "nogroup")
    shutil.chown(srv / "lake/shop/raw", "nobody", "nogroup")
    odf = f"{sys.executable} -m opendataflow"
    commands = f"{odf} migrate; {odf} apply --yes; {odf} ready raw 1 2; {odf} drain {' '.join(jobs)}; {odf} status"
    environ = {"ODF_ENV": "prod", "ODF_CONFIG": "/srv/etc/config.toml"}
    done = sandbox.run(UNIT, srv, ["bash", "-euc", commands], **environ)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def srv(tmp_path: Path) -> Path:
    if reason := sandbox.why_not():
        pytest.skip(reason)
    return install(tmp_path)


@pytest.mark.fault(32)
def test_a_drain_of_scripts_runs_in_the_sandbox_and_cannot_change_its_project(srv: Path) -> None:
    said = drained(srv, "copy_raw")
    assert "2 READY" in said
    log = "".join(path.read_text() for path in (srv / "shop/.odf/logs").rglob("*") if path.is_file())
    assert "can be written" not in log
    assert "can be read" not in log
    assert "NoNewPrivs:\t1" in log
    made = [srv / "shop/.odf/dataflow.db", *(path for path in (srv / "shop/.odf/logs").rglob("*") if path.is_file())]
    assert {mode(path) for path in (*made, srv / "lake/shop/copy/1.csv")} == {"0600"}


@pytest.mark.fault(32)
def test_without_its_own_configuration_the_worker_refuses_the_project_of_another_user(srv: Path) -> None:
    done = sandbox.run(UNIT, srv, [sys.executable, "-m", "opendataflow", "status"], ODF_ENV="prod")
    assert done.returncode == 2
    assert done.stderr.startswith("BAD_CONFIG: /srv/shop/dataflow.toml belongs to daemon")


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_drain_with_spark_runs_in_the_sandbox(srv: Path) -> None:
    if shutil.which("java") is None:
        pytest.skip("needs Java")
    assert "2 READY" in drained(srv, "clean_raw")
    assert sorted(path.name for path in (srv / "lake/shop/clean").iterdir()) == ["1", "2"]
    assert sorted(path.name for path in (srv / "shop").iterdir()) == [".odf", "dataflow.toml", "jobs"]
