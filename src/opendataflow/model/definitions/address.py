"""Find the hosts of a dataset, from its hostname or its JDBC address."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ...errors import BadDefinition
from .dataset import Dataset
from .ids import shown

_USUAL_PORT = "5432"  # PostgreSQL's default, treated like no port
_HERE = ("", "localhost", "127.0.0.1", "::1", "/tmp")  # /tmp is the default socket folder of libpq
# Socket folders in which only the server's user can create files.
_SERVERS_OWN = ("/run/postgresql", "/var/run/postgresql")


class Host(NamedTuple):
    """A host and its port; no host is the local socket, and no port is the default port."""

    name: str
    port: str = ""

    def __str__(self) -> str:
        name = f"[{self.name}]" if ":" in self.name else self.name or "localhost"
        return f"{name}:{self.port}" if self.port else name

    @property
    def is_here(self) -> bool:
        """Whether this is the local machine: at the default port, since any user can listen at others, or libpq's socket."""
        return (self.name in _HERE and not self.port) or self.name in _SERVERS_OWN

    def is_among(self, listed: Iterable[str], *, at_any_port: bool = False) -> bool:
        """Whether a list of hosts contains it: as host:port, or as host alone for the default port."""
        known = {normal_host(name) for name in listed}
        return self in known or (at_any_port and Host(self.name) in known)


class Address(NamedTuple):
    """The target of a password: hosts, database and user, and the JDBC address without its parameters."""

    hosts: tuple[str, ...] = ()
    database: str = ""
    username: str = ""
    url: str = ""

    def __str__(self) -> str:
        where = self.url or ",".join(self.hosts) or "localhost"
        who = f"{self.username}@" if self.username else ""
        return f"{who}{where}/{self.database}" if self.database and not self.url else f"{who}{where}"


def address_of(dataset: Dataset) -> Address:
    """Where the password of a dataset is sent."""
    url, _ = _parts_of(dataset)
    return Address(tuple(map(str, _named_hosts(dataset))), dataset.database, dataset.username, url)


def hosts_of(dataset: Dataset) -> tuple[Host, ...]:
    """Every host of a dataset; empty if it has none. BadDefinition if the hosts of its url are unknown."""
    url, parameters = _parts_of(dataset)
    hosts = _named_hosts(dataset)
    if not url:
        return hosts
    from .jdbc import hosts_in  # imported here: few datasets have a url

    found = hosts_in(url, parameters)
    if found is None:
        raise BadDefinition(
            f"dataset {dataset.datasetid}: the host of its url cannot be determined: {shown(url, 100)}",
            hint="Write it with the host after //, and without parameters that name another: jdbc:mysql://db.example/shop",
        )
    return (*hosts, *found)


def split_host(hostname: str, port: str = "") -> Host:
    """The host and port of a hostname: db, db:5433, [::1]:5433 or a socket folder."""
    if hostname.startswith("["):
        name, _, rest = hostname[1:].partition("]")
        return Host(name, rest.removeprefix(":") or port)
    if hostname.count(":") == 1 and not hostname.startswith("/"):
        name, _, own_port = hostname.partition(":")
        return Host(name, own_port or port)
    return Host(hostname, port)


def normal_host(hostname: str, port: str = "", usual: str = _USUAL_PORT) -> Host:
    """Host and port in normal form, for comparison."""
    host = split_host(hostname.strip(), port)
    is_socket = host.name.startswith(("/", "@"))  # a path is case-sensitive
    return Host(host.name if is_socket else host.name.lower(), "" if host.port == usual else host.port)


def _named_hosts(dataset: Dataset) -> tuple[Host, ...]:
    port = str(dataset.options.get("port", ""))
    if not dataset.hostname and not port:
        return ()
    # libpq accepts a list of hosts
    return tuple(normal_host(name, port) for name in dataset.hostname.split(","))


def _parts_of(dataset: Dataset) -> tuple[str, str]:
    """The JDBC address without its parameters, and the parameters."""
    url = str(dataset.options.get("url", ""))
    end = min((at for at in map(url.find, "?;") if at >= 0), default=len(url))
    return url[:end], url[end:]
