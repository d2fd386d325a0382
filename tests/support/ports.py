"""Ports for servers that tests start, and start again."""

from __future__ import annotations

import random
import socket
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")  # what the system gives to connections
_FIRST = 10_000


def free_port() -> int:
    """A port that nobody listens on now, and that no connection of anybody gets by chance before it is used."""
    last = int(_RANGE.read_text().split()[0]) if _RANGE.exists() else 0
    while last > 2 * _FIRST:
        port = random.SystemRandom().randrange(_FIRST, last)
        if _is_free(port):
            return port
    return _is_free(0)


def _is_free(port: int) -> int:
    """The port, or 0 when somebody has it."""
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return 0
        found: int = probe.getsockname()[1]
        return found
