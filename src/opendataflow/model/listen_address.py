"""Parse addresses to listen at, as host and port."""

from __future__ import annotations

from ipaddress import ip_address
from typing import NamedTuple

from ..errors import UsageError

LOOPBACK = "127.0.0.1"


class ListenAddress(NamedTuple):
    """A host and a port to listen at."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str, example: int = 8080) -> ListenAddress:
        """Parse HOST:PORT, [HOST]:PORT, or a port alone, which means the loopback address."""
        host, _, port = text.rpartition(":")
        host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
        if not (port.isascii() and port.isdigit() and int(port) < 65536) or (":" in host and f"[{host}]" not in text):
            hint = f"Write HOST:PORT, for example {LOOPBACK}:{example}, or only the port for {LOOPBACK}."
            raise UsageError(f"{text!r} is not an address to listen at", hint=hint)
        return cls(host or LOOPBACK, int(port))

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect to it."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
