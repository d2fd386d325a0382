-- What is asked about the past.

-- name: last_changes_given
-- What given chunks are now, how their last attempt ended, and who changed them last, and why; answers of the five questions change nothing.
-- SQLite: a list is read by json_each.
select s.datasetid, s.dataid, s.jobid, s.status, s.modified, s.runid, r.outcome, r.detail, e.who, e.why
from json_each(:chunks) c
cross join datastatus s on s.datasetid = c.value ->> 0 and s.dataid = c.value ->> 1 and s.locktype = 'OUT'
left join run r on r.runid = s.runid
left join event e on e.eventid = (select l.eventid from event l where l.datasetid = s.datasetid and l.dataid = s.dataid
                                  and l.kind not in ('refused', 'admitted') order by l.eventid desc limit 1)
