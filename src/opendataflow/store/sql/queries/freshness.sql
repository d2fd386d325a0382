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

-- name: superseded_given
-- For given chunks with a new version, and given links: current versions that were made from an outdated input version,
-- with whether the content is the same; and existing stale marks, with a jobid of ''.
select f.datasetid, f.dataid, f.version, s.jobid, s.status, f.in_datasetid, f.in_dataid, f.in_version,
       coalesce(was.fingerprint = new.fingerprint, false) as is_same
from (select f.datasetid, f.dataid, f.version, f.in_datasetid, f.in_dataid, f.in_version
      from {rows :chunks (datasetid, dataid)} c {join made_from f: f.in_datasetid = c.datasetid and f.in_dataid = c.dataid}
      union all
      select l.datasetid, l.dataid, l.version, l.in_datasetid, l.in_dataid, l.in_version
      from {rows :links (datasetid, dataid, version bigint, in_datasetid, in_dataid, in_version bigint)} l) f
{join datastatus n: n.datasetid = f.in_datasetid and n.dataid = f.in_dataid and n.locktype = 'OUT' and n.version <> f.in_version}
{join datastatus s: s.datasetid = f.datasetid and s.dataid = f.dataid and s.locktype = 'OUT' and s.version = f.version}
{left join data_manifest was: was.datasetid = f.in_datasetid and was.dataid = f.in_dataid and was.version = f.in_version}
{left join data_manifest new: new.datasetid = f.in_datasetid and new.dataid = f.in_dataid and new.version = n.version}
where f.in_datasetid <> f.datasetid or f.in_dataid <> f.dataid
union all
select k.datasetid, k.dataid, k.version, '', '', k.in_datasetid, k.in_dataid, k.in_version, true
from {rows :chunks (datasetid, dataid)} c {join stale k: k.datasetid = c.datasetid and k.dataid = c.dataid}
union all
select k.datasetid, k.dataid, k.version, '', '', k.in_datasetid, k.in_dataid, k.in_version, true
from {rows :chunks (datasetid, dataid)} c {join stale k: k.in_datasetid = c.datasetid and k.in_dataid = c.dataid}

-- name: stale_chunks
-- At most n chunks whose current version is stale, directly or through an input; outputs of jobs that ignore new versions are left out.
-- PostgreSQL takes no limit inside a recursion, and stops it by one around it.
with recursive found (datasetid, dataid, version, is_direct) as (
    select k.datasetid, k.dataid, k.version, 1 from stale k
    {join datastatus s: s.datasetid = k.datasetid and s.dataid = k.dataid and s.locktype = 'OUT' and s.version = k.version}
    {join datastatus n: n.datasetid = k.in_datasetid and n.dataid = k.in_dataid and n.locktype = 'OUT' and n.version <> k.in_version}
    where not k.datasetid {in :ignoring}
    union
    select f.datasetid, f.dataid, f.version, 0 from found u
    {join made_from f: f.in_datasetid = u.datasetid and f.in_dataid = u.dataid}
    {join datastatus s: s.datasetid = f.datasetid and s.dataid = f.dataid and s.locktype = 'OUT' and s.version = f.version}
    where not f.datasetid {in :ignoring} and (f.datasetid <> u.datasetid or f.dataid <> u.dataid)
    {sqlite: limit :n}
)
select f.datasetid, f.dataid, s.jobid, s.status, s.version, s.sort_key, f.is_direct
from (select datasetid, dataid, max(is_direct) as is_direct from (select * from found limit :n) l group by datasetid, dataid) f
{join datastatus s: s.datasetid = f.datasetid and s.dataid = f.dataid and s.locktype = 'OUT'}

-- name: remakes_from_given
-- Chunks recorded by remake_put that were made from given chunks; without chunks with changes that are not folded in yet.
-- The rows are locked, in one order, until the transaction ends.
select r.datasetid, r.dataid, r.version, s.jobid, s.epoch, s.sort_key
from (select distinct r.datasetid, r.dataid, r.version from {rows :chunks (datasetid, dataid)} c
      {join made_from f: f.in_datasetid = c.datasetid and f.in_dataid = c.dataid}
      {join remake r: r.datasetid = f.datasetid and r.dataid = f.dataid and r.version = f.version}
      order by 1, 2) r
{join datastatus s {sqlite: indexed by one_out_row_per_chunk}{postgres: for update}:
    s.datasetid = r.datasetid and s.dataid = r.dataid and s.locktype = 'OUT' and s.status = 'RESUBMIT' and s.version = r.version}
where not exists (select 1 from note n where n.datasetid = r.datasetid and n.dataid = r.dataid and n.locktype = 'OUT' and n.who is not null)
order by 1, 2
