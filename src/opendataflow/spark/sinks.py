"""Sinks: where an output goes. Each takes the rows to a location of one epoch, and makes them visible when asked."""

from __future__ import annotations

import os
import posixpath
import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from .. import files as data_files
from ..errors import BadConfig, OdfError
from ..files.versions import chunk_location, is_one_file, is_plain, staging_location, version_location
from ..model import Dataset, Manifest, ManifestFile, span
from ..model.definitions.dataset import table_location
from .columns import Bounds, in_chunk
from .files import is_local, list_files, rename, swap_in
from .formats import JDBC, POSTGRES, POSTGRESQL, format_of
from .reading import catalogue_name, read_location
from .writing import check_types, free_location, rows_written, write_files

OTHERS = "_extra"  # the folder of a version with files that are not its rows


class Sink(ABC):
    """One output of one epoch: staged, then published or left alone."""

    is_visible = True  # whether publishing changes what readers outside the store see

    def __init__(self, spark: SparkSession, dataset: Dataset, dataid: str, epoch: int) -> None:
        self.spark, self.dataset, self.dataid, self.epoch = spark, dataset, dataid, epoch

    @abstractmethod
    def write(self, df: DataFrame) -> None:
        """Take the rows to a location of this epoch alone."""

    @abstractmethod
    def read_back(self) -> DataFrame:
        """What was written, read from there."""

    @abstractmethod
    def facts(self) -> Manifest:
        """Location, format and files as they will be when published."""

    def rows(self) -> int | None:
        """How many rows were really written, where that is cheap to know."""
        return None

    def kept(self) -> str:
        """Where what was written and not published can be looked at; empty where nothing is left."""
        return ""

    def take(self, folder: Path) -> list[str]:
        """Put other files of this version beside its rows, where no reader of rows looks; their names."""
        if not any(folder.iterdir()):
            return []
        raise BadConfig(
            f"dataset {self.dataset.datasetid}: other files have no place beside its rows",
            hint="The argument extra is for an output whose chunks are folders on a disk that this machine sees.",
        )

    @abstractmethod
    def publish(self) -> None:
        """Make visible what the store's own pointer does not."""

    @abstractmethod
    def discard(self) -> None:
        """Give up what was staged."""


class FileSink(Sink):
    """A folder of this epoch; or a fixed location, which is replaced when published."""

    def __init__(
        self,
        spark: SparkSession,
        dataset: Dataset,
        dataid: str,
        epoch: int,
        location: str,
        schema: StructType,
        mark: str = "",
    ) -> None:
        super().__init__(spark, dataset, dataid, epoch)
        self.schema, self.mark = schema, "" if is_plain(dataset) else mark
        self.target = chunk_location(dataset, location, dataid)
        self.location = (
            staging_location(self.target, epoch)
            if is_plain(dataset)
            else version_location(dataset, location, dataid, epoch)
        )
        self.is_visible = is_plain(dataset)
        self.files: tuple[ManifestFile, ...] = ()

    def write(self, df: DataFrame) -> None:
        check_types(self.dataset, df.schema)
        self.location = free_location(self.spark, self.location, self.mark)
        write_files(df.coalesce(1) if is_one_file(self.dataset) else df, self.dataset, self.location)
        self.files = list_files(self.spark, self.location)

    def adopt(self, files: Sequence[str]) -> None:
        """Take files that were written for many chunks together, and are this one's."""
        self.location = free_location(self.spark, self.location, self.mark)
        for number, file in enumerate(files):
            suffix = posixpath.basename(file).partition(".")[2]
            rename(self.spark, file, posixpath.join(self.location, f"part-{number:05d}.{suffix}"))
        self.files = list_files(self.spark, self.location)

    def read_back(self) -> DataFrame:
        return read_location(self.spark, self.dataset, self.location, schema=self.schema, is_ours=True)

    def rows(self) -> int | None:
        return rows_written(self.dataset, self.location, self.files)

    def kept(self) -> str:
        return self.location

    def take(self, folder: Path) -> list[str]:
        if is_one_file(self.dataset) or not os.path.isdir(self.location):
            return super().take(folder)
        names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
        if names:
            shutil.copytree(folder, os.path.join(self.location, OTHERS))
        return names

    def facts(self) -> Manifest:
        location, files = self.location, self._with_checksums()
        if is_plain(self.dataset):
            location = self.target
        if is_one_file(self.dataset):
            files = (files[0]._replace(path=posixpath.basename(location)),)
        return Manifest(
            location=location, format=format_of(self.dataset), files=files, bytes=sum(file.bytes for file in files)
        )

    def _with_checksums(self) -> tuple[ManifestFile, ...]:
        # What lies on the disks of a cluster alone cannot be read here; it is compared by size and time.
        if is_local(self.location) and not data_files.exists(self.location):
            return self.files
        return data_files.with_checksums(self.location, self.files, self.dataset.options.get("verify"))

    def publish(self) -> None:
        if is_one_file(self.dataset):
            swap_in(self.spark, self.location, self.target, self.epoch, self.files[0].path)
        elif is_plain(self.dataset):
            swap_in(self.spark, self.location, self.target, self.epoch)

    def discard(self) -> None:
        pass  # no reader sees it, it may be looked at, and vacuum removes it


class TableSink(Sink):
    """A table of a database."""

    def __init__(
        self, spark: SparkSession, dataset: Dataset, dataid: str, epoch: int, password: str, bounds: Bounds | None
    ) -> None:
        super().__init__(spark, dataset, dataid, epoch)
        self.password, self.bounds = password, bounds

    def facts(self) -> Manifest:
        return Manifest(location=table_location(self.dataset), format=self.dataset.format or POSTGRESQL)


class PostgresSink(TableSink):
    """A staging table of this epoch; one transaction replaces the chunk by it."""

    def write(self, df: DataFrame) -> None:
        from .postgres import stage_table

        self.staged = stage_table(self.spark, df, self.dataset, self.password, dataid=self.dataid, epoch=self.epoch)

    def read_back(self) -> DataFrame:
        from .postgres import read_table

        return read_table(self.spark, replace(self.dataset, tablename=self.staged.staging), self.password)

    def rows(self) -> int | None:
        return self.staged.rows

    def publish(self) -> None:
        from .postgres import publish_table

        lower, upper = self.bounds or (None, None)
        limits = (lower, upper) if lower is not None and upper is not None else None
        publish_table(
            self.dataset,
            self.password,
            dataid=self.dataid,
            epoch=self.epoch,
            partition=self.dataset.partition,
            span=limits or span(self.dataset.partition, self.dataid),
            staging=self.staged,
        )

    def discard(self) -> None:
        from .postgres import drop_staging

        with suppress(OdfError):
            drop_staging(self.dataset, self.password, dataid=self.dataid, older_than_epoch=self.epoch + 1)


class JdbcSink(TableSink):
    """The same over JDBC."""

    def write(self, df: DataFrame) -> None:
        from .jdbc import stage_table

        self.staging = stage_table(self.spark, df, self.dataset, self.password, dataid=self.dataid, epoch=self.epoch)

    def read_back(self) -> DataFrame:
        from .jdbc import read_table

        return read_table(self.spark, self.dataset, self.password, self.staging)

    def publish(self) -> None:
        from .jdbc import publish_table

        publish_table(
            self.spark,
            self.dataset,
            self.password,
            dataid=self.dataid,
            epoch=self.epoch,
            bounds=self.bounds,
            staging=self.staging,
        )

    def discard(self) -> None:
        from .jdbc import drop_table

        drop_table(self.spark, self.dataset, self.password, self.staging)


class CatalogueSink(TableSink):
    """A table of Spark's own catalogue: Delta and Iceberg replace rows by a transaction of their own."""

    def write(self, df: DataFrame) -> None:
        # Unlike a cache, what is lost of a checkpoint fails the run: it is never evaluated again to other rows.
        self.df = df.localCheckpoint()

    def read_back(self) -> DataFrame:
        return self.df

    def publish(self) -> None:
        condition = in_chunk(self.df.schema, self.dataset.partition, self.dataid, self.bounds)
        writer = self.df.writeTo(catalogue_name(self.dataset))
        if condition is None:
            writer.overwritePartitions()
        else:
            writer.overwrite(condition)

    def discard(self) -> None:
        pass  # nothing was written


def table_sink(
    spark: SparkSession, dataset: Dataset, dataid: str, epoch: int, password: str, bounds: Bounds | None
) -> TableSink:
    """The sink of a table, by its format."""
    if dataset.format in POSTGRES:
        return PostgresSink(spark, dataset, dataid, epoch, password, bounds)
    kind = JdbcSink if dataset.format == JDBC else CatalogueSink
    return kind(spark, dataset, dataid, epoch, password, bounds)
