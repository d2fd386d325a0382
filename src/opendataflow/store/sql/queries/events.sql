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
-- || keeps the scan at these events.
select eventid, at, kind, datasetid, dataid, jobid, after, who, substr(why, 1, 1000) as why
from event where eventid > :floor and eventid <= :last
  and kind || '' not in ('claimed', 'admitted', 'published', 'rescued', 'lost', 'stopped', 'given back', 'announced', 'vacuumed', 'kept')
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
-- A later accepted delivery, an admitted run, or another current version of what the refused run was to read ends a refusal; an untrusted
-- definition stays one whatever the inputs are. Chunks that wait for inputs again, or may not run, are left out.
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
       and (select c.state from candidate c where c.jobid = e.jobid and c.dataid = e.dataid) <> 'WAITING'
       and not exists (select 1 from event later
                       where later.datasetid = e.datasetid and later.dataid = e.dataid and later.eventid > e.eventid
                         and (later.kind in ('admitted', 'published', 'failed', 'rescued', 'lost', 'cancelled')
                              or later.kind = 'refused'
                                 and later.after in ('WRONG_DATA', 'INVALID_PATH', 'NOT_VALIDATED', 'UNTRUSTED_DEFINITION')))
       and (after = 'UNTRUSTED_DEFINITION' or not exists (
           select 1 from run_input i {join datastatus s: s.datasetid = i.datasetid and s.dataid = i.dataid and s.locktype = 'OUT'}
           where i.runid = e.runid and s.version <> i.version)))
order by eventid desc limit :n

-- name: ends_by_clock
-- The first and last chunk of a dataset between two dataids that were announced by clock.
select (select e.dataid from event e where e.datasetid = :datasetid and e.dataid >= :first and e.dataid <= :last
            and length(e.dataid) = length(:first) and e.kind = 'announced' and e.who = 'clock'
        order by e.dataid limit 1) as first_dataid,
       (select e.dataid from event e where e.datasetid = :datasetid and e.dataid >= :first and e.dataid <= :last
            and length(e.dataid) = length(:first) and e.kind = 'announced' and e.who = 'clock'
        order by e.dataid desc limit 1) as last_dataid

-- name: events_put
-- Append events.
insert into event (at, kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt)
select coalesce(at, now()), kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt
from {objects :events (at timestamptz, kind, datasetid, dataid, jobid, runid bigint, epoch bigint, before, after, who, why, receipt)} e

-- name: chunks_of_events
-- The chunks of given datasets in the events between two eventids; || keeps the scan at these events.
select datasetid, dataid from event
where eventid > :floor and eventid <= :last and dataid is not null and datasetid || '' {in :datasets}

-- name: last_events_given
-- The last event of each given chunk.
select e.eventid, e.at, e.kind, e.datasetid, e.dataid, e.jobid, e.runid, e.epoch, e.before, e.after, e.who, e.why, e.receipt
from {rows :chunks (datasetid, dataid)} c
{join event e: e.eventid = (select l.eventid from event l where l.datasetid = c.datasetid and l.dataid = c.dataid order by l.eventid desc limit 1)}

-- name: last_changes_given
-- The state of given chunks, the outcome of their last run, and their last change with author and reason; receipts are not changes.
select s.datasetid, s.dataid, s.jobid, s.status, s.modified, s.runid, r.outcome, r.detail, e.who, e.why
from {rows :chunks (datasetid, dataid)} c
{join datastatus s: s.datasetid = c.datasetid and s.dataid = c.dataid and s.locktype = 'OUT'}
{left join run r: r.runid = s.runid}
{left join event e: e.eventid = (select l.eventid from event l where l.datasetid = s.datasetid and l.dataid = s.dataid
                                 and l.kind not in ('refused', 'admitted') order by l.eventid desc limit 1)}

-- name: history_stretch
-- Events of a range, newest first, filtered by kinds, datasets, jobs (or their outputs), statuses and authors, where given.
-- || keeps the scan in the order of events.
select e.eventid, e.at, e.kind, e.datasetid, e.dataid, e.jobid, e.runid, e.epoch, e.before, e.after, e.who, e.why,
       (select r.outcome from run r where r.runid = e.runid) as outcome
from event e
where e.eventid < :before and e.eventid > :floor
  and (:kinds = '[]' or e.kind || '' {in :kinds})
  and (:datasets = '[]' or e.datasetid || '' {in :datasets})
  and (:jobs = '[]' or e.jobid {in :jobs} or e.datasetid || '' {in :outputs})
  and (:statuses = '[]' or e.after {in :statuses})
  and (:who = '[]' or exists (select 1 from {values :who} w where substr(e.who, 1, length(w.value)) = w.value))
order by e.eventid desc limit :n

-- name: history_of_kinds
-- The newest events of each given kind, newest first.
-- The conditions on kind match the partial index; with an equality PostgreSQL would scan all events in order.
select e.eventid, e.at, e.kind, e.datasetid, e.dataid, e.jobid, e.runid, e.epoch, e.before, e.after, e.who, e.why,
       (select r.outcome from run r where r.runid = e.runid) as outcome
from {values :kinds} k
{join event e: e.eventid {in: select l.eventid from event l
    where l.kind >= k.value and l.kind <= k.value and l.kind <> 'claimed' and l.kind <> 'admitted' and l.kind <> 'published' and l.kind <> 'announced'
      and l.eventid < :before and l.eventid > :floor
    order by l.kind desc, l.eventid desc limit :n}}
order by e.eventid desc

-- name: history_of_datasets
-- The newest events of given datasets, newest first. The eventids are read from a covering index; + 0 prevents a scan in the order of events.
select e.eventid, e.at, e.kind, e.datasetid, e.dataid, e.jobid, e.runid, e.epoch, e.before, e.after, e.who, e.why,
       (select r.outcome from run r where r.runid = e.runid) as outcome
from event e
where e.eventid {in: select l.eventid from {values :datasets} d
    {join event l: l.datasetid = d.value and l.eventid + 0 < :before and l.eventid + 0 > :floor} order by l.eventid desc limit :n}
order by e.eventid desc

-- name: history_of_chunks
-- The newest events of given chunks, newest first. The eventids are read from a covering index.
select e.eventid, e.at, e.kind, e.datasetid, e.dataid, e.jobid, e.runid, e.epoch, e.before, e.after, e.who, e.why,
       (select r.outcome from run r where r.runid = e.runid) as outcome
from event e
where e.eventid {in: select l.eventid from {rows :chunks (datasetid, dataid)} c
    {join event l: l.datasetid = c.datasetid and l.dataid = c.dataid and l.eventid < :before and l.eventid > :floor} order by l.eventid desc limit :n}
order by e.eventid desc
