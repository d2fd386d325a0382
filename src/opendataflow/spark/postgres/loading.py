"""Loading: rows go into a staging table of one epoch, then one transaction in the target replaces the chunk by them.

The target remembers which epoch published each chunk (table odf_epoch beside it), so that a late zombie is refused
by the target itself, and who lost the answer to a COMMIT finds out whether it happened.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ...errors import JobFailed, LeaseLost, OdfError, WrongData
from ...model import Dataset, Partition
from .columns import TEXTS, ColumnCopy, PostgresColumn, require, sources, table_columns
from .conditions import of_chunk
from .connection import Connection, TableAddress, address_of, connected, identifier, literal
from .problems import DatabaseGone, named_error
from .tasks import RESULT, Load, StagingOwner, attempt_of, create_staging, staging_note

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

EPOCHS = "odf_epoch"
MOST_LOADERS = 64  # each has a connection, and a table until the chunk is published
_MARK = "__odf_"
_LONGEST_NAME = 63
_PAUSES = (0.1, 1.0, 3.0)


@dataclass(frozen=True, slots=True)
class LoadResult:
    """What was loaded, for which epoch, and the name of its staging table."""

    rows: int
    epoch: int
    staging: str


def stage_table(
    spark: SparkSession, df: DataFrame, dataset: Dataset, password: str | None, *, dataid: str, epoch: int
) -> LoadResult:
    """Copies the rows into a staging table that belongs to this epoch alone, beside the target; nobody reads it yet."""
    address = address_of(dataset, password)
    staging = _staging_name(address.table, dataid, epoch)
    note = staging_note(StagingOwner(address.table, dataid, epoch))
    with connected(address) as connection:
        chosen_sources = sources(table_columns(connection, dataset), df.schema, address.location)
        create_staging(connection, staging, chosen_sources, note)
        connection.commit()
    try:
        load = Load(address, chosen_sources, staging, note)
        chosen = [
            _cast(source).alias(f"c{number}") for number, source in enumerate(chosen_sources)
        ]  # mapInArrow trips over some names
        loaders = int(str(dataset.options.get("loaders", MOST_LOADERS)))
        answers = df.select(*chosen).coalesce(loaders).mapInArrow(load.load_postgres, RESULT).collect()
        for answer in answers:
            problem = named_error(answer.error) if answer.error else None
            if problem:
                raise problem
        _adopt(address, staging, [answer.staging for answer in answers if answer.staging])
    except BaseException as problem:
        with suppress(OdfError):
            _drop_all(address, staging)
        named = None if isinstance(problem, OdfError) else named_error(problem)
        if named:
            raise named from None
        raise
    return LoadResult(sum(answer.rows for answer in answers), epoch, staging)


def publish_table(
    dataset: Dataset,
    password: str | None,
    *,
    dataid: str,
    epoch: int,
    partition: Partition,
    span: tuple[str, str] | None,
    staging: LoadResult,
) -> int:
    """Replaces the chunk by what was staged, in one transaction; LeaseLost when a later epoch did so already.

    It may be called again with the same staging: what is published stays published, and its rows are told again.
    """
    address = address_of(dataset, password)
    for pause in (*_PAUSES, None):
        try:
            return _publish(address, dataset, dataid, epoch, partition, span, staging)
        except DatabaseGone:
            if pause is None:
                raise
            time.sleep(pause)
    raise AssertionError("unreachable")


def drop_staging(
    dataset: Dataset,
    password: str | None,
    *,
    dataid: str | None = None,
    older_than_epoch: int | None = None,
    may_go: Callable[[str, int], bool] = lambda dataid, epoch: True,
) -> int:
    """Drops what attempts left behind: no version ever points to a staging table. Tells how many tables went.

    `may_go` says of an attempt (dataid, epoch) whether it is over; what is in use is left for the next time.
    """
    address = address_of(dataset, password)
    dropped = 0
    with connected(address) as connection:
        connection.rows("select set_config('lock_timeout', '1s', false)")
        connection.commit()
        for table in _staging_tables(connection, _MARK, anywhere=True):
            attempt = attempt_of(table.note)
            if attempt is None or attempt.table != address.table or dataid not in (None, attempt.dataid):
                continue
            is_newer = older_than_epoch is not None and attempt.epoch >= older_than_epoch
            if is_newer or not may_go(attempt.dataid, attempt.epoch):
                continue
            with suppress(JobFailed):
                dropped += _drop(connection, table.name)
            connection.raw.rollback()
    return dropped


def _cast(source: ColumnCopy) -> Column:
    from pyspark.sql import functions as F

    column = F.col("`" + source.column.replace("`", "``") + "`")
    return column.cast(source.cast) if source.cast else column


def _staging_name(table: str, dataid: str, epoch: int) -> str:
    """Like orders__odf_1f2e3d4c_7_a1b2c3: room is left for the number of an attempt behind it."""
    digest = hashlib.blake2b(dataid.encode(), digest_size=4).hexdigest()
    tail = f"{_MARK}{digest}_{epoch}_{secrets.token_hex(3)}"
    room = _LONGEST_NAME - len(tail) - len("_1234567890")
    return table.encode()[:room].decode("utf-8", "ignore") + tail


def _adopt(address: TableAddress, staging: str, accepted: list[str]) -> None:
    """Makes the tables of the attempts that count the parts of the staging table, and drops those of the others."""
    with connected(address) as connection:
        for table in _staging_tables(connection, staging + "_"):
            if table.name not in accepted:
                connection.run(f"drop table if exists {address.named(table.name)}")
        for name in accepted:
            connection.run(f"alter table {address.named(name)} inherit {address.named(staging)}")
        connection.commit()


def _publish(
    address: TableAddress,
    dataset: Dataset,
    dataid: str,
    epoch: int,
    partition: Partition,
    span: tuple[str, str] | None,
    staging: LoadResult,
) -> int:
    with connected(address) as connection:
        columns = table_columns(connection, dataset)
        if partition.column is not None:
            require(columns, [partition.column], address.location)
        condition = of_chunk(columns, partition, dataid, span, whole=dataset.options.get("replace") == "table")
        _ensure_epochs(connection)
        published = _record(connection, dataid, epoch, staging)
        if published is not None:
            return published
        connection.run(f"delete from {address.target} where {condition}")
        inserted = _insert(connection, dataset, columns, condition, staging)
        if inserted != staging.rows:
            raise _not_all(connection, staging, inserted, dataid)
        connection.run(f"drop table {address.named(staging.staging)} cascade")
        connection.commit()
        return inserted


def _ensure_epochs(connection: Connection) -> None:
    table = connection.address.named(EPOCHS)
    if connection.value(f"select to_regclass({literal(table)}) is null"):
        # Two that create it at once would stumble over each other.
        connection.rows(f"select pg_advisory_xact_lock(hashtextextended({literal(table)}, 0))::text")
        connection.run(
            f"create table if not exists {table} (tablename text, dataid text, epoch bigint not null,"
            " rows bigint not null, staging text not null, at timestamptz not null default now(),"
            " primary key (tablename, dataid))"
        )
    connection.commit()


def _record(connection: Connection, dataid: str, epoch: int, staging: LoadResult) -> int | None:
    """Records the epoch, and holds every other publisher of the chunk back until we are done.

    Answers the rows when exactly this was published before, None when it is still to be done.
    """
    address = connection.address
    key = f"{literal(address.table)}, {literal(dataid)}"
    table = address.named(EPOCHS)
    recorded = connection.rows(
        f"insert into {table} as known (tablename, dataid, epoch, rows, staging)"
        f" values ({key}, {int(epoch)}, {staging.rows}, {literal(staging.staging)})"
        " on conflict (tablename, dataid) do update"
        " set epoch = excluded.epoch, rows = excluded.rows, staging = excluded.staging, at = now()"
        " where known.epoch <= excluded.epoch and known.staging <> excluded.staging"
        " returning epoch"
    )
    if recorded:
        return None
    known = connection.row(f"select rows, epoch, staging from {table} where (tablename, dataid) = ({key})")
    published = LoadResult(*known)
    if published.staging == staging.staging:
        return published.rows
    raise LeaseLost(
        f"{address.location} {dataid}: epoch {published.epoch} was published there already, this is epoch {epoch}",
        hint=f"Another attempt took over, and its rows stay. If the store was created anew, delete the row in {table}.",
    )


def _insert(
    connection: Connection, dataset: Dataset, columns: tuple[PostgresColumn, ...], condition: str, staging: LoadResult
) -> int:
    address = connection.address
    try:
        staged = table_columns(connection, dataset, staging.staging)
    except OdfError as problem:
        raise JobFailed(f"what was staged is gone: {problem.message}", hint="Run the chunk again.") from None
    types = {column.name: column.type for column in staged}
    loaded = [column for column in columns if column.name in types]
    names = ", ".join(identifier(column.name) for column in loaded)
    values = ", ".join(_value(column, types[column.name]) for column in loaded)
    overriding = " overriding system value" if any(column.is_identity for column in loaded) else ""
    return connection.run(
        f"insert into {address.target} ({names}){overriding} select {names}"
        f" from (select {values} from {address.named(staging.staging)}) as staged where {condition}"
    )


def _value(column: PostgresColumn, staged: str) -> str:
    name = identifier(column.name)
    # A cast to varchar(3) would cut silently; without one it is an error.
    is_text_already = column.base in TEXTS and column.is_array == staged.endswith("[]")
    return name if column.type == staged or is_text_already else f"{name}::{column.type} as {name}"


def _not_all(connection: Connection, staging: LoadResult, inserted: int, dataid: str) -> OdfError:
    address = connection.address
    there = int(connection.value(f"select count(*) from {address.named(staging.staging)}"))
    if there != staging.rows:
        return JobFailed(
            f"{address.location} {dataid}: {staging.rows} rows were staged, but only {there} are left",
            hint="The server may have crashed. Nothing was published: run the chunk again.",
        )
    return WrongData(
        f"{address.location} {dataid}: {there - inserted} of {there} rows do not belong to this dataid",
        hint="Their partition column is null or outside the chunk; nothing was published.",
    )


class _StagingTable(NamedTuple):
    name: str
    note: str


def _staging_tables(connection: Connection, text: str, *, anywhere: bool = False) -> list[_StagingTable]:
    """The staging tables whose name begins with, or has, this text; parents before their parts."""
    position = f"position({literal(text)} in c.relname::text)"
    rows = connection.rows(
        "select c.relname::text, coalesce(obj_description(c.oid, 'pg_class'), '') from pg_catalog.pg_class c"
        f" where c.relnamespace = {literal(identifier(connection.address.schema))}::regnamespace"
        f" and c.relkind = 'r' and c.relpersistence = 'u' and {position} {'> 0' if anywhere else '= 1'}"
        " order by length(c.relname::text), 1"
    )
    return [_StagingTable(*row) for row in rows]


def _drop(connection: Connection, name: str) -> int:
    table = connection.address.named(name)
    if connection.value(f"select to_regclass({literal(table)}) is null"):
        return 0  # it was part of one that is gone
    connection.run(f"drop table {table} cascade")
    connection.commit()
    return 1


def _drop_all(address: TableAddress, staging: str) -> None:
    with connected(address) as connection:
        for table in _staging_tables(connection, staging):
            _drop(connection, table.name)
