"""Nothing in insight writes: every function that is given a store is run while each writing transaction is refused."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import opendataflow
from opendataflow import Dataset, Partition, Pool, Store, insight
from opendataflow.errors import BadDataid, OdfError
from opendataflow.insight.behind import waiting_behind
from opendataflow.insight.chunk_page import chunk_page
from opendataflow.insight.chunk_sheet import chunk_sheet
from opendataflow.insight.content import published_versions
from opendataflow.insight.dataset_sheet import dataset_sheet
from opendataflow.insight.definitions import unapplied_line
from opendataflow.insight.diff import diff
from opendataflow.insight.diff_rows import Comparing
from opendataflow.insight.doctor import examine
from opendataflow.insight.exceptions import chunks_in
from opendataflow.insight.explain import explain
from opendataflow.insight.explain_then import explain_then
from opendataflow.insight.flow_of import flow
from opendataflow.insight.flow_picture import chunks_of_node, flow_picture
from opendataflow.insight.health import health
from opendataflow.insight.heat import MatrixFilter, heat
from opendataflow.insight.history import history
from opendataflow.insight.incidents import incidents
from opendataflow.insight.job_sheet import job_sheet
from opendataflow.insight.late import deadlines_missed, late
from opendataflow.insight.lineage import lineage
from opendataflow.insight.matrix import chunk_list, overview
from opendataflow.insight.metrics import Metrics
from opendataflow.insight.now import now
from opendataflow.insight.past import chunk_list_then, overview_then
from opendataflow.insight.pools import pools
from opendataflow.insight.progress import Watch, report
from opendataflow.insight.prove import prove
from opendataflow.insight.read import readable
from opendataflow.insight.recovery import causes, plan, progress
from opendataflow.insight.report import report as period_report
from opendataflow.insight.rows import published
from opendataflow.insight.run_log import before_in_log, last_of_log, part_of_log, pieces_of_log, search_log
from opendataflow.insight.run_sheet import run_sheet
from opendataflow.insight.search import search
from opendataflow.insight.selection import scope, select
from opendataflow.insight.stale import impact, stale_selected
from opendataflow.insight.timeline import BY, timeline
from opendataflow.insight.why import why
from opendataflow.insight.why_then import why_then
from opendataflow.model import Answer, Receipt
from opendataflow.model.selector import Selector
from opendataflow.project import without_file
from opendataflow.run.context import Vault
from opendataflow.run.drain_summary import DrainSummary, Failure
from opendataflow.store.drivers.sqlite import SqliteBackend
from tests.support.flows import claim_one, dataset, dump, job, put


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A flow in which something is done, failed, running, deferred, held and missing; then nobody may write any more."""
    with opendataflow.open(f"sqlite:///{tmp_path}/store.db", create=True) as made:
        limited = Dataset(
            "raw", kind="file", location="raw/{dataid}", partition=Partition("day"), options={"readers": 9}
        )
        made.register(
            [
                limited,
                dataset("clean", "day", start="2013-01-01", end="2013-01-09", options={"deadline": "06:00"}),
                dataset("months", "month"),
                dataset("rates", "day"),
                dataset("sum", "text"),
            ],
            [
                job("cleaning", "raw", writes="clean", pool="etl"),
                job("report", "clean rollup", "rates latest", writes="months"),
                job("total", "clean all", writes="sum"),
            ],
            [Pool("etl", 1, {"hours": ["00:00-24:00 -> 1"]})],
        )
        made.announce("raw", [f"2013-01-0{day}" for day in range(1, 8)])
        made.commit(claim_one(made, "cleaning"))
        made.announce("raw", ["2013-01-01"], again=True)  # what was made of it is stale
        made.fail(claim_one(made, "cleaning"), detail="exit 3")
        refused = claim_one(made, "cleaning")
        no = Receipt("cleaning", refused.dataid, (Answer("place", False, {}, "nothing is there"),))
        made.give_back(refused, no, "nothing is there", wait=3600)
        claim_one(made, "cleaning", force=True, dataid="2013-01-04")
        made.hold("raw", ["2013-01-05"])
        put(made, "raw", "x", "READY")

        def refuse(*_: object, **__: object) -> None:
            raise AssertionError("insight writes")

        monkeypatch.setattr(SqliteBackend, "writing", refuse)
        monkeypatch.setattr(SqliteBackend, "execute", refuse)
        yield made


def look_at_a_drain(store: Store) -> None:
    drained = DrainSummary(
        failed={("cleaning", "2013-01-02"): Failure("cleaning", "2013-01-02", 2, "JOB_FAILED", "x", False)}
    )
    assert Watch(store, ["cleaning"]).look(drained).limits
    assert report(store, drained).commands


def look_again_and_again(store: Store) -> None:
    metrics = Metrics(lambda: store, "1")
    assert metrics.once()
    assert metrics.once(totals=True)
    assert len(metrics.again()) > 1


def look_at_one_dataid_each(store: Store) -> None:
    verdicts = {why(store, "cleaning", f"2013-01-0{day}").verdict for day in range(1, 10)}
    assert verdicts == {"DATA_NOT_READY", "LOCKED", "INVALID_PATH"}  # refused until one passes
    why(store, "cleaning", "2013-01-03", Vault(without_file(Path("/data"), None), None))
    with pytest.raises(BadDataid):
        why(store, "cleaning", "13")
    for jobid, dataid in (("report", "2013-01"), ("total", "all")):
        assert why(store, jobid, dataid).verdict == "DATA_NOT_READY"


def prove_with_rows(store: Store) -> None:
    """Everything but the counting itself, which Spark does."""
    assert prove(store, without_file(Path("/data"), None), "clean", spark=lambda: None).rows is not None  # type: ignore[arg-type,return-value]


def compare_versions(store: Store) -> None:
    diff(store, "clean", "2013-01-01", 1, 1)
    comparing = Comparing(without_file(Path("/data"), None), ("id",), 1, lambda: None)  # type: ignore[arg-type,return-value]
    with pytest.raises(OdfError):
        diff(store, "clean", "2013-01-01", 1, 1, comparing=comparing)


def examine_everything(store: Store) -> None:
    app = SimpleNamespace(store=store, project=without_file(Path("/data"), None), key=None, is_missing=False)
    assert [each.ok for each in examine(app, {}) if each.what == "leases"] == [True]


def ask_where_nothing_is(store: Store) -> None:
    with pytest.raises(OdfError):
        published(store, without_file(Path("/data"), None), "raw", "2013-01-01")


def read_what_is_not_there(store: Store) -> None:
    with pytest.raises(OdfError):
        readable(store, without_file(Path("/data"), None), "raw", ["2013-01-01"])


def plan_a_recovery(store: Store) -> None:
    made = plan(store)
    assert made.resubmit == (("clean", "2013-01-02"),)
    assert {each.name for each in made.by_hand} >= {"HOLD", "MISSING"}
    assert made.found.refused == 1
    assert progress(store, made).stuck == 1
    assert len(causes(store)) == 3


def read_logs(store: Store) -> None:
    project, run = without_file(Path("/data"), None), store.views.runs()[0]
    assert last_of_log(store, project, run).problem
    assert part_of_log(store, project, run, 0).problem
    assert before_in_log(store, project, run, 9) == ""
    assert search_log(store, project, run, "x").problem
    with pytest.raises(OdfError):
        pieces_of_log(store, project, run)


NOWHERE = without_file(Path("/data"), None)
SELECTORS = (
    Selector(statuses=("FAILED",)),
    Selector(causes=("exit",), who=("x",)),
    Selector(downstream_of=("raw",)),
    Selector(upstream_of=("clean:2013-01-01",)),
)


def look_into_the_past(store: Store) -> None:
    at = datetime.now(UTC)
    assert overview_then(store, at).blocks
    assert chunk_list_then(store, at)
    assert explain_then(store, "raw", "2013-01-01", at).status == "READY"
    for dataid in (None, "2013-01-02"):
        why_then(store, "cleaning", dataid, at)


LOOKS: dict[Callable[..., Any], Callable[[Store], Any]] = {
    why: look_at_one_dataid_each,
    explain: lambda store: [
        explain(store.views, "raw", dataid) for dataid in ("2013-01-01", "2013-01-05", "2013-01-09", "x")
    ],
    overview: lambda store: overview(store.views),
    chunk_list: lambda store: chunk_list(store.views),
    chunk_page: lambda store: chunk_page(store.views, after="raw:2013-01-01", n=2),
    chunk_sheet: lambda store: [
        chunk_sheet(store, NOWHERE, name, dataid, look=True)
        for name in store.catalogue().datasets
        if name != "today"
        for dataid in ("2013-01-01", "2013-01-02", "2013-01-05")
        if store.catalogue().dataset(name).partition.type == "day"
    ],
    dataset_sheet: lambda store: [
        dataset_sheet(store, name, status=status)
        for name in store.catalogue().datasets
        for status in ("FAILED", "MISSING", "STALE")
    ],
    lineage: lambda store: lineage(store, "raw", "2013-01-01"),
    flow: lambda store: flow(store.views, "clean"),
    flow_picture: lambda store: [flow_picture(store), flow_picture(store, around="clean")],
    chunks_of_node: lambda store: [chunks_of_node(store, "clean"), chunks_of_node(store, "job total")],
    overview_then: look_into_the_past,
    chunks_in: lambda store: list(chunks_in(store.views, "raw", "", "\x7f")),
    pools: pools,
    heat: lambda store: [heat(store), heat(store, MatrixFilter(since="2013-01", until="2013-01"), width=5)],
    incidents: incidents,
    now: now,
    search: lambda store: [search(store, text) for text in ("raw", "2013-01-01", "raw 2013-01", "run 1")],
    select: lambda store: [select(store, selector) for selector in SELECTORS],
    diff: compare_versions,
    history: lambda store: [history(store, selector) for selector in SELECTORS],
    scope: lambda store: [scope(store, selector) for selector in SELECTORS],
    impact: lambda store: impact(store, "raw", "2013-01-01").stale == 1,
    stale_selected: lambda store: [stale_selected(store, selector) for selector in SELECTORS],
    Metrics: look_again_and_again,
    late: lambda store: [late(store), late(store, most=1)],
    deadlines_missed: deadlines_missed,
    waiting_behind: lambda store: waiting_behind(store, [("raw", "2013-01-05")]),
    prove: prove_with_rows,
    Watch: look_at_a_drain,
    report: look_at_a_drain,
    examine: examine_everything,
    health: health,
    period_report: lambda store: [period_report(store), *(period_report(store, selector) for selector in SELECTORS)],
    plan: plan_a_recovery,
    causes: plan_a_recovery,
    progress: plan_a_recovery,
    last_of_log: read_logs,
    job_sheet: lambda store: [job_sheet(store, NOWHERE, name) for name in store.catalogue().jobs],
    run_sheet: lambda store: [run_sheet(store, NOWHERE, run.runid) for run in store.views.runs()],
    timeline: lambda store: [timeline(store, by=by) for by in BY],
    published: ask_where_nothing_is,
    readable: read_what_is_not_there,
    published_versions: lambda store: published_versions(store, without_file(Path("/data"), None), None, ()),
    unapplied_line: lambda store: unapplied_line(NOWHERE, store),
}
# These are reached through the functions above.
INSIDE = {
    "explain.answers_now": explain,
    "absent.last_due": plan,
    "behind.behind": chunk_sheet,
    "dataset_signs.lines_of": dataset_sheet,
    "dataset_signs.signs_of": dataset_sheet,
    "explain.is_expected": explain,
    "explain.versions_read": explain,
    "explain.meaning_now": explain,
    "explain.sign_of": chunk_sheet,
    "run_log.spark_ui": run_sheet,
    "run_log.before_in_log": last_of_log,
    "run_log.part_of_log": last_of_log,
    "run_log.pieces_of_log": last_of_log,
    "run_log.search_log": last_of_log,
    "past.chunk_list_then": overview_then,
    "explain_then.explain_then": overview_then,
    "then.StoreAsOf": overview_then,
    "then.history_begins": overview_then,
    "then.seen_at": overview_then,
    "why_then.why_then": overview_then,
    "rows.head": readable,
    "flow_picture.node_states": flow_picture,
    "recovery.graph.graph": plan,
    "recovery.causes.grouped": plan,
    "recovery.estimate.estimate": plan,
    "recovery.by_hand.by_hand": plan,
    "recovery.waiting.waiting": why,
    "stale.stale_chunks": why,
    "stale.stale_among": impact,
    "stale.stale_of_outputs": why,
    "stale.stale_within": overview,
    "stale.stale_now": heat,
    "now.rates": now,
    "stale.why_stale": explain,
    "why.reasons.run_of": why,
    "why.reasons.stale_chunk": why,
    "why.reasons.stale_of_job": why,
    "selection.along_lineage": scope,
    "absent.absent": overview,
    "absent.missing_in": overview,
    "absent.refused_chunks": overview,
    "changed.refused_input": why,
    "changed.last_refusal": why,
    "exceptions.exceptional_chunks": overview,
    "exceptions.remarks_on_chunks": overview,
    "reconcile.reconciled": prove,
    "diff_rows.compared": diff,
    "staleness.Staleness": prove,
    "why.chunk.about_chunk": why,
    "why.job.about_job": why,
    "why.reasons.ChunkQuestion": why,  # a lazy dataclass: it has a signature once another test has made one
    "why.reasons.limits_in_the_way": why,
    "why.reasons.who_runs": why,
    "why.reasons.last_words": why,
    "why.reasons.running_chunk": why,
    "holdup.Holdup": late,
    "late.missed": why,
    "usual.usual_of": why,
    "usual.usual_seconds": why,
    "usual.so_far": why,
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=[each.__name__ for each in LOOKS])
def test_a_look_changes_nothing(store: Store, monkeypatch: pytest.MonkeyPatch, look: Callable[[Store], Any]):
    contents = SimpleNamespace(chunks={}, outside={})
    fake = SimpleNamespace(contents_of=lambda *_, **__: contents, InputChunk=lambda *_: None)
    for module in ("proving", "reading"):
        monkeypatch.setitem(sys.modules, f"opendataflow.spark.{module}", fake)
    before = dump(store)
    look(store)
    for jobid in store.catalogue().jobs:
        why(store, jobid)
    assert dump(store) == before


def test_every_function_that_is_given_a_store_is_looked_at():
    given = set()
    for module in pkgutil.walk_packages(insight.__path__, "opendataflow.insight."):
        for name, thing in vars(importlib.import_module(module.name)).items():
            is_public = getattr(thing, "__module__", "") == module.name and not name.startswith("_")
            if is_dataclass(thing):
                continue  # a value that holds a store does not look
            if is_public and callable(thing) and {"store", "app"} & set(inspect.signature(thing).parameters):
                inside = f"{module.name.removeprefix('opendataflow.insight.')}.{name}"
                given.add(INSIDE.get(inside, thing))
    assert given | {Metrics} == set(LOOKS)  # which is told how to open one
