"""Parts of packages, imported without the rest; whoever imports such a package later gets all of it, as ever.

It is Python's own import of the package that we let run, under the lock that it has for that, and end as if it had failed
as soon as the parts are there. So threads that import the same wait for each other as they always do, and the next import
of the package is an ordinary one, which finds the parts where they belong.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from threading import get_ident
from types import ModuleType
from typing import Any

_OF_IMPORTS = ("__path__", "__file__", "__cached__")  # which an import itself looks for before there is anything


class _Enough(Exception):
    """The parts are imported."""


class _Package:
    """Finds and loads one package as others would: the first time only as the frame of parts that are imported meanwhile."""

    def __init__(self, name: str, fill: Callable[[ModuleType], None]) -> None:
        self.fill: Callable[[ModuleType], None] | None = fill
        self._name, self._thread = name, get_ident()
        self._frame: ModuleType | None = None
        self._own: Any = None

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self._name:
            return None
        for finder in sys.meta_path:
            if finder is not self and (spec := finder.find_spec(name, path, target)) is not None:
                if self._frame is not None or (self.fill is not None and get_ident() == self._thread):
                    self._own, spec.loader = spec.loader, self  # type: ignore[assignment]
                return spec
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._frame  # which a thread that waited for us may have by now

    def exec_module(self, module: ModuleType) -> None:
        if self.fill is not None:
            fill, self.fill, self._frame = self.fill, None, module
            fill(module)
            module.__getattr__ = self._attribute  # type: ignore[method-assign]
            raise _Enough
        inside = self._name + "."
        for name, part in [*sys.modules.items()]:
            if name.startswith(inside) and "." not in name.removeprefix(inside):
                setattr(module, name.removeprefix(inside), part)
        module.__loader__ = self._own
        if module.__spec__ is not None:
            module.__spec__.loader = self._own
        self._own.exec_module(module)

    def _attribute(self, name: str) -> Any:
        """What somebody wants of the frame comes with the rest of the package."""
        if name not in _OF_IMPORTS and name in (whole := vars(import_module(self._name))):
            return whole[name]
        raise AttributeError(f"module {self._name!r} has no attribute {name!r}")


def import_within(packages: Mapping[str, str], work: Callable[[], object]) -> None:
    """Do work that imports parts of these packages; each says which part of it has the names that are taken from itself."""
    if not packages:
        work()
        return
    (package, names), *others = packages.items()

    def fill(module: ModuleType) -> None:
        if names:
            part = import_module(names)
            module.__dict__.update({name: getattr(part, name) for name in part.__all__})
        import_within(dict(others), work)

    frame = _Package(package, fill)
    sys.meta_path.insert(0, frame)  # and stays: a list that others go through may not get shorter
    try:
        import_module(package)
    except _Enough:
        return
    except ModuleNotFoundError as missing:
        if missing.name != package:
            raise
    frame.fill = None
    import_within(dict(others), work)  # it is not there, or all of it is there already
