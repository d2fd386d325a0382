"""The model of steering: what people say about chunks, and who has to look again then."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tests.histories.world import (
    FAILED,
    HOLD,
    PENDING,
    READY,
    RESUBMIT,
    RUNNING,
    SET_ASIDE,
    Chunk,
    Note,
    Out,
    Refused,
    World,
)

BACK, GONE = "BACK", "GONE"
SETTLED = (READY, FAILED, RESUBMIT, HOLD, PENDING)
AFTER: dict[str, dict[str | None, str]] = {
    "resubmit": dict.fromkeys(SETTLED, RESUBMIT),
    "hold": dict.fromkeys((None, *SETTLED), HOLD),
    "release": dict.fromkeys(SET_ASIDE, BACK),
    "fail": dict.fromkeys((None, *SETTLED), FAILED),
    "forget": dict.fromkeys(SETTLED, GONE),
    "recall": {**{each: each for each in SETTLED}, READY: RESUBMIT},
    "recall and hold": {**dict.fromkeys(SETTLED, HOLD), PENDING: PENDING},
}
TAKEN_AWAY = {"resubmit": RESUBMIT, "hold": HOLD, "release": FAILED, "fail": FAILED, "forget": GONE}

Change = tuple[str, str, str | None, str | None]


class Steering(World):
    """What must come out of the verbs that change a status."""

    def fold(self) -> None:
        """Act on what was typed since somebody last looked."""
        raise NotImplementedError

    def restore(self, chunks: Sequence[Chunk]) -> None:
        """What waits to be made again, and was made from exactly what stands now, is READY as it is."""
        raise NotImplementedError

    def lose(self, runid: int) -> None:
        """A run whose chunk is no longer its own."""
        raise NotImplementedError

    def say(self, chunk: Chunk, before: str | None, after: str | None) -> None:
        """An event: whether somebody called the current version bad since it was last READY."""
        if (before, after) == (READY, FAILED):
            self.called_bad.add(chunk)
        elif after == READY:
            self.called_bad.discard(chunk)

    # Candidates ------------------------------------------------------------------------------------------------------

    def settle_candidates(self, chunks: Sequence[Chunk], *, by_person: bool = False) -> None:
        """What these chunks decide about is looked at anew, at once or by the next claim."""
        for name in {name for name, _ in chunks}:
            has_dynamic = any(read.is_dynamic for _, read in self.consumers(name))
            if has_dynamic or (by_person and self.waiting_for_the_whole(name)):
                self.notes.append(Note("look", name))
        self.deferred -= self.touched(chunks)

    def look_at_the_whole(self, chunks: Iterable[Chunk]) -> None:
        """Whoever waits for all of something further down looks again."""
        for name in {name for name, _ in chunks}:
            if self.waiting_for_the_whole(name):
                self.notes.append(Note("look", name))

    def waiting_for_the_whole(self, datasetid: str) -> set[str]:
        """The jobs that read all of something that a dataset has a part in."""
        return {
            work.name
            for work in self.jobs.values()
            for read in work.reads
            if read.kind == "all"
            for job in self.upstream(read.name)
            if datasetid in (*job.writes, *(each.name for each in job.reads))
        }

    # Steering --------------------------------------------------------------------------------------------------------

    def steer(self, verb: str, name: str, dataids: Sequence[str], *, force: bool = False) -> list[Change]:
        """Do one verb to chunks and their siblings, all of it or nothing."""
        self.fold()
        changed = self.steered(verb, name, dataids, force=force)
        self.restore([(each, dataid) for each, dataid, _, after in changed if after == READY])
        return changed

    def steered(self, verb: str, name: str, dataids: Sequence[str], *, force: bool = False) -> list[Change]:
        """The same once everything is folded in."""
        producer = self.producer(name)
        group = self.written_together(name)
        chunks = [(each, dataid) for dataid in dict.fromkeys(dataids) for each in group]
        changed: list[Change] = []
        lost: list[int] = []
        for chunk in chunks:
            row = self.out.get(chunk)
            before = row.status if row else None
            if chunk[0] != name and (row is None or (verb == "release" and before not in SET_ASIDE)):
                continue
            after = self._after(verb, chunk, row, force)
            if row is not None and row.runid is not None and before == RUNNING and self.is_running(row.runid):
                lost.append(row.runid)
            waits = producer is not None and (producer.name, chunk[1]) in self.deferred
            if before == after and not (verb == "resubmit" and waits):
                continue
            changed.append((*chunk, before, after))
        for chunk in chunks:
            self.remade.pop(chunk, None)
        was = {chunk: self.out.get(chunk) for chunk in chunks}
        for runid in lost:
            self.lose(runid)
        for each, dataid, before, after in changed:
            self._put((each, dataid), was[each, dataid], before, after)
        if verb == "forget":
            for dataid in dict.fromkeys(dataids):
                self.forget_readings(name, dataid)
        if changed:
            self.settle_candidates(chunks, by_person=True)
        return changed

    def _after(self, verb: str, chunk: Chunk, row: Out | None, force: bool) -> str | None:
        before = row.status if row else None
        if row is not None and before == RUNNING:
            if not force:
                raise Refused("LOCKED")
            after: str | None = TAKEN_AWAY[verb]
        elif before in AFTER[verb]:
            after = AFTER[verb][before]
        else:
            raise Refused("BAD_TRANSITION")
        if after == BACK and row is not None:
            after = FAILED if row.held == RUNNING else row.held
            if after == READY and (*chunk, row.version) in self.recalled:
                after = RESUBMIT
        return None if after == GONE else after

    def _put(self, chunk: Chunk, row: Out | None, before: str | None, after: str | None) -> None:
        self.say(chunk, before, after)
        if after is None:
            self.out.pop(chunk, None)
            return
        producer = self.producer(chunk[0])
        known = row or Out(producer.name if producer else "outside", "")
        held = None
        if after == HOLD and row is not None:
            held = row.held if row.status == PENDING else row.status
        self.out[chunk] = known._replace(status=after, tries=0, held=held)

    def forget_readings(self, name: str, dataid: str) -> None:
        """What a chunk alone was made of is as if it had never been read."""
        producer = self.producer(name)
        for read in producer.reads if producer else ():
            if not read.is_shared:
                for each in self.mapped(read, dataid):
                    key = (read.name, each, producer.name if producer else "")
                    run = self.runs.get(self.read[key].runid or 0) if key in self.read else None
                    if run is None or run.dataid == dataid:  # else for another one, by a mapping of before
                        self.read.pop(key, None)
