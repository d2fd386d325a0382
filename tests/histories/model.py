"""The protocol as a model: what claims, runs and the outside do to the rows, and what is folded in before them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tests.histories.flows import Work
from tests.histories.folding import Folding
from tests.histories.world import (
    DONE,
    FAILED,
    LOST,
    READY,
    REFUSED,
    RESUBMIT,
    RUNNING,
    SET_ASIDE,
    Chunk,
    Made,
    Out,
    Reading,
    Refused,
    Run,
    Version,
)

CRASHES = 2  # a crash is tried again so often without being asked for

Contents = Mapping[str, str | None]  # of a run's outputs, by dataset


class Take(NamedTuple):
    """A claim as the model expects it."""

    dataid: str
    epoch: int
    tries: int
    was_resubmit: bool
    forced: bool
    inputs: tuple[Version, ...]


class Model(Folding):
    """What must come out of the verbs of a run; those of people are in the class that this one builds on."""

    # Claim -----------------------------------------------------------------------------------------------------------

    def claim(self, jobid: str, n: int = 1, dataid: str | None = None, force: bool = False) -> list[Take]:
        """What the next claim gets."""
        self.fold()
        if jobid not in self.jobs:
            raise Refused("UNKNOWN_JOB")
        self.rescue(folded=True)
        work = self.jobs[jobid]
        if dataid is not None:
            self.deferred.discard((jobid, dataid))  # a chunk that somebody names need not wait
        if force and dataid is not None:
            there = [self.out.get((name, dataid)) for name in work.writes]
            wanted = [] if any(row is not None and row.status == RUNNING for row in there) else [dataid]
        else:
            free = self.free(work)
            if dataid is None:
                wanted = self.candidates(jobid)[: min(n, free)]
            else:
                wanted = [dataid] if free and self.is_claimable(work, dataid, asked_for=True) else []
        takes = []
        for each in wanted:
            read = [
                (*chunk, self.out[chunk].version if chunk in self.out else 0)
                for chunk in self.needed(work, each).chunks
            ]
            was_resubmit = not force and self.is_again(work, each)
            epoch, tries = self.epoch(work, each), self.tries(work, each) + 1
            takes.append(Take(each, epoch, tries, was_resubmit, force, tuple(sorted(read))))
        return takes

    def took(self, jobid: str, take: Take, runid: int) -> None:
        """A claim was given its number."""
        work = self.jobs[jobid]
        self.deferred.discard((jobid, take.dataid))
        self.runs[runid] = Run(jobid, take.dataid, take.epoch, RUNNING, work.pool, take.forced, take.inputs, work.lease)
        for name in work.writes:
            before = self.out.get((name, take.dataid))
            held = before.status if before and take.forced else None
            version = before.version if before else 0
            self.out[name, take.dataid] = Out(jobid, RUNNING, take.epoch, version, runid, take.tries, held)
        for name, dataid, version in take.inputs:
            self.read[name, dataid, jobid] = Reading(RUNNING, version, runid)
        if take.forced or not work.reads:
            self.settle_candidates([(name, take.dataid) for name in work.writes], by_person=True)

    # The end of a run ---------------------------------------------------------------------------------------------------

    def commit(self, done: Sequence[tuple[int, Sequence[str], bool, Contents]]) -> None:
        """Publish runs (runid, outputs, whether it was resubmitted, contents), all of them or none."""
        chunks: list[Chunk] = []
        is_wrong = self._repeats_wrongly([(self.runs[runid], contents) for runid, _, _, contents in done])
        for runid, outputs, _, contents in done:
            run = self.runs[runid]
            if len(self.end(runid, READY, READY, DONE)) < len(outputs):
                raise Refused("LEASE_LOST")
            for name in outputs:
                chunk = (name, run.dataid)
                chunks.append(chunk)
                self.keep(chunk, run.epoch, Made(contents.get(name), run.inputs))
        if is_wrong:
            raise Refused("WRONG_DATA")
        self.settle_candidates(chunks)
        runs = [(self.runs[runid], again) for runid, _, again, _ in done]
        are_new = all(run.epoch == 1 and not again and not run.forced for run, again in runs)
        read = [item for run, _ in runs for item in run.inputs]
        is_superseded = any(item[:2] in self.out and self.out[item[:2]].version != item[2] for item in read)
        if not are_new or is_superseded:
            self.renewed(chunks)
        self.look_at_the_whole(chunks)

    def keep(self, chunk: Chunk, version: int, made: Made) -> None:
        """Remember a version and what it was made from; once, whoever says it again."""
        self.made.setdefault(chunk, {}).setdefault(version, made)
        for name, dataid, read in made.inputs:
            self.links.setdefault(((name, dataid), (*chunk, version)), read)

    def _repeats_wrongly(self, done: Sequence[tuple[Run, Contents]]) -> bool:
        """Whether something that runs made has the content of another chunk, or of one that is published with it, and may not."""
        products = sorted(
            (name, fingerprint, run.dataid, run.inputs)
            for run, contents in done
            for name, fingerprint in contents.items()
            if fingerprint
        )
        before: dict[tuple[str, str], list[Made]] = {}
        for name, fingerprint, dataid, inputs in products:
            made, beside = Made(fingerprint, inputs), before.setdefault((name, fingerprint), [])
            if self.is_wrong_repeat((name, dataid), made, beside):
                return True
            beside.append(made)
        return False

    def is_wrong_repeat(self, chunk: Chunk, made: Made, beside: Sequence[Made] = ()) -> bool:
        """Whether another chunk has this content, and was made from the same, or nobody knows what this one was made from."""
        same = [*self._standing(*chunk, made.fingerprint), *beside] if made.fingerprint else []
        read = self._contents(made)
        return bool(same) and (not read or any(self._contents(other) == read for other in same))

    def _contents(self, made: Made) -> set[tuple[str, str]]:
        """What something was made from, as far as its content is known."""
        versions = ((name, self.made.get((name, dataid), {}).get(version)) for name, dataid, version in made.inputs)
        return {(name, read.fingerprint) for name, read in versions if read and read.fingerprint}

    def _standing(self, name: str, dataid: str, fingerprint: str) -> list[Made]:
        """The other chunks of a dataset that stand with this content."""
        others = [
            self.made.get((other, each), {}).get(row.version)
            for (other, each), row in self.out.items()
            if other == name and each != dataid and row.status in (READY, *SET_ASIDE)
        ]
        return [made for made in others if made is not None and made.fingerprint == fingerprint]

    def fail(self, runid: int, tries: int, outcome: str, outputs: Sequence[str]) -> str:
        """A run failed, or was stopped, which is no try; what its chunk becomes."""
        run, is_stopped = self.runs[runid], outcome == "STOPPED"
        work = self.jobs.get(run.jobid)
        again = work is not None and (is_stopped or (not run.forced and _applies(work, tries, outcome)))
        status = RESUBMIT if again else FAILED
        held = self.end(runid, LOST if is_stopped else FAILED, status, FAILED)
        if len(held) < len(outputs):
            raise Refused("LEASE_LOST")
        for chunk in held if is_stopped else ():
            self.out[chunk] = self.out[chunk]._replace(tries=max(self.out[chunk].tries - 1, 0))
        if work is not None and again:
            self._come_back(work, run.dataid, waited=math.inf if is_stopped else 0.0)
        return status

    def _come_back(self, work: Work, dataid: str, waited: float) -> None:
        self.deferred.discard((work.name, dataid))
        if work.backoff > waited and self.is_claimable(work, dataid):
            self.deferred.add((work.name, dataid))

    def rescue(self, *, folded: bool = False) -> list[tuple[int, str]]:
        """End what is silent for too long: (runid, what its chunk became)."""
        if not folded:
            self.fold()
        ended = []
        for runid, run in sorted(self.runs.items()):
            if run.status != RUNNING or not run.is_expired:
                continue
            work = self.jobs.get(run.jobid)
            rows = [row for name in (work.writes if work else ()) if (row := self.out.get((name, run.dataid)))]
            tries = max((row.tries for row in rows if row.runid == runid), default=1)
            again = work is not None and _applies(work, tries, "LEASE_LOST")
            status = RESUBMIT if again else FAILED
            self.end(runid, LOST, status, FAILED)
            if work is not None and again:
                self._come_back(work, run.dataid, waited=run.lease)
            ended.append((runid, status))
        return ended

    def give_back(self, runid: int, outputs: Sequence[str], was_resubmit: bool, wait: float) -> None:
        """Undo a claim."""
        run = self.runs[runid]
        if run.status != RUNNING or len(self.held_by(runid)) < len(outputs):
            raise Refused("LEASE_LOST")
        was = {chunk: self.out[chunk] for chunk in self.held_by(runid)}
        is_kept = was_resubmit or any(row.held for row in was.values())
        for name, dataid, _ in run.inputs:
            key = (name, dataid, run.jobid)
            row_in = self.read.get(key)
            if row_in is not None and row_in.runid == runid and not is_kept:
                del self.read[key]
            elif row_in is not None and (row_in.status, row_in.runid) == (RUNNING, runid):
                self.read[key] = row_in._replace(status=FAILED)
        for chunk, row in was.items():
            if run.forced and row.held:
                status = RESUBMIT if row.held == READY and (*chunk, row.version) in self.recalled else row.held
                self.out[chunk] = row._replace(status=status, runid=None, tries=0, held=None)
            elif was_resubmit:
                self.out[chunk] = row._replace(status=RESUBMIT, runid=None, tries=max(row.tries - 1, 0))
            else:
                del self.out[chunk]
        self.runs[runid] = run._replace(status=REFUSED)
        work = self.jobs.get(run.jobid)
        if not was_resubmit:
            self.settle_candidates(list(was), by_person=True)
        self.deferred.discard((run.jobid, run.dataid))
        if wait and work is not None and self.is_claimable(work, run.dataid):
            self.deferred.add((run.jobid, run.dataid))

    def heartbeat(self, runid: int) -> None:
        """A sign of life."""
        run = self.runs[runid]
        work = self.jobs.get(run.jobid)
        held = {name for name, _ in self.held_by(runid)} & set(work.writes if work else ())
        if run.status != RUNNING or not held:
            raise Refused("LEASE_LOST")
        self.runs[runid] = run._replace(is_expired=False)

    def claim_of(self, runid: int) -> int:
        """The hand-shake: the tries of a run that still runs."""
        run = self.runs[runid]
        if run.jobid not in self.jobs:
            raise Refused("UNKNOWN_JOB")
        if run.status != RUNNING:
            raise Refused("LEASE_LOST")
        rows = [self.out.get((name, run.dataid)) for name in self.jobs[run.jobid].writes]
        return max((row.tries for row in rows if row), default=1)

    def cancel(self, runid: int) -> None:
        """A person ends a run."""
        self.fold()
        outputs = [
            chunk for chunk, row in self.out.items() if row.runid == runid and chunk[1] == self.runs[runid].dataid
        ]
        if self.runs[runid].status != RUNNING or not outputs:
            raise Refused("BAD_TRANSITION")
        if len(self.end(runid, FAILED, FAILED, FAILED)) != len(outputs):
            raise Refused("BAD_TRANSITION")

    # From outside ----------------------------------------------------------------------------------------------------

    def announce(
        self, name: str, dataids: Sequence[str], contents: Contents, *, only_new: bool = False, again: bool = False
    ) -> tuple[list[str], list[str]]:
        """Something outside produced chunks: those that became READY, and those that are as they were."""
        news: dict[str, int] = {}
        renewed: list[Chunk] = []
        told: dict[str, str] = {}
        for dataid in dict.fromkeys(dataids):
            chunk = (name, dataid)
            row = self.out.get(chunk)
            fingerprint = contents.get(dataid)
            if row is not None:
                if row.status in (RUNNING, *SET_ASIDE) or only_new:
                    raise Refused("LOCKED")
                if not again and row.status == READY and self._is_told(chunk, row.version, contents):
                    continue
            if dataid in contents and not again:
                called = [version for *where, version in self.recalled if tuple(where) == chunk]
                if any(self._is_told(chunk, version, contents) for version in called):
                    raise Refused("WRONG_DATA")
            if fingerprint is not None and (
                self._standing(name, dataid, fingerprint) or told.setdefault(fingerprint, dataid) != dataid
            ):
                raise Refused("WRONG_DATA")
            news[dataid] = self._next_version(chunk, row)
            if row is not None or self.versions(chunk):
                renewed.append(chunk)
        for dataid, version in news.items():
            chunk = (name, dataid)
            row = self.out.get(chunk, Out("outside", ""))
            self.say(chunk, row.status or None, READY)
            self.out[chunk] = row._replace(status=READY, epoch=version, version=version, tries=0, held=None)
            if dataid in contents:
                self.keep(chunk, version, Made(contents[dataid]))
        if news:
            self.settle_candidates([(name, dataid) for dataid in news], by_person=True)
        if renewed:
            self.renewed(renewed)
        return list(news), [dataid for dataid in dict.fromkeys(dataids) if dataid not in news]

    def _is_told(self, chunk: Chunk, version: int, contents: Contents) -> bool:
        """Whether a version is, as far as anybody can tell, what is announced."""
        if chunk[1] not in contents:
            return True
        stored = self.made.get(chunk, {}).get(version)
        told = contents[chunk[1]]
        return stored is not None and (told is None or stored.fingerprint == told)

    def versions(self, chunk: Chunk) -> list[int]:
        """Every version that a chunk is known to have had; 0 where a forced run did without it."""
        known = list(self.made.get(chunk, {}))
        known += [read for (item, _), read in self.links.items() if item == chunk]
        return known + [version for *where, version in self.recalled if tuple(where) == chunk]

    def _next_version(self, chunk: Chunk, row: Out | None) -> int:
        known = self.versions(chunk)
        if row is not None:
            known += [row.epoch, row.version]
        return 1 + max(known, default=0)


def _applies(work: Work, tries: int, outcome: str) -> bool:
    if not work.retry_on and outcome == "LEASE_LOST":
        return tries <= max(work.retries, CRASHES)
    return tries <= work.retries and (not work.retry_on or outcome in work.retry_on)
