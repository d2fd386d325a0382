-- Claims: what may be claimed, by which limits.

-- name: claim_pick
-- The first n claimable candidates of a job with their facts; none while changes have to be folded in.
-- Concurrent claims lock what they pick and skip what is locked.
with state as materialized (
    select (select value from meta where name = 'revision') as revision,
           exists (select 1 from note) as notes,
           exists (select 1 from run where status = 'RUNNING' and lease_until < lease_now()) as expired,
           exists (select 1 from candidate where state = 'DEFERRED' and not_before <= lease_now()) as due
), picked as materialized (
    select c.jobid, c.dataid from candidate c
    where c.jobid = :jobid and c.state = 'CLAIMABLE' and (select not (notes or expired or due) from state)
    order by c.rank, c.sort_key limit :n
    {postgres: for update skip locked}
)
select s.revision, s.notes, s.expired, s.due, f.dataid, f.rank, f.sort_key, f.epoch, f.tries, f.inputs
from state s left join picked p on true left join candidate_facts f on f.jobid = p.jobid and f.dataid = p.dataid
order by f.rank, f.sort_key

-- name: claim_pick_dataid
-- One given candidate of a job with its facts; none while changes have to be folded in.
with state as materialized (
    select (select value from meta where name = 'revision') as revision,
           exists (select 1 from note) as notes,
           exists (select 1 from run where status = 'RUNNING' and lease_until < lease_now()) as expired,
           exists (select 1 from candidate where state = 'DEFERRED' and not_before <= lease_now()) as due
), picked as materialized (
    select c.jobid, c.dataid from candidate c
    where c.jobid = :jobid and c.dataid = :dataid and c.state in ('CLAIMABLE', 'DEFERRED')
      and (select not (notes or expired or due) from state)
    {postgres: for update skip locked}
)
select s.revision, s.notes, s.expired, s.due, f.dataid, f.rank, f.sort_key, f.epoch, f.tries, f.inputs
from state s left join picked p on true left join candidate_facts f on f.jobid = p.jobid and f.dataid = p.dataid

-- name: slots_taken
-- The number of running chunks in a pool.
select count(*) as taken from run where pool = :pool and pool <> '' and status = 'RUNNING'

-- name: readers_running
-- The number of running chunks that read a dataset.
select count(*) as taken from run r
where r.status = 'RUNNING' and exists (select 1 from job i where i.datasetid = :datasetid and i.itemtype = 'IN' and i.jobid = r.jobid)

-- name: jobs_claimable
-- Jobs with claimable candidates, ignoring limits; and '' while changes have to be folded in.
select '' as jobid where exists (select 1 from note)
             or exists (select 1 from run where status = 'RUNNING' and lease_until < lease_now())
             or exists (select 1 from candidate where state = 'DEFERRED' and not_before <= lease_now())
union all
select j.jobid from (select distinct jobid from job where itemtype = 'OUT') j
where (select 1 from candidate c where c.jobid = j.jobid and c.state = 'CLAIMABLE' limit 1) is not null

-- name: outputs_of_run
-- The datasets whose chunks a run holds, whatever its job writes now.
select d.datasetid from dataset d {join datastatus s: s.datasetid = d.datasetid and s.dataid = :dataid and s.locktype = 'OUT'}
where s.runid = :runid order by d.datasetid

-- name: outputs_claimed
-- The datasets whose chunks a run claimed, from the history, whatever happened to the rows and the job since.
select d.datasetid from dataset d
where (select count(*) from event e where e.datasetid = d.datasetid and e.dataid = :dataid and e.kind = 'claimed' and e.runid = :runid) > 0
order by d.datasetid

-- name: run_is_over
-- Whether the lease of one run expired.
select lease_until < lease_now() as is_over from run where runid = :runid

-- name: changes_wait
-- Whether changes have to be folded in, or deferred candidates are due.
select exists (select 1 from note) or exists (select 1 from candidate where state = 'DEFERRED' and not_before <= lease_now()) as wait

-- name: heartbeat
-- Extend the leases of these runs, if they still hold their chunks.
update run set lease_until = lease_now() + lease
where runid {in :runids bigint} and status = 'RUNNING'
  and exists (select 1 from job o
              join datastatus s on s.datasetid = o.datasetid and s.dataid = run.dataid and s.locktype = 'OUT'
                               and s.status = 'RUNNING' and s.runid = run.runid
              where o.jobid = run.jobid and o.itemtype = 'OUT')
returning runid, lease_until

-- name: lock_pool (postgres)
-- Serialize claims that share a pool.
select pg_advisory_xact_lock(hashtextextended(:pool, 727106))

-- name: lock_readers (postgres)
-- Serialize claims that read a dataset with a limit; announcements of its chunks do not wait.
select pg_advisory_xact_lock(hashtextextended(:datasetid, 727104))

-- name: lock_inputs (postgres)
-- Lock the inputs of a run until its claim is committed, so that a concurrent recall finds the run.
select count(*) from (
    select d.datasetid from (select i ->> 0 as datasetid, i ->> 1 as dataid from json_array_elements(:inputs::json) i order by 1, 2 offset 0) i
    cross join lateral (select d.datasetid from datastatus d where d.datasetid = i.datasetid and d.dataid = i.dataid and d.locktype = 'OUT' for share) d) locked
