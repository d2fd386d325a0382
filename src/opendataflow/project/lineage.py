"""Reads the table [lineage], the targets of OpenLineage events."""

from __future__ import annotations

import os
from pathlib import Path

from .environments import refuse_password
from .section import Section
from .settings import LineageSettings

_KEYS = ("to", "encrypted", "namespace")


def read_lineage(section: Section, folder: Path) -> LineageSettings:
    """The declared targets: files inside the project, and at most one address, since there is one key."""
    section.refuse_passwords("encrypted")
    section.only(_KEYS)
    to = tuple(_place(section, each, folder) for each in section.texts("to"))
    if sum(map(is_address, to)) > 1:
        raise section.wrong("to", "there is more than one address", "Send to one server that forwards the events.")
    encrypted = section.token("encrypted", "--for-lineage")
    if encrypted and not any(map(is_address, to)):
        raise section.wrong("encrypted", "a key requires the address of a server", 'Write it: to = "https://…"')
    return LineageSettings(to, encrypted, section.text("namespace"))


def is_address(to: str) -> bool:
    """Whether a target is the address of a server rather than a file."""
    return to.startswith(("http://", "https://"))


def _place(section: Section, to: str, folder: Path) -> str:
    if is_address(to):
        with section.at("to"):
            refuse_password(to)
        return to
    inside = os.path.relpath(os.path.join(folder, to), folder)
    if not to or to.endswith("/") or "://" in to or inside.startswith("..") or os.path.isabs(to):
        hint = "Write the path of a file inside the project, or an address that begins with http:// or https://."
        raise section.wrong("to", "expected a file inside the project or the address of a server", hint)
    return inside
