-- The schema of a store in SQLite, noun by noun: each table with its indexes, views and triggers. It makes what a store lacks: a new store
-- lacks everything. A change of it needs a new number in drivers/migrate.py and a step that brings over the stores of the number before.
-- The columns that the Java original's statements name come first, in its order; every further column has a default, so that those
-- statements work. Nothing here needs a function that a plain sqlite3 client lacks.

-- Store: facts about the store itself ---------------------------------------------------------------------------------

create table if not exists migration (
    number   integer primary key,
    name     text not null,
    checksum text not null,
    applied  text not null
);

create table if not exists meta (
    name  text primary key not null,
    value text not null
);
-- The revision counts changes of the definitions: by it each process notices one, so it stays and only grows.
insert into meta (name, value) values ('revision', '1') on conflict do nothing;
-- The identity shows that two spellings of an address lead to one store.
insert into meta (name, value) values ('identity', lower(hex(randomblob(8)))) on conflict do nothing;
create trigger if not exists revision_is_never_deleted before delete on meta when old.name = 'revision'
    begin select raise(abort, 'the revision in meta cannot be deleted'); end;
create trigger if not exists revision_only_grows before update on meta
    when old.name = 'revision' and (new.name <> 'revision' or cast(new.value as integer) < cast(old.value as integer))
    begin select raise(abort, 'the revision in meta can only grow'); end;

-- Figures that no row of the history holds.
create table if not exists counter (
    name text primary key not null,
    n    integer not null default 0
);

-- Event: the history, which is only added to --------------------------------------------------------------------------

create table if not exists event (
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
    receipt   text,
    session   text
);
create index if not exists event_of_chunk on event (datasetid, dataid, eventid);
create index if not exists unfit_notes on event (eventid) where kind = 'unfit note';
-- Rare kinds are found without a scan of the history. A claim and a commit write none of them, so they do not pay for this index.
create index if not exists events_of_kind on event (kind, eventid) where kind <> 'claimed' and kind <> 'admitted' and kind <> 'published' and kind <> 'announced';

create trigger if not exists event_is_never_updated before update on event
    begin select raise(abort, 'event is append-only: history is never changed'); end;
create trigger if not exists event_is_never_deleted before delete on event
    begin select raise(abort, 'event is append-only: history is never changed'); end;
-- INSERT OR REPLACE removes a row without firing the DELETE trigger.
create trigger if not exists event_is_never_replaced before insert on event
    when exists (select 1 from event where eventid = new.eventid)
    begin select raise(abort, 'event is append-only: history is never changed'); end;
-- In the trigger above, an eventid that SQLite is about to assign reads as -1: no row may have that number.
create trigger if not exists event_is_numbered after insert on event when new.eventid < 1
    begin select raise(abort, 'event is append-only: its rows are numbered from 1'); end;

-- The event of a claim says RUNNING, which is what the chunk became; the verdict is what the five questions answered.
create view if not exists receipt as
select eventid as receiptid, at, jobid, datasetid, dataid, runid,
       case when kind <> 'claimed' then after when why = 'forced' then 'NOT_ASKED' else 'YES' end as verdict, who, receipt
from event where receipt is not null;

-- Every change of the status of a chunk, from which status to which. A run that was refused leaves what was there before its claim.
create view if not exists status_change as
select e.eventid, e.at, e.kind, e.datasetid, e.dataid, e.jobid, e.runid, e.epoch, e.before,
       case when e.kind = 'refused' then (select c.before from event c where c.datasetid = e.datasetid and c.dataid = e.dataid
                                          and c.runid = e.runid and c.kind = 'claimed' order by c.eventid desc limit 1)
            else e.after end as after, e.who, e.why
from event e
where e.kind in ('claimed', 'published', 'failed', 'rescued', 'lost', 'cancelled', 'stopped', 'given back', 'announced', 'resubmitted', 'held',
                 'released', 'forgotten', 'rolled back', 'kept', 'sql')
   or (e.kind = 'recalled' and coalesce(e.before, e.after) is not null)
   or (e.kind = 'refused' and e.before = 'RUNNING');

-- Note: changes by SQL that the next claim folds in -------------------------------------------------------------------

create table if not exists note (
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
-- A file has no roles: every change by SQL is by 'sql', whatever the row says.
create trigger if not exists note_names_its_session after insert on note when new.who <> 'sql'
    begin update note set who = 'sql' where noteid = new.noteid; end;

-- Dataset -------------------------------------------------------------------------------------------------------------

-- The rule for ids, here and below, looks for a NUL byte by itself: GLOB and length() read a text only up to it.
create table if not exists dataset (
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

-- A plain sqlite3 client does not enforce foreign keys; these triggers do.
create trigger if not exists dataset_stays_while_it_is_used before delete on dataset
    when exists (select 1 from datastatus where datasetid = old.datasetid) or exists (select 1 from job where datasetid = old.datasetid)
    begin select raise(abort, 'the dataset has chunks, or a job reads or writes it'); end;
create trigger if not exists dataset_keeps_its_name before update of datasetid on dataset
    when new.datasetid <> old.datasetid
     and (exists (select 1 from datastatus where datasetid = old.datasetid) or exists (select 1 from job where datasetid = old.datasetid))
    begin select raise(abort, 'the dataset has chunks, or a job reads or writes it'); end;

create trigger if not exists note_dataset_insert after insert on dataset begin
    update meta set value = value + 1 where name = 'revision'; end;
create trigger if not exists note_dataset_update after update on dataset begin
    update meta set value = value + 1 where name = 'revision';
    insert into note (datasetid, who) values (new.datasetid, 'sql'); end;
create trigger if not exists note_dataset_delete after delete on dataset begin
    update meta set value = value + 1 where name = 'revision'; end;

-- A password in plain text never reaches the file. Accepted are tokens of `odf crypt encrypt` and of the Java original.
create trigger if not exists encryptedpass_is_encrypted before insert on dataset when not (
    coalesce(new.encryptedpass, '') = ''
    or (typeof(new.encryptedpass) = 'text' and instr(new.encryptedpass, char(0)) = 0 and length(new.encryptedpass) <= 16384 and (
        (new.encryptedpass glob 'odf[12]:*' and length(new.encryptedpass) >= 69
            and not substr(rtrim(new.encryptedpass, '='), 6) glob '*[^A-Za-z0-9_-]*')
        or (length(new.encryptedpass) >= 40 and not rtrim(new.encryptedpass, '=') glob '*[^A-Za-z0-9+/]*'
            and (length(new.encryptedpass) % 4 = 0 or instr(new.encryptedpass, '=') = 0)))
        and length(new.encryptedpass) - length(rtrim(new.encryptedpass, '=')) <= 2))
    begin select raise(abort, 'encryptedpass_is_encrypted: this is no encrypted password'); end;
create trigger if not exists encryptedpass_stays_encrypted before update on dataset when not (
    coalesce(new.encryptedpass, '') = ''
    or (typeof(new.encryptedpass) = 'text' and instr(new.encryptedpass, char(0)) = 0 and length(new.encryptedpass) <= 16384 and (
        (new.encryptedpass glob 'odf[12]:*' and length(new.encryptedpass) >= 69
            and not substr(rtrim(new.encryptedpass, '='), 6) glob '*[^A-Za-z0-9_-]*')
        or (length(new.encryptedpass) >= 40 and not rtrim(new.encryptedpass, '=') glob '*[^A-Za-z0-9+/]*'
            and (length(new.encryptedpass) % 4 = 0 or instr(new.encryptedpass, '=') = 0)))
        and length(new.encryptedpass) - length(rtrim(new.encryptedpass, '=')) <= 2))
    begin select raise(abort, 'encryptedpass_is_encrypted: this is no encrypted password'); end;

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
    jobid     text not null check (jobid glob '[A-Za-z0-9]*' and not jobid glob '*[^A-Za-z0-9._=-]*' and length(jobid) <= 128 and instr(jobid, char(0)) = 0),
    itemtype  text not null check (itemtype <> ''),
    datasetid text check (datasetid glob '[A-Za-z0-9]*' and not datasetid glob '*[^A-Za-z0-9._=-]*' and length(datasetid) <= 128 and instr(datasetid, char(0)) = 0),
    itemvalue text,
    modified  text default current_timestamp,
    check (itemtype not in ('IN', 'OUT') or datasetid is not null)
);
create unique index if not exists job_item on job (jobid, itemtype, coalesce(datasetid, ''));
create unique index if not exists one_producer on job (datasetid) where itemtype = 'OUT';
create index if not exists job_of_dataset on job (datasetid, itemtype);

create trigger if not exists note_job_insert after insert on job begin
    update meta set value = value + 1 where name = 'revision'; insert into note (jobid, who) values (new.jobid, 'sql'); end;
create trigger if not exists note_job_update after update on job begin
    update meta set value = value + 1 where name = 'revision'; insert into note (jobid, who) values (new.jobid, 'sql'); end;
create trigger if not exists note_job_delete after delete on job begin
    update meta set value = value + 1 where name = 'revision'; insert into note (jobid, who) values (old.jobid, 'sql'); end;
-- The next claim looks again at both jobs: the one that lost an item and the one that got it.
create trigger if not exists note_job_gives_up_an_item after update on job when new.jobid <> old.jobid begin
    insert into note (jobid, who) values (old.jobid, 'sql'); end;

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
create trigger if not exists note_jobrule_insert after insert on jobrule begin update meta set value = value + 1 where name = 'revision'; end;
create trigger if not exists note_jobrule_update after update on jobrule begin update meta set value = value + 1 where name = 'revision'; end;
create trigger if not exists note_jobrule_delete after delete on jobrule begin update meta set value = value + 1 where name = 'revision'; end;

create table if not exists pool (
    poolid   text primary key not null check (poolid glob '[A-Za-z0-9]*' and not poolid glob '*[^A-Za-z0-9._=-]*' and length(poolid) <= 128 and instr(poolid, char(0)) = 0),
    slots    integer check (slots >= 0), -- null: no limit, 0: paused
    options  text not null default '{}',
    modified text not null default current_timestamp
);
create trigger if not exists note_pool_insert after insert on pool begin update meta set value = value + 1 where name = 'revision'; end;
create trigger if not exists note_pool_update after update on pool begin update meta set value = value + 1 where name = 'revision'; end;
create trigger if not exists note_pool_delete after delete on pool begin update meta set value = value + 1 where name = 'revision'; end;

create table if not exists pause (
    jobid text primary key check (length(jobid) between 1 and 128),
    who   text not null default 'sql',
    why   text,
    since text not null default current_timestamp
);
create trigger if not exists note_pause_insert after insert on pause begin update meta set value = value + 1 where name = 'revision'; end;
create trigger if not exists note_pause_update after update on pause begin update meta set value = value + 1 where name = 'revision'; end;
create trigger if not exists note_pause_delete after delete on pause begin update meta set value = value + 1 where name = 'revision'; end;

-- Datastatus: status, lock and lineage of every chunk -----------------------------------------------------------------

-- Every write of the engine raises the seal. A change that leaves it comes from SQL that a person typed; only for such a change do
-- the triggers below write a note, which the next claim folds in, and an event.
create table if not exists datastatus (
    datasetid  text not null references dataset,
    jobid      text not null check (jobid glob '[A-Za-z0-9]*' and not jobid glob '*[^A-Za-z0-9._=-]*' and length(jobid) <= 128 and instr(jobid, char(0)) = 0),
    dataid     text not null check (dataid glob '[A-Za-z0-9]*' and not dataid glob '*[^A-Za-z0-9._=-]*' and length(dataid) <= 128 and instr(dataid, char(0)) = 0),
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
        else upper(status) in ('RUNNING', 'DONE', 'FAILED', 'ERROR', 'RESUBMIT', 'RERUN') end)
);
create unique index if not exists one_out_row_per_chunk on datastatus (datasetid, dataid) where locktype = 'OUT';
create index if not exists chunks_in_order on datastatus (datasetid, sort_key, dataid, status) where locktype = 'OUT';
create index if not exists chunks_not_settled on datastatus (status, datasetid, sort_key) where locktype = 'OUT' and status <> 'READY';

-- A plain sqlite3 client does not enforce foreign keys; these triggers do.
create trigger if not exists datastatus_needs_its_dataset before insert on datastatus
    when new.seal = 0 and not exists (select 1 from dataset where datasetid = new.datasetid)
    begin select raise(abort, 'UNKNOWN_DATASET: datastatus names a datasetid that is not in table dataset'); end;
create trigger if not exists datastatus_keeps_its_dataset before update of datasetid on datastatus
    when not exists (select 1 from dataset where datasetid = new.datasetid)
    begin select raise(abort, 'UNKNOWN_DATASET: datastatus names a datasetid that is not in table dataset'); end;
create trigger if not exists reading_begins_with_a_word_of_its_own before insert on datastatus
    when new.locktype = 'IN' and upper(new.status) in ('RESUBMIT', 'RERUN')
    begin select raise(abort, 'CHECK constraint failed: known_status'); end;

-- What a person writes: the canonical word, the given time or else now, and the status before HOLD. The original resubmits by jobid
-- and dataid, which matches the IN row too: its read lock is released, unless the run still has it.
-- OR REPLACE removes a row without firing the DELETE trigger, so the status before a row that is inserted or moved comes from the history.
create trigger if not exists note_insert after insert on datastatus when new.seal = 0
    begin
        update datastatus set seal = seal + 1, status = case
                when new.locktype = 'OUT' and upper(new.status) = 'COMPLETE' then 'READY'
                when new.locktype = 'OUT' and upper(new.status) = 'RERUN' then 'RESUBMIT'
                when upper(new.status) = 'ERROR' then 'FAILED' else upper(new.status) end
        where rowid = new.rowid;
        insert into event (at, kind, datasetid, dataid, jobid, before, after, who)
        select strftime('%Y-%m-%d %H:%M:%f', 'now'), case locktype when 'OUT' then 'sql' else 'sql reading' end, datasetid, dataid, jobid,
               case locktype when 'OUT' then (select c.after from status_change c where c.datasetid = new.datasetid and c.dataid = new.dataid
                                              order by c.eventid desc limit 1) end, status, 'sql'
        from datastatus where rowid = new.rowid;
        insert into note (at, datasetid, dataid, jobid, locktype, before, after, who)
        select strftime('%Y-%m-%d %H:%M:%f', 'now'), datasetid, dataid, jobid, locktype, null, status, 'sql'
        from datastatus where rowid = new.rowid;
    end;
create trigger if not exists note_update after update on datastatus when new.seal = old.seal
    begin
        update datastatus set seal = seal + 1, status = case
                when new.locktype = 'IN' and upper(new.status) in ('RESUBMIT', 'RERUN')
                    then case when old.status = 'RUNNING' then 'RUNNING' else 'FAILED' end
                when new.locktype = 'OUT' and upper(new.status) = 'COMPLETE' then 'READY'
                when new.locktype = 'OUT' and upper(new.status) = 'RERUN' then 'RESUBMIT'
                when upper(new.status) = 'ERROR' then 'FAILED' else upper(new.status) end,
            modified = case when new.modified is old.modified then strftime('%Y-%m-%d %H:%M:%f', 'now') else new.modified end,
            held = case when new.locktype = 'OUT' and upper(new.status) in ('HOLD', 'PENDING')
                         and old.status not in ('HOLD', 'PENDING') then old.status else new.held end
        where rowid = new.rowid;
        insert into event (at, kind, datasetid, dataid, jobid, before, after, who)
        select strftime('%Y-%m-%d %H:%M:%f', 'now'), case old.locktype when 'OUT' then 'sql' else 'sql reading' end,
               old.datasetid, old.dataid, old.jobid, old.status,
               case when (old.datasetid, old.dataid, old.locktype) = (new.datasetid, new.dataid, new.locktype) then status end, 'sql'
        from datastatus where rowid = new.rowid;
        insert into event (at, kind, datasetid, dataid, jobid, before, after, who)
        select strftime('%Y-%m-%d %H:%M:%f', 'now'), case locktype when 'OUT' then 'sql' else 'sql reading' end, datasetid, dataid, jobid,
               case locktype when 'OUT' then (select c.after from status_change c where c.datasetid = new.datasetid and c.dataid = new.dataid
                                              order by c.eventid desc limit 1) end, status, 'sql'
        from datastatus
        where rowid = new.rowid and (old.datasetid, old.dataid, old.locktype) <> (new.datasetid, new.dataid, new.locktype);
        insert into note (at, datasetid, dataid, jobid, locktype, before, after, who)
        select strftime('%Y-%m-%d %H:%M:%f', 'now'), old.datasetid, old.dataid, old.jobid, old.locktype, old.status,
               case when (old.datasetid, old.dataid, old.locktype) = (new.datasetid, new.dataid, new.locktype) then status end, 'sql'
        from datastatus where rowid = new.rowid;
        insert into note (at, datasetid, dataid, jobid, locktype, before, after, who)
        select strftime('%Y-%m-%d %H:%M:%f', 'now'), datasetid, dataid, jobid, locktype, null, status, 'sql' from datastatus
        where rowid = new.rowid and (old.datasetid, old.dataid, old.locktype) <> (new.datasetid, new.dataid, new.locktype);
    end;
create trigger if not exists note_delete after delete on datastatus when old.seal >= 0
    begin
        insert into event (at, kind, datasetid, dataid, jobid, before, after, who)
        values (strftime('%Y-%m-%d %H:%M:%f', 'now'), case old.locktype when 'OUT' then 'sql' else 'sql reading' end,
                old.datasetid, old.dataid, old.jobid, old.status, null, 'sql');
        insert into note (at, datasetid, dataid, jobid, locktype, before, after, who)
        values (strftime('%Y-%m-%d %H:%M:%f', 'now'), old.datasetid, old.dataid, old.jobid, old.locktype, old.status, null, 'sql');
    end;

-- Every attempt raises the epoch, and a number has 63 bits: a typed one leaves room to be raised.
create trigger if not exists epoch_is_bounded_on_insert before insert on datastatus
    when new.seal = 0 and max(new.epoch, new.version) > 1000000000000000
    begin select raise(abort, 'an epoch and a version are at most 1000000000000000'); end;
create trigger if not exists epoch_is_bounded_on_update before update of epoch, version on datastatus
    when new.seal = old.seal and max(new.epoch, new.version) > 1000000000000000
    begin select raise(abort, 'an epoch and a version are at most 1000000000000000'); end;
-- So is a seal, and with a raised seal an epoch: a seal that cannot be raised lets the engine note its own writes without end.
create trigger if not exists seal_is_bounded_on_insert before insert on datastatus
    when max(new.seal, new.epoch / 2, new.version / 2) > 1000000000000000
    begin select raise(abort, 'a seal, an epoch and a version are at most 1000000000000000'); end;
create trigger if not exists seal_is_bounded_on_update before update of seal, epoch, version on datastatus
    when max(new.seal, new.epoch / 2, new.version / 2) > 1000000000000000
    begin select raise(abort, 'a seal, an epoch and a version are at most 1000000000000000'); end;

-- What the jobs produced, one row for each chunk. A person restarts a flow by an UPDATE of its status.
create view if not exists job_status as
select s.jobid, s.datasetid, s.dataid, s.status, s.modified, s.epoch, s.version, s.tries
from datastatus s
where s.locktype = 'OUT'
  and exists (select 1 from job o where o.datasetid = s.datasetid and o.itemtype = 'OUT');
create trigger if not exists job_status_is_updatable instead of update on job_status
    begin
        update datastatus set status = new.status, modified = new.modified
        where datasetid = old.datasetid and dataid = old.dataid and locktype = 'OUT';
    end;

-- Run: one row for each attempt ---------------------------------------------------------------------------------------

create table if not exists run (
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
    started     text not null default current_timestamp,
    ended       text,
    outcome     text,
    detail      text,
    exit_code   integer,
    log         text,
    unique (jobid, dataid, epoch)
);
create index if not exists leases on run (lease_until) where status = 'RUNNING';
-- READY runs with a remark are rare: they are found without a scan of the others.
create index if not exists runs_remarked on run (runid) where status = 'READY' and detail is not null;
-- Most runs have no pool, and do not pay for this index.
create index if not exists running_in_pool on run (pool) where status = 'RUNNING' and pool <> '';
create trigger if not exists epoch_of_run_is_bounded before update of epoch on run when new.epoch > 1000000000000000
    begin select raise(abort, 'an epoch and a version are at most 1000000000000000'); end;

-- Lineage: which version of which input a run reads, in the order of the job's inputs. The claim writes it, and it stays as it is. The
-- versions that the run publishes were made from these.
create table if not exists run_input (
    runid     integer not null,
    nth       integer not null,
    datasetid text not null,
    dataid    text not null,
    version   integer not null,
    primary key (runid, nth)
) without rowid;
create index if not exists runs_by_input on run_input (datasetid, dataid, version, runid);

-- A run with what it reads, in one row.
create view if not exists run_facts as
select r.runid, r.jobid, r.dataid, r.epoch, r.status, r.pool, r.owner, r.forced,
       (select json_group_array(json_array(i.datasetid, i.dataid, i.version)) from run_input i where i.runid = r.runid) as inputs,
       r.started, r.ended, r.outcome, r.detail, r.exit_code, r.log, r.lease_until
from run r;

-- The last lines of a log, for machines that cannot read the log itself.
create table if not exists log_tail (
    runid integer primary key,
    tail  text not null
);

-- Version: what was published, and from what it was made --------------------------------------------------------------

create table if not exists data_manifest (
    datasetid   text not null,
    dataid      text not null,
    version     integer not null,
    jobid       text not null,
    runid       integer,
    location    text not null default '',
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
create index if not exists manifest_fingerprint on data_manifest (datasetid, fingerprint) where fingerprint is not null;
create index if not exists manifests_of_run on data_manifest (runid);

-- Downstream lineage: which versions were made from an input. CROSS JOIN makes the input the entry; what goes into a version is looked
-- up by the runid of its manifest.
create view if not exists made_from as
select i.datasetid as in_datasetid, i.dataid as in_dataid, i.version as in_version,
       m.datasetid, m.dataid, m.version, m.jobid, i.runid, m.published
from run_input i
cross join data_manifest m on m.runid = i.runid;

-- Current versions that were made from an input whose current version is another one, with other content. One hop only: staleness
-- further downstream is derived when it is asked for. Tables that are only read by their key need no rowid.
create table if not exists stale (
    datasetid    text not null,
    dataid       text not null,
    version      integer not null,
    in_datasetid text not null,
    in_dataid    text not null,
    in_version   integer not null,
    primary key (datasetid, dataid, in_datasetid, in_dataid)
) without rowid;
create index if not exists stale_by_input on stale (in_datasetid, in_dataid);

-- Chunks that are RESUBMIT only because an input has a newer version, with the version that they had.
create table if not exists remake (
    datasetid text not null,
    dataid    text not null,
    version   integer not null,
    primary key (datasetid, dataid)
) without rowid;

-- Versions that were called back: no job reads them again.
create table if not exists recalled (
    datasetid text not null,
    dataid    text not null,
    version   integer not null,
    who       text not null default 'sql',
    why       text not null default '',
    at        text not null default current_timestamp,
    primary key (datasetid, dataid, version)
) without rowid;

-- Candidate: which (job, dataid) may be taken; derived from datastatus, and rebuilt at any time -----------------------

create table if not exists candidate (
    jobid      text not null,
    dataid     text not null,
    sort_key   text not null,
    rank       integer not null default 1, -- 0: RESUBMIT, 1: new
    state      text not null check (state in ('CLAIMABLE', 'WAITING', 'DEFERRED')),
    not_before real not null default 0,
    inputs     text not null default '[]',
    primary key (jobid, dataid)
);
create index if not exists candidates_in_order on candidate (jobid, rank, sort_key) where state = 'CLAIMABLE';
create index if not exists candidates_deferred on candidate (not_before) where state = 'DEFERRED';

-- What the next claim needs to know of a candidate, in one row. CROSS JOIN keeps the job's outputs first, so that the rest is a
-- look-up by key.
create view if not exists candidate_facts as
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

-- Incident: a root cause, the chunks that have it, and the messages about it. Facts only, never an address ------------

create table if not exists incident (
    incidentid integer primary key autoincrement,
    kind       text not null check (kind in ('failed', 'late', 'refused', 'recalled')),
    cause      text not null,
    why        text not null default '',
    datasetid  text not null,
    dataid     text not null,
    jobid      text not null default '',
    chunks     integer not null default 0,
    most       integer not null default 0,
    opened     text not null default current_timestamp,
    closed     text
);
create unique index if not exists incident_open on incident (kind, cause) where closed is null;

create table if not exists incident_chunk (
    kind       text not null,
    datasetid  text not null,
    dataid     text not null,
    incidentid integer not null,
    eventid    integer not null default 0,
    primary key (kind, datasetid, dataid)
) without rowid;
create index if not exists chunks_of_incident on incident_chunk (incidentid);

-- An outbox: written with the incident, taken under a short lease, sent, and marked.
create table if not exists message (
    messageid   integer primary key autoincrement,
    incidentid  integer not null,
    target      text not null,
    what        text not null check (what in ('opened', 'reminder', 'over')),
    number      integer not null default 0,
    state       text not null default 'WAITING' check (state in ('WAITING', 'SENDING', 'SENT', 'DROPPED')),
    chunks      integer not null default 0,
    not_before  real not null default 0,
    lease_until real not null default 0,
    tries       integer not null default 0,
    problem     text not null default '',
    who         text not null default '',
    written     text not null default current_timestamp,
    ended       text,
    unique (incidentid, target, what, number)
);
create index if not exists messages_to_send on message (target, messageid) where ended is null;

-- Up to which event the history was searched for incidents.
create table if not exists noticed (
    name    text primary key not null,
    eventid integer not null
);
