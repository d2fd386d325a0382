"""Files: what counts as data at a location, and how it is listed, sized, compared and removed; on disks and by fsspec."""

from __future__ import annotations

from .comparing import CONTENT, STAT, difference, differences, ill_named, light_manifest, reads_content, with_checksums
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
    "CONTENT",
    "STAT",
    "difference",
    "differences",
    "exists",
    "ill_named",
    "is_data",
    "is_folder",
    "is_writable",
    "light_manifest",
    "links",
    "list_files",
    "names",
    "reads_content",
    "remove",
    "size",
    "with_checksums",
    "written",
]
