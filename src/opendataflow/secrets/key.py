"""Reads the encryption key from the environment, a file or a command, and keeps it hidden."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from typing import NoReturn

from ..errors import BadConfig, BadKey, UsageError
from ..tokens import holds_secret

KEY_VARIABLES = ("PASSKEY", "PASSKEY_FILE", "PASSKEY_COMMAND")
NEW = "NEW_"  # prefix of the variables for the new key of a rekey
STORE_VARIABLE = "ODF_STORE"
LIBPQ_VARIABLE = "PGPASSWORD"  # for the store, and for tables at libpq's default address
COMMAND_TIMEOUT = 30.0

_PEPPER = os.urandom(16)


class Key:
    """A passphrase that cannot be shown, copied or pickled."""

    __slots__ = ("_passphrase",)

    def __init__(self, passphrase: str) -> None:
        if not passphrase:
            raise UsageError("a key cannot be empty", hint=f"Set one of {', '.join(KEY_VARIABLES)}.")
        self._passphrase = to_bytes(passphrase)

    def __repr__(self) -> str:
        return "Key(hidden)"

    def __eq__(self, other: object) -> bool:
        import hmac  # lazy, here and below: most processes have no key

        return isinstance(other, Key) and hmac.compare_digest(self._passphrase, other._passphrase)

    def __hash__(self) -> int:
        # Peppered: a hash in a log does not help to test guesses.
        import hmac

        return hash(hmac.digest(_PEPPER, self._passphrase, "sha256"))

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a Key is not copied or pickled")


def passphrase_of(key: Key) -> bytes:
    """The passphrase, for the modules of this package only."""
    return key._passphrase


def find_key(environ: Mapping[str, str], prefix: str = "") -> Key | None:
    """Return the key from the first of PASSKEY, PASSKEY_FILE and PASSKEY_COMMAND that is set and not empty, or None."""
    by_value, by_file, by_command = (prefix + name for name in KEY_VARIABLES)
    if passphrase := environ.get(by_value):
        return Key(passphrase)
    if path := environ.get(by_file):
        return _key_from_bytes(_read_key_file(path, by_file, environ), by_file)
    if command := environ.get(by_command):
        return _key_from_bytes(_run_key_command(command, by_command, environ), by_command)
    return None


def require_key(environ: Mapping[str, str], for_what: str) -> Key:
    """Return the key of an environment, or raise BadKey with the names of the variables that may hold it."""
    return required(find_key(environ), for_what)


def required(key: Key | None, for_what: str) -> Key:
    """Return the key; without one, raise BadKey with the names of the variables that may hold it."""
    if key is not None:
        return key
    raise BadKey(
        f"{for_what} needs a key, and none is set",
        hint="Set PASSKEY to it, PASSKEY_FILE to a file that holds it, or PASSKEY_COMMAND to a command that prints it.",
    )


def secret_names(environ: Mapping[str, str]) -> list[str]:
    """The variables that lead to a key or hold the store's password; ODF_STORE is one if its address holds a password."""
    names = [*KEY_VARIABLES, *(NEW + name for name in KEY_VARIABLES), LIBPQ_VARIABLE]
    if holds_secret(environ.get(STORE_VARIABLE, "")):
        names.append(STORE_VARIABLE)
    return [name for name in names if name in environ]


def child_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without the variables that lead to the key or the store's password."""
    hidden = secret_names(environ)
    return {name: value for name, value in environ.items() if name not in hidden}


def to_bytes(text: str) -> bytes:
    """The bytes of a secret, as the environment or a file holds them."""
    # Environment variables need not be UTF-8; Python represents other bytes as escaped surrogates.
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        pass
    raise UsageError("a secret is not valid Unicode", hint="Give it as UTF-8.")


def _key_from_bytes(raw: bytes, source: str) -> Key:
    passphrase = raw.removesuffix(b"\n").removesuffix(b"\r") if raw.endswith(b"\n") else raw
    if not passphrase:
        raise BadConfig(f"{source} gives an empty key", hint="Its first line must be the key.")
    return Key(passphrase.decode("utf-8", "surrogateescape"))


def _read_key_file(path: str, source: str, environ: Mapping[str, str]) -> bytes:
    try:
        with open(path, "rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if not mode & (stat.S_IRWXG | stat.S_IRWXO) or _is_credential(path, mode, environ):
                return file.read()
    except OSError as error:
        reason = error.strerror
    else:
        others = "every user" if mode & stat.S_IRWXO else "its group"
        from shlex import quote

        raise BadConfig(f"{source} {path} is open to {others}", hint=f"Run: chmod 600 {quote(path)}")
    # The message omits the path: a user may have put the key itself into PASSKEY_FILE by mistake.
    raise BadConfig(f"{source} cannot be read: {reason}", hint="Set it to the path of the file that holds the key.")


def _is_credential(path: str, mode: int, environ: Mapping[str, str]) -> bool:
    """Whether systemd created this file: only the service can open its folder, and group bits may come from an ACL."""
    folder = environ.get("CREDENTIALS_DIRECTORY")
    return bool(folder) and not mode & stat.S_IRWXO and os.path.dirname(os.path.abspath(path)) == folder


def _run_key_command(command: str, source: str, environ: Mapping[str, str]) -> bytes:
    import shlex  # lazy: few keys come from a command
    import subprocess

    # Messages omit the command line and its output: either may hold the key.
    try:
        done = subprocess.run(
            shlex.split(command),
            env=child_environment(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=COMMAND_TIMEOUT,
            check=False,
        )
        if done.returncode == 0:
            return done.stdout
        problem = f"failed with exit code {done.returncode}"
    except subprocess.TimeoutExpired:
        problem = f"did not finish in {COMMAND_TIMEOUT:g} s"
    except OSError as error:
        problem = f"cannot be started: {error.strerror}"
    except (ValueError, IndexError):
        problem = "is not a command line"
    raise BadConfig(f"{source} {problem}", hint="The command runs without a shell. Run it by hand to see its output.")
