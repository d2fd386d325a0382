-- name: published_page
-- The manifests of the current versions of a dataset's READY chunks, in order, after a position in that order.
select m.datasetid, m.dataid, m.version, m.jobid, m.runid, m.location, m.format, m.bytes, m.rows, m.span_lower, m.span_upper, m.fingerprint, m.passed, m.body,
       m.published, s.sort_key
from datastatus s
join data_manifest m on m.datasetid = s.datasetid and m.dataid = s.dataid and m.version = s.version
where s.datasetid = :datasetid and s.locktype = 'OUT' and s.status = 'READY' and (s.sort_key, s.dataid) > (:after_key, :after_dataid)
order by s.sort_key, s.dataid limit :n
