"""Reading: pages by key, manifests, versions, runs and events."""

from __future__ import annotations

import pytest

from opendataflow import Manifest, Store
from opendataflow.errors import UnknownRun, UnknownStatus, UsageError
from opendataflow.model import CheckResult, ManifestFile
from opendataflow.store import Chunk
from tests.support.flows import chain, claim_one, drain, produce


def pages(store: Store, status: str | None = None) -> list[list[str]]:
    """The dataids of dataset raw, by pages of 1,000."""
    found: list[list[str]] = []
    after: Chunk | None = None
    while page := store.views.chunks("raw", status=status, after=after, n=1000):
        found.append([chunk.dataid for chunk in page])
        after = page[-1]
    return found


def test_chunks_come_by_pages(store: Store) -> None:
    chain(store)
    store.announce("raw", [str(n) for n in range(2500)])
    found = pages(store)
    assert [len(page) for page in found] == [1000, 1000, 500]
    assert [dataid for page in found for dataid in page] == [str(n) for n in range(2500)]
    store.fail_chunks("raw", [str(n) for n in range(0, 2500, 2)])
    failed = pages(store, "FAILED")
    assert [len(page) for page in failed] == [1000, 250]
    assert failed[0][:3] == ["0", "2", "4"]
    assert [len(page) for page in pages(store, "complete")] == [1000, 250]
    assert sum(1 for _ in store.views.all_chunks("raw", status="error")) == 1250
    assert pages(store, "HOLD") == []


def test_a_page_goes_on_where_the_last_one_ended_whatever_came_between(store: Store) -> None:
    chain(store)
    store.announce("raw", [str(n) for n in range(0, 20, 2)])
    first = store.views.chunks("raw", n=5)
    store.announce("raw", ["1", "11"])
    second = store.views.chunks("raw", after=first[-1], n=100)
    assert [chunk.dataid for chunk in second] == ["10", "11", "12", "14", "16", "18"]


def test_runs_come_by_pages_newest_first(store: Store) -> None:
    chain(store)
    store.announce("raw", [str(n) for n in range(25)])
    drain(store, "make", "use")
    seen = []
    before = None
    while page := store.views.runs(jobid="make", before=before, n=10):
        seen += [run.dataid for run in page]
        before = page[-1].runid
    assert seen == [str(n) for n in range(24, -1, -1)]
    assert [run.jobid for run in store.views.runs(n=60)].count("use") == 25
    assert len(store.views.runs()) == 20
    assert [run.dataid for run in store.views.runs(jobid="make", dataid="7")] == ["7"]
    assert store.views.runs(jobid="make", dataid="99") == []


def test_events_come_by_pages_oldest_first(store: Store) -> None:
    chain(store)
    store.announce("raw", [str(n) for n in range(25)])
    drain(store, "make")
    seen = []
    after = 0
    while page := store.views.events(after=after, n=20):
        seen += [event.kind for event in page]
        after = page[-1].eventid
    assert [seen.count(kind) for kind in ("announced", "claimed", "published")] == [25, 25, 25]
    assert len(seen) == 75
    mine = store.views.events("product", "3")
    assert [event.kind for event in mine] == ["claimed", "published"]
    assert store.views.events("product", "3", after=mine[0].eventid) == mine[1:]


def test_running_shows_what_runs_now(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2"])
    first, second = store.claim("make", n=2, owner="me")
    assert [(run.dataid, run.owner, run.status) for run in store.views.running()] == [
        ("1", "me", "RUNNING"),
        ("2", "me", "RUNNING"),
    ]
    store.commit(first)
    store.fail(second)
    assert store.views.running() == []


def test_a_manifest_is_read_back_as_it_was_published(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    manifest = Manifest(
        location="/data/product/1/e1",
        format="parquet",
        files=(ManifestFile("part-0.parquet", 100, 1.5, "sha"), ManifestFile("part-1.parquet", 200)),
        bytes=300,
        rows=7,
        schema="a int",
        span_lower="0",
        span_upper="9",
        fingerprint="f00",
        checks=(CheckResult("rows", "rows", passed=True, figures={"rows": 7}),),
        spark_app="app-1",
        extra={"codec": "zstd"},
    )
    claim = claim_one(store, "make")
    store.commit(claim, {"product": manifest}, exit_code=0)
    published = store.views.manifest("product", "1")
    assert published is not None
    assert (published.version, published.jobid, published.runid) == (1, "make", claim.runid)
    assert published.published is not None
    found = published.manifest
    for name in (
        "location",
        "format",
        "files",
        "bytes",
        "rows",
        "schema",
        "span_lower",
        "fingerprint",
        "checks",
        "extra",
    ):
        assert getattr(found, name) == getattr(manifest, name), name
    assert store.views.inputs_of(published.runid) == claim.inputs


def test_every_version_has_its_manifest(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    for version in (1, 2, 3):
        claim = claim_one(store, "make")
        store.commit(claim, {"product": Manifest(location=f"/v{version}")})
        store.resubmit("product", ["1"])
    assert [published.manifest.location for published in store.views.manifests("product", "1")] == ["/v3", "/v2", "/v1"]
    old = store.views.manifest("product", "1", version=2)
    assert old is not None
    assert old.manifest.location == "/v2"
    newest = store.views.manifest("product", "1")
    assert newest is not None
    assert newest.version == 3
    assert store.views.manifest("product", "1", version=9) is None
    assert store.views.manifest("product", "2") is None


def test_the_lineage_says_which_version_was_consumed(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    drain(store, "make", "use")
    store.resubmit("product", ["1"])
    produce(store, "make", "1")
    row = store.views.input_row("product", "1", "use")
    assert row is not None
    assert (row.status, row.version) == ("DONE", 1)
    chunk = store.views.chunk("product", "1")
    assert chunk is not None
    assert (chunk.version, chunk.modified is not None) == (2, True)


def test_counts_by_status(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2", "3"])
    first, second = store.claim("make", n=2)
    store.commit(first)
    store.fail(second)
    assert store.views.status_counts() == {"product": {"FAILED": 1, "READY": 1}, "raw": {"READY": 3}}
    assert store.views.candidate_counts() == {"make": {"CLAIMABLE": 1}, "use": {"CLAIMABLE": 1}}
    assert store.views.next_dataids("make") == ["3"]


def test_what_does_not_exist_is_nothing_or_a_named_error(store: Store) -> None:
    chain(store)
    assert store.views.chunk("raw", "1") is None
    assert store.views.input_row("raw", "1", "make") is None
    assert store.views.manifests("raw", "1") == []
    with pytest.raises(UnknownRun):
        store.views.run(12345)
    with pytest.raises(UnknownStatus):
        store.views.chunks("raw", status="FINISHED")


def test_a_persons_own_select(store: Store) -> None:
    chain(store)
    assert store.sql("select dataid, status from datastatus") == (["dataid", "status"], [])
    store.announce("raw", ["1"])
    assert store.sql("select dataid, status from datastatus") == (["dataid", "status"], [("1", "READY")])
    with pytest.raises(UsageError):
        store.sql("delete from datastatus")
    with pytest.raises(UsageError):
        store.sql("selekt")
    with pytest.raises(UsageError):
        store.dml("updat datastatus")
    assert store.dml("update datastatus set status = 'HOLD' where dataid = '2'") == 0
    assert store.dml("delete from datastatus") == 1


def test_published_versions_come_in_order_with_their_manifests(store: Store) -> None:
    chain(store)
    store.announce(
        "raw", ["1", "2", "10"], manifests={"10": Manifest(location="/raw/10"), "2": Manifest(location="/raw/2")}
    )
    store.announce("raw", ["2"], manifests={"2": Manifest(location="/raw/2b")})
    store.hold("raw", ["10"])
    assert [(each.dataid, each.version, each.manifest.location) for each in store.views.all_published("raw")] == [
        ("2", 2, "/raw/2b")
    ]
    store.release("raw", ["10"])
    assert [each.dataid for each in store.views.all_published("raw")] == ["2", "10"]
