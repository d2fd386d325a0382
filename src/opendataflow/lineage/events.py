"""Events: what OpenLineage is told, as plain data by its published schemas."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

from ..errors import OdfError
from ..model import Catalogue, InputChunk, Manifest
from ..model.definitions.ddl import columns_of
from ..model.definitions.partition import span
from ..model.timezone import time_zone
from ..project import Environment
from ..store import Claim
from .naming import Name, name_of

START, COMPLETE, FAIL, ABORT = "START", "COMPLETE", "FAIL", "ABORT"
_SPEC = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/"
_FACETS = "https://openlineage.io/spec/facets/"
# Which version of each facet's schema the events follow; a test compares them with the installed package.
SCHEMAS = {
    "dataQualityAssertions": ("1-1-0", "DataQualityAssertionsDatasetFacet"),
    "errorMessage": ("1-0-1", "ErrorMessageRunFacet"),
    "jobType": ("2-0-4", "JobTypeJobFacet"),
    "nominalTime": ("1-0-1", "NominalTimeRunFacet"),
    "outputStatistics": ("1-0-2", "OutputStatisticsOutputDatasetFacet"),
    "parent": ("1-2-0", "ParentRunFacet"),
    "processing_engine": ("1-1-1", "ProcessingEngineRunFacet"),
    "schema": ("1-2-0", "SchemaDatasetFacet"),
    "version": ("1-0-1", "DatasetVersionDatasetFacet"),
}
EVENT_SCHEMA = f"{_SPEC}RunEvent"
_OWN_RUN_FACET = f"{_SPEC}RunFacet"
_NAMESPACE = uuid.UUID("6f0df0f6-3b6e-5a55-9d59-6f64662d7275")
_MOST_VERSIONS = 100  # chunks of one input that are named
_MOST_COLUMNS = 1000
_MOST_BEGUN = 10_000
_NOTHING_KNOWN = Manifest()
_json = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


class Parent(NamedTuple):
    """A run that began another one."""

    namespace: str
    name: str
    run: str

    def to_data(self) -> dict[str, Any]:
        """As a facet has it."""
        return {"run": {"runId": self.run}, "job": {"namespace": self.namespace, "name": self.name}}


class RunStep(NamedTuple):
    """One step of a run, as its worker tells it; everything else is made of it beside the run."""

    kind: str
    at: float
    claim: Claim | None  # None of a drain itself
    catalogue: Catalogue | None = None
    inputs: Sequence[InputChunk] = ()
    manifests: Mapping[str, Manifest] | None = None
    message: str = ""


def run_uuid(identity: str, runid: int) -> str:
    """The id of a run, the same whoever tells of it."""
    return str(uuid.uuid5(_NAMESPACE, f"{identity}/{runid}"))


class Events:
    """Makes events of the steps of runs; what does not change from chunk to chunk is made once."""

    def __init__(
        self, environment: Environment, namespace: str, identity: str, version: str, timezone: str = "UTC"
    ) -> None:
        self._environment, self._namespace, self._identity = environment, namespace, identity
        self.producer = f"urn:opendataflow:python:{version}"
        self._zone = time_zone(timezone)
        self._catalogue: Catalogue | None = None
        self._names: dict[str, Name] = {}
        engine = self._facet("processing_engine", version=version, name="OpenDataFlow")
        self._engine = {"processing_engine": engine}
        kinds = {"processingType": "BATCH", "integration": "OPENDATAFLOW"}
        self._job_facets = {"jobType": self._facet("jobType", **kinds, jobType="JOB")}
        self._drain_facets = {"jobType": self._facet("jobType", **kinds, jobType="DRAIN")}
        self._head = f'"producer":{_json(self.producer)},"schemaURL":"{EVENT_SCHEMA}"'
        self._jobs: dict[str, str] = {}
        self._outputs: dict[tuple[str, ...], str] = {}
        self._begun: dict[int, tuple[str, str]] = {}  # the run and the inputs of what began and did not end yet
        self.drain: Parent | None = None
        self.outer: Parent | None = None

    def text(self, step: RunStep) -> str:
        """The event of one step, as JSON; what the start of a run said of it is not made again for its end."""
        at = datetime.fromtimestamp(step.at, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        head = f'{{"eventType":"{step.kind}","eventTime":"{at}",{self._head}'
        claim = step.claim
        if claim is None:
            run, job = self._drain_parts(step)
            return f'{head},"run":{_json(run)},"job":{_json(job)},"inputs":[],"outputs":[]}}'
        run_text, inputs = self._begun.pop(claim.runid, ("", ""))
        if not run_text:
            run_text, inputs = _json(self._run(step, claim)), _json(self._inputs(step, claim))
        if step.kind == START:
            if len(self._begun) >= _MOST_BEGUN:
                self._begun.clear()
            self._begun[claim.runid] = run_text, inputs
            outputs = self._announced(step, claim)
        else:
            outputs = _json([self._output(step, claim, name) for name in claim.outputs])
        if error := self._error(step):
            run_text = f'{run_text[:-2]},"errorMessage":{_json(error)}}}}}'
        return f'{head},"run":{run_text},"job":{self._job(claim.jobid)},"inputs":{inputs},"outputs":{outputs}}}'

    def _drain_parts(self, step: RunStep) -> tuple[dict[str, Any], dict[str, Any]]:
        assert self.drain is not None
        facets: dict[str, Any] = dict(self._engine)
        self._add_parent(facets, self.outer)
        if error := self._error(step):
            facets["errorMessage"] = error
        job = {"namespace": self._namespace, "name": self.drain.name, "facets": self._drain_facets}
        return {"runId": self.drain.run, "facets": facets}, job

    def _run(self, step: RunStep, claim: Claim) -> dict[str, Any]:
        facets: dict[str, Any] = dict(self._engine)
        self._add_parent(facets, self.drain or self.outer)
        if times := self._nominal(step, claim):
            facets["nominalTime"] = times
        facets["opendataflow"] = {
            "_producer": self.producer,
            "_schemaURL": _OWN_RUN_FACET,
            "run": claim.runid,
            "attempt": claim.epoch,
            "dataid": claim.dataid,
            "forced": claim.forced,
        }
        return {"runId": run_uuid(self._identity, claim.runid), "facets": facets}

    def _error(self, step: RunStep) -> dict[str, Any] | None:
        if not step.message or step.kind not in (FAIL, ABORT):
            return None
        return self._facet("errorMessage", message=step.message, programmingLanguage="PYTHON")

    def _job(self, jobid: str) -> str:
        if jobid not in self._jobs:
            job = {"namespace": self._namespace, "name": jobid, "facets": self._job_facets}
            self._jobs[jobid] = _json(job)
        return self._jobs[jobid]

    def _announced(self, step: RunStep, claim: Claim) -> str:
        """The outputs of a run that has not made them yet: the same for every run of a job."""
        self._keep(step.catalogue)
        if claim.outputs not in self._outputs:
            self._outputs[claim.outputs] = _json([self._output(step, claim, name) for name in claim.outputs])
        return self._outputs[claim.outputs]

    def _facet(self, key: str, **values: Any) -> dict[str, Any]:
        version, name = SCHEMAS[key]
        url = f"{_FACETS}{version}/{name}.json#/$defs/{name}"
        return {"_producer": self.producer, "_schemaURL": url, **values}

    def _add_parent(self, facets: dict[str, Any], parent: Parent | None) -> None:
        if parent is not None:
            root = self.outer or parent
            facets["parent"] = self._facet("parent", **parent.to_data(), root=root.to_data())

    def _nominal(self, step: RunStep, claim: Claim) -> dict[str, Any] | None:
        dataset = step.catalogue.datasets.get(claim.outputs[0]) if step.catalogue and claim.outputs else None
        if dataset is None or dataset.partition.type not in ("hour", "day", "month", "year"):
            return None
        try:
            bounds = span(dataset.partition, claim.dataid)
            if bounds is None:
                return None
            begin, end = (datetime.fromisoformat(text).replace(tzinfo=self._zone).isoformat() for text in bounds)
        except (OdfError, ValueError):
            return None
        return self._facet("nominalTime", nominalStartTime=begin, nominalEndTime=end)

    # Datasets -----------------------------------------------------------------------------------------------------

    def _keep(self, catalogue: Catalogue | None) -> None:
        if catalogue is not self._catalogue:
            self._catalogue, self._names, self._outputs = catalogue, {}, {}

    def _name(self, catalogue: Catalogue | None, datasetid: str) -> Name:
        self._keep(catalogue)
        if datasetid not in self._names:
            dataset = catalogue.datasets.get(datasetid) if catalogue else None
            own = Name(self._namespace, datasetid)
            self._names[datasetid] = name_of(self._environment, dataset, self._namespace) if dataset else own
        return self._names[datasetid]

    def _inputs(self, step: RunStep, claim: Claim) -> list[dict[str, Any]]:
        versions: dict[str, list[str]] = {}
        for datasetid, dataid, version in claim.inputs:
            versions.setdefault(datasetid, []).append(f"{dataid}:{version}")
        manifests = {chunk.datasetid: chunk.manifest for chunk in step.inputs if chunk.manifest is not None}
        found = []
        for datasetid, read in versions.items():
            manifest = manifests.get(datasetid)
            entry = self._dataset(step, datasetid, _listed(read), manifest)
            if manifest is not None and manifest.checks and len(read) == 1:
                entry["inputFacets"] = {"dataQualityAssertions": self._assertions(manifest)}
            found.append(entry)
        return found

    def _output(self, step: RunStep, claim: Claim, datasetid: str) -> dict[str, Any]:
        if step.kind != COMPLETE:
            return self._dataset(step, datasetid, "", None)
        manifest = (step.manifests or {}).get(datasetid) or _NOTHING_KNOWN
        entry = self._dataset(step, datasetid, f"{claim.dataid}:{claim.epoch}", manifest)
        if manifest.checks:
            entry["facets"]["dataQualityAssertions"] = self._assertions(manifest)
        counts = {"rowCount": manifest.rows, "size": manifest.bytes, "fileCount": len(manifest.files) or None}
        known = {name: n for name, n in counts.items() if n is not None}
        if known:
            entry["outputFacets"] = {"outputStatistics": self._facet("outputStatistics", **known)}
        return entry

    def _dataset(self, step: RunStep, datasetid: str, version: str, manifest: Manifest | None) -> dict[str, Any]:
        name = self._name(step.catalogue, datasetid)
        facets: dict[str, Any] = {}
        if version:
            facets["version"] = self._facet("version", datasetVersion=version)
        if manifest is not None and manifest.schema:
            facets["schema"] = self._facet("schema", fields=_fields(manifest.schema))
        return {"namespace": name.namespace, "name": name.name, "facets": facets}

    def _assertions(self, manifest: Manifest) -> dict[str, Any]:
        return self._facet(
            "dataQualityAssertions",
            assertions=[
                {
                    "assertion": result.kind or result.check,
                    "success": result.passed,
                    "severity": result.severity,
                    "name": result.check,
                    **_column(result.check, result.kind),
                }
                for result in manifest.checks
            ],
        )


def _column(check: str, kind: str) -> dict[str, str]:
    """The one column that a check is about, where its name tells one: not_null(carrier)."""
    inside = check.removeprefix(f"{kind}(").removesuffix(")") if check.startswith(f"{kind}(") else ""
    return {"column": inside} if inside and "," not in inside and kind != "sql" else {}


def _listed(versions: Sequence[str]) -> str:
    more = len(versions) - _MOST_VERSIONS
    return ",".join(versions[:_MOST_VERSIONS]) + (f" and {more} more" if more > 0 else "")


@lru_cache(maxsize=1000)
def _fields(ddl: str) -> list[dict[str, str]]:
    return [
        {"name": name, **({"type": kind} if kind else {})} for name, kind in [*columns_of(ddl).items()][:_MOST_COLUMNS]
    ]
