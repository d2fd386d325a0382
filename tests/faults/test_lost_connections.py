"""A server that dies, or whose answer is lost, at any moment: the verdict is always right, and nobody ends."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, cast

import psycopg
import pytest
from psycopg import errors

import opendataflow
from opendataflow import Store
from opendataflow.errors import StoreUnreachable
from opendataflow.store import Claim
from opendataflow.store.drivers import postgres
from tests.support.broken import PATIENCE, until
from tests.support.flows import chain, claim_one, kinds, status
from tests.support.postgres import Cluster
from tests.support.proxy import COMMIT, LOSE_ANSWER, LOSE_QUESTION, PASS, Proxy

pytestmark = [pytest.mark.postgres, pytest.mark.fault(7, 27)]


@pytest.fixture
def proxy(cluster: Cluster) -> Iterator[Proxy]:
    """What lies between the server and the store."""
    proxy = Proxy(cluster.port)
    yield proxy
    proxy.close()


@pytest.fixture
def said() -> list[str]:
    """What the store said while somebody waited."""
    return []


@pytest.fixture
def store(cluster: Cluster, proxy: Proxy, said: list[str]) -> Iterator[Store]:
    """A store with chunks 1 to 99, behind the proxy."""
    url = cluster.create_database().replace(str(cluster.port), str(proxy.port))
    with opendataflow.open(url, create=True, who="tester", say=said.append) as store:
        chain(store)
        store.announce("raw", [str(number) for number in range(1, 100)])
        yield store
    with opendataflow.open(url) as auditor:  # a test may have left its own store without patience
        assert auditor.breaches() == []


def claim(store: Store) -> list[Claim]:
    return [claimed._replace(runid=0) for claimed in store.claim("make")]  # a sequence counts lost transactions too


def commit(store: Store) -> None:
    store.commit(claim_one(store, "make"))


def fail(store: Store) -> str:
    return store.fail(claim_one(store, "make"), "JOB_FAILED", "it was bad")


def announce(store: Store) -> object:
    return store.announce("raw", ["100"])


def dml(store: Store) -> int:
    return store.dml("insert into dataset (datasetid) values ('more')")


def facts(store: Store) -> dict[str, object]:
    """Everything that a lost, doubled or half transaction would change."""
    return {
        what: store.sql(statement)[1]
        for what, statement in {
            "runs": "select dataid, epoch, status, outcome from run order by runid",
            "chunks": "select datasetid, dataid, locktype, status, epoch, version, tries, seal from datastatus"
            " order by datasetid, dataid, locktype",
            "manifests": "select datasetid, dataid, version from data_manifest order by 1, 2, 3",
            "events": "select kind, datasetid, dataid, epoch from event order by eventid",
            "candidates": "select jobid, dataid, state from candidate order by 1, 2",
            "datasets": "select datasetid from dataset order by 1",
        }.items()
    }


@pytest.mark.parametrize("lost", [LOSE_QUESTION, LOSE_ANSWER])
@pytest.mark.parametrize("act", [claim, commit, fail, announce, dml])
def test_a_commit_whose_answer_is_lost_happens_exactly_once(
    act: Callable[[Store], object], lost: str, store: Store, proxy: Proxy, cluster: Cluster
) -> None:
    with opendataflow.open(cluster.create_database(), create=True, who="tester") as calm:
        chain(calm)
        calm.announce("raw", [str(number) for number in range(1, 100)])
        expected, expected_facts = act(calm), facts(calm)
    proxy.lose_commit(lost)
    answer = act(store)
    assert proxy.decide(COMMIT) == PASS, "a commit was lost"
    assert answer == expected
    assert facts(store) == expected_facts


def test_a_claim_whose_answer_was_lost_can_be_published(store: Store, proxy: Proxy) -> None:
    proxy.lose_commit(LOSE_ANSWER)
    claimed = claim_one(store, "make")
    proxy.lose_commit(LOSE_ANSWER)
    store.heartbeat(claimed)
    proxy.lose_commit(LOSE_ANSWER)
    store.commit(claimed)
    assert (status(store, "product", "1"), store.views.running()) == ("READY", [])
    assert kinds(store, "product", "1") == ["claimed", "published"]


@pytest.mark.parametrize("how", [signal.SIGQUIT, signal.SIGKILL])
def test_a_server_that_dies_at_any_moment_of_a_run_is_waited_for(
    how: signal.Signals, store: Store, proxy: Proxy, cluster: Cluster, said: list[str]
) -> None:
    """Killed before each single question of a claim, a heartbeat, a look and a commit; back a moment later."""
    asked = 0

    def life() -> None:
        claimed = claim_one(store, "make")
        store.heartbeat(claimed)
        store.catalogue()
        store.commit(claimed)

    def count(question: bytes) -> str:
        nonlocal asked
        asked += 1
        return PASS

    life()  # from here on every statement is prepared
    proxy.decide = count
    life()
    questions = asked

    def kill_before(number: int) -> Callable[[bytes], str]:
        left = number

        def decide(question: bytes) -> str:
            nonlocal left
            left -= 1
            if left == 0:
                cluster.kill(how)
                timer = threading.Timer(0.1, cluster.start_soon)
                timer.start()
                timers.append(timer)
            return PASS

        return decide

    assert 8 < questions < 40
    timers: list[threading.Timer] = []
    step = 1 if how == signal.SIGQUIT else 5
    for number in range(1, questions + 1, step):
        said.clear()
        proxy.decide = kill_before(number)
        life()
        timers[-1].join()
        cluster.wait()
        if how == signal.SIGQUIT:  # what is killed without a word may answer for a while
            assert said[0].startswith("waiting for the store"), number
            assert " is back after " in said[1], number
            assert len(said) == 2, said
    proxy.decide = lambda question: PASS
    runs = store.sql("select status, epoch from run")[1]
    assert set(runs) == {("READY", 1)}
    assert len(runs) == 2 + len(timers)
    assert store.sql("select count(*) from event where kind = 'published'")[1] == [(len(runs),)]


def test_patience_has_an_end_that_has_a_name(store: Store, proxy: Proxy) -> None:
    store.patience = 0.2
    proxy.decide = lambda question: LOSE_QUESTION
    with pytest.raises(StoreUnreachable):
        store.catalogue()
    proxy.decide = lambda question: PASS
    assert store.catalogue().jobs


def test_a_person_s_query_without_rows_lets_other_threads_work_while_it_waits(store: Store) -> None:
    statement = "select datasetid, format from dataset where datasetid = 'none'"
    assert store.sql(statement) == (["datasetid", "format"], []), "what passes it on is a thread of this process"


def test_a_person_who_looks_waits_too(store: Store, proxy: Proxy) -> None:
    lose = [LOSE_QUESTION, LOSE_ANSWER]
    proxy.decide = lambda question: lose.pop() if lose and b"select 1" in question else PASS
    assert store.sql("select 1 as one") == (["one"], [(1,)])
    assert lose == []


def test_what_a_run_reads_is_given_to_it_once_whatever_is_lost_on_the_way(store: Store, proxy: Proxy) -> None:
    claims = store.claim("make", 2)
    expected = store.input_chunks(claims)
    assert [len(read) for read in expected.values()] == [1, 1]
    for number in range(8):  # more questions than it asks
        left = iter([PASS] * number + [LOSE_QUESTION])
        proxy.decide = lambda question, left=left: next(left, PASS)  # type: ignore[misc]
        assert store.input_chunks(claims) == expected


def test_the_server_does_not_keep_the_locks_of_a_client_that_fell_silent_for_hours(store: Store) -> None:
    """A host that is cut off proves it, in test_cut_off.py with --soak; here, that the server was told."""
    asked = {name: f"select current_setting('{name}')" for name in ("tcp_keepalives_idle", "tcp_user_timeout")}
    told = {name: store.sql(statement)[1][0][0] for name, statement in asked.items()}
    assert told == {"tcp_keepalives_idle": "20", "tcp_user_timeout": "60000"}


GONE = ["08000", "08001", "08003", "08004", "08006", "08007", "08P01", "25P03", "25P04", "53300"]
GONE += ["57P01", "57P02", "57P03", "57P04", "57P05"]


@pytest.mark.parametrize("code", GONE)
def test_every_code_that_means_gone_is_known(code: str) -> None:
    assert postgres.is_gone(errors.lookup(code)("gone"))


@pytest.mark.parametrize("kind", [psycopg.OperationalError, psycopg.InterfaceError, psycopg.DatabaseError])
def test_what_the_driver_says_without_a_code_means_gone(kind: type[psycopg.Error]) -> None:
    assert postgres.is_gone(kind("server closed the connection unexpectedly"))


@pytest.mark.parametrize("code", ["23505", "42601", "42P01", "22P02", "53100", "57014", "55P03", "XX001"])
def test_what_the_server_says_about_a_statement_does_not(code: str) -> None:
    assert not postgres.is_gone(errors.lookup(code)("wrong"))
    assert not postgres.is_gone(psycopg.ProgrammingError("a mistake of ours"))


def test_a_store_that_falls_silent_is_given_up_once_somebody_wants_an_end(store: Store, proxy: Proxy) -> None:
    """It accepts the question and a new connection, and answers neither."""
    claimed = claim_one(store, "make")
    proxy.stall()
    raised: list[BaseException] = []

    def beat() -> None:
        try:
            store.heartbeat(claimed)
        except StoreUnreachable as error:
            raised.append(error)

    waits = threading.Thread(target=beat)
    waits.start()
    until(lambda: proxy.held_up, "the question")
    store.patience = 0.2
    store.end_soon()
    waits.join(60)
    assert raised, "nobody waits for ever"
    with pytest.raises(StoreUnreachable):  # it waits for the same store, without the thread that was interrupted
        store.commit(claimed)
    store.patience = PATIENCE
    proxy.cut()
    store.commit(claimed)
    assert status(store, "product", "1") == "READY"


def test_a_store_that_answers_in_time_is_not_given_up(store: Store) -> None:
    store.end_soon()
    for _ in range(3):
        commit(store)
        time.sleep(0.3)
    assert status(store, "product", "3") == "READY"


def test_files_that_move_for_long_are_no_silence_of_the_store(store: Store) -> None:
    """Neither whoever wants an end nor the server breaks a commit that moves its files."""
    claimed = claim_one(store, "make")
    moved: list[str] = []

    def move() -> None:
        time.sleep(3 * store.patience)
        connection = cast(Any, store)._backend._connection
        moved.append(connection.execute("show idle_in_transaction_session_timeout").fetchone()[0])

    store.patience = 1.0
    store.end_soon()
    store.commit_many([(claimed, {}, 0)], publish_files=[move])
    assert moved == ["15min"]
    assert status(store, "product", "1") == "READY"
