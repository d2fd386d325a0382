"""The differential run finds no difference where there is none, and one where there is one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.histories.differential import ROOT, history, paired, run

MUTANT = """
_announce = Store.announce
Store.announce = lambda *given, **options: _announce(*given, **options | {"only_new": True})
"""


@pytest.fixture
def mutant(tmp_path: Path) -> Path:
    """A checkout whose store refuses to announce a chunk again."""
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "src/opendataflow/store/store.py").open("a") as module:
        module.write(MUTANT)
    return tmp_path


@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_a_revision_does_not_differ_from_itself(store: str, capfd: pytest.CaptureFixture[str]) -> None:
    with paired(ROOT, ROOT, store) as pair:
        assert run(pair, store, {seed: history(seed) for seed in ("0", "1", "2")}) == 0
    assert capfd.readouterr().out.startswith(f"{store}: 3 histories, 0 differ")


def test_a_store_that_behaves_differently_is_found_and_the_history_made_short(
    mutant: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    told = {"0": history("0")}
    with paired(ROOT, mutant, "sqlite") as pair:
        assert run(pair, "sqlite", told) == 1
        shown = capfd.readouterr().out
        assert "answer.announce" in shown
        assert shown.partition("as short as it can be")[2].count("  0: announce") == 2
        pair.allowed = ("*",)
        assert run(pair, "sqlite", told) == 0
