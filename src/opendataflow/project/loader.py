"""Finds and loads the project file, or builds a project without one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ..model.printable import check_utf8
from ..tokens import is_token
from .config import read_config, refuse_foreign
from .locations import store_address
from .settings import DEFAULT_ENVIRONMENT, DEFAULT_JOBS, DEFAULT_LOGS, DEFAULT_STORE, Environment, Project, Trust

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
    """The project that a file declares, in this environment; raises BadConfig or BadDefinition for invalid content.

    with_placeholders reads encrypted values that are not tokens yet as empty, so that a command can encrypt them.
    """
    from .builder import from_tables
    from .environments import select  # lazy: not needed without a project file
    from .section import Section
    from .text import read_tables, read_text

    file = Path(os.path.abspath(file))
    check_utf8(str(file))
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


def _without_placeholders(value: Any, key: str = "") -> Any:
    """The same tables, with encrypted values that are not tokens replaced by empty text."""
    if isinstance(value, dict):
        return {name: _without_placeholders(inner, name) for name, inner in value.items()}
    is_placeholder = key in ("encryptedpass", "encrypted") and isinstance(value, str) and not is_token(value)
    return "" if is_placeholder else value


def without_file(folder: Path, store_url: str | None) -> Project:
    """A project that declares only the address of its store."""
    folder = Path(os.path.abspath(folder))
    url = store_address(store_url or DEFAULT_STORE, folder)
    return _bare(
        folder, Environment(DEFAULT_ENVIRONMENT, (str(folder),), (), url, is_declared=False), None, read_config().trust
    )


def _bare(folder: Path, environment: Environment, file: Path | None, trust: Trust) -> Project:
    jobs, logs = (folder / DEFAULT_JOBS,), folder / DEFAULT_LOGS
    return Project(folder, file, folder.name, jobs, environment, (environment.name,), logs, trust=trust)
