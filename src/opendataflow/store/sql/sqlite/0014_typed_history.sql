-- What a person types is part of the history at once: the trigger that notes a change writes its event in the same transaction.
-- So the events of a chunk follow each other without a gap.

-- Every change of the status of a chunk, from which status to which. A run that was refused leaves what was there before its claim.
create view status_change as
select e.eventid, e.at, e.kind, e.datasetid, e.dataid, e.jobid, e.runid, e.epoch, e.before,
       case when e.kind = 'refused' then (select c.before from event c where c.datasetid = e.datasetid and c.dataid = e.dataid
                                          and c.runid = e.runid and c.kind = 'claimed' order by c.eventid desc limit 1)
            else e.after end as after, e.who, e.why
from event e
where e.kind in ('claimed', 'published', 'failed', 'rescued', 'lost', 'cancelled', 'stopped', 'given back', 'announced', 'resubmitted', 'held',
                 'released', 'forgotten', 'rolled back', 'kept', 'sql')
   or (e.kind = 'recalled' and coalesce(e.before, e.after) is not null)
   or (e.kind = 'refused' and e.before = 'RUNNING');

-- What was typed before, and is still to be folded in.
insert into event (at, kind, datasetid, dataid, jobid, before, after, who)
select at, case locktype when 'OUT' then 'sql' else 'sql reading' end, datasetid, dataid, jobid, before, after, who
from note where who is not null and dataid is not null order by noteid;

-- INSERT OR REPLACE removes a row without the triggers of a removal: what the chunk was before is what its history says.
drop trigger note_insert;
create trigger note_insert after insert on datastatus when new.seal = 0
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
drop trigger note_update;
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
        insert into event (at, kind, datasetid, dataid, jobid, before, after, who)
        select strftime('%Y-%m-%d %H:%M:%f', 'now'), case old.locktype when 'OUT' then 'sql' else 'sql reading' end,
               old.datasetid, old.dataid, old.jobid, old.status,
               case when (old.datasetid, old.dataid, old.locktype) = (new.datasetid, new.dataid, new.locktype) then status end, 'sql'
        from datastatus where rowid = new.rowid;
        insert into event (at, kind, datasetid, dataid, jobid, before, after, who)
        select strftime('%Y-%m-%d %H:%M:%f', 'now'), case locktype when 'OUT' then 'sql' else 'sql reading' end,
               datasetid, dataid, jobid, null, status, 'sql' from datastatus
        where rowid = new.rowid and (old.datasetid, old.dataid, old.locktype) <> (new.datasetid, new.dataid, new.locktype);
        insert into note (at, datasetid, dataid, jobid, locktype, before, after, who)
        select strftime('%Y-%m-%d %H:%M:%f', 'now'), old.datasetid, old.dataid, old.jobid, old.locktype, old.status,
               case when (old.datasetid, old.dataid, old.locktype) = (new.datasetid, new.dataid, new.locktype) then status end, 'sql'
        from datastatus where rowid = new.rowid;
        insert into note (at, datasetid, dataid, jobid, locktype, before, after, who)
        select strftime('%Y-%m-%d %H:%M:%f', 'now'), datasetid, dataid, jobid, locktype, null, status, 'sql' from datastatus
        where rowid = new.rowid and (old.datasetid, old.dataid, old.locktype) <> (new.datasetid, new.dataid, new.locktype);
    end;
drop trigger note_delete;
create trigger note_delete after delete on datastatus when old.seal >= 0
    begin
        insert into event (at, kind, datasetid, dataid, jobid, before, after, who)
        values (strftime('%Y-%m-%d %H:%M:%f', 'now'), case old.locktype when 'OUT' then 'sql' else 'sql reading' end,
                old.datasetid, old.dataid, old.jobid, old.status, null, 'sql');
        insert into note (at, datasetid, dataid, jobid, locktype, before, after, who)
        values (strftime('%Y-%m-%d %H:%M:%f', 'now'), old.datasetid, old.dataid, old.jobid, old.locktype, old.status, null, 'sql');
    end;

-- A job that gives an item to another one is looked at again, too.
create trigger note_job_gives_up_an_item after update on job when new.jobid <> old.jobid begin
    insert into note (jobid, who) values (old.jobid, 'sql'); end;
