"""Address: on which hosts a dataset is, whether it says so by its hostname or inside a JDBC address."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import unquote

from ..errors import BadDefinition
from .dataset import Dataset
from .ids import shown

# How a server may ask for a password, in libpq's words.
AUTH = ("scram-sha-256", "md5", "password", "gss", "none")

_PORTS = {  # the usual port of a database is the same as none
    "postgresql": "5432",
    "mysql": "3306",
    "mariadb": "3306",
    "sqlserver": "1433",
    "oracle": "1521",
    "db2": "50000",
}
_EMBEDDED = ("derby", "h2", "hsqldb", "sqlite", "duckdb")
_HERE = ("", "localhost", "127.0.0.1", "::1")
_HOST = r"(?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?"
_is_host = re.compile(_HOST).fullmatch
_jdbc = re.compile(r"jdbc:([a-z0-9]+):(.*)", re.IGNORECASE | re.DOTALL).fullmatch
# What else a driver finds between its name and the hosts: jdbc:mysql:replication://a,b/shop
_authority = re.compile(r"(?:[a-z0-9+]+:)*//([^/]*)(?:/.*)?", re.IGNORECASE | re.DOTALL).fullmatch
# //host:port/service, host:port/service or host:port:sid; a word alone is an alias that leads anywhere.
_oracle = re.compile(
    rf"thin:@(?:(?:tcps?:)?//({_HOST})|((?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]):[0-9]+))(?:[:/][^@()]*)?", re.IGNORECASE
).fullmatch
# Parameters by which a driver goes elsewhere than to the host before them.
_leads_elsewhere = re.compile(
    r"(?:^|[?;&])\s*(?:server|servername|host|hostname|hosts|address|addresses|pghost|port|portnumber|pgport|instancename"
    r"|failoverpartner|failoverpartnerserver|clientreroutealternateservername|service|tnsname|dnssrv"
    r"|socketfactory|socketfactoryarg|socksproxyhost|proxyhost|localsocket|pipe|namedpipepath)\s*=",
    re.IGNORECASE,
).search


class Host(NamedTuple):
    """A host and its port; no name is this machine by its socket, and no port is the usual one."""

    name: str
    port: str = ""

    def __str__(self) -> str:
        name = f"[{self.name}]" if ":" in self.name else self.name or "localhost"
        return f"{name}:{self.port}" if self.port else name

    @property
    def is_here(self) -> bool:
        """Whether this is the machine itself, by its name or by the folder of a socket."""
        return self.name in _HERE or self.name.startswith(("/", "@"))

    def is_among(self, listed: Iterable[str], *, at_any_port: bool = False) -> bool:
        """Whether a list of hosts has it: as host:port, or as host alone when the port is the usual one."""
        known = {_split(name, _PORTS["postgresql"]) for name in listed}
        return self in known or (at_any_port and Host(self.name) in known)


class Address(NamedTuple):
    """Where a password is sent: hosts, database and user, and the JDBC address without its parameters."""

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
    """Every host that a dataset names, none when it names none; BadDefinition when nobody can tell from its url."""
    url, parameters = _parts_of(dataset)
    hosts = _named_hosts(dataset)
    if not url:
        return hosts
    found = _hosts_in(url) if not _leads_elsewhere(unquote(parameters)) else None
    if found is None:
        raise BadDefinition(
            f"dataset {dataset.datasetid}: nobody can tell to which host its url leads: {shown(url, 100)}",
            hint="Write it with the host after //, and without parameters that name another: jdbc:mysql://db.example/shop",
        )
    return (*hosts, *found)


def split_host(hostname: str, port: str = "") -> Host:
    """Host and port of what a dataset calls its hostname: db, db:5433, [::1]:5433 or the folder of a socket."""
    if hostname.startswith("["):
        name, _, rest = hostname[1:].partition("]")
        return Host(name, rest.removeprefix(":") or port)
    if hostname.count(":") == 1 and not hostname.startswith("/"):
        name, _, own = hostname.partition(":")
        return Host(name, own or port)
    return Host(hostname, port)


def _named_hosts(dataset: Dataset) -> tuple[Host, ...]:
    port = str(dataset.options.get("port", ""))
    if not dataset.hostname and not port:
        return ()
    # libpq takes a list of hosts as well.
    return tuple(_split(name, _PORTS["postgresql"], port) for name in dataset.hostname.split(","))


def _split(hostname: str, usual: str, port: str = "") -> Host:
    host = split_host(hostname.strip(), port)
    return Host(host.name.lower(), "" if host.port == usual else host.port)


def _parts_of(dataset: Dataset) -> tuple[str, str]:
    url = str(dataset.options.get("url", ""))
    end = re.search("[?;]", url)
    return (url[: end.start()], url[end.start() :]) if end else (url, "")


def _hosts_in(url: str) -> tuple[Host, ...] | None:
    match = _jdbc(url)
    if match is None:
        return None
    kind, rest = match[1].lower(), match[2]
    usual = _PORTS.get(kind, "")
    if kind == "oracle":
        match = _oracle(rest)
        return (_split(match[1] or match[2], usual),) if match else None
    if match := _authority(rest):
        names = match[1].split(",")
        if match[1] and not all(map(_is_host, names)):
            return None
        return tuple(_split(name or "localhost", usual) for name in names)
    if kind == "postgresql" and "/" not in rest:  # a database alone is one of this machine
        return (Host("localhost"),)
    return (
        () if kind in _EMBEDDED and "//" not in rest and not rest.lower().startswith(("md:", "motherduck:")) else None
    )
