-- Queries about the history.

-- name: last_changes_given
-- The state of given chunks, the outcome of their last run, and their last change with author and reason; receipts are not changes.
-- PostgreSQL: a list is read by json_array_elements, and each chunk is looked up by its indexes.
select s.datasetid, s.dataid, s.jobid, s.status, s.modified, s.runid, r.outcome, r.detail, e.who, e.why
from json_array_elements(:chunks::json) c
cross join lateral (select d.* from datastatus d where d.datasetid = c ->> 0 and d.dataid = c ->> 1 and d.locktype = 'OUT' offset 0) s
left join lateral (select a.* from run a where a.runid = s.runid offset 0) r on true
left join lateral (select l.* from event l where l.datasetid = s.datasetid and l.dataid = s.dataid
                   and l.kind not in ('refused', 'admitted') order by l.eventid desc limit 1) e on true

-- name: history_stretch
-- Events of a range, newest first, filtered by kinds, datasets, jobs (or their outputs), statuses and authors, where given.
-- PostgreSQL: a list becomes an array first; || keeps the scan in event order.
select e.eventid, e.at, e.kind, e.datasetid, e.dataid, e.jobid, e.runid, e.epoch, e.before, e.after, e.who, e.why,
       (select r.outcome from run r where r.runid = e.runid) as outcome
from event e
where e.eventid < :before and e.eventid > :floor
  and (:kinds = '[]' or e.kind || '' = any (array(select json_array_elements_text(:kinds::json))))
  and (:datasets = '[]' or e.datasetid || '' = any (array(select json_array_elements_text(:datasets::json))))
  and (:jobs = '[]' or e.jobid = any (array(select json_array_elements_text(:jobs::json)))
       or e.datasetid || '' = any (array(select json_array_elements_text(:outputs::json))))
  and (:statuses = '[]' or e.after = any (array(select json_array_elements_text(:statuses::json))))
  and (:who = '[]' or exists (select 1 from json_array_elements_text(:who::json) w where starts_with(e.who, w)))
order by e.eventid desc limit :n

-- name: history_of_kinds
-- The newest events of each given kind, newest first.
-- PostgreSQL: the conditions on kind match the partial index; with an equality the planner would scan all events in order.
select e.eventid, e.at, e.kind, e.datasetid, e.dataid, e.jobid, e.runid, e.epoch, e.before, e.after, e.who, e.why,
       (select r.outcome from run r where r.runid = e.runid) as outcome
from json_array_elements_text(:kinds::json) k
cross join lateral (
    select l.* from event l
    where l.kind >= k and l.kind <= k and l.kind <> 'claimed' and l.kind <> 'admitted' and l.kind <> 'published' and l.kind <> 'announced'
      and l.eventid < :before and l.eventid > :floor
    order by l.kind desc, l.eventid desc limit :n) e
order by e.eventid desc

-- name: history_of_datasets
-- The newest events of given datasets, newest first.
-- PostgreSQL: each dataset is looked up separately, eventids are read from a covering index; + 0 prevents a scan in event order.
select e.eventid, e.at, e.kind, e.datasetid, e.dataid, e.jobid, e.runid, e.epoch, e.before, e.after, e.who, e.why,
       (select r.outcome from run r where r.runid = e.runid) as outcome
from (
    select l.eventid from json_array_elements_text(:datasets::json) d
    cross join lateral (select o.eventid + 0 as eventid from event o
                        where o.datasetid = d and o.eventid + 0 < :before and o.eventid + 0 > :floor offset 0) l
    order by l.eventid desc limit :n) newest
cross join lateral (select x.* from event x where x.eventid = newest.eventid offset 0) e
order by e.eventid desc

-- name: history_of_chunks
-- The newest events of given chunks, newest first.
-- PostgreSQL: a list is read by json_array_elements; each chunk is looked up by its index.
select e.eventid, e.at, e.kind, e.datasetid, e.dataid, e.jobid, e.runid, e.epoch, e.before, e.after, e.who, e.why,
       (select r.outcome from run r where r.runid = e.runid) as outcome
from json_array_elements(:chunks::json) c
cross join lateral (
    select l.* from event l
    where l.datasetid = c ->> 0 and l.dataid = c ->> 1 and l.eventid < :before and l.eventid > :floor
    order by l.eventid desc limit :n) e
order by e.eventid desc limit :n
