"""What a project declares: frozen data, read once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import BadConfig
from ..model import Dataset, Job, Pool
from ..shapes import dataclass, field

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network

    from .notify import Notify

    Network = IPv4Network | IPv6Network

DEFAULT_ENVIRONMENT = "default"
DEFAULT_STORE = "sqlite:///dataflow.db"
DEFAULT_LOGS = ".odf/logs"
DEFAULT_JOBS = "jobs"
DEFAULT_LISTEN = "127.0.0.1:8460"

# The store keeps env items beside IN and OUT; the rest is what every run is told, or what leads to the key.
_RESERVED = ("IN", "OUT", "dataid", "jobid")
_RESERVED_PREFIXES = ("ODF_", "PASSKEY")


def is_reserved(name: str) -> bool:
    """Whether no env item of a job may have this name."""
    return name in _RESERVED or name.startswith(_RESERVED_PREFIXES)


@dataclass(frozen=True, slots=True)
class Environment:
    """One world of locations and its store; hosts are those of tables, and none means any that a dataset names."""

    name: str = "dev"
    roots: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    store_url: str = DEFAULT_STORE
    store_encrypted: str = field(default="", repr=False)
    is_declared: bool = True  # without a project file nobody said which locations belong to it: any may


@dataclass(frozen=True, slots=True)
class Trust:
    """What a definition in the store may do although no project file declares it: nothing but what is listed here."""

    items: tuple[str, ...] = ()  # env items that a script gets under their own names too
    hosts: tuple[str, ...] = ()  # where a password may be sent: host or host:port
    formats: tuple[str, ...] = ()
    options: tuple[str, ...] = ()  # keys of a dataset, and options of its reader and writer
    copies: tuple[str, ...] = ()  # jobs that may be a copy
    sql_checks: bool = False


@dataclass(frozen=True, slots=True)
class Lineage:
    """Whom OpenLineage events are sent to: files inside the project, and at most one address, with its encrypted key."""

    to: tuple[str, ...] = ()
    encrypted: str = field(default="", repr=False)
    namespace: str = ""

    @property
    def address(self) -> str:
        """The address of the server that events go to; BadConfig when there is none."""
        found = next((each for each in self.to if each.startswith(("http://", "https://"))), "")
        if not found:
            raise BadConfig("[lineage] names no server", hint='Declare it first in dataflow.toml: to = "https://…"')
        return found


@dataclass(frozen=True, slots=True)
class Token:
    """Somebody who comes with a token: only its hash is known, and what he may do."""

    name: str
    role: str
    hash: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Proxy:
    """A reverse proxy that says who somebody is: by this header, and only from these addresses."""

    header: str
    addresses: tuple[Network, ...]
    roles: Mapping[str, str] = field(default_factory=dict, hash=False)
    role: str = ""  # of everybody else whom it names; none: he is refused

    def is_from(self, address: str) -> bool:
        """Whether a connection from this address is the proxy's."""
        from ipaddress import ip_address

        try:
            found = ip_address(address)
        except ValueError:
            return False
        mapped = getattr(found, "ipv4_mapped", None)  # what came over IPv4 to a socket of both
        return any((mapped or found) in network for network in self.addresses)

    def role_of(self, user: str) -> str:
        """What somebody may do whom the proxy names; nothing where it is empty."""
        return self.roles.get(user, self.role)


@dataclass(frozen=True, slots=True)
class Web:
    """How the console is reached: where it listens, by which names, and who may do what."""

    listen: str = DEFAULT_LISTEN
    hosts: tuple[str, ...] = ()
    tokens: tuple[Token, ...] = ()
    proxy: Proxy | None = None

    @property
    def knows_visitors(self) -> bool:
        """Whether it can tell who somebody is; without that it may only listen on this machine."""
        return bool(self.tokens) or self.proxy is not None

    def token_of(self, text: str) -> Token | None:
        """Whose token this is; every one is compared, so that the time tells nothing."""
        from .web import is_token

        found = [token for token in self.tokens if is_token(text, token.hash)]
        return found[0] if found else None


@dataclass(frozen=True, slots=True)
class Project:
    """Everything that the project file declares, as it is in the selected environment."""

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
    notify: Notify | None = None  # who is told of what; nothing is looked at where nobody is
    lineage: Lineage = Lineage()
    web: Web = Web()  # how the console is reached: unless said otherwise, from this machine only

    @property
    def is_toml(self) -> bool:
        """Whether there is a dataflow.toml, which declares things; a dataflow.properties only names the store."""
        return self.file is not None and self.file.suffix == ".toml"

    def job(self, jobid: str) -> Job | None:
        """The job of this name that the project file declares, if it does."""
        return next((job for job in self.jobs if job.jobid == jobid), None)
