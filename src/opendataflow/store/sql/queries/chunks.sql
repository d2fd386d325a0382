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
select s.datasetid, s.dataid, s.status from dataset d join datastatus s on s.datasetid = d.datasetid and s.dataid = :dataid and s.locktype = 'OUT'
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
left join data_manifest m on m.datasetid = s.datasetid and m.dataid = s.dataid and m.version = s.version
order by s.sort_key desc, s.dataid desc

-- name: lines_back_ready
-- The same for READY chunks.
select s.dataid, s.status, s.modified, s.version, s.runid, s.sort_key, m.rows, m.bytes, m.published
from (select datasetid, dataid, status, modified, version, runid, sort_key from datastatus
      where datasetid = :datasetid and locktype = 'OUT' and status = 'READY' and (sort_key, dataid) < (:before_key, :before_dataid)
      order by sort_key desc, dataid desc limit :n) s
left join data_manifest m on m.datasetid = s.datasetid and m.dataid = s.dataid and m.version = s.version
order by s.sort_key desc, s.dataid desc

-- name: lines_back_unsettled
-- The same for one other status; the second condition on status matches the partial index.
select s.dataid, s.status, s.modified, s.version, s.runid, s.sort_key, m.rows, m.bytes, m.published
from (select datasetid, dataid, status, modified, version, runid, sort_key from datastatus
      where datasetid = :datasetid and locktype = 'OUT' and status = :status and status <> 'READY'
      and (sort_key, dataid) < (:before_key, :before_dataid)
      order by sort_key desc, dataid desc limit :n) s
left join data_manifest m on m.datasetid = s.datasetid and m.dataid = s.dataid and m.version = s.version
order by s.sort_key desc, s.dataid desc
