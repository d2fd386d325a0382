-- What is asked about the past.

-- name: last_changes_given
-- What given chunks are now, how their last attempt ended, and who changed them last, and why; answers of the five questions change nothing.
-- PostgreSQL: a list is read by json_array_elements, and each chunk is looked up by its indexes.
select s.datasetid, s.dataid, s.jobid, s.status, s.modified, s.runid, r.outcome, r.detail, e.who, e.why
from json_array_elements(:chunks::json) c
cross join lateral (select d.* from datastatus d where d.datasetid = c ->> 0 and d.dataid = c ->> 1 and d.locktype = 'OUT' offset 0) s
left join lateral (select a.* from run a where a.runid = s.runid offset 0) r on true
left join lateral (select l.* from event l where l.datasetid = s.datasetid and l.dataid = s.dataid
                   and l.kind not in ('refused', 'admitted') order by l.eventid desc limit 1) e on true
