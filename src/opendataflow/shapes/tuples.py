"""NamedTuple: a tuple whose values have names."""

from __future__ import annotations

from _collections import _tuplegetter  # type: ignore[import-not-found] # as collections.namedtuple takes it
from itertools import count
from typing import Any

OFTEN = 16  # objects of a class that cost less without its constructor than to compile it


class _Tuple(tuple[Any, ...]):
    """What every named tuple can do."""

    __slots__ = ()  # and nothing annotated: every class below would have it among its own values

    def __new__(cls, /, *values: Any, **named: Any) -> Any:
        """The first objects of a class do without its constructor, which is compiled for the others."""
        home: Any = next(kind for kind in cls.__mro__ if "_fields" in kind.__dict__)
        if next(home._objects) < OFTEN:
            rest, given = home._fields[len(values) :], home._field_defaults | named
            if len(values) <= len(home._fields) and named.keys() <= {*rest} <= given.keys():
                return tuple.__new__(cls, (*values, *[given[name] for name in rest]))
        names = "".join(f"{name}, " for name in home._fields)
        new = eval(f"lambda cls, {names}: make(cls, ({names}))", {"make": tuple.__new__})
        new.__name__, new.__qualname__ = "__new__", f"{home.__qualname__}.__new__"
        new.__defaults__ = tuple(home._field_defaults.values())
        home.__new__ = new
        return new(cls, *values, **named)

    @classmethod
    def _make(cls: Any, values: Any) -> Any:
        made = tuple.__new__(cls, values)
        if len(made) != len(cls._fields):
            raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
        return made

    def _replace(self: Any, /, **changes: Any) -> Any:
        made = self._make(map(changes.pop, self._fields, self))
        if changes:
            raise TypeError(f"Got unexpected field names: {list(changes)!r}")
        return made

    def _asdict(self: Any) -> dict[str, Any]:
        return dict(zip(self._fields, self, strict=True))

    def __repr__(self: Any) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
        return f"{type(self).__name__}({values})"

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)


class _Named(type):
    """Makes a tuple of what is declared as a NamedTuple."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> type:
        if not bases:
            return super().__new__(cls, name, bases, body)
        fields = tuple(body["__annotations__"])
        defaults = {each: body[each] for each in fields if each in body}
        if tuple(defaults) != fields[len(fields) - len(defaults) :]:
            raise TypeError(f"{name}: a field without a default follows one with a default")
        body |= {each: _tuplegetter(number, "") for number, each in enumerate(fields)}
        body |= {"_fields": fields, "_field_defaults": defaults, "__match_args__": fields, "__slots__": ()}
        body["_objects"] = count()
        return type(name, (_Tuple,), body)


class NamedTuple(metaclass=_Named):
    """The base of a class that declares the names of a tuple's values."""
