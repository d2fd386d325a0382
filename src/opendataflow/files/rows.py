"""Reads small csv, json and parquet files with the types that Spark infers; NeedsSpark if the result could differ."""

from __future__ import annotations

import csv
import json
import math
import posixpath
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, BinaryIO, NamedTuple

from ..errors import NotValidated
from ..model import Dataset, Manifest
from ..model.definitions.ddl import other_case
from .columns import arrow_type, reader_options
from .listing import filesystem_at

LARGEST = 32 << 20  # bytes of a chunk, compressed or not
_LONGEST_LINE = 1 << 20
_OPTIONS = {"csv": {"header", "sep", "delimiter"}, "json": set[str](), "parquet": set[str]()}
FORMATS = tuple(_OPTIONS)

_is_whole = re.compile(r"[+-]?[0-9]{1,19}").fullmatch
_is_number = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?").fullmatch
# Python has no year 0, and newer versions accept the hour 24.
_DATE = "(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}"
_is_date = re.compile(_DATE).fullmatch
_is_moment = re.compile(_DATE + r"[ T](?!24)[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?").fullmatch
# Text that no reader parses as a number or a time, in any notation.
_is_word = re.compile(
    r"(?!nan$|infinity$|inf$|t[0-9:])[^\W\d_][^\n]*|[0-9]+ ?(?![dfe]$)[^\W\d_TZ:][^\n]*", re.IGNORECASE
).fullmatch
_TRIMMED = "".join(map(chr, range(ord(" ") + 1)))  # the characters that Java's trim() removes
_SIZES = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}


class NeedsSpark(Exception):
    """Only Spark can read these files reliably; the message is the reason."""


class FileRows(NamedTuple):
    """The rows of a chunk, the type of each column, and the lines whose values do not match the expected types."""

    types: Mapping[str, str]
    values: Sequence[Sequence[Any]]
    misfits: Sequence[str] = ()


def read_rows(dataset: Dataset, manifest: Manifest, expected: Mapping[str, str]) -> FileRows:
    """All rows of a chunk; text gets the expected types, or inferred types if none are expected."""
    if (manifest.bytes or 0) > LARGEST:
        raise NeedsSpark(f"it is larger than {LARGEST >> 20} MiB")
    if any("=" in posixpath.dirname(file.path) for file in manifest.files):
        raise NeedsSpark("its folder names contain columns")
    format = dataset.format or "parquet"
    with filesystem_at(manifest.location) as system:
        is_file = system.is_file(manifest.location)
        contents = []
        for file in manifest.files:
            path = manifest.location if is_file else posixpath.join(manifest.location, file.path)
            with system.open(path) as stream:
                contents.append((file.path, stream.read() if format == "parquet" else _text(file.path, stream)))
    options = {name: str(value) for name, value in reader_options(dataset).items()}
    return _READERS[format](contents, options, expected)


def options_for_spark(dataset: Dataset) -> str:
    """The first option of a dataset that only Spark supports; empty if there is none."""
    options = reader_options(dataset)
    unknown = sorted(options.keys() - _OPTIONS.get(dataset.format or "parquet", set()))
    if unknown or str(options.get("header", True)).lower() != "true":
        return f"options.{unknown[0] if unknown else 'header'}"
    return ""


def _text(path: str, stream: BinaryIO) -> str:
    import bz2
    import gzip

    suffix = posixpath.splitext(path)[1]
    if suffix in (".zst", ".lz4", ".snappy", ".deflate"):
        raise NeedsSpark(f"{path} is compressed")
    unpack: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open}
    try:
        content = (unpack[suffix](stream) if suffix in unpack else stream).read(LARGEST + 1)
        text = content.decode("utf-8")
    except (OSError, EOFError, ValueError) as problem:
        raise NeedsSpark(f"{path} cannot be read as text: {problem}") from None
    if len(content) > LARGEST or "\ufeff" in text[:1] or "\0" in text:
        raise NeedsSpark(f"{path} is too large, or contains a byte order mark or NUL bytes")
    return text


def _lines(path: str, text: str) -> list[str]:
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    if any("\r" in line or len(line) > _LONGEST_LINE for line in lines):
        raise NeedsSpark(f"{path} has a carriage return inside a line, or a very long line")
    if any(line.strip(" \t") and not (line.strip() and line.strip(_TRIMMED)) for line in lines):
        raise NeedsSpark(f"{path} has a line of unusual whitespace, which not every reader skips")
    return [line for line in lines if line.strip()]


def _csv(contents: Iterable[tuple[str, Any]], options: Mapping[str, str], expected: Mapping[str, str]) -> FileRows:
    separator = options.get("sep", options.get("delimiter", ","))
    if len(separator) != 1 or separator in '"\r\n':
        raise NeedsSpark(f"its separator is {separator!r}")
    field = rf'(?:"(?:[^"]|"")*"|[^"{re.escape(separator)}]*)'
    is_plain = re.compile(rf"{field}(?:{re.escape(separator)}{field})*").fullmatch
    header: list[str] = []
    records: list[tuple[str, list[str | None]]] = []
    for path, text in contents:
        lines = _lines(path, text)
        if any('"' in line and not is_plain(line) for line in lines):
            raise NeedsSpark(f"{path} has quotes that are not closed in their line, or not escaped")
        try:
            rows = list(csv.reader(lines, delimiter=separator))
        except csv.Error as problem:
            raise NeedsSpark(f"{path}: {problem}") from None
        if not rows or (header and rows[0] != header):
            raise NeedsSpark(f"{path} has no header, or a different header than earlier files")
        header = rows[0]
        records += [(line, [value or None for value in row]) for line, row in zip(lines[1:], rows[1:], strict=True)]
    if not all(header) or len({name.lower() for name in header}) < len(header):
        raise NeedsSpark("its header has empty or duplicate names")
    if not expected:
        if any(len(row) != len(header) for _, row in records):
            raise NeedsSpark("its lines differ in length")
        types = {name: _inferred_type([row[i] for _, row in records]) for i, name in enumerate(header)}
    else:
        known = {name.lower(): (name, kind) for name, kind in expected.items()}
        types = dict(known.get(name.lower(), (name, "string")) for name in header)
    values, misfits = [], []
    for line, row in records:
        whole = [*row[: len(header)], *[None] * (len(header) - len(row))]
        typed, is_misfit = [], len(row) != len(header)
        for value, kind in zip(whole, types.values(), strict=True):
            typed.append(None if value is None else typed_text(value, kind))
            is_misfit = is_misfit or (value is not None and typed[-1] is None)
        values.append(typed)
        if is_misfit:
            misfits.append(line)
    return FileRows(types, values, misfits)


def _inferred_type(values: Iterable[str | None]) -> str:
    """The type that Spark infers from the values of a csv column."""
    kinds = {_kind_of(value) for value in values if value is not None}
    if kinds <= {"int", "bigint", "double"}:
        return next((kind for kind in ("double", "bigint", "int") if kind in kinds), "string")
    if len(kinds) == 1:
        return kinds.pop()
    if kinds == {"date", "timestamp"}:
        raise NeedsSpark("a column holds dates and times")
    return "string"


def _kind_of(text: str) -> str:
    if _is_whole(text):
        size = int(text)
        if not -(2**63) <= size < 2**63:
            raise NeedsSpark(f"{text[:40]} is a very large number")
        return "int" if -(2**31) <= size < 2**31 else "bigint"
    for kind in ("double", "date", "timestamp"):
        if _SHAPES[kind](text) and typed_text(text, kind) is not None:
            return kind
    if text.lower() in ("true", "false"):
        return "boolean"
    if _is_word(text):
        return "string"
    raise NeedsSpark(f"the type of {text[:40]!r} is ambiguous; declare a schema")


_SHAPES: dict[str, Callable[[str], Any]] = {"double": _is_number, "date": _is_date, "timestamp": _is_moment}


def typed_text(text: str, kind: str) -> Any:
    """A text parsed as a type; None if it does not parse."""
    if kind == "string":
        return text
    if kind in _SIZES:
        limit = 1 << (_SIZES[kind] - 1)
        return int(text) if _is_whole(text) and -limit <= int(text) < limit else None
    if kind == "boolean":
        return {"true": True, "false": False}.get(text.lower())
    shape = _SHAPES.get("double" if kind.startswith("decimal") else kind)
    if shape is None:
        raise NeedsSpark(f"it has a column of type {kind}")
    if not shape(text):
        if _is_word(text):
            return None
        raise NeedsSpark(f"{text[:40]!r} may or may not be a {kind}")
    return _PARSED[kind](text) if kind in _PARSED else _decimal(text, kind)


def _decimal(text: str, kind: str) -> Decimal:
    precision, scale = map(int, re.findall("[0-9]+", kind))
    number = Decimal(text)
    digits = number.as_tuple()
    if not isinstance(digits.exponent, int) or -digits.exponent > scale or number.adjusted() >= precision - scale:
        raise NeedsSpark(f"{text[:40]} does not fit {kind}")
    fitted = number.quantize(Decimal(1).scaleb(-scale))
    return fitted or abs(fitted)  # Spark's decimals have no negative zero


def _double(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise NeedsSpark(f"{text[:40]} is a very large number")
    return number


def _parsed(read: Callable[[str], Any]) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        try:
            return read(text)
        except ValueError:
            return None

    return parse


_PARSED: dict[str, Callable[[str], Any]] = {
    "double": _double,
    "date": _parsed(date.fromisoformat),
    "timestamp": _parsed(datetime.fromisoformat),
}


def _json(contents: Iterable[tuple[str, Any]], options: Mapping[str, str], expected: Mapping[str, str]) -> FileRows:
    def never(constant: str) -> Any:
        raise NeedsSpark(f"{constant} is not JSON")

    objects = []
    for path, text in contents:
        for line in _lines(path, text):
            try:
                row = json.loads(line, parse_float=_double, parse_constant=never, object_pairs_hook=_object)
                if "\\u" in line:
                    json.dumps(row, ensure_ascii=False).encode()  # raises for a lone surrogate
            except ValueError:
                raise NeedsSpark(f"{path} has a line that is not valid JSON text") from None
            if not isinstance(row, dict):
                raise NeedsSpark(f"{path} has a line that is not an object")
            objects.append(row)
    names = sorted({name for row in objects for name in row})
    if "" in names or other_case(names, names) or other_case(expected, names):
        raise NeedsSpark("names are empty, or differ from one another or from declared names only in case")
    inferred = {name: _json_type(row[name] for row in objects if row.get(name) is not None) for name in names}
    types = {name: expected.get(name, inferred[name]) for name in names}
    for name, kind in zip(names, types.values(), strict=True):
        if kind != inferred[name] and not (_SIZES.get(kind) and inferred[name] == "bigint"):
            numbers = inferred[name] == "bigint" and kind == "double"
            if not numbers and any(row.get(name) is not None for row in objects):
                raise NeedsSpark(f"column {name} is {inferred[name]} in JSON and should be {kind}")
    values = [
        [_json_value(row.get(name), kind) for name, kind in zip(names, types.values(), strict=True)] for row in objects
    ]
    return FileRows(types, values)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        raise NeedsSpark("an object has a duplicate key")
    return row


def _json_type(values: Iterable[Any]) -> str:
    kinds = {type(value) for value in values}
    if not kinds:
        return "string"
    if kinds == {int, float}:
        return "double"
    if len(kinds) > 1 or not kinds <= _OF_JSON.keys():
        raise NeedsSpark("a JSON column is nested, or has several types")
    return _OF_JSON[kinds.pop()]


_OF_JSON = {str: "string", bool: "boolean", int: "bigint", float: "double"}


def _json_value(value: Any, kind: str) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        limit = 1 << (_SIZES.get(kind, 64) - 1)
        if not -limit <= value < limit:
            raise NeedsSpark(f"{value} does not fit {kind}")
        return float(value) if kind == "double" else value
    return value


def _parquet(contents: Iterable[tuple[str, Any]], options: Mapping[str, str], expected: Mapping[str, str]) -> FileRows:
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    types: dict[str, str] = {}
    values: list[Sequence[Any]] = []
    for index, (path, content) in enumerate(contents):
        try:
            table = ParquetFile(pa.BufferReader(content)).read()
        except (pa.ArrowException, OSError) as problem:
            reason = next(iter(str(problem).splitlines()), "")
            raise NotValidated(f"file {path} cannot be read as parquet: {reason}") from None
        found = {field.name: arrow_type(field.type) for field in table.schema}
        unsure = [name for name, kind in found.items() if kind not in _OF_PARQUET and not kind.startswith("decimal")]
        zoned = [field.name for field in table.schema if pa.types.is_timestamp(field.type)]
        if unsure or zoned or (index and found != types) or len({*map(str.lower, found)}) < len(table.schema):
            raise NeedsSpark(f"{path} has timestamp, nested, unusual or different columns")
        types = found
        values += zip(*(column.to_pylist() for column in table.columns), strict=True)
    if not all(math.isfinite(value) for row in values for value in row if isinstance(value, float)):
        raise NeedsSpark("it holds NaN or infinity")
    return FileRows(types, values)


_OF_PARQUET = {*_SIZES, "boolean", "double", "string", "date"}
_READERS = {"csv": _csv, "json": _json, "parquet": _parquet}
