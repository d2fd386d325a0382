"""Hosts: whether a dataset is on those of its environment, and whether anybody vouches for where its password goes."""

from __future__ import annotations

import os

from ..errors import InvalidPath, UntrustedDefinition
from ..model import Dataset
from ..model.address import Host, address_of, hosts_of, split_host
from ..model.dataset import POSTGRES
from ..tokens import is_bound
from .declared import Environment, Project


def outside_hosts(environment: Environment, dataset: Dataset) -> str:
    """Which host of a dataset is not one of the environment's, in words; empty when all are, or when it lists none."""
    if not environment.hosts:
        return ""
    for host in hosts_of(dataset) or _where_psql_looks(dataset):
        if host.name and not host.is_among(environment.hosts, at_any_port=True):
            known = ", ".join(environment.hosts)
            return f"dataset {dataset.datasetid} is on host {host}; environment {environment.name} has {known}"
    return ""


def _where_psql_looks(dataset: Dataset) -> tuple[Host, ...]:
    """Where a table of PostgreSQL is that has neither a host nor a password: the worker's own environment says."""
    if dataset.kind != "table" or dataset.format not in POSTGRES or dataset.encryptedpass:
        return ()
    names = (os.environ.get(name, "") for name in ("PGHOST", "PGHOSTADDR", "PGSERVICE"))
    return tuple(split_host(name, os.environ.get("PGPORT", "")) for name in names if name and not name.startswith("/"))


def vouched(project: Project, dataset: Dataset) -> bool:
    """Whether somebody but the store says that the password of a dataset belongs where the store sends it."""
    if any(address_of(declared) == address_of(dataset) for declared in _declared(project, dataset)):
        return True
    listed = (*project.environment.hosts, *project.trust.hosts)
    return all(host.is_here or host.is_among(listed) for host in hosts_of(dataset))


def check_password_may_go(project: Project, dataset: Dataset) -> None:
    """Refuse to send a password where nothing but the store says that it belongs, or in a way that only the store allows."""
    problem = outside_hosts(project.environment, dataset)
    if problem:
        raise InvalidPath(problem, hint="Is this the right environment? No password is sent elsewhere.")
    name, where = dataset.datasetid, address_of(dataset)
    allowed = dataset.options.get("require_auth")
    if allowed and not any(declared.options.get("require_auth") == allowed for declared in _declared(project, dataset)):
        raise UntrustedDefinition(
            f"dataset {name}: only the store says require_auth, by which its password could be sent in clear text",
            hint=f"Declare it in the project file, if it is meant: [dataset.{name}] require_auth = …",
        )
    if not is_bound(dataset.encryptedpass) and not vouched(project, dataset):
        raise UntrustedDefinition(
            f"the password of dataset {name} would go to {where}: only the store says so, and the token is bound to no address",
            hint=f"If it belongs there: odf crypt rekey --for {name} --same-key. Or list the host under [trust] hosts.",
        )


def _declared(project: Project, dataset: Dataset) -> list[Dataset]:
    return [declared for declared in project.datasets if declared.datasetid == dataset.datasetid]
