"""Many processes at the same time: each chunk exactly once, nothing lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from opendataflow import Pool, Store
from tests.support.flows import chain, dataset, drain, job, kinds
from tests.support.workers import Workers


def assert_sound(store: Store) -> None:
    """What must be true at the end of every race."""
    if store.url.startswith("sqlite"):
        assert store.sql("pragma integrity_check")[1] == [("ok",)]
    assert store.views.running() == []
    twice = "select jobid, dataid, epoch from event where kind = 'published' group by 1, 2, 3 having count(*) > 1"
    assert store.sql(twice)[1] == []


@pytest.mark.slow
def test_two_processes_that_publish_the_two_inputs_of_a_job_never_lose_the_candidate(
    store: Store, store_url: str
) -> None:
    store.register([dataset(name) for name in ("left", "right", "out")], [job("join", "left", "right", writes="out")])
    Workers(store_url, ("publish", "left", "0", "200"), ("publish", "right", "0", "200")).go()
    assert store.views.candidate_counts() == {"join": {"CLAIMABLE": 200}}
    assert [dataid for _, dataid in drain(store, "join")] == [str(n) for n in range(200)]


@pytest.mark.slow
def test_inputs_that_are_published_by_two_jobs_never_lose_the_candidate(store: Store, store_url: str) -> None:
    store.register(
        [dataset(name) for name in ("raw", "left", "right", "out")],
        [job("l", "raw", writes="left"), job("r", "raw", writes="right"), job("join", "left", "right", writes="out")],
    )
    store.announce("raw", [str(n) for n in range(200)])
    workers = Workers(store_url, ("drain", "l", "1"), ("drain", "r", "1"), ("drain", "join", "1", "waits"))
    answers = workers.go(in_turn=[[2]])
    assert [len(answer) for answer in answers] == [200, 200, 200]
    assert store.views.candidate_counts() == {}
    assert_sound(store)


@pytest.mark.slow
def test_resubmits_typed_while_workers_drain_are_neither_lost_nor_done_twice(store: Store, store_url: str) -> None:
    chain(store)
    chunks = 300
    store.announce("raw", [str(n) for n in range(chunks)])
    *answers, hit = Workers(
        store_url, *[("drain", "make", "2", "waits")] * 4, ("resubmit", "product", "100", "0.01")
    ).go(in_turn=[range(4)])
    published = Counter(dataid for answer in answers for dataid, _ in answer)
    assert sum(published.values()) == chunks + hit
    assert hit > 0
    assert set(published) == {str(n) for n in range(chunks)}
    assert store.views.status_counts()["product"] == {"READY": chunks}
    for chunk in store.views.all_chunks("product"):
        assert chunk.version == published[chunk.dataid], "one version for each time it was produced"
    assert_sound(store)


@pytest.mark.slow
def test_a_pipeline_drains_while_it_is_fed(store: Store, store_url: str) -> None:
    chain(store)
    answers = Workers(
        store_url,
        ("publish", "raw", "0", "100"),
        ("publish", "raw", "100", "200"),
        *[("drain", "make", "3", "waits")] * 2,
        *[("drain", "use", "3", "waits")] * 2,
    ).go(in_turn=[[2, 3], [4, 5]])
    assert sum(len(answer) for answer in answers[2:4]) == 200
    assert sum(len(answer) for answer in answers[4:]) == 200
    assert store.views.status_counts()["report"] == {"READY": 200}
    assert_sound(store)


@pytest.mark.slow
def test_announcements_of_the_same_chunk_by_several_processes_become_versions(store: Store, store_url: str) -> None:
    chain(store)
    Workers(store_url, *[("contents", "raw", f"content {n}", "30") for n in range(4)]).go()
    for chunk in store.views.all_chunks("raw"):
        assert chunk.version == 4
        stored = store.views.manifests("raw", chunk.dataid)
        assert [published.version for published in stored] == [4, 3, 2, 1]
        assert len({published.manifest.fingerprint for published in stored}) == 4
        assert kinds(store, "raw", chunk.dataid) == ["announced"] * 4


@pytest.mark.slow
def test_the_limit_of_a_pool_holds_across_processes(store: Store, store_url: str) -> None:
    chain(store, pools=[Pool("pool", 3)], pool="pool")
    store.announce("raw", [str(n) for n in range(300)])
    answers = Workers(store_url, *[("hold_places", "make", "10", "0.01", "3")] * 6).go()
    seen = [taken for answer in answers for taken in answer]
    assert max(seen) == 3
    assert store.views.slots_taken("pool") == 0


def test_the_limit_of_a_pool_holds_across_threads(store: Store, open_again: Callable[..., Store]) -> None:
    from concurrent.futures import ThreadPoolExecutor

    chain(store, pools=[Pool("pool", 2)], pool="pool")
    store.announce("raw", [str(n) for n in range(50)])
    stores = [store, open_again()]
    with ThreadPoolExecutor(8) as threads:
        claims = [claim for found in threads.map(lambda n: stores[n % 2].claim("make"), range(40)) for claim in found]
    assert len(claims) == 2
    assert store.views.slots_taken("pool") == 2


def test_threads_share_one_store(store: Store) -> None:
    from concurrent.futures import ThreadPoolExecutor

    chain(store)
    store.announce("raw", [str(n) for n in range(100)])

    def work(_: int) -> list[str]:
        done = []
        while claims := store.claim("make"):
            store.commit(claims[0])
            done.append(claims[0].dataid)
        return done

    with ThreadPoolExecutor(8) as threads:
        published = [dataid for done in threads.map(work, range(8)) for dataid in done]
    assert sorted(published, key=int) == [str(n) for n in range(100)]


def test_a_consumer_registered_while_chunks_are_published_misses_none(
    store: Store, store_url: str, open_again: Callable[..., Store]
) -> None:
    chain(store)
    other = open_again()
    other.claim("make")  # it knows the definitions as they are now
    store.register([dataset("late")], [job("late", "raw", writes="late")])
    other.announce("raw", ["1"])
    assert [claim.dataid for claim in other.claim("late")] == ["1"]
    store.register([dataset("later")], [job("later", "product", writes="later")])
    claims = other.claim("make")
    store.register([dataset("last")], [job("last", "product", writes="last")])
    other.commit(claims[0])
    assert [claim.dataid for claim in store.claim("later")] == ["1"]
    assert [claim.dataid for claim in store.claim("last")] == ["1"]
