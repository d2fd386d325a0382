"""Stores to measure on: a job with one input and a consumer, a job with three inputs, and as many chunks as wanted."""

from __future__ import annotations

import psycopg

from opendataflow.model import Dataset, Input, Job, Partition
from opendataflow.store import Store, open_store
from tests.support.flows import fold_in

NUMBER = Partition("number")


def define(store: Store, prefix: str = "") -> None:
    """Declare the jobs."""
    names = ("raw", "clean", "report", "one", "two", "three", "joined")
    store.register(
        [Dataset(prefix + name, partition=NUMBER) for name in names],
        [
            Job(prefix + "load", (Input(prefix + "raw"),), (prefix + "clean",), lease=3600),
            Job(prefix + "sum", (Input(prefix + "clean"),), (prefix + "report",), lease=3600),
            Job(
                prefix + "join",
                tuple(Input(prefix + each) for each in ("one", "two", "three")),
                (prefix + "joined",),
                lease=3600,
            ),
        ],
    )


FILL = {
    "postgres": """
        insert into datastatus (datasetid, dataid, jobid, locktype, status, epoch, version, sort_key, seal)
            select d, i::text, 'outside', 'OUT', 'READY', 1, 1, lpad(i::text, 18, '0'), 1 from generate_series(1, {n}) i, unnest(array['raw', 'one', 'two', 'three']) d;
        insert into run (jobid, dataid, epoch, status) select j, i::text, 1, 'READY' from generate_series(1, {n} / 2) i, unnest(array['load', 'join']) j;
        insert into run_input (runid, nth, datasetid, dataid, version)
            select r.runid, x.nth, x.d, r.dataid, 1 from run r join (values ('load', 1, 'raw'), ('join', 1, 'one'), ('join', 2, 'two'), ('join', 3, 'three')) x (j, nth, d) on x.j = r.jobid;
        insert into datastatus (datasetid, dataid, jobid, locktype, status, epoch, version, sort_key, seal)
            select d, i::text, j, 'OUT', 'READY', 1, 1, lpad(i::text, 18, '0'), 1 from generate_series(1, {n} / 2) i, (values ('clean', 'load'), ('joined', 'join')) x (d, j);
        insert into datastatus (datasetid, dataid, jobid, locktype, status, epoch, version, seal)
            select d, i::text, j, 'IN', 'DONE', 1, 1, 1 from generate_series(1, {n} / 2) i, (values ('raw', 'load'), ('one', 'join'), ('two', 'join'), ('three', 'join')) x (d, j);
        insert into data_manifest (datasetid, dataid, version, jobid, runid) select case jobid when 'load' then 'clean' else 'joined' end, dataid, 1, 'x', runid from run;
        insert into event (kind, datasetid, dataid, after) select 'published', d, i::text, 'READY' from generate_series(1, {n} / 2) i, unnest(array['clean', 'joined']) d;
        insert into candidate (jobid, dataid, sort_key, state, inputs)
            select 'load', i::text, lpad(i::text, 18, '0'), 'CLAIMABLE', '[["raw","' || i || '"]]' from generate_series({n} / 2 + 1, {n}) i;
        insert into candidate (jobid, dataid, sort_key, state, inputs)
            select 'join', i::text, lpad(i::text, 18, '0'), 'CLAIMABLE', '[["one","' || i || '"],["two","' || i || '"],["three","' || i || '"]]' from generate_series({n} / 2 + 1, {n}) i;
    """,
    "sqlite": """
        insert into datastatus (datasetid, dataid, jobid, locktype, status, epoch, version, sort_key, seal)
            select d.value, t, 'outside', 'OUT', 'READY', 1, 1, k, 1 from json_each('["raw","one","two","three"]') d cross join {numbers};
        insert into run (jobid, dataid, epoch, status) select j.value, t, 1, 'READY' from json_each('["load","join"]') j cross join {numbers} where i <= {n} / 2;
        insert into run_input (runid, nth, datasetid, dataid, version)
            select r.runid, x.value ->> 1, x.value ->> 2, r.dataid, 1
            from run r join json_each('[["load",1,"raw"],["join",1,"one"],["join",2,"two"],["join",3,"three"]]') x on x.value ->> 0 = r.jobid;
        insert into datastatus (datasetid, dataid, jobid, locktype, status, epoch, version, sort_key, seal)
            select x.value ->> 0, t, x.value ->> 1, 'OUT', 'READY', 1, 1, k, 1 from json_each('[["clean","load"],["joined","join"]]') x cross join {numbers} where i <= {n} / 2;
        insert into datastatus (datasetid, dataid, jobid, locktype, status, epoch, version, seal)
            select x.value ->> 0, t, x.value ->> 1, 'IN', 'DONE', 1, 1, 1 from json_each('[["raw","load"],["one","join"],["two","join"],["three","join"]]') x cross join {numbers} where i <= {n} / 2;
        insert into data_manifest (datasetid, dataid, version, jobid, runid) select case jobid when 'load' then 'clean' else 'joined' end, dataid, 1, 'x', runid from run;
        insert into event (kind, datasetid, dataid, after) select 'published', d.value, t, 'READY' from json_each('["clean","joined"]') d cross join {numbers} where i <= {n} / 2;
        insert into candidate (jobid, dataid, sort_key, state, inputs) select 'load', t, k, 'CLAIMABLE', '[["raw","' || t || '"]]' from {numbers} where i > {n} / 2;
        insert into candidate (jobid, dataid, sort_key, state, inputs)
            select 'join', t, k, 'CLAIMABLE', '[["one","' || t || '"],["two","' || t || '"],["three","' || t || '"]]' from {numbers} where i > {n} / 2;
    """,
}
NUMBERS = """(with recursive i (i) as (select 1 union all select i + 1 from i where i < {n})
             select i, cast(i as text) as t, printf('%018d', i) as k from i) number"""


def filled(url: str, chunks: int) -> Store:
    """A store in which half of the chunks of each job are done."""
    store = open_store(url, create=True)
    define(store)
    fold_in(store)  # folds the definitions in
    dialect = url.partition(":")[0].removesuffix("ql")
    store.dml(FILL[dialect].format(n=chunks, numbers=NUMBERS.format(n=chunks)))
    if dialect == "postgres":
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("vacuum analyze")
    return store
