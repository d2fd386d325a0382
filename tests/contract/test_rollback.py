"""Older versions: a chunk can be one of them again, and a version whose files go is never current."""

from __future__ import annotations

from typing import Any

import pytest

from opendataflow import Manifest, Store
from opendataflow.errors import BadTransition, WrongData
from tests.support.flows import chain, change, claim_one, dataset, dump, fold_in, in_status, job, kinds, produce


def publish(store: Store, jobid: str, *datasetids: str, fingerprint: str | None = None) -> int:
    """The next chunk of a job, with a manifest whose location says the epoch."""
    claim = claim_one(store, jobid)
    location = f"/data/v{claim.epoch:06d}"
    store.commit(claim, {name: Manifest(location=location, fingerprint=fingerprint) for name in datasetids})
    return claim.epoch


def three_versions(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    for _ in range(3):
        publish(store, "make", "product")
        store.resubmit("product", ["1"])
    publish(store, "make", "product")
    store.resubmit("product", ["1"])
    store.fail(claim_one(store, "make"))
    store.resubmit("product", ["1"])
    publish(store, "make", "product")  # versions 1, 2, 3, 4 and 6


def version(store: Store, datasetid: str = "product", dataid: str = "1") -> tuple[str, int, int]:
    chunk = store.views.chunk(datasetid, dataid)
    assert chunk is not None
    return chunk.status, chunk.version, chunk.epoch


def location(store: Store) -> Any:
    published = store.views.manifest("product", "1")
    return published and published.manifest.location


def test_the_version_before_is_the_last_one_that_was_published(store: Store) -> None:
    three_versions(store)
    assert store.rollback("product", "1", dry_run=True) == [("product", "1", 6, 4)]
    assert version(store) == ("READY", 6, 6), "a dry run changes nothing"
    assert store.rollback("product", "1", why="bad carriers") == [("product", "1", 6, 4)]
    assert version(store) == ("READY", 4, 6)
    assert location(store) == "/data/v000004"
    event = store.views.events("product", "1")[-1]
    assert (event.kind, event.before, event.after, event.who) == ("rolled back", "READY", "READY", "tester")
    assert event.why == "version 6 → 4: bad carriers"


def test_the_next_reader_reads_the_old_version_and_who_read_the_new_one_says_so(store: Store) -> None:
    three_versions(store)
    assert produce(store, "use", "1").inputs[0].version == 6
    store.rollback("product", "1", 2)
    row = store.views.input_row("product", "1", "use")
    assert row is not None
    assert (row.status, row.version) == ("DONE", 6)
    assert store.claim("use") == [], "nothing is to be done again by itself"
    store.resubmit("report", ["1"])
    claim = claim_one(store, "use")
    assert claim.inputs[0].version == 2
    store.commit(claim)
    row = store.views.input_row("product", "1", "use")
    assert row is not None
    assert row.version == 2


def test_the_epoch_only_grows(store: Store) -> None:
    three_versions(store)
    store.rollback("product", "1", 1)
    store.resubmit("product", ["1"])
    assert publish(store, "make", "product") == 7
    assert version(store) == ("READY", 7, 7)
    store.rollback("product", "1", 1)
    store.rollback("product", "1", 6)
    assert version(store) == ("READY", 6, 7)


def test_a_sql_update_after_a_rollback_keeps_the_old_version_and_the_epoch(store: Store) -> None:
    three_versions(store)
    store.rollback("product", "1", 2)
    store.dml("update job_status set status = 'RESUBMIT' where datasetid = 'product'")
    assert publish(store, "make", "product") == 7


def test_a_chunk_from_outside_can_go_back_too_and_a_new_announcement_is_a_new_version(store: Store) -> None:
    chain(store)
    for content in ("a", "b"):
        store.announce("raw", ["1"], manifests={"1": Manifest(location=f"/raw/{content}", fingerprint=content)})
    store.rollback("raw", "1")
    assert version(store, "raw")[1] == 1
    told = store.announce("raw", ["1"], manifests={"1": Manifest(location="/raw/b", fingerprint="b")})
    assert told.ready == ("1",)
    assert version(store, "raw")[1] == 3


def test_all_outputs_of_a_run_go_back_together(store: Store) -> None:
    store.register([dataset(name) for name in ("raw", "a", "b")], [job("split", "raw", writes=("a", "b"))])
    store.announce("raw", ["1"])
    publish(store, "split", "a", "b")
    store.resubmit("a", ["1"])
    publish(store, "split", "a", "b")
    assert sorted(store.rollback("a", "1")) == [("a", "1", 2, 1), ("b", "1", 2, 1)]
    assert version(store, "b")[1] == 1


@pytest.mark.parametrize("word", [None, "RUNNING", "HOLD"])
def test_what_runs_is_held_or_was_never_produced_does_not_go_back(store: Store, word: str | None) -> None:
    three_versions(store)
    if word is None:
        store.forget("product", ["1"])
    elif word == "HOLD":
        store.hold("product", ["1"])
    else:
        store.resubmit("product", ["1"])
        claim_one(store, "make")
    refused(store)


@pytest.mark.fault(43)
@pytest.mark.parametrize("word", ["FAILED", "RESUBMIT"])
def test_what_a_re_run_took_off_line_comes_back_as_it_was(store: Store, word: str) -> None:
    three_versions(store)
    store.resubmit("product", ["1"])
    if word == "FAILED":
        store.fail(claim_one(store, "make"))
    assert store.claim("use") == []
    assert store.rollback("product", "1", why="the new code is wrong") == [("product", "1", 6, 6)]
    assert version(store)[:2] == ("READY", 6)
    event = store.views.events("product", "1")[-1]
    assert (event.kind, event.before, event.after) == ("rolled back", word, "READY")
    assert store.claim("make") == [], "it is not to be made again"
    assert claim_one(store, "use").inputs[0].version == 6
    assert store.breaches() == []


def test_a_version_that_somebody_called_bad_is_not_the_one_to_go_back_to(store: Store) -> None:
    three_versions(store)
    store.fail_chunks("product", ["1"], why="half the carriers are missing")
    assert store.rollback("product", "1", dry_run=True) == [("product", "1", 6, 4)]
    assert store.rollback("product", "1", 6) == [("product", "1", 6, 6)], "unless somebody names it"


def test_a_chunk_that_was_never_published_has_nothing_to_go_back_to(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    store.fail(claim_one(store, "make"))
    refused(store)


def test_a_version_that_is_unknown_or_current_or_the_first_is_refused(store: Store) -> None:
    three_versions(store)
    refused(store, 5)
    refused(store, 6)
    store.rollback("product", "1", 1)
    refused(store)


@pytest.mark.parametrize("how", [{"options": {"layout": "plain"}, "kind": "file", "location": "x"}, {"kind": "table"}])
def test_what_keeps_no_versions_is_refused(store: Store, how: dict[str, Any]) -> None:
    three_versions(store)
    store.register([dataset("product", **how)])
    refused(store)


def test_two_chunks_never_get_the_same_content_that_way(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2"])
    publish(store, "make", "product", fingerprint="a")
    store.resubmit("product", ["1"])
    publish(store, "make", "product", fingerprint="b")
    publish(store, "make", "product", fingerprint="a")  # 2 has now what 1 had
    with pytest.raises(WrongData, match="product 2"):
        store.rollback("product", "1")
    store.register([dataset("product", options={"repeats": True})])
    store.rollback("product", "1")


def refused(store: Store, to: int | None = None) -> None:
    fold_in(store)
    dumped = dump(store)
    with pytest.raises(BadTransition):
        store.rollback("product", "1", to)
    assert dump(store) == dumped


def test_what_one_of_two_runs_reads_is_not_vacuumed(store: Store) -> None:
    """Both read raw 1, and only the later one has the row that says so."""
    store.register([dataset("raw"), dataset("sum")], [job("add", "raw window 2", writes="sum")])
    store.announce("raw", ["0", "1"], manifests={"1": Manifest(fingerprint="a")})
    first = claim_one(store, "add", dataid="1")
    store.announce("raw", ["1", "2"], manifests={"1": Manifest(fingerprint="b")})
    second = claim_one(store, "add", dataid="2")
    store.announce("raw", ["1"], manifests={"1": Manifest(fingerprint="c")})
    assert [("raw", "1", version) in run.inputs for run, version in ((first, 1), (second, 2))] == [True, True]
    assert store.vacuumed("raw", [("1", 1), ("1", 2)]) == []


def test_what_is_current_or_being_read_is_never_vacuumed(store: Store) -> None:
    three_versions(store)
    store.rollback("product", "1", 2)
    claim = claim_one(store, "use")  # reads 2
    store.rollback("product", "1", 4)
    assert store.vacuumed("product", [("1", each) for each in (1, 2, 3, 4)]) == [("1", 1), ("1", 3)]
    store.commit(claim)
    assert in_status(store, "product", "1", "use") == "DONE"
    assert store.vacuumed("product", [("1", 2)]) == [("1", 2)]
    assert kinds(store, "product", "1")[-3:] == ["vacuumed", "vacuumed", "vacuumed"]
    assert [each.version for each in store.views.manifests("product", "1")] == [6, 4, 3, 2, 1], "history stays"


def test_nobody_goes_back_to_a_version_whose_files_were_removed(store: Store) -> None:
    three_versions(store)
    store.vacuumed("product", [("1", 4)], why="odf vacuum")
    refused(store, 4)
    assert store.rollback("product", "1") == [("product", "1", 6, 3)]
    assert store.vacuumed("product", [("1", 4)]) == [("1", 4)], "asked again, it may still go"
    assert kinds(store, "product", "1").count("vacuumed") == 1
    assert store.views.removed_versions("product", "1") == {4}
    assert store.views.removed_versions("product", "2") == set()


def test_the_attempts_that_published_nothing_are_known(store: Store) -> None:
    three_versions(store)
    [attempt] = store.views.unpublished_attempts()
    assert (attempt.jobid, attempt.dataid, attempt.epoch) == ("make", "1", 5)
    assert list(store.views.unpublished_attempts(attempt.runid)) == []
    assert store.views.dataids_with_versions("product", 4) == ["1"]
    assert store.views.dataids_with_versions("product", 5) == []


@pytest.mark.parametrize("how", ["verb", "sql"])
def test_what_somebody_called_bad_does_not_come_back(store: Store, how: str) -> None:
    chain(store)
    store.announce("raw", ["1"])
    for version in (1, 2):
        store.commit(claim_one(store, "make"), {"product": Manifest(location=f"/data/v{version}")})
        if version == 1:
            store.resubmit("product", ["1"])
    if how == "verb":
        store.fail_chunks("product", ["1"], why="its figures are wrong")
    else:
        change(store, "product", "1", "FAILED")
    store.resubmit("product", ["1"])
    store.fail(claim_one(store, "make"))
    [back] = store.rollback("product", "1")
    assert back.after == 1
