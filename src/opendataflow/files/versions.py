"""Names the folders and staging paths of the versions of a chunk. See docs/decisions/003-versions-as-folders.md."""

from __future__ import annotations

import os
import posixpath
import re
from _blake2 import blake2b  # hashlib would load OpenSSL
from typing import NamedTuple

from ..model import Dataset
from ..model.definitions.catalogue import ALL
from ..model.definitions.dataid import TYPES

PLAIN, VERSIONED = "plain", "versioned"
# The writer in the manifest of an attempt with its own location: this program through Spark, which knows the exact format
# of the files, or a script, which may write any format that the reader accepts.
OURS, SCRIPT = "opendataflow", "script"

_MARK = ".odf-"
_SUFFIX = "(?:-[0-9a-f]{6,})?"  # of a second folder of the same epoch
_version = re.compile(rf"v([0-9]{{6,}}){_SUFFIX}").fullmatch
_PARTS = {"year": 4, "month": 7, "day": 10, "hour": 13}
_SUFFIXES = (".csv", ".json", ".jsonl", ".parquet", ".orc", ".txt")


def chunk_location(dataset: Dataset, location: str, dataid: str) -> str:
    """The location of this chunk alone: its location, with the dataid appended if the template does not contain it."""
    return location if names_chunk(dataset, dataid) else posixpath.join(location, dataid)


def names_chunk(dataset: Dataset, dataid: str) -> bool:
    """Whether the location template is unique for each chunk of the dataset."""
    if "{dataid}" in dataset.location or dataid == ALL:
        return True
    width = TYPES[dataset.partition.type].width
    needed = [f"{{{name}}}" for name, end in _PARTS.items() if end <= width]
    return bool(needed) and all(part in dataset.location for part in needed)


def version_location(dataset: Dataset, location: str, dataid: str, epoch: int) -> str:
    """The folder that only this epoch of the chunk writes."""
    return posixpath.join(chunk_location(dataset, location, dataid), version_name(epoch))


def version_name(epoch: int) -> str:
    """The name of the folder that this epoch writes."""
    return f"v{epoch:06d}"


def another_version_location(location: str) -> str:
    """A second folder for the same epoch, if one exists already, such as that of a deleted store."""
    return f"{location}-{os.urandom(3).hex()}"


def mark_name(store: str, runid: int) -> str:
    """The name of the marker folder inside an attempt's folder, by which vacuum recognises the run and its store.

    The epoch alone does not identify them: every new store counts from 1.
    """
    return f"{_MARK}{blake2b(f'{store} {runid}'.encode(), digest_size=8).hexdigest()}"


def is_mark(name: str) -> bool:
    """Whether a name is that of a marker folder, of any store."""
    return name.startswith(_MARK)


def epoch_of(name: str) -> int | None:
    """The epoch in the name of a version folder; None for other names."""
    match = _version(name)
    return int(match[1]) if match else None


def version_folder(location: str, home: str) -> str | None:
    """The version folder of a location: the location or its parent; None if neither is a version folder."""
    for folder in (location, posixpath.dirname(location)):
        if posixpath.dirname(folder) == home and epoch_of(posixpath.basename(folder)) is not None:
            return folder
    return None


def is_plain(dataset: Dataset) -> bool:
    """Whether the chunk has a fixed location, for external readers."""
    return dataset.options.get("layout") == PLAIN


def is_one_file(dataset: Dataset) -> bool:
    """Whether a plain chunk is one file, by the suffix of its location.

    Compressed text would not match its suffix, so it stays a folder.
    """
    is_named_so = is_plain(dataset) and dataset.location.lower().endswith(_SUFFIXES)
    return is_named_so and not (dataset.format in ("csv", "json", "text") and dataset.options.get("compression"))


def staging_location(location: str, epoch: int) -> str:
    """The staging path of an epoch beside a fixed location; hidden from readers."""
    folder, name = posixpath.split(location.rstrip("/"))
    return posixpath.join(folder, f".odf-{name}-v{epoch:06d}")


def replaced_location(staged: str) -> str:
    """The path to which the old output of a fixed location is moved while the staged output replaces it."""
    return f"{staged}.old"


class Leftover(NamedTuple):
    """A leftover of an attempt beside a fixed location: its staged output, or the old output that it replaced."""

    epoch: int
    is_replaced: bool


def leftover_of(name: str, location: str) -> Leftover | None:
    """The leftover with this name beside a fixed location; None for other names."""
    base = re.escape(posixpath.basename(location.rstrip("/")))
    match = re.fullmatch(rf"\.odf-{base}-v([0-9]{{6,}}){_SUFFIX}(\.old)?", name)
    return Leftover(int(match[1]), match[2] is not None) if match else None
