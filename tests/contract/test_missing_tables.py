"""A store that somebody took something from says so, with a name and a way back, and breaks nothing else."""

from __future__ import annotations

import pytest

from opendataflow import Store
from opendataflow.cli.app import App
from opendataflow.errors import SchemaChanged
from opendataflow.insight.doctor import examine
from tests.support.flows import chain
from tests.support.stores import type_sql

TAKEN = {
    "drop table pool": ["pool"],
    "alter table run rename column log to protocol": ["run.log"],
    "drop view job_status": ["job_status"],
}


def test_nothing_is_missing_from_a_store_that_was_left_alone(store: Store) -> None:
    assert store.missing() == []
    assert store.migrate() == []


@pytest.mark.parametrize("statement", TAKEN)
def test_what_is_missing_is_named(store: Store, store_url: str, statement: str) -> None:
    chain(store)
    type_sql(store_url, statement)
    assert store.missing() == TAKEN[statement]
    with pytest.raises(SchemaChanged, match=TAKEN[statement][0]):
        store.migrate()
    app = App(store_url=store_url)
    findings = {finding.what: finding for finding in examine(app, {})}
    app.close()
    assert findings["tables"].ok is False
    assert TAKEN[statement][0] in findings["tables"].found


def test_whoever_needs_it_gets_a_name_and_no_traceback(store: Store, store_url: str) -> None:
    chain(store)
    type_sql(store_url, "alter table event rename column why to reason")
    with pytest.raises(SchemaChanged):
        store.views.events()
