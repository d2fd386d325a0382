"""Running: job code with the DataFrames of its chunk, and the DataFrames that it gives back."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ..api import ChunkContext, name_of
from ..errors import BadConfig, JobFailed, OdfError
from ..model import Job
from . import TAG
from .code import Code, SqlJob, argument_of, check_after_call, check_arguments
from .columns import quoted
from .problems import named_cause, reason_of, whole_of

Frames = dict[str, DataFrame]


def run_code(
    spark: SparkSession,
    code: Code | None,
    job: Job,
    frames: Mapping[str, DataFrame],
    chunk: ChunkContext,
    extra: Path | None = None,
) -> Frames:
    """What the job's code makes of its inputs, by output dataset; extra is a folder for other files, if it asks for one."""
    if code is None:
        return copied(job, frames)
    where = str(code.path) if isinstance(code, SqlJob) else f"job {job.jobid}"
    return by_output(result_of(spark, code, frames, chunk, extra), job.outputs, where)


def result_of(
    spark: SparkSession, code: Code, frames: Mapping[str, DataFrame], chunk: ChunkContext, extra: Path | None = None
) -> object:
    """What the code gives back, whatever that is."""
    if isinstance(code, SqlJob):
        return _select(spark, code, frames, chunk)
    given = {"chunk": chunk, "spark": spark, **({} if extra is None else {"extra": extra})}
    return _call(code, frames, chunk, given)


def failed(jobid: str, problem: BaseException) -> OdfError:
    """The error when the user's code, or Spark on its behalf, fails: the innermost cause, not the stack."""
    return named_cause(problem) or JobFailed(f"job {jobid} failed: {reason_of(problem)}")


def _call(
    function: Callable[..., Any], frames: Mapping[str, DataFrame], chunk: ChunkContext, extras: Mapping[str, Any]
) -> object:
    check_arguments(function, list(frames), f"job {chunk.jobid}")
    given: dict[str, Any] = {argument_of(name): frame for name, frame in frames.items()}
    given |= extras
    parameters = inspect.signature(function).parameters.values()
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        given = {parameter.name: given[parameter.name] for parameter in parameters if parameter.name in given}
    try:
        result = function(**given)
    except OdfError:
        raise
    except Exception as problem:
        chunk.log.error("%s", whole_of(problem))
        check_after_call(function)  # what the thread did not do may be the cause of such a failure
        raise failed(name_of(function), problem) from problem
    check_after_call(function)
    return result


@contextmanager
def extra_folder(code: object, datasetids: Iterable[str]) -> Iterator[Path | None]:
    """A folder for other files of this version, for a function that asks for one; a dataset of that name comes first."""
    parameters = inspect.signature(code).parameters if callable(code) else {}
    if "extra" not in parameters or "extra" in map(argument_of, datasetids):
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="odf-extra-") as folder:
        yield Path(folder)


def _select(spark: SparkSession, sql: SqlJob, frames: Mapping[str, DataFrame], chunk: ChunkContext) -> DataFrame:
    """Chunks run side by side in one session: the inputs are named inside the query only, not as views of all."""
    given = {f"input_{index}": frame for index, frame in enumerate(frames.values())}
    query = sql.text
    if given:
        named = (
            f"{quoted(argument_of(name))} AS (SELECT * FROM {{{key}}})" for name, key in zip(frames, given, strict=True)
        )
        # What is in braces here is filled in by Spark, so braces of the query itself are doubled.
        text = sql.text.replace("{", "{{").replace("}", "}}")
        query = f"WITH {', '.join(named)} SELECT * FROM (\n{text}\n)"
    values = {**chunk.env, "dataid": chunk.dataid, "epoch": chunk.epoch, "jobid": chunk.jobid}
    bounds = {"lower": chunk.lower, "upper": chunk.upper}
    try:
        df = spark.sql(query, {**values, **{key: text for key, text in bounds.items() if text is not None}}, **given)
        _ = df.schema  # Connect looks at a query only now
        return df
    except PySparkException as problem:
        chunk.log.error("%s", whole_of(problem))
        inputs = ", ".join(map(argument_of, frames))
        raise JobFailed(f"{sql.path}: {reason_of(problem)}", hint=f"Its inputs are {inputs}.") from None


def copied(job: Job, frames: Mapping[str, DataFrame]) -> Frames:
    """What a copy makes of its input: the columns that it names, under the names that it gives them."""
    copy = job.options.get("copy")
    if not isinstance(copy, Mapping):
        raise BadConfig(
            f"job {job.jobid} has no code", hint=f"Write jobs/{job.jobid}.py or jobs/{job.jobid}.sql, or declare copy."
        )
    df = frames[str(copy["from"])]
    columns, rename = copy.get("columns"), copy.get("rename")
    names = [str(name) for name in columns] if isinstance(columns, Sequence) and columns else df.columns
    renamed = {str(old): str(new) for old, new in rename.items()} if isinstance(rename, Mapping) else {}
    known = {name.lower() for name in df.columns}
    for name in (*names, *renamed):
        if name.lower() not in known:
            raise BadConfig(
                f"job {job.jobid} copy: dataset {copy['from']} has no column {name}",
                hint=f"Its columns are {', '.join(df.columns)}.",
            )
    if columns or renamed:
        kept = [TAG] if TAG in df.columns and TAG not in names else []
        df = df.select(*(F.col(quoted(name)).alias(renamed.get(name, name)) for name in (*names, *kept)))
    return {str(copy["to"]): df}


def by_output(result: object, outputs: Sequence[str], where: str) -> Frames:
    """What was given back, under the names of the outputs."""
    if result is None:
        return {}
    if isinstance(result, Mapping):
        names = {argument_of(output): output for output in outputs}
        frames = {names.get(str(name), str(name)): df for name, df in result.items()}
        unknown = [name for name in frames if name not in outputs]
        if unknown:
            raise BadConfig(
                f"{where} returns {', '.join(unknown)}, which it does not write",
                hint=f"It writes {', '.join(outputs)}.",
            )
    elif len(outputs) == 1:
        frames = {outputs[0]: result}
    else:
        raise BadConfig(
            f"{where} writes {len(outputs)} datasets, but returns one {type(result).__name__}",
            hint=f"Return a dict: {{{', '.join(f'{name!r}: …' for name in outputs)}}}",
        )
    for name, df in frames.items():
        if not is_dataframe(df):
            raise BadConfig(f"{where} returns {type(df).__name__} for {name}, not a DataFrame")
    return frames


def is_dataframe(thing: object) -> bool:
    """Whether this is a DataFrame of Spark, classic or Connect."""
    return isinstance(thing, DataFrame)
