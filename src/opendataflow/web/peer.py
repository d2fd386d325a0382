"""Peer: who is at the other end of a connection: an address, and the user of this machine that the system says it is."""

from __future__ import annotations

import sys
from ipaddress import ip_address
from pathlib import Path

_TABLES = {4: "/proc/self/net/tcp", 6: "/proc/self/net/tcp6"}  # a sandbox may hide /proc/net
_ENDS, _USER = slice(1, 4), 7  # columns: both ends and the state; the user
_ESTABLISHED = "01"

End = tuple[str, int]  # address and port


def peer_of(client: End, server: End) -> str:
    """The address, and for a connection of this machine the number of its user; empty where that connection is over."""
    address, _ = client
    try:
        found = ip_address(address)
        table = Path(_TABLES[found.version]).read_text(encoding="ascii")
    except (ValueError, OSError):
        return address
    user = user_in(table, client, server)
    if user is None:
        return "" if found.is_loopback else address
    return f"{address} {user}"


def user_in(table: str, client: End, server: End) -> str | None:
    """The user of the client's end, by the system's table of connections.

    Both ends have to fit, and the connection has to be open: a port has other connections too, and a socket that its
    process closed is listed as one of root.
    """
    wanted = [_as_listed(client), _as_listed(server), _ESTABLISHED]
    for columns in map(str.split, table.splitlines()):
        if columns[_ENDS] == wanted:
            return columns[_USER]
    return None


def _as_listed(end: End) -> str:
    """An address and a port as the table has them: words of four bytes, each in the order of the machine."""
    packed = ip_address(end[0]).packed
    words = [packed[at : at + 4] for at in range(0, len(packed), 4)]
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words) + f":{end[1]:04X}"
