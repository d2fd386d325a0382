-- Counts, for monitoring and for pages.

-- name: status_counts
-- The number of chunks by dataset and status.
select datasetid, status, count(*) as n from datastatus where locktype = 'OUT' group by datasetid, status order by datasetid, status

-- name: candidate_counts
-- The number of candidates by job and state.
select jobid, state, count(*) as n from candidate group by jobid, state order by jobid, state

-- name: deferred_counts
-- The number of deferred candidates by job.
select d.jobid, count(*) as n from (select jobid || '' as jobid from candidate where state = 'DEFERRED') d group by d.jobid

-- name: claimable_count
-- The number of claimable candidates of a job, counted up to :most.
select count(*) as n from (select 1 from candidate where jobid = :jobid and state = 'CLAIMABLE' limit :most) c

-- name: claimable_counts
-- The number of claimable candidates by job, counted up to :most.
select j.jobid, (select count(*) from (select 1 from candidate c where c.jobid = j.jobid and c.state = 'CLAIMABLE' limit :most) counted) as n
from (select distinct jobid from job where itemtype = 'OUT') j

-- name: unread_count
-- The number of READY input chunks that a job has no IN row for, even if its definition is broken.
select count(*) as n from (
    select 1 from job i
    {join datastatus s: s.datasetid = i.datasetid and s.locktype = 'OUT' and s.status = 'READY'}
    where i.jobid = :jobid and i.itemtype = 'IN' and (
        select r.jobid from datastatus r
        where r.datasetid = s.datasetid and r.dataid = s.dataid and r.jobid = i.jobid and r.locktype = 'IN') is null
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

-- name: span_counts
-- The number of chunks in each given span, in total and by status other than READY, counted up to :most.
select
       (select count(*) from (select 1 from datastatus d where d.locktype = 'OUT' and d.datasetid = v.datasetid
                               and d.sort_key >= v.first and d.sort_key <= v.last limit :most) c) as chunks,
       (select count(*) from (select 1 from datastatus d where d.status = 'RUNNING' and d.status <> 'READY' and d.locktype = 'OUT' and d.datasetid = v.datasetid
                               and d.sort_key >= v.first and d.sort_key <= v.last limit :most) c) as running,
       (select count(*) from (select 1 from datastatus d where d.status = 'FAILED' and d.status <> 'READY' and d.locktype = 'OUT' and d.datasetid = v.datasetid
                               and d.sort_key >= v.first and d.sort_key <= v.last limit :most) c) as failed,
       (select count(*) from (select 1 from datastatus d where d.status = 'RESUBMIT' and d.status <> 'READY' and d.locktype = 'OUT' and d.datasetid = v.datasetid
                               and d.sort_key >= v.first and d.sort_key <= v.last limit :most) c) as resubmit,
       (select count(*) from (select 1 from datastatus d where d.status = 'HOLD' and d.status <> 'READY' and d.locktype = 'OUT' and d.datasetid = v.datasetid
                               and d.sort_key >= v.first and d.sort_key <= v.last limit :most) c) as hold,
       (select count(*) from (select 1 from datastatus d where d.status = 'PENDING' and d.status <> 'READY' and d.locktype = 'OUT' and d.datasetid = v.datasetid
                               and d.sort_key >= v.first and d.sort_key <= v.last limit :most) c) as pending
from {rows :spans (datasetid, first, last, position)} v order by v.position

-- name: ends_given
-- The first and the last dataid of each given span of a dataset.
select
       (select d.dataid from datastatus d where d.locktype = 'OUT' and d.datasetid = v.datasetid
        and d.sort_key >= v.first and d.sort_key <= v.last order by d.sort_key, d.dataid limit 1) as first_dataid,
       (select d.dataid from datastatus d where d.locktype = 'OUT' and d.datasetid = v.datasetid
        and d.sort_key >= v.first and d.sort_key <= v.last order by d.sort_key desc, d.dataid desc limit 1) as last_dataid
from {rows :spans (datasetid, first, last, position)} v order by v.position

-- name: span_chunks
-- The number of chunks in each given span, counted up to :most.
select (select count(*) from (select 1 from datastatus d where d.locktype = 'OUT' and d.datasetid = v.datasetid
                               and d.sort_key >= v.first and d.sort_key <= v.last limit :most) c) as chunks
from {rows :spans (datasetid, first, last, position)} v order by v.position

-- name: run_counts
-- Outcomes and durations of runs: those between two runids, and given ones that were running at the last count.
select jobid, status, outcome, is_new, bucket, count(*) as n, sum(seconds) as seconds
from (select jobid, status, outcome, is_new, seconds,
             case when seconds <= 0.1 then 0 when seconds <= 1 then 1 when seconds <= 5 then 2 when seconds <= 15 then 3
                  when seconds <= 60 then 4 when seconds <= 300 then 5 when seconds <= 900 then 6 when seconds <= 3600 then 7
                  when seconds <= 14400 then 8 when seconds <= 86400 then 9 else 10 end as bucket
      from (select jobid, status, outcome, is_new, case when seconds > 0 then seconds else 0.0 end as seconds
            from (select jobid, status, outcome, 1 as is_new, {seconds started, ended} as seconds from run where runid > :after and runid <= :upto
                  union all
                  select jobid, status, outcome, 0, {seconds started, ended} from run where runid {in :ended bigint}) timed) each_run) in_buckets
group by jobid, status, outcome, is_new, bucket

-- name: runs_took_given
-- The durations in seconds of the last successful runs of given jobs, at most :n of each; || prevents a scan of all runs of a job.
select t.jobid, t.seconds from (
    select r.jobid, {seconds r.started, r.ended} as seconds, row_number() over (partition by r.jobid order by r.runid desc) as nth
    from run r
    where r.runid > (select coalesce(max(runid), 0) from run) - :look_back and r.status = 'READY' and r.ended is not null
      and r.jobid || '' {in :jobs}) t
where t.nth <= :n and t.seconds is not null
