"""Definitions: what is registered, what it changes, and what is refused with nothing written."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from opendataflow import Pool, Store
from opendataflow.errors import BadDefinition, BadMapping, Cycle, OdfError, TwoProducers, UnknownDataset, UnknownJob
from opendataflow.model import RetryRule
from opendataflow.store.engine import definitions
from tests.support.flows import (
    chain,
    claim_one,
    dataset,
    drain,
    dump,
    end_leases,
    fold_in,
    following,
    job,
    produce,
    status,
)


def flow() -> dict[str, Any]:
    """Everything a definition can say."""
    return {
        "datasets": [
            dataset("raw", "day", start="2025-01-01", kind="file", location="/in/{dataid}.csv"),
            dataset("clean", "day", options={"repeats": True}),
            dataset("monthly", "month"),
        ],
        "jobs": [
            job(
                "clean",
                "raw",
                writes="clean",
                env={"MODE": "fast"},
                retry=RetryRule(2, 5.0, 60.0, ("TIMED_OUT",)),
                lease=12.5,
                timeout=3600.0,
                pool="db",
                options={"note": "x"},
            ),
            job("month", "clean rollup", writes="monthly"),
        ],
        "pools": [Pool("db", 4), Pool("free")],
    }


def revision(store: Store) -> str:
    return str(store.sql("select value from meta where name = 'revision'")[1][0][0])


def summary(changes: Iterable[Any]) -> list[tuple[str, str, str]]:
    return sorted((change.what, change.name, change.action) for change in changes)


def test_what_is_registered_is_what_is_read_back(store: Store, open_again: Callable[..., Store]) -> None:
    changes = store.register(**flow())
    assert summary(changes) == [
        ("dataset", "clean", "add"),
        ("dataset", "monthly", "add"),
        ("dataset", "raw", "add"),
        ("job", "clean", "add"),
        ("job", "month", "add"),
        ("pool", "db", "add"),
        ("pool", "free", "add"),
    ]
    catalogue = open_again().catalogue()
    assert [catalogue.datasets[each.datasetid] for each in flow()["datasets"]] == flow()["datasets"]
    assert [catalogue.jobs[each.jobid] for each in flow()["jobs"]] == flow()["jobs"]
    assert catalogue.pools == {each.poolid: each for each in flow()["pools"]}


def test_registering_the_same_again_changes_nothing(store: Store) -> None:
    store.register(**flow())
    fold_in(store)
    before, number = dump(store), revision(store)
    assert store.register(**flow()) == []
    assert dump(store) == before
    assert revision(store) == number


def test_a_dry_run_tells_what_it_would_do_and_writes_nothing(store: Store) -> None:
    store.rescue()  # the first transaction of a boot agrees on the clock
    before = dump(store)
    would = store.register(**flow(), dry_run=True)
    assert dump(store) == before
    assert summary(would) == summary(store.register(**flow()))


def test_a_change_names_what_was_and_what_is(store: Store) -> None:
    store.register(**flow())
    (change,) = store.register(jobs=[job("month", "clean rollup", writes="monthly", lease=99.0)])
    assert (change.what, change.name, change.action) == ("job", "month", "change")
    assert change.before is not None
    assert change.after is not None
    assert (change.before["lease"], change.after["lease"]) == (30.0, 99.0)


def test_prune_removes_what_is_no_longer_declared(store: Store) -> None:
    store.register(**flow())
    kept = flow()
    changes = store.register(kept["datasets"][:2], kept["jobs"][:1], kept["pools"][:1], prune=True)
    assert summary(changes) == [
        ("dataset", "monthly", "remove"),
        ("job", "month", "remove"),
        ("pool", "free", "remove"),
    ]
    catalogue = store.catalogue()
    assert set(catalogue.jobs) == {"clean"}
    assert set(catalogue.datasets) == {"raw", "clean", "today"}
    assert set(catalogue.pools) == {"db"}


def test_without_prune_everything_else_stays(store: Store) -> None:
    store.register(**flow())
    assert store.register([dataset("other")]) != []
    assert set(store.catalogue().jobs) == {"clean", "month"}


def test_a_dataset_that_has_chunks_is_not_pruned(store: Store) -> None:
    store.register([dataset("raw")])
    store.announce("raw", ["1"])
    before = dump(store)
    with pytest.raises(BadDefinition):
        store.register(prune=True)
    assert dump(store) == before


def test_a_dataset_whose_chunks_were_forgotten_is_pruned_and_its_history_stays(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    drain(store, "make", "use")
    for name in ("report", "product", "raw"):
        store.forget(name, ["1"])
    store.register(prune=True)
    assert set(store.catalogue().datasets) == {"today"}
    assert [event.kind for event in store.views.events("product", "1")] == ["claimed", "published", "forgotten"]
    chain(store)
    store.announce("raw", ["1"])
    assert produce(store, "make", "1").epoch == 2, "epochs go on where they were"


def test_a_dataset_that_was_read_is_pruned_when_its_chunks_were_forgotten(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    drain(store, "make", "use")
    store.forget("raw", ["1"])
    catalogue = store.catalogue()
    store.register([catalogue.datasets[name] for name in ("product", "report")], [catalogue.jobs["use"]], prune=True)
    assert set(store.catalogue().datasets) == {"product", "report", "today"}
    published = store.views.manifest("product", "1")
    assert published is not None
    assert [tuple(item) for item in store.views.inputs_of(published.runid)] == [("raw", "1", 1)]


REFUSED: dict[str, tuple[type[OdfError], dict[str, Any]]] = {
    "a second producer": (TwoProducers, {"jobs": [job("twin", "raw", writes="product")]}),
    "a job that waits for itself": (
        Cycle,
        {"jobs": [job("self", "loop", writes="loop")], "datasets": [dataset("loop")]},
    ),
    "a circle of two": (
        Cycle,
        {
            "datasets": [dataset("a"), dataset("b")],
            "jobs": [job("ab", "a", writes="b"), job("ba", "b", writes="a")],
        },
    ),
    "a circle of fifty": (
        Cycle,
        {
            "datasets": [dataset(f"d{n}") for n in range(50)],
            "jobs": [job(f"j{n}", f"d{n}", writes=f"d{(n + 1) % 50}") for n in range(50)],
        },
    ),
    "a circle through what is registered": (Cycle, {"jobs": [job("back", "report", writes="raw")]}),
    "an unknown input": (
        UnknownDataset,
        {"jobs": [job("lost", "nosuch", writes="spare")], "datasets": [dataset("spare")]},
    ),
    "an unknown output": (UnknownDataset, {"jobs": [job("lost", "raw", writes="nosuch")]}),
    "a mapping that does not fit": (
        BadMapping,
        {"datasets": [dataset("daily", "day")], "jobs": [job("wrong", "raw rollup", writes="daily")]},
    ),
    "identity between two types": (
        BadMapping,
        {"datasets": [dataset("daily", "day")], "jobs": [job("wrong", "raw", writes="daily")]},
    ),
    "no input that names the output": (
        BadMapping,
        {"datasets": [dataset("spare")], "jobs": [job("wrong", "raw latest", writes="spare")]},
    ),
    "all into something that is not text": (
        BadMapping,
        {"datasets": [dataset("spare")], "jobs": [job("wrong", "raw all", writes="spare")]},
    ),
    "a partition that no longer fits its jobs": (BadMapping, {"datasets": [dataset("raw", "day")]}),
    "outputs of two types": (
        BadDefinition,
        {
            "datasets": [dataset("daily", "day"), dataset("spare")],
            "jobs": [job("wrong", "raw", writes=("spare", "daily"))],
        },
    ),
    "a job that writes today": (
        BadDefinition,
        {"datasets": [dataset("feed", "day")], "jobs": [job("wrong", "feed", writes="today")]},
    ),
    "a pool that does not exist": (
        BadDefinition,
        {"datasets": [dataset("spare")], "jobs": [job("wrong", "raw", writes="spare", pool="nosuch")]},
    ),
}


@pytest.mark.fault(19)
@pytest.mark.parametrize("what", REFUSED)
def test_a_definition_that_makes_no_sense_is_refused_and_nothing_is_written(store: Store, what: str) -> None:
    chain(store)
    store.announce("raw", ["1"])
    fold_in(store)
    before = dump(store)
    error, definition = REFUSED[what]
    with pytest.raises(error):
        store.register(**definition)
    with pytest.raises(error):
        store.register(**definition, dry_run=True)
    assert dump(store) == before
    produce(store, "make", "1")


def test_a_consumer_registered_later_gets_everything_that_is_ready(store: Store) -> None:
    chain(store)
    store.announce("raw", ["10", "9", "1"])
    drain(store, "make", "use")
    store.hold("product", ["9"])
    store.register([dataset("late")], [job("late", "product", writes="late")])
    assert [claim.dataid for claim in store.claim("late", n=10)] == ["1", "10"]


def test_a_consumer_typed_as_sql_gets_everything_that_is_ready(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2"])
    store.claim("make")
    store.dml("insert into dataset (datasetid, partition) values ('late', 'number')")
    store.dml("insert into job (jobid, itemtype, datasetid) values ('late', 'IN', 'raw')")
    store.dml("insert into job (jobid, itemtype, datasetid) values ('late', 'OUT', 'late')")
    assert [claim.dataid for claim in store.claim("late", n=10)] == ["1", "2"]


def test_an_input_that_is_added_is_waited_for(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    store.register([dataset("extra")], [job("make", "raw", "extra", writes="product")])
    assert store.claim("make") == []
    store.announce("extra", ["1"])
    produce(store, "make", "1")


def test_a_removed_job_loses_its_candidates(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    catalogue = store.catalogue()
    store.register(
        [each for each in catalogue.datasets.values() if each.datasetid != "today"],
        [catalogue.jobs["use"]],
        prune=True,
    )
    with pytest.raises(UnknownJob):
        store.claim("make")
    assert store.claim("use") == []
    assert store.views.candidate_counts() == {}


def test_the_run_of_a_removed_job_ends_when_its_lease_does(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    claim = claim_one(store, "make")
    catalogue = store.catalogue()
    store.register(
        [each for each in catalogue.datasets.values() if each.datasetid != "today"], [catalogue.jobs["use"]], prune=True
    )
    end_leases(store)
    assert store.rescue() == [(claim.runid, "make", "1", "FAILED")]
    assert status(store, "product", "1") == "FAILED"


def test_a_dataset_may_change_its_producer(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2"])
    produce(store, "make", "1")
    catalogue = store.catalogue()
    datasets = [each for each in catalogue.datasets.values() if each.datasetid != "today"]
    store.register(datasets, [job("remake", "raw", writes="product"), catalogue.jobs["use"]], prune=True)
    assert [claim.dataid for claim in store.claim("remake", n=5)] == ["2"]
    store.resubmit("product", ["1"])
    produce(store, "remake", "1")


def test_a_partition_type_can_be_changed_and_the_order_with_it(store: Store) -> None:
    store.register([dataset("raw", "text"), dataset("out", "text")], [job("make", "raw", writes="out")])
    store.announce("raw", ["2025-01", "2024-12"])
    store.register([dataset("raw", "month"), dataset("out", "month")])
    store.announce("raw", ["2025-02"])
    assert [chunk.dataid for chunk in store.views.all_chunks("raw")] == ["2024-12", "2025-01", "2025-02"]
    assert [claim.dataid for claim in store.claim("make", n=5)] == ["2024-12", "2025-01", "2025-02"]


def test_a_partition_type_that_does_not_fit_the_chunks_is_refused(store: Store) -> None:
    store.register([dataset("raw", "text"), dataset("out", "text")], [job("make", "raw", writes="out")])
    store.announce("raw", ["2025-01-01", "monday"])
    fold_in(store)
    before = dump(store)
    with pytest.raises(BadDefinition):
        store.register([dataset("raw", "day"), dataset("out", "day")])
    assert dump(store) == before


def test_a_store_belongs_to_one_environment(store: Store) -> None:
    from opendataflow.errors import InvalidPath

    assert store.environment() is None
    store.stamp("prod")
    store.stamp("prod")
    with pytest.raises(InvalidPath):
        store.stamp("dev")
    assert store.environment() == "prod"


def test_a_run_of_before_a_changed_mapping_keeps_no_other_output_from_its_input(store: Store) -> None:
    store.register([dataset("raw"), dataset("late")], [job("shift", "raw lag 1", writes="late")])
    store.announce("raw", ["1"])
    run = claim_one(store, "shift", dataid="2")
    store.register([], [job("shift", "raw lag 2", writes="late")])
    assert following(store, "shift") == ["3"], "raw 1 is read for 2, by a mapping of before"
    store.fail(run)
    assert following(store, "shift") == ["3"]
    assert store.breaches() == []


def test_what_a_changed_mapping_makes_possible_is_found_at_once(store: Store) -> None:
    store.register([dataset("raw"), dataset("product")], [job("make", "raw lag 1", writes="product")])
    store.announce("raw", ["1", "2", "3"])
    for claim in store.claim("make", n=9):
        store.commit(claim)
    assert [chunk.dataid for chunk in store.views.chunks("product")] == ["2", "3", "4"]
    store.register([], [job("make", "raw", writes="product")])
    assert store.views.facts("make", "1").reads == (), "raw 1 was consumed for product 2"
    assert [claim.dataid for claim in store.claim("make", n=9)] == ["1"]


def test_definitions_that_were_undone_are_not_taken_for_those_of_somebody_else(
    store: Store, open_again: Callable[..., Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both would have had the same number."""
    other = open_again()
    chain(store)
    store.register([dataset("more")])
    store.announce("raw", ["1"])
    # The output of such a job is stored by whoever writes next.
    other.dml("insert into job (jobid, itemtype, datasetid) values ('marker', 'IN', 'raw')")
    store.hold("raw", ["1"], dry_run=True)
    store_implicit = definitions.store_implicit

    def refused(*given: Any) -> None:
        monkeypatch.setattr(definitions, "store_implicit", store_implicit)
        raise KeyboardInterrupt

    monkeypatch.setattr(definitions, "store_implicit", refused)
    with pytest.raises(KeyboardInterrupt):
        store.hold("raw", ["1"])
    for item in ("'IN', 'raw'", "'OUT', 'more'"):
        other.dml(f"insert into job (jobid, itemtype, datasetid) values ('late', {item})")
    assert set(store.catalogue().jobs) == {"late", "make", "marker", "use"}
