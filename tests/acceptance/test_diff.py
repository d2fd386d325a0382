"""odf diff, as a process."""

from __future__ import annotations

from opendataflow import Manifest, Store
from tests.support.flows import chain, claim_one
from tests.support.odf import Odf


def test_two_versions_are_compared(store: Store, odf: Odf):
    chain(store)
    store.announce("raw", ["1"])
    store.commit(claim_one(store, "make"), {"product": Manifest(rows=1000, fingerprint="a", schema="id INT")})
    assert odf("diff", "product", "1", code=10).err.startswith("DATA_NOT_READY")
    store.resubmit("product", ["1"])
    store.commit(claim_one(store, "make"), {"product": Manifest(rows=1200, fingerprint="b", schema="id BIGINT")})
    out = odf("diff", "product", "1").out
    assert "column id was INT and is BIGINT" in out
    assert "1,000" in out
    assert "1,200" in out
    assert "the content differs" in out
    facts = odf("diff", "product", "1", "1", "2", "--json").data["facts"]
    assert {"what": "rows", "before": 1000, "after": 1200} in facts or ["rows", 1000, 1200] in facts
    assert odf("diff", "product", "1", "1", "9", code=2).err.startswith("USAGE")
    assert odf("diff", "nothing", "1", code=2).err.startswith("UNKNOWN_DATASET")
