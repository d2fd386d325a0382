"""Naming: what a dataset is called in a lineage event, by the naming rules of OpenLineage; never with a password."""

from __future__ import annotations

import re
from typing import NamedTuple

from ..errors import OdfError
from ..model import Dataset
from ..model.definitions.address import split_host
from ..model.definitions.dataset import POSTGRES
from ..project import Environment
from ..project.locations import absolute
from ..tokens import without_secrets

_url = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)(/.*)?").fullmatch
_SCHEMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}  # as file systems say it → as lineage servers know it


class Name(NamedTuple):
    """A namespace, and a name that is unique in it."""

    namespace: str
    name: str


def name_of(environment: Environment, dataset: Dataset, namespace: str) -> Name:
    """The name of a dataset: its table or its folder of chunks; what is only tracked has the namespace of its jobs."""
    return Name(*map(without_secrets, _name_of(environment, dataset, namespace)))


def _name_of(environment: Environment, dataset: Dataset, namespace: str) -> Name:
    try:
        if dataset.kind == "table" or dataset.tablename:
            return _table(dataset) or Name(namespace, dataset.datasetid)
        if dataset.location:
            return _files(environment, dataset)
    except OdfError:
        pass  # an address that cannot be parsed names nothing
    return Name(namespace, dataset.datasetid)


def _table(dataset: Dataset) -> Name | None:
    url = str(dataset.options.get("url", ""))
    if dataset.format in POSTGRES and not url:
        host = split_host(_without_user(dataset.hostname.split(",")[0]), str(dataset.options.get("port", "")))
        where = host.name if host.name and not host.name.startswith(("/", "@")) else "localhost"
        named = f"[{where}]" if ":" in where else where
        name = ".".join((dataset.database or "postgres", dataset.schemaname or "public", dataset.tablename))
        return Name(f"postgres://{named}:{host.port or '5432'}", name)
    found = re.match(r"jdbc:([a-z]+):.*?//([^/;?]+)", url)
    if not found:
        return None
    parts = (dataset.database, dataset.schemaname, dataset.tablename)
    return Name(f"{found[1]}://{_without_user(found[2])}", ".".join(filter(None, parts)))


def _files(environment: Environment, dataset: Dataset) -> Name:
    """The folder that holds the chunks: all of the location that is the same for every dataid."""
    template = dataset.location
    if "{" in template:
        template = template[: template.index("{")].rpartition("/")[0] or ("/" if template.startswith("/") else ".")
    found = absolute(template, environment.roots[0] if environment.roots else "/")
    url = _url(found)
    if url is None:
        return Name("file", found)
    scheme, host, path = url[1].lower(), _without_user(url[2]), url[3] or "/"
    return Name(f"{_SCHEMES.get(scheme, scheme)}://{host}", path.strip("/") or "/")


def _without_user(host: str) -> str:
    return host.rpartition("@")[2]
