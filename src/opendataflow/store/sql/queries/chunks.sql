-- Chunks: OUT rows and IN rows.

-- name: chunk
-- One chunk as a product.
select datasetid, dataid, jobid, status, modified, epoch, version, runid, tries, held, lowerbound as lower, upperbound as upper, sort_key
from datastatus where datasetid = :datasetid and dataid = :dataid and locktype = 'OUT'

-- name: chunks_page
-- Chunks of a dataset after a position, in order.
select datasetid, dataid, jobid, status, modified, epoch, version, runid, tries, held, lowerbound as lower, upperbound as upper, sort_key
from datastatus
where datasetid = :datasetid and locktype = 'OUT' and (sort_key, dataid) > (:after_key, :after_dataid)
order by sort_key, dataid limit :n

-- name: chunks_with_status_page
-- Chunks of a dataset with one status, after a position, in order.
select datasetid, dataid, jobid, status, modified, epoch, version, runid, tries, held, lowerbound as lower, upperbound as upper, sort_key
from datastatus
where datasetid = :datasetid and locktype = 'OUT' and status = :status and (sort_key, dataid) > (:after_key, :after_dataid)
order by sort_key, dataid limit :n

-- name: unsettled_page
-- Chunks of a dataset with one status other than READY, after a position, in order.
-- The second condition on status matches the partial index; || '' prevents SQLite from scanning the whole dataset in order.
select datasetid, dataid, jobid, status, modified, epoch, version, runid, tries, held, lowerbound as lower, upperbound as upper, sort_key
from datastatus
where datasetid = :datasetid and locktype = 'OUT' and status = :status and status <> 'READY' and (sort_key, dataid) > (:after_key, :after_dataid)
order by sort_key, dataid || '' limit :n

-- name: chunks_between
-- Chunks of a dataset between two positions, both included.
select dataid, sort_key, status from datastatus
where datasetid = :datasetid and locktype = 'OUT' and sort_key >= :from_key and sort_key <= :to_key
order by sort_key, dataid limit :n

-- name: dataids_newest
-- The dataids of a dataset between two positions, both included, last ones first.
select dataid from datastatus
where datasetid = :datasetid and locktype = 'OUT' and sort_key >= :from_key and sort_key <= :to_key
order by sort_key desc, dataid desc limit :n

-- name: chunks_of_dataid
-- The chunks with one dataid, of all datasets.
select s.datasetid, s.dataid, s.status from dataset d {join datastatus s: s.datasetid = d.datasetid and s.dataid = :dataid and s.locktype = 'OUT'}
order by d.datasetid limit :n

-- name: inputs_of_job
-- The IN row of one job for a chunk.
select datasetid, dataid, jobid, status, modified, epoch, version, runid from datastatus
where datasetid = :datasetid and dataid = :dataid and jobid = :jobid and locktype = 'IN'

-- name: readers_of_chunk
-- The IN rows of one chunk, of all jobs.
select datasetid, dataid, jobid, status, modified, epoch, version, runid from datastatus
where datasetid = :datasetid and dataid = :dataid and locktype = 'IN' order by jobid

-- name: lines_back
-- Chunks of a dataset before a position, last ones first, with the figures of their current versions.
select s.dataid, s.status, s.modified, s.version, s.runid, s.sort_key, m.rows, m.bytes, m.published
from (select datasetid, dataid, status, modified, version, runid, sort_key from datastatus
      where datasetid = :datasetid and locktype = 'OUT' and (sort_key, dataid) < (:before_key, :before_dataid)
      order by sort_key desc, dataid desc limit :n) s
{left join data_manifest m: m.datasetid = s.datasetid and m.dataid = s.dataid and m.version = s.version}
order by s.sort_key desc, s.dataid desc

-- name: lines_back_ready
-- The same for READY chunks.
select s.dataid, s.status, s.modified, s.version, s.runid, s.sort_key, m.rows, m.bytes, m.published
from (select datasetid, dataid, status, modified, version, runid, sort_key from datastatus
      where datasetid = :datasetid and locktype = 'OUT' and status = 'READY' and (sort_key, dataid) < (:before_key, :before_dataid)
      order by sort_key desc, dataid desc limit :n) s
{left join data_manifest m: m.datasetid = s.datasetid and m.dataid = s.dataid and m.version = s.version}
order by s.sort_key desc, s.dataid desc

-- name: lines_back_unsettled
-- The same for one other status; the second condition on status matches the partial index.
select s.dataid, s.status, s.modified, s.version, s.runid, s.sort_key, m.rows, m.bytes, m.published
from (select datasetid, dataid, status, modified, version, runid, sort_key from datastatus
      where datasetid = :datasetid and locktype = 'OUT' and status = :status and status <> 'READY'
      and (sort_key, dataid) < (:before_key, :before_dataid)
      order by sort_key desc, dataid desc limit :n) s
{left join data_manifest m: m.datasetid = s.datasetid and m.dataid = s.dataid and m.version = s.version}
order by s.sort_key desc, s.dataid desc

-- name: chunks_unheld
-- RUNNING chunks that no run holds, filtered by dataset and dataid where given; the second condition on status matches the partial index.
select s.datasetid, s.sort_key, s.dataid from datastatus s {left join run r: r.runid = s.runid and r.status = 'RUNNING'}
where s.locktype = 'OUT' and s.status = 'RUNNING' and s.status <> 'READY' and r.runid is null
  and (:datasetid = '' or s.datasetid = :datasetid) and (:dataid = '' or s.dataid = :dataid)

-- name: chunks_given
-- The OUT rows of given chunks, with the status of their runs. They are locked, in one order, until the transaction ends.
select s.datasetid, s.dataid, s.jobid, s.status, s.epoch, s.version, s.runid, s.tries, s.held, s.sort_key,
       (select r.status from run r where r.runid = s.runid) as run_status
from (select datasetid, dataid from {rows :chunks (datasetid, dataid)} g {postgres: order by 1, 2 offset 0}) c
{join datastatus s {postgres: for update}: s.datasetid = c.datasetid and s.dataid = c.dataid and s.locktype = 'OUT'}

-- name: statuses_given
-- The status, version and run of given chunks.
select s.datasetid, s.dataid, s.status, s.version, s.runid from {rows :chunks (datasetid, dataid)} c
{join datastatus s: s.datasetid = c.datasetid and s.dataid = c.dataid and s.locktype = 'OUT'}

-- name: readers_given
-- The IN rows of given chunks.
select s.datasetid, s.dataid, s.jobid, s.status from {rows :chunks (datasetid, dataid)} c
{join datastatus s: s.datasetid = c.datasetid and s.dataid = c.dataid and s.locktype = 'IN'}

-- name: readings_given
-- The IN rows of one job for given chunks, each for one dataid of the job; rows consumed for another dataid are left out.
select s.datasetid, s.dataid, s.status from {rows :chunks (datasetid, dataid, made)} c
{join datastatus s: s.datasetid = c.datasetid and s.dataid = c.dataid and s.jobid = :jobid and s.locktype = 'IN'
                    and coalesce((select r.dataid from run r where r.runid = s.runid), c.made) = c.made}

-- name: chunk_sort_keys_put
-- Set the positions of chunks; an UPDATE … FROM would not be driven by the list.
insert into datastatus as d (datasetid, dataid, jobid, locktype, status, sort_key, seal)
select s.datasetid, s.dataid, s.jobid, s.locktype, s.status, c.sort_key, 1
from {rows :chunks (datasetid, dataid, sort_key)} c
{join datastatus s: s.datasetid = c.datasetid and s.dataid = c.dataid and s.locktype = 'OUT'}
where true
on conflict (datasetid, dataid) where locktype = 'OUT' do update set sort_key = excluded.sort_key, seal = d.seal + 1

-- name: chunks_within
-- The chunks of given spans of datasets, with their statuses.
select s.datasetid, s.dataid, s.status
from {rows :spans (datasetid, first, last)} v
{join datastatus s {sqlite: indexed by chunks_in_order}: s.locktype = 'OUT' and s.datasetid = v.datasetid and s.sort_key >= v.first and s.sort_key <= v.last}
limit :most

-- name: unsettled_between
-- Chunks that are not READY in given spans of datasets. Each status is a literal: otherwise PostgreSQL would scan the whole span.
select s.datasetid, s.dataid, s.status from {rows :spans (datasetid, first, last)} v
{join datastatus s: s.status = 'RUNNING' and s.status <> 'READY' and s.locktype = 'OUT' and s.datasetid = v.datasetid and s.sort_key >= v.first and s.sort_key <= v.last}
union all
select s.datasetid, s.dataid, s.status from {rows :spans (datasetid, first, last)} v
{join datastatus s: s.status = 'FAILED' and s.status <> 'READY' and s.locktype = 'OUT' and s.datasetid = v.datasetid and s.sort_key >= v.first and s.sort_key <= v.last}
union all
select s.datasetid, s.dataid, s.status from {rows :spans (datasetid, first, last)} v
{join datastatus s: s.status = 'RESUBMIT' and s.status <> 'READY' and s.locktype = 'OUT' and s.datasetid = v.datasetid and s.sort_key >= v.first and s.sort_key <= v.last}
union all
select s.datasetid, s.dataid, s.status from {rows :spans (datasetid, first, last)} v
{join datastatus s: s.status = 'HOLD' and s.status <> 'READY' and s.locktype = 'OUT' and s.datasetid = v.datasetid and s.sort_key >= v.first and s.sort_key <= v.last}
union all
select s.datasetid, s.dataid, s.status from {rows :spans (datasetid, first, last)} v
{join datastatus s: s.status = 'PENDING' and s.status <> 'READY' and s.locktype = 'OUT' and s.datasetid = v.datasetid and s.sort_key >= v.first and s.sort_key <= v.last}
limit :most

-- name: lock_dataset (postgres)
-- Serialize announcements of one dataset, so that each sees the versions and contents of the others; claims do not wait.
select pg_advisory_xact_lock(hashtextextended(:datasetid, 727105))

-- name: lock_content (postgres)
-- Serialize runs that publish the same content, so that the second one sees the first.
select pg_advisory_xact_lock(hashtextextended(:datasetid || ' ' || :fingerprint, 727103))

-- name: chunks_unsettled
-- Chunks of all datasets that are not READY, with the outcome of their last run; the listed statuses match the partial index.
select s.datasetid, s.dataid, s.jobid, s.status, s.modified, s.runid, s.tries, s.sort_key, r.status as run_status, r.outcome, r.detail, r.owner,
       r.started, r.lease_until
from datastatus s left join run r on r.runid = s.runid
where s.locktype = 'OUT' and s.status <> 'READY' and s.status in ('RUNNING', 'FAILED', 'RESUBMIT', 'HOLD', 'PENDING')
order by s.status, s.datasetid, s.sort_key limit :n

-- name: chunks_put (sqlite)
-- Write OUT rows. Returns how many were written.
-- SQLite: WHERE TRUE separates ON CONFLICT from a join.
insert into datastatus as d (datasetid, dataid, jobid, locktype, status, epoch, version, tries, held, sort_key, lowerbound, upperbound, seal, modified)
select c.value ->> 'datasetid', c.value ->> 'dataid', c.value ->> 'jobid', 'OUT', c.value ->> 'status', c.value ->> 'epoch', c.value ->> 'version',
       0, c.value ->> 'held', c.value ->> 'sort_key', c.value ->> 'lower', c.value ->> 'upper', 1, now()
from json_each(:chunks) c
where true
on conflict (datasetid, dataid) where locktype = 'OUT' do update set
    status = excluded.status, epoch = excluded.epoch, version = excluded.version, tries = 0, held = excluded.held, sort_key = excluded.sort_key,
    lowerbound = coalesce(excluded.lowerbound, d.lowerbound), upperbound = coalesce(excluded.upperbound, d.upperbound),
    seal = d.seal + 1, modified = excluded.modified;
select json_array_length(:chunks) as written

-- name: chunks_put (postgres)
-- Write OUT rows. Returns how many were written.
-- PostgreSQL: rows that were inserted or claimed concurrently are not overwritten; a list of objects is read as a typed record set; timestamps have their default.
with c as materialized (
    select * from json_to_recordset(:chunks::json) as c (datasetid text, dataid text, jobid text, status text, epoch bigint, version bigint, held text, sort_key text, lower text, upper text, is_new boolean)
), fresh as (
    insert into datastatus (datasetid, dataid, jobid, locktype, status, epoch, version, tries, held, sort_key, lowerbound, upperbound, seal)
    select c.datasetid, c.dataid, c.jobid, 'OUT', c.status, c.epoch, c.version, 0, c.held, c.sort_key, c.lower, c.upper, 1 from c where c.is_new
    on conflict (datasetid, dataid) where locktype = 'OUT' do nothing
    returning 1
), outs as (
    insert into datastatus as d (datasetid, dataid, jobid, locktype, status, epoch, version, tries, held, sort_key, lowerbound, upperbound, seal)
    select c.datasetid, c.dataid, c.jobid, 'OUT', c.status, c.epoch, c.version, 0, c.held, c.sort_key, c.lower, c.upper, 1 from c where not c.is_new
    on conflict (datasetid, dataid) where locktype = 'OUT' do update set
        status = excluded.status, epoch = excluded.epoch, version = excluded.version, tries = 0, held = excluded.held, sort_key = excluded.sort_key,
        lowerbound = coalesce(excluded.lowerbound, d.lowerbound), upperbound = coalesce(excluded.upperbound, d.upperbound),
        seal = d.seal + 1, modified = now()
    where d.status <> 'RUNNING' or d.epoch <= excluded.epoch
    returning 1
)
select (select count(*) from fresh) + (select count(*) from outs) as written

-- name: chunks_announce (sqlite)
-- Announce chunks with one version: write OUT rows and events. Returns how many rows were written.
-- SQLite: a CTE cannot write; WHERE TRUE separates ON CONFLICT from a join.
insert into datastatus as d (datasetid, dataid, jobid, locktype, status, epoch, version, sort_key, lowerbound, upperbound, seal, modified)
select :datasetid, c.value ->> 0, :jobid, 'OUT', 'READY', :version, :version, c.value ->> 1, c.value ->> 2, c.value ->> 3, 1, (select now())
from json_each(:chunks) c
where true
on conflict (datasetid, dataid) where locktype = 'OUT' do update set
    status = excluded.status, epoch = excluded.epoch, version = excluded.version, tries = 0, held = null, sort_key = excluded.sort_key,
    lowerbound = coalesce(excluded.lowerbound, d.lowerbound), upperbound = coalesce(excluded.upperbound, d.upperbound),
    seal = d.seal + 1, modified = excluded.modified;
insert into event (kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, at)
select 'announced', :datasetid, c.value ->> 0, :jobid, :runid, :version, :before, 'READY', :who, :why, (select now())
from json_each(:chunks) c;
select json_array_length(:chunks) as written

-- name: chunks_announce (postgres)
-- Announce chunks with one version: write OUT rows and events. Returns how many rows were written.
-- PostgreSQL: rows that were written concurrently are not overwritten; one statement is one round trip; events have the time of the lock, not of the begin of the transaction.
with c as materialized (
    select c ->> 0 as dataid, c ->> 1 as sort_key, c ->> 2 as lower, c ->> 3 as upper from json_array_elements(:chunks::json) c
), outs as (
    insert into datastatus as d (datasetid, dataid, jobid, locktype, status, epoch, version, sort_key, lowerbound, upperbound, seal)
    select :datasetid, c.dataid, :jobid, 'OUT', 'READY', :version::bigint, :version::bigint, c.sort_key, c.lower, c.upper, 1 from c
    on conflict (datasetid, dataid) where locktype = 'OUT' do update set
        status = excluded.status, epoch = excluded.epoch, version = excluded.version, tries = 0, held = null, sort_key = excluded.sort_key,
        lowerbound = coalesce(excluded.lowerbound, d.lowerbound), upperbound = coalesce(excluded.upperbound, d.upperbound),
        seal = d.seal + 1, modified = now()
    where d.status = :before
    returning d.dataid
), announced_events as (
    insert into event (kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, at)
    select 'announced', :datasetid, outs.dataid, :jobid, :runid::bigint, :version::bigint, :before, 'READY', :who, :why, clock_timestamp() from outs
)
select count(*) as written from outs

-- name: chunks_mark
-- Mark rows before the engine removes them, so that the trigger writes no note.
update datastatus set seal = -1
where datasetid = :datasetid and dataid {in :dataids} and jobid = :jobid and locktype = :locktype

-- name: chunks_forget
-- Remove the marked rows; history stays.
delete from datastatus
where datasetid = :datasetid and dataid {in :dataids} and jobid = :jobid and locktype = :locktype and seal = -1

-- name: chunks_noted
-- Complete rows that were written by SQL: set positions and reset tries; a typed time stays.
-- A READY chunk keeps its run only if that run published it. An UPDATE … FROM would not be driven by the list.
insert into datastatus as d (datasetid, dataid, jobid, locktype, status, sort_key, seal)
select s.datasetid, s.dataid, s.jobid, s.locktype, s.status, c.sort_key, 1
from {rows :chunks (datasetid, dataid, sort_key)} c
{join datastatus s: s.datasetid = c.datasetid and s.dataid = c.dataid and s.locktype = 'OUT'}
where true
on conflict (datasetid, dataid) where locktype = 'OUT' do update set sort_key = excluded.sort_key, tries = 0, seal = d.seal + 1,
    runid = case when d.status <> 'READY' or exists (select 1 from run r where r.runid = d.runid and r.status = 'READY') then d.runid end
