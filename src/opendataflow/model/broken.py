"""Broken definitions: rows of the store that do not load or do not fit. They are refused by name, and stop nobody else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..errors import BadDefinition, OdfError
from ..shapes import NamedTuple

Definition = tuple[str, str]  # dataset, job or pool, and its id


class Broken(NamedTuple):
    """One dataset, job or pool that cannot be used, and why."""

    what: str
    name: str
    problem: OdfError
    statement: str = ""  # SQL that mends the row, for instance
    cause: Definition | None = None  # the definition whose rows are wrong, where it is another one
    data: dict[str, Any] | None = None  # what is stored
    outputs: tuple[str, ...] = ()  # of a job

    @property
    def definition(self) -> Definition:
        """What it is, and its id."""
        return self.what, self.name

    @property
    def message(self) -> str:
        """What is wrong, and with which definition."""
        here = f"{self.what} {self.name}"
        return self.problem.message if here in self.problem.message else f"{here}: {self.problem.message}"

    @property
    def rows_of(self) -> Definition:
        """The definition whose rows have to be put right."""
        return self.cause or self.definition

    def way_out(self, declared: Iterable[Definition] = ()) -> str:
        """How to put it right: by the project's own file where that declares it, else by SQL."""
        if self.rows_of in declared:
            mend = "Put back what dataflow.toml declares: odf apply"
        elif self.statement:
            plain = not set(self.statement) & set('"$`\\!')
            typed = f'"{self.statement}"' if plain else _quoted(self.statement)
            mend = f"Put it right, for instance: odf dml {typed}"
        else:
            table = self.rows_of[0]
            mend = f"Look at its rows: odf sql \"select * from {table} where {table}id = '{self.rows_of[1]}'\""
        return f"{self.problem.hint} {mend}".lstrip()


def _quoted(text: str) -> str:
    """One word for the shell."""
    return "'{}'".format(text.replace("'", "'\\''"))


class BrokenDefinition(BadDefinition):
    """What was asked for needs a definition that does not load."""

    def __init__(self, broken: Broken) -> None:
        super().__init__(broken.message, hint=broken.way_out())
        self.broken = broken
