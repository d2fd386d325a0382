-- Queries of the report of a period: runs and events by id, bounded.

-- name: attempts_between
-- Outcomes of runs, newest first, between two runids; without claims that were given back.
select runid, jobid, dataid, status, owner, forced, started, ended, outcome, substr(detail, 1, 1000) as detail
from run where runid > :floor and runid <= :last and coalesce(outcome, '') <> 'GIVEN_BACK' order by runid desc limit :n

-- name: events_by_people
-- Changes by operators and refused deliveries, newest first, between two eventids; without the events of ordinary runs.
select eventid, at, kind, datasetid, dataid, jobid, after, who, substr(why, 1, 1000) as why
from event where eventid > :floor and eventid <= :last
  and kind not in ('claimed', 'admitted', 'published', 'rescued', 'lost', 'stopped', 'given back', 'announced', 'vacuumed', 'kept')
  and (kind <> 'failed' or runid is null) and (kind <> 'refused' or jobid = 'outside')
order by eventid desc limit :n

-- name: rows_newest
-- The row counts of the last chunks of a dataset, last ones first.
select s.dataid, m.rows, m.published
from (select datasetid, dataid, version, sort_key from datastatus
      where datasetid = :datasetid and locktype = 'OUT' and sort_key >= '' order by sort_key desc, dataid desc limit :n) s
join data_manifest m on m.datasetid = s.datasetid and m.dataid = s.dataid and m.version = s.version
where m.rows is not null order by s.sort_key desc, s.dataid desc

-- name: event_counts
-- The number of events by kind since a moment, after an eventid.
select kind as name, count(*) as n from event where eventid > :floor and at >= :since group by kind
