"""examples/migration as a person follows it: every command of its README on a real PostgreSQL, with what it must print."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.acceptance.test_snippets import play, steps
from tests.support.postgres import client_environment

EXAMPLE = Path(__file__).parents[2] / "examples/migration"

pytestmark = [pytest.mark.postgres, pytest.mark.slow, pytest.mark.timeout(1800)]


def test_the_migration_goes_as_its_readme_says(tmp_path: Path, postgres_url: str) -> None:
    folder = shutil.copytree(EXAMPLE, tmp_path / "migration")
    wanted = list(steps((folder / "README.md").read_text(encoding="utf-8")))
    assert any(step.command.startswith("odf resubmit --failed") for step in wanted)
    play(wanted, folder, **client_environment(postgres_url))
