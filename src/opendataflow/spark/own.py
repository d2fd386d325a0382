"""Own: a session for one chunk, so that neither views nor settings nor cached rows of another one reach it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import wraps
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ..errors import BadConfig
from ..model.ids import shown
from .problems import reason_of
from .session import another_session, is_connect

_here = threading.local()  # .session: that of the chunk which this thread works for
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
    own = another_session(spark)
    _cached[own] = []
    before = _become(own)
    try:
        _set(own, settings or {}, where)
        yield own
    finally:
        with suppress(Exception):  # a session that is gone has nothing left to give back
            _release(own)
        with suppress(Exception):
            _become(before or spark)
        _here.session = before
        if is_connect(own):
            own.stop()


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


def _become(spark: SparkSession) -> SparkSession | None:
    """Make this the active session of this thread; the one that it had of its own before."""
    before: SparkSession | None = getattr(_here, "session", None)
    if is_connect(spark):
        type(spark)._active_session.session = spark  # type: ignore[attr-defined]
    else:
        classes: Any = spark._jvm.org.apache.spark.sql.classic.SparkSession  # type: ignore[union-attr]
        classes.setActiveSession(spark._jsparkSession)
    _here.session = spark
    return before


# PySpark keeps one active session for the whole process, and forgets who cached what. -----------------------------------


def _prepare(spark: SparkSession) -> None:
    frames: type[DataFrame]
    if is_connect(spark):
        from pyspark.sql.connect.dataframe import DataFrame as Connected

        frames = Connected
    else:
        from pyspark.sql.classic.dataframe import DataFrame as Classic

        frames = Classic
    with _lock:
        if frames in _prepared:
            return
        for name in ("cache", "persist"):
            setattr(frames, name, _noted(getattr(frames, name)))
        if not is_connect(spark):
            _answer_by_thread()
        _prepared.add(frames)


def _noted(method: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
    @wraps(method)
    def noted(frame: DataFrame, *args: Any, **kwargs: Any) -> DataFrame:
        if frame.sparkSession in _cached:
            _cached[frame.sparkSession].append(frame)
        return method(frame, *args, **kwargs)

    return noted


def _answer_by_thread() -> None:
    """Whoever asks a classic PySpark for the active session, or for any, gets that of the chunk of this thread."""
    from pyspark.sql import session as module

    asked, made = SparkSession.getActiveSession, SparkSession.Builder.getOrCreate

    def get_active(cls: type[SparkSession]) -> SparkSession | None:
        return getattr(_here, "session", None) or asked()

    def get_or_create(builder: Any) -> SparkSession:
        own: SparkSession | None = getattr(_here, "session", None)
        if own is None:
            return made(builder)
        module.SparkSession._get_j_spark_session_module(own._jvm).applyModifiableSettings(
            own._jsparkSession, builder._options
        )
        return own

    class OfThisThread:
        """For RDD.toDF, which otherwise belongs to the session that was made last."""

        def createDataFrame(self, *args: Any, **kwargs: Any) -> DataFrame:  # noqa: N802
            return SparkSession.active().createDataFrame(*args, **kwargs)

    SparkSession.getActiveSession = classmethod(get_active)  # type: ignore[method-assign, assignment]
    SparkSession.Builder.getOrCreate = get_or_create  # type: ignore[method-assign, assignment]
    module._monkey_patch_RDD(OfThisThread())  # type: ignore[arg-type]
    module._monkey_patch_RDD = lambda sparkSession: None  # noqa: N803
