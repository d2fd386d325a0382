"""Scratch: a schema that is made to be broken and dropped, in the database of a store, and the way there through a proxy."""

from __future__ import annotations

import re
from urllib.parse import quote

from ..errors import StoreReadOnly, StoreTaken, UsageError
from ..shapes import NamedTuple
from . import schemas
from .libpq import errors, parameters
from .postgres import PostgresBackend

_is_scratch = re.compile(r"dataflow_chaos_[0-9a-f]{8}").fullmatch
_WHERE = ("host", "hostaddr", "port", "dbname", "user", "service")


class Server(NamedTuple):
    """The server that an address led to: its name, as certificates know it, where it is, and the password that it asked for."""

    host: str
    at: str
    port: int
    password: str


def server_of(url: str, password: str | None) -> Server:
    """Connect, and say to which server; StoreReadOnly where this role may not make a schema."""
    backend = PostgresBackend(schemas.split(url)[0], password=password)
    try:
        with backend.reading() as transaction:
            ((may, role, database),) = transaction.rows("may_create_schema")
        if not may:
            raise StoreReadOnly(
                f"role {role} may not create a schema in database {database}",
                hint=f'Let its owner say: GRANT CREATE ON DATABASE "{database}" TO "{role}"',
            )
        return Server(*backend.server())
    finally:
        backend.close()


def by_way_of(url: str, server: Server, host: str, port: int) -> str:
    """The address of the same database by another way; the name of the server stays, so that its certificate is still its own."""
    address, schema = schemas.split(url)
    given = parameters(address) | {"port": str(port)}
    if host.startswith("/"):
        given = {name: value for name, value in given.items() if name != "hostaddr"} | {"host": host}
    else:
        given |= {"host": server.host or host, "hostaddr": host}
    had_password = bool(given.pop("password", ""))
    user, database = given.pop("user", ""), given.pop("dbname", "")
    if server.password and not had_password:
        given.setdefault("require_auth", "")  # as it was asked for before, when a file held the password
    login = (
        f"{quote(user, safe='')}:{quote(server.password, safe='')}@" if server.password else f"{quote(user, safe='')}@"
    )
    rest = "&".join(f"{name}={quote(value, safe='')}" for name, value in given.items())
    return schemas.within(f"postgresql://{login}/{quote(database, safe='')}?{rest}", schema)


def is_same_database(url: str, other: str) -> bool:
    """Whether two addresses name the same database, and the same role on the same server."""
    try:
        one, two = (parameters(schemas.split(each)[0]) for each in (url, other))
    except (errors.ProgrammingError, UsageError):
        return False
    return all(one.get(name) == two.get(name) for name in _WHERE)


def create(url: str, password: str | None) -> None:
    """Make the schema that an address names, marked as a scratch, and the tables of a store in it; StoreTaken if it is there."""
    from . import migrations

    backend = _opened(url, password)
    try:
        with backend.writing() as transaction:
            ((is_there, _),) = transaction.rows("schema_marked")
            if is_there:  # only what this very call makes is marked as ours
                raise StoreTaken(f"schema {backend.schema} is there already", hint="It was left alone. Try again.")
            transaction.run("schema")
            transaction.run("schema_mark")
        migrations.migrate(backend)
    finally:
        backend.close()


def drop(url: str, password: str | None) -> None:
    """Drop the schema that an address names, if it is there; one that is not marked as a scratch stays."""
    backend = _opened(url, password)
    try:
        with backend.writing() as transaction:
            ((is_there, is_ours),) = transaction.rows("schema_marked")
            if is_there and not is_ours:
                raise UsageError(f"schema {backend.schema} is not a scratch of odf chaos", hint="It was left alone.")
            if is_there:
                transaction.run("schema_drop")
    finally:
        backend.close()


def _opened(url: str, password: str | None) -> PostgresBackend:
    _, schema = schemas.split(url)
    if not _is_scratch(schema):
        raise UsageError(f"schema {schema} is not a scratch of odf chaos", hint="It was left alone.")
    return PostgresBackend(url, password=password)
