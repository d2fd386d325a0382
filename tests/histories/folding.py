"""The model of folding in, and of how a run ends: what was typed takes effect before the next claim looks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.histories.freshness import Freshness
from tests.histories.world import FAILED, LOST, READY, RESUBMIT, RUNNING, Chunk, Note, Out


class Folding(Freshness):
    """What becomes of rows that somebody changed, and of runs that had them."""

    # The end of a run ---------------------------------------------------------------------------------------------------

    def held_by(self, runid: int) -> list[Chunk]:
        """The chunks that a run still has."""
        run = self.runs[runid]
        return [
            chunk
            for chunk, row in self.out.items()
            if (row.status, row.runid, row.epoch, chunk[1]) == (RUNNING, runid, run.epoch, run.dataid)
        ]

    def end(self, runid: int, status: str, out: str, reading: str) -> list[Chunk]:
        """End a run and what it holds; the chunks that it held."""
        run = self.runs[runid]
        if run.status != RUNNING:
            return []
        held = self.held_by(runid)
        for chunk in held:
            row = self.out[chunk]
            self.say(chunk, RUNNING, out)
            row = row._replace(status=out)
            self.out[chunk] = row._replace(version=row.epoch, tries=0) if out == READY else row
        for name, dataid, _ in run.inputs:
            row_in = self.read.get((name, dataid, run.jobid))
            if row_in is not None and (row_in.status, row_in.runid) == (RUNNING, runid):
                self.read[name, dataid, run.jobid] = row_in._replace(status=reading)
        self.runs[runid] = run._replace(status=status)
        return held

    def lose(self, runid: int) -> None:
        """A run whose chunk is no longer its own."""
        self.end(runid, LOST, FAILED, FAILED)

    # Folding ---------------------------------------------------------------------------------------------------------

    def fold(self) -> None:
        """Act on what was typed since somebody last looked."""
        if not self.notes:
            return
        notes, self.notes = self.notes, []
        typed = [note for note in notes if note.what == "OUT"]
        chunks = list(dict.fromkeys((note.datasetid, note.dataid) for note in typed))
        rows = {chunk: self.out[chunk] for chunk in chunks if chunk in self.out}
        for chunk, row in rows.items():
            self.out[chunk] = row._replace(tries=0)
        for chunk in chunks:
            self.remade.pop(chunk, None)
        for chunk, row in rows.items():
            if row.status == READY and (*chunk, row.version) in self.recalled:
                self.say(chunk, READY, RESUBMIT)
                self.out[chunk] = self.out[chunk]._replace(status=RESUBMIT, tries=0, held=None)
        for row in rows.values():
            if row.runid in self.runs and self.runs[row.runid].status == RUNNING and row.status != RUNNING:
                self.lose(row.runid)
        gone = self._forget_deleted([note for note in typed if note.after is None], rows)
        again = {chunk for chunk, row in rows.items() if row.status == RESUBMIT} | gone
        siblings = self._siblings(again)
        for chunk in siblings:
            self.say(chunk, self.out[chunk].status, RESUBMIT)
            self.out[chunk] = self.out[chunk]._replace(status=RESUBMIT, tries=0, held=None)
        self.restore([chunk for chunk, row in rows.items() if row.status == READY])
        self.deferred -= self.touched([*chunks, *siblings])
        self._undefer(notes)

    def _forget_deleted(self, deletions: Sequence[Note], rows: Mapping[Chunk, Out]) -> set[Chunk]:
        """Rows that somebody deleted: their runs are over, and what they alone had read is as if it had never been."""
        for note in deletions:
            for runid, run in list(self.runs.items()):
                if (run.jobid, run.dataid, run.status) == (note.jobid, note.dataid, RUNNING):
                    self.lose(runid)
            self.forget_readings(note.datasetid, note.dataid)
        return {(note.datasetid, note.dataid) for note in deletions} - set(rows)

    def _siblings(self, given: set[Chunk]) -> list[Chunk]:
        found: dict[Chunk, None] = {}
        for name, dataid in given:
            for other in self.written_together(name):
                chunk = (other, dataid)
                if chunk not in given and chunk in self.out and self.out[chunk].status in (READY, FAILED):
                    found[chunk] = None
        return list(found)

    def _undefer(self, notes: Sequence[Note]) -> None:
        """Whatever is looked at again need not wait any more."""
        fitting = self._fitting([note for note in notes if note.what == "IN"])
        for note in notes:
            if note.what == "IN" and note.jobid in self.jobs and note in fitting:
                for read in self.jobs[note.jobid].reads:
                    if read.name == note.datasetid and not read.is_dynamic:
                        self.deferred -= {
                            (note.jobid, each)
                            for each in self.outputs(self.jobs[note.jobid])
                            if note.dataid in self.mapped(read, each)
                        }
            if note.what == "job":
                self.deferred -= {pair for pair in self.deferred if pair[0] == note.jobid}
        changed = {note.datasetid for note in notes if note.datasetid}
        for datasetid in self.datas if any(note.what == "job" for note in notes) else changed:
            again = {work.name for work, read in self.consumers(datasetid) if read.is_dynamic}
            again |= self.waiting_for_the_whole(datasetid)
            self.deferred -= {pair for pair in self.deferred if pair[0] in again}

    def _fitting(self, notes: Sequence[Note]) -> set[Note]:
        """The notes on relations that tell what became of them: not where a run has ended since."""
        now: dict[Chunk, set[str | None]] = {}
        fits = set()
        for note in reversed(notes):
            chunk = (note.datasetid, note.dataid)
            there = {row.status for (*at, _), row in self.read.items() if tuple(at) == chunk}
            expected = now.setdefault(chunk, {None, *there} if there else {None})
            if note.after in expected:
                fits.add(note)
                expected.add(note.before)
        return fits
