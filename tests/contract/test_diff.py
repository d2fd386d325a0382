"""How one published version of a chunk differs from another, by their manifests."""

from __future__ import annotations

import pytest

from opendataflow import Manifest, Store
from opendataflow.errors import DataNotReady, UnknownDataset, UsageError
from opendataflow.insight.diff import ChangedFact, diff
from opendataflow.model import CheckResult
from tests.support.flows import chain, claim_one

OLD = Manifest(
    rows=10,
    bytes=100,
    schema="id INT, name STRING, gone DATE",
    span_lower="1",
    span_upper="9",
    fingerprint="aa",
    checks=(CheckResult("rows", "rows", passed=True, figures={"rows": 10}),),
)
NEW = Manifest(
    rows=12,
    bytes=100,
    schema="name STRING, id BIGINT, more INT",
    span_lower="1",
    span_upper="11",
    fingerprint="bb",
    checks=(CheckResult("rows", "rows", passed=True, figures={"rows": 12}),),
)


@pytest.fixture
def flow(store: Store) -> Store:
    """product 1 was published twice, the second time from a newer raw 1."""
    chain(store)
    store.announce("raw", ["1"])
    store.commit(claim_one(store, "make"), {"product": OLD})
    store.announce("raw", ["1"], again=True)
    store.resubmit("product", ["1"])
    store.commit(claim_one(store, "make"), {"product": NEW})
    return store


def test_the_current_version_is_compared_with_the_one_before(flow: Store):
    found = diff(flow, "product", "1")
    assert (found.before.version, found.after.version) == (1, 2)
    assert found.columns == (
        "gone DATE dropped",
        "more INT added",
        "id was INT and is BIGINT",
        "the order was id, name, gone and is name, id, more",
    )
    assert found.facts == (
        ChangedFact("rows", 10, 12),
        ChangedFact("span upper", "9", "11"),
        ChangedFact("fingerprint", "aa", "bb"),
    )
    assert found.checks == (ChangedFact("rows", {"passed": True, "rows": 10}, {"passed": True, "rows": 12}),)
    assert [each.what for each in found.inputs] == ["raw 1"]
    assert found.is_same_content is False


def test_versions_can_be_named_in_any_order(flow: Store):
    assert diff(flow, "product", "1", 2, 1).facts[0] == ChangedFact("rows", 12, 10)
    assert diff(flow, "product", "1", 1).after.version == 2
    same = diff(flow, "product", "1", 2, 2)
    assert (same.facts, same.columns, same.is_same_content) == ((), (), True)


def test_what_cannot_be_compared_is_named(flow: Store):
    with pytest.raises(UsageError):
        diff(flow, "product", "1", 1, 7)
    with pytest.raises(DataNotReady):
        diff(flow, "report", "1")
    with pytest.raises(UnknownDataset):
        diff(flow, "nothing", "1")
