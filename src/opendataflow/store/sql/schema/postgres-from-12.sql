-- Brings a store of schema 12 over to schema 17: first goes what stands in the way of the schema, then the schema makes what is lacking,
-- then the rows move to their new tables.

drop table made_from; -- a view of the same rows takes its name
alter table pool rename constraint pool_places_check to pool_slots_check;
-- A job may name a dataset before it is there.
alter table job drop constraint job_datasetid_fkey;
alter table job add constraint job_datasetid_check check (datasetid ~ '^[A-Za-z0-9][A-Za-z0-9._=-]{0,127}$');
do $$ begin
    alter table dataset validate constraint encryptedpass_is_encrypted;
exception when check_violation then
    null; -- a password in plain text from before: odf migrate names it, and its row cannot be changed before it is encrypted
end $$;

-- The event of a rollback has the version that became current as its epoch. Until now, only its reason said which.
alter table event disable trigger event_is_append_only;
update event set epoch = substring(why from '^version [0-9]+ → ([0-9]+)')::bigint where kind = 'rolled back' and why ~ '^version [0-9]+ → [0-9]+';
alter table event enable trigger event_is_append_only;
-- A change by SQL is in the history at once: also one that the next claim is still to fold in.
insert into event (at, kind, datasetid, dataid, jobid, before, after, who)
select at, case locktype when 'OUT' then 'sql' else 'sql reading' end, datasetid, dataid, jobid, before, after, who
from note where who is not null and dataid is not null order by noteid;

-- SCHEMA --

create function pg_temp.parsed(text) returns jsonb language plpgsql as $$ begin
    return $1::jsonb;
exception when others then
    return null; -- a person wrote it
end $$;
insert into run_input (runid, nth, datasetid, dataid, version)
select r.runid, i.nth, i.value ->> 0, i.value ->> 1, (i.value ->> 2)::bigint
from (select runid, pg_temp.parsed(inputs) as inputs from run) r
cross join lateral jsonb_array_elements(case jsonb_typeof(r.inputs) when 'array' then r.inputs else '[]' end) with ordinality i (value, nth)
where jsonb_typeof(i.value -> 0) = 'string' and jsonb_typeof(i.value -> 1) = 'string' and i.value ->> 2 ~ '^[0-9]{1,18}$'
order by 1, 2;
alter table run drop column inputs;
update data_manifest set body = (pg_temp.parsed(body) - 'inputs')::text where jsonb_typeof(pg_temp.parsed(body)) = 'object' and pg_temp.parsed(body) ? 'inputs';

insert into pinned_schema (datasetid, schema) select substr(name, 11), value from meta where name like 'schema of %';
insert into broken_job (jobid)
select distinct split_part(b.name, ' ', 2) from meta b
where b.name like 'broken % %' and not exists (select 1 from meta m where m.name = 'mended ' || substr(b.name, 8));
insert into applied_job (project, jobid)
select distinct substr(p.name, 17), j.jobid from meta p cross join lateral unnest(string_to_array(p.value, ' ')) j (jobid)
where p.name like 'jobs of project %' and j.jobid <> '';
insert into counter (name, n)
select name, value::bigint from meta where name in ('lineage sent', 'lineage dropped');
delete from meta where name like 'schema of %' or name like 'broken % %' or name like 'mended % %' or name like 'jobs of project %'
                    or name in (select name from counter);
