"""Find the hosts of a JDBC address as its driver reads it."""

from __future__ import annotations

import re
from urllib.parse import unquote

from .address import Host, normal_host

_PORTS = {  # default ports, treated like no port
    "postgresql": "5432",
    "mysql": "3306",
    "mariadb": "3306",
    "sqlserver": "1433",
    "oracle": "1521",
    "db2": "50000",
}
_EMBEDDED = ("derby", "h2", "hsqldb", "sqlite", "duckdb")
_SERVICES = ("md:", "motherduck:")  # DuckDB's cloud service
_HOST = r"(?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?"
_is_host = re.compile(_HOST).fullmatch
_jdbc = re.compile(r"jdbc:([a-z0-9]+):(.*)", re.IGNORECASE | re.DOTALL).fullmatch
# What drivers accept between their name and the hosts: jdbc:mysql:replication://a,b/shop
_authority = re.compile(r"(?:[a-z0-9+]+:)*//([^/]*)(?:/.*)?", re.IGNORECASE | re.DOTALL).fullmatch
# //host:port/service, host:port/service or host:port:sid; a single word is an alias with unknown hosts.
_oracle = re.compile(
    rf"thin:@(?:(?:tcps?:)?//({_HOST})|((?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]):[0-9]+))(?:[:/][^@()]*)?", re.IGNORECASE
).fullmatch
# Parameters that redirect a driver to other hosts.
_leads_elsewhere = re.compile(
    r"(?:^|[?;&])\s*(?:server|servername|host|hostname|hosts|address|addresses|pghost|port|portnumber|pgport|instancename"
    r"|failoverpartner|failoverpartnerserver|clientreroutealternateservername|service|tnsname|dnssrv"
    r"|socketfactory|socketfactoryarg|socksproxyhost|proxyhost|localsocket|pipe|namedpipepath)\s*=",
    re.IGNORECASE,
).search


def hosts_in(url: str, parameters: str) -> tuple[Host, ...] | None:
    """The hosts of an address, none for an embedded database; None if they cannot be determined."""
    match = _jdbc(url)
    if match is None or _leads_elsewhere(unquote(parameters)):
        return None
    kind, rest = match[1].lower(), match[2]
    usual = _PORTS.get(kind, "")
    if kind == "oracle":
        match = _oracle(rest)
        return (normal_host(match[1] or match[2], usual=usual),) if match else None
    if match := _authority(rest):
        names = match[1].split(",")
        if match[1] and not all(map(_is_host, names)):
            return None
        return tuple(normal_host(name or "localhost", usual=usual) for name in names)
    if kind == "postgresql" and "/" not in rest:  # without a host: the local machine
        return (Host("localhost"),)
    is_here = kind in _EMBEDDED and "//" not in rest and not rest.lower().startswith(_SERVICES)
    return () if is_here else None
