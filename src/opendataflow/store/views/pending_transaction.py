"""Answer queries of a look as after the next fold: what is stored, with what is pending over it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ...errors import BadDataid, BadId
from ...model import CLAIMABLE, DEFERRED, READY, WAITING, sort_key
from .. import records
from ..drivers.base import PendingRows, Row, Transaction
from ..rows import SpanCounts, compact

if TYPE_CHECKING:
    from .pending import Pending

_AFTER_ALL = "\x7f"  # sorts after every position
_COUNTED = [name.upper() for name in SpanCounts._fields]  # chunks in total, then by status


class PendingTransaction(Transaction):
    """A read-only transaction whose answers about candidates, and about statuses that decide them, are as after the fold.

    A query that has a method `_answer_` of its name is answered by it, every other one by the store.
    """

    def __init__(self, tx: Transaction, found: Pending) -> None:
        self._tx, self._catalogue, self._pending = tx, found.catalogue, found

    def rows(self, query: str, /, **parameters: Any) -> list[Row]:
        answer: Callable[..., list[Row]] | None = getattr(self, f"_answer_{query}", None)
        return self._tx.rows(query, **parameters) if answer is None else answer(**parameters)

    def send(self, query: str, /, **parameters: Any) -> PendingRows:
        return (
            self._tx.send(query, **parameters)
            if not hasattr(self, f"_answer_{query}")
            else super().send(query, **parameters)
        )

    def run(self, query: str, /, **parameters: Any) -> None:
        self._tx.run(query, **parameters)

    def lock(self, query: str, /, **parameters: Any) -> None:
        self._tx.lock(query, **parameters)

    def sync(self) -> None:
        self._tx.sync()

    def columns(self, table: str) -> list[str]:
        return self._tx.columns(table)

    def everything(self, table: str) -> Iterator[Row]:
        return self._tx.everything(table)

    def fill(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        self._tx.fill(table, columns, rows)

    # Candidates: what is stored, without the pairs that are derived again, and what is derived of them ------------------

    def _page(self, query: str, jobid: str, n: int, **rest: Any) -> list[Row]:
        """The stored rows of a page that stay: (dataid, …)."""
        rows = self._tx.rows(query, jobid=jobid, n=n + self._pending.n_before(jobid), **rest)
        return [row for row in rows if (jobid, row[0]) not in self._pending.after]

    def _in_order(self, query: str, states: Sequence[str], jobid: str, n: int, **rest: Any) -> list[Row]:
        """The first candidates of a job in these states: (rank, position, dataid)."""
        rows = self._tx.rows(query, jobid=jobid, n=n + self._pending.n_before(jobid), **rest)
        kept = [row for row in rows if (jobid, row[2]) not in self._pending.after]
        derived = [(row.rank, row.sort_key, row.dataid) for row in self._pending.of_job(jobid, *states)]
        return sorted([*kept, *derived], key=tuple)[:n]

    def _answer_candidates_page(self, jobid: str, n: int) -> list[Row]:
        return self._in_order("candidates_page", [CLAIMABLE], jobid, n)

    def _answer_candidates_first(self, jobid: str, n: int, most: int) -> list[Row]:
        return self._in_order("candidates_first", [CLAIMABLE, WAITING], jobid, n, most=most)

    def _answer_candidates_sample(self, jobid: str, n: int) -> list[Row]:
        derived = [
            (row.dataid, row.state, compact(row.inputs)) for row in self._pending.of_job(jobid, CLAIMABLE, WAITING)
        ]
        return sorted([*self._page("candidates_sample", jobid, n), *derived], key=lambda row: row[0])[:n]

    def _answer_candidates_deferred_page(self, jobid: str, n: int) -> list[Row]:
        return self._page("candidates_deferred_page", jobid, n)[:n]

    def _answer_candidates_deferred(self, n: int) -> list[Row]:
        rows = self._tx.rows("candidates_deferred", n=n + len(self._pending.before))
        return [row for row in rows if (row[0], row[1]) not in self._pending.after][:n]

    def _answer_candidate_row(self, jobid: str, dataid: str) -> list[Row]:
        if (jobid, dataid) not in self._pending.after:
            return self._tx.rows("candidate_row", jobid=jobid, dataid=dataid)
        row = self._pending.after[jobid, dataid]
        return [(row.state, row.rank, row.not_before)] if row else []

    def _changes(self) -> Counter[tuple[str, str]]:
        """By job and state, how many candidates there are more or less."""
        more: Counter[tuple[str, str]] = Counter((row.jobid, row.state) for row in self._pending.after.values() if row)
        more.subtract((jobid, state) for (jobid, _), state in self._pending.before.items())
        return more

    def _answer_candidate_counts(self) -> list[Row]:
        counts = self._changes()
        counts.update({(row[0], row[1]): row[2] for row in self._tx.rows("candidate_counts")})
        return [(*key, n) for key, n in sorted(counts.items()) if n]

    def _answer_deferred_counts(self) -> list[Row]:
        more = self._changes()
        rows = ((jobid, n + more[jobid, DEFERRED]) for jobid, n in self._tx.rows("deferred_counts"))
        return [row for row in rows if row[1]]

    def _answer_claimable_counts(self, most: int) -> list[Row]:
        more = self._changes()
        rows = self._tx.rows("claimable_counts", most=most + len(self._pending.before))
        return [(jobid, min(n + more[jobid, CLAIMABLE], most)) for jobid, n in rows]

    def _answer_claimable_count(self, jobid: str, most: int) -> list[Row]:
        n: int = self._tx.value("claimable_count", jobid=jobid, most=most + self._pending.n_before(jobid))
        return [(min(n + self._changes()[jobid, CLAIMABLE], most),)]

    def _answer_unfinished_of_job(self, jobid: str) -> list[Row]:
        if not self._tx.value("unfinished_of_job", jobid=jobid):
            outputs = self._catalogue.jobs[jobid].outputs if jobid in self._catalogue.jobs else ()
            changed = (row for row in self._pending.statuses.values() if row.datasetid in outputs)
            return [(bool(self._pending.of_job(jobid, CLAIMABLE)) or any(row.status != READY for row in changed),)]
        if not self._pending.lost and not self._pending.n_before(jobid):
            return [(True,)]
        running = (run for run in self._tx.fetch(records.run, "runs_running") if run.jobid == jobid)
        unfinished = (
            self._answer_claimable_count(jobid, 1)[0][0]
            or self._answer_candidates_deferred_page(jobid, 1)
            or any(run.runid not in self._pending.lost for run in running)
            or any(self._unsettled(name) for name in self._catalogue.job(jobid).outputs)
        )
        return [(bool(unfinished),)]

    def _unsettled(self, datasetid: str) -> bool:
        """Whether any chunk of a dataset is not READY."""
        ((_, *counts),) = self._tx.rows("span_counts", spans=compact([(datasetid, "", _AFTER_ALL)]), most=1)
        return any(counts)

    # Statuses --------------------------------------------------------------------------------------------------------

    def _answer_statuses_given(self, chunks: str) -> list[Row]:
        rows = {(row[0], row[1]): row for row in self._tx.rows("statuses_given", chunks=chunks)}
        changed = self._pending.statuses
        return [
            changed.get(chunk) or rows[chunk]
            for chunk in map(tuple, json.loads(chunks))
            if chunk in changed or chunk in rows
        ]

    def _answer_chunks_in_order(self, datasetid: str) -> list[Row]:
        rows = {row[0]: row[1] for row in self._tx.rows("chunks_in_order", datasetid=datasetid)}
        changed = (row for row in self._pending.statuses.values() if row.datasetid == datasetid)
        return list((rows | {row.dataid: row.status for row in changed}).items())

    def _answer_newest_ready(self, datasetid: str, until_key: str) -> list[Row]:
        noted = self._pending.statuses
        ready = [key for key, row in noted.items() if key[0] == datasetid and row.status == READY]
        found = [(key, dataid) for _, dataid in ready if (key := self._key(datasetid, dataid)) and key <= until_key]
        for (dataid,) in self._tx.rows("newest_ready", datasetid=datasetid, until_key=until_key):
            if (datasetid, dataid) not in noted:
                found.append((self._key(datasetid, dataid), dataid))
        return [(max(found)[1],)] if found else []

    def _answer_readings_given(self, jobid: str, chunks: str) -> list[Row]:
        released = self._pending.released
        left = [chunk for chunk in json.loads(chunks) if (jobid, chunk[2]) not in released]
        return self._tx.rows("readings_given", jobid=jobid, chunks=compact(left))

    def _answer_reads_of_pairs(self, reads: str) -> list[Row]:
        rows = self._tx.rows("reads_of_pairs", reads=reads)
        return [row for row in rows if (row[0], row[1]) not in self._pending.released]

    # Positions: typed rows have none until the fold ---------------------------------------------------------------------

    def _placed(self, datasetid: str, low: str, high: str) -> list[Row]:
        """The typed rows whose position lies between two: (position, dataid, status), in order."""
        return [row for row in self._pending.placed.get(datasetid, ()) if low <= row[0] <= high]

    def _is_placed(self, datasetid: str, dataid: str) -> bool:
        return any(row[1] == dataid for row in self._pending.placed.get(datasetid, ()))

    def _key(self, datasetid: str, dataid: str) -> str:
        with suppress(BadDataid, BadId):
            return sort_key(self._catalogue.datasets[datasetid].partition, dataid)
        return ""

    def _answer_span_counts(self, spans: str, most: int) -> list[Row]:
        rows = self._tx.rows("span_counts", spans=spans, most=most)
        return [self._with_placed(row, *span, most=most) for row, span in zip(rows, json.loads(spans), strict=True)]

    def _with_placed(self, row: Row, datasetid: str, low: str, high: str, *, most: int) -> Row:
        counts = dict(zip(_COUNTED, row, strict=False))
        stood = self._pending.placed.get(datasetid, ()) if low == "" else ()
        for sign, placed in ((1, self._placed(datasetid, low, high)), (-1, stood)):
            for _, _, status in placed:
                for name in ("CHUNKS", status):
                    if name in counts:
                        counts[name] = min(max(counts[name] + sign, 0), most)
        return tuple(counts.values())

    def _answer_span_chunks(self, spans: str, most: int) -> list[Row]:
        rows = self._tx.rows("span_chunks", spans=spans, most=most)
        return [self._with_placed(row, *span, most=most) for row, span in zip(rows, json.loads(spans), strict=True)]

    def _answer_ends_given(self, spans: str) -> list[Row]:
        rows = self._tx.rows("ends_given", spans=spans)
        return [self._ends(row, *span) for row, span in zip(rows, json.loads(spans), strict=True)]

    def _ends(self, row: Row, datasetid: str, low: str, high: str) -> Row:
        placed = self._placed(datasetid, low, high)
        if not placed:
            return row
        ends = [(self._key(datasetid, each), each) for each in row if each is not None]
        ends = sorted([*ends, *((key, dataid) for key, dataid, _ in placed)])
        return ends[0][1], ends[-1][1]

    def _answer_chunks_between(self, datasetid: str, from_key: str, to_key: str, n: int) -> list[Row]:
        rows = self._tx.rows("chunks_between", datasetid=datasetid, from_key=from_key, to_key=to_key, n=n)
        stay = [row for row in rows if row[1] or not self._is_placed(datasetid, row[0])]
        placed = [(dataid, key, status) for key, dataid, status in self._placed(datasetid, from_key, to_key)]
        return sorted([*stay, *placed], key=lambda row: (row[1], row[0]))[:n]

    def _answer_dataids_newest(self, datasetid: str, from_key: str, to_key: str, n: int) -> list[Row]:
        rows = self._tx.rows("dataids_newest", datasetid=datasetid, from_key=from_key, to_key=to_key, n=n)
        stay = [(self._key(datasetid, row[0]), row[0]) for row in rows if not self._is_placed(datasetid, row[0])]
        placed = [(key, dataid) for key, dataid, _ in self._placed(datasetid, from_key, to_key)]
        return [(dataid,) for _, dataid in sorted([*stay, *placed], reverse=True)[:n]]

    def _answer_chunks_within(self, spans: str, most: int) -> list[Row]:
        return self._with_those_within("chunks_within", spans, most)

    def _answer_unsettled_between(self, spans: str, most: int) -> list[Row]:
        return self._with_those_within("unsettled_between", spans, most, besides=READY)

    def _with_those_within(self, query: str, spans: str, most: int, besides: str = "") -> list[Row]:
        rows = {(row[0], row[1]): row for row in self._tx.rows(query, spans=spans, most=most)}
        for datasetid, low, high in json.loads(spans):
            for _, dataid, status in self._placed(datasetid, low, high):
                if status != besides:
                    rows[datasetid, dataid] = (datasetid, dataid, status)
        return list(rows.values())[:most]
