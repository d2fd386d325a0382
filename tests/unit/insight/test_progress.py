"""Failures of a drain by their cause."""

from __future__ import annotations

from opendataflow.insight.progress import causes
from opendataflow.model import Catalogue
from opendataflow.run.drain_summary import Failure


def test_failures_that_differ_in_dataid_and_figures_only_have_one_cause() -> None:
    said = {
        "4": "exit code 3 after 0.004 s: no table t4",
        "2": "exit code 3 after 0.02 s: no table t2",
        "2025-11-12": "exit code 3 after 12 s: no table t2025-11-12",
        "eu": "the queue of eu is closed",
        "us": "the queue of us is closed",
    }
    failures = [Failure("load", dataid, 1, "JOB_FAILED", detail, False) for dataid, detail in said.items()]
    found = causes(failures, Catalogue.build((), ()))
    assert [cause.dataids for cause in found] == [("2", "4", "2025-11-12"), ("eu", "us")]
