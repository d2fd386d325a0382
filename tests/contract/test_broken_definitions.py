"""One definition that does not load stops the jobs that it concerns, by name, and nobody else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from opendataflow import Dataset, Store
from opendataflow.errors import BadDefinition, OdfError
from opendataflow.insight.recovery import plan
from opendataflow.store import Claim
from opendataflow.store.drivers.base import Retry
from opendataflow.store.engine import claims
from tests.support.flows import chain, claim_one, dataset, drain, following, job, produce

# What a hand wrote → the jobs that it concerns.
BREAKS = {
    "an item without IN and OUT": ("insert into job (jobid, itemtype, itemvalue) values ('bad', 'X', '1')", {"bad"}),
    "a partition that is none": ("update dataset set partition = 'weekly' where datasetid = 'there'", {"other"}),
    "a partition that is no JSON": ("update dataset set partition = '{x' where datasetid = 'there'", {"other"}),
    "a check that is none": ("update dataset set checks = '{\"nosuch\": 1}' where datasetid = 'there'", {"other"}),
    "checks that are no JSON": ("update dataset set checks = 'x' where datasetid = 'there'", {"other"}),
    "options that are no JSON": ("update dataset set options = 'x' where datasetid = 'there'", {"other"}),
    "a mapping that is none": (
        "update job set itemvalue = 'sideways' where jobid = 'other' and itemtype = 'IN'",
        {"other"},
    ),
    "a window that is too long": (
        "update job set itemvalue = 'window 50000' where jobid = 'other' and itemtype = 'IN'",
        {"other"},
    ),
    "a mapping that does not fit": (
        "update job set itemvalue = 'rollup' where jobid = 'other' and itemtype = 'IN'",
        {"other"},
    ),
    "the name of an item": ("insert into job (jobid, itemtype, itemvalue) values ('other', 'A-B', '1')", {"other"}),
    "options of a rule": ("update jobrule set options = '{' where jobid = 'other'", {"other"}),
    "the options of a pool": ("update pool set options = 'x' where poolid = 'few'", {"other"}),
    "a circle": (
        "insert into job (jobid, itemtype, datasetid) values ('back', 'IN', 'there'), ('back', 'OUT', 'here')",
        {"other", "back"},
    ),
    "a marker that another job writes": (
        "insert into job (jobid, itemtype, datasetid) values ('product', 'IN', 'here')",
        {"product"},
    ),
    "an input that does not exist": (
        "insert into job (jobid, itemtype, datasetid) values ('early', 'IN', 'nowhere'), ('early', 'OUT', 'later')",
        {"early"},
    ),
    "an output that is built in": (
        "insert into job (jobid, itemtype, datasetid) values ('clock', 'OUT', 'today')",
        {"clock"},
    ),
}


def flow(store: Store) -> None:
    """raw → make → product → use → report, and beside it here → other → there, in a pool."""
    from opendataflow import Pool

    chain(store)
    store.register(
        [dataset("here"), dataset("there")], [job("other", "here", writes="there", pool="few")], [Pool("few", 2)]
    )


@pytest.mark.fault(35)
@pytest.mark.parametrize("what", BREAKS)
def test_a_broken_definition_concerns_only_its_own_jobs(
    store: Store, open_again: Callable[..., Store], what: str
) -> None:
    flow(store)
    statement, concerned = BREAKS[what]
    store.dml(statement)
    for door in (store, open_again()):
        assert {name for kind, name in door.catalogue().broken if kind == "job"} == concerned
        for jobid in concerned:
            for call in (door.claim, door.views.next_dataids, door.catalogue().job):
                with pytest.raises(BadDefinition, match=jobid) as caught:
                    call(jobid)
                assert caught.value.name == "BAD_DEFINITION"
                assert "odf " in caught.value.hint
    store.announce("raw", ["1", "2"])
    assert drain(store, "make", "use") == [("make", "1"), ("make", "2"), ("use", "1"), ("use", "2")]
    assert store.rescue() == []
    assert store.views.status_counts()["report"] == {"READY": 2}


def test_the_statement_of_the_hint_puts_it_right(store: Store) -> None:
    flow(store)
    for statement in (
        "update dataset set options = 'x' where datasetid = 'there'",
        "update job set itemvalue = 'sideways' where jobid = 'other' and itemtype = 'IN'",
        "insert into job (jobid, itemtype, itemvalue) values ('other', 'A-B', '1')",
        "insert into job (jobid, itemtype, itemvalue) values ('bad', 'X', '1')",
        "update jobrule set options = '{' where jobid = 'other'",
        "update pool set options = 'x' where poolid = 'few'",
    ):
        store.dml(statement)
        (broken, *_) = store.catalogue().broken.values()
        mend = broken.way_out().partition('odf dml "')[2].rstrip('"')
        assert store.dml(mend) == 1
        assert store.catalogue().broken == {}
        assert claim_one_after_another(store) == "other"


def claim_one_after_another(store: Store) -> str:
    store.announce("here", [str(len(store.views.chunks("here")) + 1)])
    return produce(store, "other").jobid


@pytest.mark.parametrize("where", ["jobrule where jobid = 'other'", "dataset where datasetid = 'there'"])
def test_what_arrived_while_a_job_was_broken_is_found_when_it_is_put_right(store: Store, where: str) -> None:
    flow(store)
    store.dml("update " + where.replace("where", "set options = 'x' where"))
    with pytest.raises(BadDefinition):
        store.claim("other")
    store.announce("here", ["1"])
    store.dml("update " + where.replace("where", "set options = '{}' where"))
    assert claim_one(store, "other").dataid == "1"


def put_right(store: Store) -> None:
    """A job was broken, its input arrived, and it was put right."""
    flow(store)
    assert store.claim("other") == []  # by now all of it is folded in
    store.dml("update jobrule set options = 'x' where jobid = 'other'")
    with pytest.raises(BadDefinition):
        store.claim("other")
    store.announce("here", ["1"])
    store.dml("update jobrule set options = '{}' where jobid = 'other'")


def test_it_is_found_although_somebody_looked_at_the_definitions_first(store: Store) -> None:
    put_right(store)
    assert store.catalogue().broken == {}
    assert claim_one(store, "other").dataid == "1"


@pytest.mark.parametrize("problem", [Retry, claims.LeasesOverdue])
def test_it_is_found_although_the_first_claim_was_undone(
    store: Store, monkeypatch: pytest.MonkeyPatch, problem: type[Exception]
) -> None:
    put_right(store)
    take = claims.take

    def refused(*given: Any) -> list[Claim]:
        monkeypatch.setattr(claims, "take", take)
        raise problem

    monkeypatch.setattr(claims, "take", refused)
    assert claim_one(store, "other").dataid == "1"
    assert claims.take is take


def test_whoever_reads_all_of_it_waits_for_a_broken_producer(store: Store) -> None:
    store.register(
        [dataset("raw"), dataset("product"), Dataset("whole")],
        [job("make", "raw", writes="product"), job("sum", "product all", writes="whole")],
    )
    store.announce("raw", ["1", "2"])
    produce(store, "make")
    store.dml("insert into job (jobid, itemtype, itemvalue) values ('make', 'A-B', '1')")
    assert store.claim("sum") == []
    told = store.views.facts("sum", "all").unresolved
    assert any("make" in each.why and "A-B" in each.why for each in told)
    store.dml("delete from job where itemtype = 'A-B'")
    assert drain(store, "sum", "make") == [("make", "2"), ("sum", "all")]


@pytest.mark.fault(35)
def test_a_chunk_that_does_not_fit_its_type_any_more_stops_nobody(store: Store) -> None:
    flow(store)
    store.announce("here", ["7"])
    store.announce("raw", ["1"])
    store.dml("update dataset set partition = 'day' where datasetid in ('here', 'there')")
    assert produce(store, "make").dataid == "1"
    assert store.claim("other") == []


@pytest.mark.fault(43)
def test_register_puts_right_what_a_hand_broke_and_shows_it(store: Store) -> None:
    flow(store)
    store.announce("here", ["1"])
    store.dml("update dataset set partition = 'weekly' where datasetid = 'there'")
    store.dml("update job set itemvalue = 'sideways' where jobid = 'other' and itemtype = 'IN'")
    again = [dataset("there")], [job("other", "here", writes="there", pool="few")]
    changes = store.register(*again, dry_run=True)
    assert [(change.what, change.name, change.action) for change in changes] == [
        ("dataset", "there", "change"),
        ("job", "other", "change"),
    ]
    assert (changes[0].before or {})["partition"] == "weekly"
    assert (changes[1].before or {})["reads"] == {"here": "sideways"}
    store.register(*again)
    assert store.register(*again) == []
    assert produce(store, "other").dataid == "1"
    assert store.breaches() == []


def test_register_leaves_what_is_broken_and_not_its_own(store: Store) -> None:
    flow(store)
    store.dml("update dataset set partition = 'weekly' where datasetid = 'there'")
    store.register([dataset("more")], [job("tell", "report", writes="more")])
    assert set(store.catalogue().broken) == {("dataset", "there"), ("job", "other")}
    with pytest.raises(BadDefinition, match="there"):
        store.register([dataset("last")], [job("late", "there", writes="last")])


@pytest.mark.fault(43)
def test_chunks_that_a_changed_mapping_makes_possible_are_found(store: Store) -> None:
    store.register([dataset("a"), dataset("b")], [job("lagging", "a lag 1", writes="b")])
    store.announce("a", ["5"])
    assert following(store, "lagging") == ["6"]
    store.register([], [job("lagging", "a", writes="b")])
    assert following(store, "lagging") == ["5"]
    store.dml("update job set itemvalue = 'lag 2' where jobid = 'lagging' and itemtype = 'IN'")
    assert following(store, "lagging") == ["7"]
    assert store.breaches() == []


def test_the_plan_of_a_recovery_tells_a_failure_whose_definition_broke_since(store: Store) -> None:
    flow(store)
    store.announce("here", ["1"])
    store.fail(claim_one(store, "other"), detail="no more", exit_code=1)
    store.dml("update dataset set checks = 'x' where datasetid = 'there'")
    (told,) = plan(store).by_hand
    assert (told.name, told.chunks) == ("BAD_DEFINITION", (("there", "1"),))


DATASETS = "insert into dataset (datasetid) values ('first'), ('second')"
JOB = "insert into job (jobid, itemtype, datasetid) values ('early', 'IN', 'first'), ('early', 'OUT', 'second')"


def test_a_job_may_be_inserted_before_its_datasets(store: Store) -> None:
    store.dml(JOB)
    with pytest.raises(BadDefinition, match="early reads dataset first, which does not exist") as caught:
        store.claim("early")
    assert "insert into dataset (datasetid) values ('first'), ('second')" in caught.value.hint
    store.dml(DATASETS)
    store.announce("first", ["1"])
    assert drain(store, "early") == [("early", "1")]
    assert store.breaches() == []


def test_a_dataset_stays_while_a_job_reads_or_writes_it(store: Store) -> None:
    store.dml(DATASETS)
    store.dml(JOB)
    for statement in (
        "delete from dataset where datasetid = 'first'",
        "update dataset set datasetid = 'third' where datasetid = 'second'",
    ):
        with pytest.raises(OdfError, match="a job reads or writes it"):
            store.dml(statement)
    store.dml("delete from job where jobid = 'early'")
    store.dml("delete from dataset where datasetid = 'first'")
