-- Brings a store of schema 12, or an export of one, over to schema 17: first goes what stands in the way of the schema, then the schema
-- makes what is lacking, then the rows move to their new tables.

drop table if exists made_from; -- a view of the same rows takes its name
drop trigger if exists note_insert;
drop trigger if exists note_update;
drop trigger if exists note_delete;
drop trigger if exists event_is_never_updated;
drop trigger if exists event_is_never_deleted;
drop trigger if exists event_is_never_replaced;
drop trigger if exists event_is_numbered;

-- A job may name a dataset before it is there.
create temporary table job_before as select * from job;
drop table job;
create table job (
    jobid     text not null check (jobid glob '[A-Za-z0-9]*' and not jobid glob '*[^A-Za-z0-9._=-]*' and length(jobid) <= 128 and instr(jobid, char(0)) = 0),
    itemtype  text not null check (itemtype <> ''),
    datasetid text check (datasetid glob '[A-Za-z0-9]*' and not datasetid glob '*[^A-Za-z0-9._=-]*' and length(datasetid) <= 128 and instr(datasetid, char(0)) = 0),
    itemvalue text,
    modified  text default current_timestamp,
    check (itemtype not in ('IN', 'OUT') or datasetid is not null)
);
insert into job (jobid, itemtype, datasetid, itemvalue, modified) select jobid, itemtype, datasetid, itemvalue, modified from job_before order by rowid;
drop table job_before;

-- The event of a rollback has the version that became current as its epoch. Until now, only its reason said which.
update event set epoch = cast(substr(why, instr(why, '→') + 1) as integer) where kind = 'rolled back' and why glob 'version [0-9]* → [0-9]*';
-- A change by SQL is in the history at once: also one that the next claim is still to fold in.
insert into event (at, kind, datasetid, dataid, jobid, before, after, who)
select at, case locktype when 'OUT' then 'sql' else 'sql reading' end, datasetid, dataid, jobid, before, after, who
from note where who is not null and dataid is not null order by noteid;

-- SCHEMA --

insert into run_input (runid, nth, datasetid, dataid, version)
select r.runid, i.key + 1, i.value ->> 0, i.value ->> 1, i.value ->> 2
from run r
cross join json_each(case when json_valid(r.inputs) then r.inputs else '[]' end) i
where i.type = 'array' and typeof(i.value ->> 0) = 'text' and typeof(i.value ->> 1) = 'text' and typeof(i.value ->> 2) = 'integer'
order by 1, 2;
alter table run drop column inputs;
update data_manifest set body = json_remove(body, '$.inputs') where json_valid(body) and json_type(body, '$.inputs') is not null;

insert into pinned_schema (datasetid, schema) select substr(name, 11), value from meta where name like 'schema of %';
insert into broken_job (jobid)
select distinct substr(b.name, 8, instr(substr(b.name, 8), ' ') - 1) from meta b
where b.name like 'broken % %' and not exists (select 1 from meta m where m.name = 'mended ' || substr(b.name, 8));
insert into applied_job (project, jobid)
select distinct substr(p.name, 17), j.value from meta p cross join json_each('["' || replace(p.value, ' ', '","') || '"]') j
where p.name like 'jobs of project %' and j.value <> '';
insert into counter (name, n)
select name, cast(value as integer) from meta where name in ('lineage sent', 'lineage dropped');
delete from meta where name like 'schema of %' or name like 'broken % %' or name like 'mended % %' or name like 'jobs of project %'
                    or name in (select name from counter);
