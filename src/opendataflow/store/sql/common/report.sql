-- What a report of a period reads: attempts and events by their numbers, never more than it asks for.

-- name: attempts_between
-- How attempts went, newest first, after one number and up to another; a claim that was given back was no attempt.
select runid, jobid, dataid, status, owner, forced, started, ended, outcome, substr(detail, 1, 1000) as detail
from run where runid > :floor and runid <= :last and coalesce(outcome, '') <> 'GIVEN_BACK' order by runid desc limit :n

-- name: events_by_people
-- What people did and what was refused at the door, newest first, between two numbers; not what every run leaves behind.
select eventid, at, kind, datasetid, dataid, jobid, after, who, substr(why, 1, 1000) as why
from event where eventid > :floor and eventid <= :last
  and kind not in ('claimed', 'admitted', 'published', 'rescued', 'lost', 'stopped', 'given back', 'announced', 'vacuumed', 'kept')
  and (kind <> 'failed' or runid is null) and (kind <> 'refused' or jobid = 'outside')
order by eventid desc limit :n

-- name: rows_newest
-- How many rows the last chunks of a dataset have, the last ones first.
select s.dataid, m.rows, m.published
from (select datasetid, dataid, version, sort_key from datastatus
      where datasetid = :datasetid and locktype = 'OUT' and sort_key >= '' order by sort_key desc, dataid desc limit :n) s
join data_manifest m on m.datasetid = s.datasetid and m.dataid = s.dataid and m.version = s.version
where m.rows is not null order by s.sort_key desc, s.dataid desc

-- name: event_counts
-- How many events of each kind happened since a moment, after one number.
select kind as name, count(*) as n from event where eventid > :floor and at >= :since group by kind
