-- Queries about the history.

-- name: last_changes_given
-- The state of given chunks, the outcome of their last run, and their last change with author and reason; receipts are not changes.
-- SQLite: a list is read by json_each.
select s.datasetid, s.dataid, s.jobid, s.status, s.modified, s.runid, r.outcome, r.detail, e.who, e.why
from json_each(:chunks) c
cross join datastatus s on s.datasetid = c.value ->> 0 and s.dataid = c.value ->> 1 and s.locktype = 'OUT'
left join run r on r.runid = s.runid
left join event e on e.eventid = (select l.eventid from event l where l.datasetid = s.datasetid and l.dataid = s.dataid
                                  and l.kind not in ('refused', 'admitted') order by l.eventid desc limit 1)

-- name: history_stretch
-- Events of a range, newest first, filtered by kinds, datasets, jobs (or their outputs), statuses and authors, where given.
-- SQLite: lists are read by json_each; + keeps the scan in event order.
select e.eventid, e.at, e.kind, e.datasetid, e.dataid, e.jobid, e.runid, e.epoch, e.before, e.after, e.who, e.why,
       (select r.outcome from run r where r.runid = e.runid) as outcome
from event e
where e.eventid < :before and e.eventid > :floor
  and (:kinds = '[]' or +e.kind in (select value from json_each(:kinds)))
  and (:datasets = '[]' or +e.datasetid in (select value from json_each(:datasets)))
  and (:jobs = '[]' or +e.jobid in (select value from json_each(:jobs)) or +e.datasetid in (select value from json_each(:outputs)))
  and (:statuses = '[]' or +e.after in (select value from json_each(:statuses)))
  and (:who = '[]' or exists (select 1 from json_each(:who) w where substr(e.who, 1, length(w.value)) = w.value))
order by e.eventid desc limit :n

-- name: history_of_kinds
-- The newest events of each given kind, newest first.
-- SQLite: lists are read by json_each; the condition on kind names the partial index.
select e.eventid, e.at, e.kind, e.datasetid, e.dataid, e.jobid, e.runid, e.epoch, e.before, e.after, e.who, e.why,
       (select r.outcome from run r where r.runid = e.runid) as outcome
from json_each(:kinds) k
cross join event e on e.eventid in (
    select l.eventid from event l
    where l.kind = k.value and l.kind <> 'claimed' and l.kind <> 'admitted' and l.kind <> 'published' and l.kind <> 'announced' and l.eventid < :before and l.eventid > :floor
    order by l.eventid desc limit :n)
order by e.eventid desc

-- name: history_of_datasets
-- The newest events of given datasets, newest first.
-- SQLite: lists are read by json_each; eventids are read from a covering index.
select e.eventid, e.at, e.kind, e.datasetid, e.dataid, e.jobid, e.runid, e.epoch, e.before, e.after, e.who, e.why,
       (select r.outcome from run r where r.runid = e.runid) as outcome
from event e
where e.eventid in (
    select l.eventid from json_each(:datasets) d cross join event l on l.datasetid = d.value
    where l.eventid < :before and l.eventid > :floor order by l.eventid desc limit :n)
order by e.eventid desc

-- name: history_of_chunks
-- The newest events of given chunks, newest first.
-- SQLite: lists are read by json_each; eventids are read from a covering index.
select e.eventid, e.at, e.kind, e.datasetid, e.dataid, e.jobid, e.runid, e.epoch, e.before, e.after, e.who, e.why,
       (select r.outcome from run r where r.runid = e.runid) as outcome
from event e
where e.eventid in (
    select l.eventid from json_each(:chunks) c cross join event l on l.datasetid = c.value ->> 0 and l.dataid = c.value ->> 1
    where l.eventid < :before and l.eventid > :floor order by l.eventid desc limit :n)
order by e.eventid desc
