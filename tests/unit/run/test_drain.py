"""The drain with a worker that is only played: who claims, when it ends, and what a broken Spark costs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import opendataflow
from opendataflow import Dataset, Input, Job, Partition, Store
from opendataflow.errors import BadConfig, JobFailed
from opendataflow.model import Catalogue
from opendataflow.run.drain import Drain
from opendataflow.run.script import Result
from opendataflow.store import Claim

NUMBERS = [str(number) for number in range(1, 13)]


class Played:
    """A worker that commits, or does what the test says."""

    def __init__(self, store: Store, work: Callable[[Claim], str] = lambda claim: "READY") -> None:
        self.store, self.work = store, work
        self.cancelled = threading.Event()
        self.is_lost = False
        self.can_start = True
        self.threads: dict[str, set[str]] = {}

    def needs_spark(self, job: Job) -> bool:
        return job.jobid == "make"

    def spark(self) -> None:
        if not self.can_start:
            raise BadConfig("Spark cannot start")

    def lost_spark(self) -> bool:
        return self.is_lost

    def run(self, catalogue: Catalogue, claim: Claim) -> Result:
        self.threads.setdefault(claim.jobid, set()).add(threading.current_thread().name)
        if self.work(claim) == "READY":
            self.store.commit(claim)
            return Result("READY", 0, claim=claim)
        self.store.fail(claim)
        return Result("JOB_FAILED", 1, claim=claim)


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


def test_a_thread_that_found_nothing_comes_back_when_another_one_made_more_to_do(store: Store) -> None:
    store.announce("gate", ["1"])

    def work(claim: Claim) -> str:
        if claim.jobid == "open":
            time.sleep(0.6)  # the other threads have found nothing meanwhile
            store.announce("gate", NUMBERS)
        elif claim.jobid == "make":
            time.sleep(0.05)
        return "READY"

    worker = Played(store, work)
    store.announce("gate", ["1"])
    drain(store, worker)
    assert len(worker.threads["make"]) > 1


def test_where_spark_cannot_start_nothing_is_claimed(store: Store) -> None:
    store.announce("raw", NUMBERS)
    worker = Played(store)
    worker.can_start = False
    with pytest.raises(BadConfig):
        drain(store, worker)
    assert store.runs() == []
    assert drain(store, worker, "open") == {}, "who needs no Spark does not miss it"


def test_when_spark_dies_the_backlog_is_left_alone(store: Store) -> None:
    store.announce("raw", NUMBERS)
    worker = Played(store)

    def work(claim: Claim) -> str:
        worker.is_lost = worker.is_lost or claim.dataid == "3"
        return "FAILED" if worker.is_lost else "READY"

    worker.work = work
    with pytest.raises(JobFailed, match="Spark died"):
        drain(store, worker, "make", workers=2)
    counts = store.status_counts()["product"]
    assert counts["FAILED"] <= 2
    assert store.running() == []
    assert len(store.next_dataids("make", 100)) >= 8
