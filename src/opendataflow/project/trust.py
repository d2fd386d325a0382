"""Decides which definitions of the store are trusted: active ones only from the project's own files.

A definition that the project declares must be equal in the store. An undeclared definition must be passive: a location, a
host, a table, a user, an encrypted password, a listed format and listed options. A site allows more in [trust] of the
project file or of the worker's configuration.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..errors import BadDefinition, OdfError, UntrustedDefinition
from ..model import Catalogue, DataLook, Dataset, Job, checks_to_data
from ..model.definitions.ids import shown
from ..store.engine.catalogue_loading import dataset_data, job_data, pool_data
from ..tokens import shown_facts
from .locations import is_inside, resolve_location, strays
from .settings import Project

RIGHT, PLACE = "right", "place"  # the questions that an untrusted definition answers with no

# Fields that determine an address or a reader, compared with the declaration.
_ADDRESS = ("kind", "format", "hostname", "database", "schemaname", "tablename", "username", "location")
# Options without effect on reading, writing and addresses.
_REMARKS = ("description", "owner", "tags", "readers", "expected", "deadline")

FORMATS = ("", "csv", "json", "text", "parquet", "orc", "postgres", "postgresql")
KEYS = (
    *_REMARKS,
    *("repeats", "verify", "fingerprint", "drift", "empty", "ready", "quarantine", "schema", "keep", "max_line"),
    *("timezone", "as_text", "numeric", "loaders", "replace"),
)
COMPRESSIONS = ("none", "uncompressed", "bzip2", "deflate", "gzip", "lz4", "snappy", "zstd", "lzo", "brotli")
READER_OPTIONS = (
    *("header", "sep", "delimiter", "quote", "escape", "charToEscapeQuoteEscaping", "comment", "lineSep", "multiLine"),
    *("encoding", "charset", "nullValue", "emptyValue", "nanValue", "positiveInf", "negativeInf", "quoteAll"),
    *("dateFormat", "timestampFormat", "timestampNTZFormat", "locale", "timeZone"),
    *("ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace", "inferSchema", "enforceSchema", "samplingRatio", "mode"),
    *(
        "primitivesAsString",
        "prefersDecimal",
        "allowSingleQuotes",
        "allowUnquotedFieldNames",
        "allowNumericLeadingZeros",
    ),
    *("ignoreNullFields", "dropFieldIfAllNull", "mergeSchema", "wholetext", "maxColumns", "maxCharsPerColumn"),
    "partitions",
)
JDBC_PARAMETERS = (
    *("ssl", "sslmode", "encrypt", "usessl", "requiressl", "tlsversion", "trustservercertificate", "databasename"),
    *("currentschema", "applicationname", "logintimeout", "connecttimeout", "sockettimeout", "servertimezone"),
)

LONGEST_ITEM = 32_768
_MOST_SHOWN = 3
NOT_APPLIED = "this dataflow.toml is not applied (odf apply): "


class Distrust(NamedTuple):
    """One untrusted part of a definition: the question it answers with no, the problem, and a specific hint if any."""

    question: str
    what: str
    hint: str = ""
    is_difference: bool = False  # from the project's declaration: odf apply resolves it


def distrust(
    project: Project, catalogue: Catalogue, job: Job, declared: Job | None, *, on_spark: bool
) -> list[Distrust]:
    """All untrusted definitions that a run of this job would use; `on_spark`: this program reads and writes the data.

    Otherwise a script does, and the run uses only the items of the job and the checks of its outputs.
    """
    problems = list(_of_job(project, job, declared))
    read = dict.fromkeys(item.datasetid for item in job.inputs if item.datasetid not in job.outputs)
    for name in read:
        problems += _of_dataset(project, catalogue.dataset(name), is_checked=False, on_spark=on_spark)
    for name in job.outputs:
        dataset = catalogue.dataset(name)
        problems += _of_dataset(project, dataset, is_checked=True, on_spark=on_spark)
        for other in _referenced(dataset):
            if other not in (*read, *job.outputs) and other in catalogue.datasets:
                problems += _of_dataset(project, catalogue.dataset(other), is_checked=False, on_spark=True)
    return problems


def distrust_of(project: Project, dataset: Dataset) -> list[Distrust]:
    """The untrusted parts of a dataset for reading its data."""
    return list(_of_dataset(project, dataset, is_checked=False, on_spark=False))


def require(project: Project, dataset: Dataset, applied: Callable[[], str | None], *, on_spark: bool = True) -> None:
    """UntrustedDefinition if this program may not read, write or check the data by the store's definition."""
    problems = list(_of_dataset(project, dataset, is_checked=True, on_spark=on_spark))
    if problems:
        raise refused(project, problems, applied)


def refused(project: Project, problems: Sequence[Distrust], applied: Callable[[], str | None]) -> UntrustedDefinition:
    """The error for untrusted definitions; it names a missing odf apply first."""
    cause = NOT_APPLIED if is_unapplied(project, problems, applied) else ""
    return UntrustedDefinition(cause + reasons_text(problems), hint=remedy(project, problems, applied))


def is_unapplied(project: Project, problems: Sequence[Distrust], applied: Callable[[], str | None]) -> bool:
    """Whether the store differs because this version of the project file was not applied."""
    return project.is_toml and any(each.is_difference for each in problems) and applied() != digest(project)


def may_write(project: Project, dataset: Dataset) -> bool:
    """Whether attempts may write to and rename at a dataset's location: it is declared, or lies inside the project."""
    return _declaration(project, dataset.datasetid) is not None or not any(_elsewhere(project, dataset))


def looks(problems: Iterable[Distrust]) -> dict[str, DataLook]:
    """The untrusted definitions as answers to questions 2 and 3."""
    by_question: dict[str, list[Distrust]] = {}
    for problem in problems:
        by_question.setdefault(problem.question, []).append(problem)
    return {
        question: DataLook(reasons_text(some), no=UntrustedDefinition.name) for question, some in by_question.items()
    }


def reasons_text(problems: Iterable[Distrust]) -> str:
    """The first untrusted definitions as one line."""
    texts = list(dict.fromkeys(problem.what for problem in problems))
    more = f"; and {len(texts) - _MOST_SHOWN} more" if len(texts) > _MOST_SHOWN else ""
    return "; ".join(texts[:_MOST_SHOWN]) + more


def remedy(project: Project, problems: Sequence[Distrust], applied: Callable[[], str | None]) -> str:
    """The hint for untrusted definitions, which depends on whether the store or the project file changed."""
    if problems[0].hint:
        return problems[0].hint
    if not project.is_toml:
        return "Declare it in dataflow.toml and run odf apply, or allow it in [trust] of the worker's configuration."
    before = applied()
    if before is None:
        return "This project was never applied. Show the difference: odf apply --dry-run. Then store it: odf apply"
    if before == digest(project):
        return "A user changed the store since odf apply. Show the difference: odf apply --dry-run. Then restore it: odf apply"
    return (
        "The store was applied from another version of this project. Show the difference: odf apply --dry-run. "
        "Then store it: odf apply. Or, if the store is newer, deploy its version of the project here."
    )


def digest(project: Project) -> str:
    """A digest of everything that odf apply stores of the project file, for the selected environment."""
    data = {
        "datasets": {dataset.datasetid: dataset_data(dataset) for dataset in project.datasets},
        "jobs": {job.jobid: job_data(job) for job in project.jobs},
        "pools": {pool.poolid: pool_data(pool) for pool in project.pools},
    }
    from hashlib import sha256  # lazy: slow to import

    return sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


# Jobs -----------------------------------------------------------------------------------------------------------------


def _of_job(project: Project, job: Job, declared: Job | None) -> Iterator[Distrust]:
    for name, value in job.env.items():
        if "\0" in value or len(value) > LONGEST_ITEM:
            yield Distrust(
                RIGHT, f"job {job.jobid}: item {name} is longer than {LONGEST_ITEM:,} characters or contains a NUL byte"
            )
    if declared is None:
        if "copy" in job.options and job.jobid not in project.trust.copies:
            yield Distrust(RIGHT, f"job {job.jobid} is a copy, which {_not_declared(project)}")
        if "spark" in job.options:
            yield Distrust(RIGHT, f"job {job.jobid} has settings of Spark, which {_not_declared(project)}")
        return
    stored, own = _wiring(job), _wiring(declared)
    for key in dict.fromkeys((*stored, *own)):
        if stored.get(key) != own.get(key):
            yield _difference(RIGHT, project, f"job {job.jobid}", key, stored.get(key), own.get(key))
    for name, value in declared.env.items():
        if job.env.get(name) != value:
            yield _difference(RIGHT, project, f"job {job.jobid}", f"env {name}", job.env.get(name), value)


def _wiring(job: Job) -> dict[str, object]:
    """The inputs and outputs of a job, whose passwords it receives, and how; a job without output is its own marker."""
    return {
        "reads": {item.datasetid: str(item.mapping) for item in job.inputs},
        "writes": sorted(job.outputs or (job.jobid,)),
        **{key: job.options.get(key) for key in ("copy", "secrets")},
        **{key: job.options[key] for key in ("spark",) if key in job.options},
    }


# Datasets -------------------------------------------------------------------------------------------------------------


def _of_dataset(project: Project, dataset: Dataset, *, is_checked: bool, on_spark: bool) -> Iterator[Distrust]:
    if dataset.encryptedpass:
        yield from _of_password(project, dataset)
    declared = _declaration(project, dataset.datasetid)
    if declared is None:
        yield from _undeclared(project, dataset, is_checked=is_checked, on_spark=on_spark)
        return
    # Compared separately: an option may have the same name as a field.
    for question, part in ((PLACE, _address), (RIGHT, _content), (PLACE, _options)):
        stored, own = part(dataset), part(declared)
        for key in dict.fromkeys((*own, *stored)):
            if stored.get(key) != own.get(key) and (is_checked or key != "checks"):
                yield _difference(question, project, f"dataset {dataset.datasetid}", key, stored.get(key), own.get(key))


def _of_password(project: Project, dataset: Dataset) -> Iterator[Distrust]:
    from .hosts import check_password_may_go  # lazy: few datasets have a password

    try:
        check_password_may_go(project, dataset)
    except UntrustedDefinition as problem:
        yield Distrust(PLACE, problem.message, problem.hint)
    except OdfError:
        return  # the gate reports a host of another environment as INVALID_PATH


def _declaration(project: Project, datasetid: str) -> Dataset | None:
    """The dataset as the project declares it; that of rejected rows is derived from its source."""
    known = {dataset.datasetid: dataset for dataset in project.datasets}
    if datasetid in known or "__" not in datasetid:
        return known.get(datasetid)
    from ..files.quarantine import REJECTED, has_quarantine, rejected_dataset  # lazy: few datasets hold rejected rows

    source = known.get(datasetid.removesuffix(REJECTED))
    return rejected_dataset(source) if source is not None and has_quarantine(source) else None


def _address(dataset: Dataset) -> dict[str, object]:
    """The address fields. The encrypted password is excluded: its key authenticates it."""
    return {key: getattr(dataset, key) for key in _ADDRESS}


def _content(dataset: Dataset) -> dict[str, object]:
    """The partition and the checks."""
    return {"partition": dataset.partition.to_data(), "checks": checks_to_data(dataset.checks)}


def _options(dataset: Dataset) -> dict[str, object]:
    """The options for access, reading and writing."""
    return {key: value for key, value in dataset.options.items() if key not in _REMARKS}


def _undeclared(project: Project, dataset: Dataset, *, is_checked: bool, on_spark: bool) -> Iterator[Distrust]:
    """The untrusted parts of a dataset that no project file declares."""
    trust, here = project.trust, f"dataset {dataset.datasetid}"
    if is_checked and not trust.sql_checks and any(check.kind == "sql" for check in dataset.checks):
        yield Distrust(RIGHT, f"{here} has a check of kind sql, which {_not_declared(project)}")
    if not (on_spark or (is_checked and dataset.checks)):
        return
    if dataset.format.lower() not in (*FORMATS, *trust.formats):
        yield Distrust(PLACE, f"{here} has format {shown(dataset.format)}, which {_not_declared(project)}")
    for key, value in dataset.options.items():
        if key == "options" and isinstance(value, Mapping):
            allowed = {name.lower() for name in (*READER_OPTIONS, *trust.options)}
            for name in value:
                if name.lower() not in allowed:
                    yield Distrust(PLACE, f"{here} has the option {shown(name)}, which {_not_declared(project)}")
        elif key == "compression" and str(value).lower() in COMPRESSIONS:
            continue
        elif key not in (*KEYS, *trust.options):
            yield Distrust(PLACE, f"{here} has {key} = {shown(value)}, which {_not_declared(project)}")
        elif key == "url":
            for name in re.findall(r"[?;&]([^=?;&]*)", str(value)):
                if name.lower() not in (*JDBC_PARAMETERS, *map(str.lower, trust.options)):
                    yield Distrust(
                        PLACE, f"{here}: its url has the parameter {shown(name)}, which [trust] does not list"
                    )
    yield from _elsewhere(project, dataset)


def _elsewhere(project: Project, dataset: Dataset) -> Iterator[Distrust]:
    """The hosts and the location of a dataset outside the allowed ones; without a declaration, this machine and the folder."""
    environment, here = project.environment, f"dataset {dataset.datasetid}"
    if dataset.kind == "table":
        from ..model.definitions.address import hosts_of  # here, since few datasets are tables

        listed = (*environment.hosts, *project.trust.hosts)
        try:
            unlisted = [host for host in hosts_of(dataset) if not (host.is_here or host.is_among(listed))]
        except BadDefinition as problem:
            yield Distrust(PLACE, problem.message)
            unlisted = []
        for host in unlisted:
            yield Distrust(PLACE, f"{here} is on host {host}, which is listed neither in hosts nor in [trust]")
    if dataset.location:
        if strays(dataset.location):
            yield Distrust(PLACE, f"{here} lies at {shown(dataset.location, 200)}, which is not a safe location")
            return
        any_chunk = Dataset(dataset.datasetid, location=re.sub(r"\{[^{}]*\}", "x", dataset.location))
        location = resolve_location(environment, any_chunk, "x", must_be_inside=False)
        own = [str(path) for path in (project.logs, *project.job_folders, *([project.file] if project.file else []))]
        if not is_inside(location, environment.roots) or location in environment.roots:
            roots = ", ".join(environment.roots)
            yield Distrust(PLACE, f"{here} lies at {shown(dataset.location, 200)}, which is not inside {roots}")
        elif is_inside(location, own) or any(is_inside(path, [location]) for path in own):
            yield Distrust(PLACE, f"{here} lies at {shown(dataset.location, 200)}, among the project's own files")


def _referenced(dataset: Dataset) -> Iterator[str]:
    for check in dataset.checks:
        if other := check.params.get("dataset"):
            yield str(other)


def _difference(question: str, project: Project, here: str, key: str, stored: object, own: object) -> Distrust:
    def text(value: object) -> str:
        return "not set" if value in (None, "", {}) else shown(shown_facts(value, key.replace(" ", ".")))

    what = f"{here}: {key} is {text(stored)} in the store and {text(own)} in {_file(project)}"
    return Distrust(question, what, is_difference=True)


def _file(project: Project) -> str:
    return project.file.name if project.file is not None else "the project"


def _not_declared(project: Project) -> str:
    return f"{_file(project)} does not declare" if project.is_toml else "no project file declares"
