"""Resolves the locations of chunks and checks that they lie inside the environment's roots."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from ..errors import BadConfig, InvalidPath, OdfError
from ..model import Catalogue, Dataset, InputChunk, Manifest
from ..model.definitions.ids import shown
from ..model.roots import Roots
from .settings import Environment, Project

_URL = r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)(.*)"


def resolve_location(
    project_or_environment: Project | Environment, dataset: Dataset, dataid: str, must_be_inside: bool = True
) -> str:
    """The absolute location of one chunk, or InvalidPath; empty for a dataset without a location.

    A relative location is joined to the first root; an absolute one may lie in any root.
    """
    environment = project_or_environment
    if isinstance(environment, Project):
        environment = environment.environment
    location = dataset.location_of(dataid)
    if not location:
        return ""
    if strays(dataset.location):
        raise InvalidPath(
            f"dataset {dataset.datasetid}: {shown(dataset.location, 200)} is not a valid location",
            hint="Remove backslashes, and .. after a placeholder.",
        )
    base = environment.roots[0] if environment.roots else ""
    location = absolute(location, base) if base or _is_absolute(location) else location
    if must_be_inside and not is_inside(location, environment.roots):
        roots = ", ".join(environment.roots) or "none"
        raise InvalidPath(
            f"dataset {dataset.datasetid}, dataid {dataid}: {shown(location, 200)} is outside the roots "
            f"of environment {environment.name} ({roots})",
            hint=f"The location of the dataset is {shown(dataset.location, 200)}. Check that the environment is right.",
        )
    return location


def strays(template: str) -> bool:
    """Whether a location template is unsafe: it has a backslash, which readers parse as an escape, or `..` after a placeholder."""
    return "\\" in template or ".." in template.partition("{")[2].split("/")


def location_of(environment: Environment, dataset: Dataset, dataid: str) -> str:
    """The absolute location of a chunk by its dataset's template, inside the environment's roots if any are declared."""
    return resolve_location(environment, dataset, dataid, must_be_inside=environment.is_declared)


@dataclass(frozen=True, slots=True)
class Locations:
    """The locations of the chunks of one attempt, resolved once; empty if all datasets are only tracked.

    An invalid location, such as one outside the environment, raises its error when it is read.
    """

    found: Mapping[tuple[str, str], str | OdfError] = field(default_factory=dict)

    def of(self, datasetid: str, dataid: str) -> str:
        """The location of a chunk; empty if its dataset has none."""
        location = self.found.get((datasetid, dataid), "")
        if isinstance(location, OdfError):
            raise location
        return location


def locations_of(
    environment: Environment, catalogue: Catalogue, outputs: Iterable[str], dataid: str, inputs: Iterable[InputChunk]
) -> Locations:
    """The locations of the outputs of an attempt, and of the inputs whose manifests have no location."""
    without = ((chunk.datasetid, chunk.dataid) for chunk in inputs if not (chunk.manifest and chunk.manifest.location))
    found: dict[tuple[str, str], str | OdfError] = {}
    for chunk in (*without, *((name, dataid) for name in outputs)):
        try:
            found[chunk] = location_of(environment, catalogue.dataset(chunk[0]), chunk[1])
        except OdfError as problem:
            found[chunk] = problem
    return Locations(found)


def roots_of(project: Project, store_url: str) -> Roots:
    """The base for stored locations: the environment's roots, or the folder of the store's file without a project file."""
    if project.environment.is_declared:
        return Roots(project.environment.roots)
    path = store_url.removeprefix("sqlite:///")
    return Roots(store_folder=os.path.dirname(os.path.abspath(path)) if path != store_url else "")


def is_inside(location: str, roots: Sequence[str]) -> bool:
    """Whether an absolute path or URL lies in one of the roots, with `..` and symbolic links resolved."""
    return any(_contains(root, location) for root in roots)


def check_root(environment: Environment, dataset: Dataset, location: str) -> str:
    """The root of a location, or the bucket of a URL; InvalidPath if it does not exist or the location lies outside."""
    root = next((root for root in environment.roots if is_inside(location, [root])), None)
    if root is None:
        raise InvalidPath(
            f"dataset {dataset.datasetid}: {location} is outside the roots of environment {environment.name}",
            hint=f"The location of the dataset is {dataset.location}. Choose the environment to which it belongs: --env.",
        )
    from .. import files  # lazy: not needed for tracked datasets

    scheme, separator, rest = root.partition("://")
    bucket = f"{scheme}{separator}{rest.partition('/')[0]}" if separator and not rest.startswith("/") else root
    if not files.exists(bucket):
        raise InvalidPath(
            f"dataset {dataset.datasetid}: the root {bucket} of environment {environment.name} does not exist",
            hint="Mount it, or correct its address in the project file.",
        )
    return bucket


def leads_outside(environment: Environment, location: str, *, always: bool = False) -> str:
    """The path that leaves the environment's roots: the location or a link inside it; empty if none does.

    Without a project file no roots are declared: any location is allowed, unless `always` restricts it to the folder.
    """
    if not (environment.is_declared or always):
        return ""
    from .. import files  # lazy: not needed for tracked datasets

    return next((path for path in (location, *files.links(location)) if not is_inside(path, environment.roots)), "")


def misplaced(environment: Environment, manifest: Manifest, *, always: bool = False) -> str:
    """The reason why the files of a manifest may not be read: unsafe paths, or a location outside the roots; empty if none.

    A manifest is a row of the store, which any user with write access could have forged.
    """
    from .. import files  # lazy: not needed for tracked datasets

    outside = files.unsafe_name(manifest)
    if outside or not manifest.location:
        return outside
    outside = leads_outside(environment, manifest.location, always=always)
    return f"{outside} leads outside the roots of environment {environment.name}" if outside else ""


def check_places(
    environment: Environment, dataset: Dataset, chunks: Iterable[InputChunk], *, always: bool = False
) -> None:
    """InvalidPath for a published chunk whose manifest points outside the environment."""
    for chunk in chunks:
        has_files = chunk.manifest and dataset.kind != "table"
        problem = misplaced(environment, chunk.manifest, always=always) if has_files and chunk.manifest else ""
        if problem:
            raise InvalidPath(
                f"{dataset.datasetid} {chunk.dataid}: {problem}",
                hint=f"See where it was published: odf explain {dataset.datasetid} {chunk.dataid}",
            )


def absolute(location: str, base: str) -> str:
    """The absolute location without `..`; a relative location is joined to the base, which may be a URL."""
    if not _is_absolute(location):
        location = f"{base if base.endswith('/') else base + '/'}{location}"
    location = _without_file_scheme(location)
    url = _url(location)
    if url:
        path = _normal(url[3])
        return f"{url[1].lower()}://{url[2]}{'' if url[2] and path == '/' else path}"
    return _normal(location)


def check_written(location: str) -> str:
    """The location itself, or BadConfig if it looks like a URL but is not valid."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", location) and not _url(location) and not location.startswith("file:/"):
        raise BadConfig(
            f"{shown(location)} is neither a path nor a URL",
            hint="Write a URL with a host, which may be empty: hdfs:///path",
        )
    return location


def store_address(url: str, folder: Path) -> str:
    """The store's address, with the path of a SQLite file made absolute."""
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
    """Whether a URL path has `..` in percent-encoding, which some readers decode."""
    return "%" in path and ".." in unquote(path).replace("\\", "/").split("/")
