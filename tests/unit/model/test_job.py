import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendataflow.errors import BadDefinition, BadId
from opendataflow.model.definitions.job import Input, Job, Pool, RetryRule
from opendataflow.model.definitions.mapping import Mapping

RAW = Input("flights_raw")


def test_a_job_has_an_identity_mapping_unless_declared():
    assert Input("flights").mapping == Mapping("identity")


def test_a_job_may_read_what_it_writes_with_a_lag():
    job = Job("balance", (Input("balances", Mapping("lag")),), ("balances",))
    assert job.inputs[0].mapping.kind == "lag"


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"inputs": (), "outputs": ()}, "neither"),
        ({"inputs": (RAW, Input("flights_raw", Mapping("lag")))}, "flights_raw"),
        ({"outputs": ("a", "a")}, "a twice"),
        ({"outputs": "flights"}, "flights"),
        ({"inputs": ("flights_raw",)}, "flights_raw"),
        ({"env": "X=y"}, "X=y"),
        ({"env": {"1X": "y"}}, "1X"),
        ({"env": {"A-B": "y"}}, "A-B"),
        ({"env": {"X\n": "y"}}, "X"),
        ({"env": {"é": "y"}}, "é"),
        ({"env": {"X": 7}}, "7"),
        ({"env": {"X": "a\0b"}}, "X"),
        ({"lease": 0}, "lease"),
        ({"lease": -1.0}, "lease"),
        ({"lease": None}, "lease"),
        ({"lease": float("inf")}, "lease"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": True}, "timeout"),
        ({"retry": 3}, "retry"),
        ({"options": {"x": object()}}, "x"),
    ],
)
def test_a_job_that_makes_no_sense_is_refused(values, word):
    with pytest.raises(BadDefinition) as problem:
        Job(**{"jobid": "clean", "inputs": (RAW,), "outputs": ("flights",), **values})
    assert word in problem.value.message


@pytest.mark.parametrize("values", [{"jobid": "a b"}, {"outputs": ("a b",)}, {"pool": "a b"}, {"pool": None}])
def test_a_job_with_an_id_outside_the_grammar_is_refused(values):
    with pytest.raises(BadId):
        Job(**{"jobid": "clean", "inputs": (RAW,), "outputs": ("flights",), **values})


def test_an_input_needs_a_mapping():
    with pytest.raises(BadDefinition):
        Input("flights", "lag")  # type: ignore[arg-type]


def test_jobs_are_equal_by_value_and_hashable():
    one, other = (Job("clean", (RAW,), ("flights",), {"A": "b"}, options={"x": [1]}) for _ in range(2))
    assert one == other
    assert hash(one) == hash(other)


def test_the_delay_doubles_up_to_its_maximum():
    retry = RetryRule(5, backoff=10, backoff_max=60)
    assert [retry.delay(tries) for tries in (1, 2, 3, 4, 5)] == [10, 20, 40, 60, 60]


def test_jitter_adds_up_to_a_quarter():
    assert RetryRule(5, backoff=100).delay(1, jitter=1.0) == 125
    assert RetryRule(5, backoff=100).delay(1, jitter=0.5) == 112.5


@given(st.integers(-5, 10**30), st.floats(0, 1e308), st.floats(0, 1e300), st.floats(0, 1))
def test_the_delay_never_overflows(tries, backoff, backoff_max, jitter):
    assert 0 <= RetryRule(1, backoff, backoff_max).delay(tries, jitter) <= backoff_max * 1.25


@pytest.mark.parametrize(
    ("retry", "tries", "outcome", "expected"),
    [
        (RetryRule(), 1, "JOB_FAILED", False),
        (RetryRule(2), 1, "JOB_FAILED", True),
        (RetryRule(2), 2, "JOB_FAILED", True),
        (RetryRule(2), 3, "JOB_FAILED", False),
        (RetryRule(2, on=("TIMED_OUT",)), 1, "JOB_FAILED", False),
        (RetryRule(2, on=("TIMED_OUT", "NO_SPACE")), 1, "NO_SPACE", True),
        (RetryRule(), 2, "LEASE_LOST", True),
        (RetryRule(), 3, "LEASE_LOST", False),
        (RetryRule(5), 5, "LEASE_LOST", True),
        (RetryRule(5, on=("JOB_FAILED",)), 1, "LEASE_LOST", False),
    ],
)
def test_when_a_retry_applies(retry, tries, outcome, expected):
    assert retry.applies(tries, outcome) is expected


@pytest.mark.parametrize(
    "values",
    [
        {"retries": -1},
        {"retries": True},
        {"retries": 1.5},
        {"backoff": -1},
        {"backoff": float("nan")},
        {"backoff_max": float("inf")},
        {"on": "JOB_FAILED"},
        {"on": ("job failed",)},
        {"on": (7,)},
    ],
)
def test_a_retry_rule_that_makes_no_sense_is_refused(values):
    with pytest.raises(BadDefinition):
        RetryRule(**values)


@pytest.mark.parametrize("slots", [-1, True, 1.5, "3"])
def test_a_pool_has_a_whole_number_of_slots(slots):
    with pytest.raises(BadDefinition) as problem:
        Pool("etl", slots)
    assert "etl" in problem.value.message


def test_a_pool_may_be_unlimited_or_paused():
    assert Pool("etl").slots is None
    assert Pool("etl", 0).slots == 0
