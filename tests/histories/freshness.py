"""The model of versions: rollback, recall, what is stale, and what need not be made again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tests.histories.steering import Change, Steering
from tests.histories.world import FAILED, READY, RESUBMIT, RUNNING, SET_ASIDE, Chunk, Made, Out, Refused, Version


class Freshness(Steering):
    """What must come out of the verbs that change which version stands."""

    def is_wrong_repeat(self, chunk: Chunk, made: Made) -> bool:
        """Whether another chunk stands with this content, which makes it wrong."""
        raise NotImplementedError

    # Rollback --------------------------------------------------------------------------------------------------------

    def rollback(self, name: str, dataid: str, to: int | None = None) -> list[tuple[str, str, int, int]]:
        """Let a chunk, and what was written with it, be another published version."""
        self.fold()
        row = self._settled((name, dataid))
        version = self._version_to_be((name, dataid), row) if to is None else to
        changed = []
        for each in self.written_together(name):
            chunk = (each, dataid)
            row = self._settled(chunk)
            if (row.status, row.version) == (READY, version) and each != name:
                continue
            self._must_be_there(chunk, row, version)
            changed.append((*chunk, row.version, version))
        is_back = False
        for each, _, _, _ in changed:
            chunk = (each, dataid)
            row = self.out[chunk]
            is_back |= row.status != READY
            self.say(chunk, row.status, READY)
            self.out[chunk] = row._replace(status=READY, version=version, tries=0, held=None)
        chunks = [(each, dataid) for each, *_ in changed]
        if is_back:
            self.settle_candidates(chunks, by_person=True)
        self.renewed(chunks, by_person=True)
        return changed

    def _settled(self, chunk: Chunk) -> Out:
        row = self.out.get(chunk)
        if row is None or row.status not in (READY, FAILED, RESUBMIT):
            raise Refused("BAD_TRANSITION")
        return row

    def _version_to_be(self, chunk: Chunk, row: Out) -> int:
        is_off_line = row.status != READY and chunk not in self.called_bad
        for version in sorted(self.made.get(chunk, {}), reverse=True):
            is_before = version < row.version or (is_off_line and version == row.version)
            if is_before and (*chunk, version) not in self.recalled | self.vacuumed:
                return version
        raise Refused("BAD_TRANSITION")

    def _must_be_there(self, chunk: Chunk, row: Out, version: int) -> None:
        versions = self.made.get(chunk, {})
        if (row.status, row.version) == (READY, version) or version not in versions:
            raise Refused("BAD_TRANSITION")
        fingerprint = versions[version].fingerprint
        for *where, other in self.recalled:
            known = versions.get(other)
            same = known is not None and known.fingerprint is not None and known.fingerprint == fingerprint
            if tuple(where) == chunk and (other == version or same):
                raise Refused("BAD_TRANSITION")
        if (*chunk, version) in self.vacuumed:
            raise Refused("BAD_TRANSITION")
        if self.is_wrong_repeat(chunk, versions[version]):
            raise Refused("WRONG_DATA")

    def vacuum(self, name: str, old: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
        """The files of old versions are to go: those that may."""
        free = []
        for dataid, version in dict.fromkeys(old):
            row = self.out.get((name, dataid))
            is_read = any(
                (reading.status, reading.version) == (RUNNING, version)
                for (each, at, _), reading in self.read.items()
                if (each, at) == (name, dataid)
            ) or any((name, dataid, version) in run.inputs for run in self.runs.values() if run.status == RUNNING)
            if not is_read and not (row and row.version == version):
                free.append((dataid, version))
                self.vacuumed.add((name, dataid, version))
        return free

    # Recall ----------------------------------------------------------------------------------------------------------

    def recall(self, name: str, dataid: str, *, cascade: bool, hold: bool) -> tuple[set[Version], set[int]]:
        """Nobody reads the current version again: the versions, and the runs that lose their chunk."""
        self.fold()
        row = self.out.get((name, dataid))
        if row is None or not (row.version or row.status == READY):
            raise Refused("BAD_TRANSITION")
        bad = {(name, dataid, row.version)}
        while cascade:
            more = {made for (chunk, made), read in self.links.items() if (*chunk, read) in bad} | {
                (*chunk, version)
                for chunk, versions in self.made.items()
                for version, made in versions.items()
                for other in versions
                if made.fingerprint and (*chunk, other) in bad and versions[other].fingerprint == made.fingerprint
            }
            if more <= bad:
                break
            bad |= more
        lost = {runid for runid, run in self.runs.items() if run.status == RUNNING and bad & set(run.inputs)}
        for each, dataids in self._by_group(
            [at[:2] for at in bad if at[:2] in self.out and self.out[at[:2]].version == at[2]]
        ).items():
            standing = [at for at in dataids if self.out[each, at].status != RUNNING]
            self.steered("recall and hold" if hold else "recall", each, standing)
        taken = [
            chunk for chunk, row in self.out.items() if row.runid in lost and chunk[1] == self.runs[row.runid].dataid
        ]
        for runid in lost:
            self.lose(runid)
        self.recalled |= bad
        for each, dataids in self._by_group(taken).items():
            self.steered("resubmit", each, dataids)
        return bad, lost

    def _by_group(self, chunks: Iterable[Chunk]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        seen = set()
        for name, dataid in sorted(chunks):
            group = (self.written_together(name), dataid)
            if group not in seen:
                seen.add(group)
                found.setdefault(name, []).append(dataid)
        return found

    # Stale -----------------------------------------------------------------------------------------------------------

    def renewed(self, chunks: Sequence[Chunk], *, by_person: bool = False) -> None:
        """These chunks have another version: what their readers' jobs want done about it, and what need not be made again."""
        again: list[Chunk] = []
        for chunk in chunks:
            self.remade.pop(chunk, None)
        for chunk in self._superseded():
            producer = self.producer(chunk[0])
            involved = chunk in chunks or any(item in chunks for item in self._superseding(chunk))
            if producer is None or producer.on_new_version != "rerun" or not involved:
                continue
            if self.out[chunk].status == READY and not (by_person and chunk in chunks):
                again.append(chunk)
        self.remake(again, folded=True)
        self.restore(chunks)

    def _superseding(self, chunk: Chunk, *, least: int = 0) -> list[Chunk]:
        """What the current version of a chunk was made from, where another version stands now, with other content."""
        found = []
        for (item, made), read in self.links.items():
            now = self.out.get(item)
            if made != (*chunk, self.out[chunk].version) or now is None or now.version == read or item == chunk:
                continue
            if now.version >= least and not self._are_same(item, read, now.version):
                found.append(item)
        return found

    def _are_same(self, chunk: Chunk, one: int, other: int) -> bool:
        versions = self.made.get(chunk, {})
        if one not in versions or other not in versions or versions[one].fingerprint is None:
            return False
        return versions[one].fingerprint == versions[other].fingerprint

    def _superseded(self, *, least: int = 0) -> list[Chunk]:
        return [chunk for chunk in sorted(self.out) if self._superseding(chunk, least=least)]

    def stale(self, *, least: int = 0) -> set[tuple[str, str, bool]]:
        """Every chunk that was made from what is no longer current; whether it itself was.

        Somebody may have deleted the row of an input, so that it has no version at all: the protocol does not say whether
        what was made from it is stale then, and least = 1 says that it is not.
        """
        ignoring = {name for work in self.jobs.values() if work.on_new_version == "ignore" for name in work.writes}
        direct = {chunk for chunk in self._superseded(least=least) if chunk[0] not in ignoring}
        found = set(direct)
        while True:
            more = {
                made[:2]
                for item, made in self.links
                if item in found
                and made[0] not in ignoring
                and made[:2] in self.out
                and self.out[made[:2]].version == made[2]
                and made[:2] != item
            }
            if more <= found:
                return {(*chunk, chunk in direct) for chunk in found}
            found |= more

    def remake(self, chunks: Iterable[Chunk], *, folded: bool = False) -> list[Change]:
        """Have READY chunks made again because what they were made from is newer."""
        if not folded:
            self.fold()
        wanted: dict[str, list[str]] = {}
        for name, dataid in dict.fromkeys(chunks):
            if self.producer(name) is not None:
                wanted.setdefault(name, []).append(dataid)
        changed = []
        for name, dataids in wanted.items():
            ready = [dataid for dataid in dataids if self.is_ready((name, dataid)) and self._may_be_made(name, dataid)]
            changed += self.steered("resubmit", name, ready)
        for name, dataid, *_ in changed:
            self.remade[name, dataid] = self.out[name, dataid].version
        return changed

    def _may_be_made(self, name: str, dataid: str) -> bool:
        """Whether nothing that the same run writes is set aside, or running."""
        rows = [self.out.get((each, dataid)) for each in self.written_together(name)]
        return all(row is None or row.status not in (RUNNING, *SET_ASIDE) for row in rows)

    def restore(self, chunks: Sequence[Chunk]) -> None:
        """What waits to be made again, and was made from exactly what stands now, is READY as it is; and so on downstream."""
        while chunks:
            kept = []
            for chunk, version in sorted(self.remade.items()):
                row = self.out.get(chunk)
                inputs = self.made.get(chunk, {}).get(version)
                if row is None or (row.status, row.version) != (RESUBMIT, version) or inputs is None:
                    continue
                if any((note.what, note.datasetid, note.dataid) == ("OUT", *chunk) for note in self.notes):
                    continue  # somebody decided anew, and it is still to be folded in
                if any(item[:2] in chunks for item in inputs.inputs) and all(map(self._is_as_read, inputs.inputs)):
                    kept.append(chunk)
            kept = [chunk for chunk in kept if self._is_whole(chunk, kept)]
            for chunk in kept:
                del self.remade[chunk]
                self.say(chunk, RESUBMIT, READY)
                self.out[chunk] = self.out[chunk]._replace(status=READY, tries=0, held=None)
            if kept:
                self.settle_candidates(kept, by_person=True)
            chunks = kept

    def _is_whole(self, chunk: Chunk, kept: Sequence[Chunk]) -> bool:
        """Whether nothing else that the same run wrote has to be made again."""
        others = [(name, chunk[1]) for name in self.written_together(chunk[0])]
        return all(other in kept or other not in self.out or self.is_ready(other) for other in others)

    def _is_as_read(self, item: Version) -> bool:
        row = self.out.get(item[:2])
        if row is None or row.status != READY or (*item[:2], row.version) in self.recalled:
            return False
        return row.version == item[2] or self._are_same(item[:2], item[2], row.version)
