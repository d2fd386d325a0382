"""What people should know of a version that was published all the same."""

from __future__ import annotations

from opendataflow.model import CheckResult, Manifest
from opendataflow.model.decision.remarks import remarks


def test_rejected_rows_and_warnings_are_told_and_nothing_else() -> None:
    aside = {"rejected": 3, "of": 50, "max": "10 %", "because": {"range(id)": 2, "span": 1}}
    checks = (
        CheckResult("rows", "rows", "error", True, {"rows": 47}),
        CheckResult("quarantine", "quarantine", "error", True, aside),
        CheckResult("rows", "rows", "warn", False, {"rows": 47, "min": 50}),
    )
    assert remarks({"orders": Manifest(checks=checks), "other": Manifest()}) == (
        "orders: 3 of 50 rows rejected (max 10 %): range(id)=2 span=1; orders: warning: rows: rows 47, min 50"
    )
    assert remarks({"orders": Manifest(checks=checks[:1])}) == ""
