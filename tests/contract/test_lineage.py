"""Which version was made from which: stored with the publish, and read from both ends."""

from __future__ import annotations

from opendataflow import Manifest, Store
from opendataflow.insight.lineage import lineage
from tests.support.flows import chain, claim_one, dataset, job, produce


def test_what_was_consumed_is_known_from_both_ends(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"], manifests={"1": Manifest(fingerprint="a")})
    made = produce(store, "make")
    store.announce("raw", ["1"], manifests={"1": Manifest(fingerprint="b")}, again=True)
    store.resubmit("product", ["1"])
    again = produce(store, "make")
    down = store.views.links_from([("raw", "1")])
    assert [(link.in_version, link.in_fingerprint, link.datasetid, link.version, link.runid) for link in down] == [
        (1, "a", "product", made.epoch, made.runid),
        (2, "b", "product", again.epoch, again.runid),
    ]
    assert all(link.jobid == "make" and link.published is not None for link in down)
    assert store.views.links_into([("product", "1", made.epoch)]) == [down[0]]
    assert store.views.inputs_now([("product", "1"), ("raw", "1")]) == [("product", "1", "raw", "1")]
    assert (
        store.views.links_from([]),
        store.views.links_into([("raw", "1", 1)]),
        store.views.links_from([("report", "1")]),
    ) == (
        [],
        [],
        [],
    )


def test_a_run_with_many_inputs_and_outputs_has_a_link_for_each(store: Store) -> None:
    store.register(
        [dataset("a"), dataset("b"), dataset("left"), dataset("right")],
        [job("both", "a", "b", writes=("left", "right"))],
    )
    store.announce("a", ["7"])
    store.announce("b", ["7"])
    store.commit(claim_one(store, "both"))
    links = store.views.links_from([("a", "7"), ("b", "7")])
    assert [(link.in_datasetid, link.datasetid) for link in links] == [
        ("a", "left"),
        ("a", "right"),
        ("b", "left"),
        ("b", "right"),
    ]


def test_current_tells_version_content_and_recall(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2"], manifests={"1": Manifest(fingerprint="a")})
    store.dml("insert into recalled (datasetid, dataid, version, why) values ('raw', '2', 1, 'bad')")
    now = store.views.current([("raw", "1"), ("raw", "2"), ("raw", "3")])
    assert {
        dataid: (row.status, row.version, row.fingerprint, row.is_recalled) for (_, dataid), row in now.items()
    } == {
        "1": ("READY", 1, "a", False),
        "2": ("READY", 1, None, True),
    }


def test_what_was_made_from_one_version_is_bounded(store: Store) -> None:
    store.register(
        [dataset("rates", "text"), dataset("raw"), dataset("out")],
        [job("make", "raw", "rates all", writes="out")],
    )
    store.announce("rates", ["all"])
    store.announce("raw", [str(n) for n in range(1, 8)])
    for _ in range(3):
        produce(store, "make")
    store.announce("rates", ["all"], again=True)
    for _ in range(4):
        produce(store, "make")
    made = store.views.made_of([("rates", "all", 1), ("raw", "1", 1), ("raw", "1", 9)], 2)
    assert [(link.in_datasetid, link.in_version, link.dataid) for link in made] == [
        ("rates", 1, "2"),
        ("rates", 1, "3"),
        ("raw", 1, "1"),
    ]
    assert len(store.views.made_of([("rates", "all", 2)], 100)) == 4
    assert store.views.made_of([], 100) == []


def test_who_made_a_version_is_known_with_and_without_a_manifest(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    claim = produce(store, "make")
    known = store.views.made([("raw", "1", 1), ("product", "1", claim.epoch), ("raw", "2", 1)])
    assert {chunk: (made.jobid, made.runid) for chunk, made in known.items()} == {
        ("raw", "1", 1): ("outside", None),
        ("product", "1", claim.epoch): ("make", claim.runid),
    }
    assert all(made.at is not None and made.who for made in known.values())
    assert store.views.made([]) == {}


def test_lineage_marks_every_version_that_was_recalled_also_older_ones(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    produce(store, "make")
    store.resubmit("product", ["1"])
    produce(store, "make")
    store.recall("raw", "1", why="bad", cascade=True)
    nodes = lineage(store, "raw", "1").nodes
    assert [(node.datasetid, node.version, node.is_recalled) for node in nodes] == [
        ("raw", 1, True),
        ("product", 1, True),
        ("product", 2, True),
    ]
