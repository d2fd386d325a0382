"""Addresses to listen at: a host and a port, as people write them."""

from __future__ import annotations

from ipaddress import ip_address

from ..errors import UsageError
from ..shapes import NamedTuple

LOOPBACK = "127.0.0.1"


class Address(NamedTuple):
    """Where something listens."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str, example: int = 8080) -> Address:
        """HOST:PORT, [HOST]:PORT, or a port alone, which is on this machine only."""
        host, _, port = text.rpartition(":")
        host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
        if not (port.isascii() and port.isdigit() and int(port) < 65536) or (":" in host and f"[{host}]" not in text):
            hint = f"Write HOST:PORT, for example {LOOPBACK}:{example}, or only the port for {LOOPBACK}."
            raise UsageError(f"{text!r} is not an address to listen at", hint=hint)
        return cls(host or LOOPBACK, int(port))

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
