"""Numbers on the command line: what is no number is refused wherever one is asked for."""

from __future__ import annotations

import json

import pytest

from opendataflow.cli import door


@pytest.mark.parametrize("number", ["nan", "NaN", "-nan", "inf"])
@pytest.mark.parametrize(
    "words", [("chaos", "--dry-run", "--minutes"), ("recover", "--every"), ("sql", "select 1", "--timeout")]
)
def test_what_is_no_number_is_refused(words: tuple[str, ...], number: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert door.open_door([*words, number, "--json"]) == 2
    told = json.loads(capsys.readouterr().out)
    assert told["error"] == "USAGE"
    assert "is not in the range" in told["message"]
