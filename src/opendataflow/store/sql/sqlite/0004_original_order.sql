-- The columns of the original come first, in its order, so that its INSERT statements without names of columns mean what they
-- say; what a person says by SQL is taken as the original takes it, with the time at which it was said.
-- SQLite cannot move columns: the table is made anew. Views and the triggers of other tables find it by its name.

create table datastatus_before as select * from datastatus;
drop table datastatus;

create table datastatus (
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
insert into datastatus (datasetid, jobid, dataid, locktype, status, modified, epoch, version, runid, tries, held, sort_key, lowerbound, upperbound, seal)
select datasetid, jobid, dataid, locktype, status, modified, epoch, version, runid, tries, held, sort_key, lowerbound, upperbound, seal
from datastatus_before;
drop table datastatus_before;

create unique index one_out_row_per_chunk on datastatus (datasetid, dataid) where locktype = 'OUT';
create index chunks_in_order on datastatus (datasetid, sort_key, dataid, status) where locktype = 'OUT';
create index chunks_not_settled on datastatus (status, datasetid, sort_key) where locktype = 'OUT' and status <> 'READY';
create index chunks_of_dataid on datastatus (dataid) where locktype = 'OUT';

create trigger datastatus_needs_its_dataset before insert on datastatus
    when new.seal = 0 and not exists (select 1 from dataset where datasetid = new.datasetid)
    begin select raise(abort, 'UNKNOWN_DATASET: datastatus names a datasetid that is not in table dataset'); end;
create trigger datastatus_keeps_its_dataset before update of datasetid on datastatus
    when not exists (select 1 from dataset where datasetid = new.datasetid)
    begin select raise(abort, 'UNKNOWN_DATASET: datastatus names a datasetid that is not in table dataset'); end;
create trigger reading_begins_with_a_word_of_its_own before insert on datastatus
    when new.locktype = 'IN' and upper(new.status) in ('RESUBMIT', 'RERUN')
    begin select raise(abort, 'CHECK constraint failed: known_status'); end;

-- What a person writes: the word as it is stored, the time that was given or else now, and what a chunk on HOLD was before.
-- The original resubmits by jobid and dataid, which is the IN row too: its read lock is released, unless the run still has it.
create trigger note_insert after insert on datastatus when new.seal = 0
    begin
        update datastatus set seal = seal + 1, status = case
                when new.locktype = 'OUT' and upper(new.status) = 'COMPLETE' then 'READY'
                when new.locktype = 'OUT' and upper(new.status) = 'RERUN' then 'RESUBMIT'
                when upper(new.status) = 'ERROR' then 'FAILED' else upper(new.status) end
        where rowid = new.rowid;
        insert into note (at, datasetid, dataid, jobid, locktype, before, after, who)
        select strftime('%Y-%m-%d %H:%M:%f', 'now'), datasetid, dataid, jobid, locktype, null, status, 'sql'
        from datastatus where rowid = new.rowid;
    end;
create trigger note_update after update on datastatus when new.seal = old.seal
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
        insert into note (at, datasetid, dataid, jobid, locktype, before, after, who)
        select strftime('%Y-%m-%d %H:%M:%f', 'now'), old.datasetid, old.dataid, old.jobid, old.locktype, old.status,
               case when (old.datasetid, old.dataid, old.locktype) = (new.datasetid, new.dataid, new.locktype) then status end, 'sql'
        from datastatus where rowid = new.rowid;
        insert into note (at, datasetid, dataid, jobid, locktype, before, after, who)
        select strftime('%Y-%m-%d %H:%M:%f', 'now'), datasetid, dataid, jobid, locktype, null, status, 'sql' from datastatus
        where rowid = new.rowid and (old.datasetid, old.dataid, old.locktype) <> (new.datasetid, new.dataid, new.locktype);
    end;
create trigger note_delete after delete on datastatus when old.seal >= 0
    begin
        insert into note (at, datasetid, dataid, jobid, locktype, before, after, who)
        values (strftime('%Y-%m-%d %H:%M:%f', 'now'), old.datasetid, old.dataid, old.jobid, old.locktype, old.status, null, 'sql');
    end;

drop trigger job_status_is_updatable;
create trigger job_status_is_updatable instead of update on job_status
    begin
        update datastatus set status = new.status, modified = new.modified
        where datasetid = old.datasetid and dataid = old.dataid and locktype = 'OUT';
    end;
