"""Trust: what can act is trusted only from the project's own files; the store holds facts.

A definition that the project declares must be in the store as it is declared. One that it does not declare may be
passive only: a location, a host, a table, a user, an encrypted password, a format and options of a list. What else a
site wants to allow stands in [trust], of the project file or of the worker's own configuration.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ..errors import BadDefinition, OdfError, UntrustedDefinition
from ..model import Catalogue, Dataset, Job, Look, checks_to_data
from ..model.ids import shown
from ..shapes import NamedTuple
from ..store.loading import dataset_data, job_data, pool_data
from .declared import Project
from .locations import is_inside, resolve_location, strays

RIGHT, PLACE = "right", "place"  # the question that an untrusted definition is a no to

# What becomes an address or chooses a reader, and is compared with the declaration.
_ADDRESS = ("kind", "format", "hostname", "database", "schemaname", "tablename", "username", "location")
# Options that say nothing about how data is read, written or reached.
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
_MOST_TOLD = 3
NOT_APPLIED = "this dataflow.toml is not applied (odf apply): "


class Distrust(NamedTuple):
    """One thing that may not act: the question that it is a no to, what is wrong, and a way out of its own if it has one."""

    question: str
    what: str
    hint: str = ""
    is_difference: bool = False  # from what the project declares: odf apply would end it


def distrust(
    project: Project, catalogue: Catalogue, job: Job, declared: Job | None, *, on_spark: bool
) -> list[Distrust]:
    """Everything that a run of this job would act on and may not; on_spark tells whether we read and write its data.

    Whoever only hands the facts to a script acts on nothing but the items of the job and the checks of its outputs.
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
    """Why nobody may read the data of this dataset as the store says."""
    return list(_of_dataset(project, dataset, is_checked=False, on_spark=False))


def require(project: Project, dataset: Dataset, applied: Callable[[], str | None], *, on_spark: bool = True) -> None:
    """UntrustedDefinition when the data of this dataset may not be read, written or checked by us as the store says."""
    problems = list(_of_dataset(project, dataset, is_checked=True, on_spark=on_spark))
    if problems:
        raise refused(project, problems, applied)


def refused(project: Project, problems: Sequence[Distrust], applied: Callable[[], str | None]) -> UntrustedDefinition:
    """The refusal of what may not act; a forgotten odf apply is named first."""
    cause = NOT_APPLIED if is_unapplied(project, problems, applied) else ""
    return UntrustedDefinition(cause + told(problems), hint=way_out(project, problems, applied))


def is_unapplied(project: Project, problems: Sequence[Distrust], applied: Callable[[], str | None]) -> bool:
    """Whether the store differs from the project because this version of its file was not applied."""
    return project.is_toml and any(each.is_difference for each in problems) and applied() != digest(project)


def may_write(project: Project, dataset: Dataset) -> bool:
    """Whether we may write to the location of a dataset and move what is there: the project declares it, or it is inside."""
    return _declaration(project, dataset.datasetid) is not None or not any(_elsewhere(project, dataset))


def looks(problems: Iterable[Distrust]) -> dict[str, Look]:
    """The same as answers: a no to question 2, to question 3, or to both."""
    by_question: dict[str, list[Distrust]] = {}
    for problem in problems:
        by_question.setdefault(problem.question, []).append(problem)
    return {question: Look(told(some), no=UntrustedDefinition.name) for question, some in by_question.items()}


def told(problems: Iterable[Distrust]) -> str:
    """What may not act, the first few of it."""
    texts = list(dict.fromkeys(problem.what for problem in problems))
    more = f"; and {len(texts) - _MOST_TOLD} more" if len(texts) > _MOST_TOLD else ""
    return "; ".join(texts[:_MOST_TOLD]) + more


def way_out(project: Project, problems: Sequence[Distrust], applied: Callable[[], str | None]) -> str:
    """What to do about it: whether the store was changed after it was applied, or this project is another version."""
    if problems[0].hint:
        return problems[0].hint
    if not project.is_toml:
        return "Declare it in dataflow.toml and run odf apply, or allow it in [trust] of the worker's configuration."
    before = applied()
    if before is None:
        return "This project was never applied. See the difference: odf apply --dry-run. Then store it: odf apply"
    if before == digest(project):
        return "Somebody changed the store since odf apply. See what: odf apply --dry-run. Then put it back: odf apply"
    return (
        "The store was applied from another version of this project. See the difference: odf apply --dry-run. "
        "Then store it: odf apply. Or, where the store is newer, deploy its version of the project here."
    )


def digest(project: Project) -> str:
    """A fingerprint of everything that odf apply stores of the project file, as it is in the selected environment."""
    data = {
        "datasets": {dataset.datasetid: dataset_data(dataset) for dataset in project.datasets},
        "jobs": {job.jobid: job_data(job) for job in project.jobs},
        "pools": {pool.poolid: pool_data(pool) for pool in project.pools},
    }
    from hashlib import sha256  # here, since it takes milliseconds

    return sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


# Jobs -----------------------------------------------------------------------------------------------------------------


def _of_job(project: Project, job: Job, declared: Job | None) -> Iterator[Distrust]:
    for name, value in job.env.items():
        if "\0" in value or len(value) > LONGEST_ITEM:
            yield Distrust(
                RIGHT, f"job {job.jobid}: item {name} is longer than {LONGEST_ITEM:,} characters or holds a NUL"
            )
    if declared is None:
        if "copy" in job.options and job.jobid not in project.trust.copies:
            yield Distrust(RIGHT, f"job {job.jobid} is a copy, which {_nobody(project)}")
        if "spark" in job.options:
            yield Distrust(RIGHT, f"job {job.jobid} has settings of Spark, which {_nobody(project)}")
        return
    stored, own = _wiring(job), _wiring(declared)
    for key in dict.fromkeys((*stored, *own)):
        if stored.get(key) != own.get(key):
            yield _difference(RIGHT, project, f"job {job.jobid}", key, stored.get(key), own.get(key))
    for name, value in declared.env.items():
        if job.env.get(name) != value:
            yield _difference(RIGHT, project, f"job {job.jobid}", f"env {name}", job.env.get(name), value)


def _wiring(job: Job) -> dict[str, object]:
    """What a job reads and writes, whose passwords it gets by that, and how; one without an output is its own marker."""
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
    # Never as one table: an option may have the name of a column.
    for question, part in ((PLACE, _address), (RIGHT, _content), (PLACE, _options)):
        stored, own = part(dataset), part(declared)
        for key in dict.fromkeys((*own, *stored)):
            if stored.get(key) != own.get(key) and (is_checked or key != "checks"):
                yield _difference(question, project, f"dataset {dataset.datasetid}", key, stored.get(key), own.get(key))


def _of_password(project: Project, dataset: Dataset) -> Iterator[Distrust]:
    from .hosts import check_password_may_go  # here, since few datasets have a password

    try:
        check_password_may_go(project, dataset)
    except UntrustedDefinition as problem:
        yield Distrust(PLACE, problem.message, problem.hint)
    except OdfError:
        return  # a host of another environment is an INVALID_PATH: the gate says so


def _declaration(project: Project, datasetid: str) -> Dataset | None:
    """The dataset as the project declares it; that of rejected rows follows from the one that keeps them aside."""
    known = {dataset.datasetid: dataset for dataset in project.datasets}
    if datasetid in known or "__" not in datasetid:
        return known.get(datasetid)
    from ..files.quarantine import REJECTED, has_quarantine, rejected_dataset  # here, since few are of rejected rows

    source = known.get(datasetid.removesuffix(REJECTED))
    return rejected_dataset(source) if source is not None and has_quarantine(source) else None


def _address(dataset: Dataset) -> dict[str, object]:
    """Where the data is; what an encrypted password opens, its own key vouches for."""
    return {key: getattr(dataset, key) for key in _ADDRESS}


def _content(dataset: Dataset) -> dict[str, object]:
    """Which rows belong to a chunk, and what is checked of them."""
    return {"partition": dataset.partition.to_data(), "checks": checks_to_data(dataset.checks)}


def _options(dataset: Dataset) -> dict[str, object]:
    """How the data is reached, read and written."""
    return {key: value for key, value in dataset.options.items() if key not in _REMARKS}


def _undeclared(project: Project, dataset: Dataset, *, is_checked: bool, on_spark: bool) -> Iterator[Distrust]:
    """What a dataset may not say that no project file declares."""
    trust, here = project.trust, f"dataset {dataset.datasetid}"
    if is_checked and not trust.sql_checks and any(check.kind == "sql" for check in dataset.checks):
        yield Distrust(RIGHT, f"{here} has a check of kind sql, which {_nobody(project)}")
    if not (on_spark or (is_checked and dataset.checks)):
        return
    if dataset.format.lower() not in (*FORMATS, *trust.formats):
        yield Distrust(PLACE, f"{here} has format {shown(dataset.format)}, which {_nobody(project)}")
    for key, value in dataset.options.items():
        if key == "options" and isinstance(value, Mapping):
            allowed = {name.lower() for name in (*READER_OPTIONS, *trust.options)}
            for name in value:
                if name.lower() not in allowed:
                    yield Distrust(PLACE, f"{here} has the option {shown(name)}, which {_nobody(project)}")
        elif key == "compression" and str(value).lower() in COMPRESSIONS:
            continue
        elif key not in (*KEYS, *trust.options):
            yield Distrust(PLACE, f"{here} has {key} = {shown(value)}, which {_nobody(project)}")
        elif key == "url":
            for name in re.findall(r"[?;&]([^=?;&]*)", str(value)):
                if name.lower() not in (*JDBC_PARAMETERS, *map(str.lower, trust.options)):
                    yield Distrust(
                        PLACE, f"{here}: its url has the parameter {shown(name)}, which [trust] does not list"
                    )
    yield from _elsewhere(project, dataset)


def _elsewhere(project: Project, dataset: Dataset) -> Iterator[Distrust]:
    """Where nobody declared which locations and hosts belong to the project, its folder and this machine do, no other."""
    environment, here = project.environment, f"dataset {dataset.datasetid}"
    if dataset.kind == "table":
        from ..model.address import hosts_of  # here, since few datasets are tables

        listed = (*environment.hosts, *project.trust.hosts)
        try:
            strange = [host for host in hosts_of(dataset) if not (host.is_here or host.is_among(listed))]
        except BadDefinition as problem:
            yield Distrust(PLACE, problem.message)
            strange = []
        for host in strange:
            yield Distrust(PLACE, f"{here} is on host {host}, which neither hosts nor [trust] lists")
    if dataset.location:
        if strays(dataset.location):
            yield Distrust(
                PLACE, f"{here} lies at {shown(dataset.location, 200)}, which could lead elsewhere than it says"
            )
            return
        any_chunk = Dataset(dataset.datasetid, location=re.sub(r"\{[^{}]*\}", "x", dataset.location))
        location = resolve_location(environment, any_chunk, "x", must_be_inside=False)
        own = [str(path) for path in (project.logs, *project.job_folders, *([project.file] if project.file else []))]
        if not is_inside(location, environment.roots) or location in environment.roots:
            roots = ", ".join(environment.roots)
            yield Distrust(PLACE, f"{here} lies at {shown(dataset.location, 200)}, which is not inside {roots}")
        elif is_inside(location, own) or any(is_inside(path, [location]) for path in own):
            yield Distrust(
                PLACE, f"{here} lies at {shown(dataset.location, 200)}, among the files of the project itself"
            )


def _referenced(dataset: Dataset) -> Iterator[str]:
    for check in dataset.checks:
        if other := check.params.get("dataset"):
            yield str(other)


def _difference(question: str, project: Project, here: str, key: str, stored: object, own: object) -> Distrust:
    def said(value: object) -> str:
        return "not set" if value in (None, "", {}) else shown(value)

    what = f"{here}: {key} is {said(stored)} in the store and {said(own)} in {_file(project)}"
    return Distrust(question, what, is_difference=True)


def _file(project: Project) -> str:
    return project.file.name if project.file is not None else "the project"


def _nobody(project: Project) -> str:
    return f"{_file(project)} does not declare" if project.is_toml else "no project file declares"
