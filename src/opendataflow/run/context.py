"""The context of a run: every fact that a script needs, as environment variables that can override nothing."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ..errors import BadDefinition, BadKey
from ..model import IN, OUT, Catalogue, Dataset, InputChunk, Job
from ..project import Environment, Project, check_places, location_of
from ..project.declared import is_reserved
from ..secrets import KEY_VARIABLES, Hidden, Key, dataset_context, decrypt, is_token, required
from ..store import Claim

_UNFIT = re.compile(r"[^A-Za-z0-9_]")
FACTS = "ODF_FACTS"  # the names of a run's facts: a run inside its script sets them anew
FIELDS = ("hostname", "database", "schemaname", "tablename", "username", "format", "kind")


class Vault:
    """Decrypts the passwords of datasets, each once: deriving a key takes time on purpose."""

    def __init__(self, project: Project, key: Key | None, hidden: Hidden | None = None) -> None:
        self.project, self.key = project, key
        self.hidden = Hidden() if hidden is None else hidden
        if key is not None:
            self.hidden.add(key)
        self._opened: dict[tuple[str, str], str] = {}

    def password(self, dataset: Dataset) -> str:
        """The password of a dataset, empty when it has none; refused where it may not go, and BadKey when it stays shut."""
        token = dataset.encryptedpass
        if not token:
            return ""
        from ..project.hosts import check_password_may_go  # here, since most datasets have none

        known = token, dataset_context(dataset)
        if known not in self._opened:
            if not is_token(token):
                raise BadDefinition(
                    f"the encryptedpass of dataset {dataset.datasetid} is not encrypted",
                    hint=f"Whoever can read the store can read it. Encrypt it: odf crypt encrypt --for {dataset.datasetid}",
                )
            check_password_may_go(self.project, dataset)
            key = required(self.key, f"dataset {dataset.datasetid}")
            try:
                word = decrypt(token, key, dataset_context(dataset))
            except BadKey as problem:
                raise BadKey(problem.message, hint=_why_it_stays_shut(dataset)) from None
            self.hidden.add(word)
            self._opened[known] = word
        return self._opened[known]

    def passwords(self, catalogue: Catalogue, job: Job) -> dict[str, str]:
        """The passwords of the datasets of a job that have one."""
        names = dict.fromkeys((*(item.datasetid for item in job.inputs), *job.outputs))
        return {name: word for name in names if (word := self.password(catalogue.dataset(name)))}

    @property
    def secrets(self) -> Sequence[str | Key]:
        """Everything that must not be seen: the key itself and what was decrypted, also what will be from now on."""
        return self.hidden.secrets

    def redact(self, text: str) -> str:
        """The text without any of these secrets."""
        return self.hidden.redact(text)


def _why_it_stays_shut(dataset: Dataset) -> str:
    from ..model.address import address_of

    where = str(address_of(dataset))
    return (
        f"Check {', '.join(KEY_VARIABLES)}. If the key is right, the token was changed, or encrypted for another host, port, "
        f"database or user than {where}. If that is where the password belongs: odf crypt encrypt --for {dataset.datasetid}"
    )


def variables(
    catalogue: Catalogue,
    environment: Environment,
    claim: Claim,
    inputs: Sequence[InputChunk],
    secrets: Mapping[str, str],
    own: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Everything about one claimed chunk, by the names that scripts use: dataid, <datasetid>_location, …

    `own` are the locations of this attempt alone, by dataset. The original's scripts know the same as <datasetid>_LOCATION.
    """
    job = catalogue.job(claim.jobid)
    values: dict[str, str] = {
        "dataid": claim.dataid,
        "jobid": claim.jobid,
        "ODF_RUN": str(claim.runid),
        "ODF_ATTEMPT": str(claim.epoch),
        "ODF_ENV": environment.name,
    }
    owners: dict[str, str] = {}
    read = {item.datasetid for item in job.inputs}
    written = [name for name in job.outputs if name not in read]
    for itemtype, name in [*((IN, item.datasetid) for item in job.inputs), *((OUT, name) for name in written)]:
        dataset = catalogue.dataset(name)
        prefix = _UNFIT.sub("_", name)
        if owners.setdefault(prefix, name) != name:
            raise BadDefinition(
                f"datasets {owners[prefix]} and {name} would both be {prefix}_… in the script's environment",
                hint="Rename one of them.",
            )
        chunks = [chunk for chunk in inputs if chunk.datasetid == name]
        if itemtype == OUT:
            chunks = [InputChunk(name, claim.dataid, 0, None, None)]
        facts: dict[str, Any] = {field: getattr(dataset, field) for field in FIELDS}
        facts |= {"datasetid": name, "itemtype": itemtype, "dataid": " ".join(chunk.dataid for chunk in chunks)}
        if claim.forced:  # whom nobody asked whether its inputs are where they should be
            check_places(environment, dataset, chunks)
        locations = [_location(environment, dataset, chunk) for chunk in chunks]
        facts["location"] = (own or {}).get(name) or " ".join(locations)
        if name in secrets:
            facts["password"] = secrets[name]
        if dataset.encryptedpass:  # as the original exports it; it opens nothing without the key
            facts["encryptedpass"] = dataset.encryptedpass
        values |= {f"{prefix}_{field.upper()}": str(value) for field, value in facts.items()}
        values |= {f"{prefix}_{field}": str(value) for field, value in facts.items()}
    return values


def variable_names(catalogue: Catalogue, job: Job) -> dict[str, tuple[str, ...]]:
    """The names that a script of a job finds in its environment, by dataset, without any value.

    Under "" are those of the run itself and of the job's items. Those of a dataset are there in capitals too.
    """
    own = ["dataid", "jobid", "ODF_RUN", "ODF_ATTEMPT", "ODF_ENV", *(f"item_{name}" for name in job.env)]
    by_file = job.options.get("secrets") == "file"
    names: dict[str, tuple[str, ...]] = {}
    for name in dict.fromkeys((*(item.datasetid for item in job.inputs), *job.outputs)):
        has_password = bool(catalogue.dataset(name).encryptedpass)
        if has_password and by_file and "ODF_SECRETS" not in own:
            own.append("ODF_SECRETS")
        fields = (
            *FIELDS,
            "datasetid",
            "itemtype",
            "dataid",
            "location",
            *["encryptedpass"] * has_password,
            *["password"] * (has_password and not by_file),
        )
        names[name] = tuple(f"{_UNFIT.sub('_', name)}_{field}" for field in fields)
    return {"": tuple(own), **names}


def _location(environment: Environment, dataset: Dataset, chunk: InputChunk) -> str:
    if chunk.manifest is not None and chunk.manifest.location:
        return chunk.manifest.location
    return location_of(environment, dataset, chunk.dataid)


def without_overriding(
    inherited: Mapping[str, str],
    values: Mapping[str, str],
    undeclared: Collection[str],
    plain: Collection[str],
) -> tuple[dict[str, str], list[str]]:
    """The facts of a run with those that only the store says under names that no program reads, where that matters.

    A fact of an undeclared dataset comes as odf_NAME instead where NAME is set already, except by a run around this one,
    or is all in capitals, as the variables of programs are; not where dataflow.toml or [trust] names it.
    """
    of_run_around = inherited.get(FACTS, "").split()
    prefixes = tuple(f"{_UNFIT.sub('_', name)}_" for name in undeclared)

    def is_unsafe(name: str) -> bool:
        is_set = name in inherited and name not in of_run_around
        return name.startswith(prefixes) and name not in plain and (is_set or name.isupper())

    moved = [name for name in values if is_unsafe(name)]
    kept = {f"odf_{name}" if name in moved else name: value for name, value in values.items()}
    return kept | {FACTS: " ".join(kept)}, moved


def with_items(
    inherited: Mapping[str, str], job: Job, plain: Collection[str], values: Mapping[str, str]
) -> tuple[dict[str, str], list[str]]:
    """The facts of a run with the items of its job, and the items that were left out.

    Every item comes as item_NAME, which no program reads by itself; as NAME too where somebody who is trusted names it,
    but neither over a fact of ours nor over a variable that is set already.
    """
    left_out = [
        name for name in job.env if name in plain and (name in values or name in inherited or is_reserved(name))
    ]
    items = {f"item_{name}": value for name, value in job.env.items()}
    items |= {name: value for name, value in job.env.items() if name in plain and name not in left_out}
    return {**items, **values}, left_out
