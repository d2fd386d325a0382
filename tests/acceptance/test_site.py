"""The documentation as a site."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    """A link that leads nowhere is a warning, and a warning is an error."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "sphinx",
            "-q",
            "-W",
            "--keep-going",
            "-b",
            "html",
            "-c",
            "docs",
            ".",
            tmp_path / "site",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "odf resubmit --failed" in (tmp_path / "site/docs/reference/options.html").read_text(encoding="utf-8")
