"""Store locations relative to named roots, so that they stay valid when a project moves."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from .decision.manifest import Manifest
from .definitions.dataset import Dataset, is_table_location

STORE = "store:"  # the folder of the store's file, if no project file declares roots
_KEPT = r"(store:|root[0-9]+:|)(?!/)(.*)"
_URL = r"[A-Za-z][A-Za-z0-9+.-]*:/"


class Roots:
    """The roots of an environment and their names in stored locations.

    `clean/1/v000001` is in the first root, `root2:clean/1/v000001` in the second. A location outside all roots, or one that
    would be ambiguous, is stored unchanged.
    """

    def __init__(self, roots: Sequence[str] = (), store_folder: str = "") -> None:
        self._roots = {f"root{number}:" if number > 1 else "": root for number, root in enumerate(roots, 1)}
        if store_folder and not roots:
            self._roots[STORE] = store_folder

    def kept(self, location: str) -> str:
        """The stored form of an absolute location: relative to the innermost root that contains it."""
        around = [(len(root), name) for name, root in self._roots.items() if _below(root, location)]
        if not around:
            return location
        _, name = max(around)
        relative = name + (_below(self._roots[name], location) or "")
        return relative if self.found(relative) == location else location

    def found(self, kept: str) -> str:
        """The absolute location of a stored one; unchanged if its root is unknown.

        Does not resolve links: callers check whether the location leads outside the root.
        """
        match = re.fullmatch(_KEPT, kept, re.DOTALL)
        if not match or not match[2] or re.match(_URL, match[2]) or match[1] not in self._roots:
            return kept
        root = self._roots[match[1]].rstrip("/")
        return (root or "/") if match[2] == "." else f"{root}/{match[2]}"

    def located(self, manifest: Manifest, dataset: Callable[[], Dataset | None]) -> Manifest:
        """A manifest with its absolute location; names of tables are not relative to a root."""
        found = manifest.at(self.found)
        if found is manifest or not is_table_location(manifest.location):
            return found
        known = dataset()
        return manifest if known is not None and known.kind == "table" else found


def _below(root: str, location: str) -> str | None:
    """The part of a location below a root, by text only; `.` for the root itself, None if it is elsewhere."""
    root = root.rstrip("/")
    if location == (root or "/"):
        return "."
    return location[len(root) + 1 :] or None if location.startswith(f"{root}/") else None
