"""Reads [environment.X] and [store], and selects the environment."""

from __future__ import annotations

from pathlib import Path

from ..errors import BadConfig
from ..model import check_id
from ..tokens import holds_secret, shown_address
from .locations import absolute, check_written, store_address
from .section import Section, nearest, quoted
from .settings import DEFAULT_ENVIRONMENT, DEFAULT_STORE, Environment


def read_environments(root: Section, folder: Path) -> dict[str, Environment]:
    """Every declared environment, or the default environment if none is declared."""
    url, encrypted = _store(root.inner("store"), DEFAULT_STORE, "", folder)
    environments = {}
    for section in root.tables("environment"):
        with section.at():
            check_id("environment", section.name)
        section.only(("roots", "hosts", "store", "verify", "dataset"))
        section.refuse_passwords("the encryptedpass of a dataset", skip=("store", "dataset"))
        its_url, its_encrypted = _store(section.inner("store"), url, encrypted, folder)
        roots = tuple(_root(section, path, folder) for path in section.texts("roots"))
        environments[section.name] = Environment(section.name, roots, section.texts("hosts"), its_url, its_encrypted)
    if not environments:
        return {DEFAULT_ENVIRONMENT: Environment(DEFAULT_ENVIRONMENT, (str(folder),), (), url, encrypted)}
    return environments


def select(environments: dict[str, Environment], name: str | None, file: str) -> Environment:
    """The environment with this name; without a name the only one, or dev."""
    names = list(environments)
    if name:
        if name not in environments:
            raise BadConfig(f"{file}: there is no [environment.{quoted(name)}]", hint=nearest(name, names))
        return environments[name]
    if len(names) == 1:
        return environments[names[0]]
    if "dev" in environments:
        return environments["dev"]
    raise BadConfig(
        f"{file}: [environment]: none is selected of {', '.join(names)}", hint="Select one with --env or ODF_ENV."
    )


def refuse_password(url: str) -> None:
    """Refuse an address that contains a password."""
    if holds_secret(url):
        raise BadConfig(
            "the address contains a password in plain text",
            hint="Never write a password into a file: encrypt it with `odf crypt encrypt` and declare encrypted.",
        )


def check_store_url(url: str) -> str:
    """The store's address itself; BadConfig if it contains a password or is invalid."""
    refuse_password(url)
    if url.startswith(("postgresql://", "postgres://")) or url.removeprefix("sqlite:///") not in ("", url):
        return url
    raise BadConfig(
        f"{shown_address(url)} is not the address of a store",
        hint="Write sqlite:///dataflow.db or postgresql://user@host/database.",
    )


def _store(section: Section, url: str, encrypted: str, folder: Path) -> tuple[str, str]:
    section.refuse_passwords("encrypted")
    section.only(("url", "encrypted"))
    if "url" in section:
        # The password of [store] does not apply to another address.
        url, encrypted = section.text("url"), ""
    with section.at("url"):
        url = store_address(check_store_url(url), folder)
    return url, section.token("encrypted", "--for-store", encrypted)


def _root(section: Section, root: str, folder: Path) -> str:
    with section.at("roots"):
        if not root:
            raise BadConfig("a root is empty", hint='Write "." for the project folder.')
        return absolute(check_written(root), str(folder))
