-- Invariants of the store: each query returns the rows that break one of them.

-- name: published_twice
-- Runs that published the same chunk more than once.
select datasetid || ' ' || dataid || ' was published more than once by epoch ' || epoch || ' of ' || jobid as what
from event where kind = 'published'
group by datasetid, dataid, jobid, epoch having count(*) > 1 order by datasetid, dataid

-- name: published_without_manifest
-- Versions that a job published without a manifest.
select e.datasetid || ' ' || e.dataid || ' has no manifest of version ' || e.epoch as what from event e
where e.kind = 'published'
  and not exists (select 1 from data_manifest m where m.datasetid = e.datasetid and m.dataid = e.dataid and m.version = e.epoch)
order by e.eventid

-- name: ready_without_history
-- READY versions that were never published or announced.
select s.datasetid || ' ' || s.dataid || ' is READY with the unpublished version ' || s.version as what from datastatus s
where s.locktype = 'OUT' and s.status = 'READY' and s.version > 0
  and not exists (select 1 from event e where e.datasetid = s.datasetid and e.dataid = s.dataid and e.epoch = s.version
                  and e.kind in ('published', 'announced'))
order by s.datasetid, s.dataid

-- name: locks_without_a_run
-- RUNNING chunks whose run is over, unless SQL set them to RUNNING.
select s.datasetid || ' ' || s.dataid || ' is RUNNING, and its run ' || coalesce(s.runid, 0) || ' is not' as what from datastatus s
where s.locktype = 'OUT' and s.status = 'RUNNING'
  and not exists (select 1 from run r where r.runid = s.runid and r.status = 'RUNNING')
  and not exists (select 1 from event e where e.datasetid = s.datasetid and e.dataid = s.dataid and e.kind = 'sql' and e.after = 'RUNNING')
order by s.datasetid, s.dataid

-- name: runs_without_a_lock
-- RUNNING runs that do not hold every chunk that they claimed.
select 'run ' || r.runid || ' of ' || r.jobid || ' ' || r.dataid || ' is RUNNING and does not hold each of its chunks' as what from run r
where r.status = 'RUNNING'
  and (select count(*) from datastatus s
       where s.locktype = 'OUT' and s.status = 'RUNNING' and s.runid = r.runid and s.dataid = r.dataid)
    < (select count(*) from event e where e.runid = r.runid and e.kind = 'claimed')
order by r.runid

-- name: history_without_a_run
-- Runs in the history without a row.
select 'run ' || e.runid || ' of ' || e.jobid || ' ' || e.dataid || ' was claimed and is not there' as what from event e
where e.kind = 'claimed' and not exists (select 1 from run r where r.runid = e.runid)
order by e.eventid

-- name: versions_that_went_back
-- READY chunks with an older version than their newest, without a rollback.
select s.datasetid || ' ' || s.dataid || ' is READY with version ' || s.version || ', and ' || e.newest || ' was published' as what
from datastatus s join (
    select datasetid, dataid, max(epoch) as newest from event where kind in ('published', 'announced') group by datasetid, dataid) e
  on e.datasetid = s.datasetid and e.dataid = s.dataid
where s.locktype = 'OUT' and s.status = 'READY' and s.version < e.newest
  and not exists (select 1 from event b where b.datasetid = s.datasetid and b.dataid = s.dataid
                  and b.kind in ('rolled back', 'forgotten', 'sql'))
order by s.datasetid, s.dataid

-- name: chunks_that_vanished
-- Published or announced chunks without a row that were not forgotten or deleted.
select e.datasetid || ' ' || e.dataid || ' was published and is not there' as what
from (select distinct datasetid, dataid from event where kind in ('published', 'announced')) e
where not exists (select 1 from datastatus s where s.datasetid = e.datasetid and s.dataid = e.dataid and s.locktype = 'OUT')
  and not exists (select 1 from event b where b.datasetid = e.datasetid and b.dataid = e.dataid and b.kind in ('forgotten', 'sql'))
order by e.datasetid, e.dataid

-- name: two_runs_at_a_time
-- Chunks with more than one running run.
select jobid || ' ' || dataid || ' is produced by ' || count(*) || ' runs at the same time' as what
from run where status = 'RUNNING' group by jobid, dataid having count(*) > 1 order by jobid, dataid

-- name: epochs_that_shrink
-- Runs with an epoch that is not greater than that of the previous run.
select 'run ' || runid || ' of ' || jobid || ' ' || dataid || ' has epoch ' || epoch || ' after ' || before as what
from (select runid, jobid, dataid, epoch, lag(epoch) over (partition by jobid, dataid order by runid) as before from run) r
where epoch <= before order by runid

-- name: runs_without_one_end
-- Runs without exactly one end per chunk in the history, or RUNNING runs with an end.
select 'run ' || r.runid || ' of ' || r.jobid || ' ' || r.dataid || ' is ' || r.status || ', and its history has '
       || coalesce(e.begun, 0) || ' claimed and ' || coalesce(e.ended, 0) || ' ended' as what
from run r left join (
    select runid, sum(case when kind = 'claimed' then 1 else 0 end) as begun,
           sum(case when kind in ('published', 'failed', 'rescued', 'lost', 'cancelled', 'stopped', 'given back', 'refused') then 1 else 0 end) as ended
    from event where runid is not null group by runid) e on e.runid = r.runid
where coalesce(e.begun, 0) = 0 or coalesce(e.ended, 0) <> (case when r.status = 'RUNNING' then 0 else e.begun end)
order by r.runid

-- name: reads_of_nothing_published
-- Versions that a run was given before they were published or announced; a READY set by SQL has no version, and a forced run is asked nothing.
select 'run ' || r.runid || ' was given ' || i.datasetid || ' ' || i.dataid || ' version ' || i.version as what
from run r
join (select runid, min(eventid) as eventid from event where kind = 'claimed' group by runid) c on c.runid = r.runid
join run_input i on i.runid = r.runid and i.version <> 0
where not r.forced
  and not exists (select 1 from event e where e.datasetid = i.datasetid and e.dataid = i.dataid and e.epoch = i.version
                  and e.kind in ('published', 'announced') and e.eventid <= c.eventid)
order by r.runid, i.nth

-- name: all_candidates
-- All candidates; a deferred candidate may be claimed later.
select jobid, dataid, rank, case state when 'DEFERRED' then 'CLAIMABLE' else state end as state, inputs
from candidate order by jobid, dataid

-- name: gaps_in_history
-- Changes of a chunk that do not begin with the status at which the previous change ended.
select c.datasetid || ' ' || c.dataid || ': event ' || c.eventid || ' (' || c.kind || ') begins with ' || coalesce(c.before, 'no status')
       || ', and the one before it ended with ' || coalesce(c.ended, 'none') as what
from (select s.*, lag(s.after) over (partition by s.datasetid, s.dataid order by s.eventid) as ended from status_change s) c
where c.before is distinct from c.ended order by c.eventid

-- name: statuses_without_history
-- Chunks whose status differs from the last change in the history.
select d.datasetid || ' ' || d.dataid || ' is ' || d.status || ', and its history ends with ' || coalesce(c.after, 'none') as what
from datastatus d left join status_change c
  on c.eventid = (select max(s.eventid) from status_change s where s.datasetid = d.datasetid and s.dataid = d.dataid)
where d.locktype = 'OUT' and d.status is distinct from c.after order by d.datasetid, d.dataid
