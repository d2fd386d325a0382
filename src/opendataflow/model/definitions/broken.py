"""Describe broken definitions: rows that do not load or do not fit, which affect only the jobs that need them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from ...errors import BadDefinition, OdfError

Definition = tuple[str, str]  # dataset, job or pool, and its id


class Broken(NamedTuple):
    """A dataset, job or pool that cannot be used, and why."""

    what: str
    name: str
    problem: OdfError
    statement: str = ""  # SQL that repairs the row
    cause: Definition | None = None  # another definition whose rows are wrong
    data: dict[str, Any] | None = None  # the stored rows
    outputs: tuple[str, ...] = ()  # of a job

    @property
    def definition(self) -> Definition:
        """Its type and id."""
        return self.what, self.name

    @property
    def message(self) -> str:
        """The problem, with the name of the definition."""
        here = f"{self.what} {self.name}"
        return self.problem.message if here in self.problem.message else f"{here}: {self.problem.message}"

    @property
    def rows_of(self) -> Definition:
        """The definition whose rows have to be repaired."""
        return self.cause or self.definition

    def way_out(self, declared: Iterable[Definition] = ()) -> str:
        """How to repair it: with the project file if that declares it, otherwise by SQL."""
        if self.rows_of in declared:
            repair = "Restore the declaration of dataflow.toml: odf apply"
        elif self.statement:
            plain = not set(self.statement) & set('"$`\\!')
            typed = f'"{self.statement}"' if plain else _quoted(self.statement)
            repair = f"Repair the row, for instance: odf dml {typed}"
        else:
            table = self.rows_of[0]
            repair = f"Check its rows: odf sql \"select * from {table} where {table}id = '{self.rows_of[1]}'\""
        return f"{self.problem.hint} {repair}".lstrip()


def _quoted(text: str) -> str:
    """A word quoted for the shell."""
    return "'{}'".format(text.replace("'", "'\\''"))


class BrokenDefinition(BadDefinition):
    """The operation needs a definition that does not load."""

    def __init__(self, broken: Broken) -> None:
        super().__init__(broken.message, hint=broken.way_out())
        self.broken = broken
