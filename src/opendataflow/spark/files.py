"""Files: listing, moving and removing what lies at a location, on this machine's disk or wherever Spark can reach."""

from __future__ import annotations

import os
import posixpath
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ..errors import InvalidPath
from ..model import File
from .session import is_connect
from .versions import is_leftover, is_version, old_name


def is_local(location: str) -> bool:
    """Whether the location is a path of a local disk; the driver may still not be the one who sees it."""
    return location.startswith("/")


def list_files(spark: SparkSession, location: str) -> tuple[File, ...]:
    """The data files at a location, sorted, with paths relative to it; what begins with _ or . is not data."""
    if is_local(location) and os.path.exists(location):
        return _list_local(location)
    return _list_remote(spark, location)


def exists(spark: SparkSession, location: str) -> bool:
    """Whether there is anything at this location."""
    if is_local(location) and (os.path.lexists(location) or not is_connect(spark)):
        return os.path.lexists(location)
    if is_connect(spark):
        return bool(_list_by_reading(spark, location, missing_is_empty=True))
    path, system = _hadoop(spark, location)
    return bool(system.exists(path))


def list_versions(spark: SparkSession, location: str) -> list[str]:
    """The version folders of a chunk whose own location this is, oldest first; the rest is none of our business."""
    return [posixpath.join(location, name) for name in _names(spark, location) if is_version(name)]


def list_leftovers(spark: SparkSession, location: str) -> list[str]:
    """What attempts left beside a fixed location: staged, or replaced and not yet removed."""
    folder, name = posixpath.split(location.rstrip("/"))
    return [posixpath.join(folder, each) for each in _names(spark, folder) if is_leftover(each, name)]


def _names(spark: SparkSession, folder: str) -> list[str]:
    if is_local(folder):
        return sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    path, system = _hadoop(spark, folder)
    return sorted(each.getPath().getName() for each in system.listStatus(path)) if system.exists(path) else []


def remove(spark: SparkSession, location: str) -> None:
    """Remove everything at this location; nothing there is fine."""
    if is_local(location):
        if os.path.isdir(location) and not os.path.islink(location):
            shutil.rmtree(location)
        else:
            Path(location).unlink(missing_ok=True)
        return
    path, system = _hadoop(spark, location)
    system.delete(path, True)


def rename(spark: SparkSession, old: str, new: str) -> None:
    """Give what lies at one location a new one, where nothing is yet."""
    if is_local(new):
        os.makedirs(os.path.dirname(new), exist_ok=True)
        os.rename(old, new)
        return
    target, system = _hadoop(spark, new)
    system.mkdirs(target.getParent())
    if not system.rename(_hadoop(spark, old)[0], target):
        raise InvalidPath(f"{old} cannot be renamed to {new}")


def move(spark: SparkSession, staged: str, location: str) -> None:
    """Put what is staged at the fixed location, instead of what was there."""
    folder, name = posixpath.split(location)
    old = posixpath.join(folder, old_name(name))
    if is_local(location):
        os.makedirs(os.path.dirname(location), exist_ok=True)
        if os.path.isfile(location) and os.path.isfile(staged):
            os.replace(staged, location)
            return
        if os.path.lexists(location):
            os.rename(location, old)
        os.rename(staged, location)
        remove(spark, old)
        return
    target, system = _hadoop(spark, location)
    if system.exists(target):
        system.rename(target, _hadoop(spark, old)[0])
    if not system.rename(_hadoop(spark, staged)[0], target):
        raise InvalidPath(f"{staged} cannot be renamed to {location}")
    remove(spark, old)


def _list_local(location: str) -> tuple[File, ...]:
    if os.path.isfile(location):
        return (_local_file(location, os.path.basename(location)),)
    found = []
    for folder, folders, names in os.walk(location):
        folders[:] = [name for name in folders if _is_data(name)]
        for name in names:
            if _is_data(name):
                path = os.path.join(folder, name)
                found.append(_local_file(path, os.path.relpath(path, location)))
    return tuple(sorted(found))


def _local_file(path: str, name: str) -> File:
    facts = os.stat(path)
    return File(name, facts.st_size, facts.st_mtime)


def _is_data(name: str) -> bool:
    return not name.startswith((".", "_")) or "=" in name


def _list_remote(spark: SparkSession, location: str) -> tuple[File, ...]:
    if is_connect(spark) or is_local(location):
        return _list_by_reading(spark, location)
    path, system = _hadoop(spark, location)
    if not system.exists(path):
        raise InvalidPath(f"there is nothing at {location}")
    found, walk = [], system.listFiles(path, True)
    base = str(system.makeQualified(path).toString())
    while walk.hasNext():
        status = walk.next()
        name = _relative(str(status.getPath().toString()), base)
        if all(map(_is_data, name.split("/"))):
            found.append(File(name, int(status.getLen()), status.getModificationTime() / 1000))
    return tuple(sorted(found))


def _list_by_reading(spark: SparkSession, location: str, *, missing_is_empty: bool = False) -> tuple[File, ...]:
    """Spark's own list of the files, for a server that alone can see them; the contents are not read."""
    reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    try:
        rows = reader.load(location).selectExpr("path", "length", "unix_micros(modificationTime) AS changed").collect()
    except PySparkException as problem:
        if problem.getCondition() != "PATH_NOT_FOUND":
            raise
        if missing_is_empty:
            return ()
        raise InvalidPath(f"there is nothing at {location}") from None
    return tuple(sorted(File(_relative(row.path, location), row.length, row.changed / 1e6) for row in rows))


def _relative(path: str, base: str) -> str:
    inner, outer = unquote(urlsplit(path).path), unquote(urlsplit(base).path).rstrip("/")
    return inner.removeprefix(outer).lstrip("/") or posixpath.basename(inner)


def _hadoop(spark: SparkSession, location: str) -> tuple[Any, Any]:
    """The location as a path of Hadoop, and its file system: only a classic session has its Java at hand."""
    if is_connect(spark):
        raise InvalidPath(
            f"{location} can be read and written through Spark Connect, but not moved or removed",
            hint="Use a classic master (local, spark://, yarn, k8s) for layout = plain and for odf vacuum.",
        )
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(location)
    return path, path.getFileSystem(spark._jsc.hadoopConfiguration())
