-- The columns of the original come first, in its order, so that its INSERT statements without names of columns mean what they
-- say; what a person says by SQL is taken as the original takes it, with the time at which it was said.
-- PostgreSQL cannot move columns: jobid and dataid change their names and their contents, and everything that was granted stays.

-- A view of somebody else knows the columns by their numbers, and would show one for the other.
do $$
declare others text;
begin
    select string_agg(distinct v.oid::regclass::text, ', ') into others
    from pg_depend d
    join pg_rewrite r on r.oid = d.objid and d.classid = 'pg_rewrite'::regclass
    join pg_class v on v.oid = r.ev_class
    where d.refclassid = 'pg_class'::regclass and d.refobjid = 'datastatus'::regclass and d.refobjsubid > 0
      and v.oid not in ('datastatus'::regclass, 'candidate_facts'::regclass, 'job_status'::regclass);
    if others is not null then
        raise exception 'the columns of datastatus change places, and these views are not ours: %', others;
    end if;
end $$;

alter table datastatus drop constraint datastatus_pkey;
drop index one_out_row_per_chunk, chunks_in_order, chunks_of_dataid;

alter table datastatus rename column dataid to jobid_before;
alter table datastatus rename column jobid to dataid;
alter table datastatus rename column jobid_before to jobid;
alter table datastatus rename constraint datastatus_dataid_check to datastatus_jobid_check_before;
alter table datastatus rename constraint datastatus_jobid_check to datastatus_dataid_check;
alter table datastatus rename constraint datastatus_jobid_check_before to datastatus_jobid_check;
update datastatus set jobid = dataid, dataid = jobid, seal = seal + 1;

alter table datastatus add primary key (datasetid, dataid, jobid, locktype);
create unique index one_out_row_per_chunk on datastatus (datasetid, dataid) where locktype = 'OUT';
create index chunks_in_order on datastatus (datasetid, sort_key, dataid, status) where locktype = 'OUT';
create index chunks_of_dataid on datastatus (dataid) where locktype = 'OUT';

-- Replaced rather than dropped: whoever was granted a view keeps it.
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
create or replace view job_status as
select s.jobid, s.datasetid, s.dataid, s.status, s.modified, s.epoch, s.version, s.tries
from datastatus s
where s.locktype = 'OUT'
  and exists (select 1 from job o where o.datasetid = s.datasetid and o.itemtype = 'OUT');

-- What a person writes: the word as it is stored, the time that was given or else now, and what a chunk on HOLD was before.
-- The original resubmits by jobid and dataid, which is the IN row too: its read lock is released, unless the run still has it.
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
