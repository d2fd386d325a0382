"""Reads one table of a project file, and reports errors with their position in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from ..errors import BadConfig, OdfError
from ..model.definitions.ids import shown
from ..tokens import is_token, secret_in

_CRYPT = "Never write a password into a file: encrypt it with `odf crypt encrypt` and declare {}."

_is_bare = re.compile(r"[A-Za-z0-9_-]{1,128}").fullmatch
_has_control = re.compile(r"[\x00-\x1f\x7f]").search


class Shape(NamedTuple):
    """A predicate for values, and its description in error messages."""

    fits: Callable[[object], bool]
    words: str


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_table_of_texts(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())


TEXT = Shape(_is_text, "text")
TEXTS = Shape(_are_texts, "a list of texts")
FLAG = Shape(lambda value: isinstance(value, bool), "true or false")
COUNT = Shape(_is_count, "a whole number from 1")
SLOTS = Shape(lambda value: (value == 0 and value is not False) or _is_count(value), "a whole number from 0")
TABLE = Shape(lambda value: isinstance(value, dict), "a table")
TEXT_TABLE = Shape(_is_table_of_texts, "a table of texts")


def one_of(*words: str) -> Shape:
    """The shape of one of these words."""
    return Shape(lambda value: isinstance(value, str) and value in words, " or ".join(f'"{word}"' for word in words))


def either(*shapes: Shape) -> Shape:
    """The shape of a value that has any of these shapes."""
    return Shape(lambda value: any(shape.fits(value) for shape in shapes), " or ".join(shape.words for shape in shapes))


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint with the most similar known name, or with all of them."""
    from difflib import get_close_matches

    known = list(known)
    close = get_close_matches(name[:128], known, n=1, cutoff=0.5)
    return f"Did you mean {close[0]}?" if close else f"Known here: {', '.join(known) or 'nothing'}."


def quoted(name: str) -> str:
    """A key in TOML notation, shortened and without control characters."""
    return name if _is_bare(name) else shown(name)


class Section:
    """One table of a project file; every error names file, table and key."""

    __slots__ = ("data", "file", "path")

    def __init__(self, file: str, path: tuple[str, ...], data: dict[str, Any]) -> None:
        self.file = file
        self.path = path
        self.data = data

    def __contains__(self, key: str) -> bool:
        return key in self.data

    @property
    def name(self) -> str:
        """The last part of the table's name."""
        return self.path[-1] if self.path else ""

    def where(self, key: str = "") -> str:
        """The position of a key: dataflow.toml: [dataset.flights_raw] partition."""
        table = f"[{'.'.join(map(quoted, self.path))}]" if self.path else ""
        return f"{self.file}: {' '.join(filter(None, (table, key)))}".rstrip(": ")

    def wrong(self, key: str, message: str, hint: str = "", error: type[OdfError] = BadConfig) -> OdfError:
        """An error about this key."""
        return error(f"{self.where(key)}: {message}", hint=hint)

    @contextmanager
    def at(self, key: str = "") -> Iterator[None]:
        """Add this key's position to the message of errors inside."""
        try:
            yield
        except OdfError as problem:
            if problem.message.startswith(f"{self.file}: "):
                raise  # the message has a position already
            raise self.wrong(key, problem.message, problem.hint, type(problem)) from None

    def only(self, known: Iterable[str]) -> None:
        """Refuse unknown keys."""
        known = list(known)
        for key, value in self.data.items():
            if key not in known:
                hint = nearest(key, known)
                if isinstance(value, dict) and len(self.path) == 2:
                    hint += f" Quote an id that contains a dot: [{self.path[0]}.{shown('.'.join((self.name, key)))}]."
                raise self.wrong(quoted(key), "there is no such key", hint)

    def get(self, key: str, shape: Shape, default: Any = None) -> Any:
        """The value of a key, which must have this shape."""
        if key not in self.data:
            return default
        value = self.data[key]
        if not shape.fits(value):
            raise self.wrong(quoted(key), f"expected {shape.words}{_instead(key, value)}")
        return value

    def text(self, key: str, default: str = "") -> str:
        """One line of text."""
        return self._line(key, self.get(key, TEXT, default))

    def token(self, key: str, owner: str, default: str = "") -> str:
        """An encrypted value; the error omits other text, since it may be a password."""
        token = self.text(key, default)
        if token and not is_token(token):
            raise self.wrong(key, "this is not a token", f"Create one, and write it here: odf crypt encrypt {owner}")
        return token

    def texts(self, key: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        """A list of lines of text; a single text is a list of one."""
        value = self.get(key, either(TEXT, TEXTS), list(default))
        return tuple(self._line(key, item) for item in ([value] if isinstance(value, str) else value))

    def _line(self, key: str, text: str) -> str:
        if _has_control(text):
            raise self.wrong(quoted(key), f"expected one line without control characters{_instead(key, text)}")
        return text

    def inner(self, key: str) -> Section:
        """The table under this key; empty if there is none."""
        return Section(self.file, (*self.path, key), self.get(key, TABLE, {}))

    def tables(self, key: str) -> list[Section]:
        """The tables in the table under this key: [dataset.a] and [dataset.b]."""
        group = self.inner(key)
        for name in group.data:
            if not isinstance(group.data[name], dict):
                example = f"[{'.'.join(map(quoted, group.path))}.NAME]"
                raise group.wrong(quoted(name), "expected a table", f"Write it under a name: {example}")
        return [group.inner(name) for name in group.data]

    def refuse_passwords(self, instead: str, skip: tuple[str, ...] = ()) -> None:
        """Refuse plaintext passwords at any depth."""
        path = secret_in({key: value for key, value in self.data.items() if key not in skip})
        if path:
            raise self.wrong(".".join(map(quoted, path)), "this is a password in plain text", _CRYPT.format(instead))


def _instead(key: str, value: object) -> str:
    """The part of an error that repeats the value; empty if it could be a secret."""
    return "" if key.startswith("encrypted") else f", not {shown(value)}"
