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
