-- Events: the history.

-- name: newest_event
-- The newest event.
select max(eventid) as eventid from event

-- name: events_page
-- Events, oldest first, after a given one.
select eventid, at, kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt
from event where eventid > :after order by eventid limit :n

-- name: events_of_chunk_page
-- Events of one chunk, oldest first, after a given one.
select eventid, at, kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt
from event where datasetid = :datasetid and dataid = :dataid and eventid > :after order by eventid limit :n

-- name: events_of_chunk_newest
-- The last events of one chunk, newest first.
select eventid, at, kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt
from event where datasetid = :datasetid and dataid = :dataid order by eventid desc limit :n

-- name: events_by_people
-- Changes by operators and refused deliveries, newest first, between two eventids; without the events of ordinary runs.
select eventid, at, kind, datasetid, dataid, jobid, after, who, substr(why, 1, 1000) as why
from event where eventid > :floor and eventid <= :last
  and kind not in ('claimed', 'admitted', 'published', 'rescued', 'lost', 'stopped', 'given back', 'announced', 'vacuumed', 'kept')
  and (kind <> 'failed' or runid is null) and (kind <> 'refused' or jobid = 'outside')
order by eventid desc limit :n

-- name: event_counts
-- The number of events by kind since a moment, after an eventid.
select kind as name, count(*) as n from event where eventid > :floor and at >= :since group by kind

-- name: unfit_notes
-- The last notes that did not match a change, newest first.
select eventid, at, kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt
from event where kind = 'unfit note' order by eventid desc limit :n

-- name: refusals
-- Chunks whose last delivery or run was refused because of the data or its definition, newest first, among the last events.
-- A later accepted delivery or an admitted run ends a refusal. Chunks that wait for inputs again, or may not run, are left out.
-- Filtered by job and dataid where given. The other conditions on kind match the partial index.
select eventid, at, kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt
from event e
where eventid > (select coalesce(max(eventid), 0) from event) - :look_back and kind = 'refused'
  and kind <> 'claimed' and kind <> 'admitted' and kind <> 'published' and kind <> 'announced'
  and (:jobid = '' or jobid = :jobid) and (:dataid = '' or dataid = :dataid)
  and (jobid = 'outside'
       and not exists (select 1 from event later
                       where later.datasetid = e.datasetid and later.dataid = e.dataid and later.eventid > e.eventid)
    or jobid <> 'outside' and after in ('WRONG_DATA', 'INVALID_PATH', 'NOT_VALIDATED', 'UNTRUSTED_DEFINITION')
       and exists (select 1 from candidate c where c.jobid = e.jobid and c.dataid = e.dataid and c.state <> 'WAITING')
       and not exists (select 1 from event later
                       where later.datasetid = e.datasetid and later.dataid = e.dataid and later.eventid > e.eventid
                         and (later.kind in ('admitted', 'published', 'failed', 'rescued', 'lost', 'cancelled')
                              or later.kind = 'refused'
                                 and later.after in ('WRONG_DATA', 'INVALID_PATH', 'NOT_VALIDATED', 'UNTRUSTED_DEFINITION'))))
order by eventid desc limit :n

-- name: ends_by_clock
-- The first and last chunk of a dataset between two dataids that were announced by clock.
select (select e.dataid from event e where e.datasetid = :datasetid and e.dataid >= :first and e.dataid <= :last
            and length(e.dataid) = length(:first) and e.kind = 'announced' and e.who = 'clock'
        order by e.dataid limit 1) as first_dataid,
       (select e.dataid from event e where e.datasetid = :datasetid and e.dataid >= :first and e.dataid <= :last
            and length(e.dataid) = length(:first) and e.kind = 'announced' and e.who = 'clock'
        order by e.dataid desc limit 1) as last_dataid
