-- Queries that PostgreSQL has to say in its own way: lists travel as JSON through json_to_recordset, what belongs together
-- is one statement (one round trip), and row locks keep concurrent claims apart.

-- name: schema
-- Where everything lives.
create schema if not exists dataflow

-- name: migration_table
-- The table that remembers which migrations were applied.
create table if not exists migration (number integer primary key, name text not null, checksum text not null, applied timestamptz not null)

-- name: migration_lock
-- One migrating process at a time.
select pg_advisory_xact_lock(727101)

-- name: claim_pick
-- The first n claimable candidates of a job with their facts, locked; none while something has to be folded in first.
with state as materialized (
    select (select value from meta where name = 'revision') as revision,
           exists (select 1 from note) as notes,
           exists (select 1 from run where status = 'RUNNING' and lease_until < lease_now()) as expired,
           exists (select 1 from candidate where state = 'DEFERRED' and not_before <= lease_now()) as due
), picked as materialized (
    select c.jobid, c.dataid from candidate c
    where c.jobid = :jobid and c.state = 'CLAIMABLE' and (select not (notes or expired or due) from state)
    order by c.rank, c.sort_key limit :n
    for update skip locked
)
select s.revision, s.notes, s.expired, s.due, f.dataid, f.rank, f.sort_key, f.epoch, f.tries, f.inputs
from state s left join picked p on true left join candidate_facts f on f.jobid = p.jobid and f.dataid = p.dataid
order by f.rank, f.sort_key

-- name: claim_pick_dataid
-- One given candidate of a job with its facts, locked; none while something has to be folded in first.
with state as materialized (
    select (select value from meta where name = 'revision') as revision,
           exists (select 1 from note) as notes,
           exists (select 1 from run where status = 'RUNNING' and lease_until < lease_now()) as expired,
           exists (select 1 from candidate where state = 'DEFERRED' and not_before <= lease_now()) as due
), picked as materialized (
    select c.jobid, c.dataid from candidate c
    where c.jobid = :jobid and c.dataid = :dataid and c.state in ('CLAIMABLE', 'DEFERRED')
      and (select not (notes or expired or due) from state)
    for update skip locked
)
select s.revision, s.notes, s.expired, s.due, f.dataid, f.rank, f.sort_key, f.epoch, f.tries, f.inputs
from state s left join picked p on true left join candidate_facts f on f.jobid = p.jobid and f.dataid = p.dataid

-- name: claim_take
-- Take candidates: OUT and IN rows RUNNING under a new epoch, the attempt, the event with its receipt.
with t as materialized (
    select * from json_to_recordset(:takes::json) as t (dataid text, epoch bigint, sort_key text, tries integer, before text, receipt text, inputs text)
), gone as (
    delete from candidate c using t where c.jobid = :jobid and c.dataid = t.dataid
), r as (
    insert into run (jobid, dataid, epoch, status, pool, owner, lease, lease_until, forced, inputs)
    select :jobid, t.dataid, t.epoch, 'RUNNING', :pool, :owner, :lease, lease_now() + :lease, :forced, t.inputs from t
    returning runid, dataid, epoch
), outs as (
    insert into datastatus as d (datasetid, jobid, dataid, locktype, status, epoch, runid, tries, sort_key, seal)
    select o.datasetid, :jobid, r.dataid, 'OUT', 'RUNNING', r.epoch, r.runid, t.tries, t.sort_key, 1
    from t join r on r.dataid = t.dataid join job o on o.jobid = :jobid and o.itemtype = 'OUT'
    on conflict (datasetid, dataid) where locktype = 'OUT' do update set
        jobid = excluded.jobid, status = 'RUNNING', epoch = excluded.epoch, runid = excluded.runid, tries = excluded.tries,
        sort_key = excluded.sort_key, held = null, seal = d.seal + 1, modified = now()
    where d.status = 'RESUBMIT' or (:forced and d.status <> 'RUNNING')
    returning runid
), ins as (
    insert into datastatus as d (datasetid, jobid, dataid, locktype, status, epoch, version, runid, seal)
    select i ->> 0, :jobid, i ->> 1, 'IN', 'RUNNING', r.epoch, coalesce((i ->> 2)::bigint, 0), r.runid, 1
    from t join r on r.dataid = t.dataid cross join lateral json_array_elements(t.inputs::json) i
    on conflict (datasetid, dataid, jobid, locktype) do update set
        status = 'RUNNING', epoch = excluded.epoch, version = excluded.version, runid = excluded.runid, seal = d.seal + 1, modified = now()
), e as (
    insert into event (kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt)
    select 'claimed', o.datasetid, r.dataid, :jobid, r.runid, r.epoch, t.before, 'RUNNING', :owner, :why, t.receipt
    from t join r on r.dataid = t.dataid join job o on o.jobid = :jobid and o.itemtype = 'OUT'
)
select r.runid, r.dataid, r.epoch, (select count(*) from outs where outs.runid = r.runid) as taken from r

-- name: end_runs
-- End attempts that are still ours: the attempt, its OUT and IN rows, the event. Answers the chunks that were really ended.
with e as materialized (
    select * from json_to_recordset(:ends::json) as e (runid bigint, kind text, run_status text, out_status text, in_status text, outcome text, detail text, exit_code integer)
), r as (
    update run set status = e.run_status, ended = now(), lease_until = null, outcome = e.outcome, detail = e.detail, exit_code = e.exit_code
    from e where run.runid = e.runid and run.status = 'RUNNING'
    returning run.runid, run.jobid, run.dataid, run.epoch, run.owner, run.inputs, e.kind, e.out_status, e.in_status, e.detail
), outs as (
    update datastatus d set status = r.out_status, seal = d.seal + 1, modified = now(),
        version = case r.out_status when 'READY' then d.epoch else d.version end,
        tries = case r.out_status when 'READY' then 0 else d.tries end
    from r join job o on o.jobid = r.jobid and o.itemtype = 'OUT'
    where d.datasetid = o.datasetid and d.dataid = r.dataid and d.locktype = 'OUT'
      and d.status = 'RUNNING' and d.epoch = r.epoch and d.runid = r.runid
    returning r.runid, r.jobid, d.datasetid, d.dataid, r.epoch, r.owner, r.kind, r.out_status, r.detail
), ins as (
    update datastatus d set status = r.in_status, seal = d.seal + 1, modified = now()
    from r cross join lateral json_array_elements(r.inputs::json) i
    where d.datasetid = i ->> 0 and d.dataid = i ->> 1 and d.jobid = r.jobid and d.locktype = 'IN'
      and d.status = 'RUNNING' and d.runid = r.runid
), ev as (
    insert into event (kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why)
    select kind, datasetid, dataid, jobid, runid, epoch, 'RUNNING', out_status, owner, detail from outs
)
select runid, datasetid, dataid from outs

-- name: manifest_put
-- Record what was published, from the OUT rows that were just made READY.
insert into data_manifest (datasetid, dataid, version, jobid, runid, place, format, bytes, rows, span_lower, span_upper, fingerprint, passed, body)
select datasetid, dataid, version, jobid, runid, place, format, bytes, rows, span_lower, span_upper, fingerprint, passed, body
from json_to_recordset(:manifests::json) as m (datasetid text, dataid text, version bigint, jobid text, runid bigint, place text, format text, bytes bigint,
    rows bigint, span_lower text, span_upper text, fingerprint text, passed boolean, body text)

-- name: give_back
-- Undo a claim that the gate refused: nothing was launched, so the rows become what they were.
with r as (
    update run set status = 'REFUSED', ended = now(), lease_until = null, outcome = :outcome, detail = :detail
    where runid = :runid and status = 'RUNNING' returning runid, jobid, dataid, inputs
), chunks as (
    select r.runid, r.jobid, o.datasetid, r.dataid, 'OUT' as locktype from r join job o on o.jobid = r.jobid and o.itemtype = 'OUT'
    union all
    select r.runid, r.jobid, i ->> 0, i ->> 1, 'IN' from r cross join lateral json_array_elements(r.inputs::json) i
), kept as (
    update datastatus d set status = case d.locktype when 'OUT' then 'RESUBMIT' else 'FAILED' end,
        runid = case d.locktype when 'OUT' then null else d.runid end,
        tries = greatest(d.tries - 1, 0), seal = d.seal + 1, modified = now()
    from chunks c where :was_resubmit and d.datasetid = c.datasetid and d.dataid = c.dataid and d.jobid = c.jobid and d.locktype = c.locktype
      and d.runid = c.runid and d.status = 'RUNNING'
)
select runid from r

-- name: give_back_rows
-- The rows that a given-back claim had made: they go as if they had never been.
update datastatus d set seal = -1
from (select r.runid, r.jobid, o.datasetid, r.dataid, 'OUT' as locktype from run r join job o on o.jobid = r.jobid and o.itemtype = 'OUT' where r.runid = :runid
      union all
      select r.runid, r.jobid, i ->> 0, i ->> 1, 'IN' from run r cross join lateral json_array_elements(r.inputs::json) i where r.runid = :runid) c
where d.datasetid = c.datasetid and d.dataid = c.dataid and d.jobid = c.jobid and d.locktype = c.locktype and d.runid = c.runid and d.status = 'RUNNING'

-- name: give_back_delete
-- Remove the rows that give_back_rows marked.
delete from datastatus d
using (select r.jobid, o.datasetid, r.dataid, 'OUT' as locktype from run r join job o on o.jobid = r.jobid and o.itemtype = 'OUT' where r.runid = :runid
       union all
       select r.jobid, i ->> 0, i ->> 1, 'IN' from run r cross join lateral json_array_elements(r.inputs::json) i where r.runid = :runid) c
where d.datasetid = c.datasetid and d.dataid = c.dataid and d.jobid = c.jobid and d.locktype = c.locktype and d.seal = -1

-- name: runs_expired
-- Attempts whose lease ran out, with the tries made so far; those that somebody else rescues right now are left to them.
select r.runid, r.jobid, r.dataid, r.epoch, r.owner,
       coalesce((select max(s.tries) from job o join datastatus s on s.datasetid = o.datasetid and s.dataid = r.dataid and s.locktype = 'OUT' and s.runid = r.runid
                 where o.jobid = r.jobid and o.itemtype = 'OUT'), 1) as tries
from run r where r.status = 'RUNNING' and r.lease_until < lease_now() order by r.runid limit :n
for update of r skip locked

-- name: lock_definitions
-- The definitions stay as they are until this transaction ends.
select pg_advisory_xact_lock_shared(727102)

-- name: lock_pairs
-- Two transactions that decide about the same (job, dataid) do it one after the other, so that each sees what the other changed;
-- a bulk change takes the whole job, because single locks would not fit into the lock table.
select count(*) from (
    select case when count(*) over () > 200
                then pg_advisory_xact_lock(hashtext(p ->> 0), 0)
                else pg_advisory_xact_lock_shared(hashtext(p ->> 0), 0) end,
           case when count(*) over () <= 200 then pg_advisory_xact_lock(hashtext(p ->> 0), hashtext(p ->> 1)) end
    from (select p from json_array_elements(:pairs::json) p order by hashtext(p ->> 0), hashtext(p ->> 1)) p offset 0) locked

-- name: pair_facts
-- What decides whether each (job, dataid) may be taken: its inputs that are READY, its OUT rows, its own IN rows.
select p.jobid, p.dataid,
       (select count(*) from json_array_elements(p.inputs) i
        join datastatus s on s.datasetid = i ->> 0 and s.dataid = i ->> 1 and s.locktype = 'OUT' where s.status = 'READY'),
       (select string_agg(s.status, ',') from job o
        join datastatus s on s.datasetid = o.datasetid and s.dataid = p.dataid and s.locktype = 'OUT'
        where o.jobid = p.jobid and o.itemtype = 'OUT'),
       (select string_agg(s.status, ',') from json_array_elements(p.exclusive) i
        join datastatus s on s.datasetid = i ->> 0 and s.dataid = i ->> 1 and s.jobid = p.jobid and s.locktype = 'IN')
from (select p ->> 0 as jobid, p ->> 1 as dataid, p -> 2 as inputs, p -> 3 as exclusive from json_array_elements(:pairs::json) p offset 0) p

-- name: candidates_put
-- Write candidates as they are now.
insert into candidate (jobid, dataid, sort_key, rank, state, not_before, inputs)
select c ->> 0, c ->> 1, c ->> 2, (c ->> 3)::smallint, c ->> 4, (c ->> 5)::double precision, c ->> 6 from json_array_elements(:candidates::json) c
on conflict (jobid, dataid) do update set sort_key = excluded.sort_key, rank = excluded.rank, state = excluded.state,
    not_before = excluded.not_before, inputs = excluded.inputs

-- name: candidates_drop
-- Remove candidates that may not be taken any more.
delete from candidate d using json_array_elements(:candidates::json) c where d.jobid = c ->> 0 and d.dataid = c ->> 1

-- name: notes_take
-- Take all notes out; a claim that folds notes at the same time is waited for, so that its candidates are seen.
delete from note where noteid <= (select max(noteid) from (select noteid from note order by noteid limit :n) first)
returning noteid, datasetid, dataid, jobid, locktype, before, after, who

-- name: chunks_given
-- The OUT rows of given chunks, locked, with the attempt that holds them.
select s.datasetid, s.dataid, s.jobid, s.status, s.epoch, s.version, s.runid, s.tries, s.held, s.sort_key, r.status
from (select c ->> 0 as datasetid, c ->> 1 as dataid from json_array_elements(:chunks::json) c) c
join datastatus s on s.datasetid = c.datasetid and s.dataid = c.dataid and s.locktype = 'OUT'
left join run r on r.runid = s.runid
order by s.datasetid, s.dataid
for update of s

-- name: lock_candidates
-- Take the candidates before the status rows, in one order, as a claim does: so that nobody waits in a circle.
select count(*) from (
    select 1 from candidate c join json_array_elements(:pairs::json) p on c.jobid = p ->> 0 and c.dataid = p ->> 1
    order by c.jobid, c.dataid for update of c) locked

-- name: chunks_put
-- Write OUT rows as the engine decided.
insert into datastatus as d (datasetid, dataid, jobid, locktype, status, epoch, version, tries, held, sort_key, lowerbound, upperbound, seal)
select c.datasetid, c.dataid, c.jobid, 'OUT', c.status, c.epoch, c.version, 0, c.held, c.sort_key, c.lower, c.upper, 1
from json_to_recordset(:chunks::json) as c (datasetid text, dataid text, jobid text, status text, epoch bigint, version bigint, held text, sort_key text, lower text, upper text)
on conflict (datasetid, dataid) where locktype = 'OUT' do update set
    status = excluded.status, epoch = excluded.epoch, version = excluded.version, tries = 0, held = excluded.held, sort_key = excluded.sort_key,
    lowerbound = coalesce(excluded.lowerbound, d.lowerbound), upperbound = coalesce(excluded.upperbound, d.upperbound),
    seal = d.seal + 1, modified = now()

-- name: versions_given
-- The highest version that each given chunk ever had, for chunks that have no row now.
select m.datasetid, m.dataid, max(m.version) from (select c ->> 0 as datasetid, c ->> 1 as dataid from json_array_elements(:chunks::json) c) c
join data_manifest m on m.datasetid = c.datasetid and m.dataid = c.dataid group by 1, 2

-- name: events_put
-- Append events.
insert into event (kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why)
select kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why
from json_to_recordset(:events::json) as e (kind text, datasetid text, dataid text, jobid text, runid bigint, epoch bigint, before text, after text, who text, why text)

-- name: chunks_mark
-- Mark rows that the engine itself is about to remove, so that no note is taken of it.
update datastatus d set seal = -1 from json_array_elements(:rows::json) c
where d.datasetid = c ->> 0 and d.dataid = c ->> 1 and d.jobid = c ->> 2 and d.locktype = c ->> 3

-- name: chunks_forget
-- Remove the OUT rows of given chunks and their producer's IN rows; history stays.
delete from datastatus d using json_array_elements(:rows::json) c
where d.seal = -1 and d.datasetid = c ->> 0 and d.dataid = c ->> 1 and d.jobid = c ->> 2 and d.locktype = c ->> 3

-- name: in_rows_given
-- The IN rows that one job holds on given chunks.
select s.datasetid, s.dataid, s.status, s.runid, s.version from json_array_elements(:chunks::json) c
join datastatus s on s.datasetid = c ->> 0 and s.dataid = c ->> 1 and s.jobid = :jobid and s.locktype = 'IN'

-- name: chunk_sort_keys_put
-- Give chunks from outside their place in the order.
update datastatus d set sort_key = c ->> 2, seal = d.seal + 1 from json_array_elements(:chunks::json) c
where d.datasetid = c ->> 0 and d.dataid = c ->> 1 and d.locktype = 'OUT'

-- name: pool_lock
-- The limit of a pool, locked: claims that share a pool are counted one after the other.
select places from pool where poolid = :pool for update
