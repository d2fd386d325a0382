"""Defines the data files of a location, and lists, measures, compares and removes them on disks and through fsspec."""

from __future__ import annotations

from .data_files import is_data
from .listing import exists, is_folder, is_writable, links, list_files, names, remove, size, written
from .manifests import (
    CONTENT,
    STAT,
    difference,
    differences,
    light_manifest,
    reads_content,
    unsafe_name,
    with_checksums,
)

__all__ = [
    "CONTENT",
    "STAT",
    "difference",
    "differences",
    "exists",
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
    "unsafe_name",
    "with_checksums",
    "written",
]
