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

-- Migrations ------------------------------------------------------------------------------------------------------
-- Runs ------------------------------------------------------------------------------------------------------------

-- name: run_logs_put
-- Store the log paths of runs.
update run set log = l.log from {rows :logs (runid bigint, log)} l where run.runid = l.runid

-- name: lock_runs (postgres)
-- Lock given runs; waits for transactions that end them.
select count(*) from (select r.runid from run r where r.runid = any (array(select json_array_elements_text(:runids::json)::bigint)) order by r.runid for update) locked
