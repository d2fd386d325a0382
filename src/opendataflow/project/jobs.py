"""Reads the tables [job.X], [pool.X] and [pools] of a project file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Mapping as Table
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import BY_NAME, BadConfig, UnknownPool
from ..model import Input, Job, Mapping, Pool, RetryRule, check_id, seconds
from ..model.definitions.ids import shown
from ..model.definitions.job import IGNORE, RERUN, STALE
from ..model.plain import plain
from ..tokens import holds_secret
from .locations import is_inside
from .section import COUNT, TABLE, TEXT, TEXT_TABLE, TEXTS, Section, Shape, either, nearest, one_of, quoted
from .settings import Project, is_reserved

OPTIONS: dict[str, Shape] = {
    "copy": TABLE,
    "script": TEXT,
    "folder": TEXT,
    "secrets": one_of("env", "file"),
    "batch": COUNT,
    "on_new_version": one_of(STALE, RERUN, IGNORE),
    "spark": TABLE,
    "description": TEXT,
    "owner": TEXT,
    "tags": TEXTS,
}
RETRY = ("retries", "backoff", "backoff_max", "retry_on")
KEYS = ("reads", "writes", "env", *RETRY, "lease", "timeout", "pool", "concurrency", *OPTIONS)
POOL: dict[str, Shape] = {"hours": TEXTS, "timezone": TEXT, "description": TEXT}
COPY: dict[str, Shape] = {"from": TEXT, "to": TEXT, "columns": TEXTS, "rename": TEXT_TABLE}

_NUMBER = Shape(lambda value: isinstance(value, (int, float)) and not isinstance(value, bool), "a number")
_DURATION = either(Shape(_NUMBER.fits, "a number of seconds"), Shape(TEXT.fits, 'a duration like "90s"'))


def read_job(section: Section, folder: Path) -> Job:
    """The job that a table declares."""
    with section.at():
        check_id("job", section.name)
    section.only(KEYS)
    section.refuse_passwords("it as the encryptedpass of a dataset that the job reads", skip=("env",))
    reads, writes = _reads(section), section.texts("writes")
    options = _options(section, folder)
    if "copy" in options:
        reads, writes = _copied(section, options["copy"], reads, writes)
    # Key by key, so that an error of the model names its key.
    with section.at("writes" if writes else "reads"):
        job = Job(section.name, () if writes else reads, writes)
    with section.at("reads"):
        job = replace(job, inputs=reads)
    with section.at("env"):
        job = replace(job, env=_env(section))
    job = replace(job, retry=_retry(section), options=options)
    if "lease" in section:
        job = replace(job, lease=_seconds(section, "lease"))
    if "timeout" in section:
        job = replace(job, timeout=_seconds(section, "timeout"))
    with section.at("pool"):
        return replace(job, pool=section.text("pool") or (section.name if "concurrency" in section else ""))


def read_own_pool(section: Section, pools: Iterable[Pool]) -> Pool | None:
    """The private pool that `concurrency` of a job declares, or None."""
    if "concurrency" not in section:
        return None
    if "pool" in section:
        hint = f"A job has one pool. Leave concurrency out, or set the slots of pool {section.text('pool')}."
        raise section.wrong("concurrency", "the job already has a pool", hint)
    if section.name in {pool.poolid for pool in pools}:
        hint = f'Leave concurrency out and write pool = "{section.name}", or rename the pool.'
        raise section.wrong("concurrency", f"a pool {section.name} exists already", hint)
    return Pool(section.name, section.get("concurrency", COUNT))


def is_one_at_a_time(project: Project, job: Job) -> bool:
    """Whether chunks of a job never run concurrently: its pool has one slot at all hours."""
    return any(pool.poolid == job.pool and pool.slots == 1 and "hours" not in pool.options for pool in project.pools)


def check_pool(section: Section, job: Job, known: list[str]) -> None:
    """Refuse a job whose pool is unknown."""
    if job.pool and job.pool not in known:
        hint = f"Declare it: [pool.{job.pool}]. {nearest(job.pool, known) if known else ''}"
        raise section.wrong("pool", f"there is no pool {job.pool}", hint.strip(), UnknownPool)


def read_pools(root: Section) -> list[tuple[Section, Pool]]:
    """The pools of [pool.X], and those of the short form [pools]."""
    pools = []
    for section in root.tables("pool"):
        if "places" in section:
            raise section.wrong("places", "a pool has slots, not places", "Write slots instead of places.")
        section.only(("slots", *POOL))
        options = {key: section.get(key, shape) for key, shape in POOL.items() if key in section}
        for key in options:
            with section.at(key):
                Pool("any", None, {key: options[key]})  # an error names this key
        pools.append((section, _pool(section, section.name, "slots", section.data.get("slots"), options)))
    short = root.inner("pools")
    for name, slots in short.data.items():
        if name in root.inner("pool"):
            raise short.wrong(name, f"the pool {name} is declared twice", f"Keep this one or [pool.{name}].")
        pools.append((short, _pool(short, name, quoted(name), slots, {})))
    return pools


def _pool(section: Section, name: str, key: str, slots: Any, options: dict[str, Any]) -> Pool:
    with section.at():
        check_id("pool", name)
    with section.at(key):
        return Pool(name, slots, options)


def _reads(section: Section) -> tuple[Input, ...]:
    declared = section.data.get("reads", [])
    inputs = []
    for index, item in enumerate(declared if isinstance(declared, list) else [declared]):
        key = f"reads[{index}]" if isinstance(declared, list) else "reads"
        inputs.append(_input(section, key, item))
    return tuple(inputs)


def _input(section: Section, key: str, item: object) -> Input:
    if isinstance(item, dict):
        for word in item:
            if word not in ("dataset", "mapping"):
                raise section.wrong(
                    f"{key}.{quoted(word)}", "there is no such key", nearest(word, ("dataset", "mapping"))
                )
        name, mapping = item.get("dataset"), item.get("mapping")
    else:
        name, mapping = item, None
    if not isinstance(name, str):
        hint = 'Write "flights" or { dataset = "flights", mapping = "rollup" }.'
        raise section.wrong(key, f"expected the name of a dataset, not {shown(item)}", hint)
    with section.at(key):
        return Input(name, Mapping.from_data(mapping))


def _env(section: Section) -> dict[str, str]:
    env: dict[str, str] = section.get("env", TEXT_TABLE, {})
    check_env(env)
    return env


def check_env(env: Table[str, str]) -> None:
    """Refuse env items with reserved names, and plaintext secrets."""
    for name, value in env.items():
        if is_reserved(name):
            raise BadConfig(f"{shown(name)} is set by the program itself", hint="Rename the item.")
        if holds_secret(value, f"env.{name}"):
            raise BadConfig(
                f"the item {shown(name)} is a secret in plain text",
                hint="Every reader of the store would see it. Make it the encryptedpass of a dataset that the job reads, "
                "which the script gets as $DATASET_password: odf crypt encrypt",
            )


def _retry(section: Section) -> RetryRule:
    retry = RetryRule()
    with section.at("retries"):
        retry = replace(retry, retries=section.data.get("retries", 0))
    if "backoff" in section:
        retry = replace(retry, backoff=_seconds(section, "backoff", or_none=True))
    if "backoff_max" in section:
        retry = replace(retry, backoff_max=_seconds(section, "backoff_max", or_none=True))
    outcomes = sorted(BY_NAME)
    for name in section.texts("retry_on"):
        if name not in outcomes:
            raise section.wrong("retry_on", f"there is no error {shown(name)}", nearest(name, outcomes))
    return replace(retry, on=section.texts("retry_on"))


def _seconds(section: Section, key: str, *, or_none: bool = False) -> float:
    value = section.get(key, _DURATION)
    with section.at(key):
        return 0.0 if or_none and value in (0, "0s") else seconds(value)


def _options(section: Section, folder: Path) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for key, shape in OPTIONS.items():
        if key in section:
            with section.at(key):
                options[key] = plain(section.get(key, shape), key)
    if "spark" in options:
        options["spark"] = dict(_spark(section, "spark", options["spark"]))
    if "script" in options:
        if "copy" in options:
            raise section.wrong("script", "a copy needs no code", "Keep copy or script, not both.")
        if not section.text("script") or not is_inside(str(folder / options["script"]), [str(folder)]):
            raise section.wrong(
                "script", f"{shown(options['script'])} lies outside the project", f"The project is {folder}."
            )
    if "folder" in options:
        if "copy" in options:
            raise section.wrong("folder", "a copy starts no script", "Leave folder out.")
        if not section.text("folder") or "\0" in options["folder"]:
            raise section.wrong("folder", "it is not a folder", 'Write a path, relative to this file: folder = "work".')
    return options


def _spark(section: Section, name: str, value: object) -> Iterator[tuple[str, str]]:
    """The Spark settings of one job by full name; TOML parses dotted keys as tables."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _spark(section, key if name == "spark" and key.startswith("spark.") else f"{name}.{key}", inner)
        return
    if not name.startswith("spark.sql."):
        hint = "A job can set session settings: spark.sql.… Other settings apply to the whole application: [spark]"
        raise section.wrong("spark", f"{shown(name)} cannot be set for one job", hint)
    if not isinstance(value, (str, int, float)):
        raise section.wrong("spark", f"{name}: expected a text or a number, not {shown(value)}", "")
    yield name, str(value).lower() if isinstance(value, bool) else str(value)


def _copied(
    section: Section, copy: dict[str, Any], reads: tuple[Input, ...], writes: tuple[str, ...]
) -> tuple[tuple[Input, ...], tuple[str, ...]]:
    """The inputs and outputs of a copy; `reads` may be declared too, for its mapping."""
    inner = section.inner("copy")
    inner.only(COPY)
    for key, shape in COPY.items():
        if inner.get(key, shape) is None and key in ("from", "to"):
            raise inner.wrong(key, "a copy needs this key", 'Write copy = { from = "orders", to = "orders_lake" }.')
    if "columns" in copy and not copy["columns"]:
        raise inner.wrong("columns", "the list is empty", "Leave columns out to copy all columns.")
    names = [item.datasetid for item in reads]
    for key, declared, implied in (("reads", names, copy["from"]), ("writes", list(writes), copy["to"])):
        if declared and declared != [implied]:
            raise section.wrong(key, "this differs from copy", "A copy implies reads and writes: leave them out.")
    with inner.at("from"):
        reads = reads or (Input(copy["from"]),)
    with inner.at("to"):
        return reads, (check_id("dataset", copy["to"]),)
