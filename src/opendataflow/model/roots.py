"""Roots: how the location of a version is kept, so that it is still right when everything moves together."""

from __future__ import annotations

import re
from collections.abc import Sequence

STORE = "store:"  # the folder of the store's file, for whoever has no project file and so no roots
_KEPT = r"(store:|root[0-9]+:|)(?!/)(.*)"
_URL = r"[A-Za-z][A-Za-z0-9+.-]*:/"


class Roots:
    """The roots of an environment, by the names that kept locations give them.

    `clean/1/v000001` lies in the first root, `root2:clean/1/v000001` in the second, and so on. What lies in none of
    them is kept as it is, and so is a location that could be taken for another one.
    """

    def __init__(self, roots: Sequence[str] = (), store_folder: str = "") -> None:
        self._roots = {f"root{number}:" if number > 1 else "": root for number, root in enumerate(roots, 1)}
        if store_folder and not roots:
            self._roots[STORE] = store_folder

    def kept(self, location: str) -> str:
        """An absolute location as the store keeps it: relative to the innermost root that it lies in."""
        around = [(len(root), name) for name, root in self._roots.items() if _below(root, location)]
        if not around:
            return location
        _, name = max(around)
        relative = name + (_below(self._roots[name], location) or "")
        return relative if self.found(relative) == location else location

    def found(self, kept: str) -> str:
        """The location that is meant by what the store keeps; without a known root it stays as it is.

        Nothing is resolved here: whoever follows it asks first whether it leads outside.
        """
        match = re.fullmatch(_KEPT, kept, re.DOTALL)
        if not match or not match[2] or re.match(_URL, match[2]) or match[1] not in self._roots:
            return kept
        root = self._roots[match[1]].rstrip("/")
        return (root or "/") if match[2] == "." else f"{root}/{match[2]}"


def _below(root: str, location: str) -> str | None:
    """The rest of a location below a root, by its letters alone; `.` for the root itself, None when it is elsewhere."""
    root = root.rstrip("/")
    if location == (root or "/"):
        return "."
    return location[len(root) + 1 :] or None if location.startswith(f"{root}/") else None
