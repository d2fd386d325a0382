"""The secrets of a store: which values are encrypted, under which context, and the same under a new key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .. import secrets
from ..errors import BadConfig, UsageError
from ..model import Catalogue, Dataset
from ..model.definitions.address import address_of
from ..project import Project
from ..project.hosts import is_vouched


@dataclass(frozen=True, slots=True)
class Rekeyed:
    """One password under its new key; the dataset carries it. Vouched says whether more than the store names its address."""

    datasetid: str
    was: str
    dataset: Dataset
    address: str
    is_vouched: bool


def keys(taken: secrets.ProcessKey, *, same: bool) -> tuple[secrets.Key, secrets.Key]:
    """The old key from PASSKEY… and the new one from NEW_PASSKEY…, or the same one twice where that is asked for."""
    old, new = taken.require_key("rekey"), taken.new_key
    names = [secrets.NEW + name for name in secrets.KEY_VARIABLES]
    if same and new is not None:
        raise UsageError(f"--same-key and {names[0]}… exclude each other", hint="Leave out one of them.")
    if new is None and not same:
        raise BadConfig(
            "rekey needs the new key, and none is set",
            hint=f"Set one of {', '.join(names)}. To renew the tokens under the key that they have, add: --same-key",
        )
    return old, new or old


def rekeyed(
    project: Project, catalogue: Catalogue, names: Sequence[str], old: secrets.Key, new: secrets.Key
) -> list[Rekeyed]:
    """The encrypted passwords of these datasets, or of all, under the new key; BadKey when one cannot be read."""
    chosen = [catalogue.dataset(name) for name in names] or list(catalogue.datasets.values())
    if names and not all(dataset.encryptedpass for dataset in chosen):
        bare = next(dataset.datasetid for dataset in chosen if not dataset.encryptedpass)
        raise UsageError(f"dataset {bare} has no encrypted password", hint=f"See: odf datasets {bare}")
    return [_rekeyed(project, dataset, old, new) for dataset in chosen if dataset.encryptedpass]


def _rekeyed(project: Project, dataset: Dataset, old: secrets.Key, new: secrets.Key) -> Rekeyed:
    token = dataset.encryptedpass
    renewed = replace(dataset, encryptedpass=secrets.rekey(token, old, new, secrets.dataset_context(dataset)))
    vouched = secrets.is_bound(token) or is_vouched(project, dataset)
    return Rekeyed(dataset.datasetid, secrets.form_of(token), renewed, str(address_of(dataset)), vouched)
