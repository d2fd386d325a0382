"""Unleash: make a scratch, break what works on it, ask the auditor, report, and leave nothing behind."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from ..errors import BadDefinition, JobFailed, MissingDependency, PromiseBroken, TimedOut, install_command
from ..insight.words import count
from ..project import Project, load, roots_of
from ..shapes import NamedTuple
from ..spark.java import INSTALL_JAVA, find_java
from ..spark.settings import spark_settings, without_parameters
from ..store import Store, open_store
from ..store.journal import file_system_of
from ..store.soundness import PROMISES as OF_THE_STORE
from ..tokens import secrets_in
from . import scratch as scratches
from .auditor import GOLDEN, PROMISES, breaches
from .breaking import Breaking
from .places import without_password
from .plan import DAMAGE_FILE, FREEZE_WORKER, LEASE, Fault, Settings, kinds_of, plan
from .report import (
    FORMAT,
    SURVIVED,
    Machine,
    MissedFact,
    PromiseFact,
    Report,
    check,
    command_of,
    fault_facts,
    kind_facts,
    save,
)
from .scratch import Scratch, Where, golden
from .storm import Lane
from .struck import Struck
from .workers import call

FENCED = "a worker whose lease ran out publishes nothing"
NAMED = "a damaged file is refused by its name"
TIDY = "no worker ends in an error that nobody named"
_SCRIPTS = ("drain", "make", "use", "--follow", "--workers", "2")
_SPARK = ("drain", "count", "--follow", "--workers", "2")
_SHOWN = 20  # pieces of evidence for one promise
_OUR_ROW = f"{BadDefinition.name}: a row of the store"
_TELLING = 6  # characters of a password that is in no file by chance


class Asked(NamedTuple):
    """What somebody asked for: on which project and store, how much, and whether the scratch stays."""

    project: Project
    store_url: str
    password: str | None
    settings: Settings
    keep: bool = False
    named_store: str = ""  # where the command line or ODF_STORE named it


def check_machine(asked: Asked, at: Where) -> None:
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


def unleash(asked: Asked, at: Where, tell: Callable[[Struck], None], say: Callable[[str], None]) -> Report:
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


def _lanes(asked: Asked, scratch: Scratch, planned: tuple[tuple[Fault, ...], ...]) -> list[Lane]:
    lanes = []
    for number, faults in enumerate(planned, 1):
        words = _SCRIPTS if number <= asked.settings.workers else _SPARK
        line = scratch.where.store.line(asked.password)
        url = scratch.store_url
        if line is not None:
            url = scratch.where.store.by_way_of(line.address.host, line.address.port, asked.password)
        lanes.append(Lane(number, faults, words, url, line))
    return lanes


# Afterwards ---------------------------------------------------------------------------------------------------------


def _report(
    asked: Asked,
    scratch: Scratch,
    store: Store,
    project: Project,
    breaking: Breaking,
    planned: tuple[tuple[Fault, ...], ...],
    began: datetime,
) -> Report:
    settings = asked.settings
    is_done = breaking.done == settings.chunks
    runs = _attempts(store)
    promises = _promises(asked, scratch, store, project, breaking, runs)
    faults = fault_facts(breaking.struck)
    outputs = 3 if settings.spark else 2
    broken = any(each.kept is False for each in promises)
    verdict = PromiseBroken.name if broken else SURVIVED if is_done else TimedOut.name
    return Report(
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
        runs,
        outputs * settings.chunks + breaking.again,
        sum(map(len, planned)),
        kind_facts(faults, kinds_of(settings, scratch.where.store.has_server)),
        promises,
        faults,
        tuple(MissedFact(fault.kind, fault.where, lane) for lane, fault in breaking.missed),
        str(scratch.folder) if asked.keep else "",
        scratch.where.store.address if asked.keep else "",
        removal_of(scratch.where) if asked.keep else "",
    )


def removal_of(at: Where) -> str:
    """The commands by which somebody removes a scratch that he had kept."""
    return f"rm -r {shlex.quote(str(at.folder))}; {at.store.removal}"


def _environment(project: Project) -> str:
    """The environment's name, where another one could be meant without it."""
    return project.environment.name if len(project.environments) > 1 else ""


def _attempts(store: Store) -> int:
    n, before = 0, None
    while page := store.runs(before=before, n=1000):
        n += sum(run.outcome != "GIVEN_BACK" for run in page)
        before = page[-1].runid
    return n


def _promises(
    asked: Asked, scratch: Scratch, store: Store, project: Project, breaking: Breaking, runs: int
) -> tuple[PromiseFact, ...]:
    hidden = [scratch.canary, *secrets_of(asked)]
    expected = golden(asked.settings.chunks, asked.settings.spark)
    if breaking.done < asked.settings.chunks:  # what was never made in time is told by the verdict
        expected = {key: content for key, content in expected.items() if _is_ready(store, *key)}
    found = breaches(store, project, golden=expected, secrets=[text.encode() for text in hidden])
    evidence: dict[str, list[str]] = {promise: [] for promise in (*PROMISES, FENCED, NAMED, TIDY)}
    for breach in found:
        evidence.setdefault(breach.promise, []).append(breach.what)
    for each in breaking.struck:
        if each.is_refused is False:
            promise = FENCED if each.fault.kind == FREEZE_WORKER else NAMED
            evidence[promise] += [f"{hit.jobid} {hit.dataid}: {each.note}" for hit in each.hits]
    evidence[TIDY] += _errors(breaking)
    untried = _untried(breaking.struck, runs, bool(expected))
    return tuple(_promise(name, those, untried.get(name)) for name, those in evidence.items())


def _promise(name: str, evidence: list[str], untried: str | None) -> PromiseFact:
    """Broken by its evidence; else not tried where it says why, else kept."""
    if evidence or untried is None:
        return PromiseFact(name, not evidence, tuple(evidence[:_SHOWN]))
    return PromiseFact(name, None, (untried,))


def _untried(struck: Sequence[Struck], runs: int, is_made: bool) -> dict[str, str]:
    """The promises that nothing could have broken, and why: they are no more kept than broken."""
    asked = {each.fault.kind for each in struck if each.is_refused is not None}
    hit = {each.fault.kind for each in struck}
    found = {} if runs else dict.fromkeys((*OF_THE_STORE, TIDY), "no run began")
    if not is_made:
        found[GOLDEN] = "no chunk was made in time"
    if DAMAGE_FILE not in asked:
        found[NAMED] = "nobody read the damaged file in time" if DAMAGE_FILE in hit else "no file was damaged"
    if FREEZE_WORKER not in asked:
        found[FENCED] = "no frozen worker was replaced in time" if FREEZE_WORKER in hit else "no worker was frozen"
    return found


def _is_ready(store: Store, datasetid: str, dataid: str) -> bool:
    chunk = store.chunk(datasetid, dataid)
    return chunk is not None and chunk.status == "READY"


def _errors(breaking: Breaking) -> Iterator[str]:
    for worker in breaking.workers.all:
        yield from (f"{worker.log.name}: {line}" for line in unnamed(worker.said))


def unnamed(said: str) -> list[str]:
    """The lines by which a worker told of an error that nobody foresaw: in a scratch, only we write the rows of the store."""
    return [line for line in said.splitlines() if line.startswith(("Traceback ", "INTERNAL:")) or _OUR_ROW in line]


def secrets_of(asked: Asked) -> list[str]:
    """The passwords that nothing may show; one that a file would hold by chance tells nothing, and is not looked for."""
    given = [*([asked.password] if asked.password else []), *secrets_in(asked.store_url)]
    public = f"{without_password(asked.store_url)} password"
    return [each for each in given if each == asked.password or (len(each) >= _TELLING and each not in public)]


def _machine(asked: Asked, at: Where, store: Store) -> Machine:
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
