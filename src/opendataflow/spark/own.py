"""Own: a session for one chunk, so that neither views nor settings nor cached rows of another one reach it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import wraps
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.errors import PySparkException
from pyspark.sql import Catalog, DataFrame, DataFrameReader, DataFrameWriter, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from ..errors import BadConfig
from ..model.definitions.ids import shown
from .guards import (
    current_session,
    guard,
    guard_classic,
    guard_names,
    guard_stop,
    guard_views,
    working_for_a_chunk,
)
from .problems import reason_of
from .session import another_session, is_connect

_cached: WeakKeyDictionary[SparkSession, list[DataFrame]] = WeakKeyDictionary()
_for_copies: WeakKeyDictionary[SparkSession, SparkSession] = WeakKeyDictionary()
_lock = threading.Lock()
_prepared: set[type] = set()


@contextmanager
def own_session(
    spark: SparkSession, settings: Mapping[str, str] | None = None, where: str = "spark"
) -> Iterator[SparkSession]:
    """A session of the same application with its own views, settings and current database, for this thread.

    Job code that asks Spark for the active session gets this one. What it cached is released in the end.
    """
    _prepare(spark)
    before = current_session()
    try:
        with working_for_a_chunk(lambda: another_session(spark)) as own:
            _cached[own] = []
            try:
                _make_active(own)
                _set(own, settings or {}, where)
                yield own
            finally:
                with suppress(Exception):  # a session that is gone has nothing left to give back
                    _release(own)
                if is_connect(own):
                    own.stop()
    finally:
        with suppress(Exception):
            _make_active(before or spark)


@contextmanager
def session_for_copies(spark: SparkSession) -> Iterator[SparkSession]:
    """The one session in which no code of a job ever runs, so that no chunk can leave anything there for the next."""
    if is_connect(spark):  # a server forgets a session that is idle for long
        with own_session(spark) as own:
            yield own
        return
    with _lock:
        if spark not in _for_copies:
            _for_copies[spark] = another_session(spark)
    yield _for_copies[spark]


def _set(own: SparkSession, settings: Mapping[str, str], where: str) -> None:
    for name, value in settings.items():
        try:
            if not own.conf.isModifiable(name):
                raise BadConfig(
                    f"{where}: {shown(name)} is no setting that a session can change",
                    hint="What belongs to the whole application stands in [spark].",
                )
            own.conf.set(name, value)
        except PySparkException as problem:
            raise BadConfig(f"{where}: {name} cannot be {shown(value)}: {reason_of(problem)}") from None


def _release(own: SparkSession) -> None:
    """Give back what was cached here. All sessions share one cache, so it cannot simply be cleared."""
    for frame in _cached.pop(own, ()):
        frame.unpersist()
    if is_connect(own) or not own._jsparkSession.sharedState().cacheManager().isEmpty():
        for table in own.catalog.listTables():
            if table.isTemporary and own.catalog.isCached(table.name):
                own.catalog.uncacheTable(table.name)


def _make_active(spark: SparkSession) -> None:
    """Make this the active session of this thread."""
    if is_connect(spark):
        type(spark)._active_session.session = spark  # type: ignore[attr-defined]
    else:
        classes: Any = spark._jvm.org.apache.spark.sql.classic.SparkSession  # type: ignore[union-attr]
        classes.setActiveSession(spark._jsparkSession)


def _prepare(spark: SparkSession) -> None:
    """PySpark forgets which session cached what, and for which chunk a session was made."""
    frames: type[DataFrame]
    if is_connect(spark):
        from pyspark.sql.connect.dataframe import DataFrame as Connected

        frames, prepare = Connected, _prepare_connect
    else:
        from pyspark.sql.classic.dataframe import DataFrame as Classic

        frames, prepare = Classic, _prepare_classic
    guard_classic()
    with _lock:
        if frames in _prepared:
            return
        prepare(frames)
        guard_views(frames, "createTempView", "createOrReplaceTempView", "registerTempTable")
        for name in ("cache", "persist"):
            setattr(frames, name, _noted(getattr(frames, name)))
        _prepared.add(frames)


def _prepare_classic(frames: type[DataFrame]) -> None:
    guard(SparkSession, "_jsparkSession")
    guard(DataFrameReader, "_jreader", lambda reader: reader._spark)
    guard(DataStreamReader, "_jreader", lambda reader: reader._spark)
    guard(Catalog, "_jcatalog", lambda catalog: catalog._sparkSession)
    _guard_names(frames, DataFrameWriter, SparkSession)
    guard_names(Catalog, lambda catalog: catalog._sparkSession, "createTable")


def _prepare_connect(frames: type[DataFrame]) -> None:
    from pyspark.sql.connect.readwriter import DataFrameWriter as ConnectedWriter
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    guard(ConnectSession, "_client")
    guard_stop(ConnectSession)
    _guard_names(frames, ConnectedWriter, ConnectSession)


def _guard_names(frames: type, writers: type, sessions: type) -> None:
    guard_names(frames, lambda df: df.sparkSession, "createGlobalTempView", "createOrReplaceGlobalTempView", "writeTo")
    guard_names(writers, lambda writer: writer._spark, "saveAsTable", "insertInto")
    guard_names(sessions, lambda session: session, "sql")


def _noted(method: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
    @wraps(method)
    def noted(frame: DataFrame, *args: Any, **kwargs: Any) -> DataFrame:
        if frame.sparkSession in _cached:
            _cached[frame.sparkSession].append(frame)
        return method(frame, *args, **kwargs)

    return noted
