"""The context of a run: every fact that a script needs, as environment variables that can override nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..errors import BadDefinition
from ..gate import location_of
from ..model import IN, OUT, Catalogue, Dataset, Job
from ..project import Environment
from ..secrets import Key, child_environment, dataset_context, decrypt
from ..store import Claim, Published

_UNFIT = re.compile(r"[^A-Za-z0-9_]")
# Names that a program obeys rather than reads: an item in the store must never reach them.
_OBEYED = re.compile(
    r"(PATH|HOME|SHELL|IFS|ENV|BASH_.*|LD_.*|DYLD_.*|PYTHON.*|PERL.*|RUBY.*|NODE_.*|JAVA_.*|JDK_.*|CLASSPATH|GIT_.*|PAGER|EDITOR|SPARK_.*|PYSPARK_.*"
    r"|HADOOP_.*|PS4|PROMPT_COMMAND|SHELLOPTS|GLIBC_.*|MALLOC_.*|LOCPATH|TMPDIR|PASSKEY.*|ODF_.*|dataid|jobid)"
)
FIELDS = ("hostname", "database", "schemaname", "tablename", "username", "format", "kind")


def passwords(catalogue: Catalogue, job: Job, key: Key | None) -> dict[str, str]:
    """The decrypted passwords of the datasets of a job; BadKey before anything is claimed."""
    found = {}
    for name in dict.fromkeys((*(item.datasetid for item in job.inputs), *job.outputs)):
        token = catalogue.dataset(name).encryptedpass
        if token:
            if key is None:
                from ..secrets import require_key

                require_key({}, f"dataset {name}")
            assert key is not None
            found[name] = decrypt(token, key, dataset_context(name))
    return found


def variables(
    catalogue: Catalogue,
    environment: Environment,
    claim: Claim,
    manifests: Mapping[tuple[str, str], Published | None],
    secrets: Mapping[str, str],
) -> dict[str, str]:
    """Everything about one claimed chunk, by the names that scripts use: dataid, <datasetid>_location, …"""
    job = catalogue.job(claim.jobid)
    found: dict[str, str] = {
        "dataid": claim.dataid,
        "jobid": claim.jobid,
        "ODF_RUN": str(claim.runid),
        "ODF_ATTEMPT": str(claim.epoch),
    }
    found["ODF_ENV"] = environment.name
    owners: dict[str, str] = {}
    for itemtype, name in [(IN, item.datasetid) for item in job.inputs] + [
        (OUT, name) for name in job.outputs if name not in {item.datasetid for item in job.inputs}
    ]:
        dataset = catalogue.dataset(name)
        prefix = _UNFIT.sub("_", name)
        if owners.setdefault(prefix, name) != name:
            raise BadDefinition(
                f"datasets {owners[prefix]} and {name} would both be {prefix}_… in the script's environment",
                hint="rename one of them",
            )
        dataids = [item.dataid for item in claim.inputs if item.datasetid == name] if itemtype == IN else [claim.dataid]
        facts: dict[str, Any] = {field: getattr(dataset, field) for field in FIELDS}
        facts |= {"datasetid": name, "itemtype": itemtype, "dataid": " ".join(dataids)}
        facts["location"] = " ".join(
            _location(environment, dataset, dataid, manifests.get((name, dataid))) for dataid in dataids
        )
        if name in secrets:
            facts["password"] = secrets[name]
        found |= {f"{prefix}_{field}": str(value) for field, value in facts.items()}
    return found


def _location(environment: Environment, dataset: Dataset, dataid: str, published: Published | None) -> str:
    if published is not None and published.manifest.location:
        return published.manifest.location
    return location_of(environment, dataset, dataid)


def child_environ(inherited: Mapping[str, str], job: Job, found: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The whole environment of a script, and the env items of the job that were left out because a program would obey them."""
    environ = child_environment(inherited)
    refused = [name for name in job.env if _OBEYED.fullmatch(name) or name in environ]
    items = {name: value for name, value in job.env.items() if name not in refused}
    return {**environ, **items, **found}, refused
