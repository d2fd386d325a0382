"""Whatever an error repeats of what others wrote, it does not steer the terminal."""

from __future__ import annotations

from importlib import metadata

import click
import pytest

from opendataflow import __version__
from opendataflow.cli import door, group
from opendataflow.errors import BadDefinition

EVIL = "\x1b]0;owned\x07\x1b[2J\u202e\x9b1m"


@pytest.mark.parametrize("error", [BadDefinition(f"bad {EVIL}", hint=f"See {EVIL}."), RuntimeError(f"bug {EVIL}")])
def test_a_traceback_is_cleaned_as_every_message_is(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> None:
        raise error

    command = click.Command(
        "fails", callback=fails, params=[click.Option(["--debug"], is_flag=True, expose_value=False)]
    )
    monkeypatch.setattr(group.Verbs, "get_command", lambda *_: command)
    code = door.open_door(["fails", "--debug"])
    told = capsys.readouterr().err
    assert code in (2, 70)
    assert "Traceback" in told
    assert "owned" in told
    assert not set("\x1b\x07\u202e\x9b") & set(told)


def test_the_version_that_it_says_is_the_one_that_is_installed():
    assert __version__ == metadata.version("opendataflow")
