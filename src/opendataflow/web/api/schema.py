"""Schema: what the facts of an answer look like, told from the types that they are made of."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from ...model import Answer, Manifest, Receipt
from ...model.data import is_named, names_of
from ...model.decision.manifest import CheckResult

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
COUNT: Schema = {"type": "integer", "minimum": 0}
FLAG: Schema = {"type": "boolean"}
TABLE: Schema = {"type": "object"}
NOTHING: Schema = {"type": "null"}

_SIMPLE: dict[Any, Schema] = {
    str: TEXT,
    Path: TEXT,
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: FLAG,
    datetime: {"type": "string", "format": "date-time"},
    type(None): NOTHING,
    Any: {},
    object: {},
}
_ANSWER = {
    "question": TEXT,
    "answer": {"enum": ["yes", "no", "not asked"]},
    "yes": {"type": ["boolean", "null"]},
    "evidence": TABLE,
    "why": TEXT,
    "refusal": TEXT,
}
_RECEIPT = {"jobid": TEXT, "dataid": {"type": ["string", "null"]}, "verdict": TEXT}
_CHECK = {"check": TEXT, "kind": TEXT, "severity": TEXT, "passed": FLAG, "figures": TABLE}
# What says by itself how it is shown.
_OWN: dict[Any, Schema] = {
    Answer: {"type": "object", "properties": _ANSWER, "required": list(_ANSWER)},
    Receipt: {"type": "object", "properties": _RECEIPT, "required": list(_RECEIPT)},
    CheckResult: {"type": "object", "properties": _CHECK, "required": list(_CHECK)},
    Manifest: {
        "type": "object",
        "properties": {"location": TEXT, "format": TEXT, "bytes": COUNT, "rows": COUNT, "schema": TEXT},
    },
}

COMPONENTS: dict[str, Schema] = {}
_NAMES: dict[type, str] = {}


def maybe(schema: Schema) -> Schema:
    """This, or nothing."""
    return {"anyOf": [schema, NOTHING]}


def array(schema: Schema) -> Schema:
    """A list of these."""
    return {"type": "array", "items": schema}


def table(properties: Mapping[str, Schema], *, optional: Sequence[str] = ()) -> Schema:
    """An object with these properties, and no others."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": dict(properties), "required": required, "additionalProperties": False}


def with_more(kind: type, more: Mapping[str, Schema], *, optional: Sequence[str] = ()) -> Schema:
    """An object with the parts of a dataclass and some more."""
    return table(_parts(kind) | dict(more), optional=optional)


def of(kind: Any) -> Schema:
    """The schema of what is shown of a type; a class of ours is described once, and referred to."""
    if kind in _SIMPLE:
        return dict(_SIMPLE[kind])
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return {"anyOf": [of(each) for each in inner]}
    if origin is tuple and not (len(inner) == 2 and inner[1] is ...):
        return _tuple(inner)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": of(inner[1])}
    if isinstance(origin, type) and issubclass(origin, (Sequence, set, frozenset)):
        return array(of(inner[0]))
    return {"$ref": f"#/components/schemas/{_component(kind)}"}


def _tuple(kinds: Sequence[Any], names: Sequence[str] = ()) -> Schema:
    parts = [of(kind) for kind in kinds]
    if not names and all(part == parts[0] for part in parts):
        return array(parts[0]) | {"minItems": len(parts), "maxItems": len(parts)}
    for part, name in zip(parts, names, strict=False):
        if "$ref" not in part:
            part["title"] = name
    return {"type": "array", "prefixItems": parts, "minItems": len(parts), "maxItems": len(parts)}


def _component(kind: type) -> str:
    if kind not in _NAMES:
        last = kind.__module__.rpartition(".")[2]
        _NAMES[kind] = name = kind.__name__ if kind.__name__ not in COMPONENTS else f"{last}.{kind.__name__}"
        COMPONENTS[name] = {}  # so that a class may be made of itself
        COMPONENTS[name] = _described(kind) | {"description": (kind.__doc__ or "").partition("\n")[0]}
    return _NAMES[kind]


def _described(kind: type) -> Schema:
    if kind in _OWN:
        return dict(_OWN[kind])
    if hasattr(kind, "to_data"):
        return dict(TABLE)
    if is_dataclass(kind) or is_named(kind):
        return table(_parts(kind))
    if issubclass(kind, tuple):
        hints = get_type_hints(kind)
        return _tuple(list(hints.values()), list(hints))
    raise TypeError(f"{kind} has no schema")


def _parts(kind: type) -> dict[str, Schema]:
    hints = get_type_hints(kind)
    return {name: of(hints[name]) for name in names_of(kind)}
