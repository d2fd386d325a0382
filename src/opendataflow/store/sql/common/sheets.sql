-- Queries of the job and timeline pages.

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

-- name: made_newest
-- The last chunks of a dataset, last one first: their row counts, and begin and end of the runs that published them.
select s.dataid, s.status, m.runid, m.rows, m.bytes, r.started, r.ended
from (select datasetid, dataid, version, status, sort_key from datastatus
      where datasetid = :datasetid and locktype = 'OUT' and sort_key >= '' order by sort_key desc, dataid desc limit :n) s
left join data_manifest m on m.datasetid = s.datasetid and m.dataid = s.dataid and m.version = s.version
left join run r on r.runid = m.runid order by s.sort_key desc, s.dataid desc

-- name: failed_newest
-- The last FAILED chunks of a dataset, last one first, with the outcomes of their runs; the second condition on status matches the partial index.
select s.dataid, s.runid, s.modified, r.outcome, substr(r.detail, 1, 4000) as detail
from (select dataid, runid, modified, sort_key from datastatus
      where datasetid = :datasetid and locktype = 'OUT' and status = 'FAILED' and status <> 'READY' order by sort_key desc limit :n) s
left join run r on r.runid = s.runid order by s.sort_key desc

-- name: attempts_failed_of_job
-- Unsuccessful runs of one job, newest first, after a runid; || prevents the planner from sorting all runs of the job.
select runid, jobid, dataid, status, owner, forced, started, ended, outcome, substr(detail, 1, 4000) as detail
from run where jobid || '' = :jobid and runid > :floor and status not in ('READY', 'RUNNING') and coalesce(outcome, '') <> 'GIVEN_BACK'
order by runid desc limit :n
