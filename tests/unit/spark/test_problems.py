"""What is told of an error of Spark: one line with the innermost cause; the whole of it only in the log."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from opendataflow.errors import InvalidPath
from opendataflow.spark.postgres.problems import as_text
from opendataflow.spark.problems import LONGEST, named_cause, reason_of, whole_of

READ = "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///data/raw/m.csv.  SQLSTATE: KD001"
BAD_VALUE = f"""org.apache.spark.SparkException: {READ}
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.cannotReadFilesError(QueryExecutionErrors.scala:920)
Caused by: org.apache.spark.SparkException: [MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION] Malformed records are detected in record parsing: [null,3].
Parse Mode: FAILFAST. To process malformed records as null result, try setting the option 'mode' as 'PERMISSIVE'.  SQLSTATE: 22023
\tat org.apache.spark.sql.Thing.parse(Thing.scala:9)
\t... 20 more
Caused by: java.lang.NumberFormatException: For input string: "x"
\tat java.base/java.lang.Integer.parseInt(Integer.java:1)
"""
NO_PARQUET = f"""org.apache.spark.SparkException: {READ}
\tat org.apache.spark.Thing.a(Thing.scala:1)
Caused by: java.lang.RuntimeException: file:/data/raw/m.csv is not a Parquet file. Expected magic number at tail
\tat org.apache.spark.Thing.b(Thing.scala:1)
"""
NULL = f"""org.apache.spark.SparkException: {READ}
\tat org.apache.spark.Thing.a(Thing.scala:1)
Caused by: java.lang.NullPointerException
\tat org.apache.spark.Thing.b(Thing.scala:1)
"""
PYTHON = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/home/me/jobs/clean.py", line 28, in boom
    raise ValueError("cannot do x=7")
ValueError: cannot do x=7
"""
CAST = """[CAST_INVALID_INPUT] The value 'abc' of the type "STRING" cannot be cast to "INT". SQLSTATE: 22018
== SQL (line 1, position 8) ==
select cast(v as int)
       ^^^^^^^^^^^^^^
"""


class Told(PySparkException):
    """As a classic session raises it: a message, and the stack of Java beside it."""

    def __init__(self, message: str, stack: str | None = None) -> None:
        self._stackTrace = stack
        super().__init__(message=message)

    def __str__(self) -> str:
        return self.message or ""

    @property
    def message(self) -> str:
        return str(self._message)


@pytest.mark.parametrize(
    ("message", "stack", "line"),
    [
        (READ, BAD_VALUE, 'NumberFormatException: For input string: "x"; record [null,3]; file /data/raw/m.csv'),
        (
            READ,
            NO_PARQUET,
            "RuntimeException: file:/data/raw/m.csv is not a Parquet file. Expected magic number at tail",
        ),
        (PYTHON, None, "ValueError: cannot do x=7 (clean.py, line 28)"),
        (CAST, None, """[CAST_INVALID_INPUT] The value 'abc' of the type "STRING" cannot be cast to "INT"."""),
        ("\n[PARSE_SYNTAX_ERROR] Syntax error at 'selec'. SQLSTATE: 42601 (line 1, pos 0)\n\n== SQL ==\nselec", None,
         "[PARSE_SYNTAX_ERROR] Syntax error at 'selec'."),
    ],
)  # fmt: skip
def test_the_innermost_cause_is_told_in_one_line(message: str, stack: str | None, line: str) -> None:
    assert reason_of(Told(message, stack)) == line


def test_a_cause_without_words_is_told_with_the_one_around_it() -> None:
    line = reason_of(Told(READ, NULL))
    assert line.endswith("(NullPointerException)")
    assert "m.csv" in line


def test_a_line_never_grows_and_the_log_has_everything() -> None:
    assert len(reason_of(ValueError("x" * 10_000 + "\n" * 5))) == LONGEST
    assert "Integer.parseInt" not in reason_of(Told(READ, BAD_VALUE))
    assert "Integer.parseInt" in whole_of(Told(READ, BAD_VALUE))


def test_an_error_of_ours_that_a_task_raised_is_readable_in_the_log() -> None:
    raised = as_text(InvalidPath('there is no table at "t"', hint="Create it."))
    stack = f"org.apache.spark.SparkException: Job aborted\nCaused by: TaskFailed: {raised}\n\tat org.apache.Thing.b(T.scala:1)"
    problem = Told(f"Job aborted: {raised}", stack)
    assert repr(named_cause(problem)) == repr(InvalidPath('there is no table at "t"'))
    for text in (whole_of(problem), reason_of(problem)):
        assert 'there is no table at "t"' in text
        assert "odf-error" not in text
    assert "TaskFailed: INVALID_PATH: there is no table" in whole_of(problem)
