"""Where versions lie is kept relative to the roots, and found again from wherever the roots are now."""

from __future__ import annotations

from opendataflow import Dataset, Manifest, Store
from opendataflow.model import ManifestFile
from opendataflow.model.roots import Roots
from tests.support.flows import claim_one, job


def test_locations_of_older_stores_become_relative_and_follow_their_roots(store: Store) -> None:
    store.register([Dataset("raw"), Dataset("clean")], [job("load", "raw", writes="clean")])
    store.announce("raw", ["1", "2"], manifests={each: Manifest(f"/data/raw/{each}.csv") for each in ("1", "2")})
    store.roots = lambda: Roots(["/data"])
    assert store.keep_relative(dry_run=True) == 2
    assert store.keep_relative() == 2
    assert store.keep_relative() == 0
    store.roots = lambda: Roots(["/moved"])
    claim = claim_one(store, "load")
    [read] = store.input_chunks([claim])[claim.runid]
    assert read.manifest
    assert read.manifest.location == "/moved/raw/1.csv"
    store.commit(claim, {"clean": Manifest("/moved/clean/1/v000001")})
    store.commit(claim_one(store, "load"), {"clean": Manifest("/elsewhere/2")})
    _, rows = store.sql("select location from data_manifest order by location")
    assert [row[0] for row in rows] == ["/elsewhere/2", "clean/1/v000001", "raw/1.csv", "raw/2.csv"]
    store.roots = lambda: Roots(["/again"])
    assert sorted(store.views.locations_in_use("clean")) == ["/again/clean/1/v000001", "/elsewhere/2"]
    assert [version.manifest.location for version in store.views.all_published("raw")] == [
        "/again/raw/1.csv",
        "/again/raw/2.csv",
    ]
    assert [version.manifest.location for version in store.views.manifests("raw", "2")] == ["/again/raw/2.csv"]


def test_the_name_of_a_table_is_no_location_below_a_root(store: Store) -> None:
    lake = Dataset("lake", kind="table", format="delta", tablename="t2")
    store.register([Dataset("raw"), lake, Dataset("out")], [job("load", "raw", "lake", writes="out")])
    store.roots = lambda: Roots(["/data"])
    for name in ("raw", "lake"):
        store.announce(name, ["1"], manifests={"1": Manifest("t2")})
    read = store.input_chunks([claim := claim_one(store, "load")])[claim.runid]
    assert {chunk.datasetid: chunk.manifest and chunk.manifest.location for chunk in read} == {
        "raw": "/data/t2",
        "lake": "t2",
    }
    for published in (
        store.views.manifest("lake", "1"),
        *store.views.newest_manifests("lake", "1", 1),
        *store.views.all_published("lake"),
    ):
        assert published
        assert published.manifest.location == "t2"


def test_the_same_files_are_no_news_whatever_their_times_and_another_content_is(store: Store) -> None:
    def seen(time: float, checksum: str | None) -> dict[str, Manifest]:
        return {"1": Manifest("/in", files=(ManifestFile("a", 3, time, checksum),), fingerprint=f"bytes:{checksum}")}

    store.register([Dataset("raw")])
    assert store.announce("raw", ["1"], manifests=seen(1.0, "x")).ready == ("1",)
    assert store.announce("raw", ["1"], manifests=seen(2.0, "x")).unchanged == ("1",)
    assert store.announce("raw", ["1"], manifests=seen(2.0, "y")).ready == ("1",)
    assert store.announce("raw", ["1"], manifests=seen(2.0, None)).unchanged == ("1",)
    assert store.announce("raw", ["1"], manifests=seen(3.0, None)).ready == ("1",), "nobody can tell"
    assert store.announce("raw", ["1"], manifests=seen(3.0, None), again=True).ready == ("1",)
    chunk = store.views.chunk("raw", "1")
    assert chunk
    assert chunk.version == 4
