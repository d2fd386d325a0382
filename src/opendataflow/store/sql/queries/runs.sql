-- Runs and their logs.

-- name: newest_run
-- The newest run.
select max(runid) as runid from run

-- name: newest_run_before
-- The newest run that began before a moment.
select runid from run where started < :at order by runid desc limit 1

-- name: running_runids
-- The runids of running runs.
select runid from run where status = 'RUNNING'

-- name: attempts_unpublished_page
-- Runs that ended without publishing, oldest first, after a given one; without refused runs, which wrote nothing.
select runid, jobid, dataid, epoch, started from run where runid > :after and status in ('FAILED', 'LOST') order by runid limit :n

-- name: attempts_between
-- Outcomes of runs, newest first, between two runids; without claims that were given back.
select runid, jobid, dataid, status, owner, forced, started, ended, outcome, substr(detail, 1, 1000) as detail
from run where runid > :floor and runid <= :last and coalesce(outcome, '') <> 'GIVEN_BACK' order by runid desc limit :n

-- name: attempts_failed_of_job
-- Unsuccessful runs of one job, newest first, after a runid; || prevents the planner from sorting all runs of the job.
select runid, jobid, dataid, status, owner, forced, started, ended, outcome, substr(detail, 1, 4000) as detail
from run where jobid || '' = :jobid and runid > :floor and status not in ('READY', 'RUNNING') and coalesce(outcome, '') <> 'GIVEN_BACK'
order by runid desc limit :n

-- name: made_newest
-- The last chunks of a dataset, last one first: their row counts, and begin and end of the runs that published them.
select s.dataid, s.status, m.runid, m.rows, m.bytes, r.started, r.ended
from (select datasetid, dataid, version, status, sort_key from datastatus
      where datasetid = :datasetid and locktype = 'OUT' and sort_key >= '' order by sort_key desc, dataid desc limit :n) s
{left join data_manifest m: m.datasetid = s.datasetid and m.dataid = s.dataid and m.version = s.version}
{left join run r: r.runid = m.runid}
order by s.sort_key desc, s.dataid desc

-- name: failed_newest
-- The last FAILED chunks of a dataset, last one first, with the outcomes of their runs; the second condition on status matches the partial index.
select s.dataid, s.runid, s.modified, r.outcome, substr(r.detail, 1, 4000) as detail
from (select dataid, runid, modified, sort_key from datastatus
      where datasetid = :datasetid and locktype = 'OUT' and status = 'FAILED' and status <> 'READY' order by sort_key desc limit :n) s
{left join run r: r.runid = s.runid}
order by s.sort_key desc

-- name: runs_remarked
-- READY chunks that their run published with a remark (rejected rows, a failed check that only warns), newest first, among the last runs.
select s.datasetid, s.dataid, s.sort_key, r.detail as remark
from run r cross join dataset d
{join datastatus s: s.datasetid = d.datasetid and s.dataid = r.dataid and s.locktype = 'OUT'}
where r.runid > (select coalesce(max(runid), 0) from run) - :look_back and r.status = 'READY' and r.detail is not null
  and s.runid = r.runid and s.status = 'READY'
order by r.runid desc limit :n

-- name: log_tail_put
-- Store the last lines of a log.
insert into log_tail (runid, tail) values (:runid, :tail) on conflict (runid) do nothing

-- name: log_tail
-- The last lines of a log.
select tail from log_tail where runid = :runid

-- name: run_logs_put
-- Store the log paths of runs.
update run set log = l.log from {rows :logs (runid bigint, log)} l where run.runid = l.runid

-- name: lock_runs (postgres)
-- Lock given runs; waits for transactions that end them.
select count(*) from (select r.runid from run r where r.runid = any (array(select json_array_elements_text(:runids::json)::bigint)) order by r.runid for update) locked

-- name: run_row
-- One run.
select runid, jobid, dataid, epoch, status, pool, owner, forced, inputs, started, ended, outcome, detail, exit_code, log, lease_until
from run_facts where runid = :runid

-- name: runs_page
-- Runs, newest first, before a given one.
select runid, jobid, dataid, epoch, status, pool, owner, forced, inputs, started, ended, outcome, detail, exit_code, log, lease_until
from run_facts where runid < :before order by runid desc limit :n

-- name: runs_of_job_page
-- Runs of one job, newest first, before a given one.
select runid, jobid, dataid, epoch, status, pool, owner, forced, inputs, started, ended, outcome, detail, exit_code, log, lease_until
from run_facts where runid in (select r.runid from run r where r.jobid = :jobid and r.runid < :before order by r.runid desc limit :n)
order by runid desc

-- name: runs_of_dataid
-- All runs of (jobid, dataid), newest first.
select runid, jobid, dataid, epoch, status, pool, owner, forced, inputs, started, ended, outcome, detail, exit_code, log, lease_until
from run_facts where jobid = :jobid and dataid = :dataid order by epoch desc

-- name: runs_running
-- Running runs; + 0 prevents SQLite from scanning all runs in order.
select runid, jobid, dataid, epoch, status, pool, owner, forced, inputs, started, ended, outcome, detail, exit_code, log, lease_until
from run_facts where status = 'RUNNING' order by runid + 0

-- name: runs_over
-- Running runs with an expired lease.
select runid, jobid, dataid, epoch, status, pool, owner, forced, inputs, started, ended, outcome, detail, exit_code, log, lease_until
from run_facts where status = 'RUNNING' and lease_until < lease_now() order by runid

-- name: runs_failed_page
-- Unsuccessful runs, newest first, between two given ones.
select runid, jobid, dataid, epoch, status, pool, owner, forced, inputs, started, ended, outcome, detail, exit_code, log, lease_until
from run_facts where runid < :before and runid > :floor and status not in ('READY', 'RUNNING') and coalesce(outcome, '') <> 'GIVEN_BACK'
order by runid desc limit :n

-- name: runs_of_job_recent
-- Runs of one job, newest first, between two given ones; || prevents the planner from sorting all runs of the job.
select runid, jobid, dataid, epoch, status, pool, owner, forced, inputs, started, ended, outcome, detail, exit_code, log, lease_until
from run_facts where jobid || '' = :jobid and runid < :before and runid > :floor order by runid desc limit :n

-- name: stints_between
-- Runs between two moments, newest first, between two runids; without very long lists of inputs, and without claims that were given back.
select runid, jobid, dataid, epoch, status, pool, owner, started, ended, outcome,
       case when (select count(*) from run_input i where i.runid = r.runid) <= :most then inputs end as inputs
from run_facts r where runid > :floor and runid <= :last and started < :until and (ended is null or ended >= :since)
  and coalesce(outcome, '') <> 'GIVEN_BACK' order by runid desc limit :n

-- name: stints_running
-- The same for running runs; + 0 prevents SQLite from scanning all runs in order.
select runid, jobid, dataid, epoch, status, pool, owner, started, ended, outcome,
       case when (select count(*) from run_input i where i.runid = r.runid) <= :most then inputs end as inputs
from run_facts r where status = 'RUNNING' order by runid + 0 desc limit :n

-- name: inputs_of_run
-- What a run reads, in the order of its job's inputs.
select datasetid, dataid, version from run_input where runid = :runid order by nth

-- name: contents_of_run
-- The known contents of what a run reads, each with the dataid that has it.
select i.datasetid, m.fingerprint, i.dataid from run_input i
{join data_manifest m: m.datasetid = i.datasetid and m.dataid = i.dataid and m.version = i.version}
where i.runid = :runid and m.fingerprint is not null order by i.nth

-- name: end_run (sqlite)
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

-- name: end_run (postgres)
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
    where d.datasetid = any (array(select i.datasetid from run_input i where i.runid = :runid))
      and d.dataid = any (array(select i.dataid from run_input i where i.runid = :runid))
      and d.jobid = :jobid and d.locktype = 'IN' and d.status = 'RUNNING' and d.runid = :runid and exists (select 1 from r)
), ev as (
    insert into event (kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why)
    select :kind, outs.datasetid, outs.dataid, :jobid, :runid, :epoch, 'RUNNING', :out_status, :owner, :detail from outs
)
select outs.datasetid from outs

-- name: end_runs (sqlite)
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

-- name: end_runs (postgres)
-- End several runs in the same way, like end_run. Returns the run of each ended chunk.
-- PostgreSQL: a list becomes an array before a table is read.
with t as materialized (
    select * from json_to_recordset(:runs::json)
        as t (runid bigint, jobid text, dataid text, epoch bigint, owner text, outputs json, detail text, exit_code integer)
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
    where d.datasetid = any (array(select i.datasetid from run_input i where i.runid = any (array(select t.runid from t))))
      and d.dataid = any (array(select i.dataid from run_input i where i.runid = any (array(select t.runid from t))))
      and d.jobid = any (array(select t.jobid from t)) and d.locktype = 'IN' and d.status = 'RUNNING' and d.runid = any (array(select r.runid from r))
), ev as (
    insert into event (kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why)
    select :kind, outs.datasetid, t.dataid, t.jobid, t.runid, t.epoch, 'RUNNING', :out_status, t.owner, t.detail from outs join t on t.runid = outs.runid
)
select outs.runid from outs
