"""Figures for machines that watch: every run and refusal is counted once, however often somebody looks."""

from __future__ import annotations

from opendataflow import Pool, Store
from opendataflow.errors import StoreUnreachable
from opendataflow.insight.metrics import OTHER, Figure, Metrics, Spread
from opendataflow.model import Answer, Receipt
from opendataflow.store.views import counts
from opendataflow.store.views.counts import BUCKETS, Cursor
from tests.support.flows import chain, claim_one, dataset, job, produce

CANARY = "s3cret-canary"


def values(found: list[Figure], name: str) -> dict[tuple[str, ...], float | Spread]:
    """The values of one figure, by the texts of its labels."""
    [figure] = [each for each in found if each.name == name]
    return {tuple(text for _, text in labels): value for labels, value in figure.values.items()}


def watching(store: Store, **how: int) -> Metrics:
    metrics = Metrics(lambda: store, "1", **how)
    metrics._count_all(store)
    return metrics


def test_what_is_so_now_is_counted(store: Store) -> None:
    chain(store, pools=[Pool("etl", 3)], pool="etl")
    store.announce("raw", ["1", "2", "3", "4"])
    produce(store, "make", "1")
    store.fail(claim_one(store, "make"), "JOB_FAILED", CANARY)
    claim_one(store, "make")
    found = Metrics(lambda: store, "1").once()
    assert values(found, "odf_up") == {(): 1}
    assert values(found, "odf_chunks") == {
        ("raw", "READY"): 4,
        ("product", "READY"): 1,
        ("product", "FAILED"): 1,
        ("product", "RUNNING"): 1,
    }
    assert values(found, "odf_claimable") == {("make",): 1, ("use",): 1}
    assert values(found, "odf_running") == {("make",): 1}
    assert (values(found, "odf_pool_slots"), values(found, "odf_pool_slots_used")) == ({("etl",): 3}, {("etl",): 1})
    assert values(found, "odf_recent_claims") == {("make",): 3}
    assert values(found, "odf_recent_failures") == {("make", "JOB_FAILED"): 1}
    assert CANARY not in str(found)


def test_each_run_is_counted_once_and_one_that_ran_when_it_is_over(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1", "2", "3"])
    produce(store, "make", "1")
    metrics = watching(store)
    running = claim_one(store, "make")
    for _ in range(3):
        found = metrics.again()
    assert values(found, "odf_claims") == {("make",): 2}
    assert values(found, "odf_published") == {("make",): 1}
    store.fail(running, "TIMED_OUT", "too long")
    claim_one(store, "make")
    for _ in range(3):
        found = metrics.again()
    assert values(found, "odf_claims") == {("make",): 3}
    assert values(found, "odf_failures") == {("make", "TIMED_OUT"): 1}
    spread = values(found, "odf_run_seconds")["make",]
    assert isinstance(spread, Spread)
    assert spread.counts[-1] == 2
    # Another process that begins anew says the same.
    assert values(watching(store).again(), "odf_claims") == {("make",): 3}


def test_the_longest_lag_behind_a_deadline_is_told_by_dataset(store: Store) -> None:
    store.register([dataset("daily", "day", start="2020-01-01", end="2020-01-03", options={"deadline": "06:00"})])
    store.announce("daily", ["2020-01-01", "2020-01-02", "2020-01-03"])
    assert values(Metrics(lambda: store, "1").once(), "odf_lag_seconds") == {}
    store.fail_chunks("daily", ["2020-01-01", "2020-01-03"])
    found = Metrics(lambda: store, "1").once()
    assert values(found, "odf_late") == {("daily", "LATE"): 2}
    lag = values(found, "odf_lag_seconds")["daily",]
    assert isinstance(lag, float)
    assert lag > 5 * 365 * 86400
    assert values(found, "odf_notifications_pending") == {(): 0}


def test_refusals_are_counted_by_their_name(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    no = Receipt("make", "1", (Answer("place", False, why=CANARY),))
    store.give_back(claim_one(store, "make"), no, CANARY, wait=0)
    store.give_back(claim_one(store, "make"), None, "its drain ended before it began", wait=0)
    metrics = watching(store)
    assert values(metrics.again(), "odf_refusals") == {("INVALID_PATH",): 1}, "the second one was refused by nobody"
    assert values(metrics.again(), "odf_claims") == {("make",): 2}
    assert values(metrics.again(), "odf_failures") == {}


def test_a_look_during_which_the_history_is_counted_tells_nothing_of_it_yet(store: Store, monkeypatch) -> None:
    """Else there would be totals without the READY chunks that were counted before them."""
    chain(store)
    store.announce("raw", ["1"])
    metrics, look = Metrics(lambda: store, "1"), store.views.figures_now

    def look_while_it_is_counted() -> object:
        metrics._count_all(store)
        return look()

    monkeypatch.setattr(store.views, "figures_now", look_while_it_is_counted)
    assert not [figure for figure in metrics.again() if figure.name == "odf_claims"]
    monkeypatch.undo()
    assert [figure for figure in metrics.again() if figure.name == "odf_claims"]


def test_a_long_history_is_counted_page_by_page_to_the_same_sums(store: Store, monkeypatch) -> None:
    chain(store)
    store.announce("raw", [str(number) for number in range(1, 12)])
    for _ in range(7):
        produce(store, "make")
    whole = watching(store).again()
    monkeypatch.setattr(counts, "_PAGE", 3)
    assert values(watching(store).again(), "odf_claims") == values(whole, "odf_claims") == {("make",): 7}
    assert store.views.figures_since(Cursor()).mark.runid == 3


def test_run_times_fall_into_the_buckets_that_are_named(store: Store) -> None:
    chain(store)
    store.announce("raw", [str(number) for number in range(len(BUCKETS) + 1)])
    times = [*BUCKETS, BUCKETS[-1] * 2]
    for number, seconds in enumerate(times):
        runid = produce(store, "make").runid
        long_ago = "timestamptz '2020-01-01 00:00:00+00'" if "postgres" in store.url else "'2020-01-01 00:00:00'"
        later = (
            f"{long_ago} + interval '{seconds} s'"
            if "postgres" in store.url
            else f"strftime('%Y-%m-%d %H:%M:%f', {long_ago}, '+{seconds} seconds')"
        )
        store.dml(f"update run set started = {long_ago}, ended = {later} where runid = {runid}")
        counts = values(watching(store).again(), "odf_run_seconds")["make",]
        assert isinstance(counts, Spread)
        # A time that is a bound may lie a little above it by the arithmetic of SQLite.
        assert counts.counts[min(number + 1, len(BUCKETS))] == number + 1
        assert abs(counts.total - sum(times[: number + 1])) < 1


def test_very_many_names_share_one(store: Store) -> None:
    datasets = [dataset(f"d{number}") for number in range(5)]
    store.register(datasets, [job(f"j{number}", "d0", writes=f"d{number}") for number in range(1, 5)])
    for each in datasets:
        store.announce(each.datasetid, ["1", "2"])
    store.announce("d0", ["3"])
    found = watching(store, most=2).again()
    claimable = values(found, "odf_claimable")
    assert len(claimable) == 3
    assert (claimable[OTHER,], sum(map(float, claimable.values()))) == (2, 4)  # type: ignore[arg-type]


def test_a_name_that_nobody_knows_is_other(store: Store) -> None:
    chain(store)
    store.announce("raw", ["1"])
    runid = produce(store, "make").runid
    store.dml(f"update run set status = 'FAILED', outcome = '{CANARY}' where runid = {runid}")
    assert values(watching(store).again(), "odf_failures") == {("make", OTHER): 1}


def test_a_store_that_cannot_be_asked_is_a_figure_too() -> None:
    def away() -> Store:
        raise StoreUnreachable("away")

    assert values(Metrics(away, "1").again(), "odf_up") == {(): 0}


def test_figures_that_are_added_up_stay(store: Store) -> None:
    assert store.views.added_up("lineage sent") == 0
    store.add_up({"lineage sent": 3, "lineage dropped": 0})
    store.add_up({"lineage sent": 4})
    assert (store.views.added_up("lineage sent"), store.views.added_up("lineage dropped")) == (7, 0)
