"""The key is found in one of three variables, and shown by nothing."""

from __future__ import annotations

import copy
import dataclasses
import json
import os
import pickle
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from opendataflow import secrets
from opendataflow.errors import BadConfig, BadKey, UsageError
from opendataflow.secrets import Key
from opendataflow.secrets import key as module


def test_a_key_never_shows_its_passphrase() -> None:
    key = Key("swordfish")

    @dataclasses.dataclass
    class Holder:
        key: Key

    for shown in (repr(key), str(key), f"{key}", f"{key!r}", repr([key]), repr(Holder(key)), str(hash(key))):
        assert "swordfish" not in shown
    assert not hasattr(key, "__dict__")


def test_a_key_is_neither_pickled_nor_copied_nor_made_json() -> None:
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy, json.dumps):
        with pytest.raises(TypeError) as caught:
            attempt(Key("swordfish"))
        assert "swordfish" not in str(caught.value)


def test_keys_are_equal_when_their_passphrases_are() -> None:
    assert Key("a") == Key("a")
    assert hash(Key("a")) == hash(Key("a"))
    assert Key("a") != Key("b")
    assert Key("a") != "a"


def test_an_empty_or_impossible_key_is_refused() -> None:
    for passphrase in ("", "\ud800"):
        with pytest.raises(UsageError) as caught:
            Key(passphrase)
        assert caught.value.__context__ is None


def key_file(directory: Path, content: bytes, mode: int = 0o600) -> str:
    path = directory / "pass key"
    path.write_bytes(content)
    path.chmod(mode)
    return str(path)


def test_no_variable_means_no_key() -> None:
    assert secrets.find_key({}) is None
    assert secrets.find_key({"PASSKEY": "", "PASSKEY_FILE": ""}) is None


def test_the_key_comes_from_the_environment_a_file_or_a_command_in_that_order(tmp_path: Path) -> None:
    everything = {
        "PASSKEY": "one",
        "PASSKEY_FILE": key_file(tmp_path, b"two\n"),
        "PASSKEY_COMMAND": shlex.join([sys.executable, "-c", "print('three')"]),
    }
    assert secrets.find_key(everything) == Key("one")
    del everything["PASSKEY"]
    assert secrets.find_key(everything) == Key("two")
    del everything["PASSKEY_FILE"]
    assert secrets.find_key(everything) == Key("three")


@pytest.mark.parametrize(
    ("content", "passphrase"),
    [(b"k", "k"), (b"k\n", "k"), (b"k\r\n", "k"), (b"k\n\n", "k\n"), (b" k ", " k "), (b"\xff", "\udcff")],
)
def test_exactly_one_line_end_is_taken_off_a_key_file(tmp_path: Path, content: bytes, passphrase: str) -> None:
    assert secrets.find_key({"PASSKEY_FILE": key_file(tmp_path, content)}) == Key(passphrase)


def test_a_key_file_open_to_everyone_is_refused_with_the_line_that_closes_it(tmp_path: Path) -> None:
    path = key_file(tmp_path, b"swordfish\n", 0o644)
    with pytest.raises(BadConfig) as caught:
        secrets.find_key({"PASSKEY_FILE": path})
    assert caught.value.hint == f"Run: chmod 600 '{path}'"
    assert "swordfish" not in str(caught.value)
    subprocess.run(shlex.split(caught.value.hint.removeprefix("Run: ")), check=True)
    assert secrets.find_key({"PASSKEY_FILE": path}) == Key("swordfish")


@pytest.mark.parametrize("mode", [0o640, 0o660, 0o620, 0o610, 0o604, 0o601])
@pytest.mark.parametrize("prefix", ["", "NEW_"])
def test_a_key_file_open_to_a_group_or_to_others_is_refused(tmp_path: Path, mode: int, prefix: str) -> None:
    path = key_file(tmp_path, b"swordfish\n", mode)
    with pytest.raises(BadConfig) as caught:
        secrets.find_key({f"{prefix}PASSKEY_FILE": path}, prefix)
    assert caught.value.hint == f"Run: chmod 600 '{path}'"
    assert caught.value.message.startswith(f"{prefix}PASSKEY_FILE ")


def test_a_credential_of_systemd_may_have_the_bits_of_an_acl_but_not_those_of_others(tmp_path: Path) -> None:
    environ = {"PASSKEY_FILE": key_file(tmp_path, b"k", 0o440), "CREDENTIALS_DIRECTORY": str(tmp_path)}
    assert secrets.find_key(environ) == Key("k")
    with pytest.raises(BadConfig):
        secrets.find_key(environ | {"CREDENTIALS_DIRECTORY": str(tmp_path / "other")})
    Path(environ["PASSKEY_FILE"]).chmod(0o444)
    with pytest.raises(BadConfig):
        secrets.find_key(environ)


def test_a_key_file_that_is_missing_empty_or_no_file_is_a_configuration_error(tmp_path: Path) -> None:
    for path in (str(tmp_path / "none"), key_file(tmp_path, b"\n"), str(tmp_path)):
        with pytest.raises(BadConfig) as caught:
            secrets.find_key({"PASSKEY_FILE": path})
        assert caught.value.__context__ is None
        assert caught.value.hint


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("sh -c 'echo swordfish; echo swordfish >&2; exit 7'", "exit code 7"),
        ("no-such-program swordfish", "No such file"),
        ("echo 'swordfish", "command line"),
        ("  ", "command line"),
        ("true", "empty"),
    ],
)
def test_a_failing_key_command_is_told_without_its_line_or_its_output(command: str, told: str) -> None:
    with pytest.raises(BadConfig) as caught:
        secrets.find_key({"PASSKEY_COMMAND": command, "PATH": os.environ["PATH"]})
    assert told in str(caught.value)
    assert "swordfish" not in str(caught.value)
    assert caught.value.__context__ is None


def test_a_key_command_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(words: list[str], *, timeout: float, **options: object) -> NoReturn:
        assert timeout == module.COMMAND_TIMEOUT
        raise subprocess.TimeoutExpired(words, timeout)

    monkeypatch.setattr(subprocess, "run", hang)
    with pytest.raises(BadConfig):
        secrets.find_key({"PASSKEY_COMMAND": "sleep 60", "PATH": os.environ["PATH"]})


def test_a_key_command_runs_without_a_shell(tmp_path: Path) -> None:
    environ = {"PASSKEY_COMMAND": f"echo $HOME; touch {tmp_path}/made", "PATH": os.environ["PATH"]}
    assert secrets.find_key(environ) == Key(f"$HOME; touch {tmp_path}/made")
    assert not (tmp_path / "made").exists()


def test_a_missing_key_is_refused_with_the_variables_that_may_hold_it() -> None:
    with pytest.raises(BadKey) as caught:
        secrets.require_key({}, "dataset orders_pg")
    assert "dataset orders_pg" in caught.value.message
    assert all(name in caught.value.hint for name in secrets.KEY_VARIABLES)
    assert secrets.require_key({"PASSKEY": "k"}, "x") == Key("k")


def test_a_child_gets_the_environment_without_the_key() -> None:
    environ = {"PASSKEY": "a", "PASSKEY_FILE": "b", "PASSKEY_COMMAND": "c", "HOME": "/h", "PASSKEYS": "d"}
    environ |= {
        "NEW_PASSKEY": "e",
        "NEW_PASSKEY_FILE": "f",
        "NEW_PASSKEY_COMMAND": "g",
        "ODF_STORE": "postgresql://u:p@h/d",
    }
    assert secrets.child_environment(environ) == {"HOME": "/h", "PASSKEYS": "d"}
    assert environ["PASSKEY"] == "a"
    assert secrets.child_environment({"ODF_STORE": "sqlite:///x.db"}) == {"ODF_STORE": "sqlite:///x.db"}
