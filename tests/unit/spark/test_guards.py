"""Job code that asks for a Spark session when it is imported is refused by name, and starts no Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from opendataflow.errors import BadJob
from opendataflow.spark.code import load_job

START = "from pyspark import SparkContext\nfrom pyspark.sql import SparkSession, functions as F, types as T\n"
JOB = "\n\ndef out(raw):\n    return raw\n"
HELPER = START + "def get_spark():\n    return SparkSession.builder.appName('x').getOrCreate()\n"


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Loads this code as a job, in a project with a helper and a package."""
    name = f"helper_{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text(HELPER)
    (tmp_path / f"{name}_package").mkdir()
    (tmp_path / f"{name}_package/__init__.py").write_text("from . import deep\n")
    (tmp_path / f"{name}_package/deep.py").write_text(START + "spark = SparkSession.active()\n")

    def run(code: str) -> object:
        (tmp_path / "out.py").write_text(START + code.replace("helper", name) + JOB)
        return load_job(tmp_path / "out.py", "out")

    return run


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize(
    "code",
    [
        "spark = SparkSession.builder.getOrCreate()",
        "spark = SparkSession.builder.master('local').config('a', 'b').getOrCreate()",
        "spark = SparkSession.builder.create()",
        "spark = SparkSession.active()",
        "spark = SparkSession.getActiveSession()",
        "builder = SparkSession.builder\nspark = builder.getOrCreate()",
        "from pyspark.sql import SparkSession as S\nspark = getattr(S, 'active')()",
        "spark = (lambda: SparkSession.builder.getOrCreate())()",
        "sc = SparkContext.getOrCreate()",
        "sc = SparkContext('local')",
        "def f(spark=SparkSession.builder.getOrCreate()): pass",
        "class Jobs:\n    spark = SparkSession.getActiveSession()",
        "try:\n    spark = SparkSession.builder.getOrCreate()\nexcept Exception:\n    spark = None",
        "if __name__ != '__main__':\n    spark = SparkSession.builder.getOrCreate()",
        "from helper import get_spark\nspark = get_spark()",
        "import helper\nspark = helper.get_spark()",
        "import helper_package",
        "import threading\nthread = threading.Thread(target=SparkSession.builder.getOrCreate)\nthread.start()\nthread.join()",
        "import threading\nthread = threading.Thread(target=lambda: SparkContext.getOrCreate())\nthread.start()\nthread.join()",
        "from concurrent.futures import ThreadPoolExecutor\nimport helper\n"
        "with ThreadPoolExecutor() as pool:\n    pool.submit(helper.get_spark)",
    ],
)
def test_code_that_asks_on_import_is_refused_where_it_does(load, code: str) -> None:
    from pyspark import SparkContext

    before = SparkContext._gateway
    with pytest.raises(BadJob, match=r"\.py: line \d+: the job asks for a Spark session") as refused:
        load(code)
    assert "take `spark` as a parameter" in refused.value.hint
    assert SparkContext._gateway is before, "no Java was started"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_asks_only_after_the_import_is_refused_as_well(load) -> None:
    from pyspark import SparkContext

    before = SparkContext._gateway
    module = sys.modules[
        load(
            "import threading\nimported = threading.Event()\n"
            "def ask():\n    imported.wait(60)\n    SparkSession.builder.getOrCreate()\n"
            "thread = threading.Thread(target=ask)\nthread.start()"
        ).__module__
    ]
    module.imported.set()
    module.thread.join()
    assert SparkContext._gateway is before, "no Java was started"


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")
@pytest.mark.parametrize(
    "code",
    [
        "def load():\n    return SparkSession.active()\nimport json\njson.loads('1')",
        "class A:\n    def run(self):\n        return SparkSession.active()\nimport subprocess\nsubprocess.run(['true'])",
        "import threading\nlock = threading.Lock()\ndef mine():\n    return SparkSession.active()",
        "from functools import cache\n@cache\ndef rows(path):\n    return SparkSession.active().read.parquet(path).count()",
        "class Q:\n    builder = property(dict)\n    @staticmethod\n    def create():\n        return 1\nx = Q.create()",
        "def main():\n    SparkSession.builder.getOrCreate()\nif __name__ == '__main__':\n    main()",
        "@F.udf(T.DoubleType())\ndef double(x):\n    return x * 2",
        "from helper import get_spark",
    ],
)
def test_other_code_is_left_alone(load, code: str) -> None:
    assert callable(load(code))


def test_what_needs_spark_is_refused_while_none_runs(tmp_path: Path) -> None:
    """In a process of its own: where Spark runs already, PySpark makes columns at any time."""
    lines = ["late = F.col('delay') > 0", "double = F.udf(lambda x: x * 2, 'double')", "T.StructType.fromDDL('a INT')"]
    for number, line in enumerate(lines):
        (tmp_path / f"job{number}.py").write_text(START + line + JOB)
    program = (
        "import sys, pathlib\nfrom opendataflow.errors import BadJob\nfrom opendataflow.spark.code import load_job\n"
        "for path in sys.argv[1:]:\n    try:\n        load_job(pathlib.Path(path), 'out')\n"
        "    except BadJob as problem:\n        print(problem.message.partition(': ')[2])\n"
    )
    paths = map(str, sorted(tmp_path.glob("job*.py")))
    answer = subprocess.run([sys.executable, "-c", program, *paths], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines() == ["line 3: the job asks for a Spark session when it is imported"] * 3
