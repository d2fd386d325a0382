"""odf prove and odf shard as processes: what is missing, too much or changed is named with the command that helps."""

from __future__ import annotations

from pathlib import Path

import pytest

from opendataflow.model import Dataset, Input, Job, Manifest, Mapping, Partition
from opendataflow.run import sharding
from opendataflow.store import Store
from tests.support.door import Door
from tests.support.odf import Odf
from tests.support.shell import Shell

DAYS = """
[environment.dev]
roots = ["./data"]
[dataset.raw]
location = "raw/{dataid}.txt"
partition = "day"
[dataset.clean]
location = "clean/{dataid}.txt"
partition = "day"
[job.clean]
reads = ["raw"]
writes = ["clean"]
"""
CLEAN = 'mkdir -p "$(dirname "$clean_location")"; grep -v bad "$raw_location" > "$clean_location"'


@pytest.fixture
def days(shell: Shell) -> Shell:
    """Five days of which one fails."""
    shell.write("dataflow.toml", DAYS)
    shell.script("jobs/clean.sh", CLEAN)
    for day in range(1, 6):
        shell.write(f"data/raw/2025-01-0{day}.txt", "bad\n" if day == 3 else f"day {day}\n")
    shell.odf("apply", "--yes")
    return shell


def test_what_a_calendar_leaves_out_is_no_gap(shell: Shell) -> None:
    shell.write(
        "dataflow.toml",
        """
        [dataset.days]
        partition = { type = "day", start = "2025-01-01", end = "2025-01-06" }
        calendar = "Mon-Fri"
        [dataset.rates]
        partition = "day"
        deadline = "06:00"
        [job.fetch]
        reads = ["days"]
        writes = ["rates"]
        """,
    )
    shell.script("jobs/fetch.sh", "true")
    shell.odf("apply", "--yes")
    shell.odf("drain")
    proof = shell.odf("prove", "rates").out
    assert "4 of 4 chunks are published" in proof
    assert "2 chunks are left out by a calendar that rates is made from" in proof
    assert "PROVEN" in shell.odf("prove", "rates", "2025-01-04").out
    assert shell.odf("late", "--json").data["late"] == []
    assert "late=0" in shell.odf("check").out


def test_what_is_missing_is_named_by_chunk_with_the_job_that_should_have_made_it(days: Shell) -> None:
    nothing = days.odf("prove", "clean", code=10)
    assert "has no chunks" in nothing.out
    days.odf("ready", "raw", "2025-01-01..2025-01-05")
    before = days.odf("prove", "clean", "--json", code=10).data
    assert before["verdict"] == "DATA_NOT_READY"
    assert before["problems"][0]["ranges"] == [["2025-01-01", "2025-01-05"]]
    assert before["problems"][0]["commands"] == ["odf drain clean"]

    days.odf("drain", code=1)
    failed = days.odf("prove", "clean", code=10)
    assert "4 of 5 chunks are published" in failed.out
    assert "1 chunk of clean is FAILED (2025-01-03)" in failed.out
    assert days.odf("prove", "clean", "2025-01-04..2025-01-05").out.count("PROVEN") == 1
    assert days.odf("prove", "clean", "2025-01-03", code=10).out.count("NOT PROVEN") == 1

    days.write("data/raw/2025-01-03.txt", "day 3\n")
    days.odf("ready", "raw", "2025-01-03")
    for command in failed.out.splitlines():
        if command.startswith("  odf "):
            days.odf(*command.split()[1:], *(["--yes"] if "resubmit" in command else []))
    assert "PROVEN: clean covers raw exactly once" in days.odf("prove", "clean").out


def test_a_day_that_nobody_delivered_is_a_gap_of_the_source_and_of_what_is_made_from_it(days: Shell) -> None:
    days.odf("ready", "raw", "2025-01-01", "2025-01-05")
    days.odf("drain")
    source, made = days.odf("prove", "raw", code=10), days.odf("prove", "clean", code=10)
    assert "3 chunks of raw were never produced (2025-01-02..2025-01-04)" in source.out
    assert "odf ready raw 2025-01-02..2025-01-04" in source.out
    assert "because inputs are missing (2025-01-02..2025-01-04)" in made.out
    assert "odf why clean 2025-01-02" in made.out


def test_a_file_that_changed_and_a_source_that_is_newer_are_named(days: Shell) -> None:
    days.odf("ready", "raw", "2025-01-01..2025-01-02")
    days.odf("drain")
    days.write("data/clean/2025-01-01.txt", "somebody was here\n")
    changed = days.odf("prove", "clean", code=13)
    assert "1 chunk of clean is not what was published" in changed.out
    assert "odf resubmit clean 2025-01-01" in changed.out

    days.write("data/raw/2025-01-02.txt", "day two\n")
    days.odf("ready", "raw", "2025-01-02")
    stale = days.odf("prove", "clean", "2025-01-02", code=11)
    assert "made from an older version of the source" in stale.out

    days.odf("resubmit", "clean", "--all", "--yes")
    days.odf("drain")
    days.odf("prove", "clean")


def test_bad_requests_are_refused(days: Shell) -> None:
    assert "UNKNOWN_DATASET" in days.odf("prove", "nothing", code=2).err
    assert "BAD_DATAID" in days.odf("prove", "clean", "2025-13-01", code=2).err
    assert "USAGE" in days.odf("prove", "clean", "2025-01-01..", code=2).err
    assert "BAD_DEFINITION" in days.odf("shard", "raw", "--count", "2", code=2).err
    assert "USAGE" in days.odf("shard", "raw", "--count", "2", "--rows", "5", code=2).err
    assert "USAGE" in days.odf("shard", "raw", "--size", "much", code=2).err


# Every hop and mapping -----------------------------------------------------------------------------------------------


def produce(store: Store, *jobids: str) -> None:
    for jobid in jobids:
        while claims := store.claim(jobid, 100):
            store.commit_many([(claim, {}, 0) for claim in claims])


@pytest.fixture
def hops(store: Store) -> Store:
    """raw → clean → sums, which reads its own day before as well; a report of the latest rates; and a total of all sums."""
    day = Partition("day", start="2025-01-01")
    names = ("raw", "clean", "sums", "rates", "report")
    store.register(
        [*(Dataset(name, partition=day) for name in names), Dataset("total")],
        [
            Job("clean", (Input("raw"),), ("clean",)),
            Job("sums", (Input("clean"), Input("sums", Mapping("lag"))), ("sums",)),
            Job("report", (Input("sums"), Input("rates", Mapping("latest"))), ("report",)),
            Job("total", (Input("report", Mapping("all")),), ("total",)),
        ],
    )
    store.announce("raw", [f"2025-01-0{day}" for day in range(1, 5)])
    store.announce("rates", ["2025-01-01"])
    produce(store, "clean", "sums", "sums", "sums", "sums", "report", "total")
    return store


def test_what_is_newer_at_any_distance_is_named_with_everything_to_make_again(hops: Store, odf: Odf) -> None:
    odf("prove", "report")
    odf("prove", "total")
    hops.announce("raw", ["2025-01-03"], again=True)
    assert "1 chunk of clean is made from an older version" in odf("prove", "clean", code=11).out
    far = odf("prove", "report", "--json", code=11).data
    [stale] = far["problems"]
    assert (stale["name"], stale["ranges"]) == ("stale", [["2025-01-03", "2025-01-04"]])
    assert stale["why"] == "2025-01-03: raw 2025-01-03 is version 2 now, and version 1 was read"
    assert stale["commands"] == [
        "odf resubmit clean 2025-01-03",
        "odf resubmit sums 2025-01-03..2025-01-04",
        "odf resubmit report 2025-01-03..2025-01-04",
        "odf drain clean sums report",
    ]
    own = odf("prove", "sums", "2025-01-04", code=11).out
    assert "itself older than its source (2025-01-04)" in own
    for command in stale["commands"][:-1]:
        odf(*command.split()[1:], "--yes")
    produce(hops, "clean", "sums", "sums", "report")
    odf("prove", "report")
    assert "older version" in odf("prove", "total", code=11).out


def test_a_late_snapshot_that_latest_would_choose_now_is_newer(hops: Store, odf: Odf) -> None:
    hops.announce("rates", ["2025-01-03"])
    [stale] = odf("prove", "report", "--json", code=11).data["problems"]
    assert stale["ranges"] == [["2025-01-03", "2025-01-04"]]
    assert stale["why"] == "2025-01-03: rates 2025-01-03 would be read now (latest), and was not there then"
    hops.announce("raw", ["2025-01-05"])
    produce(hops, "clean", "sums", "report")
    assert "report 2025-01-05 would be read now (all)" in odf("prove", "total", code=11).out


# Ranges ---------------------------------------------------------------------------------------------------------------

MANY = 10_000
TABLE = Dataset("orders", "table", tablename="orders", partition=Partition("range", column="id"))
LAKE = Dataset("lake", partition=Partition("range", column="id"))


@pytest.fixture
def many(store: Store) -> Store:
    """Ten thousand ranges of six hundred keys, copied one by one."""
    store.register([TABLE, LAKE], [Job("copy", (Input("orders"),), ("lake",))])
    bounds = {str(n): (str(600 * n), str(600 * n + 600)) for n in range(1, MANY + 1)}
    store.announce("orders", bounds, bounds=bounds, manifests={each: Manifest(extra={"rows": 600}) for each in bounds})
    while claims := store.claim("copy", 1000):
        store.commit_many([(claim, {"lake": Manifest(rows=600)}, 0) for claim in claims])
    return store


def test_ten_thousand_ranges_are_proven_or_the_gap_and_the_overlap_named(many: Store, odf: Odf, tmp_path: Path) -> None:
    green = odf("prove", "lake", "--json").data
    assert (green["verdict"], green["expected"], green["published"]) == ("PROVEN", MANY, MANY)
    assert odf("prove", "orders").out.endswith("PROVEN: orders covers its range exactly once\n")

    many.forget("orders", ["77", "78"])
    forgotten = odf("prove", "lake", code=11)
    assert "no chunk of orders holds the keys from '46200' up to '47400', between 76 and 79" in forgotten.out
    assert "2 chunks of lake are published, but orders has no such chunk (77..78)" in forgotten.out
    assert odf("prove", "orders", code=10).out.count("gap") == 1

    # Another sharding: the same names, other bounds.
    again = {"77": ("46200", "47000"), "78": ("46900", "47400")}
    many.announce("orders", again, bounds=again, manifests={each: Manifest(extra={"rows": 1}) for each in again})
    other = odf("prove", "lake", code=11)
    assert "orders 77 and 78 both hold the keys from '46900' up to '47000'" in other.out
    assert "2 chunks of lake are made from an older version of the source (77..78)" in other.out
    assert "odf resubmit lake 77..78" in other.out
    odf("prove", "lake", "1..50")


def test_what_cannot_be_sharded_is_refused_before_spark_is_started(many: Store, odf: Odf) -> None:
    many.register(
        [
            Dataset("placed", "file", location="placed/{dataid}", partition=Partition("range", column="id")),
            Dataset("even", "table", tablename="t", partition=Partition("range", "id", 10, lower="1", upper="100")),
            Dataset("unnamed", "table", tablename="t", partition=Partition("range")),
        ]
    )
    for words, name in (
        (("orders",), "BAD_TRANSITION"),
        (("orders", "--by", "name"), "USAGE"),
        (("lake",), "BAD_DEFINITION"),
        (("placed",), "BAD_DEFINITION"),
        (("even",), "BAD_DEFINITION"),
        (("unnamed",), "USAGE"),
        (("unnamed", "--by", "id", "--extend"), "BAD_TRANSITION"),
    ):
        answer = odf("shard", *words, "--count", "3", code=2)
        assert answer.err.startswith(f"{name}: "), answer
        assert words[0] in answer.err


def test_a_dry_run_says_how_long_it_read_and_how_to_read_once(
    many: Store, door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks = (sharding.NewChunk("1", "0", "5", 4), sharding.NewChunk("2", "5", "9", 4))
    planned = sharding.Sharding(TABLE, "id", "bigint", 8, 2, 0, chunks, False)
    monkeypatch.setattr(sharding, "plan", lambda *_, **__: planned)
    said = door("shard", "orders", "--count", "2", "--dry-run").out.splitlines()[-1]
    assert said.startswith("nothing was changed; the data was read in 0 s, and announcing the chunks reads it again")
    assert "leave out --dry-run" in said
    assert door("shard", "orders", "--count", "2", "--dry-run", "--json").data["seconds"] < 60


def test_ranges_are_announced_once_or_not_at_all(store: Store) -> None:
    from opendataflow.errors import Locked

    store.register([TABLE])
    store.announce("orders", ["2"], bounds={"2": ("5", "9")})
    with pytest.raises(Locked, match="orders 2"):
        store.announce("orders", ["1", "2"], bounds={"1": ("0", "5"), "2": ("5", "7")}, only_new=True)
    assert [(chunk.dataid, chunk.lower, chunk.upper) for chunk in store.views.all_chunks("orders")] == [("2", "5", "9")]
