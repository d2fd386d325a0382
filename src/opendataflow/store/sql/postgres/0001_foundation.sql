-- The tables of the protocol, in schema dataflow (the search path of every connection that runs this).
-- The columns that the original's statements name keep their names; every further column has a default.

create function lease_now() returns double precision language sql stable
    as $$ select extract(epoch from clock_timestamp())::double precision $$;
comment on function lease_now() is 'the clock of leases: the server''s, so that no client''s clock matters';

-- Definitions ---------------------------------------------------------------------------------------------------

create table dataset (
    datasetid     text primary key check (datasetid ~ '^[A-Za-z0-9][A-Za-z0-9._=-]{0,127}$'),
    hostname      text default '',
    database      text default '',
    schemaname    text default '',
    tablename     text default '',
    username      text default '',
    encryptedpass text default '',
    kind          text not null default '' check (kind in ('', 'file', 'table')),
    location      text not null default '',
    format        text not null default '',
    partition     text not null default 'text',
    checks        text not null default '{}',
    options       text not null default '{}',
    modified      timestamptz not null default now()
);
comment on table dataset is 'a named body of data with everything needed to reach it; passwords only encrypted';

create table job (
    jobid     text not null check (jobid ~ '^[A-Za-z0-9][A-Za-z0-9._=-]{0,127}$'),
    itemtype  text not null check (itemtype <> ''),
    datasetid text references dataset,
    itemvalue text,
    modified  timestamptz default now(),
    check (itemtype not in ('IN', 'OUT') or datasetid is not null)
);
create unique index job_item on job (jobid, itemtype, (coalesce(datasetid, '')));
create unique index one_producer on job (datasetid) where itemtype = 'OUT';
create index job_of_dataset on job (datasetid, itemtype);
comment on table job is 'one row per item: IN or OUT with a dataset (itemvalue of IN = the mapping), or the name of an environment variable with its value';

create table jobrule (
    jobid       text primary key check (jobid ~ '^[A-Za-z0-9][A-Za-z0-9._=-]{0,127}$'),
    retries     integer not null default 0 check (retries >= 0),
    backoff     double precision not null default 10 check (backoff >= 0),
    backoff_max double precision not null default 3600 check (backoff_max >= 0),
    retry_on    text not null default '',
    lease       double precision not null default 30 check (lease > 0),
    timeout     double precision check (timeout > 0),
    pool        text not null default '',
    options     text not null default '{}',
    modified    timestamptz not null default now()
);
comment on table jobrule is 'how a job is run: retries, lease, timeout, pool; a job without a row has the defaults';

create table pool (
    poolid   text primary key check (poolid ~ '^[A-Za-z0-9][A-Za-z0-9._=-]{0,127}$'),
    places   integer check (places >= 0),
    options  text not null default '{}',
    modified timestamptz not null default now()
);
comment on table pool is 'a limit on running chunks across all machines; places null = no limit, 0 = paused';

-- Status = lock = lineage -----------------------------------------------------------------------------------------

create table datastatus (
    datasetid  text not null references dataset,
    dataid     text not null check (dataid ~ '^[A-Za-z0-9][A-Za-z0-9._=-]{0,127}$'),
    jobid      text not null check (jobid ~ '^[A-Za-z0-9][A-Za-z0-9._=-]{0,127}$'),
    locktype   text not null check (locktype in ('IN', 'OUT')),
    status     text not null,
    modified   timestamptz default now(),
    epoch      bigint not null default 0,
    version    bigint not null default 0,
    runid      bigint,
    tries      integer not null default 0,
    held       text,
    sort_key   text collate "C" not null default '',
    lowerbound text,
    upperbound text,
    seal       bigint not null default 0,
    primary key (datasetid, dataid, jobid, locktype),
    constraint known_status check (case locktype
        when 'OUT' then status in ('RUNNING', 'READY', 'FAILED', 'RESUBMIT', 'HOLD', 'PENDING')
        else status in ('RUNNING', 'DONE', 'FAILED') end)
);
create unique index one_out_row_per_chunk on datastatus (datasetid, dataid) where locktype = 'OUT';
create index chunks_in_order on datastatus (datasetid, sort_key, dataid, status) where locktype = 'OUT';
create index chunks_not_settled on datastatus (status, datasetid, sort_key) where locktype = 'OUT' and status <> 'READY';
create index chunks_of_dataid on datastatus (dataid) where locktype = 'OUT';
comment on table datastatus is 'status and lock of every chunk: OUT rows as a product, IN rows as one job''s relation to it';
comment on column datastatus.seal is 'every write of the engine changes it; a change that leaves it came from outside and is noted';

create table run (
    runid       bigint generated always as identity primary key,
    jobid       text not null,
    dataid      text not null,
    epoch       bigint not null,
    status      text not null check (status in ('RUNNING', 'READY', 'FAILED', 'LOST', 'REFUSED')),
    pool        text not null default '',
    owner       text not null default '',
    lease       double precision not null default 30,
    lease_until double precision,
    forced      boolean not null default false,
    inputs      text not null default '[]',
    started     timestamptz not null default now(),
    ended       timestamptz,
    outcome     text,
    detail      text,
    exit_code   integer,
    log         text,
    unique (jobid, dataid, epoch)
);
create index leases on run (lease_until) where status = 'RUNNING';
create index places on run (pool) where status = 'RUNNING';
comment on table run is 'one row per attempt of (jobid, dataid); lease_until by lease_now()';

create table data_manifest (
    datasetid   text not null,
    dataid      text not null,
    version     bigint not null,
    jobid       text not null,
    runid       bigint,
    place       text not null default '',
    format      text not null default '',
    bytes       bigint,
    rows        bigint,
    span_lower  text,
    span_upper  text,
    fingerprint text,
    passed      boolean not null default true,
    body        text not null default '{}',
    published   timestamptz not null default now(),
    primary key (datasetid, dataid, version)
);
create index manifest_fingerprint on data_manifest (datasetid, fingerprint) where fingerprint is not null;
comment on table data_manifest is 'DataLoc: where each published version of each chunk is, and what it was when it was published';

create table event (
    eventid   bigint generated always as identity primary key,
    at        timestamptz not null default now(),
    kind      text not null,
    datasetid text,
    dataid    text,
    jobid     text,
    runid     bigint,
    epoch     bigint,
    before    text,
    after     text,
    who       text,
    why       text,
    receipt   text
);
create index event_of_chunk on event (datasetid, dataid, eventid);
comment on table event is 'append-only: every transition with who, when, why and the receipt';

create function event_is_append_only() returns trigger language plpgsql
    as $$ begin raise exception 'event is append-only: history is never changed'; end $$;
create trigger event_is_append_only before update or delete on event
    for each row execute function event_is_append_only();

-- Derived: which (job, dataid) may be taken --------------------------------------------------------------------------

create table candidate (
    jobid      text not null,
    dataid     text not null,
    sort_key   text collate "C" not null,
    rank       smallint not null default 1,
    state      text not null check (state in ('CLAIMABLE', 'WAITING', 'DEFERRED')),
    not_before double precision not null default 0,
    inputs     text not null default '[]',
    primary key (jobid, dataid)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
create index candidates_in_order on candidate (jobid, rank, sort_key) where state = 'CLAIMABLE';
create index candidates_deferred on candidate (not_before) where state = 'DEFERRED';
comment on table candidate is 'derived from datastatus and rebuilt at any time: rank 0 = RESUBMIT, 1 = new';

create table note (
    noteid    bigint generated always as identity primary key,
    at        timestamptz not null default now(),
    datasetid text,
    dataid    text,
    jobid     text,
    locktype  text,
    before    text,
    after     text,
    who       text
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
comment on table note is 'what was changed from outside since the last claim; the next claim folds it in';

create table meta (
    name  text primary key,
    value text not null
);
insert into meta values ('revision', '1');
comment on table meta is 'facts about the store itself: revision of the definitions, environment';

-- What the next claim needs to know of a candidate, in one row. LATERAL … OFFSET 0 keeps every look-up a look-up by key.
create view candidate_facts as
select c.jobid, c.dataid, c.rank, c.sort_key,
       1 + greatest(
           coalesce((select max(r.epoch) from run r where r.jobid = c.jobid and r.dataid = c.dataid), 0),
           coalesce(o.epoch, 0), coalesce(o.version, 0)) as epoch,
       coalesce(o.tries, 0) as tries,
       coalesce((select json_agg(json_build_array(i ->> 0, i ->> 1, s.status, s.version))::text
                 from json_array_elements(c.inputs::json) i
                 left join lateral (select d.status, d.version from datastatus d
                                    where d.datasetid = i ->> 0 and d.dataid = i ->> 1 and d.locktype = 'OUT' offset 0) s on true),
                '[]') as inputs
from candidate c
cross join lateral (
    select max(greatest(s.epoch, s.version)) as epoch, max(s.tries) as tries,
           max((select max(m.version) from data_manifest m where m.datasetid = o.datasetid and m.dataid = c.dataid)) as version
    from job o
    left join lateral (select d.epoch, d.version, d.tries from datastatus d
                       where d.datasetid = o.datasetid and d.dataid = c.dataid and d.locktype = 'OUT' offset 0) s on true
    where o.jobid = c.jobid and o.itemtype = 'OUT') o;

-- The door for people: what the jobs produced, one row per chunk. Updating status here is how a flow is restarted.
create view job_status as
select s.jobid, s.datasetid, s.dataid, s.status, s.modified, s.epoch, s.version, s.tries
from datastatus s
where s.locktype = 'OUT'
  and exists (select 1 from job o where o.datasetid = s.datasetid and o.itemtype = 'OUT');
comment on view job_status is 'UPDATE job_status SET status = ''RESUBMIT'' WHERE … restarts; the next claim acts on it';

create view receipt as
select eventid as receiptid, at, jobid, datasetid, dataid, runid, after as verdict, who, receipt from event where receipt is not null;

-- Triggers: they fire only for writes that do not come from the engine ----------------------------------------------
-- Their names have a schema, since they run with the search path of whoever writes.

create function status_in_canonical_words() returns trigger language plpgsql as $$
begin
    new.status := upper(new.status);
    new.status := case when new.locktype = 'OUT' and new.status = 'COMPLETE' then 'READY'
                       when new.locktype = 'OUT' and new.status = 'RERUN' then 'RESUBMIT'
                       when new.status = 'ERROR' then 'FAILED'
                       else new.status end;
    if tg_op = 'UPDATE' and new.locktype = 'OUT' and new.status is distinct from old.status then
        new.modified := greatest(new.modified, now());
        if new.status in ('HOLD', 'PENDING') and old.status not in ('HOLD', 'PENDING') then
            new.held := old.status;
        end if;
    end if;
    return new;
end $$;
create trigger status_words_on_insert before insert on datastatus
    for each row when (new.seal = 0) execute function status_in_canonical_words();
create trigger status_words_on_update before update on datastatus
    for each row when (new.seal = old.seal) execute function status_in_canonical_words();

create function note_chunk() returns trigger language plpgsql as $$
begin
    if tg_op <> 'INSERT' then
        insert into dataflow.note (datasetid, dataid, jobid, locktype, before, after, who)
        values (old.datasetid, old.dataid, old.jobid, old.locktype, old.status,
                case when tg_op = 'UPDATE' and (old.datasetid, old.dataid, old.locktype) = (new.datasetid, new.dataid, new.locktype)
                     then new.status end, session_user);
    end if;
    if tg_op = 'INSERT' or (tg_op = 'UPDATE'
            and (old.datasetid, old.dataid, old.locktype) <> (new.datasetid, new.dataid, new.locktype)) then
        insert into dataflow.note (datasetid, dataid, jobid, locktype, before, after, who)
        values (new.datasetid, new.dataid, new.jobid, new.locktype, null, new.status, session_user);
    end if;
    return null;
end $$;
create trigger note_insert after insert on datastatus
    for each row when (new.seal = 0) execute function note_chunk();
create trigger note_update after update on datastatus
    for each row when (new.seal = old.seal) execute function note_chunk();
create trigger note_delete after delete on datastatus
    for each row when (old.seal >= 0) execute function note_chunk();

create function note_definition() returns trigger language plpgsql as $$
begin
    -- Whoever publishes holds this lock shared: a new consumer never misses a chunk that is being published meanwhile.
    perform pg_advisory_xact_lock(727102);
    update dataflow.meta set value = (value::bigint + 1)::text where name = 'revision';
    if tg_table_name = 'job' then
        insert into dataflow.note (jobid, who) values (case when tg_op = 'DELETE' then old.jobid else new.jobid end, session_user);
    elsif tg_table_name = 'dataset' and tg_op = 'UPDATE' then
        insert into dataflow.note (datasetid, who) values (new.datasetid, session_user);
    end if;
    return null;
end $$;
create trigger note_dataset after insert or update or delete on dataset for each row execute function note_definition();
create trigger note_job after insert or update or delete on job for each row execute function note_definition();
create trigger note_jobrule after insert or update or delete on jobrule for each row execute function note_definition();
create trigger note_pool after insert or update or delete on pool for each row execute function note_definition();

insert into dataset (datasetid, partition, options) values ('today', '{"type": "day"}', '{"timezone": "UTC"}');

-- Unqualified names work in this role's own SQL client, as the original's statements need.
do $$ begin
    execute format('alter role current_user in database %I set search_path = dataflow, public', current_database());
exception when insufficient_privilege then null;
end $$;
