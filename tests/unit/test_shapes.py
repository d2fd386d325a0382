"""What is declared with our shapes does what the same declaration does with the standard library."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import typing
from typing import Any

import pytest

from opendataflow import shapes


class Ours(shapes.NamedTuple):
    """A tuple."""

    name: str
    size: int = 1
    parts: tuple[str, ...] = ()

    @property
    def twice(self) -> int:
        return self.size * 2


class Theirs(typing.NamedTuple):
    """A tuple."""

    name: str
    size: int = 1
    parts: tuple[str, ...] = ()


def declared(dataclass: Any, field: Any, **how: bool) -> Any:
    @dataclass(**how)
    class Thing:
        """A thing."""

        name: str
        secret: str = field(default="x", repr=False)
        options: dict[str, int] = field(default_factory=dict, hash=False)
        size: int = 3

        def __post_init__(self) -> None:
            if self.size < 0:
                raise ValueError(self.size)

    return Thing


WAYS: list[dict[str, bool]] = [{}, {"frozen": True}, {"frozen": True, "slots": True}, {"slots": True}]
BOTH = pytest.mark.parametrize(
    "kinds",
    [
        (declared(shapes.dataclass, shapes.field, **how), declared(dataclasses.dataclass, dataclasses.field, **how))
        for how in WAYS
    ],
    ids=str,
)


@shapes.dataclass(frozen=True, slots=True)
class Kept:
    """What can be pickled has to be found by its name."""

    name: str
    size: int = 1


def raised(call: Any) -> str:
    try:
        call()
    except Exception as error:
        return type(error).__name__
    return ""


@pytest.mark.parametrize("again", [False, True])  # the second time it is compiled
@pytest.mark.parametrize("kind", [Ours, Theirs])
def test_a_named_tuple_is_made_changed_and_shown_like_the_one_of_the_standard_library(kind, again):
    made = kind("a", parts=("x",))
    assert made == ("a", 1, ("x",))
    assert made._replace(size=5) == kind("a", 5, ("x",)) == kind._make(["a", 5, ("x",)])
    assert made._asdict() == {"name": "a", "size": 1, "parts": ("x",)}
    assert repr(made) == f"{kind.__name__}(name='a', size=1, parts=('x',))"
    assert kind._fields == kind.__match_args__ == ("name", "size", "parts")
    assert kind._field_defaults == {"size": 1, "parts": ()}
    assert copy.copy(made) == pickle.loads(pickle.dumps(made)) == made
    assert typing.get_type_hints(kind) == {"name": str, "size": int, "parts": tuple[str, ...]}
    for wrong in (lambda: kind(), lambda: kind("a", 1, (), 4), lambda: kind("a", colour=1), lambda: kind._make([1])):
        assert raised(wrong) == "TypeError"
    assert raised(lambda: made._replace(colour=1)) in ("ValueError", "TypeError")
    assert raised(lambda: setattr(made, "size", 2)) == "AttributeError"
    match made:
        case kind(name, size):
            assert (name, size) == ("a", 1)


def test_a_named_tuple_keeps_its_methods_and_can_be_a_base():
    class Longer(Ours):
        __slots__ = ()

    assert (Longer("a", 4).twice, type(Longer("a"))) == (8, Longer)
    assert Ours("b").twice == 2


def told_of(kind: Any) -> list[Any]:
    one, same, other = kind("a"), kind("a", "x", {}, 3), kind("a", options={"x": 1}, size=4)
    return [
        (repr(one), one == same, one == other, one != "a", one.options is kind("b").options),
        [raised(call) for call in (kind, lambda: kind("a", colour=1), lambda: kind("a", size=-1), lambda: hash(one))],
        [raised(call) for call in (lambda: setattr(one, "size", 4), lambda: delattr(one, "size"))],
        (hasattr(one, "__dict__"), kind.__match_args__, kind.__doc__, kind.__qualname__),
        [(each.name, each.repr) for each in dataclasses.fields(kind)],
        dataclasses.asdict(kind("a", size=5)),
        [repr(way(kind("a"), size=7)) for way in (dataclasses.replace, shapes.replace)],
        [each.name for each in shapes.fields(kind)],
        (dataclasses.is_dataclass(kind), shapes.is_dataclass(kind("a")), shapes.is_dataclass("a")),
        repr(copy.copy(kind("a", size=9))),
    ]


@BOTH
def test_a_dataclass_does_what_the_one_of_the_standard_library_does(kinds):
    ours, theirs = kinds
    assert told_of(ours) == told_of(theirs) == told_of(ours)  # the second time it is compiled


def test_equal_values_have_equal_hashes_and_a_kept_one_comes_back():
    assert {Kept("a"), Kept("a"), Kept("b")} == {Kept("a"), Kept("b")}
    assert pickle.loads(pickle.dumps(Kept("a", 5))) == copy.deepcopy(Kept("a", 5)) == Kept("a", 5)
    with pytest.raises(dataclasses.FrozenInstanceError):
        Kept("a").size = 4  # type: ignore[misc]
