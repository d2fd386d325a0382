-- Freshness: stale chunks, chunks to remake, recalled versions.

-- name: stale_count
-- The number of stale marks, counted up to :most.
select count(*) as n from (select 1 from stale limit :most) c

-- name: stale_put
-- Insert stale marks.
insert into stale (datasetid, dataid, version, in_datasetid, in_dataid, in_version)
select datasetid, dataid, version, in_datasetid, in_dataid, in_version
from {rows :marks (datasetid, dataid, version bigint, in_datasetid, in_dataid, in_version bigint)} k
where true
on conflict (datasetid, dataid, in_datasetid, in_dataid) do update set version = excluded.version, in_version = excluded.in_version

-- name: stale_clear
-- Remove the stale marks of given chunks, as products and as inputs.
delete from stale where (datasetid, dataid, in_datasetid, in_dataid) in (
    select k.datasetid, k.dataid, k.in_datasetid, k.in_dataid from {rows :chunks (datasetid, dataid)} c
    {join stale k: k.datasetid = c.datasetid and k.dataid = c.dataid}
    union
    select k.datasetid, k.dataid, k.in_datasetid, k.in_dataid from {rows :chunks (datasetid, dataid)} c
    {join stale k: k.in_datasetid = c.datasetid and k.in_dataid = c.dataid})

-- name: stale_marks_given
-- Why given chunks are stale themselves: the input versions that they were made from, and the current ones.
select k.datasetid, k.dataid, k.version, k.in_datasetid, k.in_dataid, k.in_version, n.version as in_now
from {rows :chunks (datasetid, dataid)} c
{join stale k: k.datasetid = c.datasetid and k.dataid = c.dataid}
{join datastatus s: s.datasetid = k.datasetid and s.dataid = k.dataid and s.locktype = 'OUT' and s.version = k.version}
{join datastatus n: n.datasetid = k.in_datasetid and n.dataid = k.in_dataid and n.locktype = 'OUT' and n.version <> k.in_version}
order by 1, 2, 4, 5

-- name: remake_put
-- Record that chunks are RESUBMIT only because an input is newer.
insert into remake (datasetid, dataid, version)
select datasetid, dataid, version from {rows :chunks (datasetid, dataid, version bigint)} c
where true
on conflict (datasetid, dataid) do update set version = excluded.version

-- name: remake_drop
-- Remove such records.
delete from remake where (datasetid, dataid) in (select c.datasetid, c.dataid from {rows :chunks (datasetid, dataid)} c)

-- name: recalled_put
-- Record recalled versions.
insert into recalled (datasetid, dataid, version, who, why, at)
select datasetid, dataid, version, :who, :why, now() from {rows :versions (datasetid, dataid, version bigint)} v
where true
on conflict do nothing

-- name: recalled_given
-- The recalled versions of given chunks: by whom, why and when.
select r.datasetid, r.dataid, r.version, r.who, r.why, r.at from {rows :chunks (datasetid, dataid)} c
{join recalled r: r.datasetid = c.datasetid and r.dataid = c.dataid}
order by 1, 2, 3

-- name: lock_consuming (postgres)
-- Serialize publishes of these jobs' outputs with new versions of their inputs, also where no pair is locked.
select count(*) from (
    select pg_advisory_xact_lock_shared(hashtextextended(j, 727107)) from (select j from json_array_elements_text(:jobs::json) j order by 1) j offset 0) locked

-- name: lock_renewing (postgres)
-- The counterpart of lock_consuming, for new versions of inputs.
select count(*) from (
    select pg_advisory_xact_lock(hashtextextended(j, 727107)) from (select j from json_array_elements_text(:jobs::json) j order by 1) j offset 0) locked
