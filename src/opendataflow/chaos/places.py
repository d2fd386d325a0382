"""Places: where the store of a scratch is, beside a SQLite file or in a schema of its own."""

from __future__ import annotations

import os
import re
import shlex
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from ..errors import BadConfig, StoreTaken, UsageError
from ..store import open_store
from ..store.drivers import postgres_schema
from ..tokens import is_secret_name, shown_address
from .proxy import ProxyLine, ServerAddress

if TYPE_CHECKING:
    from ..store.drivers.scratch_schema import Server

_FILES = ("", "-wal", "-shm", "-journal")


class ScratchStore(ABC):
    """A store that is not there yet, beside the user's own."""

    address: str  # without a password, for the record of the scratch
    has_server = False

    @property
    def shown(self) -> str:
        """What it is, for people."""
        return self.address

    def check(self, password: str | None) -> None:  # noqa: B027  (a file needs nothing but its folder)
        """Refuse before anything is made."""

    def line(self, password: str | None) -> ProxyLine | None:
        """A way there that can be broken, where there is a server."""
        return None

    def by_way_of(self, host: str, port: int, password: str | None) -> str:
        """The address by which workers reach it over such a way."""
        return self.address

    @abstractmethod
    def create(self, password: str | None) -> str:
        """Make it, and say by which address workers reach it."""

    @property
    def removal(self) -> str:
        """The command that removes it where it was kept."""
        return ""

    @abstractmethod
    def remove(self, password: str | None, *, is_marked: bool) -> None:
        """Remove it, if it is there and ours; whether the scratch's folder is there, with its mark, is the caller's to know."""


class FileScratch(ScratchStore):
    """A file beside the user's own."""

    def __init__(self, address: str, id: str) -> None:
        path = Path(address.removeprefix("sqlite:///"))
        name = f".odf-chaos-{id}.db"
        self.path = path if path.name == name else path.with_name(name)
        self.address = f"sqlite:///{self.path}"

    @property
    def shown(self) -> str:
        return str(self.path)

    def check(self, password: str | None) -> None:
        folder = self.path.parent
        if not folder.is_dir():
            raise BadConfig(f"{folder} is not there, and the store of the scratch would be in it")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise BadConfig(f"{folder} cannot be written, and the store of the scratch would be in it")

    @property
    def removal(self) -> str:
        return f"rm {shlex.quote(str(self.path))}*"

    def create(self, password: str | None) -> str:
        if not self.path.parent.is_dir():
            raise BadConfig(f"there is no folder {self.path.parent}", hint="Check --store, or make the folder.")
        if os.path.lexists(self.path):
            raise StoreTaken(f"{self.path} is there already", hint="It was left alone. Try again.")
        open_store(self.address, create=True).close()
        return self.address

    def remove(self, password: str | None, *, is_marked: bool) -> None:
        files = [self.path.with_name(self.path.name + suffix) for suffix in _FILES]
        if not is_marked and any(map(os.path.lexists, files)):  # a name alone is no mark
            raise UsageError(
                f"{self.path} was left alone, since the folder of its scratch is gone",
                hint=f"If nobody needs it: {self.removal}",
            )
        for file in files:
            file.unlink(missing_ok=True)


class Schema(ScratchStore):
    """A schema of its own in the user's own database."""

    has_server = True

    def __init__(self, address: str, id: str) -> None:
        self._schema = f"dataflow_chaos_{id}"
        self._given = postgres_schema.within(address, self._schema)
        self.address = without_password(self._given)
        self._server: Server | None = None

    @property
    def shown(self) -> str:
        return f"schema {self._schema} in {without_password(postgres_schema.split(self._given)[0])}"

    @property
    def removal(self) -> str:
        address = without_password(postgres_schema.split(self._given)[0])
        return f"psql {shlex.quote(address)} -c 'DROP SCHEMA {self._schema} CASCADE'"

    def check(self, password: str | None) -> None:
        from ..store.drivers.scratch_schema import server_of

        self._server = server_of(self._given, password)

    def create(self, password: str | None) -> str:
        from ..store.drivers.scratch_schema import create

        create(self._given, password)
        server = self._found(password)
        return self.by_way_of(server.at, server.port, password)

    def remove(self, password: str | None, *, is_marked: bool) -> None:
        from ..store.drivers.scratch_schema import drop

        drop(self._given, password)

    def line(self, password: str | None) -> ProxyLine:
        server = self._found(password)
        return ProxyLine(ServerAddress(server.at, server.port))

    def by_way_of(self, host: str, port: int, password: str | None) -> str:
        from ..store.drivers.scratch_schema import by_way_of

        return by_way_of(self._given, self._found(password), host, port)

    def _found(self, password: str | None) -> Server:
        if self._server is None:
            self.check(password)
        assert self._server is not None
        return self._server


def place_of(address: str, id: str) -> ScratchStore:
    """The place of a scratch of this id beside the store at an address, or at its own."""
    if not re.fullmatch(r"[0-9a-f]{8}", id):
        raise UsageError(f"{id!r} is no scratch's")
    if address.startswith("sqlite:///"):
        return FileScratch(address, id)
    if address.startswith(("postgresql://", "postgres://")):
        return Schema(address, id)
    raise UsageError(
        f"{shown_address(address)} is not the address of a store",
        hint="Write sqlite:///dataflow.db or postgresql://user@host/database.",
    )


def without_password(address: str) -> str:
    """An address with no password in it that leads to the same place; read as libpq reads it."""
    scheme, slashes, rest = address.partition("://")
    login = re.match(r"([^@/]*)@", rest) or re.match(r"([^@:?]*:[^@?]*[^@?\d][^@?]*)@", rest)  # or one that it refuses
    if login:
        rest = f"{login[1].partition(':')[0]}@{rest[login.end() :]}"
    base, _, given = rest.partition("?")
    kept = [each for each in given.split("&") if each and not is_secret_name(unquote(each.partition("=")[0]))]
    return f"{scheme}{slashes}{base}{'?' if kept else ''}{'&'.join(kept)}"
