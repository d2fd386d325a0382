"""Whatever leads to a key is taken out of the environment once, before anybody else could find it there."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from opendataflow import secrets
from opendataflow.errors import BadKey
from opendataflow.secrets import Key, take

ALL = [*secrets.KEY_VARIABLES, *(secrets.NEW + name for name in secrets.KEY_VARIABLES)]
OURS = {**os.environ, "PYTHONPATH": str(Path(secrets.__file__).parents[2])}


def test_everything_that_leads_to_a_key_is_taken() -> None:
    environ = {name: f"value of {name}" for name in ALL} | {"HOME": "/h", "PASSKEYS": "x"}
    taken = take(environ)
    assert environ == {"HOME": "/h", "PASSKEYS": "x"}
    assert taken.key == Key("value of PASSKEY")
    assert taken.new_key == Key("value of NEW_PASSKEY")
    assert "value of" not in repr(taken)


def test_an_address_of_the_store_is_taken_only_when_it_holds_a_password() -> None:
    environ = {"ODF_STORE": "postgresql://etl:s3c%21ret@db/x"}
    taken = take(environ)
    assert environ == {}
    assert taken.store_url == "postgresql://etl:s3c%21ret@db/x"
    assert taken.hidden.redact("s3c!ret s3c%21ret") == "[redacted] [redacted]"
    environ = {"ODF_STORE": "postgresql://etl@db/x"}
    assert take(environ).store_url == "postgresql://etl@db/x"
    assert environ == {"ODF_STORE": "postgresql://etl@db/x"}


def test_no_variable_means_no_key() -> None:
    taken = take({})
    assert taken.key is None
    assert taken.new_key is None
    with pytest.raises(BadKey):
        taken.require_key("dataset orders_pg")


def test_the_command_runs_once_when_the_key_is_needed_and_sees_none_of_it(tmp_path: Path) -> None:
    code = f"import os; open({str(tmp_path / 'calls')!r}, 'a').write(repr(sorted(os.environ)) + '\\n'); print('k')"
    environ = {
        "PASSKEY_COMMAND": shlex.join([sys.executable, "-c", code]),
        "NEW_PASSKEY": "new",
        "ODF_STORE": "postgresql://u:p4ss@h/d",
        "PATH": os.environ["PATH"],
    }
    taken = take(environ)
    assert not (tmp_path / "calls").exists()
    assert taken.key == Key("k")
    assert taken.key is taken.key
    [call] = (tmp_path / "calls").read_text().splitlines()
    assert "PATH" in call
    assert not any(name in call for name in ("PASSKEY", "ODF_STORE"))


def test_the_key_is_hidden_as_soon_as_it_is_known(tmp_path: Path) -> None:
    assert take({"PASSKEY": "swordfish"}).hidden.redact("a swordfish") == "a [redacted]"
    file = tmp_path / "key"
    file.write_text("marlin-1")
    file.chmod(0o600)
    taken = take({"PASSKEY_FILE": str(file)})
    assert taken.key is not None
    assert taken.hidden.redact("a marlin-1") == "a [redacted]"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows it")
def test_the_system_does_not_show_it_any_more_with_what_the_process_started() -> None:
    code = (
        "import os; from opendataflow.secrets import take; taken = take(os.environ)\n"
        "assert taken.key is not None and taken.store_url\n"
        "print(open('/proc/self/environ', 'rb').read(), dict(os.environ))\n"
        "import subprocess; print(subprocess.run(['env'], capture_output=True).stdout)"
    )
    environ = OURS | {"PASSKEY": "canary-1", "NEW_PASSKEY": "canary-2", "ODF_STORE": "postgresql://u:canary-3@h/d"}
    shown = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, check=True).stdout
    assert b"PATH=" in shown
    assert b"canary" not in shown
