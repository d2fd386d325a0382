-- Queries of the chunk and dataset pages.

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

-- name: manifests_newest
-- The newest manifests of a chunk, newest first.
select datasetid, dataid, version, jobid, runid, location, format, bytes, rows, span_lower, span_upper, fingerprint, body, published
from data_manifest where datasetid = :datasetid and dataid = :dataid order by version desc limit :n
