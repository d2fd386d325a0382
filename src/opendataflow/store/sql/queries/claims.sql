-- Claims: what may be claimed, by which limits.

-- name: claim_pick
-- The first n claimable candidates of a job with their facts; none while changes have to be folded in.
-- Concurrent claims lock what they pick and skip what is locked.
with state as materialized (
    select (select value from meta where name = 'revision') as revision,
           exists (select 1 from note) as notes,
           exists (select 1 from run where status = 'RUNNING' and lease_until < lease_now()) as expired,
           exists (select 1 from candidate where state = 'DEFERRED' and not_before <= lease_now()) as due
), picked as materialized (
    select c.jobid, c.dataid from candidate c
    where c.jobid = :jobid and c.state = 'CLAIMABLE' and (select not (notes or expired or due) from state)
    order by c.rank, c.sort_key limit :n
    {postgres: for update skip locked}
)
select s.revision, s.notes, s.expired, s.due, f.dataid, f.rank, f.sort_key, f.epoch, f.tries, f.inputs
from state s left join picked p on true left join candidate_facts f on f.jobid = p.jobid and f.dataid = p.dataid
order by f.rank, f.sort_key

-- name: claim_pick_dataid
-- One given candidate of a job with its facts; none while changes have to be folded in.
with state as materialized (
    select (select value from meta where name = 'revision') as revision,
           exists (select 1 from note) as notes,
           exists (select 1 from run where status = 'RUNNING' and lease_until < lease_now()) as expired,
           exists (select 1 from candidate where state = 'DEFERRED' and not_before <= lease_now()) as due
), picked as materialized (
    select c.jobid, c.dataid from candidate c
    where c.jobid = :jobid and c.dataid = :dataid and c.state in ('CLAIMABLE', 'DEFERRED')
      and (select not (notes or expired or due) from state)
    {postgres: for update skip locked}
)
select s.revision, s.notes, s.expired, s.due, f.dataid, f.rank, f.sort_key, f.epoch, f.tries, f.inputs
from state s left join picked p on true left join candidate_facts f on f.jobid = p.jobid and f.dataid = p.dataid

-- name: slots_taken
-- The number of running chunks in a pool.
select count(*) as taken from run where pool = :pool and pool <> '' and status = 'RUNNING'

-- name: readers_running
-- The number of running chunks that read a dataset.
select count(*) as taken from run r
where r.status = 'RUNNING' and exists (select 1 from job i where i.datasetid = :datasetid and i.itemtype = 'IN' and i.jobid = r.jobid)

-- name: jobs_claimable
-- Jobs with claimable candidates, ignoring limits; and '' while changes have to be folded in.
select '' as jobid where exists (select 1 from note)
             or exists (select 1 from run where status = 'RUNNING' and lease_until < lease_now())
             or exists (select 1 from candidate where state = 'DEFERRED' and not_before <= lease_now())
union all
select j.jobid from (select distinct jobid from job where itemtype = 'OUT') j
where (select 1 from candidate c where c.jobid = j.jobid and c.state = 'CLAIMABLE' limit 1) is not null

-- name: outputs_of_run
-- The datasets whose chunks a run holds, whatever its job writes now.
select d.datasetid from dataset d {join datastatus s: s.datasetid = d.datasetid and s.dataid = :dataid and s.locktype = 'OUT'}
where s.runid = :runid order by d.datasetid

-- name: outputs_claimed
-- The datasets whose chunks a run claimed, from the history, whatever happened to the rows and the job since.
select d.datasetid from dataset d
where (select count(*) from event e where e.datasetid = d.datasetid and e.dataid = :dataid and e.kind = 'claimed' and e.runid = :runid) > 0
order by d.datasetid

-- name: run_is_over
-- Whether the lease of one run expired.
select lease_until < lease_now() as is_over from run where runid = :runid

-- name: changes_wait
-- Whether changes have to be folded in, or deferred candidates are due.
select exists (select 1 from note) or exists (select 1 from candidate where state = 'DEFERRED' and not_before <= lease_now()) as wait

-- name: heartbeat
-- Extend the leases of these runs, if they still hold their chunks.
update run set lease_until = lease_now() + lease
where runid {in :runids bigint} and status = 'RUNNING'
  and exists (select 1 from job o
              join datastatus s on s.datasetid = o.datasetid and s.dataid = run.dataid and s.locktype = 'OUT'
                               and s.status = 'RUNNING' and s.runid = run.runid
              where o.jobid = run.jobid and o.itemtype = 'OUT')
returning runid, lease_until

-- name: lock_pool (postgres)
-- Serialize claims that share a pool.
select pg_advisory_xact_lock(hashtextextended(:pool, 727106))

-- name: lock_readers (postgres)
-- Serialize claims that read a dataset with a limit; announcements of its chunks do not wait.
select pg_advisory_xact_lock(hashtextextended(:datasetid, 727104))

-- name: lock_inputs (postgres)
-- Lock the inputs of a run until its claim is committed, so that a concurrent recall finds the run.
select count(*) from (
    select d.datasetid from (select i ->> 0 as datasetid, i ->> 1 as dataid from json_array_elements(:inputs::json) i order by 1, 2 offset 0) i
    cross join lateral (select d.datasetid from datastatus d where d.datasetid = i.datasetid and d.dataid = i.dataid and d.locktype = 'OUT' for share) d) locked

-- name: claim_take (sqlite)
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

-- name: claim_take (postgres)
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

-- name: claim_take_one (sqlite)
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

-- name: claim_take_one (postgres)
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

-- name: give_back (sqlite)
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

-- name: give_back (postgres)
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
-- Runs with an expired lease, and their number of tries; runs that another transaction rescues are skipped.
-- + 0 prevents the planner from going through all runs in order.
select r.runid, r.jobid, r.dataid, r.epoch, r.owner, r.lease,
       coalesce((select max(s.tries) from job o
                 {join datastatus s: s.datasetid = o.datasetid and s.dataid = r.dataid and s.locktype = 'OUT' and s.runid = r.runid}
                 where o.jobid = r.jobid and o.itemtype = 'OUT'), 1) as tries
from run r where r.status = 'RUNNING' and r.lease_until < lease_now() order by r.runid + 0 limit :n
{postgres: for update of r skip locked}
