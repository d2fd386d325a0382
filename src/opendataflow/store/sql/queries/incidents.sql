-- Incidents and the messages about them. Transactions that change them hold lock_notices, so that each message is written once.

-- name: failures_untold
-- FAILED chunks without an incident, with the failed run; the second condition on status matches the partial index.
select s.datasetid, s.dataid, s.jobid, r.outcome, r.detail
from datastatus s {left join run r: r.runid = s.runid and r.status in ('FAILED', 'LOST')}
where s.locktype = 'OUT' and s.status = 'FAILED' and s.status <> 'READY'
  and not exists (select 1 from incident_chunk c where c.kind = 'failed' and c.datasetid = s.datasetid and c.dataid = s.dataid)
limit :n

-- name: news_page
-- Refused arrivals and runs, and recalls, between two events, if the chunk is still affected.
select eventid, at, kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt
from event e
where eventid > :after and eventid <= :until and (
    kind = 'refused' and (jobid = 'outside' or after in ('WRONG_DATA', 'INVALID_PATH', 'NOT_VALIDATED', 'UNTRUSTED_DEFINITION'))
        and not exists (select 1 from event later where later.datasetid = e.datasetid and later.dataid = e.dataid
                                                    and later.eventid > e.eventid and later.kind <> 'refused')
    or kind = 'recalled'
        and (select s.status from datastatus s where s.datasetid = e.datasetid and s.dataid = e.dataid and s.locktype = 'OUT') <> 'READY'
        and not exists (select 1 from event later where later.datasetid = e.datasetid and later.dataid = e.dataid
                                                    and later.eventid > e.eventid and later.after = 'READY'))
order by eventid limit :n

-- name: noticed_get
-- The last processed event.
select eventid from noticed where name = :name

-- name: noticed_put
-- Set the last processed event.
insert into noticed (name, eventid) values (:name, :eventid) on conflict (name) do update set eventid = excluded.eventid

-- name: noticed_put_once
-- Set the last processed event, unless it is set.
insert into noticed (name, eventid) values (:name, :eventid) on conflict (name) do nothing

-- name: incidents_open
-- Open incidents, oldest first.
select incidentid, kind, cause, why, datasetid, dataid, jobid, chunks, most, opened, closed
from incident where closed is null order by incidentid limit :n

-- name: incidents_page
-- Incidents, newest first, before a given one.
select incidentid, kind, cause, why, datasetid, dataid, jobid, chunks, most, opened, closed
from incident where incidentid < :before order by incidentid desc limit :n

-- name: incident_row
-- One incident.
select incidentid, kind, cause, why, datasetid, dataid, jobid, chunks, most, opened, closed from incident where incidentid = :incidentid

-- name: incident_put
-- Open an incident, unless one of this cause is open.
insert into incident (kind, cause, why, datasetid, dataid, jobid, opened) values (:kind, :cause, :why, :datasetid, :dataid, :jobid, now())
on conflict (kind, cause) where closed is null do nothing

-- name: incident_of_cause
-- The open incident of a cause.
select incidentid from incident where kind = :kind and cause = :cause and closed is null

-- name: incident_members
-- Some chunks of an incident, with their current status.
select c.datasetid, c.dataid, s.jobid, s.status
from incident_chunk c {left join datastatus s: s.datasetid = c.datasetid and s.dataid = c.dataid and s.locktype = 'OUT'}
where c.incidentid = :incidentid order by c.datasetid, c.dataid limit :n

-- name: members_of_kind
-- The chunks of all incidents of one kind.
select datasetid, dataid from incident_chunk where kind = :kind order by datasetid, dataid limit :n

-- name: members_settled
-- Whether a chunk of an open incident is no longer affected, or was changed by an operator.
select exists (
    select 1 from incident_chunk c
    {left join datastatus s: s.datasetid = c.datasetid and s.dataid = c.dataid and s.locktype = 'OUT'}
    where c.kind = 'failed' and coalesce(s.status, 'READY') in ('READY', 'HOLD', 'PENDING')
       or c.kind = 'recalled' and coalesce(s.status, 'READY') = 'READY'
       or c.kind = 'late' and s.status = 'READY'
       or c.kind = 'refused' and exists (select 1 from event later where later.datasetid = c.datasetid and later.dataid = c.dataid
                                                                    and later.eventid > c.eventid and later.kind <> 'refused')) as settled

-- name: members_settle
-- Remove these chunks from their incidents.
delete from incident_chunk where (kind, datasetid, dataid) in (
    select c.kind, c.datasetid, c.dataid from incident_chunk c
    {left join datastatus s: s.datasetid = c.datasetid and s.dataid = c.dataid and s.locktype = 'OUT'}
    where c.kind = 'failed' and coalesce(s.status, 'READY') in ('READY', 'HOLD', 'PENDING')
       or c.kind = 'recalled' and coalesce(s.status, 'READY') = 'READY'
       or c.kind = 'late' and s.status = 'READY'
       or c.kind = 'refused' and exists (select 1 from event later where later.datasetid = c.datasetid and later.dataid = c.dataid
                                                                    and later.eventid > c.eventid and later.kind <> 'refused'))

-- name: member_drop
-- Remove one chunk from its incident.
delete from incident_chunk where kind = :kind and datasetid = :datasetid and dataid = :dataid

-- name: incidents_count
-- Recount the chunks of open incidents.
update incident set chunks = n.n, most = case when n.n > most then n.n else most end
from (select i.incidentid, (select count(*) from incident_chunk c where c.incidentid = i.incidentid) as n
      from incident i where i.closed is null) n
where n.incidentid = incident.incidentid and incident.chunks <> n.n

-- name: incidents_close
-- Close incidents without chunks.
update incident set closed = now() where closed is null and chunks = 0
returning incidentid, kind, cause, why, datasetid, dataid, jobid, chunks, most, opened, closed

-- name: messages_of_incident
-- The messages about one incident, in order.
select messageid, incidentid, target, what, number, state, chunks, not_before, lease_until, tries, problem, who, written, ended
from message where incidentid = :incidentid order by messageid

-- name: message_put
-- Write a message, unless it exists.
insert into message (incidentid, target, what, number, chunks, not_before, written)
values (:incidentid, :target, :what, :number, :chunks, :not_before, now())
on conflict (incidentid, target, what, number) do nothing

-- name: messages_drop
-- Drop unsent messages about a closed incident.
update message set state = 'DROPPED', ended = now(), problem = 'the incident closed before the message was sent'
where incidentid = :incidentid and what <> 'over' and state = 'WAITING'

-- name: message_take
-- Take the next message for a target under a lease; a message is not taken before earlier ones about the same incident.
update message set state = 'SENDING', who = :who, tries = tries + 1, lease_until = lease_now() + :lease
where messageid = (
    select m.messageid from message m
    where m.target = :target and m.ended is null and m.not_before <= lease_now()
      and (m.state = 'WAITING' or m.lease_until < lease_now())
      and not exists (select 1 from message earlier
                      where earlier.target = m.target and earlier.ended is null and earlier.incidentid = m.incidentid
                        and earlier.messageid < m.messageid)
    order by m.messageid limit 1)
returning messageid, incidentid, target, what, number, state, chunks, not_before, lease_until, tries, problem, who, written, ended

-- name: message_end
-- Set the final state of a message that this process holds.
update message set state = :state, problem = :problem, ended = now()
where messageid = :messageid and who = :who and state = 'SENDING' and tries = :tries

-- name: message_give_back
-- Give back a message that could not be sent, for a later retry.
update message set state = 'WAITING', problem = :problem, not_before = lease_now() + :delay, lease_until = 0
where messageid = :messageid and who = :who and state = 'SENDING' and tries = :tries

-- name: messages_unsent
-- Unsent messages by target, oldest first.
select messageid, incidentid, target, what, number, state, chunks, not_before, lease_until, tries, problem, who, written, ended
from message where ended is null order by target, messageid limit :n

-- name: members_put
-- Add chunks to an incident, unless they belong to one of its kind.
insert into incident_chunk (kind, datasetid, dataid, incidentid, eventid)
select :kind, c.datasetid, c.dataid, cast(:incidentid as bigint), c.eventid from {rows :chunks (datasetid, dataid, eventid bigint)} c
where true
on conflict (kind, datasetid, dataid) do nothing

-- name: members_given
-- Which of given chunks belong to an incident of this kind.
select m.datasetid, m.dataid from {rows :chunks (datasetid, dataid)} c
{join incident_chunk m: m.kind = :kind and m.datasetid = c.datasetid and m.dataid = c.dataid}

-- name: lock_notices (postgres)
-- Serialize writing and taking of messages, so that each is sent once.
select pg_advisory_xact_lock(727118)
