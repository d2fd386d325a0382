-- SQLite variants: lists are JSON, read by json_each; a query may consist of several
-- statements; row locks are not needed because a write transaction locks the file.
-- CROSS JOIN fixes the join order: the list drives, and tables are looked up by key, whatever the planner estimates.

-- name: other_tables
-- Tables of other programs, in a database without a store.
-- SQLite: the catalogue is sqlite_master.
select name from sqlite_master where type in ('table', 'view') and name not like 'sqlite_%'
and not exists (select 1 from pragma_table_info('migration') where name = 'checksum')
order by name

-- name: has_schema
-- Whether the table of migrations exists and belongs to a store.
-- SQLite: the catalogue is read by pragmas.
select exists (select 1 from pragma_table_info('migration') where name = 'checksum') as has_schema

-- name: columns
-- Every column of every table, and every view.
-- SQLite: the catalogue is read by pragmas; columns of a view are unavailable while a table is missing.
select t.name as relation, c.name as "column" from sqlite_master t join pragma_table_info(t.name) c
where t.type = 'table' and t.name not like 'sqlite_%'
union all
select name, '' from sqlite_master where type = 'view'

-- name: may_define
-- Whether the role may register datasets and jobs.
-- SQLite: a writable file is writable as a whole.
select true as may

-- name: claim_pick
-- The first n claimable candidates of a job with their facts; none while changes have to be folded in.
-- SQLite: a write transaction locks the file, so the candidates need no lock.
with state as materialized (
    select (select value from meta where name = 'revision') as revision,
           exists (select 1 from note) as notes,
           exists (select 1 from run where status = 'RUNNING' and lease_until < lease_now()) as expired,
           exists (select 1 from candidate where state = 'DEFERRED' and not_before <= lease_now()) as due
), picked as materialized (
    select c.jobid, c.dataid from candidate c
    where c.jobid = :jobid and c.state = 'CLAIMABLE' and (select not (notes or expired or due) from state)
    order by c.rank, c.sort_key limit :n
)
select s.revision, s.notes, s.expired, s.due, f.dataid, f.rank, f.sort_key, f.epoch, f.tries, f.inputs
from state s left join picked p on true left join candidate_facts f on f.jobid = p.jobid and f.dataid = p.dataid
order by f.rank, f.sort_key

-- name: claim_pick_dataid
-- One given candidate of a job with its facts; none while changes have to be folded in.
-- SQLite: a write transaction locks the file, so the candidate needs no lock.
with state as materialized (
    select (select value from meta where name = 'revision') as revision,
           exists (select 1 from note) as notes,
           exists (select 1 from run where status = 'RUNNING' and lease_until < lease_now()) as expired,
           exists (select 1 from candidate where state = 'DEFERRED' and not_before <= lease_now()) as due
), picked as materialized (
    select c.jobid, c.dataid from candidate c
    where c.jobid = :jobid and c.dataid = :dataid and c.state in ('CLAIMABLE', 'DEFERRED')
      and (select not (notes or expired or due) from state)
)
select s.revision, s.notes, s.expired, s.due, f.dataid, f.rank, f.sort_key, f.epoch, f.tries, f.inputs
from state s left join picked p on true left join candidate_facts f on f.jobid = p.jobid and f.dataid = p.dataid

-- name: claim_take
-- Claim candidates: set OUT and IN rows to RUNNING under a new epoch, and insert the run and the event with its receipt.
-- SQLite: a CTE cannot write; defaults are given because now() is a function of this program.
delete from candidate where jobid = :jobid and dataid in (select value ->> 'dataid' from json_each(:takes));
insert into run (jobid, dataid, epoch, status, pool, owner, lease, lease_until, forced, started)
select :jobid, t.value ->> 'dataid', t.value ->> 'epoch', 'RUNNING', :pool, :owner, :lease, lease_now() + :lease, :forced, now()
from json_each(:takes) t;
insert into run_input (runid, nth, datasetid, dataid, version)
select r.runid, i.key + 1, i.value ->> 0, i.value ->> 1, i.value ->> 2
from json_each(:takes) t
cross join run r on r.jobid = :jobid and r.dataid = t.value ->> 'dataid' and r.epoch = t.value ->> 'epoch'
cross join json_each(t.value, '$.inputs') i;
insert into datastatus as d (datasetid, jobid, dataid, locktype, status, epoch, runid, tries, sort_key, seal, modified)
select o.value, :jobid, r.dataid, 'OUT', 'RUNNING', r.epoch, r.runid, t.value ->> 'tries', t.value ->> 'sort_key', 1, now()
from json_each(:takes) t
cross join run r on r.jobid = :jobid and r.dataid = t.value ->> 'dataid' and r.epoch = t.value ->> 'epoch'
cross join json_each(:outputs) o
where true
on conflict (datasetid, dataid) where locktype = 'OUT' do update set
    jobid = excluded.jobid, status = 'RUNNING', epoch = excluded.epoch, runid = excluded.runid, tries = excluded.tries,
    sort_key = excluded.sort_key, held = d.status, seal = d.seal + 1, modified = excluded.modified
where d.status = 'RESUBMIT' or (:forced and d.status <> 'RUNNING');
insert into datastatus as d (datasetid, jobid, dataid, locktype, status, epoch, version, runid, seal, modified)
select i.datasetid, :jobid, i.dataid, 'IN', 'RUNNING', r.epoch, i.version, r.runid, 1, now()
from json_each(:takes) t
cross join run r on r.jobid = :jobid and r.dataid = t.value ->> 'dataid' and r.epoch = t.value ->> 'epoch'
cross join run_input i on i.runid = r.runid
where true
on conflict (datasetid, dataid, jobid, locktype) do update set
    status = 'RUNNING', epoch = excluded.epoch, version = excluded.version, runid = excluded.runid, seal = d.seal + 1, modified = excluded.modified;
insert into event (kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt, at)
select 'claimed', s.datasetid, r.dataid, :jobid, r.runid, r.epoch, s.held, 'RUNNING', :owner, :why, t.value ->> 'receipt', now()
from json_each(:takes) t
cross join run r on r.jobid = :jobid and r.dataid = t.value ->> 'dataid' and r.epoch = t.value ->> 'epoch'
cross join json_each(:outputs) o
cross join datastatus s on s.datasetid = o.value and s.dataid = r.dataid and s.locktype = 'OUT' and s.runid = r.runid;
select r.runid, r.dataid, r.epoch,
       (select count(*) from json_each(:outputs) o
        cross join datastatus s on s.datasetid = o.value and s.dataid = r.dataid and s.locktype = 'OUT' and s.runid = r.runid) as taken
from json_each(:takes) t
cross join run r on r.jobid = :jobid and r.dataid = t.value ->> 'dataid' and r.epoch = t.value ->> 'epoch'

-- name: claim_take_one
-- Claim one candidate, like claim_take.
-- SQLite: a CTE cannot write; defaults are given because now() is a function of this program.
delete from candidate where jobid = :jobid and dataid = :dataid;
insert into run (jobid, dataid, epoch, status, pool, owner, lease, lease_until, forced, started)
values (:jobid, :dataid, :epoch, 'RUNNING', :pool, :owner, :lease, lease_now() + :lease, :forced, now());
insert into run_input (runid, nth, datasetid, dataid, version)
select r.runid, i.key + 1, i.value ->> 0, i.value ->> 1, i.value ->> 2
from run r cross join json_each(:inputs) i
where r.jobid = :jobid and r.dataid = :dataid and r.epoch = :epoch;
insert into datastatus as d (datasetid, jobid, dataid, locktype, status, epoch, runid, tries, sort_key, seal, modified)
select o.value, :jobid, :dataid, 'OUT', 'RUNNING', :epoch, r.runid, :tries, :sort_key, 1, now()
from run r cross join json_each(:outputs) o
where r.jobid = :jobid and r.dataid = :dataid and r.epoch = :epoch
on conflict (datasetid, dataid) where locktype = 'OUT' do update set
    jobid = excluded.jobid, status = 'RUNNING', epoch = excluded.epoch, runid = excluded.runid, tries = excluded.tries,
    sort_key = excluded.sort_key, held = d.status, seal = d.seal + 1, modified = excluded.modified
where d.status = 'RESUBMIT' or (:forced and d.status <> 'RUNNING');
insert into datastatus as d (datasetid, jobid, dataid, locktype, status, epoch, version, runid, seal, modified)
select i.datasetid, :jobid, i.dataid, 'IN', 'RUNNING', :epoch, i.version, r.runid, 1, now()
from run r cross join run_input i on i.runid = r.runid
where r.jobid = :jobid and r.dataid = :dataid and r.epoch = :epoch
on conflict (datasetid, dataid, jobid, locktype) do update set
    status = 'RUNNING', epoch = excluded.epoch, version = excluded.version, runid = excluded.runid, seal = d.seal + 1, modified = excluded.modified;
insert into event (kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt, at)
select 'claimed', s.datasetid, :dataid, :jobid, r.runid, :epoch, s.held, 'RUNNING', :owner, :why, :receipt, now()
from run r cross join json_each(:outputs) o
cross join datastatus s on s.datasetid = o.value and s.dataid = r.dataid and s.locktype = 'OUT' and s.runid = r.runid
where r.jobid = :jobid and r.dataid = :dataid and r.epoch = :epoch;
select r.runid, r.dataid, r.epoch,
       (select count(*) from json_each(:outputs) o
        cross join datastatus s on s.datasetid = o.value and s.dataid = r.dataid and s.locktype = 'OUT' and s.runid = r.runid) as taken
from run r where r.jobid = :jobid and r.dataid = :dataid and r.epoch = :epoch

-- name: end_run
-- End a run that still holds its chunk: the run, its OUT and IN rows, the event. Returns the datasets of the ended chunks.
-- SQLite: a CTE cannot write, so each statement checks that the run is still running; the run row is updated last.
insert into event (kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, at)
select :kind, s.datasetid, s.dataid, :jobid, :runid, :epoch, 'RUNNING', :out_status, :owner, :detail, now()
from json_each(:outputs) o
cross join datastatus s on s.datasetid = o.value and s.dataid = :dataid and s.locktype = 'OUT'
                       and s.status = 'RUNNING' and s.epoch = :epoch and s.runid = :runid
where exists (select 1 from run where runid = :runid and status = 'RUNNING');
update datastatus set status = :in_status, seal = seal + 1, modified = now()
where (datasetid, dataid) in (select i.datasetid, i.dataid from run_input i where i.runid = :runid)
  and jobid = :jobid and locktype = 'IN' and status = 'RUNNING' and runid = :runid
  and exists (select 1 from run where runid = :runid and status = 'RUNNING');
update datastatus set status = :out_status, seal = seal + 1, modified = now(),
       version = case when :out_status = 'READY' then epoch else version end,
       tries = case when :out_status = 'READY' then 0 when :kind = 'stopped' then max(tries - 1, 0) else tries end
where datasetid in (select value from json_each(:outputs)) and dataid = :dataid and locktype = 'OUT'
  and status = 'RUNNING' and epoch = :epoch and runid = :runid
  and exists (select 1 from run where runid = :runid and status = 'RUNNING')
returning datasetid;
update run set status = :run_status, ended = now(), lease_until = null, outcome = :outcome, detail = :detail, exit_code = :exit_code
where runid = :runid and status = 'RUNNING'

-- name: end_runs
-- End several runs in the same way, like end_run. Returns the run of each ended chunk.
-- SQLite: a CTE cannot write, so each statement checks that the run is still running; the run row is updated last.
insert into event (kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, at)
select :kind, s.datasetid, s.dataid, r.jobid, r.runid, s.epoch, 'RUNNING', :out_status, t.value ->> 'owner', t.value ->> 'detail', now()
from json_each(:runs) t
cross join run r on r.runid = t.value ->> 'runid' and r.status = 'RUNNING'
cross join json_each(t.value, '$.outputs') o
cross join datastatus s on s.datasetid = o.value and s.dataid = t.value ->> 'dataid' and s.locktype = 'OUT'
                       and s.status = 'RUNNING' and s.epoch = t.value ->> 'epoch' and s.runid = r.runid;
update datastatus set status = :in_status, seal = seal + 1, modified = now()
where (datasetid, dataid, jobid, locktype, runid) in (
        select i.datasetid, i.dataid, r.jobid, 'IN', r.runid
        from json_each(:runs) t cross join run r on r.runid = t.value ->> 'runid' and r.status = 'RUNNING' cross join run_input i on i.runid = r.runid)
  and status = 'RUNNING';
update datastatus set status = :out_status, seal = seal + 1, modified = now(),
       version = case when :out_status = 'READY' then epoch else version end,
       tries = case when :out_status = 'READY' then 0 else tries end
where (datasetid, dataid, epoch, runid) in (
        select o.value, t.value ->> 'dataid', t.value ->> 'epoch', r.runid
        from json_each(:runs) t cross join run r on r.runid = t.value ->> 'runid' and r.status = 'RUNNING' cross join json_each(t.value, '$.outputs') o)
  and locktype = 'OUT' and status = 'RUNNING'
returning runid;
update run set status = :run_status, ended = now(), lease_until = null, outcome = :outcome,
       detail = t.value ->> 'detail', exit_code = t.value ->> 'exit_code'
from json_each(:runs) t where run.runid = t.value ->> 'runid' and run.status = 'RUNNING'

-- name: manifest_put
-- Insert one manifest, like manifests_put.
-- SQLite: defaults are given because now() is a function of this program.
insert into data_manifest (datasetid, dataid, version, jobid, runid, location, format, bytes, rows, span_lower, span_upper, fingerprint, passed, body, published)
values (:datasetid, :dataid, :version, :jobid, :runid, :location, :format, :bytes, :rows, :span_lower, :span_upper, :fingerprint, :passed, :body, now())
on conflict (datasetid, dataid, version) do nothing

-- name: manifests_put
-- Insert manifests; existing versions are unchanged: end_run refuses a second publish of an epoch.
-- SQLite: a list of objects is read by json_each; WHERE TRUE separates ON CONFLICT from a join.
insert into data_manifest (datasetid, dataid, version, jobid, runid, location, format, bytes, rows, span_lower, span_upper, fingerprint, passed, body, published)
select m.value ->> 'datasetid', m.value ->> 'dataid', m.value ->> 'version', m.value ->> 'jobid', m.value ->> 'runid', m.value ->> 'location',
       m.value ->> 'format', m.value ->> 'bytes', m.value ->> 'rows', m.value ->> 'span_lower', m.value ->> 'span_upper',
       m.value ->> 'fingerprint', m.value ->> 'passed', m.value ->> 'body', now()
from json_each(:manifests) m
where true
on conflict (datasetid, dataid, version) do nothing

-- name: locations_put
-- Rewrite locations of versions, unless they changed concurrently.
-- SQLite: a list of lists is read by json_each.
update data_manifest set location = c.value ->> 4 from json_each(:changes) c
where datasetid = c.value ->> 0 and dataid = c.value ->> 1 and version = c.value ->> 2 and location = c.value ->> 3

-- name: give_back
-- Undo a claim whose run did not start; a resubmitted chunk becomes RESUBMIT again.
-- SQLite: a CTE cannot write, so each statement checks that the run is still running; the run row is updated last.
update datastatus set status = 'FAILED', seal = seal + 1, modified = now()
where :was_resubmit and (datasetid, dataid) in (select i.datasetid, i.dataid from run_input i where i.runid = :runid)
  and jobid = :jobid and locktype = 'IN' and status = 'RUNNING' and runid = :runid
  and exists (select 1 from run where runid = :runid and status = 'RUNNING');
update datastatus set status = 'RESUBMIT', runid = null, tries = max(tries - 1, 0), seal = seal + 1, modified = now()
where :was_resubmit and datasetid in (select value from json_each(:outputs)) and dataid = :dataid and locktype = 'OUT'
  and status = 'RUNNING' and runid = :runid and exists (select 1 from run where runid = :runid and status = 'RUNNING');
update run set status = 'REFUSED', ended = now(), lease_until = null, outcome = :outcome, detail = :detail
where runid = :runid and status = 'RUNNING' returning runid

-- name: runs_expired
-- Runs with an expired lease, and their number of tries.
-- SQLite: a write transaction locks the file, so the runs need no lock.
select r.runid, r.jobid, r.dataid, r.epoch, r.owner, r.lease,
       coalesce((select max(s.tries) from job o
                 cross join datastatus s on s.datasetid = o.datasetid and s.dataid = r.dataid and s.locktype = 'OUT' and s.runid = r.runid
                 where o.jobid = r.jobid and o.itemtype = 'OUT'), 1) as tries
from run r where r.status = 'RUNNING' and r.lease_until < lease_now() order by r.runid limit :n

-- name: reads_of_pairs
-- The IN rows of jobs for given chunks, each for one dataid of the job.
-- A row that was consumed for another dataid, under an earlier mapping, does not count.
-- SQLite: a list is read by json_each.
select p.value ->> 0 as jobid, p.value ->> 1 as dataid, s.status from json_each(:reads) p
cross join datastatus s on s.datasetid = p.value ->> 2 and s.dataid = p.value ->> 3 and s.jobid = p.value ->> 0 and s.locktype = 'IN'
where not exists (select 1 from run r where r.runid = s.runid and r.dataid <> p.value ->> 1)

-- name: ready_inputs_alike
-- The number of READY inputs of many dataids of one job with identical mappings, without one dataset; null if any of the outputs or IN rows exist.
-- SQLite: a list is read by json_each.
select case
    when exists (select 1 from json_each(:outputs) o cross join json_each(:pairs) p
                 cross join datastatus s on s.datasetid = o.value and s.dataid = p.key and s.locktype = 'OUT')
      or exists (select 1 from json_each(:inputs) i cross join json_each(:pairs) p
                 cross join datastatus s on s.datasetid = i.value and s.dataid = p.key and s.jobid = :jobid and s.locktype = 'IN') then null
    else (select count(*) from json_each(:inputs) i cross join json_each(:pairs) p
          cross join datastatus s on s.datasetid = i.value and s.dataid = p.key and s.locktype = 'OUT' and s.status = 'READY'
          where i.value <> :ready) end as ready

-- name: pair_facts_alike
-- The facts that decide about many dataids of one job with identical mappings, grouped by equal facts.
-- SQLite: a list is read by json_each, and group_concat joins the statuses.
select f.inputs, f.outputs, f.reads, json_group_object(f.dataid, f.sort_key) as pairs
from (select p.key as dataid, p.value as sort_key,
             (select group_concat(s.status) from json_each(:inputs) i
              cross join datastatus s on s.datasetid = i.value and s.dataid = p.key and s.locktype = 'OUT') as inputs,
             (select group_concat(s.status) from json_each(:outputs) o
              cross join datastatus s on s.datasetid = o.value and s.dataid = p.key and s.locktype = 'OUT') as outputs,
             (select group_concat(s.status) from json_each(:inputs) i
              cross join datastatus s on s.datasetid = i.value and s.dataid = p.key and s.jobid = :jobid and s.locktype = 'IN'
              where not exists (select 1 from run r where r.runid = s.runid and r.dataid <> p.key)) as reads
      from json_each(:pairs) p) f
group by f.inputs, f.outputs, f.reads

-- name: candidates_put_alike
-- Write candidates of one job that differ only in their dataid, which replaces * in their inputs.
-- SQLite: a list is read by json_each, and its values need no types.
insert into candidate (jobid, dataid, sort_key, rank, state, not_before, inputs)
select :jobid, c.key, c.value, :rank, :state, :not_before, replace(:inputs, '*', c.key) from json_each(:pairs) c
where true
on conflict (jobid, dataid) do update set sort_key = excluded.sort_key, rank = excluded.rank, state = excluded.state,
    not_before = excluded.not_before, inputs = excluded.inputs

-- name: candidates_put
-- Insert or update candidates.
-- SQLite: a list is read by json_each, and its values need no types.
insert into candidate (jobid, dataid, sort_key, rank, state, not_before, inputs)
select c.value ->> 0, c.value ->> 1, c.value ->> 2, c.value ->> 3, c.value ->> 4, c.value ->> 5, c.value ->> 6 from json_each(:candidates) c
where true
on conflict (jobid, dataid) do update set sort_key = excluded.sort_key, rank = excluded.rank, state = excluded.state,
    not_before = excluded.not_before, inputs = excluded.inputs

-- name: candidates_drop
-- Remove candidates of one job.
-- SQLite: a list is read by json_each.
delete from candidate where jobid = :jobid and dataid in (select value from json_each(:dataids))

-- name: chunks_given
-- The OUT rows of given chunks, with the status of their runs.
-- SQLite: a list is read by json_each, and the rows need no lock.
select s.datasetid, s.dataid, s.jobid, s.status, s.epoch, s.version, s.runid, s.tries, s.held, s.sort_key, r.status as run_status
from json_each(:chunks) c
cross join datastatus s on s.datasetid = c.value ->> 0 and s.dataid = c.value ->> 1 and s.locktype = 'OUT'
left join run r on r.runid = s.runid

-- name: readers_given
-- The IN rows of given chunks.
-- SQLite: a list is read by json_each.
select s.datasetid, s.dataid, s.jobid, s.status from json_each(:chunks) c
cross join datastatus s on s.datasetid = c.value ->> 0 and s.dataid = c.value ->> 1 and s.locktype = 'IN'

-- name: typed_given
-- Whether given chunks have changes that are not folded in yet.
-- SQLite: a list is read by json_each.
select exists (select 1 from json_each(:chunks) c join note n on n.datasetid = c.value ->> 0 and n.dataid = c.value ->> 1 and n.locktype = 'OUT' and n.who is not null) as typed

-- name: deferred_given
-- Which of given candidates are deferred.
-- SQLite: a list is read by json_each, and the candidates need no lock.
select c.jobid, c.dataid from json_each(:pairs) p
cross join candidate c on c.jobid = p.value ->> 0 and c.dataid = p.value ->> 1 and c.state = 'DEFERRED'

-- name: chunks_put
-- Write OUT rows. Returns how many were written.
-- SQLite: a list of objects is read by json_each; WHERE TRUE separates ON CONFLICT from a join.
insert into datastatus as d (datasetid, dataid, jobid, locktype, status, epoch, version, tries, held, sort_key, lowerbound, upperbound, seal, modified)
select c.value ->> 'datasetid', c.value ->> 'dataid', c.value ->> 'jobid', 'OUT', c.value ->> 'status', c.value ->> 'epoch', c.value ->> 'version',
       0, c.value ->> 'held', c.value ->> 'sort_key', c.value ->> 'lower', c.value ->> 'upper', 1, now()
from json_each(:chunks) c
where true
on conflict (datasetid, dataid) where locktype = 'OUT' do update set
    status = excluded.status, epoch = excluded.epoch, version = excluded.version, tries = 0, held = excluded.held, sort_key = excluded.sort_key,
    lowerbound = coalesce(excluded.lowerbound, d.lowerbound), upperbound = coalesce(excluded.upperbound, d.upperbound),
    seal = d.seal + 1, modified = excluded.modified;
select json_array_length(:chunks) as written

-- name: chunks_announce
-- Announce chunks with one version: write OUT rows and events. Returns how many rows were written.
-- SQLite: a list is read by json_each, and a CTE cannot write; WHERE TRUE separates ON CONFLICT from a join.
insert into datastatus as d (datasetid, dataid, jobid, locktype, status, epoch, version, sort_key, lowerbound, upperbound, seal, modified)
select :datasetid, c.value ->> 0, :jobid, 'OUT', 'READY', :version, :version, c.value ->> 1, c.value ->> 2, c.value ->> 3, 1, (select now())
from json_each(:chunks) c
where true
on conflict (datasetid, dataid) where locktype = 'OUT' do update set
    status = excluded.status, epoch = excluded.epoch, version = excluded.version, tries = 0, held = null, sort_key = excluded.sort_key,
    lowerbound = coalesce(excluded.lowerbound, d.lowerbound), upperbound = coalesce(excluded.upperbound, d.upperbound),
    seal = d.seal + 1, modified = excluded.modified;
insert into event (kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, at)
select 'announced', :datasetid, c.value ->> 0, :jobid, :runid, :version, :before, 'READY', :who, :why, (select now())
from json_each(:chunks) c;
select json_array_length(:chunks) as written

-- name: versions_given
-- The highest version of each given chunk, among manifests, inputs and recalls.
-- SQLite: a list is read by json_each; a numeric column may hold text, which is not a version.
select v.dataid, max(v.version) as version from (
    select m.dataid, m.version from json_each(:dataids) c
    cross join data_manifest m on m.datasetid = :datasetid and m.dataid = c.value and typeof(m.version) = 'integer'
    union all
    select f.in_dataid, f.in_version from json_each(:dataids) c cross join made_from f on f.in_datasetid = :datasetid and f.in_dataid = c.value
    union all
    select r.dataid, r.version from json_each(:dataids) c cross join recalled r on r.datasetid = :datasetid and r.dataid = c.value) v
group by v.dataid

-- name: events_put
-- Append events.
-- SQLite: a list of objects is read by json_each.
insert into event (kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt, at)
select e.value ->> 'kind', e.value ->> 'datasetid', e.value ->> 'dataid', e.value ->> 'jobid', e.value ->> 'runid', e.value ->> 'epoch',
       e.value ->> 'before', e.value ->> 'after', e.value ->> 'who', e.value ->> 'why', e.value ->> 'receipt', coalesce(e.value ->> 'at', now())
from json_each(:events) e

-- name: chunks_mark
-- Mark rows before the engine removes them, so that the trigger writes no note.
-- SQLite: a list is read by json_each.
update datastatus set seal = -1
where datasetid = :datasetid and dataid in (select value from json_each(:dataids)) and jobid = :jobid and locktype = :locktype

-- name: chunks_forget
-- Remove the marked rows; history stays.
-- SQLite: a list is read by json_each.
delete from datastatus
where datasetid = :datasetid and dataid in (select value from json_each(:dataids)) and jobid = :jobid and locktype = :locktype and seal = -1

-- name: readings_given
-- The IN rows of one job for given chunks, each for one dataid of the job; rows consumed for another dataid are left out.
-- SQLite: a list is read by json_each.
select s.datasetid, s.dataid, s.status from json_each(:chunks) c
cross join datastatus s on s.datasetid = c.value ->> 0 and s.dataid = c.value ->> 1 and s.jobid = :jobid and s.locktype = 'IN'
where not exists (select 1 from run r where r.runid = s.runid and r.dataid <> c.value ->> 2)

-- name: chunk_sort_keys_put
-- Set the positions of chunks.
-- SQLite: a list is read by json_each; an UPDATE … FROM would not be driven by the list.
insert into datastatus as d (datasetid, dataid, jobid, locktype, status, sort_key)
select s.datasetid, s.dataid, s.jobid, s.locktype, s.status, c.value ->> 2
from json_each(:chunks) c
cross join datastatus s on s.datasetid = c.value ->> 0 and s.dataid = c.value ->> 1 and s.locktype = 'OUT'
where true
on conflict (datasetid, dataid) where locktype = 'OUT' do update set sort_key = excluded.sort_key, seal = d.seal + 1

-- name: chunks_noted
-- Complete rows that were written by SQL: set positions and reset tries; a typed time stays.
-- A READY chunk keeps its run only if that run published it.
-- SQLite: a list is read by json_each; an UPDATE … FROM would not be driven by the list.
insert into datastatus as d (datasetid, dataid, jobid, locktype, status, sort_key)
select s.datasetid, s.dataid, s.jobid, s.locktype, s.status, c.value ->> 2
from json_each(:chunks) c
cross join datastatus s on s.datasetid = c.value ->> 0 and s.dataid = c.value ->> 1 and s.locktype = 'OUT'
where true
on conflict (datasetid, dataid) where locktype = 'OUT' do update set sort_key = excluded.sort_key, tries = 0, seal = d.seal + 1,
    runid = case when d.status <> 'READY' or exists (select 1 from run r where r.runid = d.runid and r.status = 'READY') then d.runid end

-- name: pool_row
-- The slots of a pool, its hours, and the time of day.
-- SQLite: the time of day is unixepoch.
select slots, options, unixepoch('now', 'subsec') as now from pool where poolid = :pool

-- name: span_counts
-- The number of chunks in each given span, in total and by status other than READY, counted up to :most.
-- SQLite: a list is read by json_each.
select
       (select count(*) from (select 1 from datastatus d where d.locktype = 'OUT' and d.datasetid = v.value ->> 0
                               and d.sort_key >= v.value ->> 1 and d.sort_key <= v.value ->> 2 limit :most) c) as chunks,
       (select count(*) from (select 1 from datastatus d where d.status = 'RUNNING' and d.status <> 'READY' and d.locktype = 'OUT' and d.datasetid = v.value ->> 0
                               and d.sort_key >= v.value ->> 1 and d.sort_key <= v.value ->> 2 limit :most) c) as running,
       (select count(*) from (select 1 from datastatus d where d.status = 'FAILED' and d.status <> 'READY' and d.locktype = 'OUT' and d.datasetid = v.value ->> 0
                               and d.sort_key >= v.value ->> 1 and d.sort_key <= v.value ->> 2 limit :most) c) as failed,
       (select count(*) from (select 1 from datastatus d where d.status = 'RESUBMIT' and d.status <> 'READY' and d.locktype = 'OUT' and d.datasetid = v.value ->> 0
                               and d.sort_key >= v.value ->> 1 and d.sort_key <= v.value ->> 2 limit :most) c) as resubmit,
       (select count(*) from (select 1 from datastatus d where d.status = 'HOLD' and d.status <> 'READY' and d.locktype = 'OUT' and d.datasetid = v.value ->> 0
                               and d.sort_key >= v.value ->> 1 and d.sort_key <= v.value ->> 2 limit :most) c) as hold,
       (select count(*) from (select 1 from datastatus d where d.status = 'PENDING' and d.status <> 'READY' and d.locktype = 'OUT' and d.datasetid = v.value ->> 0
                               and d.sort_key >= v.value ->> 1 and d.sort_key <= v.value ->> 2 limit :most) c) as pending
from json_each(:spans) v order by v.key

-- name: ends_given
-- The first and the last dataid of each given span of a dataset.
-- SQLite: a list is read by json_each.
select
       (select d.dataid from datastatus d where d.locktype = 'OUT' and d.datasetid = v.value ->> 0
        and d.sort_key >= v.value ->> 1 and d.sort_key <= v.value ->> 2 order by d.sort_key, d.dataid limit 1) as first_dataid,
       (select d.dataid from datastatus d where d.locktype = 'OUT' and d.datasetid = v.value ->> 0
        and d.sort_key >= v.value ->> 1 and d.sort_key <= v.value ->> 2 order by d.sort_key desc, d.dataid desc limit 1) as last_dataid
from json_each(:spans) v order by v.key

-- name: span_chunks
-- The number of chunks in each given span, counted up to :most.
-- SQLite: a list is read by json_each.
select (select count(*) from (select 1 from datastatus d where d.locktype = 'OUT' and d.datasetid = v.value ->> 0
                               and d.sort_key >= v.value ->> 1 and d.sort_key <= v.value ->> 2 limit :most) c) as chunks
from json_each(:spans) v order by v.key

-- name: chunks_within
-- The chunks of given spans of datasets, with their statuses.
-- SQLite: a list is read by json_each.
select s.datasetid, s.dataid, s.status
from json_each(:spans) v
cross join datastatus s indexed by chunks_in_order on s.locktype = 'OUT' and s.datasetid = v.value ->> 0
                       and s.sort_key >= v.value ->> 1 and s.sort_key <= v.value ->> 2
limit :most

-- name: members_put
-- Add chunks to an incident, unless they belong to one of its kind.
-- SQLite: a list is read by json_each; WHERE TRUE separates ON CONFLICT from a join.
insert into incident_chunk (kind, datasetid, dataid, incidentid, eventid)
select :kind, c.value ->> 0, c.value ->> 1, :incidentid, c.value ->> 2 from json_each(:chunks) c
where true
on conflict (kind, datasetid, dataid) do nothing

-- name: members_given
-- Which of given chunks belong to an incident of this kind.
-- SQLite: a list is read by json_each.
select c.datasetid, c.dataid from json_each(:chunks) g
cross join incident_chunk c on c.kind = :kind and c.datasetid = g.value ->> 0 and c.dataid = g.value ->> 1

-- name: unsettled_between
-- Chunks that are not READY in given spans of datasets.
-- SQLite: a list is read by json_each; INDEXED BY prevents a scan of the whole span in order.
select s.datasetid, s.dataid, s.status
from json_each(:spans) v
cross join json_each('["RUNNING", "FAILED", "RESUBMIT", "HOLD", "PENDING"]') w
cross join datastatus s indexed by chunks_not_settled on s.status = w.value and s.status <> 'READY' and s.locktype = 'OUT' and s.datasetid = v.value ->> 0
                       and s.sort_key >= v.value ->> 1 and s.sort_key <= v.value ->> 2
limit :most

-- name: statuses_given
-- The status, version and run of given chunks.
-- SQLite: a list is read by json_each.
select s.datasetid, s.dataid, s.status, s.version, s.runid from json_each(:chunks) c
cross join datastatus s on s.datasetid = c.value ->> 0 and s.dataid = c.value ->> 1 and s.locktype = 'OUT'

-- name: heartbeat
-- Extend the leases of these runs, if they still hold their chunks.
-- SQLite: a list is read by json_each.
update run set lease_until = lease_now() + lease
where runid in (select value from json_each(:runids)) and status = 'RUNNING'
  and exists (select 1 from job o
              join datastatus s on s.datasetid = o.datasetid and s.dataid = run.dataid and s.locktype = 'OUT'
                               and s.status = 'RUNNING' and s.runid = run.runid
              where o.jobid = run.jobid and o.itemtype = 'OUT')
returning runid, lease_until

-- name: run_logs_put
-- Store the log paths of runs.
-- SQLite: a list is read by json_each.
update run set log = l.value ->> 1 from json_each(:logs) l where run.runid = l.value ->> 0

-- name: inputs_given
-- What given runs read, with the manifests of the versions read and the bounds of the chunks.
-- SQLite: a list is read by json_each.
select i.runid, i.datasetid, i.dataid, i.version, s.lowerbound as lower, s.upperbound as upper,
       m.location, m.format, m.bytes, m.rows, m.span_lower, m.span_upper, m.fingerprint, m.body, m.runid as made_by
from json_each(:runids) c
cross join run_input i on i.runid = c.value
left join datastatus s on s.datasetid = i.datasetid and s.dataid = i.dataid and s.locktype = 'OUT'
left join data_manifest m on m.datasetid = i.datasetid and m.dataid = i.dataid and m.version = i.version
order by i.runid, i.nth

-- name: datasets_not_encrypted
-- Datasets with a plain-text password, stored before the schema refused that.
-- SQLite: there are no regular expressions.
select datasetid from dataset where coalesce(encryptedpass, '') <> '' and (
    length(encryptedpass) - length(rtrim(encryptedpass, '=')) > 2 or length(encryptedpass) > 16384 or not (
        (encryptedpass glob 'odf[12]:*' and length(encryptedpass) >= 69 and not substr(rtrim(encryptedpass, '='), 6) glob '*[^A-Za-z0-9_-]*')
        or (length(encryptedpass) >= 40 and not rtrim(encryptedpass, '=') glob '*[^A-Za-z0-9+/]*'
            and (length(encryptedpass) % 4 = 0 or instr(encryptedpass, '=') = 0)))) order by datasetid

-- name: links_from_given
-- The versions that were made from given chunks, by whom and when.
-- SQLite: a list is read by json_each.
select f.in_datasetid, f.in_dataid, f.in_version, f.datasetid, f.dataid, f.version, f.jobid, f.runid, f.published,
       (select i.fingerprint from data_manifest i
        where i.datasetid = f.in_datasetid and i.dataid = f.in_dataid and i.version = f.in_version) as in_fingerprint
from json_each(:chunks) c
cross join made_from f on f.in_datasetid = c.value ->> 0 and f.in_dataid = c.value ->> 1
order by f.in_datasetid, f.in_dataid, f.datasetid, f.dataid, f.version

-- name: links_into_given
-- The versions that given versions were made from.
-- SQLite: a list is read by json_each.
select i.datasetid as in_datasetid, i.dataid as in_dataid, i.version as in_version, m.datasetid, m.dataid, m.version, m.jobid, m.runid, m.published,
       (select f.fingerprint from data_manifest f
        where f.datasetid = i.datasetid and f.dataid = i.dataid and f.version = i.version) as in_fingerprint
from json_each(:versions) c
cross join data_manifest m on m.datasetid = c.value ->> 0 and m.dataid = c.value ->> 1 and m.version = c.value ->> 2
cross join run_input i on i.runid = m.runid
order by m.datasetid, m.dataid, m.version, 1, 2

-- name: inputs_now_given
-- The chunks that the current versions of given chunks were made from, one hop upstream.
-- SQLite: a list is read by json_each.
select s.datasetid, s.dataid, i.datasetid as in_datasetid, i.dataid as in_dataid
from json_each(:chunks) c
cross join datastatus s on s.datasetid = c.value ->> 0 and s.dataid = c.value ->> 1 and s.locktype = 'OUT'
cross join data_manifest m on m.datasetid = s.datasetid and m.dataid = s.dataid and m.version = s.version
cross join run_input i on i.runid = m.runid

-- name: current_given
-- The status of given chunks, with the content of their current version, and whether it is recalled.
-- SQLite: a list is read by json_each.
select s.datasetid, s.dataid, s.jobid, s.status, s.version, m.fingerprint, r.version is not null as is_recalled
from json_each(:chunks) c
cross join datastatus s on s.datasetid = c.value ->> 0 and s.dataid = c.value ->> 1 and s.locktype = 'OUT'
left join data_manifest m on m.datasetid = s.datasetid and m.dataid = s.dataid and m.version = s.version
left join recalled r on r.datasetid = s.datasetid and r.dataid = s.dataid and r.version = s.version

-- name: chunks_then
-- The state of given chunks at a moment: the last event before and the first after, the last publish, and the current state.
-- An undone claim leaves the status before it; events of IN rows do not count.
-- SQLite: a list is read by json_each.
select c.datasetid, c.dataid, e.at, e.kind, e.jobid, e.runid, e.epoch,
       case when e.kind in ('refused', 'given back') then (select q.before from event q where q.datasetid = c.datasetid and q.dataid = c.dataid and q.runid = e.runid
                                          and q.kind = 'claimed' order by q.eventid desc limit 1) else e.after end as after,
       n.at as next_at, n.kind as next_kind, n.before as next_before, v.epoch as version_then,
       s.status as status_now, s.version as version_now, s.jobid as jobid_now, s.runid as runid_now, s.modified as modified_now, s.sort_key
from (select value ->> 0 as datasetid, value ->> 1 as dataid, key from json_each(:chunks)) c
left join event e on e.eventid = (
    select p.eventid from event p where p.datasetid = c.datasetid and p.dataid = c.dataid and p.at <= :at
      and (p.after in ('RUNNING', 'READY', 'FAILED', 'RESUBMIT', 'HOLD', 'PENDING') or (p.after is null and p.kind in ('forgotten', 'sql'))
           or (p.kind in ('refused', 'given back') and p.before = 'RUNNING'))
      and p.kind <> 'sql reading' and not (p.kind = 'sql' and (p.before = 'DONE' or p.after = 'DONE' or (
          exists (select 1 from job j where j.jobid = p.jobid and j.datasetid = p.datasetid and j.itemtype = 'IN')
          and not exists (select 1 from job j where j.jobid = p.jobid and j.datasetid = p.datasetid and j.itemtype = 'OUT'))))
    order by p.at desc, p.eventid desc limit 1)
left join event n on n.eventid = (
    select p.eventid from event p where p.datasetid = c.datasetid and p.dataid = c.dataid and p.at > :at
      and (p.after in ('RUNNING', 'READY', 'FAILED', 'RESUBMIT', 'HOLD', 'PENDING') or (p.after is null and p.kind in ('forgotten', 'sql'))
           or (p.kind in ('refused', 'given back') and p.before = 'RUNNING'))
      and p.kind <> 'sql reading' and not (p.kind = 'sql' and (p.before = 'DONE' or p.after = 'DONE' or (
          exists (select 1 from job j where j.jobid = p.jobid and j.datasetid = p.datasetid and j.itemtype = 'IN')
          and not exists (select 1 from job j where j.jobid = p.jobid and j.datasetid = p.datasetid and j.itemtype = 'OUT'))))
    order by p.at asc, p.eventid asc limit 1)
left join event v on v.eventid = (
    select p.eventid from event p where p.datasetid = c.datasetid and p.dataid = c.dataid and p.at <= :at
      and p.kind in ('published', 'announced', 'rolled back')
    order by p.at desc, p.eventid desc limit 1)
left join datastatus s on s.datasetid = c.datasetid and s.dataid = c.dataid and s.locktype = 'OUT'
order by c.key

-- name: chunks_of_events
-- The chunks of given datasets in the events between two eventids.
-- SQLite: a list is read by json_each.
select datasetid, dataid from event
where eventid > :floor and eventid <= :last and dataid is not null and +datasetid in (select value from json_each(:datasets))

-- name: links_of_versions
-- The versions made from given versions: at most :n of each, of the last runs up to :last.
-- SQLite: a list is read by json_each, and what was made from each version is limited in a subquery.
select c.value ->> 0 as in_datasetid, c.value ->> 1 as in_dataid, c.value ->> 2 as in_version, m.datasetid, m.dataid, m.version, m.jobid, m.runid,
       m.published, null as in_fingerprint
from json_each(:versions) c
cross join data_manifest m on m.rowid in (
    select d.rowid from run_input i cross join data_manifest d on d.runid = i.runid
    where i.datasetid = c.value ->> 0 and i.dataid = c.value ->> 1 and i.version = c.value ->> 2 and i.runid <= :last
    order by i.runid desc, d.datasetid desc limit :n)
order by 1, 2, m.datasetid, m.dataid, m.version

-- name: versions_made
-- Who made given versions and when, from their manifests or announcements.
-- SQLite: a list is read by json_each.
select c.value ->> 0 as datasetid, c.value ->> 1 as dataid, c.value ->> 2 as version, coalesce(m.jobid, e.jobid) as jobid,
       coalesce(m.runid, e.runid) as runid, coalesce(m.published, e.at) as at, e.who
from json_each(:versions) c
left join data_manifest m on m.datasetid = c.value ->> 0 and m.dataid = c.value ->> 1 and m.version = c.value ->> 2
left join event e on e.eventid = (
    select p.eventid from event p where p.datasetid = c.value ->> 0 and p.dataid = c.value ->> 1 and p.epoch = c.value ->> 2
      and p.kind in ('published', 'announced') order by p.eventid limit 1)
where m.version is not null or e.eventid is not null

-- name: superseded_given
-- For given chunks with a new version, and given links: current versions that were made from an outdated input version,
-- with whether the content is the same; and existing stale marks, with a jobid of ''.
-- SQLite: a list is read by json_each.
select f.datasetid, f.dataid, f.version, s.jobid, s.status, f.in_datasetid, f.in_dataid, f.in_version,
       coalesce(was.fingerprint = new.fingerprint, false) as is_same
from (select f.datasetid, f.dataid, f.version, f.in_datasetid, f.in_dataid, f.in_version
      from json_each(:chunks) c cross join made_from f on f.in_datasetid = c.value ->> 0 and f.in_dataid = c.value ->> 1
      union all
      select l.value ->> 0, l.value ->> 1, l.value ->> 2, l.value ->> 3, l.value ->> 4, l.value ->> 5 from json_each(:links) l) f
cross join datastatus n on n.datasetid = f.in_datasetid and n.dataid = f.in_dataid and n.locktype = 'OUT' and n.version <> f.in_version
cross join datastatus s on s.datasetid = f.datasetid and s.dataid = f.dataid and s.locktype = 'OUT' and s.version = f.version
left join data_manifest was on was.datasetid = f.in_datasetid and was.dataid = f.in_dataid and was.version = f.in_version
left join data_manifest new on new.datasetid = n.datasetid and new.dataid = n.dataid and new.version = n.version
where f.in_datasetid <> f.datasetid or f.in_dataid <> f.dataid
union all
select k.datasetid, k.dataid, k.version, '', '', k.in_datasetid, k.in_dataid, k.in_version, true
from json_each(:chunks) c cross join stale k on k.datasetid = c.value ->> 0 and k.dataid = c.value ->> 1
union all
select k.datasetid, k.dataid, k.version, '', '', k.in_datasetid, k.in_dataid, k.in_version, true
from json_each(:chunks) c cross join stale k on k.in_datasetid = c.value ->> 0 and k.in_dataid = c.value ->> 1

-- name: stale_clear
-- Remove the stale marks of given chunks, as products and as inputs.
-- SQLite: a list is read by json_each.
delete from stale where (datasetid, dataid) in (select c.value ->> 0, c.value ->> 1 from json_each(:chunks) c);
delete from stale where (in_datasetid, in_dataid) in (select c.value ->> 0, c.value ->> 1 from json_each(:chunks) c)

-- name: stale_put
-- Insert stale marks.
-- SQLite: a list is read by json_each.
insert or replace into stale (datasetid, dataid, version, in_datasetid, in_dataid, in_version)
select k.value ->> 0, k.value ->> 1, k.value ->> 2, k.value ->> 3, k.value ->> 4, k.value ->> 5 from json_each(:marks) k

-- name: stale_chunks
-- At most n chunks whose current version is stale, directly or through an input; outputs of jobs that ignore new versions are left out.
-- SQLite: a list is read by json_each.
with recursive found (datasetid, dataid, version, is_direct) as (
    select k.datasetid, k.dataid, k.version, true from stale k
    cross join datastatus s on s.datasetid = k.datasetid and s.dataid = k.dataid and s.locktype = 'OUT' and s.version = k.version
    cross join datastatus n on n.datasetid = k.in_datasetid and n.dataid = k.in_dataid and n.locktype = 'OUT' and n.version <> k.in_version
    where k.datasetid not in (select value from json_each(:ignoring))
    union
    select f.datasetid, f.dataid, f.version, false from found u
    cross join made_from f on f.in_datasetid = u.datasetid and f.in_dataid = u.dataid
    cross join datastatus s on s.datasetid = f.datasetid and s.dataid = f.dataid and s.locktype = 'OUT' and s.version = f.version
    where f.datasetid not in (select value from json_each(:ignoring)) and (f.datasetid <> u.datasetid or f.dataid <> u.dataid)
    limit :n
)
select f.datasetid, f.dataid, s.jobid, s.status, s.version, s.sort_key, max(f.is_direct) as is_direct
from found f cross join datastatus s on s.datasetid = f.datasetid and s.dataid = f.dataid and s.locktype = 'OUT'
group by f.datasetid, f.dataid

-- name: stale_marks_given
-- Why given chunks are stale themselves: the input versions that they were made from, and the current ones.
-- SQLite: a list is read by json_each.
select k.datasetid, k.dataid, k.version, k.in_datasetid, k.in_dataid, k.in_version, n.version as in_now
from json_each(:chunks) c cross join stale k on k.datasetid = c.value ->> 0 and k.dataid = c.value ->> 1
cross join datastatus s on s.datasetid = k.datasetid and s.dataid = k.dataid and s.locktype = 'OUT' and s.version = k.version
cross join datastatus n on n.datasetid = k.in_datasetid and n.dataid = k.in_dataid and n.locktype = 'OUT' and n.version <> k.in_version
order by 1, 2, 4, 5

-- name: remake_put
-- Record that chunks are RESUBMIT only because an input is newer.
-- SQLite: a list is read by json_each.
insert or replace into remake (datasetid, dataid, version) select r.value ->> 0, r.value ->> 1, r.value ->> 2 from json_each(:chunks) r

-- name: remake_drop
-- Remove such records.
-- SQLite: a list is read by json_each.
delete from remake where (datasetid, dataid) in (select c.value ->> 0, c.value ->> 1 from json_each(:chunks) c)

-- name: remakes_from_given
-- Chunks recorded by remake_put that were made from given chunks; without chunks with changes that are not folded in yet.
-- SQLite: a list is read by json_each.
select distinct r.datasetid, r.dataid, r.version, s.jobid, s.epoch, s.sort_key
from json_each(:chunks) c
cross join made_from f on f.in_datasetid = c.value ->> 0 and f.in_dataid = c.value ->> 1
cross join remake r on r.datasetid = f.datasetid and r.dataid = f.dataid and r.version = f.version
cross join datastatus s on s.datasetid = r.datasetid and s.dataid = r.dataid and s.locktype = 'OUT' and s.status = 'RESUBMIT' and s.version = r.version
where not exists (select 1 from note n where n.datasetid = r.datasetid and n.dataid = r.dataid and n.locktype = 'OUT' and n.who is not null)
order by 1, 2

-- name: recalled_put
-- Record recalled versions.
-- SQLite: a list is read by json_each.
insert or ignore into recalled (datasetid, dataid, version, who, why, at)
select r.value ->> 0, r.value ->> 1, r.value ->> 2, :who, :why, now() from json_each(:versions) r

-- name: recalled_given
-- The recalled versions of given chunks: by whom, why and when.
-- SQLite: a list is read by json_each.
select r.datasetid, r.dataid, r.version, r.who, r.why, r.at from json_each(:chunks) c
cross join recalled r on r.datasetid = c.value ->> 0 and r.dataid = c.value ->> 1
order by 1, 2, 3

-- name: made_from_version
-- A version, and every version downstream of it or of a version with the same content; at most n.
-- SQLite: the limit is inside the recursion.
with recursive found (datasetid, dataid, version) as (
    select :datasetid, :dataid, :version
    union
    select f.datasetid, f.dataid, f.version from found u
    cross join made_from f on f.in_datasetid = u.datasetid and f.in_dataid = u.dataid and f.in_version = u.version
    union
    select m.datasetid, m.dataid, m.version from found u
    cross join data_manifest m on m.datasetid = u.datasetid and m.dataid = u.dataid
    where m.fingerprint = (select o.fingerprint from data_manifest o where o.datasetid = u.datasetid and o.dataid = u.dataid and o.version = u.version)
    limit :n
)
select datasetid, dataid, version from found

-- name: descendants
-- At most n current versions downstream of any version of a chunk, each with its input.
-- SQLite: the limit is inside the recursion.
with recursive found (datasetid, dataid, version, in_datasetid, in_dataid, in_version) as (
    select f.datasetid, f.dataid, f.version, f.in_datasetid, f.in_dataid, f.in_version
    from made_from f
    cross join datastatus s on s.datasetid = f.datasetid and s.dataid = f.dataid and s.locktype = 'OUT' and s.version = f.version
    where f.in_datasetid = :datasetid and f.in_dataid = :dataid and (f.datasetid <> :datasetid or f.dataid <> :dataid)
    union
    select f.datasetid, f.dataid, f.version, f.in_datasetid, f.in_dataid, f.in_version from found u
    cross join made_from f on f.in_datasetid = u.datasetid and f.in_dataid = u.dataid
    cross join datastatus s on s.datasetid = f.datasetid and s.dataid = f.dataid and s.locktype = 'OUT' and s.version = f.version
    where f.datasetid <> u.datasetid or f.dataid <> u.dataid
    limit :n
)
select f.in_datasetid, f.in_dataid, f.in_version, f.datasetid, f.dataid, f.version, m.jobid, m.runid, m.published, s.status, s.sort_key
from found f
cross join datastatus s on s.datasetid = f.datasetid and s.dataid = f.dataid and s.locktype = 'OUT'
left join data_manifest m on m.datasetid = f.datasetid and m.dataid = f.dataid and m.version = f.version

-- name: run_counts
-- Outcomes and durations of runs: those between two runids, and given ones that were running at the last count.
-- SQLite: a list is read by json_each, and timestamps are text.
select jobid, status, outcome, is_new, bucket, count(*) as n, sum(seconds) as seconds
from (select jobid, status, outcome, is_new, seconds,
             case when seconds <= 0.1 then 0 when seconds <= 1 then 1 when seconds <= 5 then 2 when seconds <= 15 then 3
                  when seconds <= 60 then 4 when seconds <= 300 then 5 when seconds <= 900 then 6 when seconds <= 3600 then 7
                  when seconds <= 14400 then 8 when seconds <= 86400 then 9 else 10 end as bucket
      from (select jobid, status, outcome, 1 as is_new, max(coalesce((julianday(ended) - julianday(started)) * 86400, 0.0), 0.0) as seconds
            from run where runid > :after and runid <= :upto
            union all
            select jobid, status, outcome, 0 as is_new, max(coalesce((julianday(ended) - julianday(started)) * 86400, 0.0), 0.0) as seconds
            from run where runid in (select value from json_each(:ended))) each_run) in_buckets
group by jobid, status, outcome, is_new, bucket

-- name: runs_took_given
-- The durations in seconds of the last successful runs of given jobs, at most :n of each.
-- SQLite: a list is read by json_each, and julianday subtracts timestamps; + prevents a scan of all runs of a job.
select t.jobid, t.seconds from (
    select r.jobid, (julianday(r.ended) - julianday(r.started)) * 86400.0 as seconds, row_number() over (partition by r.jobid order by r.runid desc) as nth
    from run r
    where r.runid > (select coalesce(max(runid), 0) from run) - :look_back and r.status = 'READY' and r.ended is not null
      and +r.jobid in (select value from json_each(:jobs))) t
where t.nth <= :n and t.seconds is not null

-- name: last_events_given
-- The last event of each given chunk.
-- SQLite: a list is read by json_each.
select e.eventid, e.at, e.kind, e.datasetid, e.dataid, e.jobid, e.runid, e.epoch, e.before, e.after, e.who, e.why, e.receipt
from json_each(:chunks) c
cross join event e on e.eventid = (select l.eventid from event l where l.datasetid = c.value ->> 0 and l.dataid = c.value ->> 1
                                   order by l.eventid desc limit 1)

-- name: published_given
-- When these versions were published.
-- SQLite: a list is read by json_each.
select m.datasetid, m.dataid, m.version, m.published
from json_each(:versions) i
cross join data_manifest m on m.datasetid = i.value ->> 0 and m.dataid = i.value ->> 1 and m.version = i.value ->> 2

-- name: schemas_back
-- The columns of the current versions of the last chunks of a dataset, last one first.
-- SQLite: json_valid skips malformed JSON.
select s.dataid, m.version, m.published, case when json_valid(m.body) then m.body ->> '$.schema' end as columns
from (select datasetid, dataid, version, sort_key from datastatus
      where datasetid = :datasetid and locktype = 'OUT' and sort_key >= '' order by sort_key desc, dataid desc limit :n) s
cross join data_manifest m on m.datasetid = s.datasetid and m.dataid = s.dataid and m.version = s.version
order by s.sort_key desc, s.dataid desc
