"""What the environment says about keys, taken out of it before anything else starts."""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping
from contextlib import suppress
from functools import cached_property

from .key import KEY_VARIABLES, LIBPQ_VARIABLE, NEW, STORE_VARIABLE, Key, find_key, required, secret_names
from .redaction import Hidden

_workers_own: dict[str, str] = {}  # what was taken out of this process's own environment for libpq


class Taken:
    """The one place that holds the key; it is found when somebody first needs it, and once."""

    def __init__(self, values: dict[str, str], environ: MutableMapping[str, str]) -> None:
        self._values, self._environ = values, environ
        self.hidden = Hidden()
        for name in (KEY_VARIABLES[0], NEW + KEY_VARIABLES[0], LIBPQ_VARIABLE):
            self.hidden.add(values.get(name, ""))
        self.store_password = values.get(LIBPQ_VARIABLE) or None
        self.store_url = values.get(STORE_VARIABLE) or environ.get(STORE_VARIABLE, "")
        self.hidden.add_address(self.store_url)

    def __repr__(self) -> str:
        return "Taken(hidden)"

    @cached_property
    def key(self) -> Key | None:
        """The key, if one is given."""
        return self._find("")

    @cached_property
    def new_key(self) -> Key | None:
        """The key that a rekey moves to, if one is given."""
        return self._find(NEW)

    def require_key(self, for_what: str) -> Key:
        """The key, or BadKey with the names of the variables that may hold it."""
        return required(self.key, for_what)

    def _find(self, prefix: str) -> Key | None:
        key = find_key({**self._environ, **self._values}, prefix)
        if key is not None:
            self.hidden.add(key)
        return key


def take(environ: MutableMapping[str, str]) -> Taken:
    """Take everything that leads to a key out of the environment: no child and no code of a job finds it there."""
    values = {}
    for name in secret_names(environ):
        if environ is os.environ:
            _wipe(name)
        values[name] = environ.pop(name)
    if environ is os.environ and LIBPQ_VARIABLE in values:
        _workers_own[LIBPQ_VARIABLE] = values[LIBPQ_VARIABLE]
    return Taken(values, environ)


def workers_password() -> str | None:
    """The PGPASSWORD that this process was started with, for a table that is where psql would look."""
    return _workers_own.get(LIBPQ_VARIABLE)


def _wipe(name: str) -> None:
    """Overwrite a value where the system shows with what a process started: /proc/PID/environ."""
    if sys.platform != "linux":
        return
    with suppress(ImportError, OSError, AttributeError, ValueError):
        import ctypes  # only here: most command lines need no key

        getenv = ctypes.CDLL(None).getenv
        getenv.restype, getenv.argtypes = ctypes.c_void_p, [ctypes.c_char_p]
        if at := getenv(name.encode()):
            ctypes.memset(at, 0, len(ctypes.string_at(at)))
