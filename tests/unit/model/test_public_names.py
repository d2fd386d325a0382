import sys
from subprocess import run

import opendataflow.model as model


def test_every_public_name_is_there_and_listed_once():
    assert sorted(set(model.__all__)) == sorted(model.__all__)
    assert all(hasattr(model, name) for name in model.__all__)


def test_the_model_imports_neither_disk_nor_network_nor_sql():
    code = "import sys, opendataflow.model; print(*sys.modules)"
    loaded = run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": ":".join(sys.path)}
    )
    unwanted = {
        "sqlite3",
        "apsw",
        "psycopg",
        "socket",
        "pathlib",
        "subprocess",
        "logging",
        "pyspark",
        "click",
        "difflib",
    }
    assert not unwanted & set(loaded.stdout.split())
