-- What people are told of: incidents, the chunks that each of them has now, and the messages about them. Facts only, never an address.

create table incident (
    incidentid integer primary key autoincrement,
    kind       text not null check (kind in ('failed', 'late', 'refused', 'recalled')),
    cause      text not null,
    why        text not null default '',
    datasetid  text not null,
    dataid     text not null,
    jobid      text not null default '',
    chunks     integer not null default 0,
    most       integer not null default 0,
    opened     text not null default current_timestamp,
    closed     text
);
create unique index incident_open on incident (kind, cause) where closed is null;

create table incident_chunk (
    kind       text not null,
    datasetid  text not null,
    dataid     text not null,
    incidentid integer not null,
    eventid    integer not null default 0,
    primary key (kind, datasetid, dataid)
) without rowid;
create index chunks_of_incident on incident_chunk (incidentid);

-- An outbox: written with the incident, taken under a short lease, sent, and marked.
create table message (
    messageid   integer primary key autoincrement,
    incidentid  integer not null,
    target      text not null,
    what        text not null check (what in ('opened', 'reminder', 'over')),
    number      integer not null default 0,
    state       text not null default 'WAITING' check (state in ('WAITING', 'SENDING', 'SENT', 'DROPPED')),
    chunks      integer not null default 0,
    not_before  real not null default 0,
    lease_until real not null default 0,
    tries       integer not null default 0,
    problem     text not null default '',
    who         text not null default '',
    written     text not null default current_timestamp,
    ended       text,
    unique (incidentid, target, what, number)
);
create index messages_to_send on message (target, messageid) where ended is null;

-- Up to which event somebody looked.
create table noticed (
    name    text primary key not null,
    eventid integer not null
);
