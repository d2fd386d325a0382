"""Files as Spark reaches them: on a disk by the room `files`, on a cluster by Hadoop, behind Connect by what Spark lists."""

from __future__ import annotations

import os
import posixpath
import re
from functools import partial
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from .. import files
from ..errors import InvalidPath
from ..files import replacement
from ..files.versions import replaced_location
from ..model import ManifestFile
from .session import is_connect

# Hadoop writes file:/x where others write file:///x, and encodes nothing: what looks like a URL is none.
_path_of = partial(re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?").sub, "")


def is_local(location: str) -> bool:
    """Whether the location is a path of a local disk; the driver may still not be the one who sees it."""
    return location.startswith("/")


def list_files(spark: SparkSession, location: str) -> tuple[ManifestFile, ...]:
    """The data files at a location, in the order of their paths; InvalidPath when nothing is there."""
    listed = files.list_files(location) if is_local(location) else None
    if listed is None:
        by_hadoop = not is_local(location) and not is_connect(spark)
        listed = list_by_hadoop(spark, location) if by_hadoop else list_by_reading(spark, location)
    if listed is None:
        raise InvalidPath(f"there is nothing at {location}")
    return listed


def exists(spark: SparkSession, location: str) -> bool:
    """Whether there is anything at this location."""
    if is_local(location) and (files.exists(location) or not is_connect(spark)):
        return files.exists(location)
    if is_connect(spark):
        return bool(list_by_reading(spark, location))
    path, system = _hadoop(spark, location)
    return bool(system.exists(path))


def remove(spark: SparkSession, location: str) -> None:
    """Remove everything at this location; nothing there is fine."""
    if is_local(location):
        files.remove(location)
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
    source, _ = _hadoop(spark, old)
    if not system.rename(source, target):
        raise InvalidPath(f"{old} cannot be renamed to {new}")


def swap_in(spark: SparkSession, staged: str, location: str, epoch: int, name: str = "") -> None:
    """Put what this epoch staged, or one file of it, at the fixed location, instead of what was there."""
    old, new = replaced_location(staged), posixpath.join(staged, name) if name else staged
    if is_local(location):
        replacement.revoke(location, epoch)
        replacement.swap_in(new, location, staged)
    else:
        if exists(spark, location):
            rename(spark, location, old)
        rename(spark, new, location)
        remove(spark, old)
    if name:
        remove(spark, staged)


def list_by_hadoop(spark: SparkSession, location: str) -> tuple[ManifestFile, ...] | None:
    """The data files at a location as Hadoop's file system lists them; None when nothing is there."""
    path, system = _hadoop(spark, location)
    if not system.exists(path):
        return None
    if system.getFileStatus(path).isFile():
        return (_described(system.getFileStatus(path), posixpath.basename(location)),)
    listed, walk = [], system.listFiles(path, True)
    base = str(system.makeQualified(path).toString())
    while walk.hasNext():
        status = walk.next()
        name = _relative(str(status.getPath().toString()), base)
        if files.is_data(name):
            listed.append(_described(status, name))
    return tuple(sorted(listed))


def _described(status: Any, name: str) -> ManifestFile:
    return ManifestFile(name, int(status.getLen()), status.getModificationTime() / 1000)


def list_by_reading(spark: SparkSession, location: str) -> tuple[ManifestFile, ...] | None:
    """The data files as Spark itself lists them, for a server that alone can see them; the contents are not read."""
    reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    try:
        rows = reader.load(location).selectExpr("path", "length", "unix_micros(modificationTime) AS changed").collect()
    except PySparkException as problem:
        if problem.getCondition() != "PATH_NOT_FOUND":
            raise
        return None
    listed = (ManifestFile(_relative(row.path, location), row.length, row.changed / 1e6) for row in rows)
    return tuple(sorted(file for file in listed if files.is_data(file.path)))


def _relative(path: str, base: str) -> str:
    inner, outer = _path_of(path), _path_of(base).rstrip("/")
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
