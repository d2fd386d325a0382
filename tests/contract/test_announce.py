"""An outside producer says that chunks are there."""

from __future__ import annotations

import pytest

from opendataflow import Manifest, Store
from opendataflow.errors import BadDataid, BadId, Locked, UnknownDataset, WrongData
from tests.support.flows import chain, claim_one, dataset, drain, dump, fold_in, job, kinds, produce, put, status


def test_one_chunk_becomes_ready_and_its_consumer_gets_it(store: Store) -> None:
    chain(store)
    told = store.announce("raw", ["1"], why="file arrived")
    assert (told.ready, told.unchanged) == (("1",), ())
    chunk = store.views.chunk("raw", "1")
    assert chunk is not None
    assert (chunk.status, chunk.version, chunk.jobid) == ("READY", 1, "outside")
    (event,) = store.views.events("raw", "1")
    assert (event.kind, event.before, event.after, event.who, event.why) == (
        "announced",
        None,
        "READY",
        "tester",
        "file arrived",
    )
    assert claim_one(store, "make").dataid == "1"


def test_ten_thousand_at_once(store: Store) -> None:
    chain(store)
    told = store.announce("raw", [str(n) for n in range(10_000)])
    assert len(told.ready) == 10_000
    assert store.views.status_counts() == {"raw": {"READY": 10_000}}
    assert store.views.candidate_counts() == {"make": {"CLAIMABLE": 10_000}}
    assert [claim.dataid for claim in store.claim("make", n=3)] == ["0", "1", "2"]


def test_more_than_fit_into_one_statement(store: Store) -> None:
    store.register([dataset("raw")])
    told = store.announce("raw", (str(n) for n in range(12_345)))
    assert len(told.ready) == 12_345
    assert store.views.status_counts() == {"raw": {"READY": 12_345}}


def test_the_same_announcement_again_changes_nothing(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2"])
    drain(store, "make")
    before = dump(store)
    told = store.announce("raw", ["2", "1", "2"])
    assert (told.ready, set(told.unchanged)) == ((), {"1", "2"})
    assert dump(store) == before


def test_chunks_of_different_pasts_at_once(store: Store) -> None:
    store.register([dataset("raw")])
    store.announce("raw", ["1", "2"])
    store.announce("raw", ["2"], again=True)
    store.dml("update datastatus set status = 'FAILED' where dataid = '2'")
    told = store.announce("raw", ["3", "2", "1"], again=True)
    assert (told.ready, told.renewed) == (("3", "2", "1"), ("2", "1"))
    assert [(chunk.dataid, chunk.version) for chunk in store.views.chunks("raw")] == [("1", 2), ("2", 3), ("3", 1)]
    events = [store.views.events("raw", dataid)[-1] for dataid in ("1", "2", "3")]
    assert [(event.epoch, event.before) for event in events] == [(2, "READY"), (3, "FAILED"), (1, None)]


def test_a_single_text_is_one_dataid(store: Store) -> None:
    chain(store)
    assert store.announce("raw", "17").ready == ("17",)


@pytest.mark.parametrize("bad", ["x", "007", "-1", "", "1.5", "1" * 19])
def test_one_malformed_dataid_and_nothing_is_announced(store: Store, bad: str) -> None:
    chain(store)
    before = dump(store)
    with pytest.raises((BadDataid, BadId)):
        store.announce("raw", ["1", bad, "2"])
    assert dump(store) == before


def test_a_dataid_outside_the_bounds_is_refused(store: Store) -> None:
    store.register([dataset("raw", "day", start="2025-01-01", end="2025-12-31")])
    with pytest.raises(BadDataid):
        store.announce("raw", ["2026-01-01"])
    with pytest.raises(BadDataid):
        store.announce("raw", ["2025-02-30"])
    assert store.views.status_counts() == {}


def test_an_unknown_dataset_is_named(store: Store) -> None:
    with pytest.raises(UnknownDataset):
        store.announce("nosuch", ["1"])


@pytest.mark.parametrize("word", ["RUNNING", "HOLD", "PENDING"])
def test_a_locked_chunk_is_not_announced_and_neither_are_the_others(store: Store, word: str) -> None:
    chain(store)
    put(store, "raw", "2", word)
    fold_in(store)
    before = dump(store)
    with pytest.raises(Locked):
        store.announce("raw", ["1", "2"])
    assert dump(store) == before


@pytest.mark.parametrize("word", ["FAILED", "RESUBMIT"])
def test_a_chunk_that_is_delivered_again_is_ready_again(store: Store, word: str) -> None:
    chain(store)
    store.announce("raw", ["1"])
    store.dml(f"update datastatus set status = '{word}'")
    assert store.claim("make") == []
    assert store.announce("raw", ["1"]).ready == ("1",)
    chunk = store.views.chunk("raw", "1")
    assert chunk is not None
    assert (chunk.status, chunk.version) == ("READY", 2)
    produce(store, "make", "1")


def facts(fingerprint: str, location: str = "") -> Manifest:
    return Manifest(location=location, fingerprint=fingerprint, bytes=10, rows=2)


def test_yesterdays_file_under_todays_name_is_wrong_data(store: Store) -> None:
    store.register([dataset("raw", "day")])
    store.announce("raw", ["2025-01-01"], manifests={"2025-01-01": facts("abc")})
    before = dump(store)
    with pytest.raises(WrongData, match="2025-01-01"):
        store.announce("raw", ["2025-01-02"], manifests={"2025-01-02": facts("abc")})
    with pytest.raises(WrongData, match="2025-01-01"):  # cron offers it again and again
        store.announce("raw", ["2025-01-02"], manifests={"2025-01-02": facts("abc")})
    after = dump(store)
    [event] = store.views.last_events("raw", "2025-01-02")
    assert (event.kind, event.after) == ("refused", "WRONG_DATA")
    assert event.why == "raw 2025-01-02 has exactly the content of raw 2025-01-01"
    assert {name: rows for name, rows in after.items() if name != "event"} == {
        name: rows for name, rows in before.items() if name != "event"
    }


def test_the_same_content_twice_in_one_announcement_is_wrong_data(store: Store) -> None:
    store.register([dataset("raw", "day")])
    days = ["2025-01-01", "2025-01-02"]
    with pytest.raises(WrongData, match="2025-01-01"):
        store.announce("raw", days, manifests={day: facts("abc") for day in days})
    assert store.views.status_counts() == {}


def test_repeats_are_allowed_where_the_dataset_says_so(store: Store) -> None:
    store.register([dataset("raw", "day", options={"repeats": True})])
    days = ["2025-01-01", "2025-01-02", "2025-01-03"]
    store.announce("raw", days[:1], manifests={days[0]: facts("abc")})
    assert store.announce("raw", days[1:], manifests={day: facts("abc") for day in days}).ready == tuple(days[1:])


def test_the_content_of_a_chunk_that_was_replaced_may_come_again(store: Store) -> None:
    store.register([dataset("raw", "day")])
    store.announce("raw", ["2025-01-01"], manifests={"2025-01-01": facts("abc")})
    store.announce("raw", ["2025-01-01"], manifests={"2025-01-01": facts("def")})
    assert store.announce("raw", ["2025-01-02"], manifests={"2025-01-02": facts("abc")}).ready == ("2025-01-02",)


def test_the_same_content_in_another_dataset_is_no_repeat(store: Store) -> None:
    store.register([dataset("raw"), dataset("copy")])
    store.announce("raw", ["1"], manifests={"1": facts("abc")})
    assert store.announce("copy", ["2"], manifests={"2": facts("abc")}).ready == ("2",)


def test_other_content_is_a_new_version(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"], manifests={"1": facts("abc", "/in/1")})
    produce(store, "make", "1")
    assert store.announce("raw", ["1"], manifests={"1": facts("abc", "/in/1")}).unchanged == ("1",)
    assert store.announce("raw", ["1"], manifests={"1": facts("def", "/in/1b")}).ready == ("1",)
    newest, oldest = store.views.manifests("raw", "1")
    assert (newest.version, newest.manifest.location, newest.manifest.fingerprint) == (2, "/in/1b", "def")
    assert (oldest.version, oldest.manifest.location) == (1, "/in/1")
    assert store.claim("make") == [], "it consumed this chunk; whether it does so again is for a person to say"
    store.resubmit("product", ["1"])
    assert tuple(produce(store, "make", "1").inputs[0]) == ("raw", "1", 2)
    assert kinds(store, "raw", "1") == ["announced", "announced"]


def test_bounds_of_a_shard_are_kept(store: Store) -> None:
    store.register([dataset("table", "range", count=2)])
    store.announce("table", ["1", "2"], bounds={"1": ("0", "500"), "2": ("500", "1000")})
    assert [(chunk.lower, chunk.upper) for chunk in store.views.all_chunks("table")] == [("0", "500"), ("500", "1000")]


def test_nothing_is_announced_by_an_empty_list(store: Store) -> None:
    chain(store)
    before = dump(store)
    assert store.announce("raw", []).ready == ()
    assert dump(store) == before


def test_a_chunk_that_a_job_produces_may_be_announced_instead(store: Store) -> None:
    store.register([dataset("raw"), dataset("product")], [job("make", "raw", writes="product")])
    store.announce("raw", ["1"])
    store.announce("product", ["1"])
    assert store.claim("make") == []
    assert status(store, "product", "1") == "READY"
