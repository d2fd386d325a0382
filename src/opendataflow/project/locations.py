"""Locations: where a chunk is, and whether that belongs to the environment."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import unquote

from ..errors import BadConfig, InvalidPath
from ..model import Dataset, InputChunk, Manifest
from ..model.ids import shown
from ..model.roots import Roots
from .declared import Environment, Project

_URL = r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)(.*)"


def resolve_location(
    project_or_environment: Project | Environment, dataset: Dataset, dataid: str, must_be_inside: bool = True
) -> str:
    """The absolute location of one chunk, or InvalidPath; empty for a dataset without a location.

    A relative location lies under the first root; all roots count for an absolute one.
    """
    environment = project_or_environment
    if isinstance(environment, Project):
        environment = environment.environment
    location = dataset.location_of(dataid)
    if not location:
        return ""
    if strays(dataset.location):
        raise InvalidPath(
            f"dataset {dataset.datasetid}: {shown(dataset.location, 200)} cannot be a location",
            hint="Write it without backslashes, and without .. after a placeholder.",
        )
    base = environment.roots[0] if environment.roots else ""
    location = absolute(location, base) if base or _is_absolute(location) else location
    if must_be_inside and not is_inside(location, environment.roots):
        roots = ", ".join(environment.roots) or "it has none"
        raise InvalidPath(
            f"dataset {dataset.datasetid}, dataid {dataid}: {shown(location, 200)} is outside the roots "
            f"of environment {environment.name} ({roots})",
            hint=f"Its location is {shown(dataset.location, 200)}. Is this the right environment?",
        )
    return location


def strays(template: str) -> bool:
    """Whether a location could lead elsewhere than it says: by a backslash, which readers take for an escape, or by `..`
    after a placeholder, where it must stay with its chunk."""
    return "\\" in template or ".." in template.partition("{")[2].split("/")


def location_of(environment: Environment, dataset: Dataset, dataid: str) -> str:
    """The absolute location of a chunk by its dataset's template, inside the environment's roots where any are declared."""
    return resolve_location(environment, dataset, dataid, must_be_inside=environment.is_declared)


def roots_of(project: Project, store_url: str) -> Roots:
    """What the locations of versions are kept relative to: the environment's roots; without a project file, the folder of
    the store's own file, from wherever somebody calls."""
    if project.environment.is_declared:
        return Roots(project.environment.roots)
    path = store_url.removeprefix("sqlite:///")
    return Roots(store_folder=os.path.dirname(os.path.abspath(path)) if path != store_url else "")


def is_inside(location: str, roots: Sequence[str]) -> bool:
    """Whether an absolute path or URL lies in one of the roots, once `..` and symbolic links are followed."""
    return any(_contains(root, location) for root in roots)


def leads_outside(environment: Environment, location: str, *, always: bool = False) -> str:
    """What leads out of the environment's roots: the location itself, or a link inside it; empty when nothing does.

    Without a project file nobody declared any roots: then its own folder counts, for whoever always asks.
    """
    if not (environment.is_declared or always):
        return ""
    from .. import files  # here, since what is only tracked needs no look

    return next((path for path in (location, *files.links(location)) if not is_inside(path, environment.roots)), "")


def misplaced(environment: Environment, manifest: Manifest, *, always: bool = False) -> str:
    """Why nobody may look at what a manifest says was published: it leads elsewhere, or out of the roots; empty when one may.

    A manifest is a row of the store, which whoever may write rows could have made up.
    """
    from .. import files  # here, since what is only tracked needs no look

    outside = files.ill_named(manifest)
    if outside or not manifest.location:
        return outside
    outside = leads_outside(environment, manifest.location, always=always)
    return f"{outside} leads outside the roots of environment {environment.name}" if outside else ""


def check_places(
    environment: Environment, dataset: Dataset, chunks: Iterable[InputChunk], *, always: bool = False
) -> None:
    """InvalidPath for a published chunk whose manifest leads elsewhere than into the environment."""
    for chunk in chunks:
        is_of_files = chunk.manifest and dataset.kind != "table"
        problem = misplaced(environment, chunk.manifest, always=always) if is_of_files and chunk.manifest else ""
        if problem:
            raise InvalidPath(
                f"{dataset.datasetid} {chunk.dataid}: {problem}",
                hint=f"See where it was published: odf explain {dataset.datasetid} {chunk.dataid}",
            )


def absolute(location: str, base: str) -> str:
    """The location without `..`; a relative one is joined to the base, which may be a URL."""
    if not _is_absolute(location):
        location = f"{base if base.endswith('/') else base + '/'}{location}"
    location = _without_file_scheme(location)
    url = _url(location)
    if url:
        path = _normal(url[3])
        return f"{url[1].lower()}://{url[2]}{'' if url[2] and path == '/' else path}"
    return _normal(location)


def check_written(location: str) -> str:
    """The location itself, or BadConfig for one that would be taken for something else."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", location) and not _url(location) and not location.startswith("file:/"):
        raise BadConfig(
            f"{shown(location)} is neither a path nor a URL", hint="A URL has a host, which may be empty: hdfs:///path"
        )
    return location


def store_address(url: str, folder: Path) -> str:
    """The store's address; the path of a SQLite file is relative to the folder."""
    path = url.removeprefix("sqlite:///")
    return url if path == url else f"sqlite:///{os.path.normpath(folder / path)}"


def _url(location: str) -> re.Match[str] | None:
    return re.fullmatch(_URL, location, re.DOTALL) if "://" in location else None


def _is_absolute(location: str) -> bool:
    return location.startswith(("/", "file:/")) or bool(_url(location))


def _without_file_scheme(location: str) -> str:
    for prefix in ("file://localhost/", "file:///", "file:/"):
        if location.startswith(prefix) and (prefix != "file:/" or not location.startswith("file://")):
            return "/" + location.removeprefix(prefix)
    return location


def _normal(path: str) -> str:
    return posixpath.normpath("/" + path.lstrip("/"))


def _contains(root: str, location: str) -> bool:
    root, location = _without_file_scheme(root), _without_file_scheme(location)
    root_url, location_url = _url(root), _url(location)
    if root_url and location_url:
        same_host = root_url[1].lower() == location_url[1].lower() and root_url[2] == location_url[2]
        return (
            same_host and not _hides_dots(location_url[3]) and _is_under(_normal(location_url[3]), _normal(root_url[3]))
        )
    if root_url or location_url or not location.startswith("/") or not root.startswith("/"):
        return False
    try:
        return _is_under(os.path.realpath(location), os.path.realpath(root))
    except (OSError, ValueError):
        return False


def _is_under(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _hides_dots(path: str) -> bool:
    """Some readers of URLs decode %2e, others do not: nobody shall be led out that way."""
    return "%" in path and ".." in unquote(path).replace("\\", "/").split("/")
