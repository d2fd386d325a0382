"""Columns: what a table has, what Spark makes of it, and how a DataFrame's columns get there without losing anything.

| PostgreSQL                                   | Spark           | travels as                             |
| -------------------------------------------- | --------------- | -------------------------------------- |
| bool, int2/4/8, float4/8, date, bytea        | the same        | itself                                 |
| timestamp / timestamptz                      | timestamp_ntz / timestamp | microseconds / instants      |
| text, varchar, char, name                    | string          | itself                                 |
| numeric(p, s) with p <= 38                   | decimal(p, s)   | read as text, loaded as decimal        |
| numeric without bounds, or wider             | string          | text; as decimal if option numeric says so |
| arrays of one dimension                      | array           | itself, or text[]                      |
| uuid, json, jsonb, interval, inet, enums, …  | string          | text                                   |

What Spark cannot hold (infinity, years before 1 or after 9999, NaN in a decimal, arrays of arrays) is refused; option as_text
reads it as text.
A string may go into a column of any type: PostgreSQL casts it when the chunk is published.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import BadDefinition, NotValidated
from ...model import Dataset
from ...model.definitions.ids import shown
from .connection import Connection, identifier, literal
from .problems import no_table

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType


class Precision(NamedTuple):
    """How many digits a decimal has, and how many of them behind the point."""

    digits: int
    scale: int


class _Scalar(NamedTuple):
    spark: str
    arrow: str


_SCALARS = {  # by typname of PostgreSQL
    "bool": _Scalar("boolean", "bool"),
    "int2": _Scalar("smallint", "int16"),
    "int4": _Scalar("int", "int32"),
    "int8": _Scalar("bigint", "int64"),
    "float4": _Scalar("float", "float32"),
    "float8": _Scalar("double", "float64"),
    "date": _Scalar("date", "date32"),
    "timestamp": _Scalar("timestamp_ntz", "timestamp"),
    "timestamptz": _Scalar("timestamp", "timestamptz"),
    "text": _Scalar("string", "string"),
    "varchar": _Scalar("string", "string"),
    "bpchar": _Scalar("string", "string"),
    "name": _Scalar("string", "string"),
    "bytea": _Scalar("binary", "binary"),
}
TEXTS = ("text", "varchar", "bpchar", "name")
WHOLE = ("int2", "int4", "int8")
_WHOLE_IN_SPARK = ("tinyint", "smallint", "int", "bigint")
# What Spark writes without a cast, by the type of the column. Arrow converts, and refuses to lose anything.
_FITS = {
    "bool": ("boolean",),
    "int2": (*_WHOLE_IN_SPARK, "decimal"),
    "int4": (*_WHOLE_IN_SPARK, "decimal"),
    "int8": (*_WHOLE_IN_SPARK, "decimal"),
    "float4": ("float", *_WHOLE_IN_SPARK),
    "float8": ("float", "double", *_WHOLE_IN_SPARK),
    "date": ("date",),
    "timestamp": ("timestamp_ntz",),
    "timestamptz": ("timestamp",),
    "bytea": ("binary",),
    **dict.fromkeys(TEXTS, ("string",)),
}
# What Spark casts first: (type of the column, type in Spark) → type to cast to. Times follow the session's time zone.
_CASTS = {
    ("timestamp", "timestamp"): "timestamp_ntz",
    ("timestamp", "date"): "timestamp_ntz",
    ("timestamptz", "timestamp_ntz"): "timestamp",
    **{(text, kind): "string" for text in TEXTS for kind in (*_WHOLE_IN_SPARK, "decimal", "boolean", "date")},
}
# COPY compares the type of an array's elements with the column's: only these are written as they are.
_ELEMENTS = {key: value for key, value in _SCALARS.items() if key not in ("varchar", "bpchar", "name")}
_MAX_PRECISION = 38
_decimal = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")


@dataclass(frozen=True, slots=True)
class PostgresColumn:
    """One column of a table."""

    name: str
    type: str  # as SQL declares it
    base: str  # typname below every domain; of the elements when it is an array; empty when it is not PostgreSQL's own
    typmod: int = -1
    is_array: bool = False
    has_default: bool = False
    is_generated: bool = False
    is_identity: bool = False
    as_text: bool = False
    numeric: str = ""

    @property
    def decimal(self) -> Precision | None:
        """Precision and scale in Spark; None when it is not a decimal there."""
        if self.base != "numeric" or self.as_text:
            return None
        if self.typmod < 4:
            return _precision_of(self.numeric)
        digits, scale = (self.typmod - 4) >> 16 & 0xFFFF, ((self.typmod - 4 & 0x7FF) ^ 1024) - 1024
        digits, scale = (digits - scale, 0) if scale < 0 else (max(digits, scale), scale)
        return Precision(digits, scale) if digits <= _MAX_PRECISION else None

    @property
    def is_native(self) -> bool:
        """Whether the driver reads it as it is."""
        return self.base in _SCALARS and not self.as_text

    @property
    def expression(self) -> str:
        """What a SELECT says to get it in a form that the driver keeps whole."""
        name = identifier(self.name)
        if not self.is_array or self.as_text:
            return name if self.is_native else f"{name}::text as {name}"
        kind = self.type if self.is_native else "text[]"
        # The driver would flatten arrays of arrays and forget where they begin: an impossible cast stops it.
        odd = f"array_ndims({name}) > 1 or array_lower({name}, 1) <> 1"
        why = literal("several dimensions or a lower bound other than 1: ")
        return f"case when {odd} then ({why} || {name}::text)::{kind} else {name}::{kind} end as {name}"

    @property
    def spark_type(self) -> str:
        """Its type in Spark."""
        kind = "decimal({},{})".format(*self.decimal) if self.decimal else "string"
        if self.is_native:
            kind = _SCALARS[self.base].spark
        return f"array<{kind}>" if self.is_array and not self.as_text else kind

    def arrow_type(self) -> Any:
        """Its type on the way to Spark."""
        import pyarrow as pa

        kind = pa.decimal128(*self.decimal) if self.decimal else pa.string()
        if self.is_native:
            kind = arrow_scalar(_SCALARS[self.base].arrow)
        return pa.list_(kind) if self.is_array and not self.as_text else kind


@dataclass(frozen=True, slots=True)
class ColumnCopy:
    """How one column of a DataFrame goes into a staging table."""

    column: str  # in the DataFrame
    target: str  # in the table
    cast: str  # what Spark casts it to first; empty for nothing
    arrow: Any  # what Arrow makes of it then; None for what comes
    staged: str  # its type in the staging table
    step: int = 1  # the microseconds of which a moment must be a multiple: PostgreSQL would round it silently


def _precision_of(ddl: str) -> Precision | None:
    """What decimal(p,s) says; None for every other type."""
    match = _decimal.fullmatch(ddl)
    return Precision(*map(int, match.groups())) if match else None


def arrow_scalar(name: str) -> Any:
    """Arrow's type of this name."""
    import pyarrow as pa

    if name in ("timestamp", "timestamptz"):
        return pa.timestamp("us", tz="UTC" if name == "timestamptz" else None)
    return getattr(pa, name if name != "bool" else "bool_")()


def table_columns(connection: Connection, dataset: Dataset, table: str | None = None) -> tuple[PostgresColumn, ...]:
    """The columns of the dataset's table, or of another one of its schema, as the catalogue of PostgreSQL knows them."""
    address = connection.address
    name = address.named(table or address.table)
    rows = connection.rows(_CATALOGUE.format(table=literal(name)))
    if not rows:
        raise no_table(f"{address}/{address.schema}.{table or address.table}")
    wanted = dataset.options.get("as_text") or ()
    as_text = {wanted} if isinstance(wanted, str) else set(wanted) if isinstance(wanted, Iterable) else set()
    numeric = str(dataset.options.get("numeric", ""))
    if numeric and not _precision_of(numeric):
        raise BadDefinition(
            f"dataset {dataset.datasetid}: numeric cannot be {shown(numeric)}",
            hint='Write it like this: numeric = "decimal(38,18)"',
        )
    described = (
        PostgresColumn(name, *facts) for name, *facts in rows if name is not None
    )  # a table may have no columns
    columns = tuple(replace(column, as_text=column.name in as_text, numeric=numeric) for column in described)
    require(columns, as_text, address.location)
    return columns


def require(columns: Sequence[PostgresColumn], names: Iterable[object], location: str) -> None:
    """BadDefinition when one of the names is no column."""
    known = {column.name for column in columns}
    missing = [shown(name) for name in names if name not in known]
    if missing:
        raise BadDefinition(
            f"{location} has no column {', '.join(missing)}", hint=f"Its columns are {', '.join(sorted(known))}."
        )


def column_named(columns: Sequence[PostgresColumn], name: str, location: str) -> PostgresColumn:
    """The column of this name."""
    require(columns, [name], location)
    return next(column for column in columns if column.name == name)


def spark_schema(columns: Sequence[PostgresColumn]) -> StructType:
    """The columns as Spark's schema."""
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(column.name, _spark_type(column.spark_type)) for column in columns])


def _spark_type(name: str) -> DataType:
    from pyspark.sql import types

    if name.startswith("array<"):
        return types.ArrayType(_spark_type(name[6:-1]))
    precision = _precision_of(name)
    return types.DecimalType(*precision) if precision else _spark_types()[name]


def _spark_types() -> dict[str, DataType]:
    from pyspark.sql import types

    every = (
        types.BooleanType(),
        types.ShortType(),
        types.IntegerType(),
        types.LongType(),
        types.FloatType(),
        types.DoubleType(),
        types.DateType(),
        types.TimestampNTZType(),
        types.TimestampType(),
        types.StringType(),
        types.BinaryType(),
    )
    return {kind.simpleString(): kind for kind in every}


def sources(columns: Sequence[PostgresColumn], schema: StructType, location: str) -> tuple[ColumnCopy, ...]:
    """How a DataFrame of this schema goes into the table; NotValidated, with every reason, when it does not fit."""
    by_target: dict[str, ColumnCopy] = {}
    wrong: list[str] = []
    for field in schema.fields:
        column = _target(columns, field.name)
        kind = field.dataType.simpleString()
        if column is None:
            wrong.append(f"the table has no column {shown(field.name)}")
        elif column.is_generated:
            wrong.append(f"column {column.name} is computed by the table itself")
        elif column.name in by_target:
            wrong.append(f"column {column.name} is there twice")
        elif (source := _source(column, field.name, kind)) is None:
            wrong.append(f"column {column.name} is {column.type}, which {kind} does not fit")
        else:
            by_target[column.name] = source
    for column in columns:
        if column.name not in by_target and not column.has_default and _target_is_unnamed(column, schema, columns):
            wrong.append(f"column {column.name} of the table is missing")
    if wrong:
        raise NotValidated(
            f"the rows do not fit {location}: {'; '.join(wrong)}",
            hint="Select, rename or cast the columns in the job. A string fits every type.",
        )
    return tuple(by_target.values())


def _target(columns: Sequence[PostgresColumn], name: str) -> PostgresColumn | None:
    """Spark does not tell A from a; PostgreSQL does: the exact name wins."""
    same = [column for column in columns if column.name == name]
    alike = [column for column in columns if column.name.lower() == name.lower()]
    return same[0] if same else alike[0] if len(alike) == 1 else None


def _target_is_unnamed(column: PostgresColumn, schema: StructType, columns: Sequence[PostgresColumn]) -> bool:
    return not any(_target(columns, name) == column for name in schema.names)


def _source(column: PostgresColumn, name: str, kind: str) -> ColumnCopy | None:
    if column.is_array:
        return _array_source(column, name, kind)
    plain = "decimal" if kind.startswith("decimal") else kind
    if column.base == "numeric" and (plain == "decimal" or kind in _WHOLE_IN_SPARK):
        return ColumnCopy(name, column.name, "", _loaded_decimal(column, kind), column.type)
    cast = "" if plain in _FITS.get(column.base, ()) else _CASTS.get((column.base, plain))
    if cast is not None:
        arrow = arrow_scalar(_SCALARS[column.base].arrow)
        return ColumnCopy(name, column.name, cast, arrow, column.type, _step(column))
    if kind in ("string", "void"):
        return ColumnCopy(name, column.name, "" if kind == "string" else "string", arrow_scalar("string"), "text")
    return None


def _step(column: PostgresColumn) -> int:
    has_fewer_digits = column.base in ("timestamp", "timestamptz") and column.typmod >= 0
    return 10 ** (6 - column.typmod) if has_fewer_digits else 1


def _loaded_decimal(column: PostgresColumn, kind: str) -> Any:
    import pyarrow as pa

    given = _precision_of(kind)
    if given is None:
        return pa.decimal128(20, 0)
    wanted = None if column.typmod < 4 else column.decimal
    if wanted is None or given.scale <= wanted.scale:
        return None
    # PostgreSQL would round silently; Arrow refuses.
    digits = max(given.digits - given.scale, 0) + max(wanted.scale, 1)
    return pa.decimal128(min(_MAX_PRECISION, digits), wanted.scale)


def _array_source(column: PostgresColumn, name: str, kind: str) -> ColumnCopy | None:
    import pyarrow as pa

    if kind == "string":  # as it was read with as_text
        return ColumnCopy(name, column.name, "", pa.string(), "text")
    if not kind.startswith("array<"):
        return None
    element = kind[6:-1]
    plain = "decimal" if element.startswith("decimal") else element
    if column.base in _ELEMENTS and element in _FITS[column.base]:
        arrow = pa.list_(arrow_scalar(_SCALARS[column.base].arrow))
        return ColumnCopy(name, column.name, "", arrow, column.type, _step(column))
    if element == "string":
        return ColumnCopy(name, column.name, "", pa.list_(pa.string()), "text[]")
    given = _precision_of(element)
    if given and column.typmod >= 4 and column.decimal and given.scale > column.decimal.scale:
        return None  # PostgreSQL would round silently
    if column.base in ("numeric", *TEXTS) and plain in ("decimal", *_WHOLE_IN_SPARK):
        return ColumnCopy(name, column.name, "array<string>", pa.list_(pa.string()), "text[]")
    return None


# A domain is what it is made of, however often it is wrapped; its own name is still what a value is cast to.
_CATALOGUE = """
with recursive kind as (
    select a.attnum, a.atttypid as typid, a.atttypmod as typmod
    from pg_catalog.pg_attribute a
    where a.attrelid = to_regclass({table}) and a.attnum > 0 and not a.attisdropped
    union all
    select k.attnum, t.typbasetype, case when t.typtypmod = -1 then k.typmod else t.typtypmod end
    from kind k join pg_catalog.pg_type t on t.oid = k.typid
    where t.typtype = 'd'
)
select a.attname::text,
       pg_catalog.format_type(a.atttypid, a.atttypmod),
       case when coalesce(e.typnamespace, t.typnamespace) = 'pg_catalog'::regnamespace
            then coalesce(e.typname, t.typname)::text else '' end,
       k.typmod::int4,
       e.oid is not null,
       a.atthasdef or a.attidentity <> '' or a.attgenerated <> '',
       a.attgenerated <> '',
       a.attidentity <> ''
from pg_catalog.pg_class c
left join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
left join kind k on k.attnum = a.attnum
left join pg_catalog.pg_type t on t.oid = k.typid
left join pg_catalog.pg_type e on e.oid = t.typelem and t.typcategory = 'A'
where c.oid = to_regclass({table}) and (a.attname is null or t.typtype <> 'd')
order by a.attnum
"""
