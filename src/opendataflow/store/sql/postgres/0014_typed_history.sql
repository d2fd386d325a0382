-- What a person types is part of the history at once: the trigger that notes a change writes its event in the same transaction, as
-- the owner of the tables. So the events of a chunk follow each other without a gap, and no role can take one back.

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
comment on view status_change is 'the events that changed the status of a chunk: each begins with the status at which the last one ended';

-- What was typed before, and is still to be folded in.
insert into event (at, kind, datasetid, dataid, jobid, before, after, who)
select at, case locktype when 'OUT' then 'sql' else 'sql reading' end, datasetid, dataid, jobid, before, after, who
from note where who is not null and dataid is not null order by noteid;

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

-- A job that gives an item to another one is looked at again, too.
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
