"""Tells lineage servers what every run reads and writes, as OpenLineage events: the only room that imports openlineage.

Nothing here can fail or delay a run: what cannot be sent in time is dropped, and counted.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..project import Project
    from ..secrets import Hidden, Key
    from ..store import Store
    from .teller import LineageEvents

SENT, DROPPED = "lineage sent", "lineage dropped"  # the figures that workers add up
_OURS = "OPENLINEAGE_PARENT_", "OPENLINEAGE_ROOT_", "OPENLINEAGE_CLIENT_"  # say nothing about where events go


def is_configured(project: Project) -> bool:
    """Whether anybody wants to be told: by dataflow.toml, or by the variables that every user of OpenLineage knows."""
    if os.environ.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return False
    return bool(project.lineage.to) or is_in_environment()


def is_in_environment() -> bool:
    """Whether OpenLineage's own variables say where events go."""
    return any(name.startswith("OPENLINEAGE_") and not name.startswith(_OURS) for name in os.environ)


def teller_of(
    project: Project, store: Store, key: Key | None, hidden: Hidden, say: Callable[[str], None]
) -> LineageEvents | None:
    """Whom a worker tells; None where nobody wants to know, which costs nothing."""
    if not is_configured(project):
        return None
    from .teller import LineageEvents

    return LineageEvents(project, store, key, hidden, say)
