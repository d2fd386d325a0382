"""Files: what counts as data at a location, and how it is listed, sized, compared and removed; on disks and by fsspec."""

from __future__ import annotations

from .comparing import difference, ill_named, light_manifest
from .listing import (
    exists,
    is_folder,
    is_writable,
    links,
    list_files,
    names,
    remove,
    size,
    written,
)
from .rule import is_data

__all__ = [
    "difference",
    "exists",
    "ill_named",
    "is_data",
    "is_folder",
    "is_writable",
    "light_manifest",
    "links",
    "list_files",
    "names",
    "remove",
    "size",
    "written",
]
