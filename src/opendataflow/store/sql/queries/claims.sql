-- Claims: what may be claimed, by which limits.

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
where exists (select 1 from candidate c where c.jobid = j.jobid and c.state = 'CLAIMABLE')

-- name: outputs_of_run
-- The datasets whose chunks a run holds, whatever its job writes now.
select datasetid from datastatus where dataid = :dataid and locktype = 'OUT' and runid = :runid order by datasetid

-- name: outputs_claimed
-- The datasets whose chunks a run claimed, from the history, whatever happened to the rows and the job since.
select d.datasetid from dataset d
where (select count(*) from event e where e.datasetid = d.datasetid and e.dataid = :dataid and e.kind = 'claimed' and e.runid = :runid) > 0
order by d.datasetid

-- name: run_is_over
-- Whether the lease of one run expired.
select lease_until < lease_now() as is_over from run where runid = :runid

-- name: changes_wait
-- Whether changes have to be folded in, or deferred candidates are due; and the revision.
select
    exists (select 1 from note) or exists (select 1 from candidate where state = 'DEFERRED' and not_before <= lease_now()) as wait,
    (select value from meta where name = 'revision') as revision
