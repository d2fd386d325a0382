"""The graph of what is not READY: what broke, what waits behind it by the declared mappings, and what that needs itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from ...errors import BadDataid, BadDefinition, BadId, LeaseLost, UntrustedDefinition, WrongData
from ...model import (
    FAILED,
    HOLD,
    PENDING,
    READY,
    RESUBMIT,
    RUNNING,
    TODAY,
    WAITING,
    Input,
    Job,
    latest_bound,
    ordinal,
    sort_key,
    takes_all,
)
from ...store import OUTSIDE as BY_OUTSIDE
from ...store import Store
from ...store.views import UnfinishedChunk
from ..absent import last_due, refused_chunks
from ..axis import LAST_KEY
from ..late import late
from .nodes import DEFERRED, FUTURE, MISSING, NEW, OUTSIDE, PAUSED, REFUSED, Graph, Key, RecoveryNode
from .ways import ChunkId, Ways

_CANDIDATES = 10_000
_REFUSALS = 100_000  # chunks whose refusal is read: a plan needs all of them


def graph(store: Store, *, missing: bool = False) -> Graph:
    """What an outage left, in a few looks whose cost does not depend on what is READY; with what is expected and missing."""
    builder = _Builder(store)
    builder.add_what_is_not_settled()
    if missing:
        builder.add_what_is_missing()
    builder.spread()
    builder.connect()
    return Graph(builder.catalogue, builder.nodes, builder.now)


class _Builder:
    def __init__(self, store: Store) -> None:
        self.store, self.catalogue, self.now = store, store.catalogue(), store.views.clock()
        self.nodes: dict[Key, RecoveryNode] = {}
        self.status: dict[ChunkId, str | None] = {}
        self.done: set[Key] = set()
        self.first_ready: dict[str, str | None] = {}
        self.due: dict[str, int | None] = {}
        self.stopped = dict(self._stopped_pools())
        self.ways = Ways(self.catalogue)
        self.candidates: dict[str, list[str]] = {}
        self.dynamic: dict[str, list[Input]] = {}
        self.filled: dict[str, bool] = {}  # whether a dataset has any chunk

    # What broke --------------------------------------------------------------------------------------------------

    def add_what_is_not_settled(self) -> None:
        """Nodes for all chunks that are not READY, for refused arrivals, and for runs that a look at the data refused."""
        groups: dict[Key, list[UnfinishedChunk]] = {}
        for row in self.store.views.unsettled():
            self.status[row.datasetid, row.dataid] = row.status
            groups.setdefault(self.key_of((row.datasetid, row.dataid)), []).append(row)
        deferred = {(each.jobid, each.dataid): each.not_before for each in self.store.views.postponed()}
        for key, rows in groups.items():
            self._add_rows(key, rows, deferred.get((key[0], key[2]), 0.0))
        for chunk, status, event in refused_chunks(self.store.views, self.store.views.refusals(n=_REFUSALS)):
            if status == READY or chunk[0] not in self.catalogue.datasets:
                continue
            self.status.setdefault(chunk, status)
            key = self.key_of(chunk)
            node = self.nodes.get(key) or self._new(key)
            if event.jobid == BY_OUTSIDE or node.state in (NEW, RESUBMIT, DEFERRED):
                node.state, node.not_before = REFUSED, deferred.get((key[0], key[2]), 0.0)
                node.outcome, node.detail = event.after or "", event.why or ""
                node.blocked = REFUSED if event.jobid == BY_OUTSIDE else node.blocked or node.outcome

    def add_what_is_missing(self) -> None:
        """Nodes for chunks from outside that are expected by now, also where nothing failed because of them."""
        for each in late(self.store, chains=False).late:
            key = self.key_of((each.datasetid, each.dataid))
            if each.sign == MISSING and not key[0] and key not in self.nodes:
                self.status[each.datasetid, each.dataid] = None
                node = self._new(key)
                node.state = node.blocked = MISSING

    def _add_rows(self, key: Key, rows: list[UnfinishedChunk], not_before: float) -> None:
        node = self._new(key, rows)
        job, statuses = node.job, {row.status for row in rows}
        last = max(rows, key=lambda row: row.runid or 0)
        node.outcome, node.detail = last.outcome or "", last.detail or ""
        if aside := statuses & {HOLD, PENDING}:
            node.state = node.blocked = min(aside)
        elif RUNNING in statuses:
            self._running(node, last)
        elif FAILED in statuses:
            node.state = FAILED
        else:
            node.state, node.not_before = DEFERRED if not_before else RESUBMIT, not_before
        if job is None and node.state in (FAILED, RESUBMIT):
            node.state = node.blocked = OUTSIDE
            if broken := self.catalogue.broken_producer(key[1]):
                node.state, node.blocked, node.outcome = FAILED, BadDefinition.name, BadDefinition.name
                node.detail = broken.message
        elif node.state in (FAILED, DEFERRED) and node.outcome == WrongData.name:
            node.fetches = not self.store.views.knows_content(last.runid)
            if not node.fetches and not self._may_be_right(last):
                node.blocked = node.blocked or WrongData.name
        elif node.state == FAILED and node.outcome in (UntrustedDefinition.name, BadDefinition.name):
            node.blocked = node.blocked or node.outcome

    def _running(self, node: RecoveryNode, row: UnfinishedChunk) -> None:
        """A run that goes on, or one whose lease ran out: the next claim ends it by the retry rule of its job."""
        node.state = RUNNING
        if row.run_status != RUNNING:
            node.blocked = RUNNING  # typed as SQL: no worker runs it
        elif row.lease_until is None or row.lease_until >= self.now:
            node.blocked = ""  # it goes on, also where its job is paused
        else:
            again = node.job is not None and node.job.retry.applies(row.tries or 1, LeaseLost.name)
            node.state, node.is_expired = DEFERRED if again else FAILED, True
            node.outcome, node.detail = LeaseLost.name, f"the lease of {row.owner} ran out"

    def _may_be_right(self, row: UnfinishedChunk) -> bool:
        """Whether data that was wrong may come out right: repeats are allowed by now, or what was read is another version."""
        if self.catalogue.datasets[row.datasetid].options.get("repeats"):
            return True
        versions = {item[:2]: item.version for item in self.store.views.inputs_of(row.runid)}
        current = self.store.views.current(versions)
        return any(
            chunk not in current or current[chunk].status != READY or current[chunk].version != version
            for chunk, version in versions.items()
        )

    def _stopped_pools(self) -> Iterator[tuple[str, str]]:
        """Pools without a slot, now and later."""
        for poolid in self.catalogue.pools:
            slots, change = self.store.views.pool_now(poolid)
            if slots == 0 and change is None:
                yield poolid, PAUSED

    def key_of(self, chunk: ChunkId) -> Key:
        """The run that produces a chunk, or the chunk itself where it comes from outside."""
        datasetid, dataid = chunk
        producer = self.catalogue.producers.get(datasetid)
        return (producer.jobid, producer.outputs[0], dataid) if producer else ("", datasetid, dataid)

    def _new(
        self, key: Key, rows: list[UnfinishedChunk] | None = None, inputs: list[ChunkId] | None = None
    ) -> RecoveryNode:
        job = self.catalogue.jobs.get(key[0])
        chunks = tuple((name, key[2]) for name in job.outputs) if job else ((key[1], key[2]),)
        node = RecoveryNode(key, job, NEW, chunks, rows or [], inputs=inputs or [])
        if job is not None and (job.jobid in self.catalogue.paused or job.pool in self.stopped):
            node.blocked = PAUSED
        self.nodes[key] = node
        return node

    # What waits, and what that needs -----------------------------------------------------------------------------

    def spread(self) -> None:
        """Add what waits behind what is known, and what is needed and was never produced, until nothing is new."""
        fresh = list(self.nodes.values())
        while fresh:
            for node in fresh:
                if node.job is not None and not node.inputs:
                    node.inputs = self.ways.inputs(node.job, node.dataid)
            touched = self._touched(node for node in fresh if node.is_behind)
            asked = {chunk for node in fresh for chunk in node.inputs}
            for key, inputs in touched.items():
                asked.update(inputs)
                asked.update((name, key[2]) for name in self.catalogue.jobs[key[0]].outputs)
            self._ask(asked)
            known = {*self.nodes, *touched}
            added = [
                self._new(key, inputs=inputs) for key, inputs in touched.items() if self._waits(key, inputs, known)
            ]
            for node in fresh:
                added += self._needed(node)
            fresh = added

    def _ask(self, chunks: Iterable[ChunkId]) -> None:
        unknown = [chunk for chunk in chunks if chunk not in self.status]
        found = self.store.views.given_chunks(unknown)
        for chunk in unknown:
            self.status[chunk] = found.get(chunk)
            if chunk[0] == TODAY.datasetid:
                self.status[chunk] = READY  # its day comes by itself

    def _touched(self, nodes: Iterable[RecoveryNode]) -> dict[Key, list[ChunkId]]:
        """The runs that need what these nodes produce, with all that they need, without those that are known."""
        touched: dict[Key, list[ChunkId]] = {}
        for node in nodes:
            for datasetid, dataid in node.chunks:
                for job, output in self._consumers(datasetid, dataid):
                    key = (job.jobid, job.outputs[0], output)
                    if key in touched or key in self.done:
                        continue
                    there = self.nodes.get(key)
                    if there is None:
                        touched[key] = self.ways.inputs(job, output)
                    elif not there.is_behind:
                        there.is_behind = True
                        touched |= self._touched([there])
        return touched

    def _consumers(self, datasetid: str, dataid: str) -> Iterator[tuple[Job, str]]:
        for job, outputs in self.ways.readers(datasetid):
            if outputs is None:
                yield job, dataid
            else:
                yield from ((job, output) for output in outputs(dataid))
        for job, item in self.catalogue.consumers(datasetid):
            if item.mapping.kind == "latest":
                for output in self._waiting(job):
                    if not self._has_latest(job, item, output):
                        yield job, output
        for job in self._readers_of_the_whole.get(datasetid, ()):
            yield from ((job, output) for output in (["all"] if takes_all(job) else self._waiting(job)))

    @cached_property
    def _readers_of_the_whole(self) -> dict[str, list[Job]]:
        """By dataset, the jobs that wait until all of it, or of what is made from it, is there."""
        readers: dict[str, dict[str, Job]] = {}
        for job in self.catalogue.jobs.values():
            for item in job.inputs:
                if item.mapping.kind == "all":
                    for name in self._whole(item.datasetid):
                        readers.setdefault(name, {})[job.jobid] = job
        return {name: list(jobs.values()) for name, jobs in readers.items()}

    def _whole(self, datasetid: str) -> dict[str, None]:
        """The datasets that must be settled before all of a dataset is there."""
        jobs = (self.catalogue.jobs[jobid] for jobid in self.catalogue.upstream(datasetid))
        return {datasetid: None} | {name: None for job in jobs for name in job.outputs}

    def _waiting(self, job: Job) -> list[str]:
        if job.jobid not in self.candidates:
            sample = self.store.views.candidates_sample(job.jobid, _CANDIDATES)
            self.candidates[job.jobid] = [each.dataid for each in sample if each.state == WAITING]
        return self.candidates[job.jobid]

    def _has_latest(self, job: Job, item: Input, output: str) -> bool:
        """Whether a chunk that is READY now can be the latest one for this output."""
        name = item.datasetid
        if name not in self.first_ready:
            first = self.store.views.chunks(name, status=READY, n=1)
            self.first_ready[name] = first[0].sort_key if first else None
        first_key = self.first_ready[name]
        return first_key is not None and first_key <= self._until(job, item, output)

    def _until(self, job: Job, item: Input, output: str) -> str:
        partition = self.catalogue.datasets[item.datasetid].partition
        return sort_key(partition, latest_bound(partition, self.catalogue.output_partition(job), output))

    def _waits(self, key: Key, inputs: Sequence[ChunkId], known: set[Key]) -> bool:
        """Whether a run that is not done waits, by the rule of the engine: no run waits for what does not begin to exist."""
        job = self.catalogue.jobs[key[0]]
        statuses = [self.status[name, key[2]] for name in job.outputs]
        if READY in statuses and RESUBMIT not in statuses:
            self.done.add(key)
            return False
        status = self.status
        for chunk in inputs:
            if status[chunk] is not None:
                return True
        return all(self.key_of(chunk) in known for chunk in inputs)

    def _needed(self, node: RecoveryNode) -> Iterator[RecoveryNode]:
        """What a node needs that was never produced: it comes by itself, or was not delivered."""
        if node.state == RUNNING:
            return  # it has what it needs, or was forced to do without
        for chunk in node.inputs:
            if self.status[chunk] is None:
                key = self.key_of(chunk)
                if key in self.nodes:
                    continue
                needed = self._new(key)
                needed.is_behind = False
                broken = needed.job is None and self.catalogue.broken_producer(chunk[0])
                if needed.job is None or (node.job is not None and needed.jobid == node.jobid):
                    # A job that reads its own past, and has none, has no beginning: that is not followed for ever.
                    needed.state, needed.blocked = MISSING, BadDefinition.name if broken else self._missing(chunk)
                elif not needed.job.inputs:
                    needed.state, needed.blocked = (
                        MISSING,
                        self._missing(chunk),
                    )  # it runs only for a dataid that is named
                else:
                    yield needed

    def _missing(self, chunk: ChunkId) -> str:
        """Whether a chunk that is not there is missing, or not expected by now."""
        name, dataid = chunk
        dataset = self.catalogue.datasets[name]
        if name not in self.due:
            self.due[name] = last_due(self.store.views, self.catalogue, dataset)
        last = self.due[name]
        return FUTURE if last is not None and ordinal(dataset.partition, dataid) > last else MISSING

    # Edges -------------------------------------------------------------------------------------------------------

    def connect(self) -> None:
        """Say of each node which others it needs."""
        by_dataset: dict[str, list[RecoveryNode]] = {}
        for node in self.nodes.values():
            for name, _ in node.chunks:
                by_dataset.setdefault(name, []).append(node)
        for node in self.nodes.values():
            needs: dict[RecoveryNode, None] = {}
            for chunk in node.inputs:
                if self.status[chunk] != READY:
                    needed = self.nodes.get(self.key_of(chunk))
                    if needed is not None and needed is not node:
                        needs[needed] = None
            for item in self._dynamic(node.job):
                if item.mapping.kind == "all":
                    needs |= self._needs_all(node, item, by_dataset)
                elif not self._has_latest_of(node, item):
                    node.any_of.append(self._may_be_latest(node, item, by_dataset))
            node.needs = list(needs)
            for each in node.needs:
                each.feeds.append(node)
            for n, nodes in enumerate(node.any_of):
                for each in nodes:
                    each.may_feed.append((node, n))

    def _dynamic(self, job: Job | None) -> Sequence[Input]:
        """The inputs of a job that depend on which chunks exist."""
        if job is None:
            return ()
        if job.jobid not in self.dynamic:
            self.dynamic[job.jobid] = [item for item in job.inputs if item.mapping.is_dynamic]
        return self.dynamic[job.jobid]

    def _needs_all(
        self, node: RecoveryNode, item: Input, by_dataset: dict[str, list[RecoveryNode]]
    ) -> dict[RecoveryNode, None]:
        """While something that has a part in it is not settled, all of a dataset is not there."""
        name = item.datasetid
        if self.catalogue.broken and self.catalogue.broken_upstream(name):
            node.blocked = node.blocked or BadDefinition.name
        count = self.catalogue.datasets[name].partition.count
        if count is not None:
            (counts,) = self.store.views.span_counts([(name, "", LAST_KEY)], count + 1)
            if counts[""] + sum(not each.rows for each in by_dataset.get(name, ())) < count:
                node.blocked = node.blocked or MISSING
        if not self._has_any(name):  # all of nothing is not there either
            node.any_of.append([each for each in by_dataset.get(name, ()) if each is not node])
        whole = [each for upstream in self._whole(name) for each in by_dataset.get(upstream, ())]
        return {each: None for each in whole if (each.rows or each.state != NEW) and each.state != MISSING}

    def _has_any(self, datasetid: str) -> bool:
        if datasetid not in self.filled:
            (counts,) = self.store.views.span_counts([(datasetid, "", LAST_KEY)], 1)
            self.filled[datasetid] = counts[""] > 0
        return self.filled[datasetid]

    def _has_latest_of(self, node: RecoveryNode, item: Input) -> bool:
        try:
            return node.job is None or self._has_latest(node.job, item, node.dataid)
        except (BadDataid, BadId):
            return False

    def _may_be_latest(
        self, node: RecoveryNode, item: Input, by_dataset: dict[str, list[RecoveryNode]]
    ) -> list[RecoveryNode]:
        if node.job is None:
            return []
        partition, until = self.catalogue.datasets[item.datasetid].partition, self._until(node.job, item, node.dataid)
        return [each for each in by_dataset.get(item.datasetid, ()) if sort_key(partition, each.dataid) <= until]
