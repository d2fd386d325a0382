"""OpenDataFlow: hands data from job to job like a transaction, and knows the status of every chunk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api import job
    from .insight.read import read
    from .model import Dataset, Input, Job, Manifest, Mapping, Partition, Pool
    from .secrets.store import open_store as open
    from .store import Store

__version__ = "0.1.0"
__all__ = ["Dataset", "Input", "Job", "Manifest", "Mapping", "Partition", "Pool", "Store", "job", "open", "read"]

_HOMES = dict.fromkeys(("Dataset", "Input", "Job", "Manifest", "Mapping", "Partition", "Pool"), "model")
_HOMES |= {"Store": "store", "open": "secrets.store", "job": "api", "read": "insight.read"}


def __getattr__(name: str) -> Any:
    # Looked up when first used, so that importing the package costs next to nothing.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_HOMES[name]}", __name__), {"open": "open_store"}.get(name, name))
