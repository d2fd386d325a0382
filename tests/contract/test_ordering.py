"""Next: resubmitted first, then the rest, each in the order of the dataid's type."""

from __future__ import annotations

import pytest

from opendataflow import Store
from tests.support.flows import chain, claim_one, dataset, drain, following, job, produce

ORDERS = {
    "number": ["0", "1", "9", "10", "11", "99", "100", "1000000000000"],
    "range": ["1", "2", "9", "10", "100"],
    "day": ["1999-12-31", "2024-02-29", "2024-03-01", "2025-01-01", "2025-10-02"],
    "hour": ["2024-12-31T23", "2025-01-01T00", "2025-01-01T09", "2025-01-01T10"],
    "month": ["1999-12", "2024-09", "2024-10", "2025-01"],
    "year": ["0999", "1999", "2025"],
    "text": ["1.2", "1.10", "a", "a1", "a2", "a9b", "a10", "b", "part-9", "part-10"],
}


@pytest.mark.parametrize("partition", ORDERS)
def test_chunks_come_in_the_order_of_their_type(store: Store, partition: str) -> None:
    chain(store, partition=partition)
    expected = ORDERS[partition]
    store.announce("raw", expected[::-1])
    assert following(store, "make", n=100) == expected
    assert [chunk.dataid for chunk in store.views.all_chunks("raw")] == expected
    assert [dataid for jobid, dataid in drain(store, "make", n=1)] == expected
    assert [claim.dataid for claim in store.claim("use", n=100)] == expected


def test_chunks_typed_as_sql_come_in_the_same_order(store: Store) -> None:
    chain(store)
    for dataid in ("10", "9", "100"):
        store.dml(
            "insert into datastatus (datasetid, dataid, jobid, locktype, status) "
            f"values ('raw', '{dataid}', 'me', 'OUT', 'READY')"
        )
    assert [produce(store, "make").dataid for _ in range(3)] == ["9", "10", "100"]
    assert [chunk.dataid for chunk in store.views.all_chunks("raw")] == ["9", "10", "100"]


def test_resubmitted_chunks_go_first_and_in_order_among_themselves(store: Store) -> None:
    chain(store)
    store.announce("raw", [str(n) for n in range(1, 13)])
    for _ in range(11):
        produce(store, "make")
    store.resubmit("product", ["10", "9", "2"])
    store.announce("raw", ["0"])
    assert following(store, "make", n=10) == ["2", "9", "10", "0", "12"]
    assert following(store, "make", n=4) == ["2", "9", "10", "0"]
    assert [claim.dataid for claim in store.claim("make", n=10)] == ["2", "9", "10", "0", "12"]


@pytest.mark.parametrize("n", [1, 2])
def test_resubmitted_chunks_go_first_also_where_not_all_are_taken(store: Store, n: int) -> None:
    chain(store)
    store.announce("raw", ["1", "2", "3"])
    for dataid in ("1", "2", "3"):
        produce(store, "make", dataid)
    store.announce("raw", ["0", "4"])
    store.resubmit("product", ["3", "2"])
    taken: list[str] = []
    while claims := store.claim("make", n=n):
        taken += [claim.dataid for claim in claims]
    assert taken == ["2", "3", "0", "4"]


def test_one_given_dataid_is_taken_out_of_turn(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2", "3"])
    assert claim_one(store, "make", dataid="2").dataid == "2"
    assert store.claim("make", dataid="2") == [], "it runs"
    assert store.claim("make", dataid="4") == [], "its input is not there"
    assert [claim.dataid for claim in store.claim("make", n=5)] == ["1", "3"]


def test_two_jobs_that_read_the_same_chunk_each_get_it(store: Store) -> None:
    store.register(
        [dataset("raw"), dataset("a"), dataset("b")], [job("one", "raw", writes="a"), job("two", "raw", writes="b")]
    )
    store.announce("raw", ["1", "2"])
    first, second = claim_one(store, "one"), claim_one(store, "two")
    assert (first.dataid, second.dataid) == ("1", "1")
    store.commit(first)
    store.fail(second)
    assert claim_one(store, "one").dataid == "2"
    assert claim_one(store, "two").dataid == "2"


def test_a_dataid_of_another_form_stands_in_nobodys_way(store: Store) -> None:
    chain(store)
    store.dml(
        "insert into datastatus (datasetid, dataid, jobid, locktype, status) "
        "values ('raw', '2025-01-01', 'me', 'OUT', 'READY')"
    )
    store.announce("raw", ["1"])
    assert [claim.dataid for claim in store.claim("make", n=5)] == ["1"]
