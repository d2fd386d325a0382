"""Session: one Spark application per process, quiet, and able to cancel the work of one run."""

from __future__ import annotations

import atexit
import logging
import os
import re
import secrets
import shutil
import signal
import sys
import tempfile
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..errors import BadConfig, MissingDependency, install_command
from ..model.printable import clean
from ..project.config import others_can_write
from ..tokens import SECRET_NAMES, holds_secret
from .java import INSTALL_JAVA, find_java
from .settings import environment_of, needs_secret, spark_settings, without_parameters

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

Redact = Callable[[str], str]

_looks_secret = re.compile(SECRET_NAMES).search
_lock = threading.Lock()
_remote: dict[str, str] = {}  # what a session of Spark Connect was asked for, for the next one


def session(
    settings: Mapping[str, object], *, app_name: str, master: str | None = None, redact: Redact = str
) -> SparkSession:
    """The one session of this process, started with [spark] of the project when there is none yet.

    What its Java prints is shown after it went through redact.
    """
    options = {"spark.app.name": app_name, **spark_settings(settings, master)}
    # PySpark warns about the version of pandas when it is merely installed: here, and whenever it comes near Arrow.
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
    with _lock:
        try:
            from pyspark.sql import SparkSession
        except ImportError as problem:
            raise MissingDependency(
                f"Spark jobs need the package pyspark: {problem}", hint=f"Install it: {install_command('spark')}"
            ) from None
        os.environ["PYSPARK_PYTHON"] = options.get("spark.pyspark.python") or os.environ.get(
            "PYSPARK_PYTHON", sys.executable
        )
        if "spark.remote" in options:
            return _connect(SparkSession, options)
        with _keeping_interrupt_handler():
            return _classic(SparkSession, options, redact)


def another_session(spark: SparkSession) -> SparkSession:
    """A session of the same application, as this one was started; nothing that was set or named in it comes along."""
    if not is_connect(spark):
        return spark.newSession()
    from pyspark.sql.connect.session import SparkSession as Connected

    another: SparkSession = Connected.builder.config(map=dict(_remote)).create()  # type: ignore[assignment]
    another.clearProgressHandlers()
    return another


def is_connect(spark: SparkSession) -> bool:
    """Whether this session talks to a Spark Connect server."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def app_id(spark: SparkSession) -> str:
    """The id of the Spark application, as its history server knows it."""
    return str(spark.conf.get("spark.app.id", "") or "") if is_connect(spark) else _facts(spark.sparkContext).app_id


def ui_of(spark: SparkSession) -> str:
    """Where the pages of a running Spark application are; empty where it shows none, or where a server decides."""
    return "" if is_connect(spark) else _facts(spark.sparkContext).ui


class _Facts(NamedTuple):
    app_id: str
    ui: str


@lru_cache(maxsize=1)
def _facts(context: SparkContext) -> _Facts:
    """What stays as it is while an application lives: every chunk tells it, and Java is asked once."""
    return _Facts(str(context.applicationId or ""), str(context.uiWebUrl or ""))


def is_alive(spark: SparkSession) -> bool:
    """Whether the session still answers; its Java may have been killed."""
    try:
        return bool(spark.version) if is_connect(spark) else not spark.sparkContext._jsc.sc().isStopped()
    except Exception:
        return False


@contextmanager
def chunk_context(spark: SparkSession, run_tag: str, pool: str | None = None) -> Iterator[None]:
    """Everything that this thread asks of Spark inside carries the tag of its run, and its pool."""
    if is_connect(spark):
        spark.addTag(run_tag)  # a Connect server decides about pools itself
    else:
        # A tag of the classic session could be cancelled only by the thread that set it; one of its context by any.
        spark.sparkContext.addJobTag(run_tag)
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", pool)  # type: ignore[arg-type]
    try:
        yield
    finally:
        # A session that is gone has nothing left to give back.
        with suppress(Exception):
            if is_connect(spark):
                spark.removeTag(run_tag)
            else:
                spark.sparkContext.removeJobTag(run_tag)
                spark.sparkContext.setLocalProperty("spark.scheduler.pool", None)  # type: ignore[arg-type]


def cancel(spark: SparkSession, run_tag: str) -> None:
    """Stop whatever Spark is doing for this run; nothing to stop is fine."""
    with suppress(Exception):
        if is_connect(spark):
            spark.interruptTag(run_tag)
        else:
            spark.sparkContext.cancelJobsWithTag(run_tag)


def _connect(builder_of: type[SparkSession], options: dict[str, str]) -> SparkSession:
    try:
        import pyspark.sql.connect.session  # noqa: F401
    except ImportError as problem:
        raise MissingDependency(
            f"Spark Connect needs more packages: {problem}", hint=f"Install them: {install_command('connect')}"
        ) from None
    try:
        spark = builder_of.builder.config(map=dict(options)).getOrCreate()
        spark.clearProgressHandlers()
        # An id in the address would lead every session to the same one.
        _remote.update({**options, "spark.remote": re.sub(r";session_id=[^;]*", "", options["spark.remote"])})
        return spark
    except Exception as problem:
        address = without_parameters(options["spark.remote"])
        raise BadConfig(f"cannot reach Spark at {address}: {_first_line(problem)}") from problem


def _classic(builder_of: type[SparkSession], options: dict[str, str], redact: Redact) -> SparkSession:
    from pyspark import SparkContext

    logging.getLogger().addFilter(_is_not_of_py4j)
    logging.getLogger("py4j").propagate = False
    errors = _JavaErrors()
    try:
        if SparkContext._gateway is None:
            options = {**_private_folder(options), **_safe_path(), **options}
            _launch(options, errors, redact)
        if SparkContext._active_spark_context is None and needs_secret(options):
            # Only the context learns it, through the gateway: it is on no command line and in no file.
            options = {**options, "spark.authenticate.secret": secrets.token_hex(32)}
        spark = builder_of.builder.config(map=dict(options)).getOrCreate()
    except Exception as problem:
        java = find_java()
        if java.problem:
            raise MissingDependency(f"Spark cannot start: {java.problem}", hint=INSTALL_JAVA) from problem
        raise BadConfig(
            f"Spark cannot start with master {options['spark.master']}: {clean(redact(_first_line(problem)))}",
            hint="\n".join(errors.kept)[-2000:] or "Check [spark] in the project file.",
        ) from problem
    errors.are_shown = True
    return spark


def _private_folder(options: Mapping[str, str]) -> dict[str, str]:
    """A folder for what Spark spills and sends to its workers that only this user can open, unless one was chosen."""
    is_chosen = "spark.local.dir" in options or "SPARK_LOCAL_DIRS" in os.environ
    if is_chosen or not options["spark.master"].startswith("local"):
        return {}
    folder = tempfile.mkdtemp(prefix="odf-spark-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return {"spark.local.dir": folder}


def _safe_path() -> dict[str, str]:
    """Spark's Python workers begin in the current folder and import from it first: not where others can put files."""
    return {"spark.executorEnv.PYTHONSAFEPATH": "1"} if others_can_write(Path(".")) else {}


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """When Java is gone, py4j puts a stack on the screen, through the root logger; the caller of Java reports it in a line."""
    return f"{os.sep}py4j{os.sep}" not in record.pathname


class _JavaErrors:
    """Java's error stream: kept back while Spark starts, since it always begins with the same lines, then shown."""

    def __init__(self) -> None:
        self.kept: deque[str] = deque(maxlen=200)
        self.are_shown = False

    def put(self, line: str) -> None:
        if self.are_shown:
            sys.stderr.write(f"{line}\n")
        else:
            self.kept.append(line)


def _put_output(line: str) -> None:
    sys.stdout.write(f"{line}\n")


@contextmanager
def _read_by_thread(name: str, put: Callable[[str], None], redact: Redact) -> Iterator[int]:
    """A pipe for a process that is started inside; what it prints may be data, so nothing in it steers a terminal."""

    def read() -> None:
        with os.fdopen(reading, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                with suppress(Exception):  # when a line cannot be shown, the next must still be read, or Java blocks
                    put(clean(redact(line.rstrip("\r\n"))))

    reading, writing = os.pipe()
    threading.Thread(target=read, daemon=True, name=name).start()
    try:
        yield writing
    finally:
        os.close(writing)


def _is_secret(key: str, value: str) -> bool:
    """Whether a setting is kept from the command line: by its name, or for what its value holds where nothing needs it to start."""
    return bool(_looks_secret(key)) or (key.startswith(("spark.hadoop.", "spark.sql.")) and holds_secret(value, key))


def _launch(options: dict[str, str], errors: _JavaErrors, redact: Redact) -> None:
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    conf = SparkConf(loadDefaults=False)
    # These end up in a command line, which every user of the machine can read; the context gets all of them later.
    conf.setAll([(key, value) for key, value in options.items() if not _is_secret(key, value)])
    with (
        _read_by_thread("spark-stdout", _put_output, redact) as output,
        _read_by_thread("spark-stderr", errors.put, redact) as error_output,
        _in_environment(environment_of(options)),
    ):
        streams = {"stdout": output, "stderr": error_output}
        gateway = launch_gateway(conf, popen_kwargs=streams)  # type: ignore[no-untyped-call]
    SparkContext._ensure_initialized(gateway=gateway)


@contextmanager
def _in_environment(values: Mapping[str, str]) -> Iterator[None]:
    """Variables for a process that is started inside, unless the user has set them."""
    ours = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            os.environ.pop(name, None)


@contextmanager
def _keeping_interrupt_handler() -> Iterator[None]:
    """Spark takes over Ctrl-C in the main thread; who stops what is not its decision."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _first_line(problem: BaseException) -> str:
    return next((line for line in str(problem).splitlines() if line.strip()), type(problem).__name__)
