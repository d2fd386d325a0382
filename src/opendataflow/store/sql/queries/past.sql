-- Past states.

-- name: event_from
-- The first event of a range that was written when it happened: events of changes by SQL are written later.
select eventid as number, at from event where eventid >= :number and eventid <= :last and kind <> 'sql' order by eventid limit 1

-- name: run_from
-- The first run of a range.
select runid as number, started as at from run where runid >= :number and runid <= :last order by runid limit 1

-- name: events_of_chunk_until
-- The last events of one chunk up to a moment, newest first.
select eventid, at, kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt
from event where datasetid = :datasetid and dataid = :dataid and at <= :at order by at desc, eventid desc limit :n

-- name: receipts_of_job_until
-- The last receipts of a job up to a moment, newest first, between two events; || keeps the scan at the end of the history.
select eventid, at, kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt
from event where eventid > :floor and eventid <= :last and jobid || '' = :jobid and receipt is not null and at <= :at
order by eventid desc limit :n

-- name: refusals_until
-- Chunks whose last delivery or run up to a moment was refused because of the data or its definition, newest first, between two events.
select eventid, at, kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt
from event e
where eventid > :floor and eventid <= :last and at <= :at and kind = 'refused'
  and (jobid = 'outside' or after in ('WRONG_DATA', 'INVALID_PATH', 'NOT_VALIDATED', 'UNTRUSTED_DEFINITION'))
  and not exists (select 1 from event later
                  where later.datasetid = e.datasetid and later.dataid = e.dataid and later.eventid > e.eventid and later.at <= :at
                    and (e.jobid = 'outside' or later.kind not in ('claimed', 'given back', 'refused')
                         or later.kind = 'refused'
                            and later.after in ('WRONG_DATA', 'INVALID_PATH', 'NOT_VALIDATED', 'UNTRUSTED_DEFINITION')))
  and (jobid = 'outside' or after = 'UNTRUSTED_DEFINITION' or not exists (
      select 1 from run_input i
      where i.runid = e.runid
        and i.version <> (select v.epoch from event v where v.datasetid = i.datasetid and v.dataid = i.dataid and v.at <= :at
                            and v.kind in ('published', 'announced', 'rolled back') order by v.at desc, v.eventid desc limit 1)))
order by eventid desc limit :n

-- name: chunks_gone_since
-- Chunks that were forgotten or deleted after a moment, by the last events; not distinct, to prevent a sort by another index.
select datasetid, dataid from event
where eventid > (select coalesce(max(eventid), 0) from event) - :look_back and after is null and kind in ('forgotten', 'sql')
  and dataid is not null and at > :at

-- name: chunks_then
-- The state of given chunks at a moment: the last event before and the first after, the last publish, and the current state.
-- An undone claim leaves the status before it; events of IN rows do not count.
select c.datasetid, c.dataid, e.at, e.kind, e.jobid, e.runid, e.epoch,
       case when e.kind in ('refused', 'given back') then (select q.before from event q where q.datasetid = c.datasetid and q.dataid = c.dataid and q.runid = e.runid
                                          and q.kind = 'claimed' order by q.eventid desc limit 1) else e.after end as after,
       n.at as next_at, n.kind as next_kind, n.before as next_before, v.epoch as version_then,
       s.status as status_now, s.version as version_now, s.jobid as jobid_now, s.runid as runid_now, s.modified as modified_now, s.sort_key
from {rows :chunks (datasetid, dataid, position)} c
{left join event e: e.eventid = (
    select p.eventid from event p where p.datasetid = c.datasetid and p.dataid = c.dataid and p.at <= :at
      and (p.after in ('RUNNING', 'READY', 'FAILED', 'RESUBMIT', 'HOLD', 'PENDING') or (p.after is null and p.kind in ('forgotten', 'sql'))
           or (p.kind in ('refused', 'given back') and p.before = 'RUNNING'))
      and p.kind <> 'sql reading' and not (p.kind = 'sql' and (p.before = 'DONE' or p.after = 'DONE' or (
          exists (select 1 from job j where j.jobid = p.jobid and j.datasetid = p.datasetid and j.itemtype = 'IN')
          and not exists (select 1 from job j where j.jobid = p.jobid and j.datasetid = p.datasetid and j.itemtype = 'OUT'))))
    order by p.at desc, p.eventid desc limit 1)}
{left join event n: n.eventid = (
    select p.eventid from event p where p.datasetid = c.datasetid and p.dataid = c.dataid and p.at > :at
      and (p.after in ('RUNNING', 'READY', 'FAILED', 'RESUBMIT', 'HOLD', 'PENDING') or (p.after is null and p.kind in ('forgotten', 'sql'))
           or (p.kind in ('refused', 'given back') and p.before = 'RUNNING'))
      and p.kind <> 'sql reading' and not (p.kind = 'sql' and (p.before = 'DONE' or p.after = 'DONE' or (
          exists (select 1 from job j where j.jobid = p.jobid and j.datasetid = p.datasetid and j.itemtype = 'IN')
          and not exists (select 1 from job j where j.jobid = p.jobid and j.datasetid = p.datasetid and j.itemtype = 'OUT'))))
    order by p.at asc, p.eventid asc limit 1)}
{left join event v: v.eventid = (
    select p.eventid from event p where p.datasetid = c.datasetid and p.dataid = c.dataid and p.at <= :at
      and p.kind in ('published', 'announced', 'rolled back')
    order by p.at desc, p.eventid desc limit 1)}
{left join datastatus s: s.datasetid = c.datasetid and s.dataid = c.dataid and s.locktype = 'OUT'}
order by c.position

-- name: runs_of_job_at
-- Runs of one job that were running at a moment, newest first, between two given ones; || prevents the planner from sorting all runs of the job.
select runid, jobid, dataid, epoch, status, pool, owner, forced, inputs, started, ended, outcome, detail, exit_code, log, lease_until
from run_facts where jobid || '' = :jobid and runid < :before and runid > :floor and started <= :at and (ended is null or ended > :at)
order by runid desc limit :n
