"""What a project declares: frozen data, read once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import BadConfig
from ..model import Dataset, Job, Pool

if TYPE_CHECKING:
    from .notify import Notify

DEFAULT_ENVIRONMENT = "default"
DEFAULT_STORE = "sqlite:///dataflow.db"
DEFAULT_LOGS = ".odf/logs"
DEFAULT_JOBS = "jobs"


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

    @property
    def is_toml(self) -> bool:
        """Whether there is a dataflow.toml, which declares things; a dataflow.properties only names the store."""
        return self.file is not None and self.file.suffix == ".toml"

    def job(self, jobid: str) -> Job | None:
        """The job of this name that the project file declares, if it does."""
        return next((job for job in self.jobs if job.jobid == jobid), None)
