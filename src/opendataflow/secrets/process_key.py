"""Removes key variables from the process environment at start-up and holds the key of this process."""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping
from contextlib import suppress
from functools import cached_property

from ..errors import OdfError
from .key import KEY_VARIABLES, LIBPQ_VARIABLE, NEW, STORE_VARIABLE, Key, find_key, required, secret_names
from .redaction import Hidden

_removed: dict[str, str] = {}  # libpq variables that were removed from this process's environment


class ProcessKey:
    """The key of this process, found once, at first use."""

    def __init__(self, values: dict[str, str], environ: MutableMapping[str, str]) -> None:
        self._values, self._environ = values, environ
        self.hidden = Hidden()
        for name in (KEY_VARIABLES[0], NEW + KEY_VARIABLES[0], LIBPQ_VARIABLE):
            self.hidden.add(values.get(name, ""))
        self.store_password = values.get(LIBPQ_VARIABLE) or None
        self.store_url = values.get(STORE_VARIABLE) or environ.get(STORE_VARIABLE, "")
        self.hidden.add_address(self.store_url)

    def __repr__(self) -> str:
        return "ProcessKey(hidden)"

    @cached_property
    def key(self) -> Key | None:
        """The key, if one is given."""
        return self._find("")

    @cached_property
    def new_key(self) -> Key | None:
        """The key that a rekey moves to, if one is given."""
        return self._find(NEW)

    def find_keys(self) -> None:
        """Find both keys so that they are redacted, including those of a file or command; errors are ignored until first use."""
        for name in ("key", "new_key"):
            with suppress(OdfError):
                getattr(self, name)

    def require_key(self, for_what: str) -> Key:
        """The key, or BadKey with the names of the variables that may hold it."""
        return required(self.key, for_what)

    def _find(self, prefix: str) -> Key | None:
        key = find_key({**self._environ, **self._values}, prefix)
        if key is not None:
            self.hidden.add(key)
        return key


def take(environ: MutableMapping[str, str]) -> ProcessKey:
    """Remove every variable that leads to a key from the environment, so that no child process or job code can read it."""
    values = {}
    for name in secret_names(environ):
        if environ is os.environ:
            _wipe(name)
        values[name] = environ.pop(name)
    if environ is os.environ and LIBPQ_VARIABLE in values:
        _removed[LIBPQ_VARIABLE] = values[LIBPQ_VARIABLE]
    return ProcessKey(values, environ)


def pgpassword() -> str | None:
    """The PGPASSWORD that this process was started with, for tables at libpq's default address."""
    return _removed.get(LIBPQ_VARIABLE)


def _wipe(name: str) -> None:
    """Overwrite the value of a variable in /proc/PID/environ."""
    if sys.platform != "linux":
        return
    with suppress(ImportError, OSError, AttributeError, ValueError):
        import ctypes  # lazy: most commands need no key

        getenv = ctypes.CDLL(None).getenv
        getenv.restype, getenv.argtypes = ctypes.c_void_p, [ctypes.c_char_p]
        if at := getenv(name.encode()):
            ctypes.memset(at, 0, len(ctypes.string_at(at)))
