"""Rollback: a chunk becomes an older version of itself again, if what was published then is still what lies there."""

from __future__ import annotations

from .. import files
from ..errors import BadTransition, InvalidPath
from ..project import Project, misplaced
from ..store import RolledBack, Store


def rollback(
    store: Store,
    project: Project,
    datasetid: str,
    dataid: str,
    to: int | None = None,
    *,
    why: str | None = None,
    dry_run: bool = False,
) -> list[RolledBack]:
    """Look at the files of the older version, then move the pointer: (datasetid, dataid, version before, after) of each."""
    environment = project.environment
    store.check_environment(environment.name)
    planned = store.rollback(datasetid, dataid, to, dry_run=True)
    for name, chunk, _, version in planned:
        published = store.manifest(name, chunk, version)
        problem = misplaced(environment, published.manifest) if published else ""
        if problem:
            raise InvalidPath(
                f"{name} {chunk} version {version}: {problem}",
                hint=f"If the environment was moved, have it produced again: odf resubmit {name} {chunk}",
            )
        verify = store.known.dataset(name).options.get("verify")
        difference = files.difference(published.manifest, by_content=verify != files.STAT) if published else ""
        if difference:
            raise BadTransition(
                f"{name} {chunk} version {version} is not what was published: {difference}",
                hint=f"Have it produced again: odf resubmit {name} {chunk}",
            )
    if dry_run:
        return planned
    # The version that was looked at, whatever is published meanwhile.
    looked_at = next(version for name, chunk, _, version in planned if (name, chunk) == (datasetid, dataid))
    return store.rollback(datasetid, dataid, looked_at, why=why)
