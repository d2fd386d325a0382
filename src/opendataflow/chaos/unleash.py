"""Unleash: make a scratch, break what works on it, ask the auditor, report, and leave nothing behind."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from ..errors import JobFailed, MissingDependency, PromiseBroken, TimedOut, install_command
from ..insight.words import count
from ..model import READY
from ..project import Project, load, roots_of
from ..spark.java import INSTALL_JAVA, find_java
from ..spark.settings import spark_settings, without_parameters
from ..store import Run, Store, open_store
from ..store.drivers.sqlite_file import file_system_of
from ..tokens import secrets_in
from . import scratch as scratches
from .breaking import Breaking
from .places import without_password
from .plan import LEASE, Fault, Settings, kinds_of, plan
from .promises import StormResult, promises
from .report import (
    FORMAT,
    SURVIVED,
    ChaosReport,
    Machine,
    MissedFact,
    check,
    command_of,
    fault_facts,
    kind_facts,
    save,
)
from .scratch import Scratch, Where, golden
from .storm import WorkerLane
from .struck import Struck
from .workers import call

_SCRIPTS = ("drain", "make", "use", "--follow", "--workers", "2")
_SPARK = ("drain", "count", "--follow", "--workers", "2")
_TELLING = 6  # characters of a password that is in no file by chance


class ChaosRequest(NamedTuple):
    """What was asked for: on which project and store, how much, and whether the scratch stays."""

    project: Project
    store_url: str
    password: str | None
    settings: Settings
    keep: bool = False
    named_store: str = ""  # where the command line or ODF_STORE named it


def check_machine(asked: ChaosRequest, at: Where) -> None:
    """Refuse before anything is made: what needs Linux, a place for report and scratch, a store, and a Java for Spark."""
    check(asked.project)
    if not os.path.isdir("/proc/self"):
        raise MissingDependency("odf chaos looks for processes in /proc", hint="Run it on Linux.")
    if asked.settings.spark:
        if find_spec("pyspark") is None:
            raise MissingDependency("pyspark is not installed", hint=f"Install it: {install_command('spark')}")
        java = find_java()
        if java.problem:
            raise MissingDependency(f"Spark cannot start: {java.problem}", hint=INSTALL_JAVA)
    scratches.check(at, asked.password)


def unleash(asked: ChaosRequest, at: Where, tell: Callable[[Struck], None], say: Callable[[str], None]) -> ChaosReport:
    """Do it all; the report is kept as the project's last one."""
    began = datetime.now(UTC)
    settings = asked.settings
    with scratches.made(asked.project, at, asked.password, settings, keep=asked.keep) as scratch:
        _prepare(scratch)
        project = load(scratch.project_file, None)
        with open_store(scratch.store_url, say=say) as store:
            store.roots = lambda: roots_of(project, scratch.store_url)
            breaking = Breaking(store, project, scratch, settings, tell)
            planned = plan(settings, at.store.has_server)
            lanes = _lanes(asked, scratch, planned)
            try:
                breaking.run(lanes)
            finally:
                breaking.workers.end()
                for lane in lanes:
                    if lane.line is not None:
                        lane.line.close()
            say(f"asking the auditor about {count(settings.chunks, 'chunk')}")
            report = _report(asked, scratch, store, project, breaking, planned, began)
    save(asked.project, report)
    return report


def _prepare(scratch: Scratch) -> None:
    done = call(scratch, "apply", "--yes")
    if done.returncode:
        raise JobFailed(f"the scratch flow could not be registered: {done.stderr.strip()[-500:]}")


def _lanes(asked: ChaosRequest, scratch: Scratch, planned: tuple[tuple[Fault, ...], ...]) -> list[WorkerLane]:
    lanes = []
    for number, faults in enumerate(planned, 1):
        words = _SCRIPTS if number <= asked.settings.workers else _SPARK
        line = scratch.where.store.line(asked.password)
        url = scratch.store_url
        if line is not None:
            url = scratch.where.store.by_way_of(line.address.host, line.address.port, asked.password)
        lanes.append(WorkerLane(number, faults, words, url, line))
    return lanes


# Afterwards ---------------------------------------------------------------------------------------------------------


def _report(
    asked: ChaosRequest,
    scratch: Scratch,
    store: Store,
    project: Project,
    breaking: Breaking,
    planned: tuple[tuple[Fault, ...], ...],
    began: datetime,
) -> ChaosReport:
    settings = asked.settings
    is_done = breaking.done == settings.chunks
    runs = _runs(store)
    hidden = [scratch.key, scratch.password, *secrets_of(asked)]
    said = {worker.log.name: worker.said for worker in breaking.workers.all}
    early = list(breaking.early.values())
    after = StormResult(project, runs, breaking.struck, said, early, scratch.where.store.has_server)
    facts = promises(store, after, _golden(store, asked, is_done), hidden)
    faults = fault_facts(breaking.struck)
    outputs = 3 if settings.spark else 2
    broken = any(each.kept is False for each in facts)
    verdict = PromiseBroken.name if broken else SURVIVED if is_done else TimedOut.name
    return ChaosReport(
        FORMAT,
        verdict,
        began.isoformat(timespec="seconds"),
        round(breaking.seconds, 1),
        settings.seed,
        command_of(settings, asked.named_store, _environment(asked.project)),
        _machine(asked, scratch.where, store),
        LEASE,
        settings.workers,
        settings.chunks,
        breaking.done,
        sum(run.outcome != "GIVEN_BACK" for run in runs),
        outputs * settings.chunks + breaking.again,
        sum(map(len, planned)),
        kind_facts(faults, kinds_of(settings, scratch.where.store.has_server)),
        facts,
        faults,
        tuple(MissedFact(fault.kind, fault.where, lane) for lane, fault in breaking.missed),
        str(scratch.folder) if asked.keep else "",
        scratch.where.store.address if asked.keep else "",
        removal_of(scratch.where) if asked.keep else "",
    )


def removal_of(at: Where) -> str:
    """The commands that remove a scratch that was kept."""
    return f"rm -r {shlex.quote(str(at.folder))}; {at.store.removal}"


def _environment(project: Project) -> str:
    """The environment's name, where another one could be meant without it."""
    return project.environment.name if len(project.environments) > 1 else ""


def _runs(store: Store) -> list[Run]:
    found: list[Run] = []
    while page := store.views.runs(before=found[-1].runid if found else None, n=1000):
        found += page
    return found


def _golden(store: Store, asked: ChaosRequest, is_done: bool) -> dict[tuple[str, str], bytes]:
    """The expected content by chunk, without chunks that were not made in time: the verdict names those."""
    expected = golden(asked.settings.chunks, asked.settings.spark)
    return expected if is_done else {key: content for key, content in expected.items() if _is_ready(store, *key)}


def _is_ready(store: Store, datasetid: str, dataid: str) -> bool:
    chunk = store.views.chunk(datasetid, dataid)
    return chunk is not None and chunk.status == READY


def secrets_of(asked: ChaosRequest) -> list[str]:
    """The passwords that nothing may show; one that a file would hold by chance tells nothing, and is not looked for."""
    given = [*([asked.password] if asked.password else []), *secrets_in(asked.store_url)]
    public = f"{without_password(asked.store_url)} password"
    return [each for each in given if each == asked.password or (len(each) >= _TELLING and each not in public)]


def _machine(asked: ChaosRequest, at: Where, store: Store) -> Machine:
    folder = at.folder.parent
    settings = spark_settings(asked.project.spark) if asked.settings.spark else {}
    spark = settings.get("spark.master") or without_parameters(settings.get("spark.remote", ""))
    return Machine(
        os.uname().nodename,
        at.store.shown,
        store.database(),
        str(folder),
        file_system_of(Path(folder)) or "an unknown file system",
        spark,
        version("opendataflow"),
    )
