-- PostgreSQL variants: lists are JSON; related writes are one statement (one round
-- trip); row locks keep concurrent claims apart. A list is joined by LATERAL … OFFSET 0, or becomes an array before the
-- table is read, so that the list drives and the table is looked up by key, whatever the planner estimates for the
-- list. COALESCE around a status prevents the planner from using the index of RUNNING rows.

-- name: claim_take
-- Claim candidates: set OUT and IN rows to RUNNING under a new epoch, and insert the run and the event with its receipt.
-- PostgreSQL: one statement is one round trip; its parts pass rows on by RETURNING.
with t as materialized (
    select * from json_to_recordset(:takes::json) as t (dataid text, epoch bigint, sort_key text, tries integer, receipt text, inputs json)
), gone as (
    delete from candidate where jobid = :jobid and dataid = any (array(select t.dataid from t))
), r as (
    insert into run (jobid, dataid, epoch, status, pool, owner, lease, lease_until, forced)
    select :jobid, t.dataid, t.epoch, 'RUNNING', :pool, :owner, :lease, lease_now() + :lease, :forced from t
    returning runid, dataid, epoch
), reads as (
    insert into run_input (runid, nth, datasetid, dataid, version)
    select r.runid, i.nth, i.value ->> 0, i.value ->> 1, (i.value ->> 2)::bigint
    from t join r on r.dataid = t.dataid cross join lateral json_array_elements(t.inputs) with ordinality i (value, nth)
    returning runid, datasetid, dataid, version
), outs as (
    insert into datastatus as d (datasetid, jobid, dataid, locktype, status, epoch, runid, tries, sort_key, seal)
    select o.datasetid, :jobid, r.dataid, 'OUT', 'RUNNING', r.epoch, r.runid, t.tries, t.sort_key, 1
    from t join r on r.dataid = t.dataid cross join (select json_array_elements_text(:outputs::json) as datasetid) o
    on conflict (datasetid, dataid) where locktype = 'OUT' do update set
        jobid = excluded.jobid, status = 'RUNNING', epoch = excluded.epoch, runid = excluded.runid, tries = excluded.tries,
        sort_key = excluded.sort_key, held = d.status, seal = d.seal + 1, modified = now()
    where d.status = 'RESUBMIT' or (:forced and d.status <> 'RUNNING')
    returning runid, datasetid, held
), ins as (
    insert into datastatus as d (datasetid, jobid, dataid, locktype, status, epoch, version, runid, seal)
    select distinct on (i.datasetid, i.dataid) i.datasetid, :jobid, i.dataid, 'IN', 'RUNNING', r.epoch, i.version, r.runid, 1
    from reads i join r on r.runid = i.runid
    order by i.datasetid, i.dataid, r.runid desc
    on conflict (datasetid, dataid, jobid, locktype) do update set
        status = 'RUNNING', epoch = excluded.epoch, version = excluded.version, runid = excluded.runid, seal = d.seal + 1, modified = now()
), e as (
    insert into event (kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt)
    select 'claimed', outs.datasetid, r.dataid, :jobid, r.runid, r.epoch, outs.held, 'RUNNING', :owner, :why, t.receipt
    from t join r on r.dataid = t.dataid join outs on outs.runid = r.runid
)
select r.runid, r.dataid, r.epoch, (select count(*) from outs where outs.runid = r.runid) as taken from r

-- name: claim_take_one
-- Claim one candidate, like claim_take.
-- PostgreSQL: one statement is one round trip; its parts pass rows on by RETURNING.
with gone as (
    delete from candidate where jobid = :jobid and dataid = :dataid
), r as (
    insert into run (jobid, dataid, epoch, status, pool, owner, lease, lease_until, forced)
    values (:jobid, :dataid, :epoch, 'RUNNING', :pool, :owner, :lease, lease_now() + :lease, :forced)
    returning runid, dataid, epoch
), reads as (
    insert into run_input (runid, nth, datasetid, dataid, version)
    select r.runid, i.nth, i.value ->> 0, i.value ->> 1, (i.value ->> 2)::bigint
    from r cross join json_array_elements(:inputs::json) with ordinality i (value, nth)
    returning runid, datasetid, dataid, version
), outs as (
    insert into datastatus as d (datasetid, jobid, dataid, locktype, status, epoch, runid, tries, sort_key, seal)
    select o.datasetid, :jobid, :dataid, 'OUT', 'RUNNING', :epoch, r.runid, :tries, :sort_key, 1
    from r cross join (select json_array_elements_text(:outputs::json) as datasetid) o
    on conflict (datasetid, dataid) where locktype = 'OUT' do update set
        jobid = excluded.jobid, status = 'RUNNING', epoch = excluded.epoch, runid = excluded.runid, tries = excluded.tries,
        sort_key = excluded.sort_key, held = d.status, seal = d.seal + 1, modified = now()
    where d.status = 'RESUBMIT' or (:forced and d.status <> 'RUNNING')
    returning datasetid, held
), ins as (
    insert into datastatus as d (datasetid, jobid, dataid, locktype, status, epoch, version, runid, seal)
    select i.datasetid, :jobid, i.dataid, 'IN', 'RUNNING', :epoch, i.version, i.runid, 1 from reads i
    on conflict (datasetid, dataid, jobid, locktype) do update set
        status = 'RUNNING', epoch = excluded.epoch, version = excluded.version, runid = excluded.runid, seal = d.seal + 1, modified = now()
), e as (
    insert into event (kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt)
    select 'claimed', outs.datasetid, :dataid, :jobid, r.runid, :epoch, outs.held, 'RUNNING', :owner, :why, :receipt from r cross join outs
)
select r.runid, r.dataid, r.epoch, (select count(*) from outs) as taken from r

-- name: end_run
-- End a run that still holds its chunk: the run, its OUT and IN rows, the event. Returns the datasets of the ended chunks.
-- PostgreSQL: one statement is one round trip; every other part depends on the update of the run (r).
with r as (
    update run set status = :run_status, ended = now(), lease_until = null, outcome = :outcome, detail = :detail, exit_code = :exit_code
    where runid = :runid and coalesce(status, '') = 'RUNNING' returning runid
), outs as (
    update datastatus d set status = :out_status, seal = d.seal + 1, modified = now(),
        version = case when :out_status = 'READY' then d.epoch else d.version end,
        tries = case when :out_status = 'READY' then 0 when :kind = 'stopped' then greatest(d.tries - 1, 0) else d.tries end
    where d.datasetid = any (array(select json_array_elements_text(:outputs::json))) and d.dataid = :dataid and d.locktype = 'OUT'
      and d.status = 'RUNNING' and d.epoch = :epoch and d.runid = :runid and exists (select 1 from r)
    returning d.datasetid, d.dataid
), ins as (
    update datastatus d set status = :in_status, seal = d.seal + 1, modified = now()
    where d.datasetid = any (array(select i.datasetid from run_input i where i.runid = :runid))
      and d.dataid = any (array(select i.dataid from run_input i where i.runid = :runid))
      and d.jobid = :jobid and d.locktype = 'IN' and d.status = 'RUNNING' and d.runid = :runid and exists (select 1 from r)
), ev as (
    insert into event (kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why)
    select :kind, outs.datasetid, outs.dataid, :jobid, :runid, :epoch, 'RUNNING', :out_status, :owner, :detail from outs
)
select outs.datasetid from outs

-- name: end_runs
-- End several runs in the same way, like end_run. Returns the run of each ended chunk.
-- PostgreSQL: a list becomes an array before a table is read.
with t as materialized (
    select * from json_to_recordset(:runs::json)
        as t (runid bigint, jobid text, dataid text, epoch bigint, owner text, outputs json, detail text, exit_code integer)
), r as (
    update run set status = :run_status, ended = now(), lease_until = null, outcome = :outcome, detail = t.detail, exit_code = t.exit_code
    from t where run.runid = any (array(select t.runid from t)) and run.runid = t.runid and coalesce(run.status, '') = 'RUNNING'
    returning run.runid
), outs as (
    update datastatus d set status = :out_status, seal = d.seal + 1, modified = now(),
        version = case when :out_status = 'READY' then d.epoch else d.version end,
        tries = case when :out_status = 'READY' then 0 else d.tries end
    where d.datasetid = any (array(select json_array_elements_text(t.outputs) from t)) and d.dataid = any (array(select t.dataid from t))
      and d.locktype = 'OUT' and coalesce(d.status, '') = 'RUNNING' and d.runid = any (array(select r.runid from r))
      and d.epoch = (select t.epoch from t where t.runid = d.runid and t.dataid = d.dataid)
    returning d.datasetid, d.runid
), ins as (
    update datastatus d set status = :in_status, seal = d.seal + 1, modified = now()
    where d.datasetid = any (array(select i.datasetid from run_input i where i.runid = any (array(select t.runid from t))))
      and d.dataid = any (array(select i.dataid from run_input i where i.runid = any (array(select t.runid from t))))
      and d.jobid = any (array(select t.jobid from t)) and d.locktype = 'IN' and d.status = 'RUNNING' and d.runid = any (array(select r.runid from r))
), ev as (
    insert into event (kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why)
    select :kind, outs.datasetid, t.dataid, t.jobid, t.runid, t.epoch, 'RUNNING', :out_status, t.owner, t.detail from outs join t on t.runid = outs.runid
)
select outs.runid from outs

-- name: manifest_put
-- Insert one manifest, like manifests_put.
-- PostgreSQL: a timestamp has its default.
insert into data_manifest (datasetid, dataid, version, jobid, runid, location, format, bytes, rows, span_lower, span_upper, fingerprint, passed, body)
values (:datasetid, :dataid, :version, :jobid, :runid, :location, :format, :bytes, :rows, :span_lower, :span_upper, :fingerprint, :passed, :body)
on conflict (datasetid, dataid, version) do nothing

-- name: manifests_put
-- Insert manifests; existing versions are unchanged: end_run refuses a second publish of an epoch.
-- PostgreSQL: a list of objects is read as a typed record set.
insert into data_manifest (datasetid, dataid, version, jobid, runid, location, format, bytes, rows, span_lower, span_upper, fingerprint, passed, body)
select datasetid, dataid, version, jobid, runid, location, format, bytes, rows, span_lower, span_upper, fingerprint, passed, body
from json_to_recordset(:manifests::json) as m (datasetid text, dataid text, version bigint, jobid text, runid bigint, location text, format text,
    bytes bigint, rows bigint, span_lower text, span_upper text, fingerprint text, passed boolean, body text)
on conflict (datasetid, dataid, version) do nothing

-- name: give_back
-- Undo a claim whose run did not start; a resubmitted chunk becomes RESUBMIT again.
-- PostgreSQL: one statement is one round trip; every other part depends on the update of the run (r).
with r as (
    update run set status = 'REFUSED', ended = now(), lease_until = null, outcome = :outcome, detail = :detail
    where runid = :runid and coalesce(status, '') = 'RUNNING' returning runid
), outs as (
    update datastatus d set status = 'RESUBMIT', runid = null, tries = greatest(d.tries - 1, 0), seal = d.seal + 1, modified = now()
    where :was_resubmit and d.datasetid = any (array(select json_array_elements_text(:outputs::json))) and d.dataid = :dataid
      and d.locktype = 'OUT' and d.status = 'RUNNING' and d.runid = :runid and exists (select 1 from r)
), ins as (
    update datastatus d set status = 'FAILED', seal = d.seal + 1, modified = now()
    where :was_resubmit and d.datasetid = any (array(select i.datasetid from run_input i where i.runid = :runid))
      and d.dataid = any (array(select i.dataid from run_input i where i.runid = :runid))
      and d.jobid = :jobid and d.locktype = 'IN' and d.status = 'RUNNING' and d.runid = :runid and exists (select 1 from r)
)
select r.runid from r

-- name: runs_expired
-- Runs with an expired lease, and their number of tries.
-- PostgreSQL: runs that another transaction rescues are skipped.
select r.runid, r.jobid, r.dataid, r.epoch, r.owner, r.lease,
       coalesce((select max(s.tries) from job o
                 cross join lateral (select d.tries from datastatus d where d.datasetid = o.datasetid and d.dataid = r.dataid
                                     and d.locktype = 'OUT' and d.runid = r.runid offset 0) s
                 where o.jobid = r.jobid and o.itemtype = 'OUT'), 1) as tries
from run r where r.status = 'RUNNING' and r.lease_until < lease_now() order by r.runid limit :n
for update of r skip locked

-- name: chunks_put
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

-- name: chunks_announce
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

-- name: versions_given
-- The highest version of each given chunk, among manifests, inputs and recalls.
-- PostgreSQL: a list is joined by LATERAL.
select c.dataid, max(v.version) as version from (select json_array_elements_text(:dataids::json) as dataid offset 0) c
cross join lateral (
    select m.version from data_manifest m where m.datasetid = :datasetid and m.dataid = c.dataid
    union all select f.in_version from made_from f where f.in_datasetid = :datasetid and f.in_dataid = c.dataid
    union all select r.version from recalled r where r.datasetid = :datasetid and r.dataid = c.dataid offset 0) v
group by c.dataid

-- name: chunks_mark
-- Mark rows before the engine removes them, so that the trigger writes no note.
-- PostgreSQL: a list becomes an array first.
update datastatus set seal = -1
where datasetid = :datasetid and locktype = :locktype and jobid = :jobid and dataid = any (array(select json_array_elements_text(:dataids::json)))

-- name: chunks_forget
-- Remove the marked rows; history stays.
-- PostgreSQL: a list becomes an array first.
delete from datastatus
where datasetid = :datasetid and locktype = :locktype and jobid = :jobid and dataid = any (array(select json_array_elements_text(:dataids::json))) and seal = -1

-- name: chunks_noted
-- Complete rows that were written by SQL: set positions and reset tries; a typed time stays.
-- A READY chunk keeps its run only if that run published it.
-- PostgreSQL: a list is joined by LATERAL; an UPDATE … FROM would not be driven by the list.
insert into datastatus as d (datasetid, dataid, jobid, locktype, status, sort_key, seal)
select s.datasetid, s.dataid, s.jobid, s.locktype, s.status, c.sort_key, 1
from (select c ->> 0 as datasetid, c ->> 1 as dataid, c ->> 2 as sort_key from json_array_elements(:chunks::json) c offset 0) c
cross join lateral (select d.* from datastatus d where d.datasetid = c.datasetid and d.dataid = c.dataid and d.locktype = 'OUT' offset 0) s
on conflict (datasetid, dataid) where locktype = 'OUT' do update set sort_key = excluded.sort_key, tries = 0, seal = d.seal + 1,
    runid = case when d.status <> 'READY' or exists (select 1 from run r where r.runid = d.runid and r.status = 'READY') then d.runid end

-- name: links_from_given
-- The versions that were made from given chunks, by whom and when.
-- PostgreSQL: a list of lists is a set of JSON values.
select f.in_datasetid, f.in_dataid, f.in_version, f.datasetid, f.dataid, f.version, f.jobid, f.runid, f.published,
       (select i.fingerprint from data_manifest i
        where i.datasetid = f.in_datasetid and i.dataid = f.in_dataid and i.version = f.in_version) as in_fingerprint
from json_array_elements(:chunks::json) c
join made_from f on f.in_datasetid = c ->> 0 and f.in_dataid = c ->> 1
order by f.in_datasetid, f.in_dataid, f.datasetid, f.dataid, f.version

-- name: links_into_given
-- The versions that given versions were made from.
-- PostgreSQL: a list of lists is a set of JSON values.
select i.datasetid as in_datasetid, i.dataid as in_dataid, i.version as in_version, m.datasetid, m.dataid, m.version, m.jobid, m.runid, m.published,
       (select f.fingerprint from data_manifest f
        where f.datasetid = i.datasetid and f.dataid = i.dataid and f.version = i.version) as in_fingerprint
from json_array_elements(:versions::json) c
join data_manifest m on m.datasetid = c ->> 0 and m.dataid = c ->> 1 and m.version = (c ->> 2)::bigint
cross join lateral (select * from run_input r where r.runid = m.runid offset 0) i
order by m.datasetid, m.dataid, m.version, 1, 2

-- name: inputs_now_given
-- The chunks that the current versions of given chunks were made from, one hop upstream.
-- PostgreSQL: a list of lists is a set of JSON values.
select s.datasetid, s.dataid, i.datasetid as in_datasetid, i.dataid as in_dataid
from json_array_elements(:chunks::json) c
join datastatus s on s.datasetid = c ->> 0 and s.dataid = c ->> 1 and s.locktype = 'OUT'
join data_manifest m on m.datasetid = s.datasetid and m.dataid = s.dataid and m.version = s.version
cross join lateral (select * from run_input r where r.runid = m.runid offset 0) i

-- name: links_of_versions
-- The versions made from given versions: at most :n of each, of the last runs up to :last.
-- PostgreSQL: a list of lists is a set of JSON values, and is joined by LATERAL.
select f.in_datasetid, f.in_dataid, f.in_version, f.datasetid, f.dataid, f.version, f.jobid, f.runid, f.published, null::text as in_fingerprint
from json_array_elements(:versions::json) c
cross join lateral (
    select k.* from made_from k
    where k.in_datasetid = c ->> 0 and k.in_dataid = c ->> 1 and k.in_version = (c ->> 2)::bigint and k.runid <= :last
    order by k.runid desc, k.datasetid desc limit :n) f
order by f.in_datasetid, f.in_dataid, f.datasetid, f.dataid, f.version

-- name: superseded_given
-- For given chunks with a new version, and given links: current versions that were made from an outdated input version,
-- with whether the content is the same; and existing stale marks, with a jobid of ''.
-- PostgreSQL: a list is joined by LATERAL.
select f.datasetid, f.dataid, f.version, s.jobid, s.status, f.in_datasetid, f.in_dataid, f.in_version,
       coalesce((select was.fingerprint from data_manifest was
                 where was.datasetid = f.in_datasetid and was.dataid = f.in_dataid and was.version = f.in_version)
              = (select new.fingerprint from data_manifest new
                 where new.datasetid = f.in_datasetid and new.dataid = f.in_dataid and new.version = n.version), false) as is_same
from (select f.datasetid, f.dataid, f.version, f.in_datasetid, f.in_dataid, f.in_version
      from (select c ->> 0 as datasetid, c ->> 1 as dataid from json_array_elements(:chunks::json) c offset 0) c
      cross join lateral (select * from made_from m where m.in_datasetid = c.datasetid and m.in_dataid = c.dataid offset 0) f
      union all
      select l ->> 0, l ->> 1, (l ->> 2)::bigint, l ->> 3, l ->> 4, (l ->> 5)::bigint from json_array_elements(:links::json) l offset 0) f
cross join lateral (select d.version from datastatus d
                    where d.datasetid = f.in_datasetid and d.dataid = f.in_dataid and d.locktype = 'OUT' and d.version <> f.in_version offset 0) n
cross join lateral (select d.jobid, d.status from datastatus d
                    where d.datasetid = f.datasetid and d.dataid = f.dataid and d.locktype = 'OUT' and d.version = f.version offset 0) s
where f.in_datasetid <> f.datasetid or f.in_dataid <> f.dataid
union all
select k.datasetid, k.dataid, k.version, '', '', k.in_datasetid, k.in_dataid, k.in_version, true
from json_array_elements(:chunks::json) c
cross join lateral (select * from stale k where k.datasetid = c ->> 0 and k.dataid = c ->> 1 offset 0) k
union all
select k.datasetid, k.dataid, k.version, '', '', k.in_datasetid, k.in_dataid, k.in_version, true
from json_array_elements(:chunks::json) c
cross join lateral (select * from stale k where k.in_datasetid = c ->> 0 and k.in_dataid = c ->> 1 offset 0) k

-- name: stale_chunks
-- At most n chunks whose current version is stale, directly or through an input; outputs of jobs that ignore new versions are left out.
-- PostgreSQL: the rows of a recursion are joined by LATERAL.
with recursive found (datasetid, dataid, version, is_direct) as (
    select k.datasetid, k.dataid, k.version, 1 from stale k
    cross join lateral (select 1 from datastatus s where s.datasetid = k.datasetid and s.dataid = k.dataid and s.locktype = 'OUT' and s.version = k.version offset 0) s
    cross join lateral (select 1 from datastatus n where n.datasetid = k.in_datasetid and n.dataid = k.in_dataid and n.locktype = 'OUT'
                        and n.version <> k.in_version offset 0) n
    where k.datasetid <> all (array(select json_array_elements_text(:ignoring::json)))
    union
    select f.datasetid, f.dataid, f.version, 0 from found u
    cross join lateral (select * from made_from m where m.in_datasetid = u.datasetid and m.in_dataid = u.dataid offset 0) f
    cross join lateral (select 1 from datastatus s where s.datasetid = f.datasetid and s.dataid = f.dataid and s.locktype = 'OUT' and s.version = f.version offset 0) s
    where f.datasetid <> all (array(select json_array_elements_text(:ignoring::json))) and (f.datasetid <> u.datasetid or f.dataid <> u.dataid)
), first as materialized (select * from found limit :n)
select f.datasetid, f.dataid, s.jobid, s.status, s.version, s.sort_key, f.is_direct
from (select datasetid, dataid, max(is_direct) as is_direct from first group by datasetid, dataid) f
cross join lateral (select * from datastatus d where d.datasetid = f.datasetid and d.dataid = f.dataid and d.locktype = 'OUT' offset 0) s

-- name: remakes_from_given
-- Chunks recorded by remake_put that were made from given chunks; without chunks with changes that are not folded in yet.
-- PostgreSQL: a list is joined by LATERAL, and the rows are locked, in one order.
select r.datasetid, r.dataid, r.version, s.jobid, s.epoch, s.sort_key
from (select distinct r.datasetid, r.dataid, r.version from json_array_elements(:chunks::json) c
      cross join lateral (select * from made_from m where m.in_datasetid = c ->> 0 and m.in_dataid = c ->> 1 offset 0) f
      cross join lateral (select * from remake r where r.datasetid = f.datasetid and r.dataid = f.dataid and r.version = f.version offset 0) r
      order by 1, 2) r
cross join lateral (select d.jobid, d.epoch, d.sort_key from datastatus d where d.datasetid = r.datasetid and d.dataid = r.dataid and d.locktype = 'OUT'
                    and d.status = 'RESUBMIT' and d.version = r.version offset 0 for update) s
where not exists (select 1 from note n where n.datasetid = r.datasetid and n.dataid = r.dataid and n.locktype = 'OUT' and n.who is not null)

-- name: made_from_version
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
-- PostgreSQL: the rows of a recursion are joined by LATERAL.
with recursive found (datasetid, dataid, version, in_datasetid, in_dataid, in_version) as (
    select f.datasetid, f.dataid, f.version, f.in_datasetid, f.in_dataid, f.in_version
    from made_from f
    cross join lateral (select 1 from datastatus s where s.datasetid = f.datasetid and s.dataid = f.dataid and s.locktype = 'OUT' and s.version = f.version offset 0) s
    where f.in_datasetid = :datasetid and f.in_dataid = :dataid and (f.datasetid <> :datasetid or f.dataid <> :dataid)
    union
    select f.datasetid, f.dataid, f.version, f.in_datasetid, f.in_dataid, f.in_version from found u
    cross join lateral (select * from made_from m where m.in_datasetid = u.datasetid and m.in_dataid = u.dataid offset 0) f
    cross join lateral (select 1 from datastatus s where s.datasetid = f.datasetid and s.dataid = f.dataid and s.locktype = 'OUT' and s.version = f.version offset 0) s
    where f.datasetid <> u.datasetid or f.dataid <> u.dataid
), first as materialized (select * from found limit :n)
select f.in_datasetid, f.in_dataid, f.in_version, f.datasetid, f.dataid, f.version, m.jobid, m.runid, m.published, s.status, s.sort_key
from first f
cross join lateral (select * from datastatus d where d.datasetid = f.datasetid and d.dataid = f.dataid and d.locktype = 'OUT' offset 0) s
left join lateral (select * from data_manifest d where d.datasetid = f.datasetid and d.dataid = f.dataid and d.version = f.version offset 0) m on true
