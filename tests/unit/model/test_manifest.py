import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendataflow.errors import BadDefinition
from opendataflow.model.decision.manifest import CheckResult, Manifest, ManifestFile


def manifests() -> st.SearchStrategy[Manifest]:
    count = st.none() | st.integers(0)
    text = st.none() | st.text()
    return st.builds(
        Manifest,
        location=st.text(),
        format=st.sampled_from(["", "csv", "parquet"]),
        files=st.lists(st.tuples(st.text(), st.integers(0), st.none() | st.floats(0, 1e10), text)).map(tuple),
        bytes=count,
        rows=count,
        schema=st.text(),
        fingerprint=text.filter(lambda value: value != ""),
        checks=st.lists(st.fixed_dictionaries({"kind": st.text(), "passed": st.booleans()})).map(tuple),
        extra=st.dictionaries(st.text(), st.integers()),
    )


@given(manifests())
def test_a_manifest_survives_the_round_trip(manifest):
    assert Manifest.from_data(json.loads(json.dumps(manifest.to_data()))) == manifest


def test_an_empty_manifest_is_empty_data():
    assert Manifest().to_data() == {}
    assert Manifest.from_data({}) == Manifest()


def test_zero_rows_are_a_fact_and_not_an_absence():
    assert Manifest(rows=0, bytes=0).to_data() == {"rows": 0, "bytes": 0}


def test_files_have_names_for_their_parts():
    manifest = Manifest.from_data({"files": [["a.csv", 10]]})
    assert manifest.files == (ManifestFile("a.csv", 10, None, None),)


def test_what_is_unknown_is_kept():
    assert Manifest.from_data({"colour": "red", "extra": {"a": 1}}).extra == {"colour": "red", "a": 1}


def test_a_check_result_is_stored_as_it_always_was():
    result = CheckResult("not_null(carrier)", "not_null", "warn", False, {"nulls": {"carrier": 2}})
    stored = {
        "check": "not_null(carrier)",
        "kind": "not_null",
        "severity": "warn",
        "passed": False,
        "figures": {"nulls": {"carrier": 2}},
    }
    assert Manifest(checks=(result,)).to_data() == {"checks": [stored]}
    assert Manifest.from_data({"checks": [stored]}).checks == (result,)


def test_a_check_of_an_older_manifest_is_an_error_that_did_not_pass_until_it_says_otherwise():
    older = Manifest.from_data({"checks": [{"kind": "rows", "quarantined": True}]})
    assert older.checks == (CheckResult("rows", "rows", "error", False, {"quarantined": True}),)
    assert older.checks[0].refuses


@pytest.mark.parametrize("passed", [None, 1, "true"])
def test_only_true_is_a_check_that_passed(passed):
    assert CheckResult.from_data({"check": "rows", "passed": passed}).passed is False


def test_a_check_that_is_no_table_is_refused():
    with pytest.raises(BadDefinition):
        Manifest.from_data({"checks": ["rows"]})


@pytest.mark.parametrize(
    "data",
    [
        [],
        None,
        5,
        {"files": 5},
        {"files": [5]},
        {"files": ["ab"]},
        {"files": [[5, "x"]]},
        {"files": [["a.csv", "10"]]},
        {"files": [["a.csv", 10, "yesterday"]]},
        {"files": {"a.csv": 10}},
        {"checks": 5},
        {"checks": [[1]]},
        {"extra": [1], "zz": 1},
        {"rows": "abc"},
        {"bytes": "abc"},
        {"rows": 1.5},
        {"location": None},
        {"schema": {"a": 1}},
        {"fingerprint": b"x"},
    ],
)
def test_data_that_is_no_manifest_is_refused_and_named(data):
    with pytest.raises(BadDefinition) as problem:
        Manifest.from_data(data, "the manifest of raw 1")
    assert "the manifest of raw 1" in problem.value.message


def test_data_without_end_is_refused():
    deep: object = 1
    for _ in range(3000):
        deep = [deep]
    with pytest.raises(BadDefinition, match="deep"):
        Manifest.from_data({"x": deep})


def test_a_file_without_its_size_is_refused():
    with pytest.raises(BadDefinition) as problem:
        Manifest(files=(("a.csv",),))  # type: ignore[arg-type]
    assert "a.csv" in problem.value.message


@pytest.mark.parametrize(
    ("checks", "passed"),
    [
        ([], True),
        ([{"kind": "rows", "passed": True}], True),
        ([{"kind": "rows", "passed": False}], False),
        ([{"kind": "rows", "passed": False, "severity": "error"}], False),
        ([{"kind": "rows", "passed": False, "severity": "warn"}], True),
        ([{"kind": "rows", "passed": True}, {"kind": "span", "passed": False}], False),
        ([{"kind": "rows"}], False),
    ],
)
def test_a_manifest_passed_when_no_error_check_failed(checks, passed):
    assert Manifest(checks=tuple(checks)).passed is passed
