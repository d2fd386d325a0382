-- Incidents and the messages about them. Whoever changes them holds lock_notices, so that no two tell the same twice.

-- name: failures_untold
-- FAILED chunks that no incident has yet, with the attempt that failed; the second condition on status names the partial index.
select s.datasetid, s.dataid, s.jobid, r.outcome, r.detail
from datastatus s left join run r on r.runid = s.runid and r.status in ('FAILED', 'LOST')
where s.locktype = 'OUT' and s.status = 'FAILED' and s.status <> 'READY'
  and not exists (select 1 from incident_chunk c where c.kind = 'failed' and c.datasetid = s.datasetid and c.dataid = s.dataid)
limit :n

-- name: news_page
-- Arrivals and attempts that were refused for what they are, and what somebody recalled, where that still stands, between two events.
select eventid, at, kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt
from event e
where eventid > :after and eventid <= :until and (
    kind = 'refused' and (jobid = 'outside' or after in ('WRONG_DATA', 'INVALID_PATH', 'NOT_VALIDATED', 'UNTRUSTED_DEFINITION'))
        and not exists (select 1 from event later where later.datasetid = e.datasetid and later.dataid = e.dataid
                                                    and later.eventid > e.eventid and later.kind <> 'refused')
    or kind = 'recalled'
        and exists (select 1 from datastatus s where s.datasetid = e.datasetid and s.dataid = e.dataid and s.locktype = 'OUT'
                                                 and s.status <> 'READY')
        and not exists (select 1 from event later where later.datasetid = e.datasetid and later.dataid = e.dataid
                                                    and later.eventid > e.eventid and later.after = 'READY'))
order by eventid limit :n

-- name: noticed_get
-- Up to which event somebody looked.
select eventid from noticed where name = :name

-- name: noticed_put
-- Remember up to which event somebody looked.
insert into noticed (name, eventid) values (:name, :eventid) on conflict (name) do update set eventid = excluded.eventid

-- name: noticed_put_once
-- Begin to look, unless somebody did already.
insert into noticed (name, eventid) values (:name, :eventid) on conflict (name) do nothing

-- name: incidents_open
-- What is not over yet, the oldest first.
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
-- Some chunks of an incident, and what they are now.
select c.datasetid, c.dataid, s.jobid, s.status
from incident_chunk c left join datastatus s on s.datasetid = c.datasetid and s.dataid = c.dataid and s.locktype = 'OUT'
where c.incidentid = :incidentid order by c.datasetid, c.dataid limit :n

-- name: members_of_kind
-- The chunks of all incidents of one kind.
select datasetid, dataid from incident_chunk where kind = :kind order by datasetid, dataid limit :n

-- name: members_settled
-- Whether a chunk of an incident is what it should be, or was dealt with by a person.
select exists (
    select 1 from incident_chunk c
    left join datastatus s on s.datasetid = c.datasetid and s.dataid = c.dataid and s.locktype = 'OUT'
    where c.kind = 'failed' and coalesce(s.status, 'READY') in ('READY', 'HOLD', 'PENDING')
       or c.kind = 'recalled' and coalesce(s.status, 'READY') = 'READY'
       or c.kind = 'late' and s.status = 'READY'
       or c.kind = 'refused' and exists (select 1 from event later where later.datasetid = c.datasetid and later.dataid = c.dataid
                                                                    and later.eventid > c.eventid and later.kind <> 'refused')) as settled

-- name: members_settle
-- Take these chunks from their incidents.
delete from incident_chunk where (kind, datasetid, dataid) in (
    select c.kind, c.datasetid, c.dataid from incident_chunk c
    left join datastatus s on s.datasetid = c.datasetid and s.dataid = c.dataid and s.locktype = 'OUT'
    where c.kind = 'failed' and coalesce(s.status, 'READY') in ('READY', 'HOLD', 'PENDING')
       or c.kind = 'recalled' and coalesce(s.status, 'READY') = 'READY'
       or c.kind = 'late' and s.status = 'READY'
       or c.kind = 'refused' and exists (select 1 from event later where later.datasetid = c.datasetid and later.dataid = c.dataid
                                                                    and later.eventid > c.eventid and later.kind <> 'refused'))

-- name: member_drop
-- Take one chunk from its incident.
delete from incident_chunk where kind = :kind and datasetid = :datasetid and dataid = :dataid

-- name: incidents_count
-- Count the chunks of open incidents anew.
update incident set chunks = n.n, most = case when n.n > most then n.n else most end
from (select i.incidentid, (select count(*) from incident_chunk c where c.incidentid = i.incidentid) as n
      from incident i where i.closed is null) n
where n.incidentid = incident.incidentid and incident.chunks <> n.n

-- name: incidents_close
-- End the incidents that have no chunk left.
update incident set closed = now() where closed is null and chunks = 0
returning incidentid, kind, cause, why, datasetid, dataid, jobid, chunks, most, opened, closed

-- name: messages_of_incident
-- The messages about one incident, in their order.
select messageid, incidentid, target, what, number, state, chunks, not_before, lease_until, tries, problem, who, written, ended
from message where incidentid = :incidentid order by messageid

-- name: message_put
-- Write a message, unless it is written already.
insert into message (incidentid, target, what, number, chunks, not_before, written)
values (:incidentid, :target, :what, :number, :chunks, :not_before, now())
on conflict (incidentid, target, what, number) do nothing

-- name: messages_drop
-- Do not send what was to be said of an incident that is over by now.
update message set state = 'DROPPED', ended = now(), problem = 'it was over before it was told'
where incidentid = :incidentid and what <> 'over' and state = 'WAITING'

-- name: message_take
-- Take the next message for somebody under a lease, in order: nothing overtakes an earlier message about the same incident.
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
-- Say what became of a message that is still ours.
update message set state = :state, problem = :problem, ended = now()
where messageid = :messageid and who = :who and state = 'SENDING' and tries = :tries

-- name: message_give_back
-- Leave a message that could not be sent for later.
update message set state = 'WAITING', problem = :problem, not_before = lease_now() + :delay, lease_until = 0
where messageid = :messageid and who = :who and state = 'SENDING' and tries = :tries

-- name: messages_unsent
-- Messages that are written and not sent, by target, the oldest first.
select messageid, incidentid, target, what, number, state, chunks, not_before, lease_until, tries, problem, who, written, ended
from message where ended is null order by target, messageid limit :n
