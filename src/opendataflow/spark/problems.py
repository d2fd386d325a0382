"""Problems: what Spark says when something fails, in one line."""

from __future__ import annotations

import re

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

# A classic session lets errors of Java through that it does not know.
SPARK_ERRORS = (PySparkException, Py4JError)

_condition = re.compile(r"\[[A-Z][A-Z0-9_.]+\] .*")


def reason_of(problem: BaseException) -> str:
    """The line that says what is wrong, without the stack and without where in Java it came from."""
    if not isinstance(problem, SPARK_ERRORS):
        return f"{type(problem).__name__}: {problem}"
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    named = next((match[0] for line in lines if (match := _condition.search(line))), None)
    return named or next((line for line in lines if not line.startswith("An error occurred")), type(problem).__name__)
