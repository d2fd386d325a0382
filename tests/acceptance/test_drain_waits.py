"""The drain over time, with a worker that is only played: what it waits for, and how patiently."""

from __future__ import annotations

import threading
import time
from typing import Any

from opendataflow import Input, Job, Pool, Store
from opendataflow.model import RetryRule
from opendataflow.run.drain import Drain
from opendataflow.store import Claim
from tests.unit.run.test_drain import NUMBERS, Counting, Played, drain, store

__all__ = ["store"]


def test_a_thread_that_found_nothing_comes_back_when_another_one_made_more_to_do(store: Store) -> None:
    store.announce("gate", ["1"])
    both = threading.Barrier(2)

    def work(claim: Claim) -> str:
        if claim.jobid == "open":
            time.sleep(0.6)  # the other threads have found nothing meanwhile
            store.announce("gate", NUMBERS)
        elif claim.jobid == "make" and claim.dataid in NUMBERS[1:3]:
            both.wait(240)
        return "READY"

    worker = Played(store, work)
    store.announce("gate", ["1"])
    drain(store, worker)
    assert len(worker.threads["make"]) > 1


def test_a_drain_that_follows_does_not_ask_again_and_again(store: Store) -> None:
    worker: Any = Played(store)
    counting: Any = Counting(store)
    threading.Timer(3, worker.cancelled.set).start()
    Drain(counting, worker, ["open", "make"], workers=4, follow=True).run()
    assert len(counting.asked) < 12


def test_what_a_limit_holds_back_is_waited_for(store: Store) -> None:
    store.register(jobs=[Job("open", (Input("gate"),), ("raw",), pool="db")], pools=[Pool("db", 0)])
    store.announce("gate", NUMBERS)
    threading.Timer(1, lambda: store.register(pools=[Pool("db", 2)])).start()
    assert drain(store, Played(store), "open") == {"READY": 12}


def test_a_chunk_that_gives_no_sign_of_life_is_waited_for_and_one_that_does_is_not(store: Store) -> None:
    store.register(jobs=[Job("open", (Input("gate"),), ("raw",), retry=RetryRule(1, 0), lease=600)])
    store.announce("gate", ["1", "2"])
    dead, alive = store.claim("open", 2)
    store.dml(f"update run set lease_until = lease_until - 597 where runid = {dead.runid}")
    stop = threading.Event()

    def beat() -> None:
        while not stop.wait(0.5):
            store.heartbeat(alive)

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        assert drain(store, Played(store), "open") == {"READY": 1}
    finally:
        stop.set()
        thread.join()
    assert [run.runid for run in store.views.running()] == [alive.runid]
    assert store.views.run(dead.runid).outcome == "LEASE_LOST"
