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
               join datastatus s on s.datasetid = o.datasetid and s.locktype = 'OUT' and s.status <> 'READY'
                                and s.status in ('RUNNING', 'FAILED', 'RESUBMIT', 'HOLD', 'PENDING')
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
select dataid from candidate
where jobid = :jobid and state = 'CLAIMABLE' order by rank, sort_key limit :n

-- name: candidates_sample
-- Some candidates of a job in any state.
select dataid, state, inputs from candidate where jobid = :jobid order by dataid limit :n

-- name: candidates_first
-- The first candidate of a job in order, in any state, among at most :most.
select rank, sort_key, dataid from (select rank, sort_key, dataid from candidate where jobid = :jobid order by dataid limit :most) c
order by rank, sort_key limit 1

-- name: candidates_deferred
-- The deferred candidates of all jobs, next one first.
select jobid, dataid, not_before from candidate where state = 'DEFERRED' order by not_before limit :n

-- name: candidates_deferred_page
-- The deferred candidates of a job, next one first; || matches the index of deferred candidates.
select dataid, not_before from candidate where state = 'DEFERRED' and jobid || '' = :jobid order by not_before limit :n
