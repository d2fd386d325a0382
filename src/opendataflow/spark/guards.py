"""Guards: job code that asks Spark for a session gets that of its chunk, or is refused by name.

Chunks run side by side in one application. PySpark knows one session for the whole process; through a session that two
chunks share, one of them reads the views of the other.
"""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from ..errors import BadJob
from .code_rules import WAY_OUT, shared_name
from .session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TAKE_SPARK = "Each chunk has a session of its own: take `spark` as a parameter of the function, and hand it on."
ON_IMPORT = "asks for a Spark session when it is imported"
IN_FUNCTION = (
    f"{TAKE_SPARK} Columns (F.col), windows and UDFs whose type is a text need Spark, too: make them in the function."
)
JOB_MODULE = "_odf_job_"  # how the name of the module begins that a job's file becomes
IN_THREAD = (
    "Start the thread in the function, and use the `spark` of that function in it. Or let the chunks of this job run "
    "one at a time, in dataflow.toml: concurrency = 1"
)
OTHER_FRAME = "Use that DataFrame itself, for example in a join, or make the view of a DataFrame of this chunk."
NO_STOP = "Remove the call: Spark ends by itself when the run or the drain has ended."

# .chunk: which chunk this thread works for; .session: its session; .refusals: while code is imported
_here = threading.local()
_CHUNK = "_odf_chunk"  # on a session: the chunk for which it was made; on a thread: the chunk that started it
_imports: list[list[BadJob]] = []  # for each file that is being imported: the refusals of its code
_running: set[object] = set()
_lock = threading.Lock()
_has_guards = threading.Event()  # set when classic PySpark is guarded
_written: dict[str, object] = {}  # what running chunks wrote under names that all sessions see, and which chunk did
_refused_threads: dict[Path, BadJob] = {}  # by file: a thread in which its code runs asked for a session


def current_session() -> SparkSession | None:
    """The session of the chunk that this thread works for."""
    session: SparkSession | None = getattr(_here, "session", None)
    return session


@contextmanager
def working_for_a_chunk(make: Callable[[], SparkSession]) -> Iterator[SparkSession]:
    """Sessions that this thread makes inside belong to one chunk, and no thread that works for another can use them."""
    chunk, before = object(), (getattr(_here, "chunk", None), current_session())
    _here.chunk = chunk
    _running.add(chunk)
    try:
        _here.session = make()
        yield _here.session
    finally:
        _running.discard(chunk)
        with _lock:
            for name in [name for name, owner in _written.items() if owner is chunk]:
                del _written[name]
        _here.chunk, _here.session = before


@contextmanager
def importing() -> Iterator[None]:
    """Refuse code that asks for a session inside: while a file is imported, there is no chunk to which it could belong."""
    guard_classic()
    refusals: list[BadJob] = []
    before, _here.refusals = getattr(_here, "refusals", None), refusals
    _imports.append(refusals)
    try:
        yield
    finally:
        _imports[:] = [each for each in _imports if each is not refusals]
        _here.refusals = before
        if refusals:  # also where the code goes on without a session
            raise refusals[0]


def check_threads(files: Callable[[], Iterable[Path]]) -> None:
    """Refuse a job with code in these files whose thread asked for a session: the refusal may be lost with the thread."""
    if _refused_threads:
        for file in files():
            if file in _refused_threads:
                raise _refused_threads[file]


def forget_threads(files: Iterable[Path]) -> None:
    """These files are loaded anew: what their code did before no longer counts."""
    for file in files:
        _refused_threads.pop(file, None)


def guard(kind: type, attribute: str, session_of: Callable[[Any], Any] = lambda session: session) -> None:
    """Have sessions, or what reads through a session, belong to a chunk; through the attribute they do everything."""

    def get(thing: Any) -> Any:
        try:
            value = thing.__dict__[attribute]
        except KeyError:
            raise AttributeError(attribute) from None
        _check(session_of(thing).__dict__.get(_CHUNK))
        return value

    def set(thing: Any, value: Any) -> None:
        thing.__dict__[attribute] = value
        thing.__dict__[_CHUNK] = _chunk_here()

    setattr(kind, attribute, property(get, set))


def guard_views(frames: type, *methods: str) -> None:
    """Have these methods refuse a DataFrame of another chunk: they name it in a session that this chunk does not read."""

    def of_this_chunk(method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def make_view(df: DataFrame, *args: Any, **kwargs: Any) -> Any:
            what = "makes a view of a DataFrame of another chunk, which it kept: only that chunk sees the view"
            _check(df.sparkSession.__dict__.get(_CHUNK), what, OTHER_FRAME)
            return method(df, *args, **kwargs)

        return make_view

    for method in methods:
        setattr(frames, method, of_this_chunk(getattr(frames, method)))


def _check(
    owner: object, what: str = "uses the Spark session of another chunk, which it kept", hint: str = TAKE_SPARK
) -> None:
    """Refuse a thread that does not work for this chunk to use what belongs to it."""
    if owner is None or owner is _chunk_here():
        return
    if getattr(_here, "chunk", None) is not None:
        raise _refused(what, hint)
    if not _running <= {owner} and not _is_called_by_us():
        raise _refused_in_thread("uses a Spark session in a thread that its chunk did not start", IN_THREAD)


def _chunk_here() -> object:
    """The chunk for which this thread works, or whose code started it; None for others."""
    own = getattr(_here, "chunk", None)
    return vars(threading.current_thread()).get(_CHUNK) if own is None else own


def _note_starters() -> None:
    """Note on each thread which chunk starts it: Python hands nothing on to a new thread, and has an event only since 3.12."""
    start = threading.Thread.start

    @wraps(start)
    def start_for_chunk(thread: threading.Thread) -> None:
        chunk = _chunk_here()
        if chunk is not None:
            vars(thread)[_CHUNK] = chunk
        start(thread)

    changed: Any = threading.Thread
    changed.start = start_for_chunk


def guard_names(kind: type, session_of: Callable[[Any], SparkSession], *methods: str) -> None:
    """Have these methods refuse a name that all sessions see while another running chunk has written it.

    Reading the code of a job misses names and methods that it works out, and packages that are installed.
    """
    for method in methods:
        setattr(kind, method, _one_chunk_each(getattr(kind, method), session_of))


def _one_chunk_each(method: Callable[..., Any], session_of: Callable[[Any], SparkSession]) -> Callable[..., Any]:
    @wraps(method)
    def one_chunk_each(thing: Any, *args: Any, **kwargs: Any) -> Any:
        chunk = session_of(thing).__dict__.get(_CHUNK)
        text = next(iter((*args, *kwargs.values())), "")
        name = shared_name(method.__name__, text) if isinstance(text, str) else ""
        if name and chunk in _running:
            with _lock:
                owner = _written.setdefault(name, chunk)
            if owner is not chunk:
                raise _refused(f"writes {name}, as another chunk that runs beside it does", WAY_OUT)
        return method(thing, *args, **kwargs)

    return one_chunk_each


def guard_stop(kind: type) -> None:
    """Refuse job code that stops what its chunk and others run in."""
    stop: Callable[[Any], None] = kind.stop  # type: ignore[attr-defined]
    spark, ours = _packages()

    @wraps(stop)
    def stop_alone(thing: Any) -> None:
        if _running:
            caller = next(frame.f_code.co_filename for frame in _after_this_module() if not in_spark(frame))
            if not caller.startswith(ours):
                raise _refused_in_thread("stops Spark, in which other chunks run", NO_STOP)
        stop(thing)

    def in_spark(frame: FrameType) -> bool:
        return frame.f_code.co_filename.startswith(spark)

    setattr(kind, "stop", stop_alone)  # noqa: B010


def guard_classic() -> None:
    """Have classic PySpark answer by thread, and start nothing while job code is imported."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession
    from pyspark.sql import session as module

    with _lock:
        if _has_guards.is_set():
            return
        _has_guards.set()
    _note_starters()
    guard_stop(SparkContext)
    builder = SparkSession.Builder
    get_or_create, create = builder.getOrCreate, builder.create
    get_active, active = SparkSession.getActiveSession, SparkSession.active
    get_context, start = SparkContext.getOrCreate, SparkContext.__init__
    initialise = SparkSession.__init__

    def of_builder(builder: Any) -> SparkSession:
        own = current_session()
        if own is None or is_connect(own):
            return get_or_create(builder)
        module.SparkSession._get_j_spark_session_module(own._jvm).applyModifiableSettings(
            own._jsparkSession, builder._options
        )
        return own

    @wraps(initialise)
    def of_context(session: SparkSession, sparkContext: Any, jsparkSession: Any = None, options: Any = None) -> None:  # noqa: N803
        own = current_session()
        if jsparkSession is None and own is not None and not is_connect(own):
            jsparkSession = own._jsparkSession  # noqa: N806
        initialise(session, sparkContext, jsparkSession, options or {})

    def getActiveSession(cls: type[SparkSession]) -> SparkSession | None:  # noqa: N802
        return current_session() or get_active()

    class OfThisThread:
        """For RDD.toDF, which otherwise belongs to the session that was made last."""

        def createDataFrame(self, *args: Any, **kwargs: Any) -> DataFrame:  # noqa: N802
            return SparkSession.active().createDataFrame(*args, **kwargs)

    changed: Any = SparkSession
    changed.__init__ = of_context
    changed.Builder.getOrCreate = _checked(of_builder)
    changed.Builder.create = _checked(create)
    changed.getActiveSession = classmethod(_checked(getActiveSession))
    changed.active = classmethod(_checked(lambda cls: current_session() or active()))
    changed = SparkContext
    changed.getOrCreate = classmethod(_checked(lambda cls, *args, **kwargs: get_context(*args, **kwargs), True))
    changed.__init__ = _checked(start, True)
    module._monkey_patch_RDD(OfThisThread())  # type: ignore[arg-type]
    module._monkey_patch_RDD = lambda sparkSession: None  # noqa: N803


def _checked(method: Callable[..., Any], is_shared: bool = False) -> Callable[..., Any]:
    """The method, refused while job code is imported; and in a thread of a job, unless its answer is for all chunks."""

    @wraps(method)
    def checked(*args: Any, **kwargs: Any) -> Any:
        if getattr(_here, "refusals", None) is not None:
            if method.__name__ == "getActiveSession" and _is_ours(_caller()):
                return None  # PySpark looks whether there is one, for each column that it makes
            problem = _refused(ON_IMPORT, IN_FUNCTION)
            _here.refusals.append(problem)
            raise problem
        if current_session() is None:
            _check_thread(is_shared)
        return method(*args, **kwargs)

    return checked


def _check_thread(is_shared: bool) -> None:
    """Refuse a thread that job code started, also while its file is imported: what it gets would belong to no chunk."""
    if _imports and not _running and not _is_called_by_us():
        problem = _refused(ON_IMPORT, IN_FUNCTION)
        for refusals in tuple(_imports):
            refusals.append(problem)
        raise problem
    if not is_shared and not _is_ours(_caller()) and (_running or _is_thread_of_job()):
        raise _refused_in_thread("asks for a Spark session in a thread, which finds that of no chunk", TAKE_SPARK)


def _is_thread_of_job() -> bool:
    """Whether the code of a job runs here in a thread of its own."""
    is_main = threading.current_thread() is threading.main_thread()
    return not is_main and not _is_called_by_us() and any(map(_is_job, _stack()))


def _refused(what: str, hint: str = TAKE_SPARK) -> BadJob:
    """What the code did, with the place where it did so."""
    frame = next((each for each in _stack() if not _is_ours(each)), _caller())
    return BadJob(f"{frame.f_code.co_filename}: line {frame.f_lineno}: the job {what}", hint=hint)


def _refused_in_thread(what: str, hint: str) -> BadJob:
    """The same, kept for the check after the call: the thread may end without a word."""
    problem = _refused(what, hint)
    _refused_threads.update({Path(frame.f_code.co_filename): problem for frame in _stack()})
    return problem


def _is_called_by_us() -> bool:
    """Whether this package called, at any distance; a thread that job code started begins elsewhere."""
    return any(frame.f_code.co_filename.startswith(_packages()[1]) for frame in _after_this_module())


def _is_job(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).startswith(JOB_MODULE)


def _caller() -> FrameType:
    """The frame that called a function of this module."""
    return next(_after_this_module())


def _after_this_module() -> Iterator[FrameType]:
    return (frame for frame in _stack() if frame.f_code.co_filename != __file__)


def _stack() -> Iterator[FrameType]:
    frame = inspect.currentframe()
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_ours(frame: FrameType) -> bool:
    """Whether this is code of PySpark, which also calls itself, or of this package."""
    return frame.f_code.co_filename.startswith(_packages())


@cache
def _packages() -> tuple[str, ...]:
    import pyspark

    folders = (Path(pyspark.__file__).parent, Path(__file__).parents[1])
    return tuple(f"{folder}{os.sep}" for folder in folders)
