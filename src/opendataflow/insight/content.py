"""Content: what is published is read again, every byte of it, and compared with what was published."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from .. import files
from ..errors import OdfError
from ..model.selector import Selector
from ..project import Project, misplaced
from ..project.trust import require
from ..store import Published, Store
from .flow import datasets_in_order
from .selection import select

_READERS = 4


@dataclass(frozen=True, slots=True)
class ChangedContent:
    """One way in which a published chunk is not what was published."""

    datasetid: str
    dataid: str
    version: int
    why: str


@dataclass(frozen=True, slots=True)
class ContentCheck:
    """What was read again, what differs, and how many files could only be compared by size and time."""

    chunks: int
    files: int
    bytes: int
    without_checksum: int
    problems: tuple[ChangedContent, ...]
    left_out: tuple[str, ...]


def published_versions(
    store: Store, project: Project, dataset: str | None, words: Sequence[str]
) -> tuple[list[Published], list[str]]:
    """The current versions of these chunks, or of everything that has files; and what may not be looked at."""
    store.check_environment(project.environment.name)
    catalogue = store.catalogue()
    wanted = Selector((dataset,) if dataset else (), tuple(words))
    chosen = {each.datasetid: set(each.dataids) for each in select(store, wanted)} if words else {}
    versions: list[Published] = []
    left_out: list[str] = []
    for name in [catalogue.dataset(dataset).datasetid] if dataset else datasets_in_order(catalogue):
        known = catalogue.dataset(name)
        if known.kind == "table" or known.is_only_tracked:
            if dataset:
                left_out.append(f"{name} has no files")
            continue
        try:
            require(project, known, store.applied, on_spark=False)
        except OdfError as problem:
            left_out.append(f"{name}: {problem.message}")
            continue
        current = store.views.all_published(name)
        versions += [version for version in current if not words or version.dataid in chosen.get(name, ())]
    return versions, left_out


def read_again(project: Project, versions: Sequence[Published], left_out: Sequence[str] = ()) -> ContentCheck:
    """Read every file of these versions, and name each one that differs."""

    def compare(version: Published) -> list[ChangedContent]:
        return [
            ChangedContent(version.datasetid, version.dataid, version.version, why)
            for why in _differences(project, version)
        ]

    with ThreadPoolExecutor(_READERS) as readers:
        problems = [problem for found in readers.map(compare, versions) for problem in found]
    all_files = [file for version in versions for file in version.manifest.files]
    return ContentCheck(
        len(versions),
        len(all_files),
        sum(file.bytes for file in all_files),
        sum(1 for file in all_files if not file.checksum),
        tuple(problems),
        tuple(left_out),
    )


def _differences(project: Project, version: Published) -> Iterator[str]:
    try:
        problem = misplaced(project.environment, version.manifest)
        if problem:
            yield problem
        else:
            yield from files.differences(version.manifest, by_content=True)
    except OdfError as error:
        yield error.message
