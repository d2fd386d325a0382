"""libpq as psycopg carries it, without the rest of psycopg: a run needs a sixth of the 180 modules that come with it.

The packages are put in place unopened, so that their parts can be imported one by one. Each opens by itself for whoever
asks it for more, and does then what its import would have done.
"""

from __future__ import annotations

import importlib.util
import os
import select
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

_opening = threading.RLock()


def _put_unopened(name: str, **homes: str) -> None:
    """Put a package in place whose own code runs when something of it is asked for that no module of its is known to have."""
    spec = importlib.util.find_spec(name)
    if name in sys.modules or spec is None or spec.loader is None:
        return
    loader, package = spec.loader, importlib.util.module_from_spec(spec)
    is_open = False

    def look_up(attribute: str) -> Any:
        nonlocal is_open
        if attribute in homes:
            return getattr(importlib.import_module(f"{name}.{homes[attribute]}"), attribute)
        if not attribute.startswith("__") and importlib.util.find_spec(f"{name}.{attribute}") is not None:
            return importlib.import_module(f"{name}.{attribute}")
        with _opening:  # whoever else asks meanwhile waits until it is whole
            if not is_open:
                is_open = True
                loader.exec_module(package)
        if attribute in package.__dict__:
            return package.__dict__[attribute]
        raise AttributeError(f"module {name!r} has no attribute {attribute!r}")

    package.__getattr__ = look_up  # type: ignore[method-assign]
    sys.modules[name] = package


_put_unopened("psycopg")
_put_unopened("psycopg_binary")  # looks up its version, with a parser of mails
_put_unopened("asyncio", CancelledError="exceptions")  # of which psycopg.errors wants only this

import psycopg.pq  # noqa: E402 - before its errors, as psycopg itself has it
from psycopg import errors as errors  # noqa: E402
from psycopg import pq as pq  # noqa: E402

# To choose among several servers is what only psycopg's own way to connect knows to do.
_CHOOSING = ("target_session_attrs", "load_balance_hosts")


class Connection:
    """A connection of libpq, and of psycopg for whoever asks for more of it."""

    def __init__(self, pgconn: Any) -> None:
        self.pgconn = pgconn
        self._whole: psycopg.Connection[Any] | None = None

    def __getattr__(self, name: str) -> Any:
        if self._whole is None:
            self._whole = psycopg.Connection(self.pgconn)
        if not self._whole.autocommit and self.pgconn.transaction_status == pq.TransactionStatus.IDLE:
            self._whole.autocommit = True
        return getattr(self._whole, name)

    def close(self) -> None:
        """Let the server go."""
        if self._whole is not None:
            self._whole.close()
        self.pgconn.finish()


def parameters(address: str) -> dict[str, str]:
    """What an address says; ProgrammingError when it is none."""
    try:
        options = pq.Conninfo.parse(address.encode())
    except errors.OperationalError as error:
        raise errors.ProgrammingError(str(error)) from None
    return {option.keyword.decode(): option.val.decode() for option in options if option.val is not None}


def connect(address: str, *, patience: float, **settings: object) -> Connection:
    """Connect as psycopg.connect does: to each address of the host in turn, with the same errors."""
    given = parameters(address) | {name: str(value) for name, value in settings.items()}
    hosts = _said(given, "hostaddr") or _said(given, "host")
    if "," in hosts or any(_said(given, name) for name in _CHOOSING):
        whole = psycopg.connect(address, autocommit=True, connect_timeout=int(patience), **settings)  # type: ignore[arg-type]
        connection = Connection(whole.pgconn)
        connection._whole = whole
        return connection
    problem: psycopg.Error | None = None
    for way in _ways(given, hosts):
        try:
            return Connection(_connected(" ".join(f"{name}={_quoted(value)}" for name, value in way.items()), patience))
        except errors.Error as error:
            problem = error
    raise problem or errors.OperationalError(f"{hosts!r} has no address")


def _said(given: dict[str, str], name: str) -> str:
    """What the address says, or else the variable that libpq reads."""
    variable = "PG" + name.replace("_", "").upper()
    return given.get(name) or os.environ.get(variable, "")


def _ways(given: dict[str, str], host: str) -> Iterator[dict[str, str]]:
    """The parameters once for each address of the host: one that does not answer may not use up the time of the others."""
    if not host or host.startswith("/") or _is_address(host):
        yield given
        return
    import socket  # here, since it takes milliseconds

    port = _said(given, "port") or "5432"
    try:
        found = socket.getaddrinfo(host, port, proto=socket.IPPROTO_TCP, type=socket.SOCK_STREAM)
    except OSError as error:
        raise errors.OperationalError(f"failed to resolve host {host!r}: {error}") from None
    for each in found:
        yield given | {"hostaddr": str(each[4][0])}


def _is_address(host: str) -> bool:
    from ipaddress import ip_address

    try:
        return bool(ip_address(host))
    except ValueError:
        return False


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _connected(conninfo: str, patience: float) -> Any:
    made = pq.PGconn.connect_start(conninfo.encode())
    end = time.monotonic() + patience
    while True:
        if made.status == pq.ConnStatus.BAD:
            raise errors.OperationalError(f"connection is bad: {made.get_error_message()}")
        status = made.connect_poll()
        if status == pq.PollingStatus.OK:
            made.nonblocking = 1  # as psycopg has it
            return made
        if status == pq.PollingStatus.FAILED:
            raise errors.OperationalError(f"connection failed: {made.get_error_message()}")
        wait = select.poll()
        wait.register(made.socket, select.POLLIN if status == pq.PollingStatus.READING else select.POLLOUT)
        if not wait.poll(max(0.0, end - time.monotonic()) * 1000):
            raise errors.ConnectionTimeout("connection timeout expired")
