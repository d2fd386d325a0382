-- The tables of the protocol. The columns that the original's statements name keep their names; every further
-- column has a default. Nothing here needs a function that a plain sqlite3 client lacks.

-- Definitions ---------------------------------------------------------------------------------------------------

create table dataset (
    datasetid     text primary key not null check (datasetid glob '[A-Za-z0-9]*' and not datasetid glob '*[^A-Za-z0-9._=-]*' and length(datasetid) <= 128 and instr(datasetid, char(0)) = 0),
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
    modified      text not null default current_timestamp
);

create table job (
    jobid     text not null check (jobid glob '[A-Za-z0-9]*' and not jobid glob '*[^A-Za-z0-9._=-]*' and length(jobid) <= 128 and instr(jobid, char(0)) = 0),
    itemtype  text not null check (itemtype <> ''),
    datasetid text references dataset,
    itemvalue text,
    modified  text default current_timestamp,
    check (itemtype not in ('IN', 'OUT') or datasetid is not null)
);
create unique index job_item on job (jobid, itemtype, coalesce(datasetid, ''));
create unique index one_producer on job (datasetid) where itemtype = 'OUT';
create index job_of_dataset on job (datasetid, itemtype);

create table jobrule (
    jobid       text primary key not null check (jobid glob '[A-Za-z0-9]*' and not jobid glob '*[^A-Za-z0-9._=-]*' and length(jobid) <= 128 and instr(jobid, char(0)) = 0),
    retries     integer not null default 0 check (retries >= 0),
    backoff     real not null default 10 check (backoff >= 0),
    backoff_max real not null default 3600 check (backoff_max >= 0),
    retry_on    text not null default '',
    lease       real not null default 30 check (lease > 0),
    timeout     real check (timeout > 0),
    pool        text not null default '',
    options     text not null default '{}',
    modified    text not null default current_timestamp
);

create table pool (
    poolid   text primary key not null check (poolid glob '[A-Za-z0-9]*' and not poolid glob '*[^A-Za-z0-9._=-]*' and length(poolid) <= 128 and instr(poolid, char(0)) = 0),
    places   integer check (places >= 0),
    options  text not null default '{}',
    modified text not null default current_timestamp
);

-- Status = lock = lineage -----------------------------------------------------------------------------------------

create table datastatus (
    datasetid  text not null references dataset,
    dataid     text not null check (dataid glob '[A-Za-z0-9]*' and not dataid glob '*[^A-Za-z0-9._=-]*' and length(dataid) <= 128 and instr(dataid, char(0)) = 0),
    jobid      text not null check (jobid glob '[A-Za-z0-9]*' and not jobid glob '*[^A-Za-z0-9._=-]*' and length(jobid) <= 128 and instr(jobid, char(0)) = 0),
    locktype   text not null check (locktype in ('IN', 'OUT')),
    status     text not null,
    modified   text default current_timestamp,
    epoch      integer not null default 0,
    version    integer not null default 0,
    runid      integer,
    tries      integer not null default 0,
    held       text,
    sort_key   text not null default '',
    lowerbound text,
    upperbound text,
    seal       integer not null default 0,
    primary key (datasetid, dataid, jobid, locktype),
    -- SQLite cannot rewrite a row before it is checked, so the synonyms pass here and a trigger stores the canonical word.
    constraint known_status check (case locktype
        when 'OUT' then upper(status) in ('RUNNING', 'READY', 'FAILED', 'RESUBMIT', 'HOLD', 'PENDING', 'COMPLETE', 'ERROR', 'RERUN')
        else upper(status) in ('RUNNING', 'DONE', 'FAILED', 'ERROR') end)
);
create unique index one_out_row_per_chunk on datastatus (datasetid, dataid) where locktype = 'OUT';
create index chunks_in_order on datastatus (datasetid, sort_key, dataid, status) where locktype = 'OUT';
create index chunks_not_settled on datastatus (status, datasetid, sort_key) where locktype = 'OUT' and status <> 'READY';
create index chunks_of_dataid on datastatus (dataid) where locktype = 'OUT';

create table run (
    runid       integer primary key autoincrement,
    jobid       text not null,
    dataid      text not null,
    epoch       integer not null,
    status      text not null check (status in ('RUNNING', 'READY', 'FAILED', 'LOST', 'REFUSED')),
    pool        text not null default '',
    owner       text not null default '',
    lease       real not null default 30,
    lease_until real,
    forced      integer not null default 0,
    inputs      text not null default '[]',
    started     text not null default current_timestamp,
    ended       text,
    outcome     text,
    detail      text,
    exit_code   integer,
    log         text,
    unique (jobid, dataid, epoch)
);
create index leases on run (lease_until) where status = 'RUNNING';
create index places on run (pool) where status = 'RUNNING';

create table data_manifest (
    datasetid   text not null,
    dataid      text not null,
    version     integer not null,
    jobid       text not null,
    runid       integer,
    place       text not null default '',
    format      text not null default '',
    bytes       integer,
    rows        integer,
    span_lower  text,
    span_upper  text,
    fingerprint text,
    passed      integer not null default 1,
    body        text not null default '{}',
    published   text not null default current_timestamp,
    primary key (datasetid, dataid, version)
);
create index manifest_fingerprint on data_manifest (datasetid, fingerprint) where fingerprint is not null;

create table event (
    eventid   integer primary key autoincrement,
    at        text not null default current_timestamp,
    kind      text not null,
    datasetid text,
    dataid    text,
    jobid     text,
    runid     integer,
    epoch     integer,
    before    text,
    after     text,
    who       text,
    why       text,
    receipt   text
);
create index event_of_chunk on event (datasetid, dataid, eventid);
create trigger event_is_never_updated before update on event
    begin select raise(abort, 'event is append-only: history is never changed'); end;
create trigger event_is_never_deleted before delete on event
    begin select raise(abort, 'event is append-only: history is never changed'); end;

-- Derived: which (job, dataid) may be taken --------------------------------------------------------------------------

create table candidate (
    jobid      text not null,
    dataid     text not null,
    sort_key   text not null,
    rank       integer not null default 1,
    state      text not null check (state in ('CLAIMABLE', 'WAITING', 'DEFERRED')),
    not_before real not null default 0,
    inputs     text not null default '[]',
    primary key (jobid, dataid)
);
create index candidates_in_order on candidate (jobid, rank, sort_key) where state = 'CLAIMABLE';
create index candidates_deferred on candidate (not_before) where state = 'DEFERRED';

create table note (
    noteid    integer primary key autoincrement,
    at        text not null default current_timestamp,
    datasetid text,
    dataid    text,
    jobid     text,
    locktype  text,
    before    text,
    after     text,
    who       text
);

create table meta (
    name  text primary key not null,
    value text not null
);
insert into meta values ('revision', '1');

-- What the next claim needs to know of a candidate, in one row.
create view candidate_facts as
select c.jobid, c.dataid, c.rank, c.sort_key,
       1 + max(
           coalesce((select max(r.epoch) from run r where r.jobid = c.jobid and r.dataid = c.dataid), 0),
           coalesce((select max(max(s.epoch, s.version)) from job o
                     cross join datastatus s on s.datasetid = o.datasetid and s.dataid = c.dataid and s.locktype = 'OUT'
                     where o.jobid = c.jobid and o.itemtype = 'OUT'), 0),
           coalesce((select max(m.version) from job o
                     cross join data_manifest m on m.datasetid = o.datasetid and m.dataid = c.dataid
                     where o.jobid = c.jobid and o.itemtype = 'OUT'), 0)) as epoch,
       coalesce((select max(s.tries) from job o
                 cross join datastatus s on s.datasetid = o.datasetid and s.dataid = c.dataid and s.locktype = 'OUT'
                 where o.jobid = c.jobid and o.itemtype = 'OUT'), 0) as tries,
       (select json_group_array(json_array(i.value ->> 0, i.value ->> 1, s.status, s.version))
        from json_each(c.inputs) i
        left join datastatus s on s.datasetid = i.value ->> 0 and s.dataid = i.value ->> 1 and s.locktype = 'OUT') as inputs
from candidate c;

-- The door for people: what the jobs produced, one row per chunk. Updating status here is how a flow is restarted.
create view job_status as
select s.jobid, s.datasetid, s.dataid, s.status, s.modified, s.epoch, s.version, s.tries
from datastatus s
where s.locktype = 'OUT'
  and exists (select 1 from job o where o.datasetid = s.datasetid and o.itemtype = 'OUT');
create trigger job_status_is_updatable instead of update on job_status
    begin
        update datastatus set status = new.status
        where datasetid = old.datasetid and dataid = old.dataid and locktype = 'OUT';
    end;

create view receipt as
select eventid as receiptid, at, jobid, datasetid, dataid, runid, after as verdict, who, receipt from event where receipt is not null;

-- Triggers: they fire only for writes that do not come from the engine ----------------------------------------------

-- A plain sqlite3 client does not enforce foreign keys; this does.
create trigger datastatus_needs_its_dataset before insert on datastatus
    when new.seal = 0 and not exists (select 1 from dataset where datasetid = new.datasetid)
    begin select raise(abort, 'UNKNOWN_DATASET: datastatus names a datasetid that is not in table dataset'); end;
create trigger job_needs_its_dataset before insert on job
    when new.datasetid is not null and not exists (select 1 from dataset where datasetid = new.datasetid)
    begin select raise(abort, 'UNKNOWN_DATASET: job names a datasetid that is not in table dataset'); end;

create trigger datastatus_keeps_its_dataset before update of datasetid on datastatus
    when not exists (select 1 from dataset where datasetid = new.datasetid)
    begin select raise(abort, 'UNKNOWN_DATASET: datastatus names a datasetid that is not in table dataset'); end;
create trigger job_keeps_its_dataset before update of datasetid on job
    when new.datasetid is not null and not exists (select 1 from dataset where datasetid = new.datasetid)
    begin select raise(abort, 'UNKNOWN_DATASET: job names a datasetid that is not in table dataset'); end;
create trigger dataset_stays_while_it_is_used before delete on dataset
    when exists (select 1 from datastatus where datasetid = old.datasetid) or exists (select 1 from job where datasetid = old.datasetid)
    begin select raise(abort, 'the dataset has chunks, or a job reads or writes it'); end;
create trigger dataset_keeps_its_name before update of datasetid on dataset
    when new.datasetid <> old.datasetid
     and (exists (select 1 from datastatus where datasetid = old.datasetid) or exists (select 1 from job where datasetid = old.datasetid))
    begin select raise(abort, 'the dataset has chunks, or a job reads or writes it'); end;

create trigger note_insert after insert on datastatus when new.seal = 0
    begin
        update datastatus set seal = seal + 1, status = case
                when new.locktype = 'OUT' and upper(new.status) = 'COMPLETE' then 'READY'
                when new.locktype = 'OUT' and upper(new.status) = 'RERUN' then 'RESUBMIT'
                when upper(new.status) = 'ERROR' then 'FAILED' else upper(new.status) end
        where rowid = new.rowid;
        insert into note (datasetid, dataid, jobid, locktype, before, after, who)
        select datasetid, dataid, jobid, locktype, null, status, 'sql' from datastatus where rowid = new.rowid;
    end;
create trigger note_update after update on datastatus when new.seal = old.seal
    begin
        update datastatus set seal = seal + 1, status = case
                when new.locktype = 'OUT' and upper(new.status) = 'COMPLETE' then 'READY'
                when new.locktype = 'OUT' and upper(new.status) = 'RERUN' then 'RESUBMIT'
                when upper(new.status) = 'ERROR' then 'FAILED' else upper(new.status) end,
            modified = case when new.modified is old.modified then current_timestamp else new.modified end,
            held = case when new.locktype = 'OUT' and upper(new.status) in ('HOLD', 'PENDING')
                         and old.status not in ('HOLD', 'PENDING') then old.status else new.held end
        where rowid = new.rowid;
        insert into note (datasetid, dataid, jobid, locktype, before, after, who)
        select old.datasetid, old.dataid, old.jobid, old.locktype, old.status,
               case when (old.datasetid, old.dataid, old.locktype) = (new.datasetid, new.dataid, new.locktype) then status end, 'sql'
        from datastatus where rowid = new.rowid;
        insert into note (datasetid, dataid, jobid, locktype, before, after, who)
        select datasetid, dataid, jobid, locktype, null, status, 'sql' from datastatus
        where rowid = new.rowid and (old.datasetid, old.dataid, old.locktype) <> (new.datasetid, new.dataid, new.locktype);
    end;
create trigger note_delete after delete on datastatus when old.seal >= 0
    begin
        insert into note (datasetid, dataid, jobid, locktype, before, after, who)
        values (old.datasetid, old.dataid, old.jobid, old.locktype, old.status, null, 'sql');
    end;

create trigger note_dataset_insert after insert on dataset begin
    update meta set value = value + 1 where name = 'revision'; end;
create trigger note_dataset_update after update on dataset begin
    update meta set value = value + 1 where name = 'revision';
    insert into note (datasetid, who) values (new.datasetid, 'sql'); end;
create trigger note_dataset_delete after delete on dataset begin
    update meta set value = value + 1 where name = 'revision'; end;
create trigger note_job_insert after insert on job begin
    update meta set value = value + 1 where name = 'revision'; insert into note (jobid, who) values (new.jobid, 'sql'); end;
create trigger note_job_update after update on job begin
    update meta set value = value + 1 where name = 'revision'; insert into note (jobid, who) values (new.jobid, 'sql'); end;
create trigger note_job_delete after delete on job begin
    update meta set value = value + 1 where name = 'revision'; insert into note (jobid, who) values (old.jobid, 'sql'); end;
create trigger note_jobrule_insert after insert on jobrule begin update meta set value = value + 1 where name = 'revision'; end;
create trigger note_jobrule_update after update on jobrule begin update meta set value = value + 1 where name = 'revision'; end;
create trigger note_jobrule_delete after delete on jobrule begin update meta set value = value + 1 where name = 'revision'; end;
create trigger note_pool_insert after insert on pool begin update meta set value = value + 1 where name = 'revision'; end;
create trigger note_pool_update after update on pool begin update meta set value = value + 1 where name = 'revision'; end;
create trigger note_pool_delete after delete on pool begin update meta set value = value + 1 where name = 'revision'; end;

insert into dataset (datasetid, partition, options) values ('today', '{"type": "day"}', '{"timezone": "UTC"}');
