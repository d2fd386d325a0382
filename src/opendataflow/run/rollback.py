"""Rolls a chunk back to an older version, if that version's files are unchanged."""

from __future__ import annotations

from .. import files
from ..errors import BadTransition, InvalidPath
from ..project import Project, misplaced
from ..store import RolledBack, Store
from ..store.engine.versions import way_to_renew


def rollback(
    store: Store,
    project: Project,
    datasetid: str,
    dataid: str,
    to: int | None = None,
    *,
    why: str | None = None,
    dry_run: bool = False,
    seen: str = "",
) -> list[RolledBack]:
    """Check the files of the older version, then make it current; returns the changes."""
    environment = project.environment
    store.check_environment(environment.name)
    planned = store.rollback(datasetid, dataid, to, dry_run=True)
    for name, chunk, _, version in planned:
        published = store.views.manifest(name, chunk, version)
        problem = misplaced(environment, published.manifest) if published else ""
        if problem:
            raise InvalidPath(
                f"{name} {chunk} version {version}: {problem}",
                hint=f"If the environment was moved, produce the chunk again: odf resubmit {name} {chunk}",
            )
        verify = store.known.dataset(name).options.get("verify")
        difference = files.difference(published.manifest, by_content=verify != files.STAT) if published else ""
        if difference:
            raise BadTransition(
                f"{name} {chunk} version {version} is not what was published: {difference}",
                hint=way_to_renew(store.known, name, chunk),
            )
    if dry_run:
        return planned
    # The version that was checked, even if another one is published meanwhile.
    checked = next(version for name, chunk, _, version in planned if (name, chunk) == (datasetid, dataid))
    return store.rollback(datasetid, dataid, checked, why=why, seen=seen)
