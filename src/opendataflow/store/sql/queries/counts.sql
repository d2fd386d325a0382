-- Counts, for monitoring and for pages.

-- name: status_counts
-- The number of chunks by dataset and status.
select datasetid, status, count(*) as n from datastatus where locktype = 'OUT' group by datasetid, status order by datasetid, status

-- name: candidate_counts
-- The number of candidates by job and state.
select jobid, state, count(*) as n from candidate group by jobid, state order by jobid, state

-- name: deferred_counts
-- The number of deferred candidates by job.
select jobid, count(*) as n from candidate where state = 'DEFERRED' group by jobid

-- name: claimable_count
-- The number of claimable candidates of a job, counted up to :most.
select count(*) as n from (select 1 from candidate where jobid = :jobid and state = 'CLAIMABLE' limit :most) c

-- name: claimable_counts
-- The number of claimable candidates by job, counted up to :most.
select j.jobid, (select count(*) from (select 1 from candidate c where c.jobid = j.jobid and c.state = 'CLAIMABLE' limit :most) c) as n
from (select distinct jobid from job where itemtype = 'OUT') j

-- name: unread_count
-- The number of READY input chunks that a job has no IN row for, even if its definition is broken.
select count(*) as n from (
    select 1 from job i
    join datastatus s on s.datasetid = i.datasetid and s.locktype = 'OUT' and s.status = 'READY'
    where i.jobid = :jobid and i.itemtype = 'IN' and not exists (
        select 1 from datastatus r
        where r.datasetid = s.datasetid and r.dataid = s.dataid and r.jobid = i.jobid and r.locktype = 'IN')
    limit :most) unread

-- name: unsettled_counts
-- The number of chunks by dataset and status other than READY, by the partial index.
select datasetid, status, count(*) as n from datastatus where locktype = 'OUT' and status <> 'READY' group by datasetid, status

-- name: unsettled_bounded
-- The number of chunks by dataset and status other than READY, by a loose index scan, counted up to :most.
with recursive w (status) as (values ('RUNNING'), ('FAILED'), ('RESUBMIT'), ('HOLD'), ('PENDING')),
found (status, datasetid) as (
    select w.status, (select min(d.datasetid) from datastatus d where d.locktype = 'OUT' and d.status <> 'READY' and d.status = w.status) from w
    union all
    select f.status, (select min(d.datasetid) from datastatus d
                      where d.locktype = 'OUT' and d.status <> 'READY' and d.status = f.status and d.datasetid > f.datasetid)
    from found f where f.datasetid is not null
)
select f.datasetid, f.status, (select count(*) from (select 1 from datastatus d
                                                     where d.locktype = 'OUT' and d.status <> 'READY' and d.status = f.status
                                                       and d.datasetid = f.datasetid limit :most) c) as n
from found f where f.datasetid is not null

-- name: datasets_with_chunks
-- Datasets with at least one chunk; the limit prevents PostgreSQL from joining all chunks.
select d.datasetid from dataset d where (select 1 from datastatus s where s.datasetid = d.datasetid and s.locktype = 'OUT' limit 1) is not null

-- name: running_counts
-- The number of running chunks by job and pool, and of those with an expired lease.
select jobid, pool, count(*) as n, sum(case when lease_until < lease_now() then 1 else 0 end) as expired
from run where status = 'RUNNING' group by jobid, pool

-- name: refusal_counts
-- The number of refusals by name between two events.
select coalesce(after, '') as name, count(*) as n from event where eventid > :after and eventid <= :upto and kind = 'refused' group by coalesce(after, '')

-- name: message_counts
-- The number of messages by state.
select state as name, count(*) as n from message group by state
