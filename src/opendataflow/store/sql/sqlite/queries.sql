-- SQLite variants: lists are JSON, read by json_each; a query may consist of several
-- statements; row locks are not needed because a write transaction locks the file.
-- CROSS JOIN fixes the join order: the list drives, and tables are looked up by key, whatever the planner estimates.

-- name: claim_take
-- Claim candidates: set OUT and IN rows to RUNNING under a new epoch, and insert the run and the event with its receipt.
-- SQLite: a CTE cannot write; defaults are given because now() is a function of this program.
delete from candidate where jobid = :jobid and dataid in (select value ->> 'dataid' from json_each(:takes));
insert into run (jobid, dataid, epoch, status, pool, owner, lease, lease_until, forced, started)
select :jobid, t.value ->> 'dataid', t.value ->> 'epoch', 'RUNNING', :pool, :owner, :lease, lease_now() + :lease, :forced, now()
from json_each(:takes) t;
insert into run_input (runid, nth, datasetid, dataid, version)
select r.runid, e.key + 1, e.value ->> 0, e.value ->> 1, e.value ->> 2
from json_each(:takes) t
cross join run r on r.jobid = :jobid and r.dataid = t.value ->> 'dataid' and r.epoch = t.value ->> 'epoch'
cross join json_each(t.value, '$.inputs') e;
insert into datastatus as d (datasetid, jobid, dataid, locktype, status, epoch, runid, tries, sort_key, seal, modified)
select o.value, :jobid, r.dataid, 'OUT', 'RUNNING', r.epoch, r.runid, t.value ->> 'tries', t.value ->> 'sort_key', 1, now()
from json_each(:takes) t
cross join run r on r.jobid = :jobid and r.dataid = t.value ->> 'dataid' and r.epoch = t.value ->> 'epoch'
cross join json_each(:outputs) o
where true
on conflict (datasetid, dataid) where locktype = 'OUT' do update set
    jobid = excluded.jobid, status = 'RUNNING', epoch = excluded.epoch, runid = excluded.runid, tries = excluded.tries,
    sort_key = excluded.sort_key, held = d.status, seal = d.seal + 1, modified = excluded.modified
where d.status = 'RESUBMIT' or (:forced and d.status <> 'RUNNING');
insert into datastatus as d (datasetid, jobid, dataid, locktype, status, epoch, version, runid, seal, modified)
select i.datasetid, :jobid, i.dataid, 'IN', 'RUNNING', r.epoch, i.version, r.runid, 1, now()
from json_each(:takes) t
cross join run r on r.jobid = :jobid and r.dataid = t.value ->> 'dataid' and r.epoch = t.value ->> 'epoch'
cross join run_input i on i.runid = r.runid
where true
on conflict (datasetid, dataid, jobid, locktype) do update set
    status = 'RUNNING', epoch = excluded.epoch, version = excluded.version, runid = excluded.runid, seal = d.seal + 1, modified = excluded.modified;
insert into event (kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt, at)
select 'claimed', s.datasetid, r.dataid, :jobid, r.runid, r.epoch, s.held, 'RUNNING', :owner, :why, t.value ->> 'receipt', now()
from json_each(:takes) t
cross join run r on r.jobid = :jobid and r.dataid = t.value ->> 'dataid' and r.epoch = t.value ->> 'epoch'
cross join json_each(:outputs) o
cross join datastatus s on s.datasetid = o.value and s.dataid = r.dataid and s.locktype = 'OUT' and s.runid = r.runid;
select r.runid, r.dataid, r.epoch,
       (select count(*) from json_each(:outputs) o
        cross join datastatus s on s.datasetid = o.value and s.dataid = r.dataid and s.locktype = 'OUT' and s.runid = r.runid) as taken
from json_each(:takes) t
cross join run r on r.jobid = :jobid and r.dataid = t.value ->> 'dataid' and r.epoch = t.value ->> 'epoch'

-- name: claim_take_one
-- Claim one candidate, like claim_take.
-- SQLite: a CTE cannot write; defaults are given because now() is a function of this program.
delete from candidate where jobid = :jobid and dataid = :dataid;
insert into run (jobid, dataid, epoch, status, pool, owner, lease, lease_until, forced, started)
values (:jobid, :dataid, :epoch, 'RUNNING', :pool, :owner, :lease, lease_now() + :lease, :forced, now());
insert into run_input (runid, nth, datasetid, dataid, version)
select r.runid, e.key + 1, e.value ->> 0, e.value ->> 1, e.value ->> 2
from run r cross join json_each(:inputs) e
where r.jobid = :jobid and r.dataid = :dataid and r.epoch = :epoch;
insert into datastatus as d (datasetid, jobid, dataid, locktype, status, epoch, runid, tries, sort_key, seal, modified)
select o.value, :jobid, :dataid, 'OUT', 'RUNNING', :epoch, r.runid, :tries, :sort_key, 1, now()
from run r cross join json_each(:outputs) o
where r.jobid = :jobid and r.dataid = :dataid and r.epoch = :epoch
on conflict (datasetid, dataid) where locktype = 'OUT' do update set
    jobid = excluded.jobid, status = 'RUNNING', epoch = excluded.epoch, runid = excluded.runid, tries = excluded.tries,
    sort_key = excluded.sort_key, held = d.status, seal = d.seal + 1, modified = excluded.modified
where d.status = 'RESUBMIT' or (:forced and d.status <> 'RUNNING');
insert into datastatus as d (datasetid, jobid, dataid, locktype, status, epoch, version, runid, seal, modified)
select i.datasetid, :jobid, i.dataid, 'IN', 'RUNNING', :epoch, i.version, r.runid, 1, now()
from run r cross join run_input i on i.runid = r.runid
where r.jobid = :jobid and r.dataid = :dataid and r.epoch = :epoch
on conflict (datasetid, dataid, jobid, locktype) do update set
    status = 'RUNNING', epoch = excluded.epoch, version = excluded.version, runid = excluded.runid, seal = d.seal + 1, modified = excluded.modified;
insert into event (kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt, at)
select 'claimed', s.datasetid, :dataid, :jobid, r.runid, :epoch, s.held, 'RUNNING', :owner, :why, :receipt, now()
from run r cross join json_each(:outputs) o
cross join datastatus s on s.datasetid = o.value and s.dataid = r.dataid and s.locktype = 'OUT' and s.runid = r.runid
where r.jobid = :jobid and r.dataid = :dataid and r.epoch = :epoch;
select r.runid, r.dataid, r.epoch,
       (select count(*) from json_each(:outputs) o
        cross join datastatus s on s.datasetid = o.value and s.dataid = r.dataid and s.locktype = 'OUT' and s.runid = r.runid) as taken
from run r where r.jobid = :jobid and r.dataid = :dataid and r.epoch = :epoch

-- name: end_run
-- End a run that still holds its chunk: the run, its OUT and IN rows, the event. Returns the datasets of the ended chunks.
-- SQLite: a CTE cannot write, so each statement checks that the run is still running; the run row is updated last.
insert into event (kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, at)
select :kind, s.datasetid, s.dataid, :jobid, :runid, :epoch, 'RUNNING', :out_status, :owner, :detail, now()
from json_each(:outputs) o
cross join datastatus s on s.datasetid = o.value and s.dataid = :dataid and s.locktype = 'OUT'
                       and s.status = 'RUNNING' and s.epoch = :epoch and s.runid = :runid
where exists (select 1 from run where runid = :runid and status = 'RUNNING');
update datastatus set status = :in_status, seal = seal + 1, modified = now()
where (datasetid, dataid) in (select i.datasetid, i.dataid from run_input i where i.runid = :runid)
  and jobid = :jobid and locktype = 'IN' and status = 'RUNNING' and runid = :runid
  and exists (select 1 from run where runid = :runid and status = 'RUNNING');
update datastatus set status = :out_status, seal = seal + 1, modified = now(),
       version = case when :out_status = 'READY' then epoch else version end,
       tries = case when :out_status = 'READY' then 0 when :kind = 'stopped' then max(tries - 1, 0) else tries end
where datasetid in (select value from json_each(:outputs)) and dataid = :dataid and locktype = 'OUT'
  and status = 'RUNNING' and epoch = :epoch and runid = :runid
  and exists (select 1 from run where runid = :runid and status = 'RUNNING')
returning datasetid;
update run set status = :run_status, ended = now(), lease_until = null, outcome = :outcome, detail = :detail, exit_code = :exit_code
where runid = :runid and status = 'RUNNING'

-- name: end_runs
-- End several runs in the same way, like end_run. Returns the run of each ended chunk.
-- SQLite: a CTE cannot write, so each statement checks that the run is still running; the run row is updated last.
insert into event (kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, at)
select :kind, s.datasetid, s.dataid, r.jobid, r.runid, s.epoch, 'RUNNING', :out_status, t.value ->> 'owner', t.value ->> 'detail', now()
from json_each(:runs) t
cross join run r on r.runid = t.value ->> 'runid' and r.status = 'RUNNING'
cross join json_each(t.value, '$.outputs') o
cross join datastatus s on s.datasetid = o.value and s.dataid = t.value ->> 'dataid' and s.locktype = 'OUT'
                       and s.status = 'RUNNING' and s.epoch = t.value ->> 'epoch' and s.runid = r.runid;
update datastatus set status = :in_status, seal = seal + 1, modified = now()
where (datasetid, dataid, jobid, locktype, runid) in (
        select i.datasetid, i.dataid, r.jobid, 'IN', r.runid
        from json_each(:runs) t cross join run r on r.runid = t.value ->> 'runid' and r.status = 'RUNNING' cross join run_input i on i.runid = r.runid)
  and status = 'RUNNING';
update datastatus set status = :out_status, seal = seal + 1, modified = now(),
       version = case when :out_status = 'READY' then epoch else version end,
       tries = case when :out_status = 'READY' then 0 else tries end
where (datasetid, dataid, epoch, runid) in (
        select o.value, t.value ->> 'dataid', t.value ->> 'epoch', r.runid
        from json_each(:runs) t cross join run r on r.runid = t.value ->> 'runid' and r.status = 'RUNNING' cross join json_each(t.value, '$.outputs') o)
  and locktype = 'OUT' and status = 'RUNNING'
returning runid;
update run set status = :run_status, ended = now(), lease_until = null, outcome = :outcome,
       detail = t.value ->> 'detail', exit_code = t.value ->> 'exit_code'
from json_each(:runs) t where run.runid = t.value ->> 'runid' and run.status = 'RUNNING'

-- name: manifest_put
-- Insert one manifest, like manifests_put.
-- SQLite: defaults are given because now() is a function of this program.
insert into data_manifest (datasetid, dataid, version, jobid, runid, location, format, bytes, rows, span_lower, span_upper, fingerprint, passed, body, published)
values (:datasetid, :dataid, :version, :jobid, :runid, :location, :format, :bytes, :rows, :span_lower, :span_upper, :fingerprint, :passed, :body, now())
on conflict (datasetid, dataid, version) do nothing

-- name: manifests_put
-- Insert manifests; existing versions are unchanged: end_run refuses a second publish of an epoch.
-- SQLite: a list of objects is read by json_each; WHERE TRUE separates ON CONFLICT from a join.
insert into data_manifest (datasetid, dataid, version, jobid, runid, location, format, bytes, rows, span_lower, span_upper, fingerprint, passed, body, published)
select m.value ->> 'datasetid', m.value ->> 'dataid', m.value ->> 'version', m.value ->> 'jobid', m.value ->> 'runid', m.value ->> 'location',
       m.value ->> 'format', m.value ->> 'bytes', m.value ->> 'rows', m.value ->> 'span_lower', m.value ->> 'span_upper',
       m.value ->> 'fingerprint', m.value ->> 'passed', m.value ->> 'body', now()
from json_each(:manifests) m
where true
on conflict (datasetid, dataid, version) do nothing

-- name: give_back
-- Undo a claim whose run did not start; a resubmitted chunk becomes RESUBMIT again.
-- SQLite: a CTE cannot write, so each statement checks that the run is still running; the run row is updated last.
update datastatus set status = 'FAILED', seal = seal + 1, modified = now()
where :was_resubmit and (datasetid, dataid) in (select i.datasetid, i.dataid from run_input i where i.runid = :runid)
  and jobid = :jobid and locktype = 'IN' and status = 'RUNNING' and runid = :runid
  and exists (select 1 from run where runid = :runid and status = 'RUNNING');
update datastatus set status = 'RESUBMIT', runid = null, tries = max(tries - 1, 0), seal = seal + 1, modified = now()
where :was_resubmit and datasetid in (select value from json_each(:outputs)) and dataid = :dataid and locktype = 'OUT'
  and status = 'RUNNING' and runid = :runid and exists (select 1 from run where runid = :runid and status = 'RUNNING');
update run set status = 'REFUSED', ended = now(), lease_until = null, outcome = :outcome, detail = :detail
where runid = :runid and status = 'RUNNING' returning runid

-- name: runs_expired
-- Runs with an expired lease, and their number of tries.
-- SQLite: a write transaction locks the file, so the runs need no lock.
select r.runid, r.jobid, r.dataid, r.epoch, r.owner, r.lease,
       coalesce((select max(s.tries) from job o
                 cross join datastatus s on s.datasetid = o.datasetid and s.dataid = r.dataid and s.locktype = 'OUT' and s.runid = r.runid
                 where o.jobid = r.jobid and o.itemtype = 'OUT'), 1) as tries
from run r where r.status = 'RUNNING' and r.lease_until < lease_now() order by r.runid limit :n

-- name: chunks_put
-- Write OUT rows. Returns how many were written.
-- SQLite: a list of objects is read by json_each; WHERE TRUE separates ON CONFLICT from a join.
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

-- name: chunks_announce
-- Announce chunks with one version: write OUT rows and events. Returns how many rows were written.
-- SQLite: a list is read by json_each, and a CTE cannot write; WHERE TRUE separates ON CONFLICT from a join.
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

-- name: versions_given
-- The highest version of each given chunk, among manifests, inputs and recalls.
-- SQLite: a list is read by json_each; a numeric column may hold text, which is not a version.
select v.dataid, max(v.version) as version from (
    select m.dataid, m.version from json_each(:dataids) c
    cross join data_manifest m on m.datasetid = :datasetid and m.dataid = c.value and typeof(m.version) = 'integer'
    union all
    select f.in_dataid, f.in_version from json_each(:dataids) c cross join made_from f on f.in_datasetid = :datasetid and f.in_dataid = c.value
    union all
    select r.dataid, r.version from json_each(:dataids) c cross join recalled r on r.datasetid = :datasetid and r.dataid = c.value) v
group by v.dataid

-- name: chunks_mark
-- Mark rows before the engine removes them, so that the trigger writes no note.
-- SQLite: a list is read by json_each.
update datastatus set seal = -1
where datasetid = :datasetid and dataid in (select value from json_each(:dataids)) and jobid = :jobid and locktype = :locktype

-- name: chunks_forget
-- Remove the marked rows; history stays.
-- SQLite: a list is read by json_each.
delete from datastatus
where datasetid = :datasetid and dataid in (select value from json_each(:dataids)) and jobid = :jobid and locktype = :locktype and seal = -1

-- name: chunks_noted
-- Complete rows that were written by SQL: set positions and reset tries; a typed time stays.
-- A READY chunk keeps its run only if that run published it.
-- SQLite: a list is read by json_each; an UPDATE … FROM would not be driven by the list.
insert into datastatus as d (datasetid, dataid, jobid, locktype, status, sort_key)
select s.datasetid, s.dataid, s.jobid, s.locktype, s.status, c.value ->> 2
from json_each(:chunks) c
cross join datastatus s on s.datasetid = c.value ->> 0 and s.dataid = c.value ->> 1 and s.locktype = 'OUT'
where true
on conflict (datasetid, dataid) where locktype = 'OUT' do update set sort_key = excluded.sort_key, tries = 0, seal = d.seal + 1,
    runid = case when d.status <> 'READY' or exists (select 1 from run r where r.runid = d.runid and r.status = 'READY') then d.runid end

-- name: links_from_given
-- The versions that were made from given chunks, by whom and when.
-- SQLite: a list is read by json_each.
select f.in_datasetid, f.in_dataid, f.in_version, f.datasetid, f.dataid, f.version, f.jobid, f.runid, f.published,
       (select i.fingerprint from data_manifest i
        where i.datasetid = f.in_datasetid and i.dataid = f.in_dataid and i.version = f.in_version) as in_fingerprint
from json_each(:chunks) c
cross join made_from f on f.in_datasetid = c.value ->> 0 and f.in_dataid = c.value ->> 1
order by f.in_datasetid, f.in_dataid, f.datasetid, f.dataid, f.version

-- name: links_into_given
-- The versions that given versions were made from.
-- SQLite: a list is read by json_each.
select i.datasetid as in_datasetid, i.dataid as in_dataid, i.version as in_version, m.datasetid, m.dataid, m.version, m.jobid, m.runid, m.published,
       (select f.fingerprint from data_manifest f
        where f.datasetid = i.datasetid and f.dataid = i.dataid and f.version = i.version) as in_fingerprint
from json_each(:versions) c
cross join data_manifest m on m.datasetid = c.value ->> 0 and m.dataid = c.value ->> 1 and m.version = c.value ->> 2
cross join run_input i on i.runid = m.runid
order by m.datasetid, m.dataid, m.version, 1, 2

-- name: inputs_now_given
-- The chunks that the current versions of given chunks were made from, one hop upstream.
-- SQLite: a list is read by json_each.
select s.datasetid, s.dataid, i.datasetid as in_datasetid, i.dataid as in_dataid
from json_each(:chunks) c
cross join datastatus s on s.datasetid = c.value ->> 0 and s.dataid = c.value ->> 1 and s.locktype = 'OUT'
cross join data_manifest m on m.datasetid = s.datasetid and m.dataid = s.dataid and m.version = s.version
cross join run_input i on i.runid = m.runid

-- name: links_of_versions
-- The versions made from given versions: at most :n of each, of the last runs up to :last.
-- SQLite: a list is read by json_each, and each version is looked up in a subquery.
select f.in_datasetid, f.in_dataid, f.in_version, f.datasetid, f.dataid, f.version, f.jobid, f.runid, f.published, null as in_fingerprint
from json_each(:versions) c
cross join made_from f on f.in_datasetid = c.value ->> 0 and f.in_dataid = c.value ->> 1
    and (f.datasetid, f.dataid, f.version) in (
        select k.datasetid, k.dataid, k.version from made_from k
        where k.in_datasetid = c.value ->> 0 and k.in_dataid = c.value ->> 1 and k.in_version = c.value ->> 2 and k.runid <= :last
        order by k.runid desc, k.datasetid desc limit :n)
order by f.in_datasetid, f.in_dataid, f.datasetid, f.dataid, f.version

-- name: superseded_given
-- For given chunks with a new version, and given links: current versions that were made from an outdated input version,
-- with whether the content is the same; and existing stale marks, with a jobid of ''.
-- SQLite: a list is read by json_each.
select f.datasetid, f.dataid, f.version, s.jobid, s.status, f.in_datasetid, f.in_dataid, f.in_version,
       coalesce(was.fingerprint = new.fingerprint, false) as is_same
from (select f.datasetid, f.dataid, f.version, f.in_datasetid, f.in_dataid, f.in_version
      from json_each(:chunks) c cross join made_from f on f.in_datasetid = c.value ->> 0 and f.in_dataid = c.value ->> 1
      union all
      select l.value ->> 0, l.value ->> 1, l.value ->> 2, l.value ->> 3, l.value ->> 4, l.value ->> 5 from json_each(:links) l) f
cross join datastatus n on n.datasetid = f.in_datasetid and n.dataid = f.in_dataid and n.locktype = 'OUT' and n.version <> f.in_version
cross join datastatus s on s.datasetid = f.datasetid and s.dataid = f.dataid and s.locktype = 'OUT' and s.version = f.version
left join data_manifest was on was.datasetid = f.in_datasetid and was.dataid = f.in_dataid and was.version = f.in_version
left join data_manifest new on new.datasetid = n.datasetid and new.dataid = n.dataid and new.version = n.version
where f.in_datasetid <> f.datasetid or f.in_dataid <> f.dataid
union all
select k.datasetid, k.dataid, k.version, '', '', k.in_datasetid, k.in_dataid, k.in_version, true
from json_each(:chunks) c cross join stale k on k.datasetid = c.value ->> 0 and k.dataid = c.value ->> 1
union all
select k.datasetid, k.dataid, k.version, '', '', k.in_datasetid, k.in_dataid, k.in_version, true
from json_each(:chunks) c cross join stale k on k.in_datasetid = c.value ->> 0 and k.in_dataid = c.value ->> 1

-- name: stale_chunks
-- At most n chunks whose current version is stale, directly or through an input; outputs of jobs that ignore new versions are left out.
-- SQLite: a list is read by json_each.
with recursive found (datasetid, dataid, version, is_direct) as (
    select k.datasetid, k.dataid, k.version, true from stale k
    cross join datastatus s on s.datasetid = k.datasetid and s.dataid = k.dataid and s.locktype = 'OUT' and s.version = k.version
    cross join datastatus n on n.datasetid = k.in_datasetid and n.dataid = k.in_dataid and n.locktype = 'OUT' and n.version <> k.in_version
    where k.datasetid not in (select value from json_each(:ignoring))
    union
    select f.datasetid, f.dataid, f.version, false from found u
    cross join made_from f on f.in_datasetid = u.datasetid and f.in_dataid = u.dataid
    cross join datastatus s on s.datasetid = f.datasetid and s.dataid = f.dataid and s.locktype = 'OUT' and s.version = f.version
    where f.datasetid not in (select value from json_each(:ignoring)) and (f.datasetid <> u.datasetid or f.dataid <> u.dataid)
    limit :n
)
select f.datasetid, f.dataid, s.jobid, s.status, s.version, s.sort_key, max(f.is_direct) as is_direct
from found f cross join datastatus s on s.datasetid = f.datasetid and s.dataid = f.dataid and s.locktype = 'OUT'
group by f.datasetid, f.dataid

-- name: remakes_from_given
-- Chunks recorded by remake_put that were made from given chunks; without chunks with changes that are not folded in yet.
-- SQLite: a list is read by json_each.
select distinct r.datasetid, r.dataid, r.version, s.jobid, s.epoch, s.sort_key
from json_each(:chunks) c
cross join made_from f on f.in_datasetid = c.value ->> 0 and f.in_dataid = c.value ->> 1
cross join remake r on r.datasetid = f.datasetid and r.dataid = f.dataid and r.version = f.version
cross join datastatus s indexed by one_out_row_per_chunk
    on s.datasetid = r.datasetid and s.dataid = r.dataid and s.locktype = 'OUT' and s.status = 'RESUBMIT' and s.version = r.version
where not exists (select 1 from note n where n.datasetid = r.datasetid and n.dataid = r.dataid and n.locktype = 'OUT' and n.who is not null)
order by 1, 2

-- name: made_from_version
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

-- name: descendants
-- At most n current versions downstream of any version of a chunk, each with its input.
-- SQLite: the limit is inside the recursion.
with recursive found (datasetid, dataid, version, in_datasetid, in_dataid, in_version) as (
    select f.datasetid, f.dataid, f.version, f.in_datasetid, f.in_dataid, f.in_version
    from made_from f
    cross join datastatus s on s.datasetid = f.datasetid and s.dataid = f.dataid and s.locktype = 'OUT' and s.version = f.version
    where f.in_datasetid = :datasetid and f.in_dataid = :dataid and (f.datasetid <> :datasetid or f.dataid <> :dataid)
    union
    select f.datasetid, f.dataid, f.version, f.in_datasetid, f.in_dataid, f.in_version from found u
    cross join made_from f on f.in_datasetid = u.datasetid and f.in_dataid = u.dataid
    cross join datastatus s on s.datasetid = f.datasetid and s.dataid = f.dataid and s.locktype = 'OUT' and s.version = f.version
    where f.datasetid <> u.datasetid or f.dataid <> u.dataid
    limit :n
)
select f.in_datasetid, f.in_dataid, f.in_version, f.datasetid, f.dataid, f.version, m.jobid, m.runid, m.published, s.status, s.sort_key
from found f
cross join datastatus s on s.datasetid = f.datasetid and s.dataid = f.dataid and s.locktype = 'OUT'
left join data_manifest m on m.datasetid = f.datasetid and m.dataid = f.dataid and m.version = f.version
