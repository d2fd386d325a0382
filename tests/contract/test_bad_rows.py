"""A row that somebody else wrote wrongly is named, and stops nothing but what reads it."""

from __future__ import annotations

from typing import Any

import pytest

from opendataflow.errors import BadDefinition
from opendataflow.model import Dataset, Input, Job, Manifest
from opendataflow.store import records

pytestmark = pytest.mark.fault(22, 31)

BODIES = [
    '{"files":5}',
    '{"files":[[5,"x"]]}',
    '{"extra":[1],"zz":1}',
    "[]",
    "null",
    "{",
    "[" * 3000,
    '{"x":' + "[" * 600 + "]" * 600 + "}",
]


def manifest_row(**more: Any) -> tuple[Any, ...]:
    facts = dict.fromkeys(records.ManifestRow._fields) | {"datasetid": "raw", "dataid": "1", "version": 2} | more
    return tuple(facts.values())


@pytest.mark.parametrize("wrong", [*({"body": body} for body in BODIES), {"rows": "abc"}, {"bytes": "abc"}])
def test_a_manifest_that_is_none_is_named(wrong: dict[str, str]) -> None:
    with pytest.raises(BadDefinition, match="the manifest of raw 1, version 2"):
        records.published(manifest_row(**wrong))


@pytest.mark.parametrize("body", BODIES[:6])
def test_a_wrong_manifest_in_the_store_is_told_and_other_chunks_are_read(store: Any, body: str) -> None:
    store.register([Dataset("raw"), Dataset("out")], [Job("make", (Input("raw"),), ("out",))])
    store.announce("raw", ["1", "2"], manifests={"1": Manifest(rows=1), "2": Manifest(rows=2)})
    store.dml(f"update data_manifest set body = '{body}' where dataid = '1'")
    with pytest.raises(BadDefinition, match="raw 1"):
        store.views.manifest("raw", "1")
    assert store.views.manifest("raw", "2").manifest.rows == 2


@pytest.mark.parametrize("options", ["[" * 3000, '{"x":' + "[" * 600 + "]" * 600 + "}"])
def test_options_without_end_are_refused_and_named(store: Any, options: str) -> None:
    store.register([Dataset("raw")], [])
    store.dml(f"update dataset set options = '{options}' where datasetid = 'raw'")
    with pytest.raises(BadDefinition, match="raw"):
        store.catalogue().dataset("raw")


def test_a_version_that_is_no_number_does_not_stop_an_announcement(store: Any) -> None:
    if not store.url.startswith("sqlite"):
        return  # PostgreSQL keeps numbers only
    store.register([Dataset("raw")], [])
    store.announce("raw", ["1"], manifests={"1": Manifest(rows=1)})
    store.dml("update data_manifest set version = 'x' where dataid = '1'")
    assert store.announce("raw", ["1"], manifests={"1": Manifest(rows=2, bytes=2)}).ready == ("1",)
    assert store.views.manifest("raw", "1").manifest.rows == 2


@pytest.mark.parametrize(
    "forged",
    [
        *(f"inputs = '{text}'" for text in ("{", "5", "[[1]]", "[1]", '[["a", "b", "c"]]', "null", "", "[" * 3000)),
        'inputs = \'[["secret", "1"]]\'',
        "dataid = '../../etc/passwd'",
        "dataid = '-rf'",
        "sort_key = ''",
        "rank = 0",
    ],
)
def test_what_somebody_wrote_into_a_candidate_is_derived_anew(store: Any, forged: str) -> None:
    store.register(
        [Dataset("raw"), Dataset("out"), Dataset("here"), Dataset("there")],
        [Job("make", (Input("raw"),), ("out",)), Job("carry", (Input("here"),), ("there",))],
    )
    store.announce("raw", ["1", "2"])
    store.announce("here", ["1"])
    store.dml(f"update candidate set {forged} where jobid = 'make' and dataid = '1'")
    assert len(store.views.candidates_sample("make", 10)) == 2
    (other,) = store.claim("carry")
    store.commit(other)
    claims = [store.claim("make")[0] for _ in range(2)]
    assert sorted((claim.dataid, [item[:2] for item in claim.inputs]) for claim in claims) == [
        ("1", [("raw", "1")]),
        ("2", [("raw", "2")]),
    ]
    for claim in claims:
        store.commit(claim)
    assert store.claim("make") == []
    assert store.breaches() == []
