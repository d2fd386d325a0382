-- PostgreSQL variants: lists are JSON; related writes are one statement (one round
-- trip); row locks keep concurrent claims apart. A list is joined by LATERAL … OFFSET 0, or becomes an array before the
-- table is read, so that the list drives and the table is looked up by key, whatever the planner estimates for the
-- list. COALESCE around a status prevents the planner from using the index of RUNNING rows.

-- name: other_tables
-- Tables of other programs, in a database without a store.
-- PostgreSQL: read from the system catalogue.
select relname as name from pg_class where relnamespace = to_regnamespace('dataflow') and relkind in ('r', 'p', 'v', 'm', 'f')
and not exists (select 1 from pg_attribute where attrelid = to_regclass('dataflow.migration') and attname = 'checksum')
order by relname

-- name: has_schema
-- Whether the table of migrations exists and belongs to a store.
-- PostgreSQL: read from the system catalogue.
select exists (select 1 from pg_attribute where attrelid = to_regclass('dataflow.migration') and attname = 'checksum') as has_schema

-- name: columns
-- Every column of every table, and every view.
-- PostgreSQL: read from the system catalogue.
select t.relname as relation, c.attname as "column" from pg_class t
join pg_attribute c on c.attrelid = t.oid and c.attnum > 0 and not c.attisdropped
where t.relnamespace = to_regnamespace('dataflow') and t.relkind in ('r', 'p')
union all
select relname, '' from pg_class where relnamespace = to_regnamespace('dataflow') and relkind = 'v'

-- name: may_define
-- Whether the role may register datasets and jobs.
-- PostgreSQL: a role may have the right to work without the right to define.
select has_table_privilege('dataset', 'INSERT') and has_table_privilege('job', 'INSERT') as may

-- name: may_mark
-- Whether the role may record a job as broken or repaired.
-- PostgreSQL: a role may have the right to steer without the right to insert here.
select has_table_privilege('meta', 'INSERT') as may

-- name: claim_pick
-- The first n claimable candidates of a job with their facts; none while changes have to be folded in.
-- PostgreSQL: concurrent claims lock what they pick and skip locked rows.
with state as materialized (
    select (select value from meta where name = 'revision') as revision,
           exists (select 1 from note) as notes,
           exists (select 1 from run where status = 'RUNNING' and lease_until < lease_now()) as expired,
           exists (select 1 from candidate where state = 'DEFERRED' and not_before <= lease_now()) as due
), picked as materialized (
    select c.jobid, c.dataid from candidate c
    where c.jobid = :jobid and c.state = 'CLAIMABLE' and (select not (notes or expired or due) from state)
    order by c.rank, c.sort_key limit :n
    for update skip locked
)
select s.revision, s.notes, s.expired, s.due, f.dataid, f.rank, f.sort_key, f.epoch, f.tries, f.inputs
from state s left join picked p on true left join candidate_facts f on f.jobid = p.jobid and f.dataid = p.dataid
order by f.rank, f.sort_key

-- name: claim_pick_dataid
-- One given candidate of a job with its facts; none while changes have to be folded in.
-- PostgreSQL: concurrent claims lock what they pick and skip locked rows.
with state as materialized (
    select (select value from meta where name = 'revision') as revision,
           exists (select 1 from note) as notes,
           exists (select 1 from run where status = 'RUNNING' and lease_until < lease_now()) as expired,
           exists (select 1 from candidate where state = 'DEFERRED' and not_before <= lease_now()) as due
), picked as materialized (
    select c.jobid, c.dataid from candidate c
    where c.jobid = :jobid and c.dataid = :dataid and c.state in ('CLAIMABLE', 'DEFERRED')
      and (select not (notes or expired or due) from state)
    for update skip locked
)
select s.revision, s.notes, s.expired, s.due, f.dataid, f.rank, f.sort_key, f.epoch, f.tries, f.inputs
from state s left join picked p on true left join candidate_facts f on f.jobid = p.jobid and f.dataid = p.dataid

-- name: claim_take
-- Claim candidates: set OUT and IN rows to RUNNING under a new epoch, and insert the run and the event with its receipt.
-- PostgreSQL: one statement is one round trip; its parts pass rows on by RETURNING.
with t as materialized (
    select * from json_to_recordset(:takes::json) as t (dataid text, epoch bigint, sort_key text, tries integer, receipt text, inputs text)
), gone as (
    delete from candidate where jobid = :jobid and dataid = any (array(select t.dataid from t))
), r as (
    insert into run (jobid, dataid, epoch, status, pool, owner, lease, lease_until, forced, inputs)
    select :jobid, t.dataid, t.epoch, 'RUNNING', :pool, :owner, :lease, lease_now() + :lease, :forced, t.inputs from t
    returning runid, dataid, epoch
), outs as (
    insert into datastatus as d (datasetid, jobid, dataid, locktype, status, epoch, runid, tries, sort_key, seal)
    select o.datasetid, :jobid, r.dataid, 'OUT', 'RUNNING', r.epoch, r.runid, t.tries, t.sort_key, 1
    from t join r on r.dataid = t.dataid cross join (select json_array_elements_text(:outputs::json) as datasetid) o
    on conflict (datasetid, dataid) where locktype = 'OUT' do update set
        jobid = excluded.jobid, status = 'RUNNING', epoch = excluded.epoch, runid = excluded.runid, tries = excluded.tries,
        sort_key = excluded.sort_key, held = d.status, seal = d.seal + 1, modified = now()
    where d.status = 'RESUBMIT' or (:forced and d.status <> 'RUNNING')
    returning runid, datasetid, held
), ins as (
    insert into datastatus as d (datasetid, jobid, dataid, locktype, status, epoch, version, runid, seal)
    select distinct on (i ->> 0, i ->> 1) i ->> 0, :jobid, i ->> 1, 'IN', 'RUNNING', r.epoch, coalesce((i ->> 2)::bigint, 0), r.runid, 1
    from t join r on r.dataid = t.dataid cross join lateral json_array_elements(t.inputs::json) i
    order by i ->> 0, i ->> 1, r.runid desc
    on conflict (datasetid, dataid, jobid, locktype) do update set
        status = 'RUNNING', epoch = excluded.epoch, version = excluded.version, runid = excluded.runid, seal = d.seal + 1, modified = now()
), e as (
    insert into event (kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt)
    select 'claimed', outs.datasetid, r.dataid, :jobid, r.runid, r.epoch, outs.held, 'RUNNING', :owner, :why, t.receipt
    from t join r on r.dataid = t.dataid join outs on outs.runid = r.runid
)
select r.runid, r.dataid, r.epoch, (select count(*) from outs where outs.runid = r.runid) as taken from r

-- name: claim_take_one
-- Claim one candidate, like claim_take.
-- PostgreSQL: one statement is one round trip; its parts pass rows on by RETURNING.
with gone as (
    delete from candidate where jobid = :jobid and dataid = :dataid
), r as (
    insert into run (jobid, dataid, epoch, status, pool, owner, lease, lease_until, forced, inputs)
    values (:jobid, :dataid, :epoch, 'RUNNING', :pool, :owner, :lease, lease_now() + :lease, :forced, :inputs)
    returning runid, dataid, epoch
), outs as (
    insert into datastatus as d (datasetid, jobid, dataid, locktype, status, epoch, runid, tries, sort_key, seal)
    select o.datasetid, :jobid, :dataid, 'OUT', 'RUNNING', :epoch, r.runid, :tries, :sort_key, 1
    from r cross join (select json_array_elements_text(:outputs::json) as datasetid) o
    on conflict (datasetid, dataid) where locktype = 'OUT' do update set
        jobid = excluded.jobid, status = 'RUNNING', epoch = excluded.epoch, runid = excluded.runid, tries = excluded.tries,
        sort_key = excluded.sort_key, held = d.status, seal = d.seal + 1, modified = now()
    where d.status = 'RESUBMIT' or (:forced and d.status <> 'RUNNING')
    returning datasetid, held
), ins as (
    insert into datastatus as d (datasetid, jobid, dataid, locktype, status, epoch, version, runid, seal)
    select i ->> 0, :jobid, i ->> 1, 'IN', 'RUNNING', :epoch, (i ->> 2)::bigint, r.runid, 1
    from r cross join json_array_elements(:inputs::json) i
    on conflict (datasetid, dataid, jobid, locktype) do update set
        status = 'RUNNING', epoch = excluded.epoch, version = excluded.version, runid = excluded.runid, seal = d.seal + 1, modified = now()
), e as (
    insert into event (kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt)
    select 'claimed', outs.datasetid, :dataid, :jobid, r.runid, :epoch, outs.held, 'RUNNING', :owner, :why, :receipt from r cross join outs
)
select r.runid, r.dataid, r.epoch, (select count(*) from outs) as taken from r

-- name: end_run
-- End a run that still holds its chunk: the run, its OUT and IN rows, the event. Returns the datasets of the ended chunks.
-- PostgreSQL: one statement is one round trip; every other part depends on the update of the run (r).
with r as (
    update run set status = :run_status, ended = now(), lease_until = null, outcome = :outcome, detail = :detail, exit_code = :exit_code
    where runid = :runid and coalesce(status, '') = 'RUNNING' returning runid
), outs as (
    update datastatus d set status = :out_status, seal = d.seal + 1, modified = now(),
        version = case when :out_status = 'READY' then d.epoch else d.version end,
        tries = case when :out_status = 'READY' then 0 when :kind = 'stopped' then greatest(d.tries - 1, 0) else d.tries end
    where d.datasetid = any (array(select json_array_elements_text(:outputs::json))) and d.dataid = :dataid and d.locktype = 'OUT'
      and d.status = 'RUNNING' and d.epoch = :epoch and d.runid = :runid and exists (select 1 from r)
    returning d.datasetid, d.dataid
), ins as (
    update datastatus d set status = :in_status, seal = d.seal + 1, modified = now()
    where d.datasetid = any (array(select i ->> 0 from json_array_elements(:inputs::json) i))
      and d.dataid = any (array(select i ->> 1 from json_array_elements(:inputs::json) i))
      and d.jobid = :jobid and d.locktype = 'IN' and d.status = 'RUNNING' and d.runid = :runid and exists (select 1 from r)
), ev as (
    insert into event (kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why)
    select :kind, outs.datasetid, outs.dataid, :jobid, :runid, :epoch, 'RUNNING', :out_status, :owner, :detail from outs
)
select outs.datasetid from outs

-- name: end_runs
-- End several runs in the same way, like end_run. Returns the run of each ended chunk.
-- PostgreSQL: a list becomes an array before a table is read.
with t as materialized (
    select * from json_to_recordset(:runs::json)
        as t (runid bigint, jobid text, dataid text, epoch bigint, owner text, inputs json, outputs json, detail text, exit_code integer)
), r as (
    update run set status = :run_status, ended = now(), lease_until = null, outcome = :outcome, detail = t.detail, exit_code = t.exit_code
    from t where run.runid = any (array(select t.runid from t)) and run.runid = t.runid and coalesce(run.status, '') = 'RUNNING'
    returning run.runid
), outs as (
    update datastatus d set status = :out_status, seal = d.seal + 1, modified = now(),
        version = case when :out_status = 'READY' then d.epoch else d.version end,
        tries = case when :out_status = 'READY' then 0 else d.tries end
    where d.datasetid = any (array(select json_array_elements_text(t.outputs) from t)) and d.dataid = any (array(select t.dataid from t))
      and d.locktype = 'OUT' and coalesce(d.status, '') = 'RUNNING' and d.runid = any (array(select r.runid from r))
      and d.epoch = (select t.epoch from t where t.runid = d.runid and t.dataid = d.dataid)
    returning d.datasetid, d.runid
), ins as (
    update datastatus d set status = :in_status, seal = d.seal + 1, modified = now()
    where d.datasetid = any (array(select i ->> 0 from t cross join json_array_elements(t.inputs) i))
      and d.dataid = any (array(select i ->> 1 from t cross join json_array_elements(t.inputs) i))
      and d.jobid = any (array(select t.jobid from t)) and d.locktype = 'IN' and d.status = 'RUNNING' and d.runid = any (array(select r.runid from r))
), ev as (
    insert into event (kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why)
    select :kind, outs.datasetid, t.dataid, t.jobid, t.runid, t.epoch, 'RUNNING', :out_status, t.owner, t.detail from outs join t on t.runid = outs.runid
)
select outs.runid from outs

-- name: manifest_put
-- Insert one manifest, like manifests_put.
-- PostgreSQL: one statement is one round trip.
with put as (
    insert into data_manifest (datasetid, dataid, version, jobid, runid, location, format, bytes, rows, span_lower, span_upper, fingerprint, passed, body)
    values (:datasetid, :dataid, :version, :jobid, :runid, :location, :format, :bytes, :rows, :span_lower, :span_upper, :fingerprint, :passed, :body)
    on conflict (datasetid, dataid, version) do nothing
)
insert into made_from (in_datasetid, in_dataid, in_version, datasetid, dataid, version)
select i ->> 0, i ->> 1, (i ->> 2)::bigint, :datasetid, :dataid, :version from json_array_elements(:body::json -> 'inputs') i
on conflict do nothing

-- name: manifests_put
-- Insert manifests with their lineage; existing versions are unchanged: end_run refuses a second publish of an epoch.
-- PostgreSQL: a list of objects is read as a typed record set.
with put as (
    insert into data_manifest (datasetid, dataid, version, jobid, runid, location, format, bytes, rows, span_lower, span_upper, fingerprint, passed, body)
    select datasetid, dataid, version, jobid, runid, location, format, bytes, rows, span_lower, span_upper, fingerprint, passed, body
    from json_to_recordset(:manifests::json) as m (datasetid text, dataid text, version bigint, jobid text, runid bigint, location text, format text,
        bytes bigint, rows bigint, span_lower text, span_upper text, fingerprint text, passed boolean, body text)
    on conflict (datasetid, dataid, version) do nothing
    returning datasetid, dataid, version, body
)
insert into made_from (in_datasetid, in_dataid, in_version, datasetid, dataid, version)
select i ->> 0, i ->> 1, (i ->> 2)::bigint, put.datasetid, put.dataid, put.version
from put cross join json_array_elements(put.body::json -> 'inputs') i
on conflict do nothing

-- name: locations_put
-- Rewrite locations of versions, unless they changed concurrently.
-- PostgreSQL: a list of lists is a set of JSON values.
update data_manifest m set location = c.value ->> 4 from json_array_elements(:changes::json) c
where m.datasetid = c.value ->> 0 and m.dataid = c.value ->> 1 and m.version = (c.value ->> 2)::bigint and m.location = c.value ->> 3

-- name: give_back
-- Undo a claim whose run did not start; a resubmitted chunk becomes RESUBMIT again.
-- PostgreSQL: one statement is one round trip; every other part depends on the update of the run (r).
with r as (
    update run set status = 'REFUSED', ended = now(), lease_until = null, outcome = :outcome, detail = :detail
    where runid = :runid and coalesce(status, '') = 'RUNNING' returning runid
), outs as (
    update datastatus d set status = 'RESUBMIT', runid = null, tries = greatest(d.tries - 1, 0), seal = d.seal + 1, modified = now()
    where :was_resubmit and d.datasetid = any (array(select json_array_elements_text(:outputs::json))) and d.dataid = :dataid
      and d.locktype = 'OUT' and d.status = 'RUNNING' and d.runid = :runid and exists (select 1 from r)
), ins as (
    update datastatus d set status = 'FAILED', seal = d.seal + 1, modified = now()
    where :was_resubmit and d.datasetid = any (array(select i ->> 0 from json_array_elements(:inputs::json) i))
      and d.dataid = any (array(select i ->> 1 from json_array_elements(:inputs::json) i))
      and d.jobid = :jobid and d.locktype = 'IN' and d.status = 'RUNNING' and d.runid = :runid and exists (select 1 from r)
)
select r.runid from r

-- name: runs_expired
-- Runs with an expired lease, and their number of tries.
-- PostgreSQL: runs that another transaction rescues are skipped.
select r.runid, r.jobid, r.dataid, r.epoch, r.owner, r.inputs, r.lease,
       coalesce((select max(s.tries) from job o
                 cross join lateral (select d.tries from datastatus d where d.datasetid = o.datasetid and d.dataid = r.dataid
                                     and d.locktype = 'OUT' and d.runid = r.runid offset 0) s
                 where o.jobid = r.jobid and o.itemtype = 'OUT'), 1) as tries
from run r where r.status = 'RUNNING' and r.lease_until < lease_now() order by r.runid limit :n
for update of r skip locked

-- name: reads_of_pairs
-- The IN rows of jobs for given chunks, each for one dataid of the job.
-- A row that was consumed for another dataid, under an earlier mapping, does not count.
-- PostgreSQL: a list is joined by LATERAL.
select p.jobid, p.dataid, s.status
from (select p ->> 0 as jobid, p ->> 1 as dataid, p ->> 2 as in_datasetid, p ->> 3 as in_dataid from json_array_elements(:reads::json) p offset 0) p
cross join lateral (select d.status from datastatus d
                    where d.datasetid = p.in_datasetid and d.dataid = p.in_dataid and d.jobid = p.jobid and d.locktype = 'IN'
                      and not coalesce((select r.dataid <> p.dataid from run r where r.runid = d.runid), false) offset 0) s

-- name: ready_inputs_alike
-- The number of READY inputs of many dataids of one job with identical mappings, without one dataset; null if any of the outputs or IN rows exist.
-- PostgreSQL: a list is joined by LATERAL.
select case
    when exists (select 1 from json_array_elements_text(:outputs::json) o cross join json_each_text(:pairs::json) p
                 cross join lateral (select 1 from datastatus d where d.datasetid = o and d.dataid = p.key and d.locktype = 'OUT' offset 0) s)
      or exists (select 1 from json_array_elements_text(:inputs::json) i cross join json_each_text(:pairs::json) p
                 cross join lateral (select 1 from datastatus d where d.datasetid = i and d.dataid = p.key and d.jobid = :jobid and d.locktype = 'IN' offset 0) s) then null
    else (select count(*) from json_array_elements_text(:inputs::json) i cross join json_each_text(:pairs::json) p
          cross join lateral (select d.status from datastatus d where d.datasetid = i and d.dataid = p.key and d.locktype = 'OUT' offset 0) s
          where i <> :ready and s.status = 'READY') end as ready

-- name: pair_facts_alike
-- The facts that decide about many dataids of one job with identical mappings, grouped by equal facts.
-- PostgreSQL: a list is joined by LATERAL, and string_agg joins the statuses.
select f.inputs, f.outputs, f.reads, json_object_agg(f.dataid, f.sort_key)::text as pairs
from (select p.key as dataid, p.value as sort_key,
             (select string_agg(s.status, ',') from unnest(array(select json_array_elements_text(:inputs::json))) i
              cross join lateral (select d.status from datastatus d where d.datasetid = i and d.dataid = p.key and d.locktype = 'OUT' offset 0) s) as inputs,
             (select string_agg(s.status, ',') from unnest(array(select json_array_elements_text(:outputs::json))) o
              cross join lateral (select d.status from datastatus d where d.datasetid = o and d.dataid = p.key and d.locktype = 'OUT' offset 0) s) as outputs,
             (select string_agg(s.status, ',') from unnest(array(select json_array_elements_text(:inputs::json))) i
              cross join lateral (select d.status from datastatus d where d.datasetid = i and d.dataid = p.key and d.jobid = :jobid and d.locktype = 'IN'
                                  and coalesce((select r.dataid from run r where r.runid = d.runid), p.key) = p.key offset 0) s) as reads
      from json_each_text(:pairs::json) p) f
group by f.inputs, f.outputs, f.reads

-- name: candidates_put_alike
-- Write candidates of one job that differ only in their dataid, which replaces * in their inputs.
-- PostgreSQL: a list has json values, which are cast.
insert into candidate (jobid, dataid, sort_key, rank, state, not_before, inputs)
select :jobid, c.key, c.value, :rank::smallint, :state, :not_before, replace(:inputs, '*', c.key) from json_each_text(:pairs::json) c
on conflict (jobid, dataid) do update set sort_key = excluded.sort_key, rank = excluded.rank, state = excluded.state,
    not_before = excluded.not_before, inputs = excluded.inputs

-- name: candidates_put
-- Insert or update candidates.
-- PostgreSQL: a list has json values, which are cast.
insert into candidate (jobid, dataid, sort_key, rank, state, not_before, inputs)
select c ->> 0, c ->> 1, c ->> 2, (c ->> 3)::smallint, c ->> 4, (c ->> 5)::double precision, c ->> 6 from json_array_elements(:candidates::json) c
on conflict (jobid, dataid) do update set sort_key = excluded.sort_key, rank = excluded.rank, state = excluded.state,
    not_before = excluded.not_before, inputs = excluded.inputs

-- name: candidates_drop
-- Remove candidates of one job.
-- PostgreSQL: a list becomes an array first.
delete from candidate where jobid = :jobid and dataid = any (array(select json_array_elements_text(:dataids::json)))

-- name: chunks_given
-- The OUT rows of given chunks, with the status of their runs.
-- PostgreSQL: the rows are locked, in one order, until the transaction ends.
select s.datasetid, s.dataid, s.jobid, s.status, s.epoch, s.version, s.runid, s.tries, s.held, s.sort_key,
       (select r.status from run r where r.runid = s.runid) as run_status
from (select c ->> 0 as datasetid, c ->> 1 as dataid from json_array_elements(:chunks::json) c order by 1, 2 offset 0) c
cross join lateral (select d.* from datastatus d where d.datasetid = c.datasetid and d.dataid = c.dataid and d.locktype = 'OUT' offset 0 for update) s

-- name: readers_given
-- The IN rows of given chunks.
-- PostgreSQL: a list is read by json_array_elements.
select s.datasetid, s.dataid, s.jobid, s.status from json_array_elements(:chunks::json) c
cross join lateral (select d.* from datastatus d where d.datasetid = c ->> 0 and d.dataid = c ->> 1 and d.locktype = 'IN' offset 0) s

-- name: typed_given
-- Whether given chunks have changes that are not folded in yet.
-- PostgreSQL: a list has json values.
select exists (select 1 from note n where n.locktype = 'OUT' and n.who is not null
               and (n.datasetid, n.dataid) in (select c ->> 0, c ->> 1 from json_array_elements(:chunks::json) c)) as typed

-- name: candidates_given
-- The states of given candidates.
-- PostgreSQL: a list is joined by LATERAL.
select c.jobid, c.dataid, c.state
from (select p ->> 0 as jobid, p ->> 1 as dataid from json_array_elements(:pairs::json) p offset 0) p
cross join lateral (select c.jobid, c.dataid, c.state from candidate c where c.jobid = p.jobid and c.dataid = p.dataid offset 0) c

-- name: deferred_given
-- Which of given candidates are deferred.
-- PostgreSQL: the candidates are locked before the status rows, in one order, like in a claim, to avoid deadlocks.
select p.jobid, p.dataid from (select p ->> 0 as jobid, p ->> 1 as dataid from json_array_elements(:pairs::json) p order by 1, 2 offset 0) p
cross join lateral (select c.state from candidate c where c.jobid = p.jobid and c.dataid = p.dataid offset 0 for update) locked
where locked.state = 'DEFERRED'

-- name: chunks_put
-- Write OUT rows. Returns how many were written.
-- PostgreSQL: rows that were inserted or claimed concurrently are not overwritten; a list of objects is read as a typed record set; timestamps have their default.
with c as materialized (
    select * from json_to_recordset(:chunks::json) as c (datasetid text, dataid text, jobid text, status text, epoch bigint, version bigint, held text, sort_key text, lower text, upper text, is_new boolean)
), fresh as (
    insert into datastatus (datasetid, dataid, jobid, locktype, status, epoch, version, tries, held, sort_key, lowerbound, upperbound, seal)
    select c.datasetid, c.dataid, c.jobid, 'OUT', c.status, c.epoch, c.version, 0, c.held, c.sort_key, c.lower, c.upper, 1 from c where c.is_new
    on conflict (datasetid, dataid) where locktype = 'OUT' do nothing
    returning 1
), outs as (
    insert into datastatus as d (datasetid, dataid, jobid, locktype, status, epoch, version, tries, held, sort_key, lowerbound, upperbound, seal)
    select c.datasetid, c.dataid, c.jobid, 'OUT', c.status, c.epoch, c.version, 0, c.held, c.sort_key, c.lower, c.upper, 1 from c where not c.is_new
    on conflict (datasetid, dataid) where locktype = 'OUT' do update set
        status = excluded.status, epoch = excluded.epoch, version = excluded.version, tries = 0, held = excluded.held, sort_key = excluded.sort_key,
        lowerbound = coalesce(excluded.lowerbound, d.lowerbound), upperbound = coalesce(excluded.upperbound, d.upperbound),
        seal = d.seal + 1, modified = now()
    where d.status <> 'RUNNING' or d.epoch <= excluded.epoch
    returning 1
)
select (select count(*) from fresh) + (select count(*) from outs) as written

-- name: chunks_announce
-- Announce chunks with one version: write OUT rows and events. Returns how many rows were written.
-- PostgreSQL: rows that were written concurrently are not overwritten; one statement is one round trip; events have the time of the lock, not of the begin of the transaction.
with c as materialized (
    select c ->> 0 as dataid, c ->> 1 as sort_key, c ->> 2 as lower, c ->> 3 as upper from json_array_elements(:chunks::json) c
), outs as (
    insert into datastatus as d (datasetid, dataid, jobid, locktype, status, epoch, version, sort_key, lowerbound, upperbound, seal)
    select :datasetid, c.dataid, :jobid, 'OUT', 'READY', :version::bigint, :version::bigint, c.sort_key, c.lower, c.upper, 1 from c
    on conflict (datasetid, dataid) where locktype = 'OUT' do update set
        status = excluded.status, epoch = excluded.epoch, version = excluded.version, tries = 0, held = null, sort_key = excluded.sort_key,
        lowerbound = coalesce(excluded.lowerbound, d.lowerbound), upperbound = coalesce(excluded.upperbound, d.upperbound),
        seal = d.seal + 1, modified = now()
    where d.status = :before
    returning d.dataid
), announced_events as (
    insert into event (kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, at)
    select 'announced', :datasetid, outs.dataid, :jobid, :runid::bigint, :version::bigint, :before, 'READY', :who, :why, clock_timestamp() from outs
)
select count(*) as written from outs

-- name: versions_given
-- The highest version of each given chunk, among manifests, inputs and recalls.
-- PostgreSQL: a list is joined by LATERAL.
select c.dataid, max(v.version) as version from (select json_array_elements_text(:dataids::json) as dataid offset 0) c
cross join lateral (
    select m.version from data_manifest m where m.datasetid = :datasetid and m.dataid = c.dataid
    union all select f.in_version from made_from f where f.in_datasetid = :datasetid and f.in_dataid = c.dataid
    union all select r.version from recalled r where r.datasetid = :datasetid and r.dataid = c.dataid offset 0) v
group by c.dataid

-- name: events_put
-- Append events.
-- PostgreSQL: a list of objects is read as a typed record set; timestamps have their default.
insert into event (at, kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt)
select coalesce(at, now()), kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt
from json_to_recordset(:events::json) as e (at timestamptz, kind text, datasetid text, dataid text, jobid text, runid bigint, epoch bigint,
    before text, after text, who text, why text, receipt text)

-- name: chunks_mark
-- Mark rows before the engine removes them, so that the trigger writes no note.
-- PostgreSQL: a list becomes an array first.
update datastatus set seal = -1
where datasetid = :datasetid and locktype = :locktype and jobid = :jobid and dataid = any (array(select json_array_elements_text(:dataids::json)))

-- name: chunks_forget
-- Remove the marked rows; history stays.
-- PostgreSQL: a list becomes an array first.
delete from datastatus
where datasetid = :datasetid and locktype = :locktype and jobid = :jobid and dataid = any (array(select json_array_elements_text(:dataids::json))) and seal = -1

-- name: readings_given
-- The IN rows of one job for given chunks, each for one dataid of the job; rows consumed for another dataid are left out.
-- PostgreSQL: a list is joined by LATERAL.
select s.datasetid, s.dataid, s.status
from (select c ->> 0 as datasetid, c ->> 1 as dataid, c ->> 2 as made from json_array_elements(:chunks::json) c offset 0) c
cross join lateral (select d.datasetid, d.dataid, d.status from datastatus d
                    where d.datasetid = c.datasetid and d.dataid = c.dataid and d.jobid = :jobid and d.locktype = 'IN'
                      and not coalesce((select r.dataid <> c.made from run r where r.runid = d.runid), false) offset 0) s

-- name: chunk_sort_keys_put
-- Set the positions of chunks.
-- PostgreSQL: a list is joined by LATERAL; an UPDATE … FROM would not be driven by the list.
insert into datastatus as d (datasetid, dataid, jobid, locktype, status, sort_key, seal)
select s.datasetid, s.dataid, s.jobid, s.locktype, s.status, c.sort_key, 1
from (select c ->> 0 as datasetid, c ->> 1 as dataid, c ->> 2 as sort_key from json_array_elements(:chunks::json) c offset 0) c
cross join lateral (select d.* from datastatus d where d.datasetid = c.datasetid and d.dataid = c.dataid and d.locktype = 'OUT' offset 0) s
on conflict (datasetid, dataid) where locktype = 'OUT' do update set sort_key = excluded.sort_key, seal = d.seal + 1

-- name: chunks_noted
-- Complete rows that were written by SQL: set positions and reset tries; a typed time stays.
-- A READY chunk keeps its run only if that run published it.
-- PostgreSQL: a list is joined by LATERAL; an UPDATE … FROM would not be driven by the list.
insert into datastatus as d (datasetid, dataid, jobid, locktype, status, sort_key, seal)
select s.datasetid, s.dataid, s.jobid, s.locktype, s.status, c.sort_key, 1
from (select c ->> 0 as datasetid, c ->> 1 as dataid, c ->> 2 as sort_key from json_array_elements(:chunks::json) c offset 0) c
cross join lateral (select d.* from datastatus d where d.datasetid = c.datasetid and d.dataid = c.dataid and d.locktype = 'OUT' offset 0) s
on conflict (datasetid, dataid) where locktype = 'OUT' do update set sort_key = excluded.sort_key, tries = 0, seal = d.seal + 1,
    runid = case when d.status <> 'READY' or exists (select 1 from run r where r.runid = d.runid and r.status = 'READY') then d.runid end

-- name: pool_row
-- The slots of a pool, its hours, and the time of day.
-- PostgreSQL: the time of day is the server's.
select slots, options, extract(epoch from clock_timestamp())::double precision as now from pool where poolid = :pool

-- name: span_counts
-- The number of chunks in each given span, in total and by status other than READY, counted up to :most.
-- PostgreSQL: a list has json values with their positions.
select
       (select count(*) from (select 1 from datastatus d where d.locktype = 'OUT' and d.datasetid = (v.value ->> 0)
                               and d.sort_key >= (v.value ->> 1) and d.sort_key <= (v.value ->> 2) limit :most) c) as chunks,
       (select count(*) from (select 1 from datastatus d where d.status = 'RUNNING' and d.status <> 'READY' and d.locktype = 'OUT' and d.datasetid = (v.value ->> 0)
                               and d.sort_key >= (v.value ->> 1) and d.sort_key <= (v.value ->> 2) limit :most) c) as running,
       (select count(*) from (select 1 from datastatus d where d.status = 'FAILED' and d.status <> 'READY' and d.locktype = 'OUT' and d.datasetid = (v.value ->> 0)
                               and d.sort_key >= (v.value ->> 1) and d.sort_key <= (v.value ->> 2) limit :most) c) as failed,
       (select count(*) from (select 1 from datastatus d where d.status = 'RESUBMIT' and d.status <> 'READY' and d.locktype = 'OUT' and d.datasetid = (v.value ->> 0)
                               and d.sort_key >= (v.value ->> 1) and d.sort_key <= (v.value ->> 2) limit :most) c) as resubmit,
       (select count(*) from (select 1 from datastatus d where d.status = 'HOLD' and d.status <> 'READY' and d.locktype = 'OUT' and d.datasetid = (v.value ->> 0)
                               and d.sort_key >= (v.value ->> 1) and d.sort_key <= (v.value ->> 2) limit :most) c) as hold,
       (select count(*) from (select 1 from datastatus d where d.status = 'PENDING' and d.status <> 'READY' and d.locktype = 'OUT' and d.datasetid = (v.value ->> 0)
                               and d.sort_key >= (v.value ->> 1) and d.sort_key <= (v.value ->> 2) limit :most) c) as pending
from json_array_elements(:spans::json) with ordinality v (value, position) order by v.position

-- name: ends_given
-- The first and the last dataid of each given span of a dataset.
-- PostgreSQL: a list has json values with their positions.
select
       (select d.dataid from datastatus d where d.locktype = 'OUT' and d.datasetid = (v.value ->> 0)
        and d.sort_key >= (v.value ->> 1) and d.sort_key <= (v.value ->> 2) order by d.sort_key, d.dataid limit 1) as first_dataid,
       (select d.dataid from datastatus d where d.locktype = 'OUT' and d.datasetid = (v.value ->> 0)
        and d.sort_key >= (v.value ->> 1) and d.sort_key <= (v.value ->> 2) order by d.sort_key desc, d.dataid desc limit 1) as last_dataid
from json_array_elements(:spans::json) with ordinality v (value, position) order by v.position

-- name: span_chunks
-- The number of chunks in each given span, counted up to :most.
-- PostgreSQL: a list has json values with their positions.
select (select count(*) from (select 1 from datastatus d where d.locktype = 'OUT' and d.datasetid = (v.value ->> 0)
                               and d.sort_key >= (v.value ->> 1) and d.sort_key <= (v.value ->> 2) limit :most) c) as chunks
from json_array_elements(:spans::json) with ordinality v (value, position) order by v.position

-- name: chunks_within
-- The chunks of given spans of datasets, with their statuses.
-- PostgreSQL: a list is joined by LATERAL.
select s.datasetid, s.dataid, s.status
from json_array_elements(:spans::json) v
cross join lateral (select d.datasetid, d.dataid, d.status from datastatus d
                    where d.locktype = 'OUT' and d.datasetid = (v ->> 0)
                      and d.sort_key >= (v ->> 1) and d.sort_key <= (v ->> 2) offset 0) s
limit :most

-- name: members_put
-- Add chunks to an incident, unless they belong to one of its kind.
-- PostgreSQL: a list has json values.
insert into incident_chunk (kind, datasetid, dataid, incidentid, eventid)
select :kind, c ->> 0, c ->> 1, :incidentid::bigint, (c ->> 2)::bigint from json_array_elements(:chunks::json) c
on conflict (kind, datasetid, dataid) do nothing

-- name: members_given
-- Which of given chunks belong to an incident of this kind.
-- PostgreSQL: a list has json values.
select c.datasetid, c.dataid from json_array_elements(:chunks::json) g
join incident_chunk c on c.kind = :kind and c.datasetid = g ->> 0 and c.dataid = g ->> 1

-- name: unsettled_between
-- Chunks that are not READY in given spans of datasets.
-- PostgreSQL: a list is joined by LATERAL; a status that is not a literal would cause a scan of the whole span.
select s.datasetid, s.dataid, s.status
from json_array_elements(:spans::json) v
cross join lateral (
    select d.datasetid, d.dataid, d.status from datastatus d where d.status = 'RUNNING' and d.status <> 'READY' and d.locktype = 'OUT'
        and d.datasetid = (v ->> 0) and d.sort_key >= (v ->> 1) and d.sort_key <= (v ->> 2)
    union all select d.datasetid, d.dataid, d.status from datastatus d where d.status = 'FAILED' and d.status <> 'READY' and d.locktype = 'OUT'
        and d.datasetid = (v ->> 0) and d.sort_key >= (v ->> 1) and d.sort_key <= (v ->> 2)
    union all select d.datasetid, d.dataid, d.status from datastatus d where d.status = 'RESUBMIT' and d.status <> 'READY' and d.locktype = 'OUT'
        and d.datasetid = (v ->> 0) and d.sort_key >= (v ->> 1) and d.sort_key <= (v ->> 2)
    union all select d.datasetid, d.dataid, d.status from datastatus d where d.status = 'HOLD' and d.status <> 'READY' and d.locktype = 'OUT'
        and d.datasetid = (v ->> 0) and d.sort_key >= (v ->> 1) and d.sort_key <= (v ->> 2)
    union all select d.datasetid, d.dataid, d.status from datastatus d where d.status = 'PENDING' and d.status <> 'READY' and d.locktype = 'OUT'
        and d.datasetid = (v ->> 0) and d.sort_key >= (v ->> 1) and d.sort_key <= (v ->> 2)) s
limit :most

-- name: statuses_given
-- The status, version and run of given chunks.
-- PostgreSQL: a list is joined by LATERAL.
select s.datasetid, s.dataid, s.status, s.version, s.runid
from (select c ->> 0 as datasetid, c ->> 1 as dataid from json_array_elements(:chunks::json) c offset 0) c
cross join lateral (select d.datasetid, d.dataid, d.status, d.version, d.runid from datastatus d
                    where d.datasetid = c.datasetid and d.dataid = c.dataid and d.locktype = 'OUT' offset 0) s

-- name: heartbeat
-- Extend the leases of these runs, if they still hold their chunks.
-- PostgreSQL: a list becomes an array.
update run set lease_until = lease_now() + lease
where runid = any (array(select json_array_elements_text(:runids::json)::bigint)) and status = 'RUNNING'
  and exists (select 1 from job o
              join datastatus s on s.datasetid = o.datasetid and s.dataid = run.dataid and s.locktype = 'OUT'
                               and s.status = 'RUNNING' and s.runid = run.runid
              where o.jobid = run.jobid and o.itemtype = 'OUT')
returning runid, lease_until

-- name: run_logs_put
-- Store the log paths of runs.
-- PostgreSQL: a list has json values, which are cast.
update run set log = l.value ->> 1
from json_array_elements(:logs::json) l (value) where run.runid = (l.value ->> 0)::bigint

-- name: inputs_given
-- The input chunks of runs, with the manifests of the versions read and the bounds of the chunks.
-- PostgreSQL: a list has json values with their positions, and is joined by LATERAL.
select i.runid, i.datasetid, i.dataid, i.version, s.lowerbound as lower, s.upperbound as upper,
       m.location, m.format, m.bytes, m.rows, m.span_lower, m.span_upper, m.fingerprint, m.body
from (select (v.value ->> 0)::bigint as runid, v.value ->> 1 as datasetid, v.value ->> 2 as dataid, (v.value ->> 3)::bigint as version, v.position
      from json_array_elements(:inputs::json) with ordinality v (value, position) offset 0) i
left join lateral (select d.lowerbound, d.upperbound from datastatus d
                   where d.datasetid = i.datasetid and d.dataid = i.dataid and d.locktype = 'OUT' offset 0) s on true
left join lateral (select d.location, d.format, d.bytes, d.rows, d.span_lower, d.span_upper, d.fingerprint, d.body from data_manifest d
                   where d.datasetid = i.datasetid and d.dataid = i.dataid and d.version = i.version offset 0) m on true
order by i.position

-- name: datasets_not_encrypted
-- Datasets with a plain-text password, stored before the schema refused that.
-- PostgreSQL: the pattern is a regular expression.
select datasetid from dataset where coalesce(encryptedpass, '') <> '' and not (
    (encryptedpass ~ '^odf[12]:[A-Za-z0-9_-]+={0,2}$' and length(encryptedpass) between 69 and 16384)
    or (encryptedpass ~ '^[A-Za-z0-9+/]+={0,2}$' and length(encryptedpass) between 40 and 16384
        and (length(encryptedpass) % 4 = 0 or encryptedpass !~ '='))) order by datasetid

-- name: links_from_given
-- The versions that were made from given chunks, by whom and when.
-- PostgreSQL: a list of lists is a set of JSON values.
select f.in_datasetid, f.in_dataid, f.in_version, f.datasetid, f.dataid, f.version, m.jobid, m.runid, m.published,
       (select i.fingerprint from data_manifest i
        where i.datasetid = f.in_datasetid and i.dataid = f.in_dataid and i.version = f.in_version) as in_fingerprint
from json_array_elements(:chunks::json) c
join made_from f on f.in_datasetid = c ->> 0 and f.in_dataid = c ->> 1
left join data_manifest m on m.datasetid = f.datasetid and m.dataid = f.dataid and m.version = f.version
order by f.in_datasetid, f.in_dataid, f.datasetid, f.dataid, f.version

-- name: links_into_given
-- The versions that given versions were made from.
-- PostgreSQL: a list of lists is a set of JSON values.
select i ->> 0 as in_datasetid, i ->> 1 as in_dataid, (i ->> 2)::bigint as in_version, m.datasetid, m.dataid, m.version, m.jobid, m.runid, m.published,
       (select f.fingerprint from data_manifest f
        where f.datasetid = i ->> 0 and f.dataid = i ->> 1 and f.version = (i ->> 2)::bigint) as in_fingerprint
from json_array_elements(:versions::json) c
join data_manifest m on m.datasetid = c ->> 0 and m.dataid = c ->> 1 and m.version = (c ->> 2)::bigint
cross join json_array_elements(m.body::json -> 'inputs') i
order by m.datasetid, m.dataid, m.version, 1, 2

-- name: inputs_now_given
-- The chunks that the current versions of given chunks were made from, one hop upstream.
-- PostgreSQL: a list of lists is a set of JSON values.
select s.datasetid, s.dataid, i ->> 0 as in_datasetid, i ->> 1 as in_dataid
from json_array_elements(:chunks::json) c
join datastatus s on s.datasetid = c ->> 0 and s.dataid = c ->> 1 and s.locktype = 'OUT'
join data_manifest m on m.datasetid = s.datasetid and m.dataid = s.dataid and m.version = s.version
cross join json_array_elements(m.body::json -> 'inputs') i

-- name: current_given
-- The status of given chunks, with the content of their current version, and whether it is recalled.
-- PostgreSQL: a list of lists is a set of JSON values.
select s.datasetid, s.dataid, s.jobid, s.status, s.version, m.fingerprint, r.version is not null as is_recalled
from json_array_elements(:chunks::json) c
join datastatus s on s.datasetid = c ->> 0 and s.dataid = c ->> 1 and s.locktype = 'OUT'
left join data_manifest m on m.datasetid = s.datasetid and m.dataid = s.dataid and m.version = s.version
left join recalled r on r.datasetid = s.datasetid and r.dataid = s.dataid and r.version = s.version

-- name: chunks_then
-- The state of given chunks at a moment: the last event before and the first after, the last publish, and the current state.
-- An undone claim leaves the status before it; events of IN rows do not count.
-- PostgreSQL: a list of lists is a set of JSON values, and is joined by LATERAL.
select c.datasetid, c.dataid, e.at, e.kind, e.jobid, e.runid, e.epoch,
       case when e.kind in ('refused', 'given back') then (select q.before from event q where q.datasetid = c.datasetid and q.dataid = c.dataid and q.runid = e.runid
                                          and q.kind = 'claimed' order by q.eventid desc limit 1) else e.after end as after,
       n.at as next_at, n.kind as next_kind, n.before as next_before, v.kind as version_kind, v.epoch as version_epoch, v.why as version_why,
       s.status as status_now, s.version as version_now, s.jobid as jobid_now, s.runid as runid_now, s.modified as modified_now, s.sort_key
from (select a.value ->> 0 as datasetid, a.value ->> 1 as dataid, a.position
      from json_array_elements(:chunks::json) with ordinality a (value, position) offset 0) c
left join lateral (
    select p.* from event p where p.datasetid = c.datasetid and p.dataid = c.dataid and p.at <= :at
      and (p.after in ('RUNNING', 'READY', 'FAILED', 'RESUBMIT', 'HOLD', 'PENDING') or (p.after is null and p.kind in ('forgotten', 'sql'))
           or (p.kind in ('refused', 'given back') and p.before = 'RUNNING'))
      and p.kind <> 'sql reading' and not (p.kind = 'sql' and (p.before = 'DONE' or p.after = 'DONE' or (
          exists (select 1 from job j where j.jobid = p.jobid and j.datasetid = p.datasetid and j.itemtype = 'IN')
          and not exists (select 1 from job j where j.jobid = p.jobid and j.datasetid = p.datasetid and j.itemtype = 'OUT'))))
    order by p.at desc, p.eventid desc limit 1) e on true
left join lateral (
    select p.* from event p where p.datasetid = c.datasetid and p.dataid = c.dataid and p.at > :at
      and (p.after in ('RUNNING', 'READY', 'FAILED', 'RESUBMIT', 'HOLD', 'PENDING') or (p.after is null and p.kind in ('forgotten', 'sql'))
           or (p.kind in ('refused', 'given back') and p.before = 'RUNNING'))
      and p.kind <> 'sql reading' and not (p.kind = 'sql' and (p.before = 'DONE' or p.after = 'DONE' or (
          exists (select 1 from job j where j.jobid = p.jobid and j.datasetid = p.datasetid and j.itemtype = 'IN')
          and not exists (select 1 from job j where j.jobid = p.jobid and j.datasetid = p.datasetid and j.itemtype = 'OUT'))))
    order by p.at asc, p.eventid asc limit 1) n on true
left join lateral (
    select p.* from event p where p.datasetid = c.datasetid and p.dataid = c.dataid and p.at <= :at
      and p.kind in ('published', 'announced', 'rolled back')
    order by p.at desc, p.eventid desc limit 1) v on true
left join lateral (select * from datastatus d where d.datasetid = c.datasetid and d.dataid = c.dataid and d.locktype = 'OUT' offset 0) s on true
order by c.position

-- name: chunks_of_events
-- The chunks of given datasets in the events between two eventids.
-- PostgreSQL: a list becomes an array first.
select datasetid, dataid from event
where eventid > :floor and eventid <= :last and dataid is not null
  and datasetid || '' = any (array(select json_array_elements_text(:datasets::json)))

-- name: links_of_versions
-- The versions made from given versions: at most :n of each, with the last dataids.
-- PostgreSQL: a list of lists is a set of JSON values, and is joined by LATERAL.
select f.in_datasetid, f.in_dataid, f.in_version, f.datasetid, f.dataid, f.version, m.jobid, m.runid, m.published, null::text as in_fingerprint
from json_array_elements(:versions::json) c
cross join lateral (
    select k.* from made_from k
    where k.in_datasetid = c ->> 0 and k.in_dataid = c ->> 1 and k.in_version = (c ->> 2)::bigint
    order by k.datasetid desc, k.dataid desc, k.version desc limit :n) f
left join data_manifest m on m.datasetid = f.datasetid and m.dataid = f.dataid and m.version = f.version
order by f.in_datasetid, f.in_dataid, f.datasetid, f.dataid, f.version

-- name: versions_made
-- Who made given versions and when, from their manifests or announcements.
-- PostgreSQL: a list of lists is a set of JSON values, and is joined by LATERAL.
select c ->> 0 as datasetid, c ->> 1 as dataid, (c ->> 2)::bigint as version, coalesce(m.jobid, e.jobid) as jobid,
       coalesce(m.runid, e.runid) as runid, coalesce(m.published, e.at) as at, e.who
from json_array_elements(:versions::json) c
left join lateral (select d.* from data_manifest d where d.datasetid = c ->> 0 and d.dataid = c ->> 1 and d.version = (c ->> 2)::bigint offset 0) m on true
left join lateral (
    select p.* from event p where p.datasetid = c ->> 0 and p.dataid = c ->> 1 and p.epoch = (c ->> 2)::bigint
      and p.kind in ('published', 'announced') order by p.eventid limit 1) e on true
where m.version is not null or e.eventid is not null

-- name: superseded_given
-- For given chunks with a new version, and given links: current versions that were made from an outdated input version,
-- with whether the content is the same; and existing stale marks, with a jobid of ''.
-- PostgreSQL: a list is joined by LATERAL.
select f.datasetid, f.dataid, f.version, s.jobid, s.status, f.in_datasetid, f.in_dataid, f.in_version,
       coalesce((select was.fingerprint from data_manifest was
                 where was.datasetid = f.in_datasetid and was.dataid = f.in_dataid and was.version = f.in_version)
              = (select new.fingerprint from data_manifest new
                 where new.datasetid = f.in_datasetid and new.dataid = f.in_dataid and new.version = n.version), false) as is_same
from (select f.datasetid, f.dataid, f.version, f.in_datasetid, f.in_dataid, f.in_version
      from (select c ->> 0 as datasetid, c ->> 1 as dataid from json_array_elements(:chunks::json) c offset 0) c
      cross join lateral (select * from made_from m where m.in_datasetid = c.datasetid and m.in_dataid = c.dataid offset 0) f
      union all
      select l ->> 0, l ->> 1, (l ->> 2)::bigint, l ->> 3, l ->> 4, (l ->> 5)::bigint from json_array_elements(:links::json) l offset 0) f
cross join lateral (select d.version from datastatus d
                    where d.datasetid = f.in_datasetid and d.dataid = f.in_dataid and d.locktype = 'OUT' and d.version <> f.in_version offset 0) n
cross join lateral (select d.jobid, d.status from datastatus d
                    where d.datasetid = f.datasetid and d.dataid = f.dataid and d.locktype = 'OUT' and d.version = f.version offset 0) s
where f.in_datasetid <> f.datasetid or f.in_dataid <> f.dataid
union all
select k.datasetid, k.dataid, k.version, '', '', k.in_datasetid, k.in_dataid, k.in_version, true
from json_array_elements(:chunks::json) c
cross join lateral (select * from stale k where k.datasetid = c ->> 0 and k.dataid = c ->> 1 offset 0) k
union all
select k.datasetid, k.dataid, k.version, '', '', k.in_datasetid, k.in_dataid, k.in_version, true
from json_array_elements(:chunks::json) c
cross join lateral (select * from stale k where k.in_datasetid = c ->> 0 and k.in_dataid = c ->> 1 offset 0) k

-- name: stale_clear
-- Remove the stale marks of given chunks, as products and as inputs.
-- PostgreSQL: both deletes are one statement.
with c as materialized (select c ->> 0 as datasetid, c ->> 1 as dataid from json_array_elements(:chunks::json) c)
delete from stale k using c where (k.datasetid = c.datasetid and k.dataid = c.dataid) or (k.in_datasetid = c.datasetid and k.in_dataid = c.dataid)

-- name: stale_put
-- Insert stale marks.
-- PostgreSQL: a list of lists is a set of JSON values.
insert into stale (datasetid, dataid, version, in_datasetid, in_dataid, in_version)
select k ->> 0, k ->> 1, (k ->> 2)::bigint, k ->> 3, k ->> 4, (k ->> 5)::bigint from json_array_elements(:marks::json) k
on conflict (datasetid, dataid, in_datasetid, in_dataid) do update set version = excluded.version, in_version = excluded.in_version

-- name: stale_chunks
-- At most n chunks whose current version is stale, directly or through an input; outputs of jobs that ignore new versions are left out.
-- PostgreSQL: the rows of a recursion are joined by LATERAL.
with recursive found (datasetid, dataid, version, is_direct) as (
    select k.datasetid, k.dataid, k.version, 1 from stale k
    cross join lateral (select 1 from datastatus s where s.datasetid = k.datasetid and s.dataid = k.dataid and s.locktype = 'OUT' and s.version = k.version offset 0) s
    cross join lateral (select 1 from datastatus n where n.datasetid = k.in_datasetid and n.dataid = k.in_dataid and n.locktype = 'OUT'
                        and n.version <> k.in_version offset 0) n
    where k.datasetid <> all (array(select json_array_elements_text(:ignoring::json)))
    union
    select f.datasetid, f.dataid, f.version, 0 from found u
    cross join lateral (select * from made_from m where m.in_datasetid = u.datasetid and m.in_dataid = u.dataid offset 0) f
    cross join lateral (select 1 from datastatus s where s.datasetid = f.datasetid and s.dataid = f.dataid and s.locktype = 'OUT' and s.version = f.version offset 0) s
    where f.datasetid <> all (array(select json_array_elements_text(:ignoring::json))) and (f.datasetid <> u.datasetid or f.dataid <> u.dataid)
), first as materialized (select * from found limit :n)
select f.datasetid, f.dataid, s.jobid, s.status, s.version, s.sort_key, f.is_direct
from (select datasetid, dataid, max(is_direct) as is_direct from first group by datasetid, dataid) f
cross join lateral (select * from datastatus d where d.datasetid = f.datasetid and d.dataid = f.dataid and d.locktype = 'OUT' offset 0) s

-- name: stale_marks_given
-- Why given chunks are stale themselves: the input versions that they were made from, and the current ones.
-- PostgreSQL: a list is joined by LATERAL.
select k.datasetid, k.dataid, k.version, k.in_datasetid, k.in_dataid, k.in_version, n.version as in_now
from json_array_elements(:chunks::json) c
cross join lateral (select * from stale k where k.datasetid = c ->> 0 and k.dataid = c ->> 1 offset 0) k
cross join lateral (select 1 from datastatus s where s.datasetid = k.datasetid and s.dataid = k.dataid and s.locktype = 'OUT' and s.version = k.version offset 0) s
cross join lateral (select d.version from datastatus d where d.datasetid = k.in_datasetid and d.dataid = k.in_dataid and d.locktype = 'OUT'
                    and d.version <> k.in_version offset 0) n
order by 1, 2, 4, 5

-- name: remake_put
-- Record that chunks are RESUBMIT only because an input is newer.
-- PostgreSQL: a list of lists is a set of JSON values.
insert into remake (datasetid, dataid, version) select r ->> 0, r ->> 1, (r ->> 2)::bigint from json_array_elements(:chunks::json) r
on conflict (datasetid, dataid) do update set version = excluded.version

-- name: remake_drop
-- Remove such records.
-- PostgreSQL: a list of lists is a set of JSON values.
delete from remake r using json_array_elements(:chunks::json) c where r.datasetid = c ->> 0 and r.dataid = c ->> 1

-- name: remakes_from_given
-- Chunks recorded by remake_put that were made from given chunks; without chunks with changes that are not folded in yet.
-- PostgreSQL: a list is joined by LATERAL, and the rows are locked, in one order.
select r.datasetid, r.dataid, r.version, s.jobid, s.epoch, s.sort_key
from (select distinct r.datasetid, r.dataid, r.version from json_array_elements(:chunks::json) c
      cross join lateral (select * from made_from m where m.in_datasetid = c ->> 0 and m.in_dataid = c ->> 1 offset 0) f
      cross join lateral (select * from remake r where r.datasetid = f.datasetid and r.dataid = f.dataid and r.version = f.version offset 0) r
      order by 1, 2) r
cross join lateral (select d.jobid, d.epoch, d.sort_key from datastatus d where d.datasetid = r.datasetid and d.dataid = r.dataid and d.locktype = 'OUT'
                    and d.status = 'RESUBMIT' and d.version = r.version offset 0 for update) s
where not exists (select 1 from note n where n.datasetid = r.datasetid and n.dataid = r.dataid and n.locktype = 'OUT' and n.who is not null)

-- name: recalled_put
-- Record recalled versions.
-- PostgreSQL: a list of lists is a set of JSON values.
insert into recalled (datasetid, dataid, version, who, why)
select r ->> 0, r ->> 1, (r ->> 2)::bigint, :who, :why from json_array_elements(:versions::json) r
on conflict do nothing

-- name: recalled_given
-- The recalled versions of given chunks: by whom, why and when.
-- PostgreSQL: a list is joined by LATERAL.
select r.datasetid, r.dataid, r.version, r.who, r.why, r.at from json_array_elements(:chunks::json) c
cross join lateral (select * from recalled r where r.datasetid = c ->> 0 and r.dataid = c ->> 1 offset 0) r
order by 1, 2, 3

-- name: made_from_version
-- A version, and every version downstream of it or of a version with the same content; at most n.
-- PostgreSQL: the rows of a recursion are joined by LATERAL.
with recursive found (datasetid, dataid, version) as (
    select :datasetid::text, :dataid::text, :version::bigint
    union
    select f.datasetid, f.dataid, f.version from found u
    cross join lateral (
        select m.datasetid, m.dataid, m.version from made_from m
        where m.in_datasetid = u.datasetid and m.in_dataid = u.dataid and m.in_version = u.version
        union all
        select m.datasetid, m.dataid, m.version from data_manifest m where m.datasetid = u.datasetid and m.dataid = u.dataid
          and m.fingerprint = (select o.fingerprint from data_manifest o where o.datasetid = u.datasetid and o.dataid = u.dataid and o.version = u.version)
        offset 0) f
)
select datasetid, dataid, version from found limit :n

-- name: descendants
-- At most n current versions downstream of any version of a chunk, each with its input.
-- PostgreSQL: the rows of a recursion are joined by LATERAL.
with recursive found (datasetid, dataid, version, in_datasetid, in_dataid, in_version) as (
    select f.datasetid, f.dataid, f.version, f.in_datasetid, f.in_dataid, f.in_version
    from made_from f
    cross join lateral (select 1 from datastatus s where s.datasetid = f.datasetid and s.dataid = f.dataid and s.locktype = 'OUT' and s.version = f.version offset 0) s
    where f.in_datasetid = :datasetid and f.in_dataid = :dataid and (f.datasetid <> :datasetid or f.dataid <> :dataid)
    union
    select f.datasetid, f.dataid, f.version, f.in_datasetid, f.in_dataid, f.in_version from found u
    cross join lateral (select * from made_from m where m.in_datasetid = u.datasetid and m.in_dataid = u.dataid offset 0) f
    cross join lateral (select 1 from datastatus s where s.datasetid = f.datasetid and s.dataid = f.dataid and s.locktype = 'OUT' and s.version = f.version offset 0) s
    where f.datasetid <> u.datasetid or f.dataid <> u.dataid
), first as materialized (select * from found limit :n)
select f.in_datasetid, f.in_dataid, f.in_version, f.datasetid, f.dataid, f.version, m.jobid, m.runid, m.published, s.status, s.sort_key
from first f
cross join lateral (select * from datastatus d where d.datasetid = f.datasetid and d.dataid = f.dataid and d.locktype = 'OUT' offset 0) s
left join lateral (select * from data_manifest d where d.datasetid = f.datasetid and d.dataid = f.dataid and d.version = f.version offset 0) m on true

-- name: run_counts
-- Outcomes and durations of runs: those between two runids, and given ones that were running at the last count.
-- PostgreSQL: a list is read by json_array_elements_text, and timestamps have a type.
select jobid, status, outcome, is_new, bucket, count(*) as n, sum(seconds) as seconds
from (select jobid, status, outcome, is_new, seconds,
             case when seconds <= 0.1 then 0 when seconds <= 1 then 1 when seconds <= 5 then 2 when seconds <= 15 then 3
                  when seconds <= 60 then 4 when seconds <= 300 then 5 when seconds <= 900 then 6 when seconds <= 3600 then 7
                  when seconds <= 14400 then 8 when seconds <= 86400 then 9 else 10 end as bucket
      from (select jobid, status, outcome, 1 as is_new, greatest(coalesce(extract(epoch from ended - started), 0), 0)::double precision as seconds
            from run where runid > :after and runid <= :upto
            union all
            select jobid, status, outcome, 0 as is_new, greatest(coalesce(extract(epoch from ended - started), 0), 0)::double precision as seconds
            from run where runid in (select e::bigint from json_array_elements_text(:ended::json) e)) each_run) in_buckets
group by jobid, status, outcome, is_new, bucket

-- name: runs_took_given
-- The durations in seconds of the last successful runs of given jobs, at most :n of each.
-- PostgreSQL: a list is read by json_array_elements_text, and timestamps are subtracted.
select t.jobid, t.seconds from (
    select r.jobid, extract(epoch from r.ended - r.started)::double precision as seconds, row_number() over (partition by r.jobid order by r.runid desc) as nth
    from run r
    where r.runid > (select coalesce(max(runid), 0) from run) - :look_back and r.status = 'READY' and r.ended is not null
      and r.jobid in (select json_array_elements_text(:jobs::json))) t
where t.nth <= :n and t.seconds is not null

-- name: last_events_given
-- The last event of each given chunk.
-- PostgreSQL: a list is joined by LATERAL.
select e.eventid, e.at, e.kind, e.datasetid, e.dataid, e.jobid, e.runid, e.epoch, e.before, e.after, e.who, e.why, e.receipt
from (select c ->> 0 as datasetid, c ->> 1 as dataid from json_array_elements(:chunks::json) c offset 0) c
cross join lateral (select l.* from event l where l.datasetid = c.datasetid and l.dataid = c.dataid
                    order by l.eventid desc limit 1) e

-- name: published_given
-- When these versions were published.
-- PostgreSQL: a list has json values, and is joined by LATERAL.
select i.datasetid, i.dataid, i.version, m.published
from (select v.value ->> 0 as datasetid, v.value ->> 1 as dataid, (v.value ->> 2)::bigint as version
      from json_array_elements(:versions::json) v (value) offset 0) i
cross join lateral (select d.published from data_manifest d
                    where d.datasetid = i.datasetid and d.dataid = i.dataid and d.version = i.version offset 0) m

-- name: schemas_back
-- The columns of the current versions of the last chunks of a dataset, last one first.
-- PostgreSQL: a text is cast to json.
select s.dataid, m.version, m.published, m.body::json ->> 'schema' as columns
from (select datasetid, dataid, version, sort_key from datastatus
      where datasetid = :datasetid and locktype = 'OUT' and sort_key >= '' order by sort_key desc, dataid desc limit :n) s
join data_manifest m on m.datasetid = s.datasetid and m.dataid = s.dataid and m.version = s.version
order by s.sort_key desc, s.dataid desc
