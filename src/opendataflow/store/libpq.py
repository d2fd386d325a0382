"""libpq as psycopg carries it, without the rest of psycopg: a run needs a sixth of the 180 modules that come with it."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .partial import import_within

# psycopg imports every type and all that is asynchronous, psycopg_binary looks up its version with a parser of mails, two
# modules want one name, and the others are there for an OpenSSL, a libpq, a log and a documentation that we do not have.
_FRAMES = {
    "psycopg": "",
    "asyncio": "asyncio.exceptions.CancelledError",
    "psycopg_binary": "",
    "psycopg._compat": "typing.Self",
    "ssl": "",
    "ctypes.util": "",
    "traceback": "",
    "inspect": "",
}

import_within(_FRAMES, lambda: import_module("psycopg.pq"))
if TYPE_CHECKING:
    import psycopg
    from psycopg import errors as errors
    from psycopg import pq as pq
else:
    errors, pq = import_module("psycopg.errors"), import_module("psycopg.pq")

# To choose among several servers is what only psycopg's own way to connect knows to do.
_CHOOSING = ("target_session_attrs", "load_balance_hosts")


class Connection:
    """A connection of libpq, and of psycopg for whoever needs more of it."""

    def __init__(self, pgconn: Any, whole: psycopg.Connection[Any] | None = None) -> None:
        self.pgconn = pgconn
        self._whole = whole

    @property
    def psycopg(self) -> psycopg.Connection[Any]:
        """The same connection as psycopg has it; what is run there outside of a transaction is one by itself."""
        if self._whole is None:
            import psycopg

            self._whole = psycopg.Connection(self.pgconn)
        if not self._whole.autocommit and self.pgconn.transaction_status == pq.TransactionStatus.IDLE:
            self._whole.autocommit = True
        return self._whole

    def shut(self) -> None:
        """From another thread: whoever waits for an answer gets none, and is told so at once."""
        import socket

        with suppress(errors.Error, OSError), socket.socket(fileno=os.dup(self.pgconn.socket)) as same:
            same.shutdown(socket.SHUT_RDWR)

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
        import psycopg

        whole = psycopg.connect(address, autocommit=True, connect_timeout=int(patience), **settings)  # type: ignore[arg-type]
        return Connection(whole.pgconn, whole)
    problem: errors.Error | None = None
    for way in _ways(given, hosts):
        try:
            return Connection(_connected(" ".join(f"{name}={_quoted(value)}" for name, value in way.items()), patience))
        except errors.Error as error:
            problem = error
    raise problem or errors.OperationalError(f"{hosts!r} has no address")


def _said(given: dict[str, str], name: str) -> str:
    """What the address says, or else the variable that libpq reads."""
    return given.get(name) or os.environ.get(f"PG{name.replace('_', '').upper()}", "")


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
    try:
        _connect(made, patience)
    except BaseException:
        made.finish()  # libpq keeps what failed open, and whoever tells of the error keeps it alive
        raise
    return made


def _connect(made: Any, patience: float) -> None:
    end = time.monotonic() + patience
    while True:
        if made.status == pq.ConnStatus.BAD:
            raise errors.OperationalError(f"connection is bad: {made.get_error_message()}")
        status = made.connect_poll()
        if status == pq.PollingStatus.OK:
            made.nonblocking = 1  # as psycopg has it
            return
        if status == pq.PollingStatus.FAILED:
            raise errors.OperationalError(f"connection failed: {made.get_error_message()}")
        wait = select.poll()
        wait.register(made.socket, select.POLLIN if status == pq.PollingStatus.READING else select.POLLOUT)
        if not wait.poll(max(0.0, end - time.monotonic()) * 1000):
            raise errors.ConnectionTimeout("connection timeout expired")
