"""Parts of packages, imported without the rest; whoever imports such a package later gets all of it, as ever.

It is Python's own import of the package that we let run, and end as if it had failed as soon as the parts are there. The
next import is an ordinary one, which finds the parts where they belong; and so is the first one where there are threads,
since we would hold locks of Python's, on modules that are not whole, while we wait for others.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.machinery import ModuleSpec
from threading import active_count
from types import ModuleType
from typing import Any

_OF_IMPORTS = ("__path__", "__file__", "__cached__")  # which an import itself looks for before there is anything


class _Enough(Exception):
    """The parts are imported."""


class _Frame:
    """Finds and loads one module as others would: the first time only as a frame, within which parts are imported."""

    def __init__(self, name: str, fill: Callable[[ModuleType], None]) -> None:
        self.fill: Callable[[ModuleType], None] | None = fill
        self._name = name
        self._is_filling = False
        self._own: Any = None

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self._name:
            return None
        for finder in sys.meta_path:
            if finder is not self and (spec := finder.find_spec(name, path, target)) is not None:
                self._own, spec.loader = spec.loader, self  # type: ignore[assignment]
                return spec
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._own.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        if self.fill is None:
            self._make_whole(module)
            return
        fill, self.fill = self.fill, None
        module.__getattr__ = self._attribute  # type: ignore[method-assign]
        above, _, name = self._name.rpartition(".")
        if above:
            setattr(sys.modules[above], name, module)
        self._is_filling = True
        try:
            fill(module)
        finally:
            self._is_filling = False
        if sys.modules.get(self._name) is module:
            raise _Enough

    def _make_whole(self, module: ModuleType) -> None:
        inside = self._name + "."
        for name, part in [*sys.modules.items()]:
            if name.startswith(inside) and "." not in name.removeprefix(inside):
                setattr(module, name.removeprefix(inside), part)
        module.__loader__ = self._own
        if module.__spec__ is not None:
            module.__spec__.loader = self._own
        self._own.exec_module(module)

    def _attribute(self, name: str) -> Any:
        """What a part wants of the frame, which it may keep, comes from the whole; never from one in the making."""
        if name not in _OF_IMPORTS:
            if not self._is_filling:
                return getattr(import_module(self._name), name)
            frame = sys.modules[self._name]
            if not hasattr(frame, "__path__"):
                if vars(frame).get("__getattr__") == self._attribute:
                    del sys.modules[self._name]
                return getattr(import_module(self._name), name)
        raise AttributeError(f"module {self._name!r} has no attribute {name!r}")


def import_within(modules: Mapping[str, str], work: Callable[[], object]) -> None:
    """Do work for which these modules need not be whole; each says where the one name is that is taken from it."""
    if active_count() > 1:
        for module in modules:
            with suppress(ModuleNotFoundError):
                import_module(module)  # a package before its parts, or those who import both wait for each other
        modules = {}
    if not modules:
        work()
        return
    (first, home), *others = modules.items()
    is_done = False

    def fill(module: ModuleType) -> None:
        nonlocal is_done
        if home:
            part, _, name = home.rpartition(".")
            setattr(module, name, getattr(import_module(part), name))
        import_within(dict(others), work)
        is_done = True

    frame = _Frame(first, fill)
    sys.meta_path.insert(0, frame)  # and stays: a list that others go through may not get shorter
    try:
        import_module(first)
    except _Enough:
        return
    except ModuleNotFoundError as missing:
        if missing.name != first:
            raise
    frame.fill = None
    if not is_done:
        import_within(dict(others), work)  # it is not there, or all of it is there already
