"""Defines the settings of a project as frozen data: environment, trust, lineage, console, and the project itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import BadConfig
from ..model import Dataset, Job, Pool

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network

    from .notify import Notify

    Network = IPv4Network | IPv6Network

DEFAULT_ENVIRONMENT = "default"
DEFAULT_STORE = "sqlite:///dataflow.db"
DEFAULT_LOGS = ".odf/logs"
DEFAULT_JOBS = "jobs"
DEFAULT_LISTEN = "127.0.0.1:8460"

# Item types of the store, variables of every run, and variables that lead to the key.
_RESERVED = ("IN", "OUT", "dataid", "jobid")
_RESERVED_PREFIXES = ("ODF_", "PASSKEY")


def is_reserved(name: str) -> bool:
    """Whether a name is not allowed for an env item of a job."""
    return name in _RESERVED or name.startswith(_RESERVED_PREFIXES)


@dataclass(frozen=True, slots=True)
class Environment:
    """A set of roots for files and hosts for tables, with its store; without hosts, any host of a dataset is allowed."""

    name: str = "dev"
    roots: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    store_url: str = DEFAULT_STORE
    store_encrypted: str = field(default="", repr=False)
    is_declared: bool = True  # without a project file, any location is allowed


@dataclass(frozen=True, slots=True)
class Trust:
    """What a definition in the store may do without a declaration in the project file."""

    items: tuple[str, ...] = ()  # env items that a script also gets under their own names
    hosts: tuple[str, ...] = ()  # hosts that a password may be sent to: host or host:port
    formats: tuple[str, ...] = ()
    options: tuple[str, ...] = ()  # keys of a dataset, and reader and writer options
    copies: tuple[str, ...] = ()  # jobs that may be copies
    sql_checks: bool = False


@dataclass(frozen=True, slots=True)
class LineageSettings:
    """The targets of OpenLineage events: files inside the project, and at most one address with its encrypted key."""

    to: tuple[str, ...] = ()
    encrypted: str = field(default="", repr=False)
    namespace: str = ""

    @property
    def address(self) -> str:
        """The address of the lineage server; BadConfig if none is declared."""
        found = next((each for each in self.to if each.startswith(("http://", "https://"))), "")
        if not found:
            raise BadConfig("[lineage] names no server", hint='Declare it first in dataflow.toml: to = "https://…"')
        return found


@dataclass(frozen=True, slots=True)
class Token:
    """An access token of the console, by its hash, and the role that it grants."""

    name: str
    role: str
    hash: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Proxy:
    """A reverse proxy that authenticates users with this header, from these addresses only."""

    header: str
    addresses: tuple[Network, ...]
    roles: Mapping[str, str] = field(default_factory=dict, hash=False)
    role: str = ""  # for users that are not listed; empty: refused

    def is_from(self, address: str) -> bool:
        """Whether this address is one of the proxy's."""
        from ipaddress import ip_address

        try:
            found = ip_address(address)
        except ValueError:
            return False
        mapped = getattr(found, "ipv4_mapped", None)  # an IPv4 connection to a dual-stack socket
        return any((mapped or found) in network for network in self.addresses)

    def role_of(self, user: str) -> str:
        """The role of a user that the proxy names; empty if none."""
        return self.roles.get(user, self.role)


@dataclass(frozen=True, slots=True)
class Web:
    """The console: its listen address, host names, tokens and proxy."""

    listen: str = DEFAULT_LISTEN
    hosts: tuple[str, ...] = ()
    tokens: tuple[Token, ...] = ()
    proxy: Proxy | None = None

    @property
    def knows_visitors(self) -> bool:
        """Whether visitors can sign in; otherwise the console may only listen on this machine."""
        return bool(self.tokens) or self.proxy is not None

    @property
    def proxy_risk(self) -> str:
        """The risk of a reverse proxy that names no users; empty if there are no tokens."""
        if not self.tokens or self.proxy is not None:
            return ""
        return (
            "a session that comes through a reverse proxy is bound to the proxy alone, so a stolen cookie works there: "
            "the proxy must speak HTTPS and send X-Forwarded-Proto, or name its users under [web.proxy]"
        )

    def token_of(self, text: str) -> Token | None:
        """The token with this text; all are compared, so that the time reveals nothing."""
        from .web import is_token

        found = [token for token in self.tokens if is_token(text, token.hash)]
        return found[0] if found else None


@dataclass(frozen=True, slots=True)
class Project:
    """Everything that the project file declares, for the selected environment."""

    folder: Path
    file: Path | None
    name: str
    job_folders: tuple[Path, ...]
    environment: Environment
    environments: tuple[str, ...]
    logs: Path
    datasets: tuple[Dataset, ...] = ()
    jobs: tuple[Job, ...] = ()
    pools: tuple[Pool, ...] = ()
    spark: Mapping[str, object] = field(default_factory=dict, hash=False)
    timezone: str = "UTC"
    trust: Trust = Trust()
    keep_log_tail: bool = False  # whether the last lines of a log go to the store
    notify: Notify | None = None  # None: notifications are not configured
    lineage: LineageSettings = LineageSettings()
    web: Web = Web()  # default: from this machine only

    @property
    def is_toml(self) -> bool:
        """Whether the project file is a dataflow.toml; a dataflow.properties names only the store."""
        return self.file is not None and self.file.suffix == ".toml"

    def job(self, jobid: str) -> Job | None:
        """The job that the project file declares under this name, or None."""
        return next((job for job in self.jobs if job.jobid == jobid), None)
