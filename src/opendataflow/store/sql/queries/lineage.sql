-- Lineage: which versions were made from which.

-- name: links_from_given
-- The versions that were made from given chunks, by whom and when.
select f.in_datasetid, f.in_dataid, f.in_version, f.datasetid, f.dataid, f.version, f.jobid, f.runid, f.published,
       (select i.fingerprint from data_manifest i
        where i.datasetid = f.in_datasetid and i.dataid = f.in_dataid and i.version = f.in_version) as in_fingerprint
from {rows :chunks (datasetid, dataid)} c
{join made_from f: f.in_datasetid = c.datasetid and f.in_dataid = c.dataid}
order by f.in_datasetid, f.in_dataid, f.datasetid, f.dataid, f.version

-- name: links_into_given
-- The versions that given versions were made from.
select i.datasetid as in_datasetid, i.dataid as in_dataid, i.version as in_version, m.datasetid, m.dataid, m.version, m.jobid, m.runid, m.published,
       (select f.fingerprint from data_manifest f
        where f.datasetid = i.datasetid and f.dataid = i.dataid and f.version = i.version) as in_fingerprint
from {rows :versions (datasetid, dataid, version bigint)} c
{join data_manifest m: m.datasetid = c.datasetid and m.dataid = c.dataid and m.version = c.version}
{join run_input i: i.runid = m.runid}
order by m.datasetid, m.dataid, m.version, 1, 2

-- name: inputs_now_given
-- The chunks that the current versions of given chunks were made from, one hop upstream.
select s.datasetid, s.dataid, i.datasetid as in_datasetid, i.dataid as in_dataid
from {rows :chunks (datasetid, dataid)} c
{join datastatus s: s.datasetid = c.datasetid and s.dataid = c.dataid and s.locktype = 'OUT'}
{join data_manifest m: m.datasetid = s.datasetid and m.dataid = s.dataid and m.version = s.version}
{join run_input i: i.runid = m.runid}

-- name: links_of_versions (sqlite)
-- The versions made from given versions: at most :n of each, of the last runs up to :last.
-- SQLite: what was made from each version is limited in a subquery, for lack of LATERAL.
select c.value ->> 0 as in_datasetid, c.value ->> 1 as in_dataid, c.value ->> 2 as in_version, m.datasetid, m.dataid, m.version, m.jobid, m.runid,
       m.published, null as in_fingerprint
from json_each(:versions) c
cross join data_manifest m on m.rowid in (
    select d.rowid from run_input i cross join data_manifest d on d.runid = i.runid
    where i.datasetid = c.value ->> 0 and i.dataid = c.value ->> 1 and i.version = c.value ->> 2 and i.runid <= :last
    order by i.runid desc, d.datasetid desc limit :n)
order by 1, 2, m.datasetid, m.dataid, m.version

-- name: links_of_versions (postgres)
-- The versions made from given versions: at most :n of each, of the last runs up to :last.
-- PostgreSQL: the newest of each version are joined by LATERAL.
select f.in_datasetid, f.in_dataid, f.in_version, f.datasetid, f.dataid, f.version, f.jobid, f.runid, f.published, null::text as in_fingerprint
from json_array_elements(:versions::json) c
cross join lateral (
    select k.* from made_from k
    where k.in_datasetid = c ->> 0 and k.in_dataid = c ->> 1 and k.in_version = (c ->> 2)::bigint and k.runid <= :last
    order by k.runid desc, k.datasetid desc limit :n) f
order by f.in_datasetid, f.in_dataid, f.datasetid, f.dataid, f.version

-- name: made_from_version (sqlite)
-- A version, and every version downstream of it or of a version with the same content; at most n.
-- SQLite: the limit is inside the recursion.
with recursive found (datasetid, dataid, version) as (
    select :datasetid, :dataid, :version
    union
    select f.datasetid, f.dataid, f.version from found u
    cross join made_from f on f.in_datasetid = u.datasetid and f.in_dataid = u.dataid and f.in_version = u.version
    union
    select m.datasetid, m.dataid, m.version from found u
    cross join data_manifest m on m.datasetid = u.datasetid and m.dataid = u.dataid
    where m.fingerprint = (select o.fingerprint from data_manifest o where o.datasetid = u.datasetid and o.dataid = u.dataid and o.version = u.version)
    limit :n
)
select datasetid, dataid, version from found

-- name: made_from_version (postgres)
-- A version, and every version downstream of it or of a version with the same content; at most n.
-- PostgreSQL: the rows of a recursion are joined by LATERAL.
with recursive found (datasetid, dataid, version) as (
    select :datasetid::text, :dataid::text, :version::bigint
    union
    select f.datasetid, f.dataid, f.version from found u
    cross join lateral (
        select m.datasetid, m.dataid, m.version from made_from m
        where m.in_datasetid = u.datasetid and m.in_dataid = u.dataid and m.in_version = u.version
        union all
        select m.datasetid, m.dataid, m.version from data_manifest m where m.datasetid = u.datasetid and m.dataid = u.dataid
          and m.fingerprint = (select o.fingerprint from data_manifest o where o.datasetid = u.datasetid and o.dataid = u.dataid and o.version = u.version)
        offset 0) f
)
select datasetid, dataid, version from found limit :n

-- name: descendants
-- At most n current versions downstream of any version of a chunk, each with its input.
-- PostgreSQL takes no limit inside a recursion, and stops it by one around it.
with recursive found (datasetid, dataid, version, in_datasetid, in_dataid, in_version) as (
    select f.datasetid, f.dataid, f.version, f.in_datasetid, f.in_dataid, f.in_version
    from made_from f
    {join datastatus s: s.datasetid = f.datasetid and s.dataid = f.dataid and s.locktype = 'OUT' and s.version = f.version}
    where f.in_datasetid = :datasetid and f.in_dataid = :dataid and (f.datasetid <> :datasetid or f.dataid <> :dataid)
    union
    select f.datasetid, f.dataid, f.version, f.in_datasetid, f.in_dataid, f.in_version from found u
    {join made_from f: f.in_datasetid = u.datasetid and f.in_dataid = u.dataid}
    {join datastatus s: s.datasetid = f.datasetid and s.dataid = f.dataid and s.locktype = 'OUT' and s.version = f.version}
    where f.datasetid <> u.datasetid or f.dataid <> u.dataid
    {sqlite: limit :n}
)
select f.in_datasetid, f.in_dataid, f.in_version, f.datasetid, f.dataid, f.version, m.jobid, m.runid, m.published, s.status, s.sort_key
from (select * from found limit :n) f
{join datastatus s: s.datasetid = f.datasetid and s.dataid = f.dataid and s.locktype = 'OUT'}
{left join data_manifest m: m.datasetid = f.datasetid and m.dataid = f.dataid and m.version = f.version}
