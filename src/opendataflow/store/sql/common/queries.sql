-- Queries that are the same on both databases. Parameters are written :name.

-- name: run_row
-- One run.
select runid, jobid, dataid, epoch, status, pool, owner, forced, inputs, started, ended, outcome, detail, exit_code, log, lease_until
from run_facts where runid = :runid

-- Reading ---------------------------------------------------------------------------------------------------------

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

-- name: same_content_from
-- The same for chunks made from a given input content; || '' prevents the planner from starting at the content itself.
select m.datasetid, m.dataid, m.version from data_manifest i
join run_input f on f.datasetid = i.datasetid and f.dataid = i.dataid and f.version = i.version
join data_manifest m on m.runid = f.runid
join datastatus s on s.datasetid = m.datasetid and s.dataid = m.dataid and s.locktype = 'OUT' and s.version = m.version
where i.datasetid = :in_datasetid and i.fingerprint = :in_fingerprint and m.datasetid = :datasetid and m.dataid <> :dataid
  and m.fingerprint || '' = :fingerprint and s.status in ('READY', 'HOLD', 'PENDING') order by m.dataid limit :n

-- name: runs_failed_page
-- Unsuccessful runs, newest first, between two given ones.
select runid, jobid, dataid, epoch, status, pool, owner, forced, inputs, started, ended, outcome, detail, exit_code, log, lease_until
from run_facts where runid < :before and runid > :floor and status not in ('READY', 'RUNNING') and coalesce(outcome, '') <> 'GIVEN_BACK'
order by runid desc limit :n

-- name: runs_of_job_recent
-- Runs of one job, newest first, between two given ones; || prevents the planner from sorting all runs of the job.
select runid, jobid, dataid, epoch, status, pool, owner, forced, inputs, started, ended, outcome, detail, exit_code, log, lease_until
from run_facts where jobid || '' = :jobid and runid < :before and runid > :floor order by runid desc limit :n

-- Past states ------------------------------------------------------------------------------------------------------

-- name: runs_of_job_at
-- Runs of one job that were running at a moment, newest first, between two given ones; || prevents the planner from sorting all runs of the job.
select runid, jobid, dataid, epoch, status, pool, owner, forced, inputs, started, ended, outcome, detail, exit_code, log, lease_until
from run_facts where jobid || '' = :jobid and runid < :before and runid > :floor and started <= :at and (ended is null or ended > :at)
order by runid desc limit :n

-- name: chunks_unsettled
-- Chunks of all datasets that are not READY, with the outcome of their last run; the listed statuses match the partial index.
select s.datasetid, s.dataid, s.jobid, s.status, s.modified, s.runid, s.tries, s.sort_key, r.status as run_status, r.outcome, r.detail, r.owner,
       r.started, r.lease_until
from datastatus s left join run r on r.runid = s.runid
where s.locktype = 'OUT' and s.status <> 'READY' and s.status in ('RUNNING', 'FAILED', 'RESUBMIT', 'HOLD', 'PENDING')
order by s.status, s.datasetid, s.sort_key limit :n

-- name: schema_pinned
-- The schema of the first version of a dataset.
select schema from pinned_schema where datasetid = :datasetid

-- name: schema_pin
-- Keep the schema of the first version of a dataset.
insert into pinned_schema (datasetid, schema) values (:datasetid, :schema) on conflict (datasetid) do nothing

-- name: schema_unpin
-- Forget that schema.
delete from pinned_schema where datasetid = :datasetid

-- name: broken_jobs
-- Jobs that are recorded as broken.
select jobid from broken_job

-- name: broken_job_put
-- Record a job as broken.
insert into broken_job (jobid) values (:jobid) on conflict (jobid) do nothing

-- name: broken_job_drop
-- Record a job as repaired.
delete from broken_job where jobid = :jobid

-- name: applied_jobs
-- The jobs that a project applied last.
select jobid from applied_job where project = :project

-- name: applied_job_put
-- Record that a project applied a job.
insert into applied_job (project, jobid) values (:project, :jobid)

-- name: applied_job_drop
-- Record that a project no longer applies a job.
delete from applied_job where project = :project and jobid = :jobid

-- name: inputs_of_run
-- What a run reads, in the order of its job's inputs.
select datasetid, dataid, version from run_input where runid = :runid order by nth

-- name: contents_of_run
-- The known contents of what a run reads, each with the dataid that has it.
select i.datasetid, m.fingerprint, i.dataid from run_input i
{join data_manifest m: m.datasetid = i.datasetid and m.dataid = i.dataid and m.version = i.version}
where i.runid = :runid and m.fingerprint is not null order by i.nth

-- name: counter
-- The value of a counter.
select n from counter where name = :name

-- name: counter_add
-- Add to a counter.
insert into counter (name, n) values (:name, :n) on conflict (name) do update set n = counter.n + excluded.n

-- name: counter_put
-- Set a counter.
insert into counter (name, n) values (:name, :n) on conflict (name) do update set n = excluded.n

-- Recovery: chunks of all datasets that are not READY ----------------------------------------------------------------
