-- Versions: manifests, and where they lie.

-- name: manifest
-- The manifest of one version of a chunk.
select datasetid, dataid, version, jobid, runid, location, format, bytes, rows, span_lower, span_upper, fingerprint, body, published
from data_manifest where datasetid = :datasetid and dataid = :dataid and version = :version

-- name: manifests_of_chunk
-- All manifests of a chunk, newest first.
select datasetid, dataid, version, jobid, runid, location, format, bytes, rows, span_lower, span_upper, fingerprint, body, published
from data_manifest where datasetid = :datasetid and dataid = :dataid order by version desc

-- name: manifests_newest
-- The newest manifests of a chunk, newest first.
select datasetid, dataid, version, jobid, runid, location, format, bytes, rows, span_lower, span_upper, fingerprint, body, published
from data_manifest where datasetid = :datasetid and dataid = :dataid order by version desc limit :n

-- name: published_page
-- The manifests of the current versions of a dataset's READY chunks, after a position, in order.
select m.datasetid, m.dataid, m.version, m.jobid, m.runid, m.location, m.format, m.bytes, m.rows, m.span_lower, m.span_upper, m.fingerprint, m.body,
       m.published, s.sort_key
from datastatus s
{join data_manifest m: m.datasetid = s.datasetid and m.dataid = s.dataid and m.version = s.version}
where s.datasetid = :datasetid and s.locktype = 'OUT' and s.status = 'READY' and (s.sort_key, s.dataid) > (:after_key, :after_dataid)
order by s.sort_key, s.dataid limit :n

-- name: rows_before
-- The row counts of the published chunks before a position, newest first.
select m.rows from datastatus s
{join data_manifest m: m.datasetid = s.datasetid and m.dataid = s.dataid and m.version = s.version}
where s.datasetid = :datasetid and s.locktype = 'OUT' and s.status = 'READY' and s.sort_key < :before_key and m.rows is not null
order by s.sort_key desc limit :n

-- name: rows_newest
-- The row counts of the last chunks of a dataset, last ones first.
select s.dataid, m.rows, m.published
from (select datasetid, dataid, version, sort_key from datastatus
      where datasetid = :datasetid and locktype = 'OUT' and sort_key >= '' order by sort_key desc, dataid desc limit :n) s
{join data_manifest m: m.datasetid = s.datasetid and m.dataid = s.dataid and m.version = s.version}
where m.rows is not null order by s.sort_key desc, s.dataid desc

-- name: locations_in_use
-- The locations of the current versions of a dataset's chunks, and of versions that are being read.
select m.location from datastatus s
{join data_manifest m: m.datasetid = s.datasetid and m.dataid = s.dataid and m.version = s.version}
where s.datasetid = :datasetid and (s.locktype = 'OUT' or s.status = 'RUNNING') and m.location <> ''

-- name: locations_absolute_page
-- Versions with absolute locations, after a given one.
select datasetid, dataid, version, location from data_manifest
where (datasetid, dataid, version) > (:datasetid, :dataid, :version) and (location like '/%' or location like '%://%')
order by datasetid, dataid, version limit :n

-- name: dataids_with_versions
-- Chunks of a dataset with more than this number of versions whose files were not removed.
select m.dataid from (
    select dataid, count(*) as versions from data_manifest where datasetid = :datasetid group by dataid having count(*) > :n
) m where m.versions - (select count(*) from event e where e.datasetid = :datasetid and e.dataid = m.dataid and e.kind = 'vacuumed') > :n
order by m.dataid

-- name: vacuumed_versions
-- The versions of a chunk whose files were removed.
select epoch as version from event where datasetid = :datasetid and dataid = :dataid and kind = 'vacuumed'

-- name: same_content
-- Another current chunk of a dataset with the same content.
-- RESUBMIT chunks do not count, so that two swapped days can be corrected.
select m.dataid from data_manifest m
{join datastatus s: s.datasetid = m.datasetid and s.dataid = m.dataid and s.locktype = 'OUT' and s.version = m.version}
where m.datasetid = :datasetid and m.fingerprint = :fingerprint and m.dataid <> :dataid
  and s.status in ('READY', 'HOLD', 'PENDING') order by m.dataid limit 1

-- name: inputs_given
-- What given runs read, with the manifests of the versions read and the bounds of the chunks.
select i.runid, i.datasetid, i.dataid, i.version, s.lowerbound as lower, s.upperbound as upper,
       m.location, m.format, m.bytes, m.rows, m.span_lower, m.span_upper, m.fingerprint, m.body, m.runid as made_by
from run_input i
{left join datastatus s: s.datasetid = i.datasetid and s.dataid = i.dataid and s.locktype = 'OUT'}
{left join data_manifest m: m.datasetid = i.datasetid and m.dataid = i.dataid and m.version = i.version}
where i.runid {in :runids bigint}
order by i.runid, i.nth

-- name: current_given
-- The status of given chunks, with the content of their current version, and whether it is recalled.
select s.datasetid, s.dataid, s.jobid, s.status, s.version, m.fingerprint, r.version is not null as is_recalled
from {rows :chunks (datasetid, dataid)} c
{join datastatus s: s.datasetid = c.datasetid and s.dataid = c.dataid and s.locktype = 'OUT'}
{left join data_manifest m: m.datasetid = s.datasetid and m.dataid = s.dataid and m.version = s.version}
{left join recalled r: r.datasetid = s.datasetid and r.dataid = s.dataid and r.version = s.version}

-- name: published_given
-- When these versions were published.
select m.datasetid, m.dataid, m.version, m.published from {rows :versions (datasetid, dataid, version bigint)} v
{join data_manifest m: m.datasetid = v.datasetid and m.dataid = v.dataid and m.version = v.version}

-- name: versions_made
-- Who made given versions and when, from their manifests or announcements.
select v.datasetid, v.dataid, v.version, coalesce(m.jobid, e.jobid) as jobid, coalesce(m.runid, e.runid) as runid, coalesce(m.published, e.at) as at, e.who
from {rows :versions (datasetid, dataid, version bigint)} v
{left join data_manifest m: m.datasetid = v.datasetid and m.dataid = v.dataid and m.version = v.version}
{left join event e: e.eventid = (
    select p.eventid from event p where p.datasetid = v.datasetid and p.dataid = v.dataid and p.epoch = v.version
      and p.kind in ('published', 'announced') order by p.eventid limit 1)}
where m.version is not null or e.eventid is not null

-- name: schemas_back
-- The columns of the current versions of the last chunks of a dataset, last one first.
select s.dataid, m.version, m.published,
       {sqlite: case when json_valid(m.body) then m.body ->> 'schema' end}{postgres: m.body::json ->> 'schema'} as columns
from (select datasetid, dataid, version, sort_key from datastatus
      where datasetid = :datasetid and locktype = 'OUT' and sort_key >= '' order by sort_key desc, dataid desc limit :n) s
{join data_manifest m: m.datasetid = s.datasetid and m.dataid = s.dataid and m.version = s.version}
order by s.sort_key desc, s.dataid desc

-- name: locations_put
-- Rewrite locations of versions, unless they changed concurrently.
update data_manifest set location = c.location from {rows :changes (datasetid, dataid, version bigint, was, location)} c
where data_manifest.datasetid = c.datasetid and data_manifest.dataid = c.dataid and data_manifest.version = c.version and data_manifest.location = c.was

-- name: same_content_from
-- The same for chunks made from a given input content; || '' prevents the planner from starting at the content itself.
select m.datasetid, m.dataid, m.version from run_input f
join data_manifest m on m.runid = f.runid
join datastatus s on s.datasetid = m.datasetid and s.dataid = m.dataid and s.locktype = 'OUT' and s.version = m.version
where (f.datasetid, f.dataid, f.version) in (
    select i.datasetid, i.dataid, i.version from data_manifest i where i.datasetid = :in_datasetid and i.fingerprint = :in_fingerprint)
  and m.datasetid || '' = :datasetid and m.dataid <> :dataid and m.fingerprint || '' = :fingerprint
  and s.status in ('READY', 'HOLD', 'PENDING') order by m.dataid limit :n

-- name: manifest_put
-- Insert one manifest, like manifests_put.
insert into data_manifest (datasetid, dataid, version, jobid, runid, location, format, bytes, rows, span_lower, span_upper, fingerprint, passed, body, published)
values (:datasetid, :dataid, :version, :jobid, :runid, :location, :format, :bytes, :rows, :span_lower, :span_upper, :fingerprint, :passed, :body, now())
on conflict (datasetid, dataid, version) do nothing

-- name: manifests_put
-- Insert manifests; existing versions are unchanged: end_run refuses a second publish of an epoch.
insert into data_manifest (datasetid, dataid, version, jobid, runid, location, format, bytes, rows, span_lower, span_upper, fingerprint, passed, body, published)
select m.datasetid, m.dataid, m.version, m.jobid, m.runid, m.location, m.format, m.bytes, m.rows, m.span_lower, m.span_upper, m.fingerprint,
       m.passed, m.body, now()
from {objects :manifests (datasetid, dataid, version bigint, jobid, runid bigint, location, format, bytes bigint, rows bigint,
                          span_lower, span_upper, fingerprint, passed boolean, body)} m
where true
on conflict (datasetid, dataid, version) do nothing

-- name: versions_given
-- The highest version of each given chunk, among manifests, inputs and recalls; in SQLite a numeric column may hold text, which is not a version.
select v.dataid, max(v.version) as version from (
    select m.dataid, m.version from {values :dataids} c
    {join data_manifest m: m.datasetid = :datasetid and m.dataid = c.value {sqlite: and typeof(m.version) = 'integer'}}
    union all
    select f.in_dataid, f.in_version from {values :dataids} c {join made_from f: f.in_datasetid = :datasetid and f.in_dataid = c.value}
    union all
    select r.dataid, r.version from {values :dataids} c {join recalled r: r.datasetid = :datasetid and r.dataid = c.value}) v
group by v.dataid
