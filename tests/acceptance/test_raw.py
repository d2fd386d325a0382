"""sql and dml: the door for people who think in SQL."""

from __future__ import annotations

import pytest

from opendataflow import Store
from tests.support.flows import chain, drain, dump, following, status
from tests.support.odf import Odf


@pytest.fixture
def flow(store: Store) -> Store:
    """raw 1–3 → make → product."""
    chain(store)
    store.announce("raw", ["1", "2", "3"])
    drain(store, "make")
    return store


def test_sql_answers_in_a_table_or_in_json(flow: Store, odf: Odf):
    statement = "select dataid, status from job_status order by dataid"
    assert odf("sql", statement).out.splitlines() == [
        "dataid  status",
        "------  ------",
        *(f"{n}       READY" for n in "123"),
        "3 rows",
    ]
    assert odf("sql", "--json", statement).data[0] == {"dataid": "1", "status": "READY"}
    assert odf("sql", "--json", stdin=statement).data[2]["dataid"] == "3"
    assert odf("sql", "select dataid from job_status where dataid = 'none'").out == "dataid\n------\n0 rows\n"


@pytest.mark.parametrize(
    "statement",
    [
        "delete from event",
        "update datastatus set status = 'FAILED'",
        "with x as (select 1) insert into pool (poolid) select 'p' from x",
        "select 1; delete from candidate",
        "commit; delete from candidate",
        "rollback; delete from candidate",
        "pragma query_only = off; delete from candidate",
        "set transaction read write; delete from candidate",
        "attach database '/tmp/odf-should-not-be.db' as x",
        "drop table candidate",
        "selec 1",
        "",
    ],
)
def test_sql_cannot_write(flow: Store, odf: Odf, statement: str):
    before = dump(flow)
    assert odf("sql", statement, code=2).err.startswith("USAGE")
    assert dump(flow) == before


def test_dml_changes_and_counts(flow: Store, odf: Odf):
    statement = "UPDATE job_status SET status = 'RESUBMIT' WHERE dataid = '2'"
    before = dump(flow)
    assert odf("dml", "--dry-run", statement).out == "1 row would change\n"
    assert dump(flow) == before
    assert odf("dml", statement).out == "1 row changed\n"
    assert status(flow, "product", "2") == "RESUBMIT"
    assert following(flow, "make") == ["2"]


@pytest.mark.parametrize(
    "statement",
    [
        "update datastatus set status = 'NONSENSE'",
        "insert into datastatus (datasetid, dataid, jobid, locktype, status) values ('no', '1', 'j', 'OUT', 'READY')",
        "nonsense",
    ],
)
def test_dml_that_the_store_refuses_changes_nothing(flow: Store, odf: Odf, statement: str):
    before = dump(flow)
    assert odf("dml", statement, code=2).err.startswith("USAGE")
    assert dump(flow) == before
