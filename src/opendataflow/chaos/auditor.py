"""The auditor: every promise about a store and its files, asked at once. After a fault of any kind it must find nothing."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ..files.data_files import is_data
from ..insight.content import published_versions, read_again
from ..project import Project
from ..run import vacuum
from ..store import Published, Store
from ..store.views import Breach
from ..store.views.soundness import PROMISES as OF_THE_STORE

UNDAMAGED = "the database itself is whole"
AS_PUBLISHED = "published files are what was published"
GOLDEN = "published data is what the job makes of its input"
NOTHING_STRAY = "nothing stray is left after a vacuum"
NO_SECRET = "no secret is in a store, a log or a file"

PROMISES = (UNDAMAGED, *OF_THE_STORE, AS_PUBLISHED, GOLDEN, NOTHING_STRAY, NO_SECRET)
_BLOCK = 1 << 20


def breaches(
    store: Store,
    project: Project,
    *,
    golden: Mapping[tuple[str, str], bytes] | None = None,
    secrets: Iterable[bytes] = (),
    folders: Iterable[Path] = (),
) -> list[Breach]:
    """Everything that is not as promised. What no version points to is vacuumed first.

    golden is what chunks must hold, by dataset and dataid. These secrets must be nowhere in the store, nor in any file of
    these folders or of the project's own.
    """
    found = [Breach(UNDAMAGED, damage) for damage in store.damage()]
    found += store.breaches()
    vacuum.vacuum(store, project, vacuum.plan(store, project))
    versions, left_out = published_versions(store, project, None, ())
    read = read_again(project, versions, left_out)
    found += [Breach(AS_PUBLISHED, f"{each.datasetid} {each.dataid}: {each.why}") for each in read.problems]
    found += [Breach(AS_PUBLISHED, f"not looked at: {note}") for note in read.left_out]
    found += _not_golden(store, golden or {})
    found += [Breach(NOTHING_STRAY, path) for path in _strays(store, project)]
    found += _leaks(store, project, list(secrets), folders)
    return found


def _not_golden(store: Store, golden: Mapping[tuple[str, str], bytes]) -> Iterator[Breach]:
    for (datasetid, dataid), expected in sorted(golden.items()):
        chunk = store.views.chunk(datasetid, dataid)
        published = (
            store.views.manifest(datasetid, dataid, chunk.version) if chunk and chunk.status == "READY" else None
        )
        if published is None:
            yield Breach(GOLDEN, f"{datasetid} {dataid} is {chunk.status if chunk else 'not there'}")
        elif (content := _content(published)) != expected:
            yield Breach(GOLDEN, f"{datasetid} {dataid} holds {content[:80]!r}, not {expected[:80]!r}")


def _content(version: Published) -> bytes:
    location = Path(version.manifest.location)
    files = sorted(location.rglob("*")) if location.is_dir() else [location]
    is_one = not location.is_dir()
    data = [path for path in files if path.is_file() and (is_one or is_data(str(path.relative_to(location))))]
    return b"".join(path.read_bytes() for path in data)


def _strays(store: Store, project: Project) -> Iterator[str]:
    """Files below the roots that belong to no version, and to no location that somebody else writes."""
    catalogue = store.catalogue()
    theirs = tuple(
        os.path.join(os.path.realpath(root), dataset.location.partition("{")[0])
        for dataset in catalogue.datasets.values()
        if dataset.location and catalogue.producer(dataset.datasetid) is None
        for root in project.environment.roots
        if "://" not in root
    )
    known = {
        os.path.realpath(published.manifest.location)
        for datasetid in catalogue.datasets
        for chunk in store.views.all_chunks(datasetid)
        for published in store.views.manifests(datasetid, chunk.dataid)
        if published.manifest.location
    }
    for root in project.environment.roots:
        if "://" in root:
            continue
        for folder, _, names in os.walk(os.path.realpath(root)):
            for name in names:
                path = os.path.join(folder, name)
                if not path.startswith(theirs) and known.isdisjoint([path, *map(str, Path(path).parents)]):
                    yield path


def _leaks(store: Store, project: Project, secrets: list[bytes], folders: Iterable[Path]) -> Iterator[Breach]:
    if not secrets:
        return
    with tempfile.TemporaryDirectory(prefix="odf-audit-") as name:
        store.export(Path(name) / "store")
        for folder in (Path(name), project.logs, project.folder, *folders):
            for path in sorted(folder.rglob("*")):
                if path.is_file() and not path.is_symlink() and _holds(path, secrets):
                    yield Breach(NO_SECRET, str(path))


def _holds(path: Path, secrets: list[bytes]) -> bool:
    longest = max(map(len, secrets))
    tail = b""
    try:
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                if any(secret in tail + block for secret in secrets):
                    return True
                tail = block[-longest:]
    except OSError:
        return False  # it went away, or is not ours to read
    return False
