"""Reads the tables [dataset.X] of a project file."""

from __future__ import annotations

import re
from dataclasses import replace
from posixpath import splitext
from typing import Any

from ..errors import BadDefinition, UnknownDataset
from ..model import TODAY, Check, Dataset, Partition, check_id, parse_checks
from ..model.definitions.calendar import parse_calendar
from ..model.definitions.dataid import TYPES
from ..model.definitions.dataset import AUTH, KINDS, POSTGRES
from ..model.definitions.ids import shown
from ..model.plain import plain
from ..model.size import is_size
from ..model.timezone import time_zone
from .locations import check_written
from .section import COUNT, FLAG, SLOTS, TABLE, TEXT, TEXTS, Section, Shape, either, nearest, one_of

# The keys that an environment may override.
ADDRESS = ("hostname", "database", "schemaname", "tablename", "username", "encryptedpass", "location")

_DECIMAL = Shape(
    lambda value: isinstance(value, str) and re.fullmatch(r"decimal\(\d{1,2}, ?\d{1,2}\)", value) is not None,
    'text like "decimal(38,18)"',
)
_SIZE = Shape(is_size, 'a number of bytes, or text like "64MiB"')


def _are_methods(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(method in AUTH for method in value)


def _is_expected(value: object) -> bool:
    if isinstance(value, bool):
        return True
    from ..model.definitions.deadline import parse_expected  # lazy: few datasets use it

    try:
        return bool(parse_expected(value))
    except BadDefinition:
        return False


def _is_deadline(value: object) -> bool:
    from ..model.definitions.deadline import parse_deadline  # lazy: few datasets use it

    try:
        return bool(parse_deadline(value))
    except BadDefinition:
        return False


def _is_quarantine(value: object) -> bool:
    from ..files.quarantine import is_quarantine  # lazy: few datasets use it

    return is_quarantine(value)


OF_POSTGRES: dict[str, Shape] = {
    "require_auth": either(one_of(*AUTH), Shape(_are_methods, f"a list of {', '.join(AUTH)}")),
    "sslmode": one_of("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
    "timezone": TEXT,
    "as_text": either(TEXT, TEXTS),
    "numeric": _DECIMAL,
    "loaders": COUNT,
    "replace": one_of("table"),
}
VERIFY = one_of("content", "stat")
OPTIONS: dict[str, Shape] = {
    "layout": one_of("versioned", "plain"),
    "repeats": FLAG,
    "verify": VERIFY,
    "fingerprint": FLAG,
    "drift": one_of("refuse", "warn", "allow"),
    "empty": either(FLAG, TEXT),
    "ready": either(FLAG, TEXT, TABLE),
    "quarantine": Shape(_is_quarantine, 'true or false, or a table like { max = "1 %" } or { max = 100 }'),
    "options": TABLE,
    "schema": TEXT,
    "max_line": _SIZE,
    "expected": Shape(_is_expected, 'true, or a time after the end of a period like "6h", at most 366 days'),
    "calendar": either(FLAG, TEXT, TABLE),
    "deadline": Shape(
        _is_deadline, 'a time of day like "06:00", or a time after the end of a period like "+2h", at most 366 days'
    ),
    "unsafe_sql": FLAG,
    "compression": TEXT,
    "readers": SLOTS,
    "keep": COUNT,
    "port": COUNT,
    "driver": TEXT,
    "url": TEXT,
    **OF_POSTGRES,
    "description": TEXT,
    "owner": TEXT,
    "tags": TEXTS,
}
KEYS = ("kind", *ADDRESS, "format", "partition", "checks", *OPTIONS)

_FORMATS = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".parquet": "parquet",
    ".orc": "orc",
    ".txt": "text",
}
_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4", ".snappy", ".deflate")

_is_format = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*").fullmatch


def read_dataset(section: Section, override: Section | None = None) -> Dataset:
    """The dataset that a table declares, with the overrides of an environment's table."""
    datasetid = section.name
    with section.at():
        check_id("dataset", datasetid)
    if datasetid == TODAY.datasetid:
        raise section.wrong("", "this dataset is built in", "Its time zone is [project] timezone.")
    section.refuse_passwords("encryptedpass")
    section.only(KEYS)
    values = {key: section.text(key) for key in ("kind", "format", *ADDRESS) if key in section}
    homes = dict.fromkeys(values, section)
    if override:
        override.refuse_passwords("encryptedpass")
        override.only(ADDRESS)
        values |= {key: override.text(key) for key in override.data}
        homes |= dict.fromkeys(override.data, override)
    for home in filter(None, (section, override)):
        home.token("encryptedpass", f"--for {datasetid}")
    values["kind"] = _kind(section, values)
    values["format"] = _format(section, values)
    partition, checks = _partition(section), _checks(section)
    options = _options(section, values)
    if "deadline" in options and not TYPES[partition.type].is_time:
        raise section.wrong(
            "deadline", f"a {partition.type} partition has no periods", "Use an hour, day, month or year partition."
        )
    if "calendar" in options:
        with section.at("calendar"):
            parse_calendar(options["calendar"], partition)
        if checks or any(values.values()):
            raise section.wrong(
                "calendar", "the chunks of a calendar are only tracked", "Remove location, table and checks."
            )
    if not options.get("unsafe_sql"):
        _check_expressions(section, checks)
    # Everything else is validated: a remaining error concerns the location.
    with homes.get("location", section).at("location"):
        check_written(values.get("location", ""))
        return Dataset(datasetid, partition=partition, checks=checks, options=options, **values)


def verified(dataset: Dataset, verify: str | None) -> Dataset:
    """A dataset with the `verify` of its environment, unless it declares its own."""
    if verify is None or dataset.kind != "file" or "verify" in dataset.options:
        return dataset
    return replace(dataset, options={**dataset.options, "verify": verify})


def check_complete(section: Section, dataset: Dataset) -> None:
    """Refuse a dataset without the location or table that its kind requires."""
    key = {"file": "location", "table": "tablename"}.get(dataset.kind)
    if key and not getattr(dataset, key):
        raise section.wrong(key, f"a dataset of kind {dataset.kind} needs this key")


def _kind(section: Section, values: dict[str, str]) -> str:
    if "kind" in values:
        if values["kind"] not in KINDS:
            raise section.wrong("kind", f"there is no kind {shown(values['kind'])}", "Write file or table.")
        return values["kind"]
    is_file, is_table = bool(values.get("location")), bool(values.get("tablename"))
    if is_file and is_table:
        raise section.wrong(
            "kind", "the dataset has both a location and a tablename", 'Write kind = "file" or kind = "table".'
        )
    return "file" if is_file else "table" if is_table else ""


def _format(section: Section, values: dict[str, str]) -> str:
    declared = values.get("format", "")
    if declared and not _is_format(declared):
        raise section.wrong(
            "format", f"{shown(declared)} is not a format", "Write for instance csv, json, parquet, orc or text."
        )
    if declared or values["kind"] != "file":
        return declared
    stem, suffix = splitext(values.get("location", "").rstrip("/"))
    if suffix in _COMPRESSED:
        suffix = splitext(stem)[1]
    return _FORMATS.get(suffix.lower(), "")


def _partition(section: Section) -> Partition:
    with section.at("partition"):
        return Partition.from_data(section.data.get("partition", "text"))


def _checks(section: Section) -> tuple[Check, ...]:
    with section.at("checks"):
        return parse_checks(section.get("checks", TABLE, {}), "")


def _check_expressions(section: Section, checks: tuple[Check, ...]) -> None:
    expressions = [str(check.params["expression"]) for check in checks if check.kind == "sql"]
    if expressions:
        from ..model.definitions.expression import check_expression

        with section.at("checks"):
            for expression in expressions:
                check_expression(expression, "sql")


def _options(section: Section, values: dict[str, str]) -> dict[str, Any]:
    options = {}
    is_postgres = values["kind"] == "table" and values["format"] in POSTGRES
    for key, shape in OPTIONS.items():
        if key in section:
            value = section.get(key, shape)
            if key in OF_POSTGRES and not is_postgres:
                raise section.wrong(
                    key,
                    "only a PostgreSQL table supports this key",
                    "Such a table has a tablename and no format.",
                )
            with section.at(key):
                if key == "timezone":
                    time_zone(value)
                options[key] = plain(value, key)
    return options


def check_references(section: Section, dataset: Dataset, known: set[str]) -> None:
    """Refuse a check that refers to an unknown dataset."""
    for check in dataset.checks:
        other = check.params.get("dataset", dataset.datasetid)
        if other not in known:
            raise section.wrong(
                "checks", f"{check.kind}: there is no dataset {other}", nearest(str(other), known), UnknownDataset
            )
