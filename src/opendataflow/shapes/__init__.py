"""NamedTuple and dataclass as the standard library has them, with methods that are compiled when they are used often.

A cold RunJob defines two hundred such classes and makes a few objects of sixty. The standard library compiles the methods
of every one of them, by which a quarter of the time of RunJob went.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass, field, fields, is_dataclass, replace
    from typing import NamedTuple
else:
    from .classes import dataclass, field, fields, is_dataclass, replace
    from .tuples import NamedTuple

__all__ = ["NamedTuple", "dataclass", "field", "fields", "is_dataclass", "replace"]
