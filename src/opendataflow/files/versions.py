"""Versions: the folder of each epoch of a chunk, and what may be removed. docs/decisions/003-versions-as-folders.md"""

from __future__ import annotations

import posixpath
import re
from secrets import token_hex

from ..model import Dataset
from ..model.catalogue import ALL
from ..model.dataid import TYPES
from ..shapes import NamedTuple

PLAIN, VERSIONED = "plain", "versioned"
OURS = "opendataflow"  # the writer that a manifest names when this program wrote the files

_ANOTHER = "(?:-[0-9a-f]{6,})?"  # of the same epoch, where there already was one
_version = re.compile(rf"v([0-9]{{6,}}){_ANOTHER}").fullmatch
_PARTS = {"year": 4, "month": 7, "day": 10, "hour": 13}
_SUFFIXES = (".csv", ".json", ".jsonl", ".parquet", ".orc", ".txt")


def chunk_location(dataset: Dataset, location: str, dataid: str) -> str:
    """The location that belongs to this chunk alone: its location, with the dataid where the template does not say it."""
    return location if names_chunk(dataset, dataid) else posixpath.join(location, dataid)


def names_chunk(dataset: Dataset, dataid: str) -> bool:
    """Whether no other chunk of the dataset has the same location."""
    if "{dataid}" in dataset.location or dataid == ALL:
        return True
    width = TYPES[dataset.partition.type].width
    needed = [f"{{{name}}}" for name, end in _PARTS.items() if end <= width]
    return bool(needed) and all(part in dataset.location for part in needed)


def version_location(dataset: Dataset, location: str, dataid: str, epoch: int) -> str:
    """The folder that this epoch of the chunk writes, and nobody else."""
    return posixpath.join(chunk_location(dataset, location, dataid), version_name(epoch))


def version_name(epoch: int) -> str:
    """The name of the folder that this epoch writes."""
    return f"v{epoch:06d}"


def another_version_location(location: str) -> str:
    """A folder for the same epoch where there already is one, left by a store that is gone."""
    return f"{location}-{token_hex(3)}"


def epoch_of(name: str) -> int | None:
    """The epoch that wrote the version folder of this name; None for a name that is no version's."""
    match = _version(name)
    return int(match[1]) if match else None


def version_folder(location: str, home: str) -> str | None:
    """The folder of the version that lies at a location: it, or the one that it is in; None where that is no version's."""
    for folder in (location, posixpath.dirname(location)):
        if posixpath.dirname(folder) == home and epoch_of(posixpath.basename(folder)) is not None:
            return folder
    return None


def is_plain(dataset: Dataset) -> bool:
    """Whether readers outside expect the chunk at a fixed location."""
    return dataset.options.get("layout") == PLAIN


def is_one_file(dataset: Dataset) -> bool:
    """Whether a plain chunk is one file, because its location is named like one.

    Text that is compressed as a whole would not be what the name says: it stays a folder.
    """
    is_named_so = is_plain(dataset) and dataset.location.lower().endswith(_SUFFIXES)
    return is_named_so and not (dataset.format in ("csv", "json", "text") and dataset.options.get("compression"))


def staging_location(location: str, epoch: int) -> str:
    """Where an epoch prepares what will replace a fixed location; hidden from everyone who reads beside it."""
    folder, name = posixpath.split(location.rstrip("/"))
    return posixpath.join(folder, f".odf-{name}-v{epoch:06d}")


def replaced_location(staged: str) -> str:
    """Where what was at a fixed location goes while that which is staged takes its place."""
    return f"{staged}.old"


class Leftover(NamedTuple):
    """What an attempt left beside a fixed location: what it staged there, or what it moved out of the way."""

    epoch: int
    is_replaced: bool


def leftover_of(name: str, location: str) -> Leftover | None:
    """Which attempt to replace a fixed location left what has this name beside it; None for what is not ours."""
    own = re.escape(posixpath.basename(location.rstrip("/")))
    match = re.fullmatch(rf"\.odf-{own}-v([0-9]{{6,}}){_ANOTHER}(\.old)?", name)
    return Leftover(int(match[1]), match[2] is not None) if match else None
