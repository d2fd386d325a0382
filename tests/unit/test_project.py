import os
import subprocess
import sys
from pathlib import Path

import pytest

from opendataflow.errors import (
    BY_NAME,
    BadConfig,
    BadDataid,
    BadDefinition,
    BadId,
    BadMapping,
    Cycle,
    InvalidPath,
    OdfError,
    TwoProducers,
    UnknownDataset,
    UnknownPool,
)
from opendataflow.model import Dataset, Input, Mapping, Partition, Pool, RetryRule
from opendataflow.model.definitions.dataset import unfenced
from opendataflow.project import Environment, Project, code_of, find, is_inside, load, resolve_location, without_file
from opendataflow.project.jobs import is_one_at_a_time

SECRET = "hunter2-canary"
ONE, TWO, THREE = (f"odf2:{'A' * 67}{letter}" for letter in "AEI")
JAVA = "ZpLfE+uTYE2mdmjOPrukol3yu+cpAHBnmL6trHa9PHGj"

DESIGN = """
[project]
name = "flights"
jobs = ["jobs"]                      # folders with job code

[store]
url = "sqlite:///dataflow.db"        # or postgresql://etl@db/dataflow with encrypted = "…"

[environment.dev]
roots = ["./data"]
[environment.prod]
roots = ["s3a://lake/flights"]
store.url = "postgresql://…"

[pools]
etl = 10

[dataset.flights_raw]
format = "csv"
location = "raw/flights/{dataid}.csv"        # under a root
partition = { type = "day", column = "flight_date" }
[dataset.flights_raw.checks]
rows = { min = 1 }
schema = "carrier string, dep_delay double, …"
not_null = ["carrier"]

[dataset.flights_clean]
location = "clean/{dataid}.parquet"
partition = "day"

[dataset.delays_by_month]
location = "delays/{year}/{month}.json"
partition = "month"

[dataset.orders_pg]
kind = "table"
hostname = "db.example"
database = "shop"
schemaname = "public"
tablename = "orders"
username = "etl"
encryptedpass = "ZpLfE+uTYE2mdmjOPrukol3yu+cpAHBnmL6trHa9PHGj"
partition = { type = "range", column = "id", count = 10000 }

[dataset.orders_lake]
location = "orders/{dataid}.parquet"
partition = { type = "range", count = 10000 }

[job.clean_flights]                  # jobs/clean_flights.py, .sql or .sh, found by name
reads = ["flights_raw"]
writes = ["flights_clean"]
retries = 2
pool = "etl"

[job.migrate_orders]                 # no code at all
copy = { from = "orders_pg", to = "orders_lake" }

[job.month_report]
reads = [{ dataset = "flights_clean", mapping = "rollup" }]
writes = ["delays_by_month"]         # its partition type is "month"
env = { REPORT_CURRENCY = "USD" }
"""

TWO_DAYS = """
[dataset.a]
partition = "day"
[dataset.b]
partition = "day"
"""


@pytest.fixture
def write(tmp_path: Path):
    def write_file(text: str, name: str = "dataflow.toml") -> Path:
        file = tmp_path / name
        file.write_text(text, encoding="utf-8")
        return file

    return write_file


@pytest.fixture
def loaded(write):
    def load_text(text: str, env: str | None = None) -> Project:
        return load(write(text), env)

    return load_text


def dataset(project: Project, name: str) -> Dataset:
    return next(each for each in project.datasets if each.datasetid == name)


def refusal(text: str, loaded, env: str | None = None) -> OdfError:
    with pytest.raises(OdfError) as problem:
        loaded(text, env)
    assert SECRET not in str(problem.value)
    return problem.value


# Finding ----------------------------------------------------------------------------------------------------------


def test_the_project_file_is_found_in_the_folder_or_above_it(write, tmp_path):
    file = write("")
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    assert find(deep) == file
    assert find(tmp_path) == file


def test_the_toml_file_comes_before_the_properties_file_of_the_same_folder(write, tmp_path):
    old = write("url=jdbc:postgresql://h/d", "dataflow.properties")
    assert find(tmp_path) == old
    assert find(tmp_path / "missing" / "folder") == old
    new = write("")
    assert find(tmp_path) == new


def test_the_nearest_project_file_wins_whatever_its_kind(write, tmp_path):
    write("")
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "dataflow.properties").write_text("url=jdbc:postgresql://h/d")
    assert find(inner) == inner / "dataflow.properties"


def test_a_folder_called_like_the_project_file_is_not_one(tmp_path):
    (tmp_path / "dataflow.toml").mkdir()
    assert find(tmp_path) != tmp_path / "dataflow.toml"


# The whole file ---------------------------------------------------------------------------------------------------


def test_the_example_of_the_design_loads(loaded, tmp_path):
    project = loaded(DESIGN)
    assert project.name == "flights"
    assert project.folder == tmp_path
    assert project.file == tmp_path / "dataflow.toml"
    assert project.job_folders == (tmp_path / "jobs",)
    assert project.logs == tmp_path / ".odf" / "logs"
    assert project.environments == ("dev", "prod")
    assert project.environment == Environment("dev", (f"{tmp_path}/data",), (), f"sqlite:///{tmp_path}/dataflow.db")
    assert project.pools == (Pool("etl", 10),)
    assert [job.jobid for job in project.jobs] == ["clean_flights", "migrate_orders", "month_report"]
    clean, migrate, report = project.jobs
    assert (clean.inputs, clean.outputs) == ((Input("flights_raw"),), ("flights_clean",))
    assert (clean.retry.retries, clean.pool) == (2, "etl")
    assert (migrate.inputs, migrate.outputs) == ((Input("orders_pg"),), ("orders_lake",))
    assert migrate.options == {"copy": {"from": "orders_pg", "to": "orders_lake"}}
    assert report.inputs == (Input("flights_clean", Mapping("rollup")),)
    assert report.env == {"REPORT_CURRENCY": "USD"}
    raw, orders = dataset(project, "flights_raw"), dataset(project, "orders_pg")
    assert (raw.kind, raw.format, raw.partition) == ("file", "csv", Partition("day", "flight_date"))
    assert [check.kind for check in raw.checks] == ["schema", "rows", "not_null"]
    assert (orders.kind, orders.hostname, orders.tablename) == ("table", "db.example", "orders")


def test_the_other_environment_of_the_example_has_its_own_roots_and_store(loaded):
    environment = loaded(DESIGN, "prod").environment
    assert environment == Environment("prod", ("s3a://lake/flights",), (), "postgresql://…")


def test_an_empty_file_is_a_project_with_nothing_but_today(loaded, tmp_path):
    project = loaded("")
    assert project.name == tmp_path.name
    assert project.environment.name == "default"
    assert project.environment.roots == (str(tmp_path),)
    assert project.environment.store_url == f"sqlite:///{tmp_path}/dataflow.db"
    assert [each.datasetid for each in project.datasets] == ["today"]
    assert (project.jobs, project.pools, project.spark) == ((), (), {})


def test_a_project_is_frozen_and_its_secrets_are_not_shown(loaded):
    project = loaded(f'[store]\nurl = "postgresql://etl@db/dataflow"\nencrypted = "{ONE}"')
    assert project.environment.store_encrypted == ONE
    assert ONE not in repr(project)
    with pytest.raises(AttributeError):
        project.name = "other"


def test_the_time_zone_is_that_of_the_dataset_today(loaded):
    project = loaded('[project]\ntimezone = "Europe/Berlin"')
    assert project.timezone == "Europe/Berlin"
    assert dataset(project, "today").options == {"timezone": "Europe/Berlin"}
    assert dataset(loaded(""), "today").options == {"timezone": "UTC"}


def test_the_spark_table_is_taken_as_it_is(loaded):
    spark = loaded('[spark]\nmaster = "local[2]"\n[spark.conf]\n"spark.sql.shuffle.partitions" = 8').spark
    assert spark == {"master": "local[2]", "conf": {"spark.sql.shuffle.partitions": 8}}


def test_folders_are_those_of_the_project_wherever_it_is_loaded_from(loaded, tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    project = loaded('[project]\njobs = ["etl/jobs", "../shared"]\nlogs = "var/log"')
    assert project.job_folders == (tmp_path / "etl/jobs", tmp_path.parent / "shared")
    assert project.logs == tmp_path / "var/log"


def test_a_file_with_a_byte_order_mark_and_windows_line_ends_loads(tmp_path):
    file = tmp_path / "dataflow.toml"
    file.write_bytes(b'\xef\xbb\xbf[project]\r\nname = "x"\r\n')
    assert load(file).name == "x"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"[dataset.a\n", ["line 1", "column 11"]),
        (b"[project]\nname = 'a'\nname = 'b'\n", ["line 3"]),
        (b"[project]\nname = '\xff'\n", ["line 2", "UTF-8"]),
        (b"x = " + b"[" * 100_000, ["nested"]),
        (b"x = " + b"9" * 10_000, ["TOML"]),
        (b"[dataset.a]\nhostname = 'a' ; database = 'b'\n", ["line 2"]),
    ],
)
def test_what_is_not_toml_is_refused_with_its_position(tmp_path, content, words):
    file = tmp_path / "dataflow.toml"
    file.write_bytes(content)
    with pytest.raises(BadConfig) as problem:
        load(file)
    for word in ["dataflow.toml", *words]:
        assert word in problem.value.message


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(BadConfig, match=r"dataflow\.toml"):
        load(tmp_path / "dataflow.toml")
    with pytest.raises(BadConfig, match=str(tmp_path)):
        load(tmp_path)


# Every mistake has a name and a position -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "error", "key", "word"),
    [
        # the file and [project]
        ("[datasets.a]", BadConfig, "[datasets]", "dataset?"),
        ("name = 'x'", BadConfig, "[name]", "table"),
        ("dataset = 3", BadConfig, "dataset", "table"),
        ("[dataset]\na = 3", BadConfig, "[dataset] a", "[dataset.NAME]"),
        ("[project]\nnam = 'x'", BadConfig, "[project] nam", "name?"),
        ("[project]\nname = 3", BadConfig, "[project] name", "text"),
        ("[project]\njobs = [3]", BadConfig, "[project] jobs", "3"),
        ("[project]\njobs = ['a\\u0000']".replace("'", '"'), BadConfig, "[project] jobs", "control"),
        ("[project]\ntimezone = 'Mars/Base'", BadDefinition, "[project] timezone", "Mars/Base"),
        ("[project]\ntimezone = '../../etc/passwd'", BadDefinition, "[project] timezone", "passwd"),
        ("[project]\ntimezone = 'Europe'", BadDefinition, "[project] timezone", "Europe"),
        ("[spark]\nx = inf", BadDefinition, "[spark]", "inf"),
        # [store]
        ("[store]\nurl = 'mysql://db/x'", BadConfig, "[store] url", "mysql://"),
        ("[store]\nurl = 'sqlite:///'", BadConfig, "[store] url", "sqlite"),
        ("[store]\nurl = ''", BadConfig, "[store] url", "address"),
        ("[store]\nurl = 7", BadConfig, "[store] url", "7"),
        ("[store]\nuri = 'x'", BadConfig, "[store] uri", "url?"),
        # [environment.X]
        ("[environment]\nroots = ['x']", BadConfig, "[environment] roots", "[environment.NAME]"),
        ("[environment.'a b']", BadId, "[environment.'a b']", "environment"),
        ("[environment.dev]\nroot = ['x']", BadConfig, "[environment.dev] root", "roots?"),
        ("[environment.dev]\nroots = [3]", BadConfig, "[environment.dev] roots", "3"),
        ("[dataset.a]\npartition = 'day'\ndeadline = '+999999d'", BadConfig, "[dataset.a] deadline", "366 days"),
        ("[dataset.a]\npartition = 'day'\nexpected = '367d'", BadConfig, "[dataset.a] expected", "366 days"),
        ("[dataset.a]\npartition = 'day'\nexpected = 1e308", BadConfig, "[dataset.a] expected", "366 days"),
        ("[environment.dev]\nroots = ['']", BadConfig, "[environment.dev] roots", "empty"),
        ("[environment.dev]\nroots = ['hdfs:/x']", BadConfig, "[environment.dev] roots", "hdfs"),
        ("[environment.dev]\nhosts = {a = 1}", BadConfig, "[environment.dev] hosts", "texts"),
        ("[environment.dev]\nstore = 'x'", BadConfig, "[environment.dev] store", "table"),
        ("[environment.dev]\nstore.url = 'ftp://x'", BadConfig, "[environment.dev.store] url", "ftp"),
        ("[environment.dev.dataset.a]\nhostname='h'", UnknownDataset, "[environment.dev.dataset.a]", "a"),
        (f"{TWO_DAYS}[environment.x.dataset.a]\nformat='csv'", BadConfig, "[environment.x.dataset.a] format", "such"),
        (f"{TWO_DAYS}[environment.x.dataset.a]\nlocation='{{hour}}'", BadDefinition, "dataset.a] location", "{hour}"),
        (f"{TWO_DAYS}[environment.x.dataset.a]\nlocation=3", BadConfig, "[environment.x.dataset.a] location", "text"),
        # [pool.X]
        ("[pool.etl]\nslots = -1", BadDefinition, "[pool.etl] slots", "-1"),
        ("[pool.etl]\nslots = true", BadDefinition, "[pool.etl] slots", "True"),
        ("[pool.etl]\nslot = 1", BadConfig, "[pool.etl] slot", "slots?"),
        ("[pool.etl]\nhours = 'Mon'", BadConfig, "[pool.etl] hours", "list"),
        ("[pool.etl]\nhours = [8]", BadConfig, "[pool.etl] hours", "8"),
        ("[pool.etl]\nhours = ['Mon']", BadDefinition, "[pool.etl] hours", "Mon"),
        ("[pool.etl]\ntimezone = 'Mars/Base'", BadDefinition, "[pool.etl] timezone", "Mars"),
        ("[dataset.a]\nreaders = -1", BadConfig, "[dataset.a] readers", "-1"),
        ("[dataset.a]\nreaders = false", BadConfig, "[dataset.a] readers", "False"),
        ("[pools]\netl = 'ten'", BadDefinition, "[pools] etl", "ten"),
        ("[pools]\n'a b' = 1", BadId, "[pools]", "a b"),
        ("[pools]\netl = 1\n[pool.etl]\nslots = 1", BadConfig, "[pools] etl", "twice"),
        # [dataset.X]
        ("[dataset.today]", BadConfig, "[dataset.today]", "timezone"),
        ("[dataset.a]\nlocatoin = 'x'", BadConfig, "[dataset.a] locatoin", "location?"),
        ("[dataset.a.b]\nlocation = 'x'", BadConfig, "[dataset.a] b", "[dataset.'a.b']"),
        ("[dataset.a]\nkind = 'stream'", BadConfig, "[dataset.a] kind", "stream"),
        ("[dataset.a]\nkind = 'file'", BadConfig, "[dataset.a] location", "needs"),
        ("[dataset.a]\nkind = 'table'", BadConfig, "[dataset.a] tablename", "needs"),
        ("[dataset.a]\nlocation = 'x'\ntablename = 'y'", BadConfig, "[dataset.a] kind", "tablename"),
        ("[dataset.a]\nhostname = 3", BadConfig, "[dataset.a] hostname", "3"),
        ("[dataset.a]\nformat = 'c s v'", BadConfig, "[dataset.a] format", "c s v"),
        ("[dataset.a]\npartition = 'dayly'", BadDefinition, "[dataset.a] partition", "dayly"),
        ("[dataset.a]\npartition = 3", BadDefinition, "[dataset.a] partition", "3"),
        ("[dataset.a]\npartition = {typ='day'}", BadDefinition, "[dataset.a] partition", "typ"),
        ("[dataset.a]\nlocation = '{month}.csv'", BadDefinition, "[dataset.a] location", "{month}"),
        ("[dataset.a]\nlocation = '{dataid'", BadDefinition, "[dataset.a] location", "brace"),
        ("[dataset.a]\nlocation = 'hdfs:/x/{dataid}'", BadConfig, "[dataset.a] location", "hdfs"),
        ("[dataset.a]\nchecks = 3", BadConfig, "[dataset.a] checks", "table"),
        ("[dataset.a.checks]\nrow = {min = 1}", BadDefinition, "[dataset.a] checks", "row"),
        ("[dataset.a.checks]\nrows = {min = 'x'}", BadDefinition, "[dataset.a] checks", "rows"),
        ("[dataset.a.checks]\nconserves = 'b'", UnknownDataset, "[dataset.a] checks", "b"),
        ("[dataset.a]\nlayout = 'flat'", BadConfig, "[dataset.a] layout", "plain"),
        ("[dataset.a]\nrepeats = 'yes'", BadConfig, "[dataset.a] repeats", "yes"),
        ("[dataset.a]\nkeep = 0", BadConfig, "[dataset.a] keep", "0"),
        ("[dataset.a]\nlimit = 10", BadConfig, "[dataset.a] limit", "no such key"),
        ("[dataset.a]\nkey = 'id'", BadConfig, "[dataset.a] key", "no such key"),
        ("[dataset.a]\nlocation = 'x'\nsslmode = 'require'", BadConfig, "[dataset.a] sslmode", "PostgreSQL"),
        ("[dataset.a]\ntablename = 't'\nformat = 'jdbc'\nloaders = 2", BadConfig, "[dataset.a] loaders", "PostgreSQL"),
        ("[dataset.a]\ntablename = 't'\nsslmode = 'maybe'", BadConfig, "[dataset.a] sslmode", "verify-full"),
        ("[dataset.a]\ntablename = 't'\ntimezone = 'Mars/Base'", BadDefinition, "[dataset.a] timezone", "Mars"),
        ("[dataset.a]\ntablename = 't'\nas_text = [1]", BadConfig, "[dataset.a] as_text", "list"),
        ("[dataset.a]\ntablename = 't'\nnumeric = 'decimal'", BadConfig, "[dataset.a] numeric", "decimal(38,18)"),
        ("[dataset.a]\ntablename = 't'\nloaders = 0", BadConfig, "[dataset.a] loaders", "0"),
        ("[dataset.a]\ntablename = 't'\nreplace = true", BadConfig, "[dataset.a] replace", "table"),
        ("[dataset.a]\noptions = {x = nan}", BadDefinition, "[dataset.a] options", "nan"),
        # [job.X]
        ("[job.j]", BadDefinition, "[job.j] reads", "neither"),
        ("[job.j]\nargs = ['a']", BadConfig, "[job.j] args", "no such key"),
        ("[job.j.spark]\nmaster = 'x'", BadConfig, "[job.j] spark", "cannot be set for one job"),
        ("[job.j]\nwrite = 'a'", BadConfig, "[job.j] write", "writes?"),
        ("[job.j]\nreads = 3", BadConfig, "[job.j] reads", "3"),
        ("[job.j]\nreads = [['a']]", BadConfig, "[job.j] reads[0]", "name"),
        ("[job.j]\nreads = [{ mapping = 'lag' }]", BadConfig, "[job.j] reads[0]", "name"),
        ("[job.j]\nreads = [{ dataset = 'a', maping = 'lag' }]", BadConfig, "[job.j] reads[0].maping", "mapping?"),
        ("[job.j]\nreads = [{ dataset = 'a', mapping = 'leg' }]", BadMapping, "[job.j] reads[0]", "leg"),
        ("[job.j]\nreads = ['a', 'a']", BadDefinition, "[job.j] reads", "twice"),
        ("[job.j]\nwrites = ['a', 'a']", BadDefinition, "[job.j] writes", "twice"),
        ("[job.j]\nwrites = [{dataset='a'}]", BadConfig, "[job.j] writes", "text"),
        ("[job.j]\nwrites = 'a'\nretries = -1", BadDefinition, "[job.j] retries", "-1"),
        ("[job.j]\nwrites = 'a'\nretries = '2'", BadDefinition, "[job.j] retries", "'2'"),
        ("[job.j]\nwrites = 'a'\nbackoff = 'soon'", BadDefinition, "[job.j] backoff", "soon"),
        ("[job.j]\nwrites = 'a'\nbackoff_max = -1", BadDefinition, "[job.j] backoff_max", "-1"),
        ("[job.j]\nwrites = 'a'\nbackoff = true", BadConfig, "[job.j] backoff", "True"),
        ("[job.j]\nwrites = 'a'\nretry_on = 'JOB_FAILD'", BadConfig, "[job.j] retry_on", "JOB_FAILED?"),
        ("[job.j]\nwrites = 'a'\nlease = 0", BadDefinition, "[job.j] lease", "0"),
        ("[job.j]\nwrites = 'a'\ntimeout = '1y'", BadDefinition, "[job.j] timeout", "1y"),
        ("[job.j]\nwrites = 'a'\npool = 'etl'", UnknownPool, "[job.j] pool", "etl"),
        ("[pools]\netl = 1\n[job.j]\nwrites = 'a'\npool = 'elt'", UnknownPool, "[job.j] pool", "etl?"),
        ("[job.j]\nwrites = 'a'\npool = 3", BadConfig, "[job.j] pool", "3"),
        ("[job.j]\nwrites = 'a'\nenv = 'X=y'", BadConfig, "[job.j] env", "table"),
        ("[job.j]\nwrites = 'a'\nenv = { X = 3 }", BadConfig, "[job.j] env", "texts"),
        ("[job.j]\nwrites = 'a'\nenv = { 'A-B' = 'x' }", BadDefinition, "[job.j] env", "A-B"),
        ("[job.j]\nwrites = 'a'\nenv = { IN = 'x' }", BadConfig, "[job.j] env", "IN"),
        ("[job.j]\nwrites = 'a'\nenv = { dataid = 'x' }", BadConfig, "[job.j] env", "dataid"),
        ("[job.j]\nwrites = 'a'\nenv = { PASSKEY_COMMAND = 'x' }", BadConfig, "[job.j] env", "PASSKEY"),
        ("[job.j]\nwrites = 'a'\nenv = { ODF_RUN = 'x' }", BadConfig, "[job.j] env", "ODF_RUN"),
        ("[job.j]\nwrites = 'a'\nsecrets = 'argv'", BadConfig, "[job.j] secrets", "file"),
        ("[job.j]\nwrites = 'a'\nbatch = 0", BadConfig, "[job.j] batch", "0"),
        ("[job.j]\nwrites = 'a'\nspark = { 'spark.executor.memory' = '1g' }", BadConfig, "[job.j] spark", "memory"),
        ("[job.j]\nwrites = 'a'\nspark.sql.x = []", BadConfig, "[job.j] spark", "spark.sql.x"),
        ("[job.j]\nwrites = 'a'\nscript = '../evil.sh'", BadConfig, "[job.j] script", "outside"),
        ("[job.j]\nwrites = 'a'\nscript = '/bin/sh'", BadConfig, "[job.j] script", "outside"),
        ("[job.j]\nwrites = 'a'\nscript = ''", BadConfig, "[job.j] script", "outside"),
        ("[job.j]\ncopy = 'a'", BadConfig, "[job.j] copy", "table"),
        ("[job.j]\ncopy = { from = 'a' }", BadConfig, "[job.j.copy] to", "needs"),
        ("[job.j]\ncopy = { from = 'a', to = 3 }", BadConfig, "[job.j.copy] to", "3"),
        ("[job.j]\ncopy = { from = 'a', to = 'a b' }", BadId, "[job.j.copy] to", "a b"),
        ("[job.j]\ncopy = { from = 'a', two = 'b' }", BadConfig, "[job.j.copy] two", "to?"),
        ("[job.j]\ncopy = { from = 'a', to = 'b', columns = [] }", BadConfig, "[job.j.copy] columns", "empty"),
        ("[job.j]\ncopy = { from = 'a', to = 'b', rename = {x = 1} }", BadConfig, "[job.j.copy] rename", "texts"),
        ("[job.j]\ncopy = { from = 'a', to = 'b' }\nreads = ['a', 'c']", BadConfig, "[job.j] reads", "copy"),
        ("[job.j]\ncopy = { from = 'a', to = 'b' }\nwrites = 'c'", BadConfig, "[job.j] writes", "copy"),
        ("[job.j]\ncopy = { from = 'a', to = 'b' }\nscript = 'x.sh'", BadConfig, "[job.j] script", "copy"),
        # the graph
        (f"{TWO_DAYS}[job.j]\nreads = 'aa'\nwrites = 'b'", UnknownDataset, "[job.j] reads", "aa"),
        (f"{TWO_DAYS}[job.j]\nreads = 'a'\nwrites = 'bb'", UnknownDataset, "[job.j] writes", "bb"),
        (f"{TWO_DAYS}[job.j]\ncopy = {{ from = 'a', to = 'c' }}", UnknownDataset, "[job.j] copy", "c"),
        (f"{TWO_DAYS}[job.j]\nreads = 'a'\nwrites = 'today'", BadDefinition, "[job.j] writes", "today"),
        (f"{TWO_DAYS}[job.j]\nwrites = 'b'\n[job.k]\nwrites = 'b'", TwoProducers, "[job.k] writes", "j"),
        (f"{TWO_DAYS}[job.j]\nreads = 'a'\nwrites = 'a'", Cycle, "[job.j] reads", "j"),
        (f"{TWO_DAYS}[dataset.m]\npartition='month'\n[job.j]\nreads='a'\nwrites='m'", BadMapping, "[job.j] reads", "a"),
        (f"{TWO_DAYS}[dataset.m]\npartition='month'\n[job.j]\nwrites=['a','m']", BadDefinition, "[job.j] writes", "m"),
    ],
)
def test_a_mistake_is_told_with_file_table_and_key(loaded, text, error, key, word):
    problem = refusal(text, loaded)
    assert type(problem) is error
    assert problem.message.startswith("dataflow.toml: ")
    assert key in problem.message
    assert word in str(problem)
    assert problem.message.count("dataflow.toml") == 1


@pytest.mark.parametrize("length", [1, 2, 50])
def test_a_cycle_of_jobs_is_refused_and_named_where_it_closes(loaded, length):
    text = "".join(f"[dataset.d{n}]\npartition = 'day'\n" for n in range(length))
    text += "".join(f"[job.j{n}]\nreads = 'd{n}'\nwrites = 'd{(n + 1) % length}'\n" for n in range(length))
    problem = refusal(text + "[job.innocent]\nreads = 'd0'", loaded)
    assert type(problem) is Cycle
    assert f"[job.j{length - 1}] reads" in problem.message


# Ids and hostile values (faults 20 and 21) ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "",
        "it's",
        'a"b',
        "a\nb",
        "../up",
        "a/b",
        "a\0b",
        "x" * 10_000,
        "-dash",
        "\u202eltr",
        "שלום",
        "$(touch x)",
        "a;b",
        "\x1b[31mred",
    ],
)
@pytest.mark.parametrize("table", ["dataset", "job", "pool", "environment"])
def test_an_id_outside_the_grammar_is_refused_at_its_table(loaded, table, name):
    escaped = "".join(f"\\U{ord(letter):08x}" for letter in name)
    problem = refusal(f'[{table}."{escaped}"]', loaded)
    assert type(problem) is BadId
    assert problem.message.startswith(f"dataflow.toml: [{table}.")
    assert len(str(problem)) < 500
    assert not set("\n\0\x1b\u202e") & set(problem.message)


@pytest.mark.parametrize("key", ["reads", "writes"])
def test_an_id_outside_the_grammar_is_refused_where_it_is_used(loaded, key):
    problem = refusal(f"[job.j]\n{key} = ['../x']", loaded)
    assert type(problem) is BadId
    assert f"[job.j] {key}" in problem.message


@pytest.mark.parametrize("name", ["PATH", "LD_PRELOAD", "BASH_ENV"])
def test_a_dataset_may_be_called_like_a_variable(loaded, name):
    assert dataset(loaded(f"[dataset.{name}]"), name).datasetid == name


def test_an_id_with_a_dot_is_written_in_quotes(loaded):
    assert dataset(loaded("[dataset.'a.b']"), "a.b").datasetid == "a.b"


@pytest.mark.parametrize(
    "value", ["$(touch pwned)", "`id`", "a; rm -rf ~", "{{7*7}}", "' or 1=1 --", "__import__('os')"]
)
def test_shell_sql_and_template_text_is_only_text(loaded, value, tmp_path):
    text = f'[dataset.a]\nhostname = "{value}"\nusername = "{value}"\ntablename = "{value}"\n'
    text += f'[job.j]\nwrites = "a"\nenv = {{ X = "{value}" }}'
    project = loaded(text)
    assert (dataset(project, "a").hostname, project.jobs[0].env) == (value, {"X": value})
    assert [path.name for path in tmp_path.iterdir()] == ["dataflow.toml"]


@pytest.mark.parametrize("key", ["hostname", "database", "schemaname", "tablename", "username", "location", "format"])
@pytest.mark.parametrize("letter", ["\\u0000", "\\n", "\\u001b", "\\u007f"])
def test_control_characters_are_refused_in_every_text_of_a_dataset(loaded, key, letter):
    problem = refusal(f'[dataset.a]\n{key} = "x{letter}y"', loaded)
    assert type(problem) is BadConfig
    assert f"dataflow.toml: [dataset.a] {key}" in problem.message


# Passwords --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (f"[dataset.a]\npassword = '{SECRET}'", "[dataset.a] password"),
        (f"[dataset.a]\npass = '{SECRET}'", "[dataset.a] pass"),
        (f"[dataset.a]\nPassword = '{SECRET}'", "[dataset.a] Password"),
        (f"[dataset.a]\noptions = {{ password = '{SECRET}' }}", "[dataset.a] options.password"),
        (f"[dataset.a]\noptions = {{ 'x.y.password' = '{SECRET}' }}", "[dataset.a] options.'x.y.password'"),
        (f"[dataset.a]\nready = {{ x = [{{ pwd = '{SECRET}' }}] }}", "[dataset.a] ready.x.pwd"),
        (f"[dataset.a]\nurl = 'jdbc:oracle://db/x?password={SECRET}'", "[dataset.a] url"),
        (f"[dataset.a]\nlocation = 's3a://key:{SECRET}@bucket/x'", "[dataset.a] location"),
        (f"[dataset.a]\n[environment.x.dataset.a]\npassword = '{SECRET}'", "[environment.x.dataset.a] password"),
        (f"[dataset.a]\n[environment.x.dataset.a]\nlocation = 'ftp://u:{SECRET}@h/'", "dataset.a] location"),
        (f"[store]\npassword = '{SECRET}'", "[store] password"),
        (f"[store]\nurl = 'postgresql://etl:{SECRET}@db/dataflow'", "[store] url"),
        (f"[store]\nurl = 'postgresql://etl:a/{SECRET}@db/dataflow'", "[store] url"),
        (f"[store]\nurl = 'postgresql://db/dataflow?password={SECRET}'", "[store] url"),
        (f"[store]\nurl = 'postgresql://db/dataflow?user=x&pass%77ord={SECRET}'", "[store] url"),
        (f"[store]\nurl = 'mysql://etl:{SECRET}@db/dataflow'", "[store] url"),
        (f"[environment.x]\nstore.url = 'postgresql://etl:{SECRET}@db/x'", "[environment.x.store] url"),
        (f"[environment.x]\nstore.pass = '{SECRET}'", "[environment.x.store] pass"),
    ],
)
def test_a_password_in_plain_text_is_refused_and_not_shown(loaded, text, key):
    problem = refusal(text, loaded)
    assert type(problem) is BadConfig
    assert problem.message.startswith("dataflow.toml: ")
    assert key in problem.message
    assert "odf crypt encrypt" in problem.hint


@pytest.mark.parametrize("text", [f"[store]\nencrypted = ['{SECRET}']", f'[dataset.a]\nencryptedpass = "{SECRET}\\n"'])
def test_what_should_be_encrypted_is_never_shown(loaded, text):
    assert type(refusal(text, loaded)) is BadConfig


@pytest.mark.parametrize(
    "value", ["sesame", "odf1:sesame", "odf2:canary", JAVA[:-8], JAVA + "!", "c2VzYW1l", "odf3:" + ONE[5:]]
)
@pytest.mark.parametrize(
    ("text", "key", "option"),
    [
        ("[dataset.a]\nencryptedpass = '{}'", "[dataset.a] encryptedpass", "--for a"),
        ("[dataset.a]\n[environment.x.dataset.a]\nencryptedpass = '{}'", "[environment.x.dataset.a] encryptedpass", "--for a"),
        ("[store]\nencrypted = '{}'", "[store] encrypted", "--for-store"),
        ("[environment.x]\nstore.encrypted = '{}'", "[environment.x.store] encrypted", "--for-store"),
    ],
)  # fmt: skip
def test_what_is_not_a_token_is_refused_where_one_belongs_and_not_shown(loaded, text, key, option, value):
    problem = refusal(text.format(value), loaded)
    assert type(problem) is BadConfig
    assert problem.message.startswith(f"dataflow.toml: {key}: ")
    assert value not in problem.message + problem.hint
    assert problem.hint.endswith(f"odf crypt encrypt {option}")


def test_what_is_not_a_token_is_refused_in_the_properties_file_too(write):
    with pytest.raises(BadConfig) as caught:
        load(write("url=postgresql://h/d\nencrypted=sesame\n", "dataflow.properties"))
    assert "sesame" not in str(caught.value)


def test_how_a_server_may_ask_for_the_password_is_libpqs_word_or_a_list_of_them(loaded):
    text = "[dataset.a]\ntablename = 't'\nrequire_auth = {}"
    assert dataset(loaded(text.format("'md5'")), "a").options["require_auth"] == "md5"
    assert dataset(loaded(text.format("['md5', 'password']")), "a").options["require_auth"] == ["md5", "password"]
    for wrong in ("'!password'", "[]", "['plain']", "true"):
        assert "require_auth" in refusal(text.format(wrong), loaded).message


def test_a_column_may_be_called_password(loaded):
    text = "[dataset.a.checks]\nregex = { password = '.+' }\naccepted = { pass = ['yes', 'no'] }"
    assert len(dataset(loaded(text), "a").checks) == 2


@pytest.mark.parametrize(
    "url", ["postgresql://etl@db:5432/dataflow", "postgres://db/x?sslmode=require", "postgresql:///x"]
)
def test_an_address_without_a_password_is_taken_as_it_is(loaded, url):
    assert loaded(f"[store]\nurl = '{url}'").environment.store_url == url


# Environments -----------------------------------------------------------------------------------------------------


def test_the_environment_is_the_one_asked_for_or_the_only_one_or_dev(loaded):
    assert loaded("[environment.a]\n[environment.b]", "b").environment.name == "b"
    assert loaded("[environment.prod]").environment.name == "prod"
    assert loaded("[environment.prod]\n[environment.dev]").environment.name == "dev"
    assert loaded("[environment.prod]", "").environment.name == "prod"
    assert loaded("", "default").environment.name == "default"


def test_two_environments_without_dev_must_be_chosen_from(loaded):
    problem = refusal("[environment.test]\n[environment.prod]", loaded)
    assert type(problem) is BadConfig
    for word in ("dataflow.toml", "[environment]", "test", "prod", "--env"):
        assert word in str(problem)


@pytest.mark.parametrize("text", ["[environment.prod]", "", DESIGN])
@pytest.mark.parametrize("env", ["prdo", "a\nb"])
def test_an_environment_that_is_not_declared_is_refused(loaded, text, env):
    problem = refusal(text, loaded, env)
    assert type(problem) is BadConfig
    assert "[environment." in problem.message
    assert "\n" not in problem.message


def test_roots_are_absolute_and_without_dots(loaded, tmp_path):
    roots = ["data", "./x/../y", ".", "/srv/lake/", "s3a://lake/a/../b/", "s3a://lake", "hdfs:///", "file:///srv/x"]
    environment = loaded(f"[environment.dev]\nroots = {roots}\nhosts = 'db.example'").environment
    assert environment.roots == (
        f"{tmp_path}/data",
        f"{tmp_path}/y",
        str(tmp_path),
        "/srv/lake",
        "s3a://lake/b",
        "s3a://lake",
        "hdfs:///",
        "/srv/x",
    )
    assert environment.hosts == ("db.example",)


def test_an_environment_with_its_own_store_does_not_get_the_password_of_another(loaded):
    store = f"[store]\nurl = 'postgresql://etl@db/dataflow'\nencrypted = '{ONE}'\n"
    own = loaded(store + "[environment.x]\nstore.url = 'postgresql://etl@db2/dataflow'").environment
    assert (own.store_url, own.store_encrypted) == ("postgresql://etl@db2/dataflow", "")
    both = loaded(store + f"[environment.x]\nstore = {{ url = 'postgresql://db2/x', encrypted = '{TWO}' }}").environment
    assert both.store_encrypted == TWO
    shared = loaded(store + f"[environment.x]\nstore.encrypted = '{THREE}'").environment
    assert (shared.store_url, shared.store_encrypted) == ("postgresql://etl@db/dataflow", THREE)


def test_an_environment_may_change_the_place_of_a_dataset_and_only_its_own(loaded):
    text = "[dataset.a]\nhostname = 'db.dev'\ntablename = 't'\n[environment.dev]\n"
    text += f"[environment.prod.dataset.a]\nhostname = 'db.prod'\nencryptedpass = '{ONE}'"
    assert dataset(loaded(text), "a").hostname == "db.dev"
    prod = dataset(loaded(text, "prod"), "a")
    assert (prod.hostname, prod.tablename, prod.encryptedpass, prod.kind) == ("db.prod", "t", ONE, "table")


def test_a_place_may_be_declared_by_the_environment_alone(loaded):
    text = "[dataset.a]\n[environment.dev.dataset.a]\nlocation = 'x/{dataid}.orc'\n[environment.prod]"
    assert (dataset(loaded(text), "a").kind, dataset(loaded(text), "a").format) == ("file", "orc")
    assert dataset(loaded(text, "prod"), "a").kind == ""


def test_a_mistake_in_an_environment_that_is_not_selected_is_told_too(loaded):
    text = "[dataset.a]\n[environment.dev]\n[environment.prod.dataset.a]\nhots = 'x'"
    assert "[environment.prod.dataset.a] hots" in refusal(text, loaded, "dev").message


# Datasets, jobs, pools --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("location", "format"),
    [
        ("x/{dataid}.csv", "csv"),
        ("x/{dataid}.CSV", "csv"),
        ("x/{dataid}.csv.gz", "csv"),
        ("x/{dataid}.json", "json"),
        ("x/{dataid}.parquet/", "parquet"),
        ("x/{dataid}.orc", "orc"),
        ("x/{dataid}.txt", "text"),
        ("x.csv/{dataid}", ""),
        ("x/{dataid}", ""),
    ],
)
def test_the_format_follows_from_the_suffix_unless_declared(loaded, location, format):
    assert dataset(loaded(f"[dataset.a]\nlocation = '{location}'"), "a").format == format
    assert dataset(loaded(f"[dataset.a]\nlocation = '{location}'\nformat = 'delta'"), "a").format == "delta"


def test_the_kind_follows_from_what_the_dataset_has(loaded):
    project = loaded("[dataset.a]\nlocation = 'x'\n[dataset.b]\ntablename = 'x'\n[dataset.c]")
    assert [dataset(project, name).kind for name in "abc"] == ["file", "table", ""]
    both = loaded("[dataset.a]\nkind = 'table'\nlocation = 'x'\ntablename = 'y'")
    assert dataset(both, "a").kind == "table"


def test_the_other_known_keys_of_a_dataset_are_its_options(loaded):
    text = """[dataset.a]
    layout = "plain"
    repeats = true
    empty = "allow"
    ready = "_SUCCESS"
    quarantine = true
    schema = "a int"
    compression = "zstd"
    keep = 10
    options = { header = true, since = 2013-01-01 }
    """
    assert dataset(loaded(text), "a").options == {
        "layout": "plain",
        "repeats": True,
        "empty": "allow",
        "ready": "_SUCCESS",
        "quarantine": True,
        "options": {"header": True, "since": "2013-01-01"},
        "schema": "a int",
        "compression": "zstd",
        "keep": 10,
    }


def test_a_table_of_postgresql_has_options_of_its_own(loaded):
    text = """[dataset.a]
    tablename = "t"
    sslmode = "verify-full"
    timezone = "Europe/Berlin"
    as_text = ["x"]
    numeric = "decimal(38,18)"
    loaders = 2
    replace = "table"
    """
    assert dataset(loaded(text), "a").options == {
        "sslmode": "verify-full",
        "timezone": "Europe/Berlin",
        "as_text": ["x"],
        "numeric": "decimal(38,18)",
        "loaders": 2,
        "replace": "table",
    }


def test_a_job_says_how_it_is_retried_leased_and_run(loaded):
    text = f"""{TWO_DAYS}
    [pool.etl]
    [job.j]
    reads = {{ dataset = "a", mapping = {{ lag = 2 }} }}
    writes = "b"
    retries = 3
    backoff = "10s"
    backoff_max = 600
    retry_on = ["JOB_FAILED", "TIMED_OUT"]
    lease = "2m"
    timeout = 1.5
    pool = "etl"
    batch = 8
    spark = {{ "spark.sql.shuffle.partitions" = 8, sql.ansi.enabled = false }}
    secrets = "file"
    script = "bin/run.sh"
    tags = ["x"]
    """
    job = loaded(text).jobs[0]
    assert (job.inputs, job.outputs) == ((Input("a", Mapping("lag", 2)),), ("b",))
    assert job.retry == RetryRule(3, 10.0, 600.0, ("JOB_FAILED", "TIMED_OUT"))
    assert (job.lease, job.timeout, job.pool) == (120.0, 1.5, "etl")
    settings = {"spark.sql.shuffle.partitions": "8", "spark.sql.ansi.enabled": "false"}
    assert job.options == {
        "batch": 8,
        "spark": settings,
        "secrets": "file",
        "script": "bin/run.sh",
        "tags": ["x"],
    }


def test_a_retry_may_come_at_once(loaded):
    assert loaded(f"{TWO_DAYS}[job.j]\nwrites = 'a'\nretries = 1\nbackoff = 0").jobs[0].retry.backoff == 0


@pytest.mark.parametrize("name", BY_NAME)
def test_every_named_error_can_be_retried_on(loaded, name):
    job = loaded(f"{TWO_DAYS}[job.j]\nwrites = 'a'\nretry_on = '{name}'").jobs[0]
    assert job.retry.on == (name,)


def test_concurrency_is_a_pool_of_the_job_alone(loaded):
    project = loaded(f"{TWO_DAYS}[job.j]\nwrites = 'a'\nconcurrency = 1")
    assert project.jobs[0].pool == "j"
    assert project.pools == (Pool("j", 1),)
    assert is_one_at_a_time(project, project.jobs[0])


@pytest.mark.parametrize(
    "more", ["concurrency = 1\npool = 'p'\n[pools]\np = 1", "concurrency = 1\n[pools]\nj = 2", "concurrency = 0"]
)
def test_concurrency_beside_another_pool_is_refused(loaded, more):
    assert "concurrency" in refusal(f"{TWO_DAYS}[job.j]\nwrites = 'a'\n{more}", loaded).message


def test_a_table_that_keeps_no_epoch_is_named(loaded):
    table = "[dataset.t]\nkind = 'table'\ntablename = 't'\nformat = 'delta'\npartition = 'day'\n"
    project = loaded(f"{TWO_DAYS}{table}[job.j]\nreads = 'a'\nwrites = 't'")
    assert [line.split(":")[0] for line in unfenced(project.datasets, project.jobs)] == ["dataset t"]
    project = loaded(f"{TWO_DAYS}{table.replace('delta', 'postgresql')}[job.j]\nreads = 'a'\nwrites = 't'")
    assert unfenced(project.datasets, project.jobs) == []


def test_a_copy_may_say_how_its_dataids_map(loaded):
    text = f"{TWO_DAYS}[job.j]\ncopy = {{ from = 'a', to = 'b', columns = ['x'], rename = {{ x = 'y' }} }}\n"
    job = loaded(text + "reads = [{ dataset = 'a', mapping = 'lag' }]\nwrites = ['b']").jobs[0]
    assert (job.inputs, job.outputs) == ((Input("a", Mapping("lag")),), ("b",))
    assert job.options["copy"] == {"from": "a", "to": "b", "columns": ["x"], "rename": {"x": "y"}}


def test_a_pool_that_still_has_places_is_told_to_write_slots(loaded):
    with pytest.raises(BadConfig) as caught:
        loaded("[pool.etl]\nplaces = 4")
    assert caught.value.message.startswith("dataflow.toml: [pool.etl] places: ")
    assert caught.value.hint == "Write slots instead of places."


def test_pools_have_a_long_and_a_short_form(loaded):
    project = loaded("[pools]\na = 10\nb = 0\n[pool.c]\n[pool.d]\nslots = 2\nhours = ['Mon-Fri 08:00-18:00 -> 4']")
    hours = {"hours": ["Mon-Fri 08:00-18:00 -> 4"]}
    assert set(map(repr, project.pools)) == set(
        map(repr, (Pool("a", 10), Pool("b", 0), Pool("c"), Pool("d", 2, hours)))
    )


# Without a TOML file ----------------------------------------------------------------------------------------------


def test_without_a_file_there_is_only_a_store(tmp_path):
    project = without_file(tmp_path, None)
    assert (project.file, project.datasets, project.jobs, project.pools) == (None, (), (), ())
    assert project.environment == Environment(
        "default", (str(tmp_path),), (), f"sqlite:///{tmp_path}/dataflow.db", is_declared=False
    )
    assert without_file(tmp_path, "sqlite:///x/y.db").environment.store_url == f"sqlite:///{tmp_path}/x/y.db"
    assert without_file(tmp_path, "sqlite:////srv/y.db").environment.store_url == "sqlite:////srv/y.db"
    assert without_file(tmp_path, "postgresql://h/d").environment.store_url == "postgresql://h/d"


def test_the_properties_file_of_the_seeds_is_read(write, tmp_path):
    text = (
        "url=jdbc:postgresql://localhost:5432/dataflow\nuser=etl\nschema=dataflow\nencrypted="
        + JAVA
        + "\nplatform=postgres\n"
    )
    project = load(write(text, "dataflow.properties"))
    assert project.environment.store_url == "postgresql://etl@localhost:5432/dataflow"
    assert project.environment.store_encrypted == JAVA
    assert project.environment.name == "default"
    assert (project.folder, project.datasets, project.jobs) == (tmp_path, (), ())


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("url = jdbc:postgresql://h/d", "postgresql://h/d"),
        ("# note\n! note\n\n  url: jdbc\\:postgresql\\://h/d\r\nuser etl", "postgresql://etl@h/d"),
        ("url=jdbc:postgresql://h\\\n   :5433/d", "postgresql://h:5433/d"),
        ("url=jdbc:postgresql://h/d?ssl=true&user=u&ApplicationName=x", "postgresql://u@h/d?sslmode=verify-full"),
        ("url=jdbc:postgresql://h/d?sslmode=require&currentSchema=dataflow", "postgresql://h/d?sslmode=require"),
        ("url=jdbc:postgresql:d", "postgresql://localhost/d"),
        ("url=jdbc:postgresql://h/\nuser=etl", "postgresql://etl@h/etl"),
        ("url=jdbc:postgresql://[::1]:5432/d\nuser=a@b/c\\u0041", "postgresql://a%40b%2FcA@[::1]:5432/d"),
        ("url=postgresql://etl@h/d", "postgresql://etl@h/d"),
    ],
)
def test_java_properties_and_jdbc_addresses_are_understood(write, text, url):
    assert load(write(text, "dataflow.properties")).environment.store_url == url


@pytest.mark.parametrize(
    ("text", "key", "word"),
    [
        ("user=etl", "url", "missing"),
        ("url=jdbc:h2:~/dataflow", "url", "sqlite:///"),
        ("url=jdbc:h2:tcp://localhost/~/dataflow", "url", "sqlite:///"),
        ("url=jdbc:mysql://h/d", "url", "PostgreSQL"),
        ("url=oracle", "url", "address"),
        ("url=jdbc:postgresql://h/d\nschema=public", "schema", "dataflow"),
        ("url=jdbc:postgresql://h/d?currentSchema=public", "url", "dataflow"),
        (f"url=jdbc:postgresql://h/d\npassword={SECRET}", "password", "odf crypt encrypt"),
        (f"url=jdbc:postgresql://h/d?user=u&password={SECRET}", "url", "odf crypt encrypt"),
        (f"url=jdbc:postgresql:d?password={SECRET}", "url", "odf crypt encrypt"),
        (f"url=postgresql://u:{SECRET}@h/d", "url", "odf crypt encrypt"),
        ("url=jdbc:postgresql://h/d\nuser=a\\nb", "user", "control"),
    ],
)
def test_a_properties_file_that_cannot_work_is_refused(write, text, key, word):
    with pytest.raises(BadConfig) as problem:
        load(write(text, "dataflow.properties"))
    assert problem.value.message.startswith(f"dataflow.properties: {key}: ")
    assert word in str(problem.value)
    assert SECRET not in str(problem.value)


def test_a_properties_file_knows_no_other_environment(write):
    file = write("url=jdbc:postgresql://h/d", "dataflow.properties")
    assert load(file, "default").environment.name == "default"
    with pytest.raises(BadConfig, match="prod"):
        load(file, "prod")


# Job code ---------------------------------------------------------------------------------------------------------


def put(path: Path, mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")
    path.chmod(mode)
    return path


@pytest.mark.parametrize("suffix", [".py", ".sql", ".sh"])
def test_job_code_is_found_by_its_name(loaded, tmp_path, suffix):
    project = loaded("[project]\njobs = ['one', 'two']")
    assert code_of(project, "clean") is None
    file = put(tmp_path / "two" / f"clean{suffix}")
    assert code_of(project, "clean") == file
    assert code_of(project, "clea") is None


def test_an_executable_named_like_the_job_is_its_code(loaded, tmp_path):
    project = loaded("")
    file = put(tmp_path / "jobs" / "myETL.rb")
    assert code_of(project, "myETL.rb") is None
    file.chmod(0o755)
    assert code_of(project, "myETL.rb") == file


def test_two_files_for_one_job_are_refused_and_named(loaded, tmp_path):
    project = loaded("[project]\njobs = ['one', 'two']")
    first, second = put(tmp_path / "one" / "clean.py"), put(tmp_path / "two" / "clean.sh")
    with pytest.raises(BadConfig) as problem:
        code_of(project, "clean")
    for word in ("dataflow.toml", "[job.clean]", str(first), str(second)):
        assert word in problem.value.message


def test_only_regular_files_are_job_code(loaded, tmp_path):
    (tmp_path / "jobs" / "clean.py").mkdir(parents=True)
    os.mkfifo(tmp_path / "jobs" / "clean.sql")
    (tmp_path / "jobs" / "clean.sh").symlink_to("nowhere")
    assert code_of(loaded(""), "clean") is None


def test_a_link_that_leads_out_of_the_job_folder_is_refused(loaded, tmp_path):
    project = loaded("")
    target = put(tmp_path / "elsewhere" / "evil.sh")
    inside = put(tmp_path / "jobs" / "good.sh")
    (tmp_path / "jobs" / "clean.sh").symlink_to(target)
    (tmp_path / "jobs" / "alias.sh").symlink_to("good.sh")
    with pytest.raises(InvalidPath, match=r"evil\.sh"):
        code_of(project, "clean")
    assert code_of(project, "alias") == inside.with_name("alias.sh")


@pytest.mark.parametrize("jobid", ["../evil", "/bin/sh", "a/b", "", "-x", "a\0b", "a\n"])
def test_a_job_with_an_id_outside_the_grammar_has_no_code(loaded, jobid):
    with pytest.raises(BadId):
        code_of(loaded(""), jobid)


def test_a_declared_script_is_the_code_of_its_job(loaded, tmp_path):
    project = loaded("[dataset.a]\n[job.j]\nwrites = 'a'\nscript = 'bin/run.rb'")
    with pytest.raises(BadConfig, match=r"\[job.j\] script"):
        code_of(project, "j")
    file = put(tmp_path / "bin" / "run.rb")
    put(tmp_path / "jobs" / "j.py")
    assert code_of(project, "j") == file
    file.unlink()
    file.symlink_to("/bin/sh")
    with pytest.raises(InvalidPath):
        code_of(project, "j")


def test_a_copy_has_no_code(loaded, tmp_path):
    project = loaded(f"{TWO_DAYS}[job.j]\ncopy = {{ from = 'a', to = 'b' }}")
    assert code_of(project, "j") is None
    put(tmp_path / "jobs" / "j.sql")
    with pytest.raises(BadConfig, match="copy"):
        code_of(project, "j")


# Places -----------------------------------------------------------------------------------------------------------


def at(location: str, *roots: str, dataid: str = "2013-01-01") -> str:
    day = Dataset("flights", kind="file", location=location, partition=Partition("day"))
    return resolve_location(Environment("prod", roots), day, dataid)


@pytest.mark.parametrize(
    ("location", "roots", "expected"),
    [
        ("raw/{dataid}.csv", ["/srv/a", "/srv/b"], "/srv/a/raw/2013-01-01.csv"),
        ("raw/{dataid}.csv", ["s3a://lake/x"], "s3a://lake/x/raw/2013-01-01.csv"),
        ("{year}/{dataid}", ["hdfs:///"], "hdfs:///2013/2013-01-01"),
        ("{dataid}", ["/"], "/2013-01-01"),
        ("a/./b/../{dataid}/", ["/srv/a"], "/srv/a/a/2013-01-01"),
        ("/srv/b/{dataid}", ["/srv/a", "/srv/b"], "/srv/b/2013-01-01"),
        ("file:///srv/b/{dataid}", ["/srv/b"], "/srv/b/2013-01-01"),
        ("file:/srv/b/{dataid}", ["/srv/b"], "/srv/b/2013-01-01"),
        ("s3a://lake/x/y/../{dataid}", ["/srv", "s3a://lake/x"], "s3a://lake/x/2013-01-01"),
        ("S3A://lake/x/{dataid}", ["s3a://lake/x"], "s3a://lake/x/2013-01-01"),
        ("abfss://c@acc.example/x/{dataid}", ["abfss://c@acc.example/x"], "abfss://c@acc.example/x/2013-01-01"),
        ("", ["/srv"], ""),
    ],
)
def test_a_location_becomes_absolute(location, roots, expected):
    assert at(location, *roots) == expected


@pytest.mark.parametrize(
    ("location", "roots"),
    [
        ("../other/{dataid}", ["/srv/a"]),
        ("a/../../{dataid}", ["/srv/a"]),
        ("/srv/ab/{dataid}", ["/srv/a"]),
        ("/srv/a/../{dataid}", ["/srv/a"]),
        ("//etc/{dataid}", ["/srv/a"]),
        ("/srv/a/{dataid}", ["s3a://srv/a"]),
        ("s3a://lake/dev/{dataid}", ["s3a://lake/prod"]),
        ("s3a://lake/prod/../dev/{dataid}", ["s3a://lake/prod"]),
        ("s3a://lake/prod/%2e%2e/dev/{dataid}", ["s3a://lake/prod"]),
        ("s3a://lake/prod2/{dataid}", ["s3a://lake/prod"]),
        ("s3a://lake2/prod/{dataid}", ["s3a://lake/prod"]),
        ("s3a://evil@lake/prod/{dataid}", ["s3a://lake/prod"]),
        ("s3://lake/prod/{dataid}", ["s3a://lake/prod"]),
        ("file://other/srv/a/{dataid}", ["/srv/a"]),
        ("../../x/{dataid}", ["s3a://lake/prod"]),
        ("/srv/a/\0{dataid}", ["/srv/a"]),
        ("raw/{dataid}", []),
        ("/srv/a/{dataid}", []),
    ],
)
def test_a_location_outside_the_roots_is_refused_and_named(location, roots):
    with pytest.raises(InvalidPath) as problem:
        at(location, *roots)
    for word in ("flights", "2013-01-01", "prod", *roots, repr(location)):
        assert word in str(problem.value)


def test_a_place_may_be_looked_up_without_asking_whether_it_is_inside():
    day = Dataset("flights", location="/etc/{dataid}", partition=Partition("day"))
    assert resolve_location(Environment(roots=("/srv",)), day, "2013-01-01", must_be_inside=False) == "/etc/2013-01-01"
    relative = Dataset("flights", location="x/{dataid}", partition=Partition("day"))
    assert resolve_location(Environment(), relative, "2013-01-01", must_be_inside=False) == "x/2013-01-01"


def test_a_symbolic_link_that_leads_out_of_the_root_is_refused(tmp_path):
    (tmp_path / "root").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "root" / "link").symlink_to(tmp_path / "outside")
    (tmp_path / "alias").symlink_to(tmp_path / "root")
    with pytest.raises(InvalidPath):
        at("link/{dataid}.csv", str(tmp_path / "root"))
    assert at("x/{dataid}", str(tmp_path / "alias")) == f"{tmp_path}/alias/x/2013-01-01"
    assert is_inside(str(tmp_path / "alias" / "x"), [str(tmp_path / "root")])


def test_a_place_is_that_of_the_selected_environment(loaded, tmp_path):
    raw = dataset(loaded(DESIGN), "flights_raw")
    assert resolve_location(loaded(DESIGN), raw, "2013-01-01") == f"{tmp_path}/data/raw/flights/2013-01-01.csv"
    prod = loaded(DESIGN, "prod")
    assert resolve_location(prod, raw, "2013-01-01") == "s3a://lake/flights/raw/flights/2013-01-01.csv"
    dev_in_prod = Dataset("x", location=f"{tmp_path}/data/{{dataid}}", partition=Partition("day"))
    with pytest.raises(InvalidPath):
        resolve_location(prod, dev_in_prod, "2013-01-01")


@pytest.mark.parametrize(
    ("dataid", "error"), [("../../etc/passwd", BadId), ("2013-02-30", BadDataid), ("today", BadDataid)]
)
def test_a_malformed_dataid_never_becomes_a_location(dataid, error):
    with pytest.raises(error):
        at("{dataid}", "/srv", dataid=dataid)


def test_a_relative_path_is_inside_of_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert not is_inside("x", [str(tmp_path)])
    assert is_inside(f"{tmp_path}/x", [str(tmp_path)])
    assert is_inside(str(tmp_path), [str(tmp_path)])
    assert not is_inside(f"{tmp_path}/x", [])


# Cost -------------------------------------------------------------------------------------------------------------


def test_importing_the_room_imports_nothing_heavy():
    heavy = "tomllib zoneinfo difflib graphlib cryptography apsw psycopg pyspark subprocess"
    code = f"import sys, opendataflow.project; print([m for m in {heavy.split()!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_verify_of_an_environment_is_that_of_its_datasets_unless_they_say_so_themselves(tmp_path):
    (tmp_path / "dataflow.toml").write_text(
        '[environment.dev]\nroots = ["."]\n[environment.prod]\nroots = ["."]\nverify = "content"\n'
        '[dataset.a]\nlocation = "a/{dataid}"\n[dataset.b]\nlocation = "b/{dataid}"\nverify = "stat"\n[dataset.c]\n'
    )
    for env, expected in (("dev", [None, "stat", None]), ("prod", ["content", "stat", None])):
        found = {each.datasetid: each for each in load(tmp_path / "dataflow.toml", env).datasets}
        assert [found[name].options.get("verify") for name in "abc"] == expected


def test_verify_is_one_of_two_words(tmp_path):
    (tmp_path / "dataflow.toml").write_text('[environment.dev]\nroots = ["."]\nverify = "sometimes"\n')
    with pytest.raises(BadConfig, match="verify"):
        load(tmp_path / "dataflow.toml")
