"""Create and drop a scratch schema for odf chaos in the database of a store, and the address to reach it through a proxy."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import quote

from psycopg import errors
from psycopg.conninfo import conninfo_to_dict

from ...errors import StoreReadOnly, StoreTaken, UsageError
from . import postgres_schema
from .postgres import PostgresBackend

_is_scratch = re.compile(r"dataflow_chaos_[0-9a-f]{8}").fullmatch
_WHERE = ("host", "hostaddr", "port", "dbname", "user", "service")
_ANY_PASSWORD = "scram-sha-256,md5,password,none"


class Server(NamedTuple):
    """The server of an address: its name for certificates, its IP address and port, and the password it asked for."""

    host: str
    at: str
    port: int
    password: str
    is_from_file: bool = False  # from a libpq password file, which is sent with any authentication method


def server_of(url: str, password: str | None) -> Server:
    """Connect and return the server; StoreReadOnly if the role may not create a schema."""
    backend = PostgresBackend(postgres_schema.split(url)[0], password=password)
    try:
        with backend.reading() as transaction:
            ((may, role, database),) = transaction.rows("may_create_schema")
        if not may:
            raise StoreReadOnly(
                f"role {role} may not create a schema in database {database}",
                hint=f'Have the owner of the database run: GRANT CREATE ON DATABASE "{database}" TO "{role}"',
            )
        found = Server(*backend.server())
        own = password is not None or "password" in conninfo_to_dict(postgres_schema.split(url)[0])
        return found._replace(is_from_file=bool(found.password) and not own)
    finally:
        backend.close()


def by_way_of(url: str, server: Server, host: str, port: int) -> str:
    """The address of the same database through another host and port; the server's name for its certificate stays."""
    address, schema = postgres_schema.split(url)
    given = {name: str(value) for name, value in conninfo_to_dict(address, port=port).items()}
    if host.startswith("/"):
        given = {name: value for name, value in given.items() if name != "hostaddr"} | {"host": host}
    else:
        given |= {"host": server.host or host, "hostaddr": host}
    given.pop("password", "")
    user, database = given.pop("user", ""), given.pop("dbname", "")
    if server.is_from_file:
        given.setdefault("require_auth", _ANY_PASSWORD)
    login = (
        f"{quote(user, safe='')}:{quote(server.password, safe='')}@" if server.password else f"{quote(user, safe='')}@"
    )
    rest = "&".join(f"{name}={quote(value, safe='')}" for name, value in given.items())
    return postgres_schema.within(f"postgresql://{login}/{quote(database, safe='')}?{rest}", schema)


def is_same_database(url: str, other: str) -> bool:
    """Whether two addresses name the same database with the same role."""
    try:
        one, two = (conninfo_to_dict(postgres_schema.split(each)[0]) for each in (url, other))
    except (errors.ProgrammingError, UsageError):
        return False
    return all(one.get(name) == two.get(name) for name in _WHERE)


def create(url: str, password: str | None) -> None:
    """Create the schema of an address, marked as scratch, with the tables of a store; StoreTaken if it exists."""
    from . import migrate

    backend = _opened(url, password)
    try:
        with backend.writing() as transaction:
            ((exists, _),) = transaction.rows("schema_marked")
            if exists:  # mark only the schema created here
                raise StoreTaken(
                    f"schema {backend.schema} exists already", hint="The schema was not changed. Try again."
                )
            transaction.run("schema")
            transaction.run("schema_mark")
        migrate.migrate(backend)
    finally:
        backend.close()


def drop(url: str, password: str | None) -> None:
    """Drop the schema of an address, if it exists and is marked as scratch."""
    backend = _opened(url, password)
    try:
        with backend.writing() as transaction:
            ((exists, is_ours),) = transaction.rows("schema_marked")
            if exists and not is_ours:
                raise UsageError(
                    f"schema {backend.schema} is not a scratch of odf chaos", hint="The schema was not changed."
                )
            if exists:
                transaction.run("schema_drop")
    finally:
        backend.close()


def _opened(url: str, password: str | None) -> PostgresBackend:
    _, schema = postgres_schema.split(url)
    if not _is_scratch(schema):
        raise UsageError(f"schema {schema} is not a scratch of odf chaos", hint="The schema was not changed.")
    return PostgresBackend(url, password=password)
