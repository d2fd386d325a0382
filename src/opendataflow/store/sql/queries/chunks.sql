-- Chunks: OUT rows and IN rows.

-- name: chunk
-- One chunk as a product.
select datasetid, dataid, jobid, status, modified, epoch, version, runid, tries, held, lowerbound as lower, upperbound as upper, sort_key
from datastatus where datasetid = :datasetid and dataid = :dataid and locktype = 'OUT'

-- name: chunks_page
-- Chunks of a dataset after a position, in order.
select datasetid, dataid, jobid, status, modified, epoch, version, runid, tries, held, lowerbound as lower, upperbound as upper, sort_key
from datastatus
where datasetid = :datasetid and locktype = 'OUT' and (sort_key, dataid) > (:after_key, :after_dataid)
order by sort_key, dataid limit :n

-- name: chunks_with_status_page
-- Chunks of a dataset with one status, after a position, in order.
select datasetid, dataid, jobid, status, modified, epoch, version, runid, tries, held, lowerbound as lower, upperbound as upper, sort_key
from datastatus
where datasetid = :datasetid and locktype = 'OUT' and status = :status and (sort_key, dataid) > (:after_key, :after_dataid)
order by sort_key, dataid limit :n

-- name: unsettled_page
-- Chunks of a dataset with one status other than READY, after a position, in order.
-- The second condition on status matches the partial index; || '' prevents SQLite from scanning the whole dataset in order.
select datasetid, dataid, jobid, status, modified, epoch, version, runid, tries, held, lowerbound as lower, upperbound as upper, sort_key
from datastatus
where datasetid = :datasetid and locktype = 'OUT' and status = :status and status <> 'READY' and (sort_key, dataid) > (:after_key, :after_dataid)
order by sort_key, dataid || '' limit :n

-- name: chunks_between
-- Chunks of a dataset between two positions, both included.
select dataid, sort_key, status from datastatus
where datasetid = :datasetid and locktype = 'OUT' and sort_key >= :from_key and sort_key <= :to_key
order by sort_key, dataid limit :n

-- name: dataids_newest
-- The dataids of a dataset between two positions, both included, last ones first.
select dataid from datastatus
where datasetid = :datasetid and locktype = 'OUT' and sort_key >= :from_key and sort_key <= :to_key
order by sort_key desc, dataid desc limit :n

-- name: chunks_of_dataid
-- The chunks with one dataid, of all datasets.
select s.datasetid, s.dataid, s.status from dataset d {join datastatus s: s.datasetid = d.datasetid and s.dataid = :dataid and s.locktype = 'OUT'}
order by d.datasetid limit :n

-- name: inputs_of_job
-- The IN row of one job for a chunk.
select datasetid, dataid, jobid, status, modified, epoch, version, runid from datastatus
where datasetid = :datasetid and dataid = :dataid and jobid = :jobid and locktype = 'IN'

-- name: readers_of_chunk
-- The IN rows of one chunk, of all jobs.
select datasetid, dataid, jobid, status, modified, epoch, version, runid from datastatus
where datasetid = :datasetid and dataid = :dataid and locktype = 'IN' order by jobid

-- name: lines_back
-- Chunks of a dataset before a position, last ones first, with the figures of their current versions.
select s.dataid, s.status, s.modified, s.version, s.runid, s.sort_key, m.rows, m.bytes, m.published
from (select datasetid, dataid, status, modified, version, runid, sort_key from datastatus
      where datasetid = :datasetid and locktype = 'OUT' and (sort_key, dataid) < (:before_key, :before_dataid)
      order by sort_key desc, dataid desc limit :n) s
{left join data_manifest m: m.datasetid = s.datasetid and m.dataid = s.dataid and m.version = s.version}
order by s.sort_key desc, s.dataid desc

-- name: lines_back_ready
-- The same for READY chunks.
select s.dataid, s.status, s.modified, s.version, s.runid, s.sort_key, m.rows, m.bytes, m.published
from (select datasetid, dataid, status, modified, version, runid, sort_key from datastatus
      where datasetid = :datasetid and locktype = 'OUT' and status = 'READY' and (sort_key, dataid) < (:before_key, :before_dataid)
      order by sort_key desc, dataid desc limit :n) s
{left join data_manifest m: m.datasetid = s.datasetid and m.dataid = s.dataid and m.version = s.version}
order by s.sort_key desc, s.dataid desc

-- name: lines_back_unsettled
-- The same for one other status; the second condition on status matches the partial index.
select s.dataid, s.status, s.modified, s.version, s.runid, s.sort_key, m.rows, m.bytes, m.published
from (select datasetid, dataid, status, modified, version, runid, sort_key from datastatus
      where datasetid = :datasetid and locktype = 'OUT' and status = :status and status <> 'READY'
      and (sort_key, dataid) < (:before_key, :before_dataid)
      order by sort_key desc, dataid desc limit :n) s
{left join data_manifest m: m.datasetid = s.datasetid and m.dataid = s.dataid and m.version = s.version}
order by s.sort_key desc, s.dataid desc

-- name: chunks_unheld
-- RUNNING chunks that no run holds, filtered by dataset and dataid where given; the second condition on status matches the partial index.
select s.datasetid, s.sort_key, s.dataid from datastatus s {left join run r: r.runid = s.runid and r.status = 'RUNNING'}
where s.locktype = 'OUT' and s.status = 'RUNNING' and s.status <> 'READY' and r.runid is null
  and (:datasetid = '' or s.datasetid = :datasetid) and (:dataid = '' or s.dataid = :dataid)

-- name: chunks_given
-- The OUT rows of given chunks, with the status of their runs. They are locked, in one order, until the transaction ends.
select s.datasetid, s.dataid, s.jobid, s.status, s.epoch, s.version, s.runid, s.tries, s.held, s.sort_key,
       (select r.status from run r where r.runid = s.runid) as run_status
from (select datasetid, dataid from {rows :chunks (datasetid, dataid)} g {postgres: order by 1, 2 offset 0}) c
{join datastatus s {postgres: for update}: s.datasetid = c.datasetid and s.dataid = c.dataid and s.locktype = 'OUT'}

-- name: statuses_given
-- The status, version and run of given chunks.
select s.datasetid, s.dataid, s.status, s.version, s.runid from {rows :chunks (datasetid, dataid)} c
{join datastatus s: s.datasetid = c.datasetid and s.dataid = c.dataid and s.locktype = 'OUT'}

-- name: readers_given
-- The IN rows of given chunks.
select s.datasetid, s.dataid, s.jobid, s.status from {rows :chunks (datasetid, dataid)} c
{join datastatus s: s.datasetid = c.datasetid and s.dataid = c.dataid and s.locktype = 'IN'}

-- name: readings_given
-- The IN rows of one job for given chunks, each for one dataid of the job; rows consumed for another dataid are left out.
select s.datasetid, s.dataid, s.status from {rows :chunks (datasetid, dataid, made)} c
{join datastatus s: s.datasetid = c.datasetid and s.dataid = c.dataid and s.jobid = :jobid and s.locktype = 'IN'
                    and coalesce((select r.dataid from run r where r.runid = s.runid), c.made) = c.made}

-- name: chunk_sort_keys_put
-- Set the positions of chunks; an UPDATE … FROM would not be driven by the list.
insert into datastatus as d (datasetid, dataid, jobid, locktype, status, sort_key, seal)
select s.datasetid, s.dataid, s.jobid, s.locktype, s.status, c.sort_key, 1
from {rows :chunks (datasetid, dataid, sort_key)} c
{join datastatus s: s.datasetid = c.datasetid and s.dataid = c.dataid and s.locktype = 'OUT'}
where true
on conflict (datasetid, dataid) where locktype = 'OUT' do update set sort_key = excluded.sort_key, seal = d.seal + 1

-- name: chunks_within
-- The chunks of given spans of datasets, with their statuses.
select s.datasetid, s.dataid, s.status
from {rows :spans (datasetid, first, last)} v
{join datastatus s {sqlite: indexed by chunks_in_order}: s.locktype = 'OUT' and s.datasetid = v.datasetid and s.sort_key >= v.first and s.sort_key <= v.last}
limit :most

-- name: unsettled_between
-- Chunks that are not READY in given spans of datasets. Each status is a literal: otherwise PostgreSQL would scan the whole span.
select s.datasetid, s.dataid, s.status from {rows :spans (datasetid, first, last)} v
{join datastatus s: s.status = 'RUNNING' and s.status <> 'READY' and s.locktype = 'OUT' and s.datasetid = v.datasetid and s.sort_key >= v.first and s.sort_key <= v.last}
union all
select s.datasetid, s.dataid, s.status from {rows :spans (datasetid, first, last)} v
{join datastatus s: s.status = 'FAILED' and s.status <> 'READY' and s.locktype = 'OUT' and s.datasetid = v.datasetid and s.sort_key >= v.first and s.sort_key <= v.last}
union all
select s.datasetid, s.dataid, s.status from {rows :spans (datasetid, first, last)} v
{join datastatus s: s.status = 'RESUBMIT' and s.status <> 'READY' and s.locktype = 'OUT' and s.datasetid = v.datasetid and s.sort_key >= v.first and s.sort_key <= v.last}
union all
select s.datasetid, s.dataid, s.status from {rows :spans (datasetid, first, last)} v
{join datastatus s: s.status = 'HOLD' and s.status <> 'READY' and s.locktype = 'OUT' and s.datasetid = v.datasetid and s.sort_key >= v.first and s.sort_key <= v.last}
union all
select s.datasetid, s.dataid, s.status from {rows :spans (datasetid, first, last)} v
{join datastatus s: s.status = 'PENDING' and s.status <> 'READY' and s.locktype = 'OUT' and s.datasetid = v.datasetid and s.sort_key >= v.first and s.sort_key <= v.last}
limit :most

-- name: lock_dataset (postgres)
-- Serialize announcements of one dataset, so that each sees the versions and contents of the others; claims do not wait.
select pg_advisory_xact_lock(hashtextextended(:datasetid, 727105))

-- name: lock_content (postgres)
-- Serialize runs that publish the same content, so that the second one sees the first.
select pg_advisory_xact_lock(hashtextextended(:datasetid || ' ' || :fingerprint, 727103))
