"""The secrets of a store: which values are encrypted, under which context, and the same under a new key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from .. import secrets
from ..errors import BadConfig, UsageError
from ..model import Catalogue, Dataset

NEW = "NEW_"


@dataclass(frozen=True, slots=True)
class Rekeyed:
    """One password under its new key; the dataset carries it."""

    datasetid: str
    was: str
    dataset: Dataset


def keys(environ: Mapping[str, str]) -> tuple[secrets.Key, secrets.Key]:
    """The old key from PASSKEY… and the new one from NEW_PASSKEY…; neither sees the variables of the other."""
    old_names, new_names = secrets.KEY_VARIABLES, tuple(NEW + name for name in secrets.KEY_VARIABLES)
    rest = {name: value for name, value in environ.items() if name not in (*old_names, *new_names)}
    old = secrets.require_key(rest | {name: environ[name] for name in old_names if name in environ}, "rekey")
    new = secrets.find_key(rest | {name: environ[NEW + name] for name in old_names if NEW + name in environ})
    if new is None:
        raise BadConfig("rekey needs the new key, and none is set", hint=f"Set one of {', '.join(new_names)}.")
    return old, new


def rekeyed(catalogue: Catalogue, names: Sequence[str], old: secrets.Key, new: secrets.Key) -> list[Rekeyed]:
    """The encrypted passwords of these datasets, or of all, under the new key; BadKey when one cannot be read."""
    chosen = [catalogue.dataset(name) for name in names] or list(catalogue.datasets.values())
    if names and not all(dataset.encryptedpass for dataset in chosen):
        bare = next(dataset.datasetid for dataset in chosen if not dataset.encryptedpass)
        raise UsageError(f"dataset {bare} has no encrypted password", hint=f"See: odf datasets {bare}")
    passwords = []
    for dataset in chosen:
        if token := dataset.encryptedpass:
            renewed = secrets.rekey(token, old, new, secrets.dataset_context(dataset.datasetid))
            form = (
                "Java's form"
                if secrets.is_java(token)
                else "an older cost"
                if secrets.needs_rekey(token)
                else "today's form"
            )
            passwords.append(Rekeyed(dataset.datasetid, form, replace(dataset, encryptedpass=renewed)))
    return passwords
