"""Batches: many small chunks in one Spark job, but each published, failed and restarted on its own."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from opendataflow.errors import BadConfig
from opendataflow.model import Dataset, Input, Job, Manifest, Mapping, Partition, parse_checks
from opendataflow.project import Project
from opendataflow.run.worker import Worker
from opendataflow.spark import batches, chunks
from opendataflow.store import open_store

DAY = Partition("day", column="day")
DAYS = [f"2013-01-{number:02d}" for number in range(1, 11)]


@pytest.fixture
def store(tmp_path: Path):
    store = open_store(f"sqlite:///{tmp_path}/dataflow.db", create=True)
    yield store
    store.close()


def trusting(project: Project) -> Project:
    """The project with the copies of these tests allowed, which no file declares."""
    copies, options = ("copy", "single", "roll", "keep", "load"), ("layout", "parquet.block.size")
    return replace(project, trust=replace(project.trust, copies=copies, options=options))


@pytest.fixture
def flow(spark, store, project, tmp_path):
    """Ten days of csv, and a worker that makes parquet of them by a copy."""

    def make(checks: dict[str, object] | None = None, **job: object) -> Worker:
        for number, day in enumerate(DAYS):
            folder = tmp_path / "data" / "raw"
            folder.mkdir(parents=True, exist_ok=True)
            lines = [f"{number * 100 + row},{day},{row}" for row in range(number)]
            (folder / f"{day}.csv").write_text("\n".join(["id,day,value", *lines]) + "\n")
        out = Dataset(
            "out",
            kind="file",
            format="parquet",
            location="out/{dataid}",
            partition=DAY,
            checks=parse_checks(checks or {"span": True, "not_null": ["id"], "conserves": "raw"}, "test"),
        )
        raw = Dataset(
            "raw",
            kind="file",
            format="csv",
            location="raw/{dataid}.csv",
            partition=DAY,
            options={"schema": "id INT, day DATE, value INT"},
        )
        options = {"copy": {"from": "raw", "to": "out"}, "batch": 100, **job}
        store.register([raw, out], [Job("copy", (Input("raw"),), ("out",), options=options)])
        store.announce("raw", DAYS)
        return Worker(store, trusting(project), None, echo=False)

    return make


def rows_of(store, spark, dataid: str) -> list[int]:
    chunk = store.views.chunk("out", dataid)
    manifest = store.views.manifest("out", dataid, chunk.version).manifest
    return sorted(row.id for row in spark.read.parquet(manifest.location).collect())


def test_chunks_of_a_batch_are_published_each_on_its_own(spark, store, flow, tmp_path):
    worker = flow()
    catalogue = store.catalogue()
    results = worker.run(catalogue, store.claim("copy", 100))
    assert {result.outcome for result in results} == {"READY"}
    assert len(results) == 10
    for number, day in enumerate(DAYS):
        assert rows_of(store, spark, day) == [number * 100 + row for row in range(number)]
        manifest = store.views.manifest("out", day, 1).manifest
        assert manifest.rows == number
        assert manifest.schema == "id INT, day DATE, value INT"
        assert manifest.extra.get("batch", False) is (number > 0), "a chunk without rows goes its own way"
        assert (manifest.span_lower, manifest.span_upper) == ((day, day) if number else (None, None))
    left = sorted(str(path.relative_to(tmp_path / "data/out")) for path in (tmp_path / "data/out").glob("*/*"))
    assert left == [f"{day}/v000001" for day in DAYS], "nothing of the batch itself is left"

    # The same content as when each is produced alone: fingerprints are of rows, not of how they came.
    store.resubmit("out", [DAYS[3]])
    [claim] = store.claim("copy")
    assert worker.run(catalogue, [claim])[0].outcome == "READY"
    alone, together = (store.views.manifest("out", DAYS[3], version).manifest for version in (2, 1))
    assert alone.fingerprint == together.fingerprint
    assert [each for each in alone.checks if each.check != "drift"] == list(together.checks)


def test_a_small_copy_alone_goes_the_same_way(spark, store, flow):
    worker = flow()
    store.announce("raw", [DAYS[4]], manifests={DAYS[4]: Manifest(rows=4, extra={"said": "by somebody"})})
    [claim] = [claim for claim in store.claim("copy", 10) if claim.dataid == DAYS[4]]
    assert worker.run(store.catalogue(), [claim])[0].outcome == "READY"
    assert store.views.manifest("out", DAYS[4], 1).manifest.extra["batch"] is True
    assert rows_of(store, spark, DAYS[4]) == [400, 401, 402, 403]


@pytest.mark.parametrize("options", [{}, {"options": {"parquet.block.size": 1048576}}])
def test_checks_across_rows_take_one_pass_for_all_chunks_of_a_batch(spark, store, flow, tmp_path, monkeypatch, options):
    worker = flow({"unique": [["id"], ["id", "value"]], "references": {"value": "raw.value"}})
    out = replace(store.catalogue().dataset("out"), options=options)
    store.register([out], [])
    (tmp_path / f"data/raw/{DAYS[3]}.csv").write_text(f"id,day,value\n1,{DAYS[3]},1\n1,{DAYS[3]},2\n,{DAYS[3]},\n")
    monkeypatch.setattr("opendataflow.spark.check_kinds.computed", lambda *_: pytest.fail("a pass for one chunk"))
    claims = [claim for claim in store.claim("copy", 100) if claim.dataid != DAYS[0]]
    results = {result.claim.dataid: result for result in worker.run(store.catalogue(), claims)}
    assert [day for day, result in results.items() if result.outcome != "READY"] == [DAYS[3]]
    told = results[DAYS[3]].detail
    assert "unique(id): repeated_keys 1, surplus_rows 1, examples {1}" in told
    assert "unique(id, value)" not in told
    [unique, _, references] = [
        check
        for check in store.views.manifest("out", DAYS[5], 1).manifest.checks
        if check.kind in ("unique", "references")
    ]
    assert unique.figures == {"repeated_keys": 0, "surplus_rows": 0}
    assert references.figures == {"unknown_values": 0, "rows": 0}


@pytest.mark.parametrize("options", [{"compression": "zstd"}, {"options": {"parquet.block.size": 1048576}}])
def test_tasks_and_spark_itself_write_the_same(spark, store, project, options):
    """Every plain type, by the tasks where they can and by Spark's own writer where an option is its own."""
    rows = (
        "SELECT id, CAST(id % 3 AS STRING) AS dataid, CAST(id AS DECIMAL(20,5)) / 7 AS d, id % 2 = 0 AS b,"
        " DATE'2024-02-28' + CAST(id AS INT) AS day, TIMESTAMP'2024-02-28 23:59:59.123456' + id * INTERVAL 1 HOUR AS t,"
        " CAST(id AS DOUBLE) / 3 AS f, IF(id % 5 = 0, NULL, concat('ü', id)) AS s, CAST('x' AS BINARY) AS y FROM range(100)"
    )
    everything = spark.sql(rows)
    location = f"{project.environment.roots[0]}/in"
    everything.write.partitionBy("dataid").parquet(location)
    store.register(
        [
            Dataset("in", kind="file", format="parquet", location="in/dataid={dataid}", partition=Partition("text")),
            Dataset("out", kind="file", format="parquet", location="out/{dataid}", partition=Partition("text", column="t"), options=options),
            Dataset("alone", kind="file", format="parquet", location="alone/{dataid}", partition=Partition("text", column="t")),
        ],
        [
            Job("copy", (Input("in"),), ("out",), options={"copy": {"from": "in", "to": "out"}, "batch": 10}),
            Job("single", (Input("in"),), ("alone",), options={"copy": {"from": "in", "to": "alone"}}),
        ],
    )  # fmt: skip
    store.announce("in", ["0", "1", "2"])
    worker = Worker(store, trusting(project), None, echo=False)
    results = worker.run(store.catalogue(), store.claim("copy", 10))
    results += [worker.run(store.catalogue(), [claim])[0] for claim in store.claim("single", 10)]
    assert {result.outcome for result in results} == {"READY"}, [result.detail for result in results]
    for dataid in ("0", "1", "2"):
        together, alone = (store.views.manifest(name, dataid, 1).manifest for name in ("out", "alone"))
        assert together.extra["batch"] is True
        for fact in ("rows", "schema", "fingerprint", "span_lower", "span_upper"):
            assert getattr(together, fact) == getattr(alone, fact), fact
        one, other = (spark.read.parquet(each.location) for each in (together, alone))
        assert one.schema == other.schema
        assert one.exceptAll(other).count() == other.exceptAll(one).count() == 0


def test_a_chunk_that_fails_its_checks_fails_alone(spark, store, flow):
    worker = flow({"range": {"value": {"max": 7}}})
    results = {result.claim.dataid: result for result in worker.run(store.catalogue(), store.claim("copy", 100))}
    assert {day for day, result in results.items() if result.outcome != "READY"} == {DAYS[9]}
    assert results[DAYS[9]].outcome == "NOT_VALIDATED"
    assert "violations 1" in results[DAYS[9]].detail
    assert store.views.chunk("out", DAYS[9]).status == "FAILED"
    told = Path(store.views.run(results[DAYS[9]].claim.runid).log).read_text()
    assert f"{DAYS[9]}: " in told
    assert "violations 1" in told


def test_a_stop_ends_what_is_left_of_a_batch_and_is_told_from_a_failure(spark, store, flow, tmp_path, monkeypatch):
    worker = flow()

    def cancelled(*given: object) -> None:
        worker.cancelled.set()
        raise RuntimeError("its Spark jobs were cancelled")

    monkeypatch.setattr(batches, "run_batch", lambda *given: {})  # none of them has rows: each goes its own way
    monkeypatch.setattr(chunks, "run_chunk", cancelled)
    results = worker.run(store.catalogue(), store.claim("copy", 3))
    assert [result.outcome for result in results] == ["STOPPED"] * 3
    assert [result.detail.partition(" (")[0].partition(": ")[2] for result in results] == [
        "RuntimeError: its Spark jobs were cancelled",
        *["before the run started"] * 2,
    ]


def test_rows_of_another_chunk_are_found_in_a_batch(spark, store, flow, tmp_path):
    worker = flow()
    (tmp_path / "data/raw/2013-01-05.csv").write_text("id,day,value\n1,2013-01-06,1\n2,2013-01-05,1\n")
    results = {result.claim.dataid: result for result in worker.run(store.catalogue(), store.claim("copy", 100))}
    assert {day for day, result in results.items() if result.outcome != "READY"} == {"2013-01-05"}
    assert "span" in results["2013-01-05"].detail


def test_what_breaks_the_batch_is_found_by_each_on_its_own(spark, store, flow, tmp_path):
    worker = flow()
    (tmp_path / "data/raw/2013-01-05.csv").unlink()
    (tmp_path / "data/raw/2013-01-05.csv").mkdir()
    (tmp_path / "data/raw/2013-01-05.csv/x.csv").symlink_to("nowhere")
    results = worker.run(store.catalogue(), store.claim("copy", 100))
    wrong = [result.claim.dataid for result in results if result.outcome != "READY"]
    assert wrong == ["2013-01-05"], [(result.claim.dataid, result.detail) for result in results]
    assert store.claim("copy") == [], "nothing is left claimed or claimable"


def test_functions_see_the_dataid_of_each_row_and_must_keep_it(spark, store, flow, project):
    worker = flow(copy=None)
    worker.project.job_folders[0].mkdir(parents=True)
    path = worker.project.job_folders[0] / "copy.py"
    path.write_text(
        "from opendataflow import job\n@job(reads='raw', writes='out')\n"
        "def copy(raw):\n    return raw.withColumn('value', raw.value + 1)\n"
    )
    job = Job("copy", (Input("raw"),), ("out",), options={"batch": 5})
    store.register([], [job])
    catalogue = store.catalogue()
    worker.check(catalogue, "copy")
    results = worker.run(catalogue, store.claim("copy", 5))
    assert {result.outcome for result in results} == {"READY"}
    manifest = store.views.manifest("out", DAYS[4], 1).manifest
    assert sorted(row.value for row in spark.read.parquet(manifest.location).collect()) == [1, 2, 3, 4]


def test_a_query_finds_the_column_whether_its_chunk_comes_alone_or_empty_or_with_others(spark, store, flow):
    worker = flow()
    worker.project.job_folders[0].mkdir(parents=True)
    (worker.project.job_folders[0] / "copy.sql").write_text("SELECT odf_dataid, id, day, value FROM raw")
    store.register([], [Job("copy", (Input("raw"),), ("out",), options={"batch": 9})])
    catalogue = store.catalogue()
    worker.check(catalogue, "copy")
    results = worker.run(catalogue, store.claim("copy", 9))  # the first of them is empty
    results += worker.run(catalogue, store.claim("copy", 9))  # the last one alone
    assert {result.outcome for result in results} == {"READY"}, [result.detail for result in results]
    assert [store.views.manifest("out", day, 1).manifest.rows for day in DAYS] == list(range(10))
    assert store.views.manifest("out", DAYS[9], 1).manifest.schema == "id INT, day DATE, value INT"


def test_rows_that_claim_to_be_of_no_chunk_are_not_lost(spark, store, flow):
    said: list[str] = []
    worker = flow()
    worker.say = said.append
    worker.project.job_folders[0].mkdir(parents=True)
    (worker.project.job_folders[0] / "copy.sql").write_text(
        "SELECT IF(id = 901, 'elsewhere', odf_dataid) AS odf_dataid, id, day, value FROM raw"
    )
    store.register([], [Job("copy", (Input("raw"),), ("out",), options={"batch": 10})])
    results = worker.run(store.catalogue(), store.claim("copy", 10))
    assert any("odf_dataid = elsewhere" in line for line in said), said
    assert {result.outcome for result in results} == {"READY"}
    assert rows_of(store, spark, DAYS[9]) == list(range(900, 909)), "each on its own has all of its rows"


def test_what_cannot_be_batched_is_refused_before_anything_is_claimed(spark, store, flow):
    worker = flow()
    month = Dataset("month", kind="file", format="parquet", location="month/{dataid}", partition=Partition("month"))
    kept = Dataset(
        "kept", kind="file", format="parquet", location="kept/{dataid}", partition=DAY, options={"quarantine": True}
    )
    table = Dataset("table", kind="table", format="postgres", tablename="t", partition=DAY)
    jobs = [
        Job(
            "roll",
            (Input("raw", Mapping("rollup")),),
            ("month",),
            options={"batch": 2, "copy": {"from": "raw", "to": "month"}},
        ),
        Job("keep", (Input("raw"),), ("kept",), options={"batch": 2, "copy": {"from": "raw", "to": "kept"}}),
        Job("load", (Input("raw"),), ("table",), options={"batch": 2, "copy": {"from": "raw", "to": "table"}}),
    ]
    store.register([month, kept, table], jobs)
    for jobid, reason in (("roll", "rollup"), ("keep", "kept"), ("load", "table")):
        with pytest.raises(BadConfig, match=rf"\b{jobid}\b.*\b{reason}\b"):
            worker.check(store.catalogue(), jobid)


def test_many_ranges_of_a_table_in_one_pass(spark, store, project, postgres_url):
    import psycopg

    address, _, database = postgres_url.removeprefix("postgresql://postgres@").partition("/")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(
            "create table numbers as select id, 'name ' || id as name from generate_series(0, 999) as id"
        )
    by_id = Partition("range", column="id")
    store.register(
        [
            Dataset(
                "numbers", kind="table", format="postgres", hostname=address, database=database,
                tablename="numbers", username="postgres", partition=by_id,
            ),
            Dataset("out", kind="file", format="parquet", location="out/{dataid}", partition=by_id,
                    checks=parse_checks({"span": True, "unique": ["id"]}, "test")),
        ],
        [Job("copy", (Input("numbers"),), ("out",), options={"copy": {"from": "numbers", "to": "out"}, "batch": 50})],
    )  # fmt: skip
    bounds = {str(number + 1): (str(number * 100), str(number * 100 + 100)) for number in range(10)}
    store.announce("numbers", list(bounds), bounds=bounds)
    worker = Worker(store, trusting(project), None, echo=False)
    results = worker.run(store.catalogue(), store.claim("copy", 50))
    assert {result.outcome for result in results} == {"READY"}, results
    for number in range(10):
        assert rows_of(store, spark, str(number + 1)) == list(range(number * 100, number * 100 + 100))
    every = spark.read.parquet(*(store.views.manifest("out", dataid, 1).manifest.location for dataid in bounds))
    assert every.agg(F.count("*"), F.countDistinct("id")).first()[:] == (1000, 1000)


def judged_both_ways(df: Any, folder: Path, partition: Partition, dataid: str, bounds: Any = None) -> tuple[Any, ...]:
    """The verdicts of the summary of a batch, of the summary of one chunk and of the check of each row; and the span."""
    from opendataflow.spark import TAG
    from opendataflow.spark.auditing import Audit, Drift, EarlierPublishes, Surroundings
    from opendataflow.spark.observing import computed
    from opendataflow.spark.parquet import write_chunks

    checks = parse_checks({"span": True}, "test")
    out = Dataset("out", kind="file", format="parquet", location="out/{dataid}", partition=partition, checks=checks)
    audit = Audit(df, out, dataid, Surroundings(bounds=bounds), Drift(out, EarlierPublishes(), df.schema))
    written = write_chunks(df.withColumn(TAG, F.lit(dataid)), audit, None, str(folder))[dataid].figures
    assert df.exceptAll(df.sparkSession.read.parquet(str(folder))).isEmpty()
    observed = computed(df, audit.summary())
    assert audit.span(written) == audit.span(observed)
    (by_row,) = audit.results(computed(df, audit.metrics()), df.count(), lambda: df)
    return audit.is_clean(written), audit.is_clean(observed), by_row.passed, audit.span(written)


@pytest.mark.parametrize(
    ("moment", "is_clean"),
    [("2024-01-01 23:59:59", True), ("2024-01-02 00:30:00", False), ("2024-01-01 00:00:00", True)],
)
def test_the_span_of_a_chunk_is_of_the_time_zone_of_the_session(berlin, tmp_path, moment, is_clean):
    """Half past midnight of the next day in Berlin is still the day itself in UTC."""
    df = berlin.sql(f"SELECT 1 AS id, TIMESTAMP'{moment}' AS at")
    told = judged_both_ways(df, tmp_path / "together", Partition("day", column="at"), "2024-01-01")
    assert told == (is_clean, is_clean, is_clean, (moment.replace(" ", "T"),) * 2)


@pytest.mark.parametrize(
    ("moment", "is_clean"),
    [
        ("2024-10-27 01:30:00+02:00", False),  # the day before in UTC
        ("2024-10-27 02:15:00+02:00", True),
        ("2024-10-27 02:45:00+02:00", True),
        ("2024-10-27 02:15:00+01:00", False),  # an hour later, at the same local time
        ("1969-12-31 23:59:59.999999+00:00", False),
    ],
)
def test_a_range_between_bounds_with_a_time_zone_is_compared_by_instants(berlin, tmp_path, moment, is_clean):
    bounds = ("2024-10-27T00:00:00+00:00", "2024-10-27T01:00:00+00:00")
    texts = moment, "2024-10-27 00:30:00+00:00"
    df = berlin.sql(
        f"SELECT id, CAST(at AS TIMESTAMP) AS at FROM VALUES (1, '{texts[0]}'), (2, '{texts[1]}') AS t(id, at)"
    )
    told = judged_both_ways(df, tmp_path / "together", Partition("range", column="at"), "1", bounds)
    ends = sorted(datetime.fromisoformat(text).astimezone(UTC) for text in texts)
    assert told == (is_clean, is_clean, is_clean, tuple(end.isoformat() for end in ends))


@pytest.mark.parametrize(("at", "passes"), [("2024-01-01 05:00:00", True), ("2024-01-01 06:00:00", False)])
def test_bounds_without_a_time_zone_beside_instants_are_compared_row_by_row(berlin, tmp_path, at, passes):
    bounds = ("2024-01-01T00:00:00", "2024-01-01T06:00:00")  # written into the store by hand
    df = berlin.sql(f"SELECT TIMESTAMP'{at}' AS at")
    assert judged_both_ways(df, tmp_path / "t", Partition("range", column="at"), "1", bounds)[:3] == (
        False,
        False,
        passes,
    )


def test_a_chunk_of_text_that_does_not_read_back_fails_alone(spark, store, project, tmp_path):
    (tmp_path / "data/in").mkdir(parents=True)
    for day, text in zip(DAYS[:2], ("good", "bad\ue000"), strict=True):
        (tmp_path / f"data/in/{day}.csv").write_text(f"id,name\n1,{text}\n")
    csv = partial(Dataset, kind="file", format="csv", partition=Partition("day"))
    store.register(
        [
            csv("in", location="in/{dataid}.csv", options={"schema": "id INT, name STRING"}),
            csv("out", location="out/{dataid}", options={"options": {"encoding": "ISO-8859-1"}}),
        ],
        [Job("copy", (Input("in"),), ("out",), options={"copy": {"from": "in", "to": "out"}, "batch": 100})],
    )
    store.announce("in", DAYS[:2])
    worker = Worker(store, trusting(project), None, echo=False)
    results = {
        each.claim.dataid: each for each in worker.run(store.catalogue(), store.claim("copy", 100)) if each.claim
    }
    assert results[DAYS[0]].outcome == "READY", results[DAYS[0]].detail
    assert "the values of name differ" in results[DAYS[1]].detail
