-- Past states.

-- name: event_from
-- The first event of a range that was written when it happened: events of changes by SQL are written later.
select eventid as number, at from event where eventid >= :number and eventid <= :last and kind <> 'sql' order by eventid limit 1

-- name: run_from
-- The first run of a range.
select runid as number, started as at from run where runid >= :number and runid <= :last order by runid limit 1

-- name: events_of_chunk_until
-- The last events of one chunk up to a moment, newest first.
select eventid, at, kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt
from event where datasetid = :datasetid and dataid = :dataid and at <= :at order by at desc, eventid desc limit :n

-- name: receipts_of_job_until
-- The last receipts of a job up to a moment, newest first, between two events; || keeps the scan at the end of the history.
select eventid, at, kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt
from event where eventid > :floor and eventid <= :last and jobid || '' = :jobid and receipt is not null and at <= :at
order by eventid desc limit :n

-- name: refusals_until
-- Chunks whose last delivery or run up to a moment was refused because of the data or its definition, newest first, between two events.
select eventid, at, kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt
from event e
where eventid > :floor and eventid <= :last and at <= :at and kind = 'refused'
  and (jobid = 'outside' or after in ('WRONG_DATA', 'INVALID_PATH', 'NOT_VALIDATED', 'UNTRUSTED_DEFINITION'))
  and not exists (select 1 from event later
                  where later.datasetid = e.datasetid and later.dataid = e.dataid and later.eventid > e.eventid and later.at <= :at
                    and (e.jobid = 'outside' or later.kind not in ('claimed', 'given back', 'refused')
                         or later.kind = 'refused'
                            and later.after in ('WRONG_DATA', 'INVALID_PATH', 'NOT_VALIDATED', 'UNTRUSTED_DEFINITION')))
order by eventid desc limit :n

-- name: chunks_gone_since
-- Chunks that were forgotten or deleted after a moment, by the last events; not distinct, to prevent a sort by another index.
select datasetid, dataid from event
where eventid > (select coalesce(max(eventid), 0) from event) - :look_back and after is null and kind in ('forgotten', 'sql')
  and dataid is not null and at > :at
