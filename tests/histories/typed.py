"""The model of what people type as SQL, and of definitions that change: rows change at once, and a note waits."""

from __future__ import annotations

from tests.histories.flows import Work
from tests.histories.model import Model
from tests.histories.world import FAILED, RESUBMIT, RUNNING, SET_ASIDE, Chunk, Note, Out, Reading

SYNONYMS = {"COMPLETE": "READY", "ERROR": "FAILED", "RERUN": "RESUBMIT"}
SOMEBODY = "me"


class Typed(Model):
    """The whole model."""

    def type_out(self, chunk: Chunk, word: str | None = None) -> None:
        """Somebody updates the status of a chunk, or only another column of its row."""
        row = self.out.get(chunk)
        if row is None:
            return
        status = row.status if word is None else SYNONYMS.get(word.upper(), word.upper())
        held = row.status if status in SET_ASIDE and row.status not in SET_ASIDE else row.held
        self.out[chunk] = row._replace(status=status, held=held)
        self._typed(Note("OUT", *chunk, row.jobid, row.status, status))

    def _typed(self, note: Note) -> None:
        """The history has it at once, the next claim acts on it."""
        self.say((note.datasetid, note.dataid), note.before, note.after)
        self.notes.append(note)

    def type_in(self, key: tuple[str, str, str], word: str) -> None:
        """Somebody updates one job's relation to a chunk."""
        row = self.read.get(key)
        if row is None:
            return
        status = SYNONYMS.get(word.upper(), word.upper())
        if status == RESUBMIT:
            status = RUNNING if row.status == RUNNING else FAILED
        self.read[key] = row._replace(status=status)
        self.notes.append(Note("IN", *key, row.status, status))

    def insert_out(self, chunk: Chunk, word: str) -> None:
        """Somebody writes the row of a chunk that has none."""
        status = SYNONYMS.get(word.upper(), word.upper())
        self.out[chunk] = Out(SOMEBODY, status)
        self._typed(Note("OUT", *chunk, SOMEBODY, None, status))

    def insert_in(self, key: tuple[str, str, str], word: str) -> None:
        """Somebody writes a relation that is not there."""
        status = SYNONYMS.get(word.upper(), word.upper())
        self.read[key] = Reading(status)
        self.notes.append(Note("IN", *key, None, status))

    def delete_out(self, chunk: Chunk) -> None:
        """Somebody deletes the row of a chunk."""
        row = self.out.pop(chunk, None)
        if row is not None:
            self._typed(Note("OUT", *chunk, row.jobid, row.status, None))

    def delete_in(self, key: tuple[str, str, str]) -> None:
        """Somebody deletes a relation."""
        row = self.read.pop(key, None)
        if row is not None:
            self.notes.append(Note("IN", *key, row.status, None))

    def resubmit_by_hand(self, jobid: str, dataid: str, word: str) -> None:
        """UPDATE datastatus SET status = … WHERE jobid = … AND dataid = …, as the original has it."""
        for chunk, row in list(self.out.items()):
            if (row.jobid, chunk[1]) == (jobid, dataid):
                self.type_out(chunk, word)
        for key in list(self.read):
            if key[1:] == (dataid, jobid):
                self.type_in(key, word)

    def expire(self, runid: int) -> None:
        """The lease of a run is over, and nobody has noticed."""
        if self.runs[runid].status == RUNNING:
            self.runs[runid] = self.runs[runid]._replace(is_expired=True)

    def define(self, work: Work) -> None:
        """A job is registered as this."""
        if self.jobs.get(work.name) != work:
            self.jobs[work.name] = work
            self.notes.append(Note("job", jobid=work.name))

    def undefine(self, jobid: str) -> None:
        """A job is no longer registered."""
        if self.jobs.pop(jobid, None) is not None:
            self.notes.append(Note("job", jobid=jobid))
