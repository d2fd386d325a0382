"""Tasks: what runs inside Spark's Python workers. No import of pyspark here: a worker has it already, or needs it not."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...errors import JobFailed, NotValidated, OdfError
from .. import TAG
from .columns import ColumnCopy, PostgresColumn
from .connection import Connection, TableAddress, connected, identifier, literal
from .problems import AS_TEXT, TaskFailed, as_text, value_error

# Spark's years are 1 to 9999: what lies outside is lost in text formats, and the driver turns infinity into such a time.
_DAYS = (-719_162, 2_932_896)
_MOMENTS = (_DAYS[0] * 86_400_000_000, (_DAYS[1] + 1) * 86_400_000_000 - 1)

# The driver's own 16 MB fit into no cache, and let Spark wait for the first rows.
_BATCHES = {"adbc.postgresql.batch_size_hint_bytes": str(2**22)}

RESULT = "partition int, rows long, staging string, error string"


@dataclass(frozen=True, slots=True)
class Fetch:
    """Reads the parts of a table whose numbers come in; with tags, each row says which part it belongs to."""

    address: TableAddress
    columns: tuple[PostgresColumn, ...]
    conditions: tuple[str, ...]
    tags: tuple[str, ...] = ()

    def read_postgres(self, batches: Iterator[Any]) -> Iterator[Any]:
        parts = (part for batch in batches for part in batch.column(0).to_pylist())
        try:
            with connected(self.address, read_only=True) as connection:
                for part in parts:
                    yield from self._part(connection, part)
        except OdfError as problem:
            raise TaskFailed(as_text(problem)) from None

    def _part(self, connection: Connection, part: int) -> Iterator[Any]:
        import pyarrow as pa

        chosen = ", ".join(column.expression for column in self.columns)
        fields = [(column.name, column.arrow_type()) for column in self.columns]
        if self.tags:
            fields.append((TAG, pa.string()))
        schema = pa.schema(fields)
        with connection.raw.cursor() as cursor:
            with connection.translated():
                cursor.adbc_statement.set_options(**_BATCHES)
                cursor.execute(f"select {chosen} from {self.address.target} where {self.conditions[part]}")
                reader = cursor.fetch_record_batch()
            while True:
                with connection.translated():
                    batch = next(reader, None)
                if batch is None:
                    return
                arrays = [_read(column, array) for column, array in zip(self.columns, batch.columns, strict=True)]
                if self.tags:
                    arrays.append(pa.repeat(self.tags[part], batch.num_rows))
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)


@dataclass(frozen=True, slots=True)
class Load:
    """Copies what comes in into a table of this attempt alone, and tells which one and how many rows.

    Which attempts count is decided by whose answers Spark accepts: a retry or a speculative copy leaves a table behind
    that is not asked for. An error that would come again is an answer too; only others make Spark try again.
    """

    address: TableAddress
    sources: tuple[ColumnCopy, ...]
    staging: str
    note: str

    def load_postgres(self, batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        number = context.partitionId() if context else 0
        attempt = context.taskAttemptId() if context else 0
        name, rows, error = f"{self.staging}_{attempt}", 0, ""
        try:
            rows = self._copy(name, batches)
        except JobFailed as problem:
            raise TaskFailed(as_text(problem)) from None
        except OdfError as problem:
            error = as_text(problem)
        result = {"partition": [number], "rows": [rows], "staging": [name if rows else ""], "error": [error]}
        types = {"partition": pa.int32(), "rows": pa.int64(), "staging": pa.string(), "error": pa.string()}
        yield pa.RecordBatch.from_pydict(result, schema=pa.schema(types.items()))
        if error:
            for _ in batches:  # Spark is still sending, and would take a closed pipe for a crash
                pass

    def _copy(self, name: str, batches: Iterator[Any]) -> int:
        import pyarrow as pa

        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return 0
        beginning = self._converted(first)
        failed: list[OdfError] = []

        def converted() -> Iterator[Any]:
            yield beginning
            try:
                for batch in batches:
                    yield self._converted(batch)
            except OdfError as problem:  # the driver would hide what it was
                failed.append(problem)
                raise

        with connected(self.address) as connection:
            create_staging(connection, name, self.sources, self.note)
            reader = pa.RecordBatchReader.from_batches(beginning.schema, converted())
            try:
                with connection.translated(), connection.raw.cursor() as cursor:
                    rows = int(cursor.adbc_ingest(name, reader, mode="append", db_schema_name=self.address.schema))
            except Exception:
                if failed:
                    raise failed[0] from None
                raise
            connection.commit()
            return rows

    def _converted(self, batch: Any) -> Any:
        import pyarrow as pa

        arrays = [_loaded(source, array) for source, array in zip(self.sources, batch.columns, strict=True)]
        for source, array in zip(self.sources, arrays, strict=True):
            _check_fractions(source, array)
        return pa.RecordBatch.from_arrays(arrays, names=[source.target for source in self.sources])


def create_staging(connection: Connection, name: str, sources: Sequence[ColumnCopy], note: str) -> None:
    """An unlogged table: what it holds can be computed again, so that it need not survive a crash of the server."""
    table = connection.address.named(name)
    columns = ", ".join(f"{identifier(source.target)} {source.staged}" for source in sources)
    connection.run(f"create unlogged table {table} ({columns})")
    connection.run(f"comment on table {table} is {literal(note)}")


class StagingOwner(NamedTuple):
    """Whose a staging table is: for which table, chunk and epoch its rows are."""

    table: str
    dataid: str
    epoch: int


def staging_note(attempt: StagingOwner) -> str:
    """What a staging table says of itself, for people and for drop_staging."""
    return json.dumps({"odf": "staging", **attempt._asdict()})


def attempt_of(note: str) -> StagingOwner | None:
    """The attempt that a note names; None when it is no note of ours."""
    try:
        facts = json.loads(note)
    except ValueError:
        return None
    match facts:
        case {"odf": "staging", "table": str(table), "dataid": str(dataid), "epoch": int(epoch)}:
            return StagingOwner(table, dataid, epoch)
    return None


def _read(column: PostgresColumn, array: Any) -> Any:
    import pyarrow as pa

    array = getattr(array, "storage", array)
    wanted = column.arrow_type()
    if array.type == wanted:
        _check_years(column, array)
        return array
    try:
        return array.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as problem:
        if pa.types.is_decimal(wanted) and "NaN" in array.to_pylist():
            raise NotValidated(f"column {column.name} holds NaN, which no decimal can", hint=AS_TEXT) from None
        raise NotValidated(f"column {column.name}: {' '.join(str(problem).split())[:200]}", hint=AS_TEXT) from None


def _check_years(column: PostgresColumn, array: Any) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    values = array.flatten() if pa.types.is_list(array.type) else array
    if pa.types.is_date32(values.type):
        numbers, (first, last) = values.cast(pa.int32()), _DAYS
    elif pa.types.is_timestamp(values.type):
        numbers, (first, last) = values.cast(pa.int64()), _MOMENTS
    else:
        return
    least, most = pc.min(numbers).as_py(), pc.max(numbers).as_py()
    if least is not None and (least < first or most > last):
        raise NotValidated(f"column {column.name} holds infinity, or a year before 1 or after 9999", hint=AS_TEXT)


def _loaded(source: ColumnCopy, array: Any) -> Any:
    import pyarrow as pa

    if source.arrow is None or array.type == source.arrow:
        return array
    try:
        return array.cast(source.arrow)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as problem:
        raise value_error(problem, source.column) from None


def _check_fractions(source: ColumnCopy, array: Any) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    if source.step == 1:
        return
    moments = (array.flatten() if pa.types.is_list(array.type) else array).cast(pa.int64())
    whole = pc.multiply(pc.divide(moments, source.step), source.step)
    if pc.any(pc.not_equal(moments, whole)).as_py():
        problem = ValueError(f"{source.staged} would round the fraction of a second")
        raise value_error(problem, source.column)
