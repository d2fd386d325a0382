"""dataclass: a class that declares the names of its values."""

from __future__ import annotations

from itertools import count
from operator import attrgetter
from reprlib import recursive_repr
from types import SimpleNamespace
from typing import Any

from .tuples import OFTEN

_MISSING: Any = object()


class _Field:
    """One value of a class: its name, what it is unless given, and where it counts."""

    __slots__ = ("default", "factory", "hash", "name", "repr")

    def __init__(
        self, *, default: Any = _MISSING, default_factory: Any = _MISSING, repr: bool = True, hash: bool = True
    ) -> None:
        self.name, self.default, self.factory, self.repr, self.hash = "", default, default_factory, repr, hash


field = _Field


def dataclass(kind: Any = None, /, *, frozen: bool = False, slots: bool = False) -> Any:
    """A class with a constructor, a text and a comparison of its values; a frozen one never changes."""
    if kind is None:
        return lambda each: dataclass(each, frozen=frozen, slots=slots)
    if is_dataclass(kind):
        raise TypeError(f"{kind.__name__}: no dataclass is made of another one")
    shape = []
    for name in kind.__annotations__:
        given = kind.__dict__.get(name, _MISSING)
        shape.append(given if isinstance(given, _Field) else _Field(default=given))
        shape[-1].name = name
    names = tuple(each.name for each in shape)
    if slots:
        body = {name: what for name, what in kind.__dict__.items() if name not in (*names, "__dict__", "__weakref__")}
        kind = _again(kind, body | {"__slots__": names})
    else:
        for each in shape:
            if each.default is not _MISSING:
                setattr(kind, each.name, each.default)
            elif each.name in kind.__dict__:
                delattr(kind, each.name)
    kind._shape, kind.__dataclass_fields__ = tuple(shape), _Standard()
    kind.__dataclass_params__ = SimpleNamespace(frozen=frozen)  # whoever makes another dataclass of it looks there
    kind.__match_args__ = names  # type: ignore[misc]
    kind._compared, kind._hashed = _getter(names), _getter([each.name for each in shape if each.hash])
    kind.__init__, kind.__repr__, kind.__eq__, kind.__hash__ = _first_init(kind, frozen), _repr, _eq, None
    if frozen:
        kind.__hash__, kind.__setattr__, kind.__delattr__ = _hash, _no_set, _no_delete
        kind.__getstate__, kind.__setstate__ = _get_state, _set_state
    return kind


def fields(kind: Any) -> Any:
    """The values that a class, or the class of an object, declares."""
    if not hasattr(kind, "_shape"):
        import dataclasses

        return dataclasses.fields(kind)
    return kind._shape


def is_dataclass(kind: object) -> bool:
    """Whether a class, or the class of an object, is one of ours or of the standard library."""
    return hasattr(kind, "_shape") or hasattr(kind, "__dataclass_fields__")


def replace(value: Any, /, **changes: Any) -> Any:
    """The same object with other values."""
    return type(value)(**{each.name: getattr(value, each.name) for each in fields(value)} | changes)


class _Standard:
    """The fields as the module dataclasses has them, for whoever asks by its functions."""

    def __get__(self, instance: object, kind: Any) -> Any:
        import dataclasses

        listed: list[Any] = []
        for each in kind._shape:
            given = {"default": each.default, "default_factory": each.factory}
            given = {name: value for name, value in given.items() if value is not _MISSING}
            whole: Any = dataclasses.field(**given, repr=each.repr, hash=None if each.hash else False)
            listed.append((each.name, kind.__annotations__[each.name], whole))
        made: Any = dataclasses.make_dataclass(kind.__name__, listed)
        home: Any = next(each for each in kind.__mro__ if "__dataclass_fields__" in each.__dict__)
        home.__dataclass_fields__ = made.__dataclass_fields__  # the next one finds them there
        return made.__dataclass_fields__


def _first_init(kind: Any, frozen: bool) -> Any:
    objects = count()

    def __init__(self: Any, /, *values: Any, **named: Any) -> None:  # noqa: N807
        """The first objects of a class do without its constructor, which is compiled for the others."""
        if next(objects) >= OFTEN or not _filled(self, kind, values, named):
            kind.__init__ = _init(kind, frozen)
            kind.__init__(self, *values, **named)

    return __init__


def _filled(self: Any, kind: Any, values: tuple[Any, ...], named: dict[str, Any]) -> bool:
    """Give an object its values; False where they do not fit, which the constructor says."""
    rest = kind._shape[len(values) :]
    given = {each.name: value for each, value in zip(kind._shape, values, strict=False)}
    for each in rest:
        if each.name in named:
            given[each.name] = named[each.name]
        elif each.factory is not _MISSING:
            given[each.name] = each.factory()
        elif each.default is not _MISSING:
            given[each.name] = each.default
    if not len(values) <= len(kind._shape) == len(given) or not named.keys() <= {each.name for each in rest}:
        return False
    put = object.__setattr__ if kind.__dataclass_params__.frozen else setattr
    for name, value in given.items():
        put(self, name, value)
    if hasattr(kind, "__post_init__"):
        self.__post_init__()
    return True


def _init(kind: Any, frozen: bool) -> Any:
    known: dict[str, Any] = {"put": object.__setattr__, "missing": _MISSING}
    asked, lines = ["self"], []
    for each in kind._shape:
        asked.append(each.name)
        value = each.name
        if each.factory is not _MISSING:
            known[f"make_{each.name}"] = each.factory
            asked[-1] += "=missing"
            value = f"make_{each.name}() if {each.name} is missing else {each.name}"
        elif each.default is not _MISSING:
            known[f"default_{each.name}"] = each.default
            asked[-1] += f"=default_{each.name}"
        lines.append(f" put(self, {each.name!r}, {value})" if frozen else f" self.{each.name} = {value}")
    lines += [" self.__post_init__()"] * hasattr(kind, "__post_init__")
    exec("\n".join([f"def __init__({', '.join(asked)}):", *(lines or [" pass"])]), known)
    made = known["__init__"]
    made.__qualname__ = f"{kind.__qualname__}.__init__"
    return made


def _again(kind: Any, body: dict[str, Any]) -> Any:
    made = type(kind)(kind.__name__, kind.__bases__, body)
    made.__qualname__ = kind.__qualname__
    return made


def _getter(names: Any) -> Any:
    return attrgetter(*names) if names else lambda value: ()


@recursive_repr("...")
def _repr(self: Any) -> str:
    values = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in self._shape if each.repr)
    return f"{type(self).__qualname__}({values})"


def _eq(self: Any, other: Any) -> Any:
    kind = type(self)
    return kind._compared(self) == kind._compared(other) if type(other) is kind else NotImplemented


def _hash(self: Any) -> int:
    return hash(type(self)._hashed(self))


def _no_set(self: Any, name: str, value: object) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _no_delete(self: Any, name: str) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in self._shape]


def _set_state(self: Any, state: list[Any]) -> None:
    for each, value in zip(self._shape, state, strict=True):
        object.__setattr__(self, each.name, value)
