-- Candidates, and the facts that they are derived from.

-- name: ready_chunks_page
-- READY chunks of a dataset after a position, to derive candidates from.
select dataid, sort_key from datastatus
where datasetid = :datasetid and locktype = 'OUT' and status = 'READY' and (sort_key, dataid) > (:after_key, :after_dataid)
order by sort_key, dataid limit :n

-- name: resubmitted_chunks
-- RESUBMIT chunks of a dataset, which are candidates whatever their inputs are.
select dataid from datastatus where datasetid = :datasetid and locktype = 'OUT' and status = 'RESUBMIT' and status <> 'READY' order by sort_key

-- name: chunks_in_order
-- Every chunk of a dataset with its status, in order: for mapping all.
select dataid, status from datastatus where datasetid = :datasetid and locktype = 'OUT' order by sort_key, dataid

-- name: newest_ready
-- The newest READY chunk up to a position: for mapping latest.
select dataid from datastatus
where datasetid = :datasetid and locktype = 'OUT' and status = 'READY' and sort_key <= :until_key
order by sort_key desc, dataid desc limit 1

-- name: unfinished_of_job
-- Whether a job has claimable, deferred, RUNNING, RESUBMIT, FAILED or set-aside chunks.
select exists (select 1 from candidate where jobid = :jobid and state <> 'WAITING')
    or exists (select 1 from run where jobid = :jobid and status = 'RUNNING')
    or exists (select 1 from job o
               {join datastatus s: s.datasetid = o.datasetid and s.locktype = 'OUT' and s.status <> 'READY'
                                   and s.status in ('RUNNING', 'FAILED', 'RESUBMIT', 'HOLD', 'PENDING')}
               where o.jobid = :jobid and o.itemtype = 'OUT') as unfinished

-- name: candidate_dataids
-- All candidates of a job.
select dataid from candidate where jobid = :jobid

-- name: candidates_due
-- Make due deferred candidates claimable.
update candidate set state = 'CLAIMABLE', not_before = 0 where state = 'DEFERRED' and not_before <= lease_now()

-- name: candidate_drop
-- Remove one candidate.
delete from candidate where jobid = :jobid and dataid = :dataid

-- name: candidate_put
-- Insert or update one candidate.
insert into candidate (jobid, dataid, sort_key, rank, state, not_before, inputs)
values (:jobid, :dataid, :sort_key, :rank, :state, :not_before, :inputs)
on conflict (jobid, dataid) do update set sort_key = excluded.sort_key, rank = excluded.rank, state = excluded.state,
    not_before = excluded.not_before, inputs = excluded.inputs

-- name: candidates_of_job_drop
-- Remove the candidates of one job.
delete from candidate where jobid = :jobid

-- name: candidate_row
-- One candidate.
select state, rank, not_before from candidate where jobid = :jobid and dataid = :dataid

-- name: candidates_page
-- The next candidates of a job, in claim order.
select rank, sort_key, dataid from candidate
where jobid = :jobid and state = 'CLAIMABLE' order by rank, sort_key limit :n

-- name: candidates_sample
-- Some candidates of a job in any state.
select dataid, state, inputs from candidate where jobid = :jobid order by dataid limit :n

-- name: candidates_first
-- The first candidates of a job in order, in any state, among at most :most.
select rank, sort_key, dataid from (select rank, sort_key, dataid from candidate where jobid = :jobid order by dataid limit :most) c
order by rank, sort_key limit :n

-- name: candidates_given
-- The states of given candidates.
select c.jobid, c.dataid, c.state from {rows :pairs (jobid, dataid)} p
{join candidate c: c.jobid = p.jobid and c.dataid = p.dataid}

-- name: candidates_due_page
-- Deferred candidates that are due, as the next claim makes them.
select jobid, dataid, sort_key, rank, 'CLAIMABLE' as state, 0.0 as not_before, inputs from candidate
where state = 'DEFERRED' and not_before <= lease_now() order by not_before limit :n

-- name: candidates_deferred
-- The deferred candidates of all jobs, next one first.
select jobid, dataid, not_before from candidate where state = 'DEFERRED' order by not_before limit :n

-- name: candidates_deferred_page
-- The deferred candidates of a job, next one first; || matches the index of deferred candidates.
select dataid, not_before from candidate where state = 'DEFERRED' and jobid || '' = :jobid order by not_before limit :n

-- name: candidates_put
-- Insert or update candidates.
insert into candidate (jobid, dataid, sort_key, rank, state, not_before, inputs)
select c.jobid, c.dataid, c.sort_key, c.rank, c.state, c.not_before, c.inputs
from {rows :candidates (jobid, dataid, sort_key, rank smallint, state, not_before double precision, inputs)} c
where true
on conflict (jobid, dataid) do update set sort_key = excluded.sort_key, rank = excluded.rank, state = excluded.state,
    not_before = excluded.not_before, inputs = excluded.inputs

-- name: candidates_put_alike
-- Write candidates of one job that differ only in their dataid, which replaces * in their inputs.
insert into candidate (jobid, dataid, sort_key, rank, state, not_before, inputs)
select :jobid, p.key, p.value, cast(:rank as smallint), :state, :not_before, replace(:inputs, '*', p.key) from {map :pairs} p
where true
on conflict (jobid, dataid) do update set sort_key = excluded.sort_key, rank = excluded.rank, state = excluded.state,
    not_before = excluded.not_before, inputs = excluded.inputs

-- name: candidates_drop
-- Remove candidates of one job.
delete from candidate where jobid = :jobid and dataid {in :dataids}

-- name: deferred_given
-- Which of given candidates are deferred. They are locked before the status rows, in one order, like in a claim, to avoid deadlocks.
select p.jobid, p.dataid from (select jobid, dataid from {rows :pairs (jobid, dataid)} g {postgres: order by 1, 2 offset 0}) p
{join candidate c {postgres: for update}: c.jobid = p.jobid and c.dataid = p.dataid}
where c.state = 'DEFERRED'

-- name: reads_of_pairs
-- The IN rows of jobs for given chunks, each for one dataid of the job.
-- A row that was consumed for another dataid, under an earlier mapping, does not count.
select p.jobid, p.dataid, s.status from {rows :reads (jobid, dataid, in_datasetid, in_dataid)} p
{join datastatus s: s.datasetid = p.in_datasetid and s.dataid = p.in_dataid and s.jobid = p.jobid and s.locktype = 'IN'
                    and coalesce((select r.dataid from run r where r.runid = s.runid), p.dataid) = p.dataid}

-- name: ready_inputs_alike
-- The number of READY inputs of many dataids of one job with identical mappings, without one dataset; null if any of the outputs or IN rows exist.
select case
    when exists (select 1 from {values :outputs} o cross join {map :pairs} p
                 {join datastatus s: s.datasetid = o.value and s.dataid = p.key and s.locktype = 'OUT'})
      or exists (select 1 from {values :inputs} i cross join {map :pairs} p
                 {join datastatus s: s.datasetid = i.value and s.dataid = p.key and s.jobid = :jobid and s.locktype = 'IN'}) then null
    else (select count(*) from {values :inputs} i cross join {map :pairs} p
          {join datastatus s: s.datasetid = i.value and s.dataid = p.key and s.locktype = 'OUT'}
          where i.value <> :ready and s.status = 'READY') end as ready

-- name: pair_facts_alike
-- The facts that decide about many dataids of one job with identical mappings, grouped by equal facts.
select f.inputs, f.outputs, f.reads, {sqlite: json_group_object}{postgres: json_object_agg}(f.dataid, f.sort_key){postgres: ::text} as pairs
from (select p.key as dataid, p.value as sort_key,
             (select string_agg(s.status, ',') from {values :inputs} i
              {join datastatus s: s.datasetid = i.value and s.dataid = p.key and s.locktype = 'OUT'}) as inputs,
             (select string_agg(s.status, ',') from {values :outputs} o
              {join datastatus s: s.datasetid = o.value and s.dataid = p.key and s.locktype = 'OUT'}) as outputs,
             (select string_agg(s.status, ',') from {values :inputs} i
              {join datastatus s: s.datasetid = i.value and s.dataid = p.key and s.jobid = :jobid and s.locktype = 'IN'
                                  and coalesce((select r.dataid from run r where r.runid = s.runid), p.key) = p.key}) as reads
      from {map :pairs} p) f
group by f.inputs, f.outputs, f.reads

-- Advisory locks, which a transaction holds until it ends. In SQLite a write transaction locks the file.

-- name: lock_pairs (postgres)
-- Serialize transactions that derive the same (job, dataid), so that each sees the changes of the other.
select count(*) from (
    select pg_advisory_xact_lock_shared(hashtext(p ->> 0), 0), pg_advisory_xact_lock(hashtext(p ->> 0), hashtext(p ->> 1))
    from (select p from json_array_elements(:pairs::json) p order by hashtext(p ->> 0), hashtext(p ->> 1)) p offset 0) locked

-- name: lock_jobs (postgres)
-- The same by whole jobs: the locks of a bulk change would not fit into the lock table.
select count(*) from (
    select pg_advisory_xact_lock(job, 0) from (select distinct hashtext(j) as job from json_array_elements_text(:jobs::json) j order by 1) j offset 0) locked

-- name: lock_candidates (postgres)
-- Lock given candidates, in one order to avoid deadlocks; waits for claims of them.
select count(*) from (
    select 1 from (select p ->> 0 as jobid, p ->> 1 as dataid from json_array_elements(:pairs::json) p order by 1, 2 offset 0) p
    cross join lateral (select c.state from candidate c where c.jobid = p.jobid and c.dataid = p.dataid offset 0 for update) c) locked
