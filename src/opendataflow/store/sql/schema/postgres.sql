-- The schema of a store in PostgreSQL, noun by noun: each table with its indexes, views, triggers and functions. It makes what a store
-- lacks: a new store lacks everything. A change of it needs a new number in drivers/migrate.py and a step that brings over the stores of
-- the number before.
-- dataflow stands for the schema of the store, which is alone in the search path while this runs. Triggers name it, since they run with
-- the search path of the writer. The columns that the Java original's statements name come first, in its order; every further column
-- has a default, so that those statements work.

-- Store: facts about the store itself ---------------------------------------------------------------------------------

create table if not exists migration (
    number   integer primary key,
    name     text not null,
    checksum text not null,
    applied  timestamptz not null
);

create or replace function lease_now() returns double precision language sql stable
    as $$ select extract(epoch from clock_timestamp())::double precision $$;
comment on function lease_now() is 'the clock of leases: the server''s, so that no client''s clock matters';

create table if not exists meta (
    name  text primary key,
    value text not null
);
comment on table meta is 'facts about the store itself: revision of the definitions, environment';
-- The revision counts changes of the definitions: by it each process notices one, so it stays and only grows.
insert into meta (name, value) values ('revision', '1') on conflict do nothing;
-- The identity shows that two spellings of an address lead to one store.
insert into meta (name, value) values ('identity', md5(random()::text || clock_timestamp()::text)) on conflict do nothing;
create or replace function keep_revision() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_op = 'DELETE' then
        raise check_violation using message = 'the revision in meta cannot be deleted';
    elsif new.name <> 'revision' or new.value !~ '^[0-9]{1,18}$' or new.value::bigint < old.value::bigint then
        raise check_violation using message = 'the revision in meta can only grow';
    end if;
    return new;
end $$;
revoke execute on function keep_revision() from public;
create or replace trigger revision_is_never_deleted before delete on meta
    for each row when (old.name = 'revision') execute function keep_revision();
create or replace trigger revision_only_grows before update on meta
    for each row when (old.name = 'revision') execute function keep_revision();

-- Figures that no row of the history holds.
create table if not exists counter (
    name text primary key not null,
    n    bigint not null default 0
);

-- Event: the history, which is only added to --------------------------------------------------------------------------

create table if not exists event (
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
    receipt   text,
    session   text default session_user
);
comment on table event is 'append-only: every transition with who, when, why and the receipt';
comment on column event.session is 'the role that was connected when the event was written; a trigger sets it';
create index if not exists event_of_chunk on event (datasetid, dataid, eventid);
create index if not exists unfit_notes on event (eventid) where kind = 'unfit note';
-- Rare kinds are found without a scan of the history. A claim and a commit write none of them, so they do not pay for this index.
create index if not exists events_of_kind on event (kind, eventid) where kind <> 'claimed' and kind <> 'admitted' and kind <> 'published' and kind <> 'announced';

create or replace function event_is_append_only() returns trigger language plpgsql
    as $$ begin raise exception 'event is append-only: history is never changed'; end $$;
create or replace trigger event_is_append_only before update or delete on event
    for each row execute function event_is_append_only();
create or replace trigger event_is_never_emptied before truncate on event
    for each statement execute function event_is_append_only();

create or replace function session_of_writer() returns trigger language plpgsql set search_path = pg_catalog, pg_temp
    as $$ begin new.session := session_user; return new; end $$;
create or replace trigger event_names_its_session before insert on event
    for each row when (new.session is distinct from session_user) execute function session_of_writer();

-- The event of a claim says RUNNING, which is what the chunk became; the verdict is what the five questions answered.
create or replace view receipt as
select eventid as receiptid, at, jobid, datasetid, dataid, runid,
       case when kind <> 'claimed' then after when why = 'forced' then 'NOT_ASKED' else 'YES' end as verdict, who, receipt
from event where receipt is not null;

-- A run that was refused leaves what was there before its claim.
create or replace view status_change as
select e.eventid, e.at, e.kind, e.datasetid, e.dataid, e.jobid, e.runid, e.epoch, e.before,
       case when e.kind = 'refused' then (select c.before from event c where c.datasetid = e.datasetid and c.dataid = e.dataid
                                          and c.runid = e.runid and c.kind = 'claimed' order by c.eventid desc limit 1)
            else e.after end as after, e.who, e.why
from event e
where e.kind in ('claimed', 'published', 'failed', 'rescued', 'lost', 'cancelled', 'stopped', 'given back', 'announced', 'resubmitted', 'held',
                 'released', 'forgotten', 'rolled back', 'kept', 'sql')
   or (e.kind = 'recalled' and coalesce(e.before, e.after) is not null)
   or (e.kind = 'refused' and e.before = 'RUNNING');
comment on view status_change is 'the events that changed the status of a chunk: each begins with the status at which the last one ended';

-- Note: changes by SQL that the next claim folds in -------------------------------------------------------------------

-- Notes come and go all the time: without frequent vacuums, the look for new ones would pass many dead rows.
create table if not exists note (
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
create or replace function note_by_session() returns trigger language plpgsql set search_path = pg_catalog, pg_temp
    as $$ begin new.who := session_user; return new; end $$;
create or replace trigger note_names_its_session before insert or update on note
    for each row when (new.who is not null and new.who is distinct from session_user) execute function note_by_session();

-- Triggers write notes and events as the owner of the tables: a role that may change a status or a definition needs no right on note,
-- event and meta. No other role may hang these functions on a table of its own, hence each REVOKE.
create or replace function note_definition() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    -- Each transaction that publishes holds this lock shared: a new consumer never misses a chunk that is being published meanwhile.
    perform pg_advisory_xact_lock(727102);
    update dataflow.meta set value = (value::bigint + 1)::text where name = 'revision';
    if tg_table_name = 'job' then
        insert into dataflow.note (jobid, who) values (case when tg_op = 'DELETE' then old.jobid else new.jobid end, session_user);
        if tg_op = 'UPDATE' and old.jobid <> new.jobid then
            insert into dataflow.note (jobid, who) values (old.jobid, session_user);
        end if;
    elsif tg_table_name = 'dataset' and tg_op = 'UPDATE' then
        insert into dataflow.note (datasetid, who) values (new.datasetid, session_user);
    end if;
    return null;
end $$;
revoke execute on function note_definition() from public;

-- Dataset -------------------------------------------------------------------------------------------------------------

create table if not exists dataset (
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
    modified      timestamptz not null default now(),
    -- A password in plain text never reaches the table. Accepted are tokens of `odf crypt encrypt` and of the Java original.
    constraint encryptedpass_is_encrypted check (
        coalesce(encryptedpass, '') = ''
        or (encryptedpass ~ '^odf[12]:[A-Za-z0-9_-]+={0,2}$' and length(encryptedpass) between 69 and 16384)
        or (encryptedpass ~ '^[A-Za-z0-9+/]+={0,2}$' and length(encryptedpass) between 40 and 16384
            and (length(encryptedpass) % 4 = 0 or encryptedpass !~ '=')))
);
comment on table dataset is 'a named body of data with everything needed to reach it; passwords only encrypted';

-- The foreign key of datastatus keeps a dataset that has chunks; this keeps one that a job names.
create or replace function keep_dataset_of_job() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if exists (select 1 from dataflow.job where datasetid = old.datasetid) then
        raise foreign_key_violation using message = 'the dataset has chunks, or a job reads or writes it';
    end if;
    return case when tg_op = 'DELETE' then old else new end;
end $$;
revoke execute on function keep_dataset_of_job() from public;
create or replace trigger dataset_stays_while_it_is_used before delete on dataset
    for each row execute function keep_dataset_of_job();
create or replace trigger dataset_keeps_its_name before update of datasetid on dataset
    for each row when (new.datasetid <> old.datasetid) execute function keep_dataset_of_job();
create or replace trigger note_dataset after insert or update or delete on dataset for each row execute function note_definition();

-- The dataset whose chunks are READY by the calendar alone, as in the original.
insert into dataset (datasetid, partition, options) values ('today', '{"type": "day"}', '{"timezone": "UTC"}') on conflict do nothing;

-- The schema of the first version of a dataset, with which later ones are compared. A worker may add it, but not change the dataset.
create table if not exists pinned_schema (
    datasetid text primary key not null,
    schema    text not null
);

-- Job: one row for each item ------------------------------------------------------------------------------------------

-- A job may be inserted before its datasets, as in the original, so there is no foreign key. Until they exist, it is a broken definition.
create table if not exists job (
    jobid     text not null check (jobid ~ '^[A-Za-z0-9][A-Za-z0-9._=-]{0,127}$'),
    itemtype  text not null check (itemtype <> ''),
    datasetid text check (datasetid ~ '^[A-Za-z0-9][A-Za-z0-9._=-]{0,127}$'),
    itemvalue text,
    modified  timestamptz default now(),
    check (itemtype not in ('IN', 'OUT') or datasetid is not null)
);
comment on table job is 'one row per item: IN or OUT with a dataset (itemvalue of IN = the mapping), or the name of an environment variable with its value';
create unique index if not exists job_item on job (jobid, itemtype, (coalesce(datasetid, '')));
create unique index if not exists one_producer on job (datasetid) where itemtype = 'OUT';
create index if not exists job_of_dataset on job (datasetid, itemtype);
create or replace trigger note_job after insert or update or delete on job for each row execute function note_definition();

-- Jobs whose definition does not load, as the last claim found it. When one loads again, its candidates are derived anew.
create table if not exists broken_job (
    jobid text primary key not null
);

-- The jobs that each project applied last: those that it no longer declares are its own to remove.
create table if not exists applied_job (
    project text not null,
    jobid   text not null,
    primary key (project, jobid)
);

-- Jobrule, pool and pause: how a job is run ---------------------------------------------------------------------------

create table if not exists jobrule (
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
create or replace trigger note_jobrule after insert or update or delete on jobrule for each row execute function note_definition();

create table if not exists pool (
    poolid   text primary key check (poolid ~ '^[A-Za-z0-9][A-Za-z0-9._=-]{0,127}$'),
    slots    integer check (slots >= 0),
    options  text not null default '{}',
    modified timestamptz not null default now()
);
comment on table pool is 'a limit on running chunks across all machines; slots null = no limit, 0 = paused';
create or replace trigger note_pool after insert or update or delete on pool for each row execute function note_definition();

create table if not exists pause (
    jobid text primary key check (length(jobid) between 1 and 128),
    who   text not null default 'sql',
    why   text,
    since timestamptz not null default now()
);
create or replace trigger note_pause after insert or update or delete on pause for each row execute function note_definition();

-- Datastatus: status, lock and lineage of every chunk -----------------------------------------------------------------

create table if not exists datastatus (
    datasetid  text not null references dataset,
    jobid      text not null,
    dataid     text not null,
    locktype   text not null,
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
        else status in ('RUNNING', 'DONE', 'FAILED') end),
    -- One rule for the whole key: the server prepares each rule anew for every statement that writes a row. The lengths apart from the
    -- pattern: one that counts to 127 costs ten times as much.
    constraint datastatus_key_check check (
        dataid || ' ' || jobid || ' ' || locktype ~ '^[A-Za-z0-9][A-Za-z0-9._=-]* [A-Za-z0-9][A-Za-z0-9._=-]* (IN|OUT)$'
        and length(dataid) <= 128 and length(jobid) <= 128)
);
comment on table datastatus is 'status and lock of every chunk: OUT rows as a product, IN rows as one job''s relation to it';
comment on column datastatus.seal is 'every write of the engine changes it; a change that leaves it came from outside and is noted';
create index if not exists chunks_not_settled on datastatus (status, datasetid, sort_key) where locktype = 'OUT' and status <> 'READY';
-- Of a table without statistics, the planner assumes that = leaves one row in 200, and <> nearly all of them. With <>, this index does
-- not look smaller than the next one, and a chunk is found by its key.
create index if not exists chunks_in_order on datastatus (datasetid, sort_key, dataid, status) where locktype <> 'IN';
create unique index if not exists one_out_row_per_chunk on datastatus (datasetid, dataid) where locktype <> 'IN';

-- What a person writes: the canonical word, the given time or else now, and the status before HOLD. The original resubmits by jobid
-- and dataid, which matches the IN row too: its read lock is released, unless the run still has it.
create or replace function status_in_canonical_words() returns trigger language plpgsql as $$
begin
    new.status := upper(new.status);
    new.status := case when new.locktype = 'OUT' and new.status = 'COMPLETE' then 'READY'
                       when new.locktype = 'OUT' and new.status = 'RERUN' then 'RESUBMIT'
                       when new.status = 'ERROR' then 'FAILED'
                       else new.status end;
    if tg_op = 'UPDATE' then
        if new.locktype = 'IN' and new.status in ('RESUBMIT', 'RERUN') then
            new.status := case when old.status = 'RUNNING' then 'RUNNING' else 'FAILED' end;
        end if;
        if new.modified is not distinct from old.modified then
            new.modified := now();
        end if;
        if new.locktype = 'OUT' and new.status in ('HOLD', 'PENDING') and old.status not in ('HOLD', 'PENDING') then
            new.held := old.status;
        end if;
    end if;
    return new;
end $$;
create or replace trigger status_words_on_insert before insert on datastatus
    for each row when (new.seal = 0) execute function status_in_canonical_words();
create or replace trigger status_words_on_update before update on datastatus
    for each row when (new.seal = old.seal) execute function status_in_canonical_words();

-- Every attempt raises the epoch, and a number has 63 bits: a typed one leaves room to be raised.
create or replace function refuse_epoch() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    raise check_violation using message = 'an epoch and a version are at most 1000000000000000';
end $$;
revoke execute on function refuse_epoch() from public;
create or replace trigger epoch_is_bounded_on_insert before insert on datastatus
    for each row when (new.seal = 0 and greatest(new.epoch, new.version) > 1000000000000000) execute function refuse_epoch();
create or replace trigger epoch_is_bounded_on_update before update of epoch, version on datastatus
    for each row when (new.seal = old.seal and greatest(new.epoch, new.version) > 1000000000000000) execute function refuse_epoch();

-- So is a seal, and with a raised seal an epoch: a seal that cannot be raised stops every write of the engine to its row.
create or replace function refuse_seal() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    raise check_violation using message = 'a seal, an epoch and a version are at most 1000000000000000';
end $$;
revoke execute on function refuse_seal() from public;
create or replace trigger seal_is_bounded_on_insert before insert on datastatus
    for each row when (greatest(new.seal, new.epoch / 2, new.version / 2) > 1000000000000000) execute function refuse_seal();
create or replace trigger seal_is_bounded_on_update before update of seal, epoch, version on datastatus
    for each row when (greatest(new.seal, new.epoch / 2, new.version / 2) > 1000000000000000) execute function refuse_seal();

-- A typed change is in the history at once, in its own transaction, so that the events of a chunk follow each other without a gap.
create or replace function note_chunk() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    is_moved boolean := tg_op = 'UPDATE' and (old.datasetid, old.dataid, old.locktype) <> (new.datasetid, new.dataid, new.locktype);
    typed dataflow.note;
begin
    if tg_op <> 'INSERT' then
        insert into dataflow.note (datasetid, dataid, jobid, locktype, before, after, who)
        values (old.datasetid, old.dataid, old.jobid, old.locktype, old.status,
                case when tg_op = 'UPDATE' and not is_moved then new.status end, session_user) returning * into typed;
        insert into dataflow.event (at, kind, datasetid, dataid, jobid, before, after, who)
        values (clock_timestamp(), case typed.locktype when 'OUT' then 'sql' else 'sql reading' end,
                typed.datasetid, typed.dataid, typed.jobid, typed.before, typed.after, session_user);
    end if;
    if tg_op = 'INSERT' or is_moved then
        insert into dataflow.note (datasetid, dataid, jobid, locktype, before, after, who)
        values (new.datasetid, new.dataid, new.jobid, new.locktype, null, new.status, session_user) returning * into typed;
        insert into dataflow.event (at, kind, datasetid, dataid, jobid, before, after, who)
        values (clock_timestamp(), case typed.locktype when 'OUT' then 'sql' else 'sql reading' end,
                typed.datasetid, typed.dataid, typed.jobid, typed.before, typed.after, session_user);
    end if;
    return null;
end $$;
revoke execute on function note_chunk() from public;
create or replace trigger note_insert after insert on datastatus
    for each row when (new.seal = 0) execute function note_chunk();
create or replace trigger note_update after update on datastatus
    for each row when (new.seal = old.seal) execute function note_chunk();
create or replace trigger note_delete after delete on datastatus
    for each row when (old.seal >= 0) execute function note_chunk();

-- TRUNCATE fires no trigger of a row, so nothing of it would be in the history.
create or replace function datastatus_is_never_truncated() returns trigger language plpgsql
    as $$ begin raise exception 'TRUNCATE bypasses the history of datastatus: use DELETE'; end $$;
create or replace trigger datastatus_is_never_truncated before truncate on datastatus
    for each statement execute function datastatus_is_never_truncated();

-- Every write of the engine writes its event by itself. A role that raises the seal by hand does not: when its transaction ends, the
-- event that is missing is written. Changes by the owner of the tables are not checked, since the owner could drop these triggers.
create or replace function change_is_in_history() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    chunk record;
    last_status text;
begin
    for chunk in
        select c.datasetid, c.dataid, coalesce(d.jobid, new.jobid, old.jobid) as jobid, d.status
        from (values (old.datasetid, old.dataid), (new.datasetid, new.dataid)) c (datasetid, dataid)
        left join dataflow.datastatus d on d.datasetid = c.datasetid and d.dataid = c.dataid and d.locktype = 'OUT'
        where c.datasetid is not null
    loop
        select c.after into last_status from dataflow.status_change c
        where c.datasetid = chunk.datasetid and c.dataid = chunk.dataid order by c.eventid desc limit 1;
        if last_status is distinct from chunk.status then
            insert into dataflow.event (at, kind, datasetid, dataid, jobid, before, after, who)
            values (clock_timestamp(), 'sql', chunk.datasetid, chunk.dataid, chunk.jobid, last_status, chunk.status, session_user);
        end if;
    end loop;
    return null;
end $$;
revoke execute on function change_is_in_history() from public;
-- The owner's name stands in the condition, so that the engine, where it is the owner, pays nothing.
do $$
declare
    is_another text := format('session_user <> %L', current_user);
    deferred text := 'deferrable initially deferred for each row when (' || is_another || ' and ';
begin
    execute 'create constraint trigger history_of_insert after insert on dataflow.datastatus ' || deferred
        || 'new.seal <> 0 and new.locktype = ''OUT'') execute function dataflow.change_is_in_history()';
    execute 'create constraint trigger history_of_update after update on dataflow.datastatus ' || deferred
        || 'new.seal <> old.seal and ''OUT'' in (old.locktype, new.locktype) and (old.status, old.datasetid, old.dataid, old.locktype)'
        || ' is distinct from (new.status, new.datasetid, new.dataid, new.locktype)) execute function dataflow.change_is_in_history()';
    execute 'create constraint trigger history_of_delete after delete on dataflow.datastatus ' || deferred
        || 'old.seal < 0 and old.locktype = ''OUT'') execute function dataflow.change_is_in_history()';
end $$;

-- What the jobs produced, one row for each chunk. A person restarts a flow by an UPDATE of its status.
create or replace view job_status as
select s.jobid, s.datasetid, s.dataid, s.status, s.modified, s.epoch, s.version, s.tries
from datastatus s
where s.locktype = 'OUT'
  and exists (select 1 from job o where o.datasetid = s.datasetid and o.itemtype = 'OUT');
comment on view job_status is 'UPDATE job_status SET status = ''RESUBMIT'' WHERE … restarts; the next claim acts on it';

-- Run: one row for each attempt ---------------------------------------------------------------------------------------

create table if not exists run (
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
    started     timestamptz not null default now(),
    ended       timestamptz,
    outcome     text,
    detail      text,
    exit_code   integer,
    log         text,
    unique (jobid, dataid, epoch)
);
comment on table run is 'one row per attempt of (jobid, dataid); lease_until by lease_now()';
create index if not exists leases on run (lease_until) where status = 'RUNNING';
-- READY runs with a remark are rare: they are found without a scan of the others.
create index if not exists runs_remarked on run (runid) where status = 'READY' and detail is not null;
-- Most runs have no pool, and do not pay for this index.
create index if not exists running_in_pool on run (pool) where status = 'RUNNING' and pool <> '';
create or replace trigger epoch_of_run_is_bounded before update of epoch on run
    for each row when (new.epoch > 1000000000000000) execute function refuse_epoch();

-- Lineage: which version of which input a run reads, in the order of the job's inputs. The claim writes it, and it stays as it is. The
-- versions that the run publishes were made from these.
create table if not exists run_input (
    runid     bigint not null,
    nth       integer not null,
    datasetid text not null,
    dataid    text not null,
    version   bigint not null,
    primary key (runid, nth)
);
comment on table run_input is 'lineage: which version of which chunk a run reads';
create index if not exists runs_by_input on run_input (datasetid, dataid, version, runid);

-- A run with what it reads, in one row.
create or replace view run_facts as
select r.runid, r.jobid, r.dataid, r.epoch, r.status, r.pool, r.owner, r.forced,
       coalesce((select json_agg(json_build_array(i.datasetid, i.dataid, i.version) order by i.nth)::text
                 from run_input i where i.runid = r.runid), '[]') as inputs,
       r.started, r.ended, r.outcome, r.detail, r.exit_code, r.log, r.lease_until
from run r;

-- The last lines of a log, for machines that cannot read the log itself.
create table if not exists log_tail (
    runid bigint primary key,
    tail  text not null
);

-- Version: what was published, and from what it was made --------------------------------------------------------------

create table if not exists data_manifest (
    datasetid   text not null,
    dataid      text not null,
    version     bigint not null,
    jobid       text not null,
    runid       bigint,
    location    text not null default '',
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
comment on table data_manifest is 'DataLoc: where each published version of each chunk is, and what it was when it was published';
create index if not exists manifest_fingerprint on data_manifest (datasetid, fingerprint) where fingerprint is not null;
create index if not exists manifests_of_run on data_manifest (runid);

-- Downstream lineage: which versions were made from an input. LATERAL … OFFSET 0 makes the input the entry; what goes into a version is
-- looked up by the runid of its manifest.
create or replace view made_from as
select i.datasetid as in_datasetid, i.dataid as in_dataid, i.version as in_version,
       m.datasetid, m.dataid, m.version, m.jobid, i.runid, m.published
from run_input i
cross join lateral (select * from data_manifest d where d.runid = i.runid offset 0) m;
comment on view made_from is 'which version of which input went into which version';

-- Current versions that were made from an input whose current version is another one, with other content. One hop only: staleness
-- further downstream is derived when it is asked for.
create table if not exists stale (
    datasetid    text not null,
    dataid       text not null,
    version      bigint not null,
    in_datasetid text not null,
    in_dataid    text not null,
    in_version   bigint not null,
    primary key (datasetid, dataid, in_datasetid, in_dataid)
);
create index if not exists stale_by_input on stale (in_datasetid, in_dataid);

-- Chunks that are RESUBMIT only because an input has a newer version, with the version that they had.
create table if not exists remake (
    datasetid text not null,
    dataid    text not null,
    version   bigint not null,
    primary key (datasetid, dataid)
);

-- Versions that were called back: no job reads them again.
create table if not exists recalled (
    datasetid text not null,
    dataid    text not null,
    version   bigint not null,
    who       text not null default 'sql',
    why       text not null default '',
    at        timestamptz not null default now(),
    primary key (datasetid, dataid, version)
);

-- Candidate: which (job, dataid) may be taken; derived from datastatus, and rebuilt at any time -----------------------

-- Candidates come and go all the time: without frequent vacuums, a claim would pass many dead rows.
create table if not exists candidate (
    jobid      text not null,
    dataid     text not null,
    sort_key   text collate "C" not null,
    rank       smallint not null default 1,
    state      text not null check (state in ('CLAIMABLE', 'WAITING', 'DEFERRED')),
    not_before double precision not null default 0,
    inputs     text not null default '[]',
    primary key (jobid, dataid)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
comment on table candidate is 'derived from datastatus and rebuilt at any time: rank 0 = RESUBMIT, 1 = new';
create index if not exists candidates_in_order on candidate (jobid, rank, sort_key) where state = 'CLAIMABLE';
create index if not exists candidates_deferred on candidate (not_before) where state = 'DEFERRED';

-- What the next claim needs to know of a candidate, in one row. LATERAL … OFFSET 0 keeps every look-up a look-up by key.
create or replace view candidate_facts as
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

-- Incident: a root cause, the chunks that have it, and the messages about it. Facts only, never an address ------------

create table if not exists incident (
    incidentid bigint generated always as identity primary key,
    kind       text not null check (kind in ('failed', 'late', 'refused', 'recalled')),
    cause      text not null,
    why        text not null default '',
    datasetid  text not null,
    dataid     text not null,
    jobid      text not null default '',
    chunks     bigint not null default 0,
    most       bigint not null default 0,
    opened     timestamptz not null default now(),
    closed     timestamptz
);
create unique index if not exists incident_open on incident (kind, cause) where closed is null;

create table if not exists incident_chunk (
    kind       text not null,
    datasetid  text not null,
    dataid     text not null,
    incidentid bigint not null,
    eventid    bigint not null default 0,
    primary key (kind, datasetid, dataid)
);
create index if not exists chunks_of_incident on incident_chunk (incidentid);

-- An outbox: written with the incident, taken under a short lease, sent, and marked.
create table if not exists message (
    messageid   bigint generated always as identity primary key,
    incidentid  bigint not null,
    target      text not null,
    what        text not null check (what in ('opened', 'reminder', 'over')),
    number      bigint not null default 0,
    state       text not null default 'WAITING' check (state in ('WAITING', 'SENDING', 'SENT', 'DROPPED')),
    chunks      bigint not null default 0,
    not_before  double precision not null default 0,
    lease_until double precision not null default 0,
    tries       bigint not null default 0,
    problem     text not null default '',
    who         text not null default '',
    written     timestamptz not null default now(),
    ended       timestamptz,
    unique (incidentid, target, what, number)
);
create index if not exists messages_to_send on message (target, messageid) where ended is null;

-- Up to which event the history was searched for incidents.
create table if not exists noticed (
    name    text primary key not null,
    eventid bigint not null
);
