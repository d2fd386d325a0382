"""Loading: from a file on disk, or none, to a project."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ..tokens import is_token
from .config import read_config, refuse_foreign
from .declared import DEFAULT_ENVIRONMENT, DEFAULT_JOBS, DEFAULT_LOGS, DEFAULT_STORE, Environment, Project, Trust
from .locations import store_address

TOML = "dataflow.toml"
PROPERTIES = "dataflow.properties"


def find(start: Path) -> Path | None:
    """The project file of this folder, or of the nearest one above it."""
    folder = Path(os.path.abspath(start))
    for parent in (folder, *folder.parents):
        for name in (TOML, PROPERTIES):
            if os.path.isfile(parent / name):
                return parent / name
    return None


def load(file: Path, env: str | None = None, *, with_placeholders: bool = False) -> Project:
    """The project that a file declares, in this environment; refuses whatever does not fit.

    with_placeholders leaves out encrypted values that are no tokens yet, so that a verb can make them.
    """
    from .environments import select  # here, since whoever has no file needs none of these
    from .section import Section
    from .tables import from_tables
    from .text import read_tables, read_text

    file = Path(os.path.abspath(file))
    config = read_config()
    refuse_foreign(file, file.parent, config)
    if file.suffix == ".properties":
        from .properties import read_properties

        environment = read_properties(file, read_text(file, fallback="latin-1"))
        select({environment.name: environment}, env, file.name)
        return _bare(file.parent, environment, file, config.trust)
    tables = read_tables(file)
    if with_placeholders:
        tables = _without_placeholders(tables)
    return from_tables(file, Section(file.name, (), tables), env, config.trust)


def _without_placeholders(table: dict[str, Any]) -> dict[str, Any]:
    """The same tables without encrypted values that are no tokens."""
    return {
        key: _without_placeholders(value) if isinstance(value, dict) else value
        for key, value in table.items()
        if key not in ("encryptedpass", "encrypted") or not isinstance(value, str) or is_token(value)
    }


def without_file(folder: Path, store_url: str | None) -> Project:
    """A project that declares nothing but the address of its store."""
    folder = Path(os.path.abspath(folder))
    url = store_address(store_url or DEFAULT_STORE, folder)
    return _bare(
        folder, Environment(DEFAULT_ENVIRONMENT, (str(folder),), (), url, is_declared=False), None, read_config().trust
    )


def _bare(folder: Path, environment: Environment, file: Path | None, trust: Trust) -> Project:
    jobs, logs = (folder / DEFAULT_JOBS,), folder / DEFAULT_LOGS
    return Project(folder, file, folder.name, jobs, environment, (environment.name,), logs, trust=trust)
