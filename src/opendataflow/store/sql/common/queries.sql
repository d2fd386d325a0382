-- Queries that are the same on both databases. Parameters are written :name.

-- name: run_row
-- One run.
select runid, jobid, dataid, epoch, status, pool, owner, forced, inputs, started, ended, outcome, detail, exit_code, log, lease_until
from run where runid = :runid

-- name: runs_page
-- Runs, newest first, before a given one.
select runid, jobid, dataid, epoch, status, pool, owner, forced, inputs, started, ended, outcome, detail, exit_code, log, lease_until
from run where runid < :before order by runid desc limit :n

-- name: runs_of_job_page
-- Runs of one job, newest first, before a given one.
select runid, jobid, dataid, epoch, status, pool, owner, forced, inputs, started, ended, outcome, detail, exit_code, log, lease_until
from run where runid in (select r.runid from run r where r.jobid = :jobid and r.runid < :before order by r.runid desc limit :n)
order by runid desc

-- name: runs_of_dataid
-- All runs of (jobid, dataid), newest first.
select runid, jobid, dataid, epoch, status, pool, owner, forced, inputs, started, ended, outcome, detail, exit_code, log, lease_until
from run where jobid = :jobid and dataid = :dataid order by epoch desc

-- name: runs_running
-- Running runs; + 0 prevents SQLite from scanning all runs in order.
select runid, jobid, dataid, epoch, status, pool, owner, forced, inputs, started, ended, outcome, detail, exit_code, log, lease_until
from run where status = 'RUNNING' order by runid + 0

-- name: runs_over
-- Running runs with an expired lease.
select runid, jobid, dataid, epoch, status, pool, owner, forced, inputs, started, ended, outcome, detail, exit_code, log, lease_until
from run where status = 'RUNNING' and lease_until < lease_now() order by runid

-- name: same_content_from
-- The same for chunks made from a given input content; || '' prevents the planner from starting at the content itself.
select m.datasetid, m.dataid, m.version from data_manifest i
join made_from f on f.in_datasetid = i.datasetid and f.in_dataid = i.dataid and f.in_version = i.version
join data_manifest m on m.datasetid = f.datasetid and m.dataid = f.dataid and m.version = f.version
join datastatus s on s.datasetid = m.datasetid and s.dataid = m.dataid and s.locktype = 'OUT' and s.version = m.version
where i.datasetid = :in_datasetid and i.fingerprint = :in_fingerprint and f.datasetid = :datasetid and f.dataid <> :dataid
  and m.fingerprint || '' = :fingerprint and s.status in ('READY', 'HOLD', 'PENDING') order by m.dataid limit :n

-- name: runs_failed_page
-- Unsuccessful runs, newest first, between two given ones.
select runid, jobid, dataid, epoch, status, pool, owner, forced, inputs, started, ended, outcome, detail, exit_code, log, lease_until
from run where runid < :before and runid > :floor and status not in ('READY', 'RUNNING') and coalesce(outcome, '') <> 'GIVEN_BACK'
order by runid desc limit :n

-- name: runs_of_job_recent
-- Runs of one job, newest first, between two given ones; || prevents the planner from sorting all runs of the job.
select runid, jobid, dataid, epoch, status, pool, owner, forced, inputs, started, ended, outcome, detail, exit_code, log, lease_until
from run where jobid || '' = :jobid and runid < :before and runid > :floor order by runid desc limit :n

-- name: runs_of_job_at
-- Runs of one job that were running at a moment, newest first, between two given ones; || prevents the planner from sorting all runs of the job.
select runid, jobid, dataid, epoch, status, pool, owner, forced, inputs, started, ended, outcome, detail, exit_code, log, lease_until
from run where jobid || '' = :jobid and runid < :before and runid > :floor and started <= :at and (ended is null or ended > :at)
order by runid desc limit :n

-- name: chunks_unsettled
-- Chunks of all datasets that are not READY, with the outcome of their last run; the listed statuses match the partial index.
select s.datasetid, s.dataid, s.jobid, s.status, s.modified, s.runid, s.tries, s.sort_key, r.status as run_status, r.outcome, r.detail, r.owner,
       r.started, r.lease_until, case when r.outcome = 'WRONG_DATA' then r.inputs end as inputs
from datastatus s left join run r on r.runid = s.runid
where s.locktype = 'OUT' and s.status <> 'READY' and s.status in ('RUNNING', 'FAILED', 'RESUBMIT', 'HOLD', 'PENDING')
order by s.status, s.datasetid, s.sort_key limit :n

