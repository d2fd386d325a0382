from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendataflow.errors import (
    BadDefinition,
    BadMapping,
    Cycle,
    TwoProducers,
    UnknownDataset,
    UnknownJob,
    UnknownPool,
)
from opendataflow.model.definitions.catalogue import Catalogue, takes_all
from opendataflow.model.definitions.dataset import TODAY, Dataset
from opendataflow.model.definitions.job import Input, Job, Pool
from opendataflow.model.definitions.mapping import Mapping
from opendataflow.model.definitions.partition import Partition


def dataset(datasetid: str, partition: str = "day", **bounds: Any) -> Dataset:
    return Dataset(datasetid, partition=Partition(partition, **bounds))


def reads(*names: str) -> tuple[Input, ...]:
    """Inputs as in "flights" or "flights rollup"."""
    return tuple(Input(words[0], Mapping.from_data(words[2])) for words in (name.partition(" ") for name in names))


def job(jobid: str, *names: str, writes: Iterable[str] = ()) -> Job:
    return Job(jobid, reads(*names), tuple(writes))


FLIGHTS = [
    dataset("raw"),
    dataset("clean"),
    dataset("report", "month"),
    dataset("airlines", "month"),
    dataset("shards", "range", count=3),
]


def flights(*jobs: Job) -> Catalogue:
    return Catalogue.build(FLIGHTS, jobs, [Pool("etl", 2)])


def test_a_catalogue_knows_who_writes_and_who_reads():
    clean = job("clean", "raw", "airlines latest", writes=["clean"])
    month = job("month", "clean rollup", writes=["report"])
    catalogue = flights(month, clean)
    assert catalogue.producer("clean") == clean
    assert catalogue.producer("raw") is None
    assert catalogue.consumers("clean") == ((month, month.inputs[0]),)
    assert catalogue.consumers("report") == ()
    assert catalogue.order() == ["clean", "month"]
    assert catalogue.job("clean") == clean
    assert catalogue.dataset("raw") == FLIGHTS[0]
    assert catalogue.pool("etl") == Pool("etl", 2)
    assert catalogue.implicit == ()


def test_a_catalogue_maps_both_ways():
    clean = job("clean", "raw window 2", "airlines latest", writes=["clean"])
    month = job("month", "clean rollup", writes=["report"])
    catalogue = flights(clean, month)
    assert catalogue.inputs_of(clean, "2013-01-02") == [("raw", "2013-01-01"), ("raw", "2013-01-02")]
    assert len(catalogue.inputs_of(month, "2013-02")) == 28
    assert catalogue.outputs_of(clean, clean.inputs[0], "2013-01-02") == ["2013-01-02", "2013-01-03"]
    assert catalogue.outputs_of(clean, clean.inputs[1], "2013-01") == []
    assert catalogue.outputs_of(month, month.inputs[0], "2013-01-02") == ["2013-01"]


def test_today_is_always_there_and_may_have_another_timezone():
    assert flights().dataset("today") == TODAY
    berlin = Dataset("today", partition=Partition("day"), options={"timezone": "Europe/Berlin"})
    assert Catalogue.build([berlin], []).dataset("today") == berlin
    with pytest.raises(BadDefinition):
        Catalogue.build([dataset("today", "hour")], [])


def test_today_cannot_be_written():
    with pytest.raises(BadDefinition) as problem:
        flights(job("clock", "raw", writes=["today"]))
    assert "clock" in problem.value.message
    assert "today" in problem.value.message


def test_an_unknown_dataset_of_a_job_is_named_with_its_job_and_the_nearest_name():
    for broken in (job("clean", "raww", writes=["clean"]), job("clean", "raw", writes=["claen"])):
        with pytest.raises(UnknownDataset) as problem:
            flights(broken)
        assert "job clean" in problem.value.message
        assert problem.value.hint in ("Did you mean raw?", "Did you mean clean?")


@pytest.mark.parametrize(
    ("ask", "name", "error", "nearest"),
    [
        ("dataset", "airline", UnknownDataset, "airlines"),
        ("job", "clena", UnknownJob, "clean"),
        ("pool", "elt", UnknownPool, "etl"),
        ("job", "zzz", UnknownJob, ""),
    ],
)
def test_an_unknown_name_suggests_the_nearest(ask, name, error, nearest):
    with pytest.raises(error) as problem:
        getattr(flights(job("clean", "raw", writes=["clean"])), ask)(name)
    assert name in problem.value.message
    assert nearest in problem.value.hint


def test_two_producers_of_one_dataset_are_refused():
    with pytest.raises(TwoProducers) as problem:
        flights(job("one", "raw", writes=["clean"]), job("two", "raw", writes=["clean"]))
    assert all(word in problem.value.message for word in ("one", "two", "clean"))


@pytest.mark.parametrize(
    ("jobs", "circle"),
    [
        ([job("a", "y", writes=["x"]), job("b", "x", writes=["y"])], {"a → b → a", "b → a → b"}),
        ([job("a", "x", writes=["x"])], {"a → a"}),
        ([job("a", "x window 2", writes=["x"])], {"a → a"}),
        (
            [job("a", "z", "x lag", writes=["x"]), job("b", "x", writes=["y"]), job("c", "y", writes=["z"])],
            {"a → b → c → a", "b → c → a → b", "c → a → b → c"},
        ),
    ],
)
def test_a_circle_is_refused_and_shown(jobs, circle):
    with pytest.raises(Cycle) as problem:
        Catalogue.build([dataset("x"), dataset("y"), dataset("z")], jobs)
    assert any(path in problem.value.message for path in circle)


def test_a_lag_makes_no_circle():
    own = job("balance", "raw", "clean lag", writes=["clean"])
    assert flights(own).order() == ["balance"]
    assert flights(own).inputs_of(own, "2013-01-02") == [("raw", "2013-01-02"), ("clean", "2013-01-01")]


@pytest.mark.parametrize(
    ("broken", "word"),
    [
        (job("month", "clean", writes=["report"]), "identity"),
        (job("clean", "raw rollup", writes=["clean"]), "rollup"),
        (job("clean", "raw", "shards latest", writes=["clean"]), "latest"),
        (job("clean", "shards", writes=["clean"]), "range"),
        (job("clean", "airlines latest", writes=["clean"]), "clean"),
        (job("clean", "airlines latest", "shards all", writes=["clean"]), "clean"),
        (job("clean", "shards all", writes=["clean"]), "all"),
        (job("clean", "airlines latest"), "clean"),
    ],
)
def test_a_mapping_that_does_not_fit_is_refused_with_its_job(broken, word):
    with pytest.raises(BadMapping) as problem:
        flights(broken)
    assert broken.jobid in problem.value.message
    assert word in problem.value.message


def test_a_job_of_all_shards_has_one_output_named_all():
    merge = job("merge", "shards all", writes=["merged"])
    catalogue = Catalogue.build([*FLIGHTS, dataset("merged", "text")], [merge])
    assert catalogue.outputs_of(merge, merge.inputs[0], "2") == ["all"]
    assert catalogue.inputs_of(merge, "all") == []
    assert takes_all(merge)


def test_a_job_without_inputs_is_legal():
    catalogue = flights(job("fetch", writes=["raw"]))
    assert catalogue.inputs_of(catalogue.job("fetch"), "2013-01-01") == []


def test_a_job_without_outputs_gets_a_marker_named_after_it():
    catalogue = Catalogue.build(
        [dataset("raw", start="2013-01-01", end="2013-12-31", column="d")], [job("mail", "raw")]
    )
    assert catalogue.implicit == (dataset("mail", start="2013-01-01", end="2013-12-31"),)
    assert catalogue.dataset("mail") == catalogue.implicit[0]
    assert catalogue.job("mail").outputs == ("mail",)
    assert catalogue.producer("mail") == catalogue.job("mail")
    assert catalogue.inputs_of(job("mail", "raw"), "2013-01-01") == [("raw", "2013-01-01")]


def test_the_marker_of_a_lag_reaches_beyond_the_end_of_its_input():
    catalogue = Catalogue.build([dataset("raw", end="2013-12-31")], [job("mail", "raw lag")])
    assert catalogue.outputs_of(catalogue.job("mail"), catalogue.job("mail").inputs[0], "2013-12-31") == ["2014-01-01"]


def test_the_marker_of_a_job_of_all_shards_is_text():
    assert flights(job("done", "shards all")).implicit == (dataset("done", "text"),)


def test_a_registered_dataset_of_the_same_name_is_the_marker():
    catalogue = Catalogue.build([dataset("raw"), dataset("mail", "month")], [job("mail", "raw rollup")])
    assert catalogue.implicit == ()
    assert catalogue.job("mail").outputs == ("mail",)


def test_building_again_from_what_was_built_changes_nothing():
    once = Catalogue.build([dataset("raw")], [job("mail", "raw")])
    again = Catalogue.build(once.datasets.values(), once.jobs.values(), once.pools.values())
    assert (again.datasets, again.jobs) == (once.datasets, once.jobs)


def test_a_rollup_without_output_asks_for_one():
    with pytest.raises(BadDefinition) as problem:
        flights(job("mail", "raw rollup"))
    assert "mail" in problem.value.message
    assert "rollup" in problem.value.message


def test_a_job_called_today_needs_an_output():
    with pytest.raises(BadDefinition):
        flights(job("today", "raw"))


def test_outputs_of_one_job_have_one_type():
    with pytest.raises(BadDefinition) as problem:
        flights(job("clean", "raw", writes=["clean", "report"]))
    assert all(word in problem.value.message for word in ("clean", "report", "day", "month"))


def test_the_partition_of_a_job_lies_inside_the_bounds_of_each_output():
    datasets = [
        dataset("raw"),
        dataset("x", start="2013-01-01"),
        dataset("y", end="2013-12-31"),
        dataset("z", end="2012-12-31"),
    ]
    both = job("both", "raw", writes=["x", "y"])
    partition = Catalogue.build(datasets, [both]).output_partition(both)
    assert (partition.start, partition.end) == ("2013-01-01", "2013-12-31")
    with pytest.raises(BadDefinition):
        Catalogue.build(datasets, [job("never", "raw", writes=["x", "z"])])


@pytest.mark.parametrize(
    ("datasets", "jobs", "pools"),
    [
        ([dataset("raw"), dataset("raw")], [], []),
        ([dataset("raw")], [job("a", "raw"), job("a", "raw")], []),
        ([], [], [Pool("etl"), Pool("etl")]),
    ],
)
def test_nothing_is_defined_twice(datasets, jobs, pools):
    with pytest.raises(BadDefinition) as problem:
        Catalogue.build(datasets, jobs, pools)
    assert "twice" in problem.value.message


def test_the_partition_of_an_unknown_job_is_not_known():
    with pytest.raises(UnknownJob):
        flights().output_partition(job("ghost", "raw"))


@given(st.permutations(range(6)))
def test_the_order_of_jobs_does_not_depend_on_the_order_of_definition(permutation):
    datasets = [dataset(f"d{n}") for n in range(7)]
    jobs = [job(f"j{n}", f"d{n}", writes=[f"d{n + 1}"]) for n in range(6)]
    catalogue = Catalogue.build(datasets, [jobs[n] for n in permutation])
    assert catalogue.order() == [f"j{n}" for n in range(6)]
