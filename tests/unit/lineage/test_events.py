"""Lineage events: valid by the specification, with versions, and named as lineage servers name things."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import import_module
from typing import Any

import attr
import jsonschema
import pytest

from opendataflow import Dataset, Manifest, Partition
from opendataflow.lineage.events import (
    ABORT,
    COMPLETE,
    EVENT_SCHEMA,
    FAIL,
    SCHEMAS,
    START,
    Events,
    Parent,
    RunStep,
    run_uuid,
)
from opendataflow.lineage.naming import Name, name_of
from opendataflow.lineage.teller import parent_of
from opendataflow.model import Catalogue, CheckResult, Consumed, Facts, InputChunk, ManifestFile
from opendataflow.project import Environment
from opendataflow.store import Claim
from tests.support.flows import job
from tests.support.openlineage import SCHEMA, VALIDATOR, check

HERE = Environment("prod", ("/data",))
RUN = "0c1a3f0e-5f0b-4c29-9b0f-0d1c0f3d8f10"


def claim(**more: Any) -> Claim:
    read = (Consumed("raw", "2013-01-01", 4),)
    facts = Facts("clean", "2013-01-01")
    made = Claim(7, "clean", "2013-01-01", 3, read, ("flights",), 30.0, 0, False, False, "me", facts)
    return made._replace(**more)


def catalogue() -> Catalogue:
    day = Partition("day")
    raw = Dataset("raw", kind="file", location="raw/{dataid}.csv", partition=day)
    flights = Dataset("flights", kind="file", location="s3a://lake/flights/{year}/{dataid}", partition=day)
    return Catalogue.build([raw, flights], [job("clean", "raw", writes="flights")])


class Read(Events):
    """Events, read back."""

    def event(self, step: RunStep) -> Any:
        return json.loads(self.text(step))


def events(**parents: Parent) -> Read:
    made = Read(HERE, "shop/prod", "identity", "1.2.3", "Europe/Berlin")
    made.outer, made.drain = parents.get("outer"), parents.get("drain")
    return made


PASSED = CheckResult("not_null(carrier)", "not_null", passed=True)
WARNED = CheckResult("rows", "rows", severity="warn")
MADE = Manifest(
    rows=5,
    bytes=70,
    files=(ManifestFile("a", 70),),
    schema="carrier STRING, delay INT, tags ARRAY<STRING>",
    checks=(PASSED, WARNED),
)


def test_every_kind_of_event_is_valid() -> None:
    chunk = InputChunk("raw", "2013-01-01", 4, MADE)
    drain = Parent("shop/prod", "drain", RUN)
    for made in (events(), events(outer=Parent("airflow", "dag.task", RUN)), events(drain=drain)):
        check(made.event(RunStep(START, 1.5, claim(), catalogue(), (chunk,))))
        check(made.event(RunStep(COMPLETE, 1.5, claim(), catalogue(), (chunk,), {"flights": MADE})))
        check(made.event(RunStep(COMPLETE, 1.5, claim(), catalogue(), (), {})))
        check(made.event(RunStep(FAIL, 1.5, claim(), catalogue(), message="JOB_FAILED: exit 3")))
        check(made.event(RunStep(ABORT, 1.5, claim(), None, message="LEASE_LOST: it ran out")))
    for kind in (START, COMPLETE, FAIL):
        check(events(drain=drain).event(RunStep(kind, 1.5, None, message="x")))


def test_an_event_says_what_was_read_and_written() -> None:
    chunk = InputChunk("raw", "2013-01-01", 4, MADE)
    event = events().event(RunStep(COMPLETE, 1.5, claim(), catalogue(), (chunk,), {"flights": MADE}))
    assert (event["eventType"], event["eventTime"]) == ("COMPLETE", "1970-01-01T00:00:01.500000Z")
    assert event["job"]["namespace"] == "shop/prod"
    assert event["run"]["runId"] == run_uuid("identity", 7) != run_uuid("other", 7)
    nominal = event["run"]["facets"]["nominalTime"]
    assert (nominal["nominalStartTime"], nominal["nominalEndTime"]) == (
        "2013-01-01T00:00:00+01:00",
        "2013-01-02T00:00:00+01:00",
    )
    [read], [written] = event["inputs"], event["outputs"]
    assert (read["namespace"], read["name"]) == ("file", "/data/raw")
    assert (written["namespace"], written["name"]) == ("s3://lake", "flights")
    assert read["facets"]["version"]["datasetVersion"] == "2013-01-01:4"
    assert written["facets"]["version"]["datasetVersion"] == "2013-01-01:3"
    assert written["facets"]["schema"]["fields"] == [
        {"name": "carrier", "type": "string"},
        {"name": "delay", "type": "int"},
        {"name": "tags"},
    ]
    statistics = written["outputFacets"]["outputStatistics"]
    assert (statistics["rowCount"], statistics["size"], statistics["fileCount"]) == (5, 70, 1)
    for facet in (written["facets"], read["inputFacets"]):
        assert facet["dataQualityAssertions"]["assertions"] == [
            {
                "assertion": "not_null",
                "success": True,
                "severity": "error",
                "name": "not_null(carrier)",
                "column": "carrier",
            },
            {"assertion": "rows", "success": False, "severity": "warn", "name": "rows"},
        ]


def test_the_end_of_a_run_says_what_its_start_said_whether_or_not_it_was_seen() -> None:
    chunk = InputChunk("raw", "2013-01-01", 4, MADE)
    start = RunStep(START, 1.5, claim(), catalogue(), (chunk,))
    for kind in (COMPLETE, FAIL):
        end = start._replace(kind=kind, manifests={"flights": MADE}, message='"said"')
        both = events()
        began, ended = both.event(start), both.event(end)
        assert ended == events().event(end)
        assert (began["inputs"], began["job"]) == (ended["inputs"], ended["job"])
        assert began["run"]["facets"].items() <= ended["run"]["facets"].items()


def test_many_chunks_of_one_input_are_one_dataset() -> None:
    read = tuple(Consumed("raw", f"{number}", 1) for number in range(150))
    event = check(events().event(RunStep(START, 1.5, claim(inputs=read), catalogue())))
    [only] = event["inputs"]
    assert only["facets"]["version"]["datasetVersion"].endswith("99:1 and 50 more")


def test_a_drain_is_the_parent_of_its_chunks_and_an_orchestrator_its_root() -> None:
    outer, drain = Parent("airflow", "dag.task", RUN), Parent("shop/prod", "drain", RUN.replace("0c", "1c"))
    made = events(outer=outer, drain=drain)
    parent = made.event(RunStep(START, 1.5, claim(), catalogue()))["run"]["facets"]["parent"]
    assert (parent["job"]["name"], parent["root"]["job"]["name"]) == ("drain", "dag.task")
    parent = made.event(RunStep(START, 1.5, None))["run"]["facets"]["parent"]
    assert parent["job"] == parent["root"]["job"] == {"namespace": "airflow", "name": "dag.task"}
    assert "parent" not in events().event(RunStep(START, 1.5, claim(), catalogue()))["run"]["facets"]


def test_a_parent_comes_from_the_variables_that_orchestrators_set() -> None:
    assert parent_of({"OPENLINEAGE_PARENT_ID": f"air/flow/dag.task/{RUN}"}) == Parent("air/flow", "dag.task", RUN)
    parts = {"NAMESPACE": "n", "NAME": "j"}
    three = {f"OPENLINEAGE_PARENT_JOB_{name}": value for name, value in parts.items()}
    assert parent_of({**three, "OPENLINEAGE_PARENT_RUN_ID": RUN}) == Parent("n", "j", RUN)
    for wrong in ({}, three, {"OPENLINEAGE_PARENT_ID": "a/b/c"}, {"OPENLINEAGE_PARENT_ID": RUN}):
        assert parent_of(wrong) is None


def table(**more: Any) -> Dataset:
    return Dataset("orders", kind="table", hostname="db.example", database="shop", tablename="orders", **more)


@pytest.mark.parametrize(
    ("dataset", "namespace", "name"),
    [
        (table(), "postgres://db.example:5432", "shop.public.orders"),
        (table(schemaname="s", options={"port": 5433}), "postgres://db.example:5433", "shop.s.orders"),
        (replace(table(), hostname="[::1]:5433,other"), "postgres://[::1]:5433", "shop.public.orders"),
        (replace(table(), hostname="/run/postgresql"), "postgres://localhost:5432", "shop.public.orders"),
        (
            table(format="jdbc", options={"url": "jdbc:mysql://me:s3cret@db:3306/shop?password=s3cret"}),
            "mysql://db:3306",
            "shop.orders",
        ),
        (table(format="delta"), "n", "orders"),
        (Dataset("d"), "n", "d"),
        (Dataset("d", kind="file", location="{dataid}.csv"), "file", "/data"),
        (Dataset("d", kind="file", location="/x/y{dataid}/z"), "file", "/x"),
        (Dataset("d", kind="file", location="one.csv"), "file", "/data/one.csv"),
        (Dataset("d", kind="file", location="s3a://id:s3cret@lake/a/b/{dataid}"), "s3://lake", "a/b"),
        (Dataset("d", kind="file", location="hdfs://nn:8020/{dataid}"), "hdfs://nn:8020", "/"),
    ],
)
def test_a_dataset_has_the_name_that_others_give_it_and_no_password(
    dataset: Dataset, namespace: str, name: str
) -> None:
    assert name_of(HERE, dataset, "n") == Name(namespace, name)


def test_the_schemas_are_those_of_the_installed_package() -> None:
    """The package's classes are generated from the published schemas: names, required keys and addresses agree."""
    modules = {
        "dataQualityAssertions": ("data_quality_assertions_dataset", "assertions"),
        "errorMessage": ("error_message_run", "errorMessage"),
        "jobType": ("job_type_job", "jobType"),
        "nominalTime": ("nominal_time_run", "nominalTime"),
        "outputStatistics": ("output_statistics_output_dataset", "outputStatistics"),
        "parent": ("parent_run", "parent"),
        "processing_engine": ("processing_engine_run", "processingEngine"),
        "schema": ("schema_dataset", "schema"),
        "version": ("dataset_version_dataset", "version"),
    }
    assert modules.keys() == SCHEMAS.keys()
    for key, (module, ours) in modules.items():
        version, name = SCHEMAS[key]
        facet = getattr(import_module(f"openlineage.client.generated.{module}"), name)
        assert facet._get_schema() == f"https://openlineage.io/spec/facets/{version}/{name}.json#/$defs/{name}"
        fields = [field for field in attr.fields(facet) if not field.name.startswith("_")]
        definition = SCHEMA["$defs"][ours]
        assert set(definition["properties"]) <= {field.name for field in fields}
        assert set(definition.get("required", ())) == {field.name for field in fields if field.default is attr.NOTHING}
    base: Any = import_module("openlineage.client.generated.base")
    assert base.RunEvent._get_schema() == EVENT_SCHEMA
    kinds = [each.value for each in base.EventType]
    assert sorted(SCHEMA["$defs"]["runEvent"]["properties"]["eventType"]["enum"]) == sorted(kinds)


def test_what_is_no_event_is_found_out() -> None:
    good = events().event(RunStep(START, 1.5, claim(), catalogue()))
    for wrong in (
        {**good, "eventTime": "yesterday"},
        {**good, "run": {"runId": "7"}},
        {**good, "producer": "we"},
        {**good, "eventType": "BEGIN"},
        {**good, "inputs": [{"name": "x"}]},
        {name: value for name, value in good.items() if name != "job"},
    ):
        with pytest.raises(jsonschema.ValidationError):
            VALIDATOR.validate(wrong)
