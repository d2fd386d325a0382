"""A store of any size, made by set-based SQL: so many jobs in one of four shapes, and so many periods of history.

Every chunk has what a real run leaves: its status, what it read and consumed, its run, its manifest and its events. The last
periods have arrived, and nobody has taken them yet.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from bench._forensics import fill
from opendataflow.model import Dataset, Input, Job, Mapping, Partition
from opendataflow.store import Store, open_store
from tests.support.flows import fold_in

SOURCE = "raw"
WINDOW = 7
DAY = 86400
SHAPES = ("chain", "fan", "rollup", "window")
_NOW = int(time.time())
_FORMS = {"day": (DAY, "%Y-%m-%d", "YYYY-MM-DD"), "hour": (3600, "%Y-%m-%dT%H", 'YYYY-MM-DD"T"HH24')}
_MAPPINGS = {"rollup": Mapping("rollup"), "window": Mapping("window", WINDOW)}


class Size(NamedTuple):
    """How many jobs of which shape, over how many finished periods, and how many more have arrived."""

    shape: str
    jobs: int
    done: int
    waiting: int
    kept: int = 1_000_000  # so many periods back the jobs have begun
    period: str = "day"


class Step(NamedTuple):
    """One job of a flow: its name, what it reads and what it writes."""

    jobid: str
    read: str
    made: str


def names(size: Size) -> list[Step]:
    """The jobs of a flow of this size."""
    made = [f"made_{number:04d}" for number in range(1, size.jobs + 1)]
    read = [SOURCE, *made] if size.shape == "chain" else [SOURCE] * size.jobs
    return [Step(f"job_{name}", source, name) for name, source in zip(made, read, strict=False)]


def project(size: Size, retries: int = 0) -> str:
    """The same flow as a dataflow.toml; retries are those of its last job."""
    flow = names(size)
    lines = ["[dataset]", *(f'{name} = {{ partition = "day" }}' for name in (SOURCE, *(step.made for step in flow)))]
    lines += ["[job]"]
    for step in flow:
        more = f", retries = {retries}" if step == flow[-1] else ""
        lines.append(f'{step.jobid} = {{ reads = ["{step.read}"], writes = ["{step.made}"], lease = 3600{more} }}')
    return "\n".join(lines) + "\n"


def _define(store: Store, size: Size) -> None:
    output = Partition("month" if size.shape == "rollup" else size.period)
    mapping = _MAPPINGS.get(size.shape, Mapping())
    flow = names(size)
    datasets = [Dataset(SOURCE, partition=Partition(size.period))]
    datasets += [Dataset(step.made, partition=output) for step in flow]
    jobs = [Job(step.jobid, (Input(step.read, mapping),), (step.made,), lease=3600) for step in flow]
    store.register(datasets, jobs)


def dataid(size: Size, number: int) -> str:
    """The dataid of the period with this number; the last one that has arrived is done + waiting."""
    step, form, _ = _FORMS[size.period]
    return time.strftime(form, time.gmtime(_begin(size) + number * step))


def filled(url: str, size: Size) -> Store:
    """A store of this size."""
    with open_store(url, create=True) as store:
        _define(store, size)
        fold_in(store)
    fill(url, _statements(url, size))
    return open_store(url)


def _begin(size: Size) -> int:
    step = _FORMS[size.period][0]
    return _NOW // step * step - (size.done + size.waiting) * step


# AT: the moment of period p. Everything else reads the same on both databases.
_SQL = """
create temp table period (i integer primary key, dataid text, second bigint);
insert into period {periods};
create temp table step (n integer primary key, jobid text, in_datasetid text, datasetid text);
insert into step values {steps};
create temp table reads (i integer, dataid text, in_dataid text);
insert into reads {reads};
create temp table made (i integer primary key, dataid text, second bigint, inputs text);
insert into made select r.i, r.dataid, {begin} + r.i * {step}, string_agg('["@","' || r.in_dataid || '",1]', ',' order by r.in_dataid)
    from reads r group by r.i, r.dataid order by r.i;
insert into candidate (jobid, dataid, sort_key, state, inputs)
    select s.jobid, p.dataid, p.dataid, 'CLAIMABLE', '[' || replace(replace(p.inputs, '@', s.in_datasetid), ',1]', ']') || ']'
    from step s {join} made p on p.i > {done} where s.in_datasetid = '{source}' order by s.n, p.i;
delete from made where i > {done} or i <= {done} - {kept};
delete from reads where i > {done} or i <= {done} - {kept};

insert into datastatus (datasetid, dataid, jobid, locktype, status, epoch, version, sort_key, seal, modified)
    select '{source}', p.dataid, 'outside', 'OUT', 'READY', 1, 1, p.dataid, 1, {at} from period p order by p.i;
insert into datastatus (datasetid, dataid, jobid, locktype, status, epoch, version, runid, sort_key, seal, modified)
    select s.datasetid, p.dataid, s.jobid, 'OUT', 'READY', 1, 1, (s.n - 1) * {rows} + p.i, p.dataid, 2, {at} from step s {join} made p {on} order by s.n, p.i;
insert into datastatus (datasetid, dataid, jobid, locktype, status, epoch, version, runid, seal, modified)
    select s.in_datasetid, r.in_dataid, s.jobid, 'IN', 'DONE', 1, 1, (s.n - 1) * {rows} + max(r.i), 2, {at_in} from step s {join} reads r {on}
    group by s.n, s.in_datasetid, r.in_dataid, s.jobid order by s.n, r.in_dataid;
insert into run (runid, jobid, dataid, epoch, status, owner, started, ended, outcome, exit_code, log) {own}
    select (s.n - 1) * {rows} + p.i, s.jobid, p.dataid, 1, 'READY', 'etl@worker-1:4711', {at}, {at}, 'READY', 0,
           '/srv/etl/.odf/logs/' || s.jobid || '/' || p.dataid || '.1.log'
    from step s {join} made p {on} order by s.n, p.i;
insert into data_manifest (datasetid, dataid, version, jobid, runid, location, format, bytes, rows, fingerprint, body, published)
    select s.datasetid, p.dataid, 1, s.jobid, (s.n - 1) * {rows} + p.i, 'store:' || s.datasetid || '/' || p.dataid || '/v000001', 'parquet', 30000, 1000, 'rows:' || s.n || '.' || p.i,
           '{{"files":[["part-0.parquet",30000,1794864961.0]]}}', {at}
    from step s {join} made p {on} order by s.n, p.i;
insert into run_input (runid, nth, datasetid, dataid, version)
    select (s.n - 1) * {rows} + r.i, row_number() over (partition by s.n, r.i order by r.in_dataid), s.in_datasetid, r.in_dataid, 1
    from step s {join} reads r {on} order by 1, 2;
insert into event (kind, datasetid, dataid, jobid, epoch, after, who, at)
    select 'announced', '{source}', p.dataid, 'outside', 1, 'READY', 'sftp@gate:77', {at} from period p order by p.i;
insert into event (kind, datasetid, dataid, jobid, runid, epoch, before, after, who, receipt, at)
    select k.kind, s.datasetid, p.dataid, s.jobid, (s.n - 1) * {rows} + p.i, 1, k.before, k.after, 'etl@worker-1:4711',
           case when k.kind <> 'published' then '{{"jobid":"' || s.jobid || '","dataid":"' || p.dataid || '","verdict":"YES","ready":{{"yes":true,"evidence":{{"inputs":['
               || replace(replace(p.inputs, '@', s.in_datasetid), ',1]', ',"READY"]') || ']}}}},"right":{{"yes":true,"evidence":{{"type":"{period}","versions":[1]}}}},'
               || '"place":{{"yes":true,"evidence":{{"environment":"prod"}}}},"validated":{{"yes":true,"evidence":{{"checks":3}}}},'
               || '"safe":{{"yes":true,"evidence":{{"outputs":{{"' || s.datasetid || '":null}},"epoch":1}}}}}}' end, {at}
    from made p {join} step s {on} {join} (select 1 as o, 'claimed' as kind, null as before, 'RUNNING' as after
        union all select 2, 'admitted', null, 'YES' union all select 3, 'published', 'RUNNING', 'READY') k {on}
    order by p.i, s.n, k.o;
"""

# What each period reads of the source, and the number of the last one that it reads; only of those that are complete.
_READS = {
    "chain": "select p.i, p.dataid, p.dataid from period p",
    "fan": "select p.i, p.dataid, p.dataid from period p",
    "window": "select p.i, p.dataid, b.dataid from period p join period b on b.i between p.i - {window} + 1 and p.i where p.i >= {window}",
    "rollup": "select m.last, m.month, b.dataid from period b join (select substr(dataid, 1, 7) as month, max(i) as last from period"
    " group by 1 having min(substr(dataid, 9, 2)) = '01' and max(i) < {last}) m on m.month = substr(b.dataid, 1, 7)",
}

_DIALECTS = {
    "sqlite": {
        "periods": "with recursive n (i) as (select 1 union all select i + 1 from n where i < {last}) "
        "select i, strftime('{form}', {begin} + i * {step}, 'unixepoch'), {begin} + i * {step} from n",
        "at": "strftime('%Y-%m-%d %H:%M:%S', p.second, 'unixepoch') || '.000000'",
        "at_in": "current_timestamp || '.000000'",
        "join": "cross join",
        "on": "",
        "own": "",
    },
    "postgres": {
        "periods": "select i, to_char(to_timestamp({begin} + i * {step}) at time zone 'UTC', '{form}'), {begin} + i * {step} from generate_series(1, {last}) i",
        "at": "to_timestamp(p.second)",
        "at_in": "now()",
        "join": "join",
        "on": "on true",
        "own": "overriding system value",
    },
}


def _statements(url: str, size: Size) -> str:
    dialect = "sqlite" if url.startswith("sqlite") else "postgres"
    step, *forms = _FORMS[size.period]
    last, begin = size.done + size.waiting, _begin(size)
    words = dict(_DIALECTS[dialect])
    flow = enumerate(names(size), 1)
    return _SQL.format(
        periods=words.pop("periods").format(begin=begin, step=step, last=last, form=forms[dialect == "postgres"]),
        steps=", ".join(f"({number}, '{job}', '{read}', '{made}')" for number, (job, read, made) in flow),
        reads=_READS[size.shape].format(window=WINDOW, last=last),
        done=size.done,
        kept=size.kept,
        rows=last,
        begin=begin,
        step=step,
        source=SOURCE,
        period=size.period,
        **words,
    )
