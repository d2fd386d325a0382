"""The drain with a worker that is only played: who claims, when it ends, and what a broken Spark costs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from pathlib import Path
from typing import Any

import pytest

import opendataflow
from opendataflow import Dataset, Input, Job, Partition, Pool, Store
from opendataflow.errors import BadConfig, JobFailed
from opendataflow.insight.progress import JobProgress, Left, Watch, report
from opendataflow.model import Catalogue
from opendataflow.project import without_file
from opendataflow.run import drain as drain_module
from opendataflow.run.drain import Drain
from opendataflow.run.records import Batch, Result
from opendataflow.store import Claim
from opendataflow.store.drivers.base import Unreadable
from tests.support.flows import fold_in

NUMBERS = [str(number) for number in range(1, 13)]


class Played:
    """A worker that commits, or does what the test says."""

    def __init__(self, store: Store, play: Callable[[Claim], str] = lambda claim: "READY") -> None:
        self.store, self.play = store, play
        self.project = without_file(Path("/nowhere"), "sqlite:///:memory:")
        self.cancelled = threading.Event()
        self.teller = None
        self.is_lost = False
        self.can_start = True
        self.threads: dict[str, set[str]] = {}
        self.batches: list[int] = []
        self.admitted: list[int] = []  # batches, each time
        self.ended: list[int] = []
        self.given_back: list[str] = []
        self.said: list[str] = []

    def say(self, line: str) -> None:
        self.said.append(line)

    def with_new_connection(self) -> Played:
        return copy(self)

    def needs_spark(self, job: Job) -> bool:
        return job.jobid == "make"

    def spark(self) -> None:
        if not self.can_start:
            raise BadConfig("Spark cannot start")

    def lost_spark(self) -> bool:
        return self.is_lost

    def admit(self, catalogue: Catalogue, groups: Sequence[Sequence[Claim]]) -> list[Batch]:
        self.admitted.append(len(groups))
        return [Batch(claims) for claims in groups]

    def work(self, batch: Batch) -> None:
        if len(batch.claims) > 1:
            self.batches.append(len(batch.claims))
        for claim in batch.claims:
            self.threads.setdefault(claim.jobid, set()).add(threading.current_thread().name)
            if (outcome := self.play(claim)) != "READY":
                self.store.fail(claim)
                name = "STOPPED" if outcome == "STOPPED" else "JOB_FAILED"
                batch.results[claim.runid] = Result(name, 1, claim=claim)

    def end(self, batches: Sequence[Batch]) -> None:
        done = [(batch, claim) for batch in batches for claim in batch.claims if claim.runid not in batch.results]
        self.ended.append(len(batches))
        self.store.commit_many([(claim, {}, None) for _, claim in done])
        for batch, claim in done:
            batch.results[claim.runid] = Result("READY", 0, claim=claim)

    def give_back(self, batch: Batch, why: str) -> None:
        for claim in batch.claims:
            self.store.give_back(claim, None, why, wait=0.0)
            self.given_back.append(claim.dataid)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with opendataflow.open(f"sqlite:///{tmp_path}/store.db", create=True) as found:
        number = Partition("number")
        found.register(
            [Dataset(name, partition=number) for name in ("gate", "raw", "product", "report")],
            [
                Job("open", (Input("gate"),), ("raw",)),
                Job("make", (Input("raw"),), ("product",)),
                Job("use", (Input("product"),), ("report",)),
            ],
        )
        yield found


def drain(store: Store, worker: Any, *jobids: str, workers: int = 4) -> dict[str, int]:
    return dict(Drain(store, worker, jobids or ("open", "make", "use"), workers=workers).run().outcomes)


def test_everything_is_done_once(store: Store) -> None:
    store.announce("gate", NUMBERS)
    assert drain(store, Played(store)) == {"READY": 36}
    assert drain(store, Played(store)) == {}


def test_where_spark_cannot_start_nothing_is_claimed(store: Store) -> None:
    store.announce("raw", NUMBERS)
    worker = Played(store)
    worker.can_start = False
    with pytest.raises(BadConfig):
        drain(store, worker)
    assert store.views.runs() == []
    assert drain(store, worker, "open") == {}, "who needs no Spark does not miss it"


def test_when_spark_dies_the_backlog_is_left_alone(store: Store) -> None:
    store.announce("raw", NUMBERS)
    worker = Played(store)

    def work(claim: Claim) -> str:
        worker.is_lost = worker.is_lost or claim.dataid == "3"
        return "FAILED" if worker.is_lost else "READY"

    worker.play = work
    with pytest.raises(JobFailed):
        drain(store, worker, "make", workers=2)
    counts = store.views.status_counts()["product"]
    assert counts["FAILED"] <= 2
    assert store.views.running() == []
    fold_in(store)
    assert len(store.views.next_dataids("make", 100)) >= 8


@pytest.fixture
def unreadable(store: Store, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """While it is set, a claim finds a row that somebody wrote wrongly."""
    is_unreadable, claim = threading.Event(), store.claim

    def claim_or_fail(*args: Any, **options: Any) -> list[Claim]:
        if is_unreadable.is_set():
            raise Unreadable("malformed JSON")
        return claim(*args, **options)

    monkeypatch.setattr(store, "claim", claim_or_fail)
    is_unreadable.set()
    return is_unreadable


def test_a_job_with_a_row_that_cannot_be_read_is_left_out(store: Store, unreadable: threading.Event) -> None:
    store.announce("raw", NUMBERS)
    drain = Drain(store, Played(store), ("make",), workers=2)  # type: ignore[arg-type]
    drain.run()
    assert [*drain.drained.left_out] == ["make"]


def test_who_follows_takes_a_job_up_again_once_somebody_mended_its_row(
    store: Store, unreadable: threading.Event
) -> None:
    store.announce("raw", NUMBERS)
    worker = Played(store)
    drain = Drain(store, worker, ("make",), workers=2, follow=True)  # type: ignore[arg-type]

    def mend() -> None:
        while not worker.said:
            worker.cancelled.wait(0.01)
        unreadable.clear()
        while store.views.status_counts().get("product") != {"READY": 12}:
            worker.cancelled.wait(0.01)
        drain._end()

    mending = threading.Thread(target=mend)
    mending.start()
    drain.run()
    mending.join()
    assert drain.drained.left_out == {}
    assert len(worker.said) == 1


class Counting:
    """A store that remembers how often, and for how many chunks, it was asked."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.asked: list[int] = []
        self.again = threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def claim(self, jobid: str, n: int = 1, **how: Any) -> list[Claim]:
        self.asked.append(n)
        self.again.set()
        return self.store.claim(jobid, n, **how)


def test_one_thread_claims_for_all_that_are_idle(store: Store) -> None:
    store.announce("gate", NUMBERS)
    together = threading.Barrier(4, timeout=120)
    counting: Any = Counting(store)
    seen: list[list[int]] = []

    def work(claim: Claim) -> str:
        seen.append(list(counting.asked))
        together.wait()
        return "READY"

    assert drain(counting, Played(store, work), "open") == {"READY": 12}
    assert seen[:4] == [[4]] * 4


def test_a_drain_that_claims_more_takes_nothing_away_from_itself(store: Store) -> None:
    """It stood still for longer than a lease, and its next claim comes before its next heartbeat."""
    store.announce("raw", NUMBERS)
    is_over, has_more = threading.Event(), threading.Event()

    def play(claim: Claim) -> str:
        if claim.dataid == "1":
            store.dml(f"update run set lease_until = 1 where runid = {claim.runid}")
            is_over.set()
            assert has_more.wait(60)
        elif is_over.wait(60) and int(claim.dataid) > 2:  # the first two are claimed together
            has_more.set()
        return "READY"

    assert drain(store, Played(store, play), "make", workers=2) == {"READY": 12}
    assert len(store.views.runs(jobid="make")) == 12


def test_a_job_with_batches_gets_several_chunks_together(store: Store) -> None:
    store.register(jobs=[Job("open", (Input("gate"),), ("raw",), options={"batch": 5})])
    store.announce("gate", NUMBERS)
    worker = Played(store)
    assert drain(store, worker, "open", workers=1) == {"READY": 12}
    assert worker.batches == [5, 5, 2]


def test_short_chunks_are_claimed_ahead_and_published_together(store: Store) -> None:
    store.announce("gate", [str(n) for n in range(80)])
    counting: Any = Counting(store)
    worker = Played(store)
    assert drain(counting, worker, "open", workers=1) == {"READY": 80}
    assert (counting.asked[0], max(counting.asked)) == (1, 32), "nothing is known of the first one"
    assert len(worker.ended) < 40
    assert worker.given_back == []


class Apart(Played):
    """One whose publishing has a connection of its own."""

    def with_new_connection(self) -> Apart:
        other = copy(self)
        other.store = opendataflow.open(self.store.url)
        return other


def test_the_next_chunks_are_claimed_while_the_last_ones_are_published(store: Store) -> None:
    """Not every time: whoever claims may have enough in hand, or be done."""
    store.announce("gate", [str(n) for n in range(1, 601)])
    counting: Any = Counting(store)
    is_apart = threading.Event()
    was_asked: list[bool] = []

    class Waiting(Apart):
        def with_new_connection(self) -> Apart:
            is_apart.set()
            return super().with_new_connection()

        def end(self, batches: Sequence[Batch]) -> None:
            if self.store is not store and not any(was_asked):
                counting.again.clear()
                was_asked.append(counting.again.wait(0.5))
            super().end(batches)

    worker = Waiting(store, lambda claim: "READY" if claim.dataid != "5" or is_apart.wait(30) else "FAILED")
    assert drain(counting, worker, "open", workers=1) == {"READY": 600}
    assert any(was_asked)


def test_long_chunks_need_no_second_connection(store: Store) -> None:
    store.register(jobs=[Job("open", (Input("gate"),), ("raw",), options={"batch": 2})])
    store.announce("gate", NUMBERS)
    worker = Played(store)
    worker.with_new_connection = None  # type: ignore[assignment, method-assign]
    assert drain(store, worker, "open", workers=2) == {"READY": 12}


@pytest.mark.parametrize("workers", [1, 4])
def test_all_is_published_before_a_drain_ends_whose_publishing_is_apart(store: Store, workers: int) -> None:
    store.announce("gate", [str(n) for n in range(1, 201)])
    worker = Apart(store)

    def work(claim: Claim) -> str:
        if claim.dataid == "150":
            worker.cancelled.set()
        return "READY" if int(claim.dataid) % 40 else "FAILED"

    worker.play = work
    found = drain(store, worker, "open", "make", workers=workers)
    ended = [run.status for run in store.views.runs(n=1000)]
    assert (found["READY"], found["JOB_FAILED"]) == (ended.count("READY"), ended.count("FAILED"))
    assert store.views.running() == []
    assert drain(store, Apart(store), workers=workers)["READY"] > 0
    store.resubmit("raw", [str(n) for n in range(40, 201, 40)])
    drain(store, Apart(store), workers=workers)
    assert store.views.status_counts()["report"] == {"READY": 200}


def test_what_a_limit_may_hold_back_for_others_is_not_claimed_ahead(store: Store) -> None:
    store.register(jobs=[Job("open", (Input("gate"),), ("raw",), pool="db")], pools=[Pool("db", 20)])
    store.announce("gate", NUMBERS)
    counting: Any = Counting(store)
    assert drain(counting, Played(store), "open", workers=1) == {"READY": 12}
    assert set(counting.asked) == {1}


def test_what_was_claimed_ahead_and_not_begun_is_given_back_at_the_end(store: Store) -> None:
    store.announce("gate", [str(n) for n in range(1, 41)])
    worker = Played(store)

    def work(claim: Claim) -> str:
        if claim.dataid == "9":
            worker.cancelled.set()
        return "READY"

    worker.play = work
    found = drain(store, worker, "open", workers=1)
    assert found == {"READY": 9}, "what has ended is published"
    assert worker.given_back
    assert store.views.running() == []
    again = {claim.dataid: claim.tries for claim in store.claim("open", 40)}
    assert again == {str(n): 1 for n in range(10, 41)}, "no try is used up"


def test_what_ended_is_published_although_the_next_one_takes_long(store: Store) -> None:
    store.announce("gate", NUMBERS)
    published = threading.Event()

    class Telling(Played):
        def end(self, batches: Sequence[Batch]) -> None:
            super().end(batches)
            if any(claim.dataid == "4" for batch in batches for claim in batch.claims):
                published.set()

    worker = Telling(store, lambda claim: "READY" if claim.dataid != "5" or published.wait(30) else "FAILED")
    assert drain(store, worker, "open", workers=1) == {"READY": 12}


def test_what_no_thread_begins_in_time_is_given_back(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain_module, "_START_WITHIN", 0.01)
    store.announce("gate", NUMBERS)
    given_back = threading.Event()

    class Telling(Played):
        def give_back(self, batch: Batch, why: str) -> None:
            super().give_back(batch, why)
            given_back.set()

    worker = Telling(store, lambda claim: "READY" if claim.dataid != "5" or given_back.wait(30) else "FAILED")
    assert drain(store, worker, "open", workers=1) == {"READY": 12}
    assert worker.given_back


def test_a_chunk_that_somebody_holds_by_hand_is_not_waited_for(store: Store) -> None:
    store.announce("gate", ["1", "2"])
    store.claim("open", lease=86400)
    assert drain(store, Played(store), "open") == {"READY": 1}


def test_counts_do_not_grow_with_the_chunks(store: Store) -> None:
    store.announce("gate", [str(n) for n in range(60)])
    drained = Drain(store, Played(store), ["open"], workers=2).run()  # type: ignore[arg-type]
    assert drained.done == {"open": 60}
    assert (len(drained.slowest), drained.failures) == (10, [])


def test_a_stopped_chunk_is_not_counted_as_failed(store: Store) -> None:
    store.announce("gate", ["1", "2", "3"])
    worker = Played(store, lambda claim: {"1": "READY", "2": "FAILED", "3": "STOPPED"}[claim.dataid])
    drained = Drain(store, worker, ["open"], workers=1).run()  # type: ignore[arg-type]
    assert Watch(store, ["open"]).look(drained).jobs[0].failed == 1


def test_failures_are_grouped_by_cause_and_the_command_names_them(store: Store) -> None:
    store.announce("gate", NUMBERS)
    worker = Played(store, lambda claim: "READY" if int(claim.dataid) % 3 else "FAILED")
    drained = Drain(store, worker, ["open"], workers=2).run()  # type: ignore[arg-type]
    found = report(store, drained, ["open", "make"])
    assert [(cause.jobs, cause.outcome, cause.chunks) for cause in found.causes] == [(("open",), "JOB_FAILED", 4)]
    assert found.outcome == "JOB_FAILED"
    assert found.left == (Left("open", 4, 0, 0, 0), Left("make", 0, 8, 0, 4)), "nobody was asked to make"
    (command,) = found.commands
    assert sorted(command.split()[3:-1], key=int) == ["3", "6", "9", "12"]
    progress = Watch(store, ["open", "make"]).look(drained)
    assert progress.jobs[0] == JobProgress("open", 8, 0, 4, 0)
    assert progress.jobs[1].waiting == 8
    assert progress.line.startswith("8 done, 0 running, 4 failed, 8 waiting")
