-- Brings a store of schema 16 over to schema 17: the status before a row that is moved comes from the history.
-- SQLite goes by the order in which triggers were made, so those after this one are made again.
drop trigger note_update;
drop trigger note_delete;
drop trigger epoch_is_bounded_on_insert;
drop trigger epoch_is_bounded_on_update;
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
create trigger note_delete after delete on datastatus when old.seal >= 0
    begin
        insert into event (at, kind, datasetid, dataid, jobid, before, after, who)
        values (strftime('%Y-%m-%d %H:%M:%f', 'now'), case old.locktype when 'OUT' then 'sql' else 'sql reading' end,
                old.datasetid, old.dataid, old.jobid, old.status, null, 'sql');
        insert into note (at, datasetid, dataid, jobid, locktype, before, after, who)
        values (strftime('%Y-%m-%d %H:%M:%f', 'now'), old.datasetid, old.dataid, old.jobid, old.locktype, old.status, null, 'sql');
    end;

-- Every attempt raises the epoch, and a number has 63 bits: a typed one leaves room to be raised.
create trigger epoch_is_bounded_on_insert before insert on datastatus
    when new.seal = 0 and max(new.epoch, new.version) > 1000000000000000
    begin select raise(abort, 'an epoch and a version are at most 1000000000000000'); end;
create trigger epoch_is_bounded_on_update before update of epoch, version on datastatus
    when new.seal = old.seal and max(new.epoch, new.version) > 1000000000000000
    begin select raise(abort, 'an epoch and a version are at most 1000000000000000'); end;
create trigger seal_is_bounded_on_insert before insert on datastatus
    when max(new.seal, new.epoch / 2, new.version / 2) > 1000000000000000
    begin select raise(abort, 'a seal, an epoch and a version are at most 1000000000000000'); end;
create trigger seal_is_bounded_on_update before update of seal, epoch, version on datastatus
    when max(new.seal, new.epoch / 2, new.version / 2) > 1000000000000000
    begin select raise(abort, 'a seal, an epoch and a version are at most 1000000000000000'); end;
