"""A store with a long past, made by set-based SQL: ten flows of five levels, hour by hour, each chunk attempted twice.

Every hour brings 50 chunks (10 raw ones from outside, 40 that jobs make in 80 attempts) and 250 events. One hour in ten fails
at first; one in twenty leaves chunks that were made of an older version than there is now; one in a hundred leaves a report that
failed. The newest hours have arrived, and nobody has taken them yet.
"""

from __future__ import annotations

import re
import time
from contextlib import closing
from typing import Any

from opendataflow.model import Dataset, Input, Job, Partition
from opendataflow.model.definitions.mapping import Mapping
from opendataflow.store import Store, open_store
from tests.support.flows import fold_in

FLOWS = range(10)
CHUNKS_AN_HOUR = 50
EVENTS_AN_HOUR = 250
HOUR = 3600
_WINDOW = 7
_NOW = int(time.time())
_LEVELS = ("raw", "clean", "joined", "summed", "report")
_JOBS = ("", "load", "join", "sum", "tell")


def hours_of(chunks: int) -> int:
    """How many finished hours have so many chunks."""
    return max(chunks // CHUNKS_AN_HOUR, 20)


def dataid_of(hour: int, hours: int) -> str:
    """The dataid of one hour: the last finished one is `hours`."""
    return time.strftime("%Y-%m-%dT%H", time.gmtime(_begin(hours) + hour * HOUR))


def filled(url: str, chunks: int) -> Store:
    """A store with so many chunks and five times as many events."""
    store = open_store(url, create=True)
    _define(store)
    fold_in(store)
    store.close()
    fill(url, _statements(url, hours_of(chunks)))
    return open_store(url)


def _begin(hours: int) -> int:
    """The moment that the hours are counted from, so that the newest of them has just begun."""
    return _NOW // HOUR * HOUR - (hours + _still_open(hours)) * HOUR


def _still_open(hours: int) -> int:
    return max(1, hours // 5000)


def _define(store: Store) -> None:
    hour = Partition("hour")
    jobs = []
    for flow in FLOWS:
        raw, clean, joined, summed, report = (f"{level}_{flow}" for level in _LEVELS)
        beside = f"clean_{(flow + 1) % len(FLOWS)}"
        jobs += [
            Job(f"load_{flow}", (Input(raw),), (clean,)),
            Job(f"join_{flow}", (Input(clean), Input(beside)), (joined,)),
            Job(f"sum_{flow}", (Input(joined),), (summed,)),
            Job(f"tell_{flow}", (Input(summed, Mapping("window", _WINDOW)),), (report,)),
        ]
    store.register([Dataset(f"{level}_{flow}", partition=hour) for flow in FLOWS for level in _LEVELS], jobs)


# What reads what: (flow, level, dataset, job, input, hours back).
def _links() -> list[tuple[int, int, str, str, str, int]]:
    links = []
    for flow in FLOWS:
        for level, (name, job) in enumerate(zip(_LEVELS, _JOBS, strict=True)):
            inputs = [] if level == 0 else [(f"{_LEVELS[level - 1]}_{flow}", 0)]
            if name == "joined":
                inputs.append((f"clean_{(flow + 1) % len(FLOWS)}", 0))
            if name == "report":
                inputs = [(f"summed_{flow}", back) for back in range(_WINDOW)]
            links += [(flow, level, f"{name}_{flow}", f"{job}_{flow}", *item) for item in inputs]
    return links


# AT{e} is the moment e, in seconds since 1970; everything else reads the same on both databases.
_SQL = """
create temp table hour (i integer primary key, dataid text, second integer);
insert into hour {hours};
create temp table link (flow integer, level integer, datasetid text, jobid text, in_datasetid text, back integer);
insert into link values {links};
create temp table step (flow integer, level integer, datasetid text, jobid text, n integer);
insert into step select flow, level, datasetid, jobid, row_number() over (order by level, flow) from link
    group by flow, level, datasetid, jobid order by level, flow;

insert into datastatus (datasetid, dataid, jobid, locktype, status, epoch, version, sort_key, seal, modified)
    select 'raw_' || f.flow, h.dataid, 'outside', 'OUT', 'READY', 1, 1, h.dataid, 1, AT{{h.second + f.flow}}
    from (select distinct flow from link) f cross join hour h order by f.flow, h.i;
insert into data_manifest (datasetid, dataid, version, jobid, location, bytes, rows, fingerprint, body, published)
    select 'raw_' || f.flow, h.dataid, 1, 'outside', 'store:raw_' || f.flow || '/' || h.dataid, 40 * (900 + h.i % 24 * 10), 900 + h.i % 24 * 10,
           'bytes:' || h.i || '.' || f.flow, '{{"files":[["part-0.csv",' || (40 * (900 + h.i % 24 * 10)) || ',1794864961.0]]}}', AT{{h.second + f.flow}}
    from (select distinct flow from link) f cross join hour h order by f.flow, h.i;

create temp table attempt (
    runid integer primary key, i integer, k integer, flow integer, level integer, datasetid text, jobid text, dataid text, second integer,
    begins integer, took integer, status text, inputs text, who text);
insert into attempt
select ((h.i - 1) * 2 + k.k - 1) * 40 + s.n, h.i, k.k, s.flow, s.level, s.datasetid, s.jobid, h.dataid, h.second,
       (k.k - 1) * 1500 + s.level * 300 + s.flow * 20, 5 + (h.i * 7 + s.flow * 3) % 10,
       case when k.k = 1 and h.i % 10 = 3 or k.k = 2 and s.level = 4 and h.i % 100 = 50 then 'FAILED' else 'READY' end,
       (select '[' || string_agg('["' || l.in_datasetid || '","' || b.dataid || '",'
                || case when l.level = 1 then 1 when b.i % 10 = 3 or (k.k = 2 and not (b.i % 20 = 7 and l.level = 2)) then 2 else 1 end || ']', ',') || ']'
        from link l {join} hour b on b.i = h.i - l.back where l.flow = s.flow and l.level = s.level),
       case when h.i % 500 = 11 and k.k = 2 then 'anna@desk:4711' else 'etl@worker-' || (s.flow % 4) || ':' || (1000 + h.i % 100) end
from hour h {join} (select 1 as k union all select 2) k {on} {join} step s {on}
where h.i <= {finished} order by 1;

insert into run (runid, jobid, dataid, epoch, status, owner, forced, started, ended, outcome, detail, exit_code, log) {own}
    select runid, jobid, dataid, k, status, who, k = 2 and i % 500 = 11, AT{{h.second + h.begins}}, AT{{h.second + h.begins + h.took}},
           case when status = 'READY' then 'READY' else 'JOB_FAILED' end, {cause}, case when status = 'READY' then 0 else 3 end,
           '/srv/etl/.odf/logs/' || jobid || '/' || dataid || '.' || k || '.log'
    from attempt h order by runid;
insert into datastatus (datasetid, dataid, jobid, locktype, status, epoch, version, runid, sort_key, seal, modified)
    select datasetid, dataid, jobid, 'OUT', status, 2, case when status = 'READY' then 2 else 1 end, runid, dataid, 2, AT{{h.second + h.begins + h.took}}
    from attempt h where k = 2 order by level, flow, i;
insert into datastatus (datasetid, dataid, jobid, locktype, status, epoch, version, runid, seal, modified)
    select l.in_datasetid, h.dataid, h.jobid, 'IN', case when h.status = 'READY' then 'DONE' else 'FAILED' end, 2, case when h.level = 1 then 1 else 2 end,
           h.runid, 2, AT{{h.second + h.begins + h.took}}
    from link l {join} attempt h on h.flow = l.flow and h.level = l.level and h.k = 2 where l.back = 0 order by l.level, l.flow, h.i;
insert into data_manifest (datasetid, dataid, version, jobid, runid, location, format, bytes, rows, fingerprint, body, published)
    select datasetid, dataid, k, jobid, runid, 'store:' || datasetid || '/' || dataid || '/v00000' || k, 'parquet', 30 * (900 + i % 24 * 10),
           900 + i % 24 * 10 + k - level * 100, 'rows:' || runid, '{{"files":[["part-0.parquet",' || (30 * (900 + i % 24 * 10)) || ',1794864961.0]]}}',
           AT{{h.second + h.begins + h.took}}
    from attempt h where status = 'READY' order by level, flow, i, k;
{run_input};
insert into stale (datasetid, dataid, version, in_datasetid, in_dataid, in_version)
    select h.datasetid, h.dataid, 2, l.in_datasetid, h.dataid, 1
    from link l {join} attempt h on h.flow = l.flow and h.level = l.level and h.k = 2 where l.level = 2 and h.i % 20 = 7 order by 1, 2;
insert into stale (datasetid, dataid, version, in_datasetid, in_dataid, in_version)
    select h.datasetid, h.dataid, 1, l.in_datasetid, b.dataid, 1
    from link l {join} attempt h on h.flow = l.flow and h.level = l.level and h.k = 2 and h.status = 'FAILED' {join} hour b on b.i = h.i - l.back
    order by 1, 2;

create temp table line (seq integer primary key, r integer, kind integer, flow integer);
insert into line select flow + 1, null, 0, flow from (select distinct flow from link) f;
insert into line select 10 + ((k.k - 1) * 40 + s.n - 1) * 3 + j.j, (k.k - 1) * 40 + s.n, j.j, s.flow
    from step s, (select 1 as k union all select 2) k, (select 1 as j union all select 2 union all select 3) j;
insert into event (eventid, kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt, at) {own}
    select (d.i - 1) * 250 + x.seq,
           case x.kind when 0 then 'announced' when 3 then case h.status when 'READY' then 'published' else 'failed' end
               else case when h.k = 2 and h.level = 1 and h.i % 10 = 3 then case x.kind when 1 then 'resubmitted' else 'claimed' end
                         else case x.kind when 1 then 'claimed' else 'admitted' end end end,
           coalesce(h.datasetid, 'raw_' || x.flow), d.dataid, coalesce(h.jobid, 'outside'), h.runid, coalesce(h.k, 1),
           case when x.kind = 3 then 'RUNNING' when h.k = 2 and x.kind = 1 then case when h.level = 1 and h.i % 10 = 3 then 'FAILED' else 'RESUBMIT' end end,
           case x.kind when 0 then 'READY' when 1 then case when h.k = 2 and h.level = 1 and h.i % 10 = 3 then 'RESUBMIT' else 'RUNNING' end
               when 2 then 'YES' else h.status end,
           case when x.kind = 0 then 'sftp@gate:77' when x.kind = 1 and h.k = 2 and h.level = 1 and h.i % 10 = 3 then 'anna@desk:4711' else h.who end,
           case when x.kind = 3 then {cause} when x.kind = 1 and h.k = 2 and h.i % 500 = 11 then 'forced' end,
           case x.kind when 2 then '{{"jobid":"' || h.jobid || '","dataid":"' || h.dataid || '","verdict":"YES","ready":{{"yes":true,"evidence":{{"inputs":' || replace(replace(h.inputs, ',1]', ',"READY"]'), ',2]', ',"READY"]')
               || '}}}},"right":{{"yes":true,"evidence":{{"type":"hour","versions":[1]}}}},"place":{{"yes":true,"evidence":{{"environment":"prod"}}}},'
               || '"validated":{{"yes":true,"evidence":{{"checks":3}}}},"safe":{{"yes":true,"evidence":{{"outputs":{{"' || h.datasetid || '":null}},"epoch":' || h.k || '}}}}}}' end,
           {event_at}
    from hour d {join} line x {on} left join attempt h on h.runid = (d.i - 1) * 80 + x.r
    where x.r is null or h.runid is not null order by d.i, x.seq;

insert into candidate (jobid, dataid, sort_key, state, inputs)
    select 'load_' || f.flow, d.dataid, d.dataid, 'CLAIMABLE', '[["raw_' || f.flow || '","' || d.dataid || '"]]'
    from hour d cross join (select distinct flow from link) f where d.i > {finished};
"""

_CAUSE = """case when h.status = 'FAILED' then case h.flow % 3
    when 0 then 'exit code 3: could not connect to db-' || h.flow || '.example:5432 after ' || (20 + h.i % 40) || ' s'
    when 1 then 'exit code 1: no space left on /scratch/' || h.dataid || '/part-' || (h.i % 7)
    else 'exit code 3: 2 of ' || (900 + h.i % 24 * 10) || ' rows have no carrier' end end"""

# How each database says the rest.
_DIALECTS = {
    "sqlite": {
        "hours": "with recursive n (i) as (select 1 union all select i + 1 from n where i < {last}) "
        "select i, strftime('%Y-%m-%dT%H', {begin} + i * 3600, 'unixepoch'), {begin} + i * 3600 from n",
        "join": "cross join",
        "on": "",
        "own": "",
        "at": r"strftime('%Y-%m-%d %H:%M:%S', \1, 'unixepoch') || '.000000'",
        "run_input": "insert into run_input select h.runid, i.key + 1, i.value ->> 0, i.value ->> 1, i.value ->> 2 "
        "from attempt h cross join json_each(h.inputs) i order by 1, 2",
    },
    "postgres": {
        "hours": "select i, to_char(to_timestamp({begin} + i * 3600) at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24'), {begin} + i * 3600 "
        "from generate_series(1, {last}) i",
        "join": "join",
        "on": "on true",
        "own": "overriding system value",
        "at": r"to_timestamp(\1)",
        "run_input": "insert into run_input select h.runid, e.nth, e.v ->> 0, e.v ->> 1, (e.v ->> 2)::bigint "
        "from attempt h cross join json_array_elements(h.inputs::json) with ordinality e (v, nth) order by 1, 2",
    },
}


def _statements(url: str, hours: int) -> str:
    words = dict(_DIALECTS["sqlite" if url.startswith("sqlite") else "postgres"])
    last = hours + _still_open(hours)
    sql = _SQL.format(
        hours=words["hours"].format(begin=_begin(hours), last=last),
        links=", ".join(map(str, _links())),
        cause=_CAUSE,
        finished=hours,
        event_at="AT{d.second + coalesce(h.begins + case x.kind when 3 then h.took when 2 then 1 else 0 end, x.flow)}",
        **{name: words[name] for name in ("join", "on", "own", "run_input")},
    )
    return re.sub(r"AT\{(.*?)\}", words["at"], sql)


def fill(url: str, sql: str) -> None:
    """Run statements that fill the tables of a store, with nothing that watches each row."""
    (_fill_sqlite if url.startswith("sqlite") else _fill_postgres)(url, sql)


def _fill_sqlite(url: str, sql: str) -> None:
    import apsw

    with closing(apsw.Connection(url.removeprefix("sqlite:///"))) as connection:
        # Nobody reads this file before it is complete.
        for setting in ("journal_mode = off", "synchronous = off", "cache_size = -1000000", "temp_store = memory"):
            connection.execute(f"pragma {setting}").fetchall()
        connection.execute("begin").fetchall()
        connection.execute(sql).fetchall()
        connection.execute("commit").fetchall()
        connection.execute("pragma journal_mode = wal").fetchall()


def _fill_postgres(url: str, sql: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        # As a restore does it: neither triggers nor foreign keys look at each row.
        settings = "set session_replication_role = replica; set search_path = dataflow; set work_mem = '1GB'; set timezone = 'UTC';"
        statements: Any = [settings, *sql.split(";\n")]
        for statement in statements:
            connection.execute(statement)
        for table, column in (("run", "runid"), ("event", "eventid")):
            connection.execute(
                f"select setval(pg_get_serial_sequence('{table}', '{column}'), (select max({column}) from {table}))"
            )
        connection.execute("vacuum analyze")
