"""Checks the hosts of datasets against the environment, and whether a password may be sent to them."""

from __future__ import annotations

import os

from ..errors import InvalidPath, UntrustedDefinition
from ..model import Dataset
from ..model.definitions.address import Host, address_of, hosts_of, split_host
from ..model.definitions.dataset import POSTGRES
from ..tokens import is_bound
from .settings import Environment, Project


def outside_hosts(environment: Environment, dataset: Dataset) -> str:
    """The problem with a host that is not in the environment; empty if all are, or if the environment lists no hosts."""
    if not environment.hosts:
        return ""
    for host in hosts_of(dataset) or _libpq_hosts(dataset):
        if host.name and not host.is_among(environment.hosts, at_any_port=True):
            known = ", ".join(environment.hosts)
            return f"dataset {dataset.datasetid} is on host {host}; environment {environment.name} has {known}"
    return ""


def _libpq_hosts(dataset: Dataset) -> tuple[Host, ...]:
    """The hosts of a PostgreSQL table without a host and password, by libpq's environment variables."""
    if dataset.kind != "table" or dataset.format not in POSTGRES or dataset.encryptedpass:
        return ()
    names = (os.environ.get(name, "") for name in ("PGHOST", "PGHOSTADDR", "PGSERVICE"))
    return tuple(split_host(name, os.environ.get("PGPORT", "")) for name in names if name and not name.startswith("/"))


def is_vouched(project: Project, dataset: Dataset) -> bool:
    """Whether the project file or [trust] confirms the address that the store gives for the password of a dataset."""
    if any(address_of(declared) == address_of(dataset) for declared in _declared(project, dataset)):
        return True
    listed = (*project.environment.hosts, *project.trust.hosts)
    return all(host.is_here or host.is_among(listed) for host in hosts_of(dataset))


def check_password_may_go(project: Project, dataset: Dataset) -> None:
    """Refuse to send a password to an address, or by a method, that only the store declares."""
    problem = outside_hosts(project.environment, dataset)
    if problem:
        raise InvalidPath(problem, hint="Check that the environment is right. Passwords are sent only to its hosts.")
    name, where = dataset.datasetid, address_of(dataset)
    allowed = dataset.options.get("require_auth")
    if allowed and not any(declared.options.get("require_auth") == allowed for declared in _declared(project, dataset)):
        raise UntrustedDefinition(
            f"dataset {name}: only the store declares require_auth, which could send the password in clear text",
            hint=f"If this is intended, declare it in the project file: [dataset.{name}] require_auth = …",
        )
    if not is_bound(dataset.encryptedpass) and not is_vouched(project, dataset):
        raise UntrustedDefinition(
            f"the password of dataset {name} would be sent to {where}, which only the store declares; its token has no address",
            hint=f"If the address is right: odf crypt rekey --for {name} --same-key. Or list the host under [trust] hosts.",
        )


def _declared(project: Project, dataset: Dataset) -> list[Dataset]:
    return [declared for declared in project.datasets if declared.datasetid == dataset.datasetid]
