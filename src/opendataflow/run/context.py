"""Builds the environment variables of a script, which cannot override existing variables, and decrypts passwords."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..errors import BadDefinition, BadKey, OdfError
from ..model import IN, OUT, Catalogue, Dataset, InputChunk, Job
from ..project import Environment, Project, check_places
from ..project.settings import is_reserved
from ..secrets import KEY_VARIABLES, Hidden, Key, dataset_context, decrypt, is_token, required

if TYPE_CHECKING:
    from .records import Attempt

_UNFIT = re.compile(r"[^A-Za-z0-9_]")
FACTS = "ODF_FACTS"  # the names of a run's variables, which a nested run may override
_MOST_HIDDEN = 20
FIELDS = ("hostname", "database", "schemaname", "tablename", "username", "format", "kind")


class Vault:
    """Decrypts the passwords of datasets and caches them, since key derivation is slow."""

    def __init__(self, project: Project, key: Key | None, hidden: Hidden | None = None) -> None:
        self.project, self.key = project, key
        self.hidden = Hidden() if hidden is None else hidden
        if key is not None:
            self.hidden.add(key)
        self._opened: dict[tuple[str, str], str] = {}

    def password(self, dataset: Dataset) -> str:
        """The password of a dataset, or empty; refused if it may not be sent, BadKey if it cannot be decrypted."""
        token = dataset.encryptedpass
        if not token:
            return ""
        from ..project.hosts import check_password_may_go  # lazy: most datasets have no password

        cached = token, dataset_context(dataset)
        if cached not in self._opened:
            if not is_token(token):
                raise BadDefinition(
                    f"the encryptedpass of dataset {dataset.datasetid} is not encrypted",
                    hint=f"Every reader of the store can read it. Encrypt it: odf crypt encrypt --for {dataset.datasetid}",
                )
            check_password_may_go(self.project, dataset)
            key = required(self.key, f"dataset {dataset.datasetid}")
            try:
                password = decrypt(token, key, dataset_context(dataset))
            except BadKey as problem:
                raise BadKey(problem.message, hint=_bad_key_hint(dataset)) from None
            self.hidden.add(password)
            self._opened[cached] = password
        return self._opened[cached]

    def passwords(self, catalogue: Catalogue, job: Job) -> dict[str, str]:
        """The passwords of a job's datasets, by dataset."""
        names = dict.fromkeys((*(item.datasetid for item in job.inputs), *job.outputs))
        return {name: password for name in names if (password := self.password(catalogue.dataset(name)))}

    def hide(self, catalogue: Catalogue, words: Iterable[str]) -> None:
        """Decrypt the passwords that a reason may contain, so that it is redacted before it is stored.

        Limited to the named datasets and jobs, or to the first ones if none is named, since key derivation is slow.
        """
        jobs = [catalogue.jobs.get(word) or catalogue.producer(word) for word in words]
        named = {name for job in jobs if job for name in (*job.outputs, *(item.datasetid for item in job.inputs))}
        named = named.union(words).intersection(catalogue.datasets) or set(catalogue.datasets)
        declared = {dataset.datasetid for dataset in self.project.datasets}
        locked = [dataset for name in sorted(named) if (dataset := catalogue.datasets[name]).encryptedpass]
        for dataset in sorted(locked, key=lambda dataset: dataset.datasetid not in declared)[:_MOST_HIDDEN]:
            with suppress(OdfError):
                self.password(dataset)

    @property
    def secrets(self) -> Sequence[str | Key]:
        """The key and all decrypted passwords; grows with further ones."""
        return self.hidden.secrets

    def redact(self, text: str) -> str:
        """The text with every secret redacted."""
        return self.hidden.redact(text)


def _bad_key_hint(dataset: Dataset) -> str:
    from ..model.definitions.address import address_of

    where = str(address_of(dataset))
    return (
        f"Check {', '.join(KEY_VARIABLES)}. If the key is right, the token was changed, or encrypted for another host, port, "
        f"database or user than {where}. If that address is right: odf crypt encrypt --for {dataset.datasetid}"
    )


def variables(
    environment: Environment, attempt: Attempt, secrets: Mapping[str, str], own: Mapping[str, str]
) -> dict[str, str]:
    """The variables of one claimed chunk: dataid, <datasetid>_location, …

    `own` are the attempt's output locations by dataset. Variables also exist in upper case, as in the Java original.
    """
    job, claim = attempt.job, attempt.claim
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
        dataset = attempt.catalogue.dataset(name)
        prefix = _UNFIT.sub("_", name)
        if owners.setdefault(prefix, name) != name:
            raise BadDefinition(
                f"datasets {owners[prefix]} and {name} would both be {prefix}_… in the script's environment",
                hint="Rename one of them.",
            )
        chunks = [chunk for chunk in attempt.inputs if chunk.datasetid == name]
        if itemtype == OUT:
            chunks = [InputChunk(name, claim.dataid, 0, None, None)]
        facts: dict[str, Any] = {field: getattr(dataset, field) for field in FIELDS}
        facts |= {"datasetid": name, "itemtype": itemtype, "dataid": " ".join(chunk.dataid for chunk in chunks)}
        if claim.forced:  # a forced run skipped question 3
            check_places(environment, dataset, chunks)
        facts["location"] = own.get(name) or " ".join(_location(attempt, chunk) for chunk in chunks)
        if name in secrets:
            facts["password"] = secrets[name]
        if dataset.encryptedpass:  # exported as in the Java original; still encrypted
            facts["encryptedpass"] = dataset.encryptedpass
        values |= {f"{prefix}_{field.upper()}": str(value) for field, value in facts.items()}
        values |= {f"{prefix}_{field}": str(value) for field, value in facts.items()}
    return values


def variable_names(catalogue: Catalogue, job: Job) -> dict[str, tuple[str, ...]]:
    """The names of a script's variables, by dataset.

    The key "" has those of the run and of the job's items. Variables of datasets also exist in upper case.
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


def _location(attempt: Attempt, chunk: InputChunk) -> str:
    if chunk.manifest is not None and chunk.manifest.location:
        return chunk.manifest.location
    return attempt.locations.of(chunk.datasetid, chunk.dataid)


def without_overriding(
    inherited: Mapping[str, str],
    values: Mapping[str, str],
    undeclared: Collection[str],
    allowed: Collection[str],
) -> tuple[dict[str, str], list[str]]:
    """The variables of a run, and the names that were renamed to odf_NAME for safety.

    A variable of an undeclared dataset is renamed if NAME is already set, except by an enclosing run, or is in upper case
    like the variables of programs. Names that dataflow.toml or [trust] lists are kept.
    """
    of_enclosing_run = inherited.get(FACTS, "").split()
    prefixes = tuple(f"{_UNFIT.sub('_', name)}_" for name in undeclared)

    def is_unsafe(name: str) -> bool:
        is_set = name in inherited and name not in of_enclosing_run
        return name.startswith(prefixes) and name not in allowed and (is_set or name.isupper())

    moved = [name for name in values if is_unsafe(name)]
    kept = {f"odf_{name}" if name in moved else name: value for name, value in values.items()}
    return kept | {FACTS: " ".join(kept)}, moved


def with_items(
    inherited: Mapping[str, str], job: Job, allowed: Collection[str], values: Mapping[str, str]
) -> tuple[dict[str, str], list[str]]:
    """The variables of a run with the items of its job, and the names of items that were left out.

    Every item is set as item_NAME, which no program reads by itself. An allowed item is also set as NAME, unless that is a
    reserved name or already set.
    """
    left_out = [
        name for name in job.env if name in allowed and (name in values or name in inherited or is_reserved(name))
    ]
    items = {f"item_{name}": value for name, value in job.env.items()}
    items |= {name: value for name, value in job.env.items() if name in allowed and name not in left_out}
    return {**items, **values}, left_out
