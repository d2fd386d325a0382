"""Which program a command means, before it is started."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from opendataflow.errors import BadConfig
from opendataflow.run.process.command import Command, Program


def found(folder: Path, *argv: str, path: str = "bin") -> Program:
    return Command(argv, {"PATH": path, "PASSKEY": "hidden"}, folder).program()


def script(folder: Path, name: str, text: str = "", mode: int = 0o644) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    (folder / name).chmod(mode)


def test_a_command_is_found_on_the_path_of_its_own_environment(tmp_path: Path) -> None:
    script(tmp_path, "bin/tool", mode=0o755)
    assert found(tmp_path, "tool", "x").executable == str(tmp_path / "bin/tool")
    with pytest.raises(BadConfig):
        found(tmp_path, "tool", path="elsewhere")


def test_a_script_of_the_folder_wins_over_the_path_and_a_stray_file_does_not(tmp_path: Path) -> None:
    for name in ("load.sh", "tool"):
        script(tmp_path, name, mode=0o755)
        script(tmp_path, f"bin/{name}", mode=0o755)
    assert found(tmp_path, "load.sh").executable == "./load.sh"
    assert found(tmp_path, "tool").executable == str(tmp_path / "bin/tool")


def test_a_script_that_is_not_executable_gets_its_interpreter(tmp_path: Path) -> None:
    script(tmp_path, "bin/bash", mode=0o755)
    script(tmp_path, "load.py")
    script(tmp_path, "load.sh")
    script(tmp_path, "named", "#!/usr/bin/awk -f\n")
    assert found(tmp_path, "load.py", "x").words == [sys.executable, "./load.py", "x"]
    assert found(tmp_path, "load.sh").words == [str(tmp_path / "bin/bash"), "./load.sh"]
    assert found(tmp_path, "./named", "x").words == ["/usr/bin/awk", "-f", "./named", "x"]


@pytest.mark.parametrize("argv", [[], [""], ["no-such"], ["./no/such.sh"], ["."], ["./data"], ["bin/x", "a\0b"]])
def test_what_cannot_be_run_is_refused(tmp_path: Path, argv: list[str]) -> None:
    script(tmp_path, "data")
    script(tmp_path, "bin/x", mode=0o755)
    with pytest.raises(BadConfig):
        found(tmp_path, *argv)


def test_no_way_to_the_key_is_passed_on_and_no_value_is_shown(tmp_path: Path) -> None:
    script(tmp_path, "bin/tool", mode=0o755)
    program = found(tmp_path, "tool")
    assert program.env == {"PATH": "bin"}
    assert "bin'" not in repr(program).replace(str(tmp_path), "")
    assert "hidden" not in repr(Command(["tool"], {"PASSKEY": "hidden"}, tmp_path))
