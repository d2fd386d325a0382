-- name: all_candidates
select jobid, dataid, rank, case state when 'DEFERRED' then 'CLAIMABLE' else state end as state, inputs
from candidate order by jobid, dataid

-- name: any_note
select exists (select 1 from note) as any_note

-- name: applied_job_drop
delete from applied_job where project = :project and jobid = :jobid

-- name: applied_job_put
insert into applied_job (project, jobid) values (:project, :jobid)

-- name: applied_jobs
select jobid from applied_job where project = :project

-- name: attempts_between
select runid, jobid, dataid, status, owner, forced, started, ended, outcome, substr(detail, 1, 1000) as detail
from run where runid > :floor and runid <= :last and coalesce(outcome, '') <> 'GIVEN_BACK' order by runid desc limit :n

-- name: attempts_failed_of_job
select runid, jobid, dataid, status, owner, forced, started, ended, outcome, substr(detail, 1, 4000) as detail
from run where jobid || '' = :jobid and runid > :floor and status not in ('READY', 'RUNNING') and coalesce(outcome, '') <> 'GIVEN_BACK'
order by runid desc limit :n

-- name: attempts_unpublished_page
select runid, jobid, dataid, epoch, started from run where runid > :after and status in ('FAILED', 'LOST') order by runid limit :n

-- name: broken_job_drop
delete from broken_job where jobid = :jobid

-- name: broken_job_put
insert into broken_job (jobid) values (:jobid) on conflict (jobid) do nothing

-- name: broken_jobs
select jobid from broken_job

-- name: candidate_counts
select jobid, state, count(*) as n from candidate group by jobid, state order by jobid, state

-- name: candidate_dataids
select dataid from candidate where jobid = :jobid

-- name: candidate_drop
delete from candidate where jobid = :jobid and dataid = :dataid

-- name: candidate_put
insert into candidate (jobid, dataid, sort_key, rank, state, not_before, inputs)
values (:jobid, :dataid, :sort_key, :rank, :state, :not_before, :inputs)
on conflict (jobid, dataid) do update set sort_key = excluded.sort_key, rank = excluded.rank, state = excluded.state,
    not_before = excluded.not_before, inputs = excluded.inputs

-- name: candidate_row
select state, rank, not_before from candidate where jobid = :jobid and dataid = :dataid

-- name: candidates_deferred
select jobid, dataid, not_before from candidate where state = 'DEFERRED' order by not_before limit :n

-- name: candidates_deferred_page
select dataid, not_before from candidate where state = 'DEFERRED' and jobid || '' = :jobid order by not_before limit :n

-- name: candidates_drop
delete from candidate where jobid = :jobid and dataid in (select value from json_each(:dataids))

-- name: candidates_due
update candidate set state = 'CLAIMABLE', not_before = 0 where state = 'DEFERRED' and not_before <= lease_now()

-- name: candidates_due_page
select jobid, dataid, sort_key, rank, 'CLAIMABLE' as state, 0.0 as not_before, inputs from candidate
where state = 'DEFERRED' and not_before <= lease_now() order by not_before limit :n

-- name: candidates_first
select rank, sort_key, dataid from (select rank, sort_key, dataid from candidate where jobid = :jobid order by dataid limit :most) c
order by rank, sort_key limit :n

-- name: candidates_given
select c.jobid, c.dataid, c.state from (select value ->> 0 as jobid, value ->> 1 as dataid from json_each(:pairs)) p
cross join candidate c on c.jobid = p.jobid and c.dataid = p.dataid

-- name: candidates_of_job_drop
delete from candidate where jobid = :jobid

-- name: candidates_page
select rank, sort_key, dataid from candidate
where jobid = :jobid and state = 'CLAIMABLE' order by rank, sort_key limit :n

-- name: candidates_put
insert into candidate (jobid, dataid, sort_key, rank, state, not_before, inputs)
select c.jobid, c.dataid, c.sort_key, c.rank, c.state, c.not_before, c.inputs
from (select value ->> 0 as jobid, value ->> 1 as dataid, value ->> 2 as sort_key, value ->> 3 as rank, value ->> 4 as state, value ->> 5 as not_before, value ->> 6 as inputs from json_each(:candidates)) c
where true
on conflict (jobid, dataid) do update set sort_key = excluded.sort_key, rank = excluded.rank, state = excluded.state,
    not_before = excluded.not_before, inputs = excluded.inputs

-- name: candidates_put_alike
insert into candidate (jobid, dataid, sort_key, rank, state, not_before, inputs)
select :jobid, p.key, p.value, cast(:rank as smallint), :state, :not_before, replace(:inputs, '*', p.key) from (select key, value from json_each(:pairs)) p
where true
on conflict (jobid, dataid) do update set sort_key = excluded.sort_key, rank = excluded.rank, state = excluded.state,
    not_before = excluded.not_before, inputs = excluded.inputs

-- name: candidates_sample
select dataid, state, inputs from candidate where jobid = :jobid order by dataid limit :n

-- name: changed_since
select before from note where datasetid = :datasetid and dataid = :dataid and locktype = :locktype
union all
select before from event where datasetid = :datasetid and dataid = :dataid and kind in ('announced', 'resubmitted', 'kept') and at >= :at

-- name: changes_wait
select exists (select 1 from note) or exists (select 1 from candidate where state = 'DEFERRED' and not_before <= lease_now()) as wait

-- name: chunk
select datasetid, dataid, jobid, status, modified, epoch, version, runid, tries, held, lowerbound as lower, upperbound as upper, sort_key
from datastatus where datasetid = :datasetid and dataid = :dataid and locktype = 'OUT'

-- name: chunk_sort_keys_put
insert into datastatus as d (datasetid, dataid, jobid, locktype, status, sort_key, seal)
select s.datasetid, s.dataid, s.jobid, s.locktype, s.status, c.sort_key, 1
from (select value ->> 0 as datasetid, value ->> 1 as dataid, value ->> 2 as sort_key from json_each(:chunks)) c
cross join datastatus s on s.datasetid = c.datasetid and s.dataid = c.dataid and s.locktype = 'OUT'
where true
on conflict (datasetid, dataid) where locktype = 'OUT' do update set sort_key = excluded.sort_key, seal = d.seal + 1

-- name: chunks_announce
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

-- name: chunks_between
select dataid, sort_key, status from datastatus
where datasetid = :datasetid and locktype = 'OUT' and sort_key >= :from_key and sort_key <= :to_key
order by sort_key, dataid limit :n

-- name: chunks_forget
delete from datastatus
where datasetid = :datasetid and dataid in (select value from json_each(:dataids)) and jobid = :jobid and locktype = :locktype and seal = -1

-- name: chunks_given
select s.datasetid, s.dataid, s.jobid, s.status, s.epoch, s.version, s.runid, s.tries, s.held, s.sort_key,
       (select r.status from run r where r.runid = s.runid) as run_status
from (select datasetid, dataid from (select value ->> 0 as datasetid, value ->> 1 as dataid from json_each(:chunks)) g ) c
cross join datastatus s on s.datasetid = c.datasetid and s.dataid = c.dataid and s.locktype = 'OUT'

-- name: chunks_gone_since
select datasetid, dataid from event
where eventid > (select coalesce(max(eventid), 0) from event) - :look_back and after is null and kind in ('forgotten', 'sql')
  and dataid is not null and at > :at

-- name: chunks_in_order
select dataid, status from datastatus where datasetid = :datasetid and locktype = 'OUT' order by sort_key, dataid

-- name: chunks_mark
update datastatus set seal = -1
where datasetid = :datasetid and dataid in (select value from json_each(:dataids)) and jobid = :jobid and locktype = :locktype

-- name: chunks_noted
insert into datastatus as d (datasetid, dataid, jobid, locktype, status, sort_key, seal)
select s.datasetid, s.dataid, s.jobid, s.locktype, s.status, c.sort_key, 1
from (select value ->> 0 as datasetid, value ->> 1 as dataid, value ->> 2 as sort_key from json_each(:chunks)) c
cross join datastatus s on s.datasetid = c.datasetid and s.dataid = c.dataid and s.locktype = 'OUT'
where true
on conflict (datasetid, dataid) where locktype = 'OUT' do update set sort_key = excluded.sort_key, tries = 0, seal = d.seal + 1,
    runid = case when d.status <> 'READY' or exists (select 1 from run r where r.runid = d.runid and r.status = 'READY') then d.runid end

-- name: chunks_of_dataid
select s.datasetid, s.dataid, s.status from dataset d cross join datastatus s on s.datasetid = d.datasetid and s.dataid = :dataid and s.locktype = 'OUT'
order by d.datasetid limit :n

-- name: chunks_of_events
select datasetid, dataid from event
where eventid > :floor and eventid <= :last and dataid is not null and datasetid || '' in (select value from json_each(:datasets))

-- name: chunks_page
select datasetid, dataid, jobid, status, modified, epoch, version, runid, tries, held, lowerbound as lower, upperbound as upper, sort_key
from datastatus
where datasetid = :datasetid and locktype = 'OUT' and (sort_key, dataid) > (:after_key, :after_dataid)
order by sort_key, dataid limit :n

-- name: chunks_put
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

-- name: chunks_that_vanished
select e.datasetid || ' ' || e.dataid || ' was published and is not there' as what
from (select distinct datasetid, dataid from event where kind in ('published', 'announced')) e
where not exists (select 1 from datastatus s where s.datasetid = e.datasetid and s.dataid = e.dataid and s.locktype = 'OUT')
  and not exists (select 1 from event b where b.datasetid = e.datasetid and b.dataid = e.dataid and b.kind in ('forgotten', 'sql'))
order by e.datasetid, e.dataid

-- name: chunks_then
select c.datasetid, c.dataid, e.at, e.kind, e.jobid, e.runid, e.epoch,
       case when e.kind in ('refused', 'given back') then (select q.before from event q where q.datasetid = c.datasetid and q.dataid = c.dataid and q.runid = e.runid
                                          and q.kind = 'claimed' order by q.eventid desc limit 1) else e.after end as after,
       n.at as next_at, n.kind as next_kind, n.before as next_before, v.epoch as version_then,
       s.status as status_now, s.version as version_now, s.jobid as jobid_now, s.runid as runid_now, s.modified as modified_now, s.sort_key
from (select value ->> 0 as datasetid, value ->> 1 as dataid, key as position from json_each(:chunks)) c
left join event e on e.eventid = (
    select p.eventid from event p where p.datasetid = c.datasetid and p.dataid = c.dataid and p.at <= :at
      and (p.after in ('RUNNING', 'READY', 'FAILED', 'RESUBMIT', 'HOLD', 'PENDING') or (p.after is null and p.kind in ('forgotten', 'sql'))
           or (p.kind in ('refused', 'given back') and p.before = 'RUNNING'))
      and p.kind <> 'sql reading' and not (p.kind = 'sql' and (p.before = 'DONE' or p.after = 'DONE' or (
          exists (select 1 from job j where j.jobid = p.jobid and j.datasetid = p.datasetid and j.itemtype = 'IN')
          and not exists (select 1 from job j where j.jobid = p.jobid and j.datasetid = p.datasetid and j.itemtype = 'OUT'))))
    order by p.at desc, p.eventid desc limit 1)
left join event n on n.eventid = (
    select p.eventid from event p where p.datasetid = c.datasetid and p.dataid = c.dataid and p.at > :at
      and (p.after in ('RUNNING', 'READY', 'FAILED', 'RESUBMIT', 'HOLD', 'PENDING') or (p.after is null and p.kind in ('forgotten', 'sql'))
           or (p.kind in ('refused', 'given back') and p.before = 'RUNNING'))
      and p.kind <> 'sql reading' and not (p.kind = 'sql' and (p.before = 'DONE' or p.after = 'DONE' or (
          exists (select 1 from job j where j.jobid = p.jobid and j.datasetid = p.datasetid and j.itemtype = 'IN')
          and not exists (select 1 from job j where j.jobid = p.jobid and j.datasetid = p.datasetid and j.itemtype = 'OUT'))))
    order by p.at asc, p.eventid asc limit 1)
left join event v on v.eventid = (
    select p.eventid from event p where p.datasetid = c.datasetid and p.dataid = c.dataid and p.at <= :at
      and p.kind in ('published', 'announced', 'rolled back')
    order by p.at desc, p.eventid desc limit 1)
left join datastatus s on s.datasetid = c.datasetid and s.dataid = c.dataid and s.locktype = 'OUT'
order by c.position

-- name: chunks_unheld
select s.datasetid, s.sort_key, s.dataid from datastatus s left join run r on r.runid = s.runid and r.status = 'RUNNING'
where s.locktype = 'OUT' and s.status = 'RUNNING' and s.status <> 'READY' and r.runid is null
  and (:datasetid = '' or s.datasetid = :datasetid) and (:dataid = '' or s.dataid = :dataid)

-- name: chunks_unsettled
select s.datasetid, s.dataid, s.jobid, s.status, s.modified, s.runid, s.tries, s.sort_key, r.status as run_status, r.outcome, r.detail, r.owner,
       r.started, r.lease_until
from datastatus s left join run r on r.runid = s.runid
where s.locktype = 'OUT' and s.status <> 'READY' and s.status in ('RUNNING', 'FAILED', 'RESUBMIT', 'HOLD', 'PENDING')
order by s.status, s.datasetid, s.sort_key limit :n

-- name: chunks_with_status_page
select datasetid, dataid, jobid, status, modified, epoch, version, runid, tries, held, lowerbound as lower, upperbound as upper, sort_key
from datastatus
where datasetid = :datasetid and locktype = 'OUT' and status = :status and (sort_key, dataid) > (:after_key, :after_dataid)
order by sort_key, dataid limit :n

-- name: chunks_within
select s.datasetid, s.dataid, s.status
from (select value ->> 0 as datasetid, value ->> 1 as first, value ->> 2 as last from json_each(:spans)) v
cross join datastatus s indexed by chunks_in_order on s.locktype = 'OUT' and s.datasetid = v.datasetid and s.sort_key >= v.first and s.sort_key <= v.last
limit :most

-- name: claim_pick
with state as materialized (
    select (select value from meta where name = 'revision') as revision,
           exists (select 1 from note) as notes,
           exists (select 1 from run where status = 'RUNNING' and lease_until < lease_now()) as expired,
           exists (select 1 from candidate where state = 'DEFERRED' and not_before <= lease_now()) as due
), picked as materialized (
    select c.jobid, c.dataid from candidate c
    where c.jobid = :jobid and c.state = 'CLAIMABLE' and (select not (notes or expired or due) from state)
    order by c.rank, c.sort_key limit :n
    
)
select s.revision, s.notes, s.expired, s.due, f.dataid, f.rank, f.sort_key, f.epoch, f.tries, f.inputs
from state s left join picked p on true left join candidate_facts f on f.jobid = p.jobid and f.dataid = p.dataid
order by f.rank, f.sort_key

-- name: claim_pick_dataid
with state as materialized (
    select (select value from meta where name = 'revision') as revision,
           exists (select 1 from note) as notes,
           exists (select 1 from run where status = 'RUNNING' and lease_until < lease_now()) as expired,
           exists (select 1 from candidate where state = 'DEFERRED' and not_before <= lease_now()) as due
), picked as materialized (
    select c.jobid, c.dataid from candidate c
    where c.jobid = :jobid and c.dataid = :dataid and c.state in ('CLAIMABLE', 'DEFERRED')
      and (select not (notes or expired or due) from state)
    
)
select s.revision, s.notes, s.expired, s.due, f.dataid, f.rank, f.sort_key, f.epoch, f.tries, f.inputs
from state s left join picked p on true left join candidate_facts f on f.jobid = p.jobid and f.dataid = p.dataid

-- name: claim_take
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

-- name: claimable_count
select count(*) as n from (select 1 from candidate where jobid = :jobid and state = 'CLAIMABLE' limit :most) c

-- name: claimable_counts
select j.jobid, (select count(*) from (select 1 from candidate c where c.jobid = j.jobid and c.state = 'CLAIMABLE' limit :most) counted) as n
from (select distinct jobid from job where itemtype = 'OUT') j

-- name: clear_for_import_dataset
delete from dataset

-- name: clear_for_import_meta
delete from meta where name not in ('clock', 'revision')

-- name: clear_for_import_note
delete from note

-- name: clock_offset
select value from meta where name = 'clock'

-- name: clock_offset_put
insert into meta (name, value) values ('clock', :value) on conflict (name) do update set value = excluded.value

-- name: columns
select t.name as relation, c.name as "column" from sqlite_master t join pragma_table_info(t.name) c
where t.type = 'table' and t.name not like 'sqlite_%'
union all
select name, '' from sqlite_master where type = 'view'

-- name: contents_of_run
select i.datasetid, m.fingerprint, i.dataid from run_input i
cross join data_manifest m on m.datasetid = i.datasetid and m.dataid = i.dataid and m.version = i.version
where i.runid = :runid and m.fingerprint is not null order by i.nth

-- name: counter
select n from counter where name = :name

-- name: counter_add
insert into counter (name, n) values (:name, :n) on conflict (name) do update set n = counter.n + excluded.n

-- name: counter_put
insert into counter (name, n) values (:name, :n) on conflict (name) do update set n = excluded.n

-- name: current_given
select s.datasetid, s.dataid, s.jobid, s.status, s.version, m.fingerprint, r.version is not null as is_recalled
from (select value ->> 0 as datasetid, value ->> 1 as dataid from json_each(:chunks)) c
cross join datastatus s on s.datasetid = c.datasetid and s.dataid = c.dataid and s.locktype = 'OUT'
left join data_manifest m on m.datasetid = s.datasetid and m.dataid = s.dataid and m.version = s.version
left join recalled r on r.datasetid = s.datasetid and r.dataid = s.dataid and r.version = s.version

-- name: dataids_newest
select dataid from datastatus
where datasetid = :datasetid and locktype = 'OUT' and sort_key >= :from_key and sort_key <= :to_key
order by sort_key desc, dataid desc limit :n

-- name: dataids_with_versions
select m.dataid from (
    select dataid, count(*) as versions from data_manifest where datasetid = :datasetid group by dataid having count(*) > :n
) m where m.versions - (select count(*) from event e where e.datasetid = :datasetid and e.dataid = m.dataid and e.kind = 'vacuumed') > :n
order by m.dataid

-- name: dataset_drop
delete from dataset where datasetid = :datasetid

-- name: dataset_put
insert into dataset (datasetid, kind, hostname, database, schemaname, tablename, username, encryptedpass, location, format, partition, checks, options)
values (:datasetid, :kind, :hostname, :database, :schemaname, :tablename, :username, :encryptedpass, :location, :format, :partition, :checks, :options)
on conflict (datasetid) do update set
    kind = excluded.kind, hostname = excluded.hostname, database = excluded.database, schemaname = excluded.schemaname,
    tablename = excluded.tablename, username = excluded.username, encryptedpass = excluded.encryptedpass,
    location = excluded.location, format = excluded.format, partition = excluded.partition, checks = excluded.checks,
    options = excluded.options, modified = now()

-- name: datasets
select datasetid, kind, hostname, database, schemaname, tablename, username, encryptedpass, location, format, partition, checks, options
from dataset order by datasetid

-- name: datasets_not_encrypted
select datasetid from dataset where coalesce(encryptedpass, '') <> '' and (
    length(encryptedpass) - length(rtrim(encryptedpass, '=')) > 2 or length(encryptedpass) > 16384 or not (
        (encryptedpass glob 'odf[12]:*' and length(encryptedpass) >= 69 and not substr(rtrim(encryptedpass, '='), 6) glob '*[^A-Za-z0-9_-]*')
        or (length(encryptedpass) >= 40 and not rtrim(encryptedpass, '=') glob '*[^A-Za-z0-9+/]*'
            and (length(encryptedpass) % 4 = 0 or instr(encryptedpass, '=') = 0)))) order by datasetid

-- name: datasets_with_chunks
select d.datasetid from dataset d where (select 1 from datastatus s where s.datasetid = d.datasetid and s.locktype = 'OUT' limit 1) is not null

-- name: deferred_counts
select d.jobid, count(*) as n from (select jobid || '' as jobid from candidate where state = 'DEFERRED') d group by d.jobid

-- name: deferred_given
select p.jobid, p.dataid from (select jobid, dataid from (select value ->> 0 as jobid, value ->> 1 as dataid from json_each(:pairs)) g ) p
cross join candidate c on c.jobid = p.jobid and c.dataid = p.dataid
where c.state = 'DEFERRED'

-- name: descendants
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
from (select * from found limit :n) f
cross join datastatus s on s.datasetid = f.datasetid and s.dataid = f.dataid and s.locktype = 'OUT'
left join data_manifest m on m.datasetid = f.datasetid and m.dataid = f.dataid and m.version = f.version

-- name: end_run
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

-- name: ends_by_clock
select (select e.dataid from event e where e.datasetid = :datasetid and e.dataid >= :first and e.dataid <= :last
            and length(e.dataid) = length(:first) and e.kind = 'announced' and e.who = 'clock'
        order by e.dataid limit 1) as first_dataid,
       (select e.dataid from event e where e.datasetid = :datasetid and e.dataid >= :first and e.dataid <= :last
            and length(e.dataid) = length(:first) and e.kind = 'announced' and e.who = 'clock'
        order by e.dataid desc limit 1) as last_dataid

-- name: ends_given
select
       (select d.dataid from datastatus d where d.locktype = 'OUT' and d.datasetid = v.datasetid
        and d.sort_key >= v.first and d.sort_key <= v.last order by d.sort_key, d.dataid limit 1) as first_dataid,
       (select d.dataid from datastatus d where d.locktype = 'OUT' and d.datasetid = v.datasetid
        and d.sort_key >= v.first and d.sort_key <= v.last order by d.sort_key desc, d.dataid desc limit 1) as last_dataid
from (select value ->> 0 as datasetid, value ->> 1 as first, value ->> 2 as last, key as position from json_each(:spans)) v order by v.position

-- name: epochs_that_shrink
select 'run ' || runid || ' of ' || jobid || ' ' || dataid || ' has epoch ' || epoch || ' after ' || before as what
from (select runid, jobid, dataid, epoch, lag(epoch) over (partition by jobid, dataid order by runid) as before from run) r
where epoch <= before order by runid

-- name: event_counts
select kind as name, count(*) as n from event where eventid > :floor and at >= :since group by kind

-- name: event_from
select eventid as number, at from event where eventid >= :number and eventid <= :last and kind <> 'sql' order by eventid limit 1

-- name: events_by_people
select eventid, at, kind, datasetid, dataid, jobid, after, who, substr(why, 1, 1000) as why
from event where eventid > :floor and eventid <= :last
  and kind || '' not in ('claimed', 'admitted', 'published', 'rescued', 'lost', 'stopped', 'given back', 'announced', 'vacuumed', 'kept')
  and (kind <> 'failed' or runid is null) and (kind <> 'refused' or jobid = 'outside')
order by eventid desc limit :n

-- name: events_of_chunk_newest
select eventid, at, kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt
from event where datasetid = :datasetid and dataid = :dataid order by eventid desc limit :n

-- name: events_of_chunk_page
select eventid, at, kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt
from event where datasetid = :datasetid and dataid = :dataid and eventid > :after order by eventid limit :n

-- name: events_of_chunk_until
select eventid, at, kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt
from event where datasetid = :datasetid and dataid = :dataid and at <= :at order by at desc, eventid desc limit :n

-- name: events_page
select eventid, at, kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt
from event where eventid > :after order by eventid limit :n

-- name: events_put
insert into event (at, kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt)
select coalesce(at, now()), kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt
from (select value ->> 'at' as at, value ->> 'kind' as kind, value ->> 'datasetid' as datasetid, value ->> 'dataid' as dataid, value ->> 'jobid' as jobid, value ->> 'runid' as runid, value ->> 'epoch' as epoch, value ->> 'before' as before, value ->> 'after' as after, value ->> 'who' as who, value ->> 'why' as why, value ->> 'receipt' as receipt from json_each(:events)) e

-- name: failed_newest
select s.dataid, s.runid, s.modified, r.outcome, substr(r.detail, 1, 4000) as detail
from (select dataid, runid, modified, sort_key from datastatus
      where datasetid = :datasetid and locktype = 'OUT' and status = 'FAILED' and status <> 'READY' order by sort_key desc limit :n) s
left join run r on r.runid = s.runid
order by s.sort_key desc

-- name: failures_untold
select s.datasetid, s.dataid, s.jobid, r.outcome, r.detail
from datastatus s left join run r on r.runid = s.runid and r.status in ('FAILED', 'LOST')
where s.locktype = 'OUT' and s.status = 'FAILED' and s.status <> 'READY'
  and not exists (select 1 from incident_chunk c where c.kind = 'failed' and c.datasetid = s.datasetid and c.dataid = s.dataid)
limit :n

-- name: gaps_in_history
select c.datasetid || ' ' || c.dataid || ': event ' || c.eventid || ' (' || c.kind || ') begins with ' || coalesce(c.before, 'no status')
       || ', and the one before it ended with ' || coalesce(c.ended, 'none') as what
from (select s.*, lag(s.after) over (partition by s.datasetid, s.dataid order by s.eventid) as ended from status_change s) c
where c.before is distinct from c.ended order by c.eventid

-- name: give_back
update datastatus set status = 'FAILED', seal = seal + 1, modified = now()
where :was_resubmit and (datasetid, dataid) in (select i.datasetid, i.dataid from run_input i where i.runid = :runid)
  and jobid = :jobid and locktype = 'IN' and status = 'RUNNING' and runid = :runid
  and exists (select 1 from run where runid = :runid and status = 'RUNNING');
update datastatus set status = 'RESUBMIT', runid = null, tries = max(tries - 1, 0), seal = seal + 1, modified = now()
where :was_resubmit and datasetid in (select value from json_each(:outputs)) and dataid = :dataid and locktype = 'OUT'
  and status = 'RUNNING' and runid = :runid and exists (select 1 from run where runid = :runid and status = 'RUNNING');
update run set status = 'REFUSED', ended = now(), lease_until = null, outcome = :outcome, detail = :detail
where runid = :runid and status = 'RUNNING' returning runid

-- name: has_schema
select exists (
    select 1 from pragma_table_info('migration') where name = 'checksum'
    ) as has_schema

-- name: heartbeat
update run set lease_until = lease_now() + lease
where runid in (select value from json_each(:runids)) and status = 'RUNNING'
  and exists (select 1 from job o
              join datastatus s on s.datasetid = o.datasetid and s.dataid = run.dataid and s.locktype = 'OUT'
                               and s.status = 'RUNNING' and s.runid = run.runid
              where o.jobid = run.jobid and o.itemtype = 'OUT')
returning runid, lease_until

-- name: history_of_chunks
select e.eventid, e.at, e.kind, e.datasetid, e.dataid, e.jobid, e.runid, e.epoch, e.before, e.after, e.who, e.why,
       (select r.outcome from run r where r.runid = e.runid) as outcome
from event e
where e.eventid in (select l.eventid from (select value ->> 0 as datasetid, value ->> 1 as dataid from json_each(:chunks)) c
    cross join event l on l.datasetid = c.datasetid and l.dataid = c.dataid and l.eventid < :before and l.eventid > :floor order by l.eventid desc limit :n)
order by e.eventid desc

-- name: history_of_datasets
select e.eventid, e.at, e.kind, e.datasetid, e.dataid, e.jobid, e.runid, e.epoch, e.before, e.after, e.who, e.why,
       (select r.outcome from run r where r.runid = e.runid) as outcome
from event e
where e.eventid in (select l.eventid from (select value from json_each(:datasets)) d
    cross join event l on l.datasetid = d.value and l.eventid + 0 < :before and l.eventid + 0 > :floor order by l.eventid desc limit :n)
order by e.eventid desc

-- name: history_of_kinds
select e.eventid, e.at, e.kind, e.datasetid, e.dataid, e.jobid, e.runid, e.epoch, e.before, e.after, e.who, e.why,
       (select r.outcome from run r where r.runid = e.runid) as outcome
from (select value from json_each(:kinds)) k
cross join event e on e.eventid in (select l.eventid from event l
    where l.kind >= k.value and l.kind <= k.value and l.kind <> 'claimed' and l.kind <> 'admitted' and l.kind <> 'published' and l.kind <> 'announced'
      and l.eventid < :before and l.eventid > :floor
    order by l.kind desc, l.eventid desc limit :n)
order by e.eventid desc

-- name: history_stretch
select e.eventid, e.at, e.kind, e.datasetid, e.dataid, e.jobid, e.runid, e.epoch, e.before, e.after, e.who, e.why,
       (select r.outcome from run r where r.runid = e.runid) as outcome
from event e
where e.eventid < :before and e.eventid > :floor
  and (:kinds = '[]' or e.kind || '' in (select value from json_each(:kinds)))
  and (:datasets = '[]' or e.datasetid || '' in (select value from json_each(:datasets)))
  and (:jobs = '[]' or e.jobid in (select value from json_each(:jobs)) or e.datasetid || '' in (select value from json_each(:outputs)))
  and (:statuses = '[]' or e.after in (select value from json_each(:statuses)))
  and (:who = '[]' or exists (select 1 from (select value from json_each(:who)) w where substr(e.who, 1, length(w.value)) = w.value))
order by e.eventid desc limit :n

-- name: history_without_a_run
select 'run ' || e.runid || ' of ' || e.jobid || ' ' || e.dataid || ' was claimed and is not there' as what from event e
where e.kind = 'claimed' and not exists (select 1 from run r where r.runid = e.runid)
order by e.eventid

-- name: incident_members
select c.datasetid, c.dataid, s.jobid, s.status
from incident_chunk c left join datastatus s on s.datasetid = c.datasetid and s.dataid = c.dataid and s.locktype = 'OUT'
where c.incidentid = :incidentid order by c.datasetid, c.dataid limit :n

-- name: incident_of_cause
select incidentid from incident where kind = :kind and cause = :cause and closed is null

-- name: incident_put
insert into incident (kind, cause, why, datasetid, dataid, jobid, opened) values (:kind, :cause, :why, :datasetid, :dataid, :jobid, now())
on conflict (kind, cause) where closed is null do nothing

-- name: incident_row
select incidentid, kind, cause, why, datasetid, dataid, jobid, chunks, most, opened, closed from incident where incidentid = :incidentid

-- name: incidents_close
update incident set closed = now() where closed is null and chunks = 0
returning incidentid, kind, cause, why, datasetid, dataid, jobid, chunks, most, opened, closed

-- name: incidents_count
update incident set chunks = n.n, most = case when n.n > most then n.n else most end
from (select i.incidentid, (select count(*) from incident_chunk c where c.incidentid = i.incidentid) as n
      from incident i where i.closed is null) n
where n.incidentid = incident.incidentid and incident.chunks <> n.n

-- name: incidents_open
select incidentid, kind, cause, why, datasetid, dataid, jobid, chunks, most, opened, closed
from incident where closed is null order by incidentid limit :n

-- name: incidents_page
select incidentid, kind, cause, why, datasetid, dataid, jobid, chunks, most, opened, closed
from incident where incidentid < :before order by incidentid desc limit :n

-- name: inputs_given
select i.runid, i.datasetid, i.dataid, i.version, s.lowerbound as lower, s.upperbound as upper,
       m.location, m.format, m.bytes, m.rows, m.span_lower, m.span_upper, m.fingerprint, m.body, m.runid as made_by
from run_input i
left join datastatus s on s.datasetid = i.datasetid and s.dataid = i.dataid and s.locktype = 'OUT'
left join data_manifest m on m.datasetid = i.datasetid and m.dataid = i.dataid and m.version = i.version
where i.runid in (select value from json_each(:runids))
order by i.runid, i.nth

-- name: inputs_now_given
select s.datasetid, s.dataid, i.datasetid as in_datasetid, i.dataid as in_dataid
from (select value ->> 0 as datasetid, value ->> 1 as dataid from json_each(:chunks)) c
cross join datastatus s on s.datasetid = c.datasetid and s.dataid = c.dataid and s.locktype = 'OUT'
cross join data_manifest m on m.datasetid = s.datasetid and m.dataid = s.dataid and m.version = s.version
cross join run_input i on i.runid = m.runid

-- name: inputs_of_job
select datasetid, dataid, jobid, status, modified, epoch, version, runid from datastatus
where datasetid = :datasetid and dataid = :dataid and jobid = :jobid and locktype = 'IN'

-- name: inputs_of_run
select datasetid, dataid, version from run_input where runid = :runid order by nth

-- name: is_in_use
select exists (select 1 from job) or exists (select 1 from datastatus) or exists (select 1 from run) or exists (select 1 from event) as is_in_use

-- name: job_clear
delete from job where jobid = :jobid

-- name: job_item_put
insert into job (jobid, itemtype, datasetid, itemvalue, modified) values (:jobid, :itemtype, :datasetid, :itemvalue, now())

-- name: job_items
select jobid, itemtype, datasetid, itemvalue from job order by jobid, itemtype, datasetid

-- name: job_rule_drop
delete from jobrule where jobid = :jobid

-- name: job_rule_put
insert into jobrule (jobid, retries, backoff, backoff_max, retry_on, lease, timeout, pool, options)
values (:jobid, :retries, :backoff, :backoff_max, :retry_on, :lease, :timeout, :pool, :options)
on conflict (jobid) do update set
    retries = excluded.retries, backoff = excluded.backoff, backoff_max = excluded.backoff_max, retry_on = excluded.retry_on,
    lease = excluded.lease, timeout = excluded.timeout, pool = excluded.pool, options = excluded.options, modified = now()

-- name: job_rules
select jobid, retries, backoff, backoff_max, retry_on, lease, timeout, pool, options from jobrule order by jobid

-- name: jobs_claimable
select '' as jobid where exists (select 1 from note)
             or exists (select 1 from run where status = 'RUNNING' and lease_until < lease_now())
             or exists (select 1 from candidate where state = 'DEFERRED' and not_before <= lease_now())
union all
select j.jobid from (select distinct jobid from job where itemtype = 'OUT') j
where (select 1 from candidate c where c.jobid = j.jobid and c.state = 'CLAIMABLE' limit 1) is not null

-- name: last_changes_given
select s.datasetid, s.dataid, s.jobid, s.status, s.modified, s.runid, r.outcome, r.detail, e.who, e.why
from (select value ->> 0 as datasetid, value ->> 1 as dataid from json_each(:chunks)) c
cross join datastatus s on s.datasetid = c.datasetid and s.dataid = c.dataid and s.locktype = 'OUT'
left join run r on r.runid = s.runid
left join event e on e.eventid = (select l.eventid from event l where l.datasetid = s.datasetid and l.dataid = s.dataid
                                 and l.kind not in ('refused', 'admitted') order by l.eventid desc limit 1)

-- name: last_events_given
select e.eventid, e.at, e.kind, e.datasetid, e.dataid, e.jobid, e.runid, e.epoch, e.before, e.after, e.who, e.why, e.receipt
from (select value ->> 0 as datasetid, value ->> 1 as dataid from json_each(:chunks)) c
cross join event e on e.eventid = (select l.eventid from event l where l.datasetid = c.datasetid and l.dataid = c.dataid order by l.eventid desc limit 1)

-- name: lease_clock
select lease_now() as now

-- name: lines_back
select s.dataid, s.status, s.modified, s.version, s.runid, s.sort_key, m.rows, m.bytes, m.published
from (select datasetid, dataid, status, modified, version, runid, sort_key from datastatus
      where datasetid = :datasetid and locktype = 'OUT' and (sort_key, dataid) < (:before_key, :before_dataid)
      order by sort_key desc, dataid desc limit :n) s
left join data_manifest m on m.datasetid = s.datasetid and m.dataid = s.dataid and m.version = s.version
order by s.sort_key desc, s.dataid desc

-- name: lines_back_ready
select s.dataid, s.status, s.modified, s.version, s.runid, s.sort_key, m.rows, m.bytes, m.published
from (select datasetid, dataid, status, modified, version, runid, sort_key from datastatus
      where datasetid = :datasetid and locktype = 'OUT' and status = 'READY' and (sort_key, dataid) < (:before_key, :before_dataid)
      order by sort_key desc, dataid desc limit :n) s
left join data_manifest m on m.datasetid = s.datasetid and m.dataid = s.dataid and m.version = s.version
order by s.sort_key desc, s.dataid desc

-- name: lines_back_unsettled
select s.dataid, s.status, s.modified, s.version, s.runid, s.sort_key, m.rows, m.bytes, m.published
from (select datasetid, dataid, status, modified, version, runid, sort_key from datastatus
      where datasetid = :datasetid and locktype = 'OUT' and status = :status and status <> 'READY'
      and (sort_key, dataid) < (:before_key, :before_dataid)
      order by sort_key desc, dataid desc limit :n) s
left join data_manifest m on m.datasetid = s.datasetid and m.dataid = s.dataid and m.version = s.version
order by s.sort_key desc, s.dataid desc

-- name: links_from_given
select f.in_datasetid, f.in_dataid, f.in_version, f.datasetid, f.dataid, f.version, f.jobid, f.runid, f.published,
       (select i.fingerprint from data_manifest i
        where i.datasetid = f.in_datasetid and i.dataid = f.in_dataid and i.version = f.in_version) as in_fingerprint
from (select value ->> 0 as datasetid, value ->> 1 as dataid from json_each(:chunks)) c
cross join made_from f on f.in_datasetid = c.datasetid and f.in_dataid = c.dataid
order by f.in_datasetid, f.in_dataid, f.datasetid, f.dataid, f.version

-- name: links_into_given
select i.datasetid as in_datasetid, i.dataid as in_dataid, i.version as in_version, m.datasetid, m.dataid, m.version, m.jobid, m.runid, m.published,
       (select f.fingerprint from data_manifest f
        where f.datasetid = i.datasetid and f.dataid = i.dataid and f.version = i.version) as in_fingerprint
from (select value ->> 0 as datasetid, value ->> 1 as dataid, value ->> 2 as version from json_each(:versions)) c
cross join data_manifest m on m.datasetid = c.datasetid and m.dataid = c.dataid and m.version = c.version
cross join run_input i on i.runid = m.runid
order by m.datasetid, m.dataid, m.version, 1, 2

-- name: links_of_versions
select c.value ->> 0 as in_datasetid, c.value ->> 1 as in_dataid, c.value ->> 2 as in_version, m.datasetid, m.dataid, m.version, m.jobid, m.runid,
       m.published, null as in_fingerprint
from json_each(:versions) c
cross join data_manifest m on m.rowid in (
    select d.rowid from run_input i cross join data_manifest d on d.runid = i.runid
    where i.datasetid = c.value ->> 0 and i.dataid = c.value ->> 1 and i.version = c.value ->> 2 and i.runid <= :last
    order by i.runid desc, d.datasetid desc limit :n)
order by 1, 2, m.datasetid, m.dataid, m.version

-- name: locations_absolute_page
select datasetid, dataid, version, location from data_manifest
where (datasetid, dataid, version) > (:datasetid, :dataid, :version) and (location like '/%' or location like '%://%')
order by datasetid, dataid, version limit :n

-- name: locations_in_use
select m.location from datastatus s
cross join data_manifest m on m.datasetid = s.datasetid and m.dataid = s.dataid and m.version = s.version
where s.datasetid = :datasetid and (s.locktype = 'OUT' or s.status = 'RUNNING') and m.location <> ''

-- name: locations_put
update data_manifest set location = c.location from (select value ->> 0 as datasetid, value ->> 1 as dataid, value ->> 2 as version, value ->> 3 as was, value ->> 4 as location from json_each(:changes)) c
where data_manifest.datasetid = c.datasetid and data_manifest.dataid = c.dataid and data_manifest.version = c.version and data_manifest.location = c.was

-- name: locks_without_a_run
select s.datasetid || ' ' || s.dataid || ' is RUNNING, and its run ' || coalesce(s.runid, 0) || ' is not' as what from datastatus s
where s.locktype = 'OUT' and s.status = 'RUNNING'
  and not exists (select 1 from run r where r.runid = s.runid and r.status = 'RUNNING')
  and not exists (select 1 from event e where e.datasetid = s.datasetid and e.dataid = s.dataid and e.kind = 'sql' and e.after = 'RUNNING')
order by s.datasetid, s.dataid

-- name: log_tail
select tail from log_tail where runid = :runid

-- name: log_tail_put
insert into log_tail (runid, tail) values (:runid, :tail) on conflict (runid) do nothing

-- name: made_from_version
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

-- name: made_newest
select s.dataid, s.status, m.runid, m.rows, m.bytes, r.started, r.ended
from (select datasetid, dataid, version, status, sort_key from datastatus
      where datasetid = :datasetid and locktype = 'OUT' and sort_key >= '' order by sort_key desc, dataid desc limit :n) s
left join data_manifest m on m.datasetid = s.datasetid and m.dataid = s.dataid and m.version = s.version
left join run r on r.runid = m.runid
order by s.sort_key desc, s.dataid desc

-- name: manifest
select datasetid, dataid, version, jobid, runid, location, format, bytes, rows, span_lower, span_upper, fingerprint, body, published
from data_manifest where datasetid = :datasetid and dataid = :dataid and version = :version

-- name: manifest_put
insert into data_manifest (datasetid, dataid, version, jobid, runid, location, format, bytes, rows, span_lower, span_upper, fingerprint, passed, body, published)
values (:datasetid, :dataid, :version, :jobid, :runid, :location, :format, :bytes, :rows, :span_lower, :span_upper, :fingerprint, :passed, :body, now())
on conflict (datasetid, dataid, version) do nothing

-- name: manifests_newest
select datasetid, dataid, version, jobid, runid, location, format, bytes, rows, span_lower, span_upper, fingerprint, body, published
from data_manifest where datasetid = :datasetid and dataid = :dataid order by version desc limit :n

-- name: manifests_of_chunk
select datasetid, dataid, version, jobid, runid, location, format, bytes, rows, span_lower, span_upper, fingerprint, body, published
from data_manifest where datasetid = :datasetid and dataid = :dataid order by version desc

-- name: manifests_put
insert into data_manifest (datasetid, dataid, version, jobid, runid, location, format, bytes, rows, span_lower, span_upper, fingerprint, passed, body, published)
select m.datasetid, m.dataid, m.version, m.jobid, m.runid, m.location, m.format, m.bytes, m.rows, m.span_lower, m.span_upper, m.fingerprint,
       m.passed, m.body, now()
from (select value ->> 'datasetid' as datasetid, value ->> 'dataid' as dataid, value ->> 'version' as version, value ->> 'jobid' as jobid, value ->> 'runid' as runid, value ->> 'location' as location, value ->> 'format' as format, value ->> 'bytes' as bytes, value ->> 'rows' as rows, value ->> 'span_lower' as span_lower, value ->> 'span_upper' as span_upper, value ->> 'fingerprint' as fingerprint, value ->> 'passed' as passed, value ->> 'body' as body from json_each(:manifests)) m
where true
on conflict (datasetid, dataid, version) do nothing

-- name: may_define
select true as may

-- name: member_drop
delete from incident_chunk where kind = :kind and datasetid = :datasetid and dataid = :dataid

-- name: members_given
select m.datasetid, m.dataid from (select value ->> 0 as datasetid, value ->> 1 as dataid from json_each(:chunks)) c
cross join incident_chunk m on m.kind = :kind and m.datasetid = c.datasetid and m.dataid = c.dataid

-- name: members_of_kind
select datasetid, dataid from incident_chunk where kind = :kind order by datasetid, dataid limit :n

-- name: members_put
insert into incident_chunk (kind, datasetid, dataid, incidentid, eventid)
select :kind, c.datasetid, c.dataid, cast(:incidentid as bigint), c.eventid from (select value ->> 0 as datasetid, value ->> 1 as dataid, value ->> 2 as eventid from json_each(:chunks)) c
where true
on conflict (kind, datasetid, dataid) do nothing

-- name: members_settle
delete from incident_chunk where (kind, datasetid, dataid) in (
    select c.kind, c.datasetid, c.dataid from incident_chunk c
    left join datastatus s on s.datasetid = c.datasetid and s.dataid = c.dataid and s.locktype = 'OUT'
    where c.kind = 'failed' and coalesce(s.status, 'READY') in ('READY', 'HOLD', 'PENDING')
       or c.kind = 'recalled' and coalesce(s.status, 'READY') = 'READY'
       or c.kind = 'late' and s.status = 'READY'
       or c.kind = 'refused' and exists (select 1 from event later where later.datasetid = c.datasetid and later.dataid = c.dataid
                                                                    and later.eventid > c.eventid and later.kind <> 'refused'))

-- name: members_settled
select exists (
    select 1 from incident_chunk c
    left join datastatus s on s.datasetid = c.datasetid and s.dataid = c.dataid and s.locktype = 'OUT'
    where c.kind = 'failed' and coalesce(s.status, 'READY') in ('READY', 'HOLD', 'PENDING')
       or c.kind = 'recalled' and coalesce(s.status, 'READY') = 'READY'
       or c.kind = 'late' and s.status = 'READY'
       or c.kind = 'refused' and exists (select 1 from event later where later.datasetid = c.datasetid and later.dataid = c.dataid
                                                                    and later.eventid > c.eventid and later.kind <> 'refused')) as settled

-- name: message_counts
select state as name, count(*) as n from message group by state

-- name: message_end
update message set state = :state, problem = :problem, ended = now()
where messageid = :messageid and who = :who and state = 'SENDING' and tries = :tries

-- name: message_give_back
update message set state = 'WAITING', problem = :problem, not_before = lease_now() + :delay, lease_until = 0
where messageid = :messageid and who = :who and state = 'SENDING' and tries = :tries

-- name: message_put
insert into message (incidentid, target, what, number, chunks, not_before, written)
values (:incidentid, :target, :what, :number, :chunks, :not_before, now())
on conflict (incidentid, target, what, number) do nothing

-- name: message_take
update message set state = 'SENDING', who = :who, tries = tries + 1, lease_until = lease_now() + :lease
where messageid = (
    select m.messageid from message m
    where m.target = :target and m.ended is null and m.not_before <= lease_now()
      and (m.state = 'WAITING' or m.lease_until < lease_now())
      and not exists (select 1 from message earlier
                      where earlier.target = m.target and earlier.ended is null and earlier.incidentid = m.incidentid
                        and earlier.messageid < m.messageid)
    order by m.messageid limit 1)
returning messageid, incidentid, target, what, number, state, chunks, not_before, lease_until, tries, problem, who, written, ended

-- name: messages_drop
update message set state = 'DROPPED', ended = now(), problem = 'the incident closed before the message was sent'
where incidentid = :incidentid and what <> 'over' and state = 'WAITING'

-- name: messages_of_incident
select messageid, incidentid, target, what, number, state, chunks, not_before, lease_until, tries, problem, who, written, ended
from message where incidentid = :incidentid order by messageid

-- name: messages_unsent
select messageid, incidentid, target, what, number, state, chunks, not_before, lease_until, tries, problem, who, written, ended
from message where ended is null order by target, messageid limit :n

-- name: meta_get
select value from meta where name = :name

-- name: meta_put
insert into meta (name, value) values (:name, :value) on conflict (name) do update set value = excluded.value

-- name: migration_put
insert into migration (number, name, checksum, applied) values (:number, :name, :checksum, now())

-- name: migrations
select number, name, checksum from migration order by number

-- name: newest_event
select max(eventid) as eventid from event

-- name: newest_ready
select dataid from datastatus
where datasetid = :datasetid and locktype = 'OUT' and status = 'READY' and sort_key <= :until_key
order by sort_key desc, dataid desc limit 1

-- name: newest_run
select max(runid) as runid from run

-- name: newest_run_before
select runid from run where started < :at order by runid desc limit 1

-- name: news_page
select eventid, at, kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt
from event e
where eventid > :after and eventid <= :until and (
    kind = 'refused' and (jobid = 'outside' or after in ('WRONG_DATA', 'INVALID_PATH', 'NOT_VALIDATED', 'UNTRUSTED_DEFINITION'))
        and not exists (select 1 from event later where later.datasetid = e.datasetid and later.dataid = e.dataid
                                                    and later.eventid > e.eventid and later.kind <> 'refused')
    or kind = 'recalled'
        and (select s.status from datastatus s where s.datasetid = e.datasetid and s.dataid = e.dataid and s.locktype = 'OUT') <> 'READY'
        and not exists (select 1 from event later where later.datasetid = e.datasetid and later.dataid = e.dataid
                                                    and later.eventid > e.eventid and later.after = 'READY'))
order by eventid limit :n

-- name: note_put
insert into note (datasetid, dataid, locktype, after, who) values (:datasetid, :dataid, 'OUT', :after, null)

-- name: notes_page
select noteid, at, datasetid, dataid, jobid, locktype, before, after, who from note order by noteid limit :n

-- name: notes_take
delete from note where noteid <= (select max(noteid) from (select noteid from note order by noteid limit :n) oldest)
returning noteid, at, datasetid, dataid, jobid, locktype, before, after, who

-- name: notes_typed
select count(*) as n from note where who is not null and dataid is not null

-- name: noticed_get
select eventid from noticed where name = :name

-- name: noticed_put
insert into noticed (name, eventid) values (:name, :eventid) on conflict (name) do update set eventid = excluded.eventid

-- name: noticed_put_once
insert into noticed (name, eventid) values (:name, :eventid) on conflict (name) do nothing

-- name: other_tables
select name from sqlite_master where type in ('table', 'view') and name not like 'sqlite_%'
and not exists (select 1 from pragma_table_info('migration') where name = 'checksum')
order by name

-- name: outputs_claimed
select d.datasetid from dataset d
where (select count(*) from event e where e.datasetid = d.datasetid and e.dataid = :dataid and e.kind = 'claimed' and e.runid = :runid) > 0
order by d.datasetid

-- name: outputs_of_run
select d.datasetid from dataset d cross join datastatus s on s.datasetid = d.datasetid and s.dataid = :dataid and s.locktype = 'OUT'
where s.runid = :runid order by d.datasetid

-- name: pair_facts_alike
select f.inputs, f.outputs, f.reads, json_group_object(f.dataid, f.sort_key) as pairs
from (select p.key as dataid, p.value as sort_key,
             (select string_agg(s.status, ',') from (select value from json_each(:inputs)) i
              cross join datastatus s on s.datasetid = i.value and s.dataid = p.key and s.locktype = 'OUT') as inputs,
             (select string_agg(s.status, ',') from (select value from json_each(:outputs)) o
              cross join datastatus s on s.datasetid = o.value and s.dataid = p.key and s.locktype = 'OUT') as outputs,
             (select string_agg(s.status, ',') from (select value from json_each(:inputs)) i
              cross join datastatus s on s.datasetid = i.value and s.dataid = p.key and s.jobid = :jobid and s.locktype = 'IN'
                                  and coalesce((select r.dataid from run r where r.runid = s.runid), p.key) = p.key) as reads
      from (select key, value from json_each(:pairs)) p) f
group by f.inputs, f.outputs, f.reads

-- name: pause_drop
delete from pause where jobid = :jobid

-- name: pause_put
insert into pause (jobid, who, why, since) values (:jobid, :who, :why, now())
on conflict (jobid) do update set who = excluded.who, why = excluded.why, since = excluded.since

-- name: pauses
select jobid, who, why, since from pause order by jobid

-- name: pool_drop
delete from pool where poolid = :poolid

-- name: pool_put
insert into pool (poolid, slots, options) values (:poolid, :slots, :options)
on conflict (poolid) do update set slots = excluded.slots, options = excluded.options, modified = now()

-- name: pool_row
select slots, options, unixepoch('now', 'subsec') as now
from pool where poolid = :pool

-- name: pools
select poolid, slots, options from pool order by poolid

-- name: published_given
select m.datasetid, m.dataid, m.version, m.published from (select value ->> 0 as datasetid, value ->> 1 as dataid, value ->> 2 as version from json_each(:versions)) v
cross join data_manifest m on m.datasetid = v.datasetid and m.dataid = v.dataid and m.version = v.version

-- name: published_page
select m.datasetid, m.dataid, m.version, m.jobid, m.runid, m.location, m.format, m.bytes, m.rows, m.span_lower, m.span_upper, m.fingerprint, m.body,
       m.published, s.sort_key
from datastatus s
cross join data_manifest m on m.datasetid = s.datasetid and m.dataid = s.dataid and m.version = s.version
where s.datasetid = :datasetid and s.locktype = 'OUT' and s.status = 'READY' and (s.sort_key, s.dataid) > (:after_key, :after_dataid)
order by s.sort_key, s.dataid limit :n

-- name: published_twice
select datasetid || ' ' || dataid || ' was published more than once by epoch ' || epoch || ' of ' || jobid as what
from event where kind = 'published'
group by datasetid, dataid, jobid, epoch having count(*) > 1 order by datasetid, dataid

-- name: published_without_manifest
select e.datasetid || ' ' || e.dataid || ' has no manifest of version ' || e.epoch as what from event e
where e.kind = 'published'
  and not exists (select 1 from data_manifest m where m.datasetid = e.datasetid and m.dataid = e.dataid and m.version = e.epoch)
order by e.eventid

-- name: readers_given
select s.datasetid, s.dataid, s.jobid, s.status from (select value ->> 0 as datasetid, value ->> 1 as dataid from json_each(:chunks)) c
cross join datastatus s on s.datasetid = c.datasetid and s.dataid = c.dataid and s.locktype = 'IN'

-- name: readers_of_chunk
select datasetid, dataid, jobid, status, modified, epoch, version, runid from datastatus
where datasetid = :datasetid and dataid = :dataid and locktype = 'IN' order by jobid

-- name: readers_running
select count(*) as taken from run r
where r.status = 'RUNNING' and exists (select 1 from job i where i.datasetid = :datasetid and i.itemtype = 'IN' and i.jobid = r.jobid)

-- name: readings_forget
delete from datastatus where datasetid = :datasetid and locktype = 'IN' and seal = -1

-- name: readings_given
select s.datasetid, s.dataid, s.status from (select value ->> 0 as datasetid, value ->> 1 as dataid, value ->> 2 as made from json_each(:chunks)) c
cross join datastatus s on s.datasetid = c.datasetid and s.dataid = c.dataid and s.jobid = :jobid and s.locktype = 'IN'
                    and coalesce((select r.dataid from run r where r.runid = s.runid), c.made) = c.made

-- name: readings_mark
update datastatus set seal = -1 where datasetid = :datasetid and locktype = 'IN'

-- name: reads_of_nothing_published
select 'run ' || r.runid || ' was given ' || i.datasetid || ' ' || i.dataid || ' version ' || i.version as what
from run r
join (select runid, min(eventid) as eventid from event where kind = 'claimed' group by runid) c on c.runid = r.runid
join run_input i on i.runid = r.runid and i.version <> 0
where not r.forced
  and not exists (select 1 from event e where e.datasetid = i.datasetid and e.dataid = i.dataid and e.epoch = i.version
                  and e.kind in ('published', 'announced') and e.eventid <= c.eventid)
order by r.runid, i.nth

-- name: reads_of_pairs
select p.jobid, p.dataid, s.status from (select value ->> 0 as jobid, value ->> 1 as dataid, value ->> 2 as in_datasetid, value ->> 3 as in_dataid from json_each(:reads)) p
cross join datastatus s on s.datasetid = p.in_datasetid and s.dataid = p.in_dataid and s.jobid = p.jobid and s.locktype = 'IN'
                    and coalesce((select r.dataid from run r where r.runid = s.runid), p.dataid) = p.dataid

-- name: ready_chunks_page
select dataid, sort_key from datastatus
where datasetid = :datasetid and locktype = 'OUT' and status = 'READY' and (sort_key, dataid) > (:after_key, :after_dataid)
order by sort_key, dataid limit :n

-- name: ready_inputs_alike
select case
    when exists (select 1 from (select value from json_each(:outputs)) o cross join (select key, value from json_each(:pairs)) p
                 cross join datastatus s on s.datasetid = o.value and s.dataid = p.key and s.locktype = 'OUT')
      or exists (select 1 from (select value from json_each(:inputs)) i cross join (select key, value from json_each(:pairs)) p
                 cross join datastatus s on s.datasetid = i.value and s.dataid = p.key and s.jobid = :jobid and s.locktype = 'IN') then null
    else (select count(*) from (select value from json_each(:inputs)) i cross join (select key, value from json_each(:pairs)) p
          cross join datastatus s on s.datasetid = i.value and s.dataid = p.key and s.locktype = 'OUT'
          where i.value <> :ready and s.status = 'READY') end as ready

-- name: ready_without_history
select s.datasetid || ' ' || s.dataid || ' is READY with the unpublished version ' || s.version as what from datastatus s
where s.locktype = 'OUT' and s.status = 'READY' and s.version > 0
  and not exists (select 1 from event e where e.datasetid = s.datasetid and e.dataid = s.dataid and e.epoch = s.version
                  and e.kind in ('published', 'announced'))
order by s.datasetid, s.dataid

-- name: recalled_given
select r.datasetid, r.dataid, r.version, r.who, r.why, r.at from (select value ->> 0 as datasetid, value ->> 1 as dataid from json_each(:chunks)) c
cross join recalled r on r.datasetid = c.datasetid and r.dataid = c.dataid
order by 1, 2, 3

-- name: recalled_put
insert into recalled (datasetid, dataid, version, who, why, at)
select datasetid, dataid, version, :who, :why, now() from (select value ->> 0 as datasetid, value ->> 1 as dataid, value ->> 2 as version from json_each(:versions)) v
where true
on conflict do nothing

-- name: receipts_of_job_until
select eventid, at, kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt
from event where eventid > :floor and eventid <= :last and jobid || '' = :jobid and receipt is not null and at <= :at
order by eventid desc limit :n

-- name: refusal_counts
select coalesce(after, '') as name, count(*) as n from event where eventid > :after and eventid <= :upto and kind = 'refused' group by coalesce(after, '')

-- name: refusals
select eventid, at, kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt
from event e
where eventid > (select coalesce(max(eventid), 0) from event) - :look_back and kind = 'refused'
  and kind <> 'claimed' and kind <> 'admitted' and kind <> 'published' and kind <> 'announced'
  and (:jobid = '' or jobid = :jobid) and (:dataid = '' or dataid = :dataid)
  and (jobid = 'outside'
       and not exists (select 1 from event later
                       where later.datasetid = e.datasetid and later.dataid = e.dataid and later.eventid > e.eventid)
    or jobid <> 'outside' and after in ('WRONG_DATA', 'INVALID_PATH', 'NOT_VALIDATED', 'UNTRUSTED_DEFINITION')
       and (select c.state from candidate c where c.jobid = e.jobid and c.dataid = e.dataid) <> 'WAITING'
       and not exists (select 1 from event later
                       where later.datasetid = e.datasetid and later.dataid = e.dataid and later.eventid > e.eventid
                         and (later.kind in ('admitted', 'published', 'failed', 'rescued', 'lost', 'cancelled')
                              or later.kind = 'refused'
                                 and later.after in ('WRONG_DATA', 'INVALID_PATH', 'NOT_VALIDATED', 'UNTRUSTED_DEFINITION')))
       and (after = 'UNTRUSTED_DEFINITION' or not exists (
           select 1 from run_input i cross join datastatus s on s.datasetid = i.datasetid and s.dataid = i.dataid and s.locktype = 'OUT'
           where i.runid = e.runid and s.version <> i.version)))
order by eventid desc limit :n

-- name: refusals_until
select eventid, at, kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt
from event e
where eventid > :floor and eventid <= :last and at <= :at and kind = 'refused'
  and (jobid = 'outside' or after in ('WRONG_DATA', 'INVALID_PATH', 'NOT_VALIDATED', 'UNTRUSTED_DEFINITION'))
  and not exists (select 1 from event later
                  where later.datasetid = e.datasetid and later.dataid = e.dataid and later.eventid > e.eventid and later.at <= :at
                    and (e.jobid = 'outside' or later.kind not in ('claimed', 'given back', 'refused')
                         or later.kind = 'refused'
                            and later.after in ('WRONG_DATA', 'INVALID_PATH', 'NOT_VALIDATED', 'UNTRUSTED_DEFINITION')))
  and (jobid = 'outside' or after = 'UNTRUSTED_DEFINITION' or not exists (
      select 1 from run_input i
      where i.runid = e.runid
        and i.version <> (select v.epoch from event v where v.datasetid = i.datasetid and v.dataid = i.dataid and v.at <= :at
                            and v.kind in ('published', 'announced', 'rolled back') order by v.at desc, v.eventid desc limit 1)))
order by eventid desc limit :n

-- name: remake_drop
delete from remake where (datasetid, dataid) in (select c.datasetid, c.dataid from (select value ->> 0 as datasetid, value ->> 1 as dataid from json_each(:chunks)) c)

-- name: remake_put
insert into remake (datasetid, dataid, version)
select datasetid, dataid, version from (select value ->> 0 as datasetid, value ->> 1 as dataid, value ->> 2 as version from json_each(:chunks)) c
where true
on conflict (datasetid, dataid) do update set version = excluded.version

-- name: remakes_from_given
select r.datasetid, r.dataid, r.version, s.jobid, s.epoch, s.sort_key
from (select distinct r.datasetid, r.dataid, r.version from (select value ->> 0 as datasetid, value ->> 1 as dataid from json_each(:chunks)) c
      cross join made_from f on f.in_datasetid = c.datasetid and f.in_dataid = c.dataid
      cross join remake r on r.datasetid = f.datasetid and r.dataid = f.dataid and r.version = f.version
      order by 1, 2) r
cross join datastatus s indexed by one_out_row_per_chunk on s.datasetid = r.datasetid and s.dataid = r.dataid and s.locktype = 'OUT' and s.status = 'RESUBMIT' and s.version = r.version
where not exists (select 1 from note n where n.datasetid = r.datasetid and n.dataid = r.dataid and n.locktype = 'OUT' and n.who is not null)
order by 1, 2

-- name: resubmitted_chunks
select dataid from datastatus where datasetid = :datasetid and locktype = 'OUT' and status = 'RESUBMIT' and status <> 'READY' order by sort_key

-- name: revision
select value from meta where name = 'revision'

-- name: revision_next
update meta set value = cast(cast(value as bigint) + 1 as text) where name = 'revision'

-- name: rows_before
select m.rows from datastatus s
cross join data_manifest m on m.datasetid = s.datasetid and m.dataid = s.dataid and m.version = s.version
where s.datasetid = :datasetid and s.locktype = 'OUT' and s.status = 'READY' and s.sort_key < :before_key and m.rows is not null
order by s.sort_key desc limit :n

-- name: rows_newest
select s.dataid, m.rows, m.published
from (select datasetid, dataid, version, sort_key from datastatus
      where datasetid = :datasetid and locktype = 'OUT' and sort_key >= '' order by sort_key desc, dataid desc limit :n) s
cross join data_manifest m on m.datasetid = s.datasetid and m.dataid = s.dataid and m.version = s.version
where m.rows is not null order by s.sort_key desc, s.dataid desc

-- name: run_counts
select jobid, status, outcome, is_new, bucket, count(*) as n, sum(seconds) as seconds
from (select jobid, status, outcome, is_new, seconds,
             case when seconds <= 0.1 then 0 when seconds <= 1 then 1 when seconds <= 5 then 2 when seconds <= 15 then 3
                  when seconds <= 60 then 4 when seconds <= 300 then 5 when seconds <= 900 then 6 when seconds <= 3600 then 7
                  when seconds <= 14400 then 8 when seconds <= 86400 then 9 else 10 end as bucket
      from (select jobid, status, outcome, is_new, case when seconds > 0 then seconds else 0.0 end as seconds
            from (select jobid, status, outcome, 1 as is_new, (julianday(ended) - julianday(started)) * 86400.0 as seconds from run where runid > :after and runid <= :upto
                  union all
                  select jobid, status, outcome, 0, (julianday(ended) - julianday(started)) * 86400.0 from run where runid in (select value from json_each(:ended))) timed) each_run) in_buckets
group by jobid, status, outcome, is_new, bucket

-- name: run_from
select runid as number, started as at from run where runid >= :number and runid <= :last order by runid limit 1

-- name: run_is_over
select lease_until < lease_now() as is_over from run where runid = :runid

-- name: run_logs_put
update run set log = l.log from (select value ->> 0 as runid, value ->> 1 as log from json_each(:logs)) l where run.runid = l.runid

-- name: run_row
select runid, jobid, dataid, epoch, status, pool, owner, forced, inputs, started, ended, outcome, detail, exit_code, log, lease_until
from run_facts where runid = :runid

-- name: running_counts
select jobid, pool, count(*) as n, sum(case when lease_until < lease_now() then 1 else 0 end) as expired
from run where status = 'RUNNING' group by jobid, pool

-- name: running_runids
select runid from run where status = 'RUNNING'

-- name: runs_expired
select r.runid, r.jobid, r.dataid, r.epoch, r.owner, r.lease,
       coalesce((select max(s.tries) from job o
                 cross join datastatus s on s.datasetid = o.datasetid and s.dataid = r.dataid and s.locktype = 'OUT' and s.runid = r.runid
                 where o.jobid = r.jobid and o.itemtype = 'OUT'), 1) as tries
from run r where r.status = 'RUNNING' and r.lease_until < lease_now() order by r.runid + 0 limit :n

-- name: runs_failed_page
select runid, jobid, dataid, epoch, status, pool, owner, forced, inputs, started, ended, outcome, detail, exit_code, log, lease_until
from run_facts where runid < :before and runid > :floor and status not in ('READY', 'RUNNING') and coalesce(outcome, '') <> 'GIVEN_BACK'
order by runid desc limit :n

-- name: runs_of_dataid
select runid, jobid, dataid, epoch, status, pool, owner, forced, inputs, started, ended, outcome, detail, exit_code, log, lease_until
from run_facts where jobid = :jobid and dataid = :dataid order by epoch desc

-- name: runs_of_job_at
select runid, jobid, dataid, epoch, status, pool, owner, forced, inputs, started, ended, outcome, detail, exit_code, log, lease_until
from run_facts where jobid || '' = :jobid and runid < :before and runid > :floor and started <= :at and (ended is null or ended > :at)
order by runid desc limit :n

-- name: runs_of_job_page
select runid, jobid, dataid, epoch, status, pool, owner, forced, inputs, started, ended, outcome, detail, exit_code, log, lease_until
from run_facts where runid in (select r.runid from run r where r.jobid = :jobid and r.runid < :before order by r.runid desc limit :n)
order by runid desc

-- name: runs_of_job_recent
select runid, jobid, dataid, epoch, status, pool, owner, forced, inputs, started, ended, outcome, detail, exit_code, log, lease_until
from run_facts where jobid || '' = :jobid and runid < :before and runid > :floor order by runid desc limit :n

-- name: runs_over
select runid, jobid, dataid, epoch, status, pool, owner, forced, inputs, started, ended, outcome, detail, exit_code, log, lease_until
from run_facts where status = 'RUNNING' and lease_until < lease_now() order by runid

-- name: runs_page
select runid, jobid, dataid, epoch, status, pool, owner, forced, inputs, started, ended, outcome, detail, exit_code, log, lease_until
from run_facts where runid < :before order by runid desc limit :n

-- name: runs_remarked
select s.datasetid, s.dataid, s.sort_key, r.detail as remark
from run r cross join dataset d
cross join datastatus s on s.datasetid = d.datasetid and s.dataid = r.dataid and s.locktype = 'OUT'
where r.runid > (select coalesce(max(runid), 0) from run) - :look_back and r.status = 'READY' and r.detail is not null
  and s.runid = r.runid and s.status = 'READY'
order by r.runid desc limit :n

-- name: runs_running
select runid, jobid, dataid, epoch, status, pool, owner, forced, inputs, started, ended, outcome, detail, exit_code, log, lease_until
from run_facts where status = 'RUNNING' order by runid + 0

-- name: runs_took_given
select t.jobid, t.seconds from (
    select r.jobid, (julianday(r.ended) - julianday(r.started)) * 86400.0 as seconds, row_number() over (partition by r.jobid order by r.runid desc) as nth
    from run r
    where r.runid > (select coalesce(max(runid), 0) from run) - :look_back and r.status = 'READY' and r.ended is not null
      and r.jobid || '' in (select value from json_each(:jobs))) t
where t.nth <= :n and t.seconds is not null

-- name: runs_without_a_lock
select 'run ' || r.runid || ' of ' || r.jobid || ' ' || r.dataid || ' is RUNNING and does not hold each of its chunks' as what from run r
where r.status = 'RUNNING'
  and (select count(*) from datastatus s
       where s.locktype = 'OUT' and s.status = 'RUNNING' and s.runid = r.runid and s.dataid = r.dataid)
    < (select count(*) from event e where e.runid = r.runid and e.kind = 'claimed')
order by r.runid

-- name: runs_without_one_end
select 'run ' || r.runid || ' of ' || r.jobid || ' ' || r.dataid || ' is ' || r.status || ', and its history has '
       || coalesce(e.begun, 0) || ' claimed and ' || coalesce(e.ended, 0) || ' ended' as what
from run r left join (
    select runid, sum(case when kind = 'claimed' then 1 else 0 end) as begun,
           sum(case when kind in ('published', 'failed', 'rescued', 'lost', 'cancelled', 'stopped', 'given back', 'refused') then 1 else 0 end) as ended
    from event where runid is not null group by runid) e on e.runid = r.runid
where coalesce(e.begun, 0) = 0 or coalesce(e.ended, 0) <> (case when r.status = 'RUNNING' then 0 else e.begun end)
order by r.runid

-- name: same_content
select m.dataid from data_manifest m
cross join datastatus s on s.datasetid = m.datasetid and s.dataid = m.dataid and s.locktype = 'OUT' and s.version = m.version
where m.datasetid = :datasetid and m.fingerprint = :fingerprint and m.dataid <> :dataid
  and s.status in ('READY', 'HOLD', 'PENDING') order by m.dataid limit 1

-- name: same_content_from
select m.datasetid, m.dataid, m.version from run_input f
join data_manifest m on m.runid = f.runid
join datastatus s on s.datasetid = m.datasetid and s.dataid = m.dataid and s.locktype = 'OUT' and s.version = m.version
where (f.datasetid, f.dataid, f.version) in (
    select i.datasetid, i.dataid, i.version from data_manifest i where i.datasetid = :in_datasetid and i.fingerprint = :in_fingerprint)
  and m.datasetid || '' = :datasetid and m.dataid <> :dataid and m.fingerprint || '' = :fingerprint
  and s.status in ('READY', 'HOLD', 'PENDING') order by m.dataid limit :n

-- name: schema_pin
insert into pinned_schema (datasetid, schema) values (:datasetid, :schema) on conflict (datasetid) do nothing

-- name: schema_pinned
select schema from pinned_schema where datasetid = :datasetid

-- name: schema_unpin
delete from pinned_schema where datasetid = :datasetid

-- name: schemas_back
select s.dataid, m.version, m.published,
       case when json_valid(m.body) then m.body ->> 'schema' end as columns
from (select datasetid, dataid, version, sort_key from datastatus
      where datasetid = :datasetid and locktype = 'OUT' and sort_key >= '' order by sort_key desc, dataid desc limit :n) s
cross join data_manifest m on m.datasetid = s.datasetid and m.dataid = s.dataid and m.version = s.version
order by s.sort_key desc, s.dataid desc

-- name: slots_taken
select count(*) as taken from run where pool = :pool and pool <> '' and status = 'RUNNING'

-- name: span_chunks
select (select count(*) from (select 1 from datastatus d where d.locktype = 'OUT' and d.datasetid = v.datasetid
                               and d.sort_key >= v.first and d.sort_key <= v.last limit :most) c) as chunks
from (select value ->> 0 as datasetid, value ->> 1 as first, value ->> 2 as last, key as position from json_each(:spans)) v order by v.position

-- name: span_counts
select
       (select count(*) from (select 1 from datastatus d where d.locktype = 'OUT' and d.datasetid = v.datasetid
                               and d.sort_key >= v.first and d.sort_key <= v.last limit :most) c) as chunks,
       (select count(*) from (select 1 from datastatus d where d.status = 'RUNNING' and d.status <> 'READY' and d.locktype = 'OUT' and d.datasetid = v.datasetid
                               and d.sort_key >= v.first and d.sort_key <= v.last limit :most) c) as running,
       (select count(*) from (select 1 from datastatus d where d.status = 'FAILED' and d.status <> 'READY' and d.locktype = 'OUT' and d.datasetid = v.datasetid
                               and d.sort_key >= v.first and d.sort_key <= v.last limit :most) c) as failed,
       (select count(*) from (select 1 from datastatus d where d.status = 'RESUBMIT' and d.status <> 'READY' and d.locktype = 'OUT' and d.datasetid = v.datasetid
                               and d.sort_key >= v.first and d.sort_key <= v.last limit :most) c) as resubmit,
       (select count(*) from (select 1 from datastatus d where d.status = 'HOLD' and d.status <> 'READY' and d.locktype = 'OUT' and d.datasetid = v.datasetid
                               and d.sort_key >= v.first and d.sort_key <= v.last limit :most) c) as hold,
       (select count(*) from (select 1 from datastatus d where d.status = 'PENDING' and d.status <> 'READY' and d.locktype = 'OUT' and d.datasetid = v.datasetid
                               and d.sort_key >= v.first and d.sort_key <= v.last limit :most) c) as pending
from (select value ->> 0 as datasetid, value ->> 1 as first, value ->> 2 as last, key as position from json_each(:spans)) v order by v.position

-- name: stale_chunks
with recursive found (datasetid, dataid, version, is_direct) as (
    select k.datasetid, k.dataid, k.version, 1 from stale k
    cross join datastatus s on s.datasetid = k.datasetid and s.dataid = k.dataid and s.locktype = 'OUT' and s.version = k.version
    cross join datastatus n on n.datasetid = k.in_datasetid and n.dataid = k.in_dataid and n.locktype = 'OUT' and n.version <> k.in_version
    where not k.datasetid in (select value from json_each(:ignoring))
    union
    select f.datasetid, f.dataid, f.version, 0 from found u
    cross join made_from f on f.in_datasetid = u.datasetid and f.in_dataid = u.dataid
    cross join datastatus s on s.datasetid = f.datasetid and s.dataid = f.dataid and s.locktype = 'OUT' and s.version = f.version
    where not f.datasetid in (select value from json_each(:ignoring)) and (f.datasetid <> u.datasetid or f.dataid <> u.dataid)
    limit :n
)
select f.datasetid, f.dataid, s.jobid, s.status, s.version, s.sort_key, f.is_direct
from (select datasetid, dataid, max(is_direct) as is_direct from (select * from found limit :n) l group by datasetid, dataid) f
cross join datastatus s on s.datasetid = f.datasetid and s.dataid = f.dataid and s.locktype = 'OUT'

-- name: stale_clear
delete from stale where (datasetid, dataid, in_datasetid, in_dataid) in (
    select k.datasetid, k.dataid, k.in_datasetid, k.in_dataid from (select value ->> 0 as datasetid, value ->> 1 as dataid from json_each(:chunks)) c
    cross join stale k on k.datasetid = c.datasetid and k.dataid = c.dataid
    union
    select k.datasetid, k.dataid, k.in_datasetid, k.in_dataid from (select value ->> 0 as datasetid, value ->> 1 as dataid from json_each(:chunks)) c
    cross join stale k on k.in_datasetid = c.datasetid and k.in_dataid = c.dataid)

-- name: stale_count
select count(*) as n from (select 1 from stale limit :most) c

-- name: stale_marks_given
select k.datasetid, k.dataid, k.version, k.in_datasetid, k.in_dataid, k.in_version, n.version as in_now
from (select value ->> 0 as datasetid, value ->> 1 as dataid from json_each(:chunks)) c
cross join stale k on k.datasetid = c.datasetid and k.dataid = c.dataid
cross join datastatus s on s.datasetid = k.datasetid and s.dataid = k.dataid and s.locktype = 'OUT' and s.version = k.version
cross join datastatus n on n.datasetid = k.in_datasetid and n.dataid = k.in_dataid and n.locktype = 'OUT' and n.version <> k.in_version
order by 1, 2, 4, 5

-- name: stale_put
insert into stale (datasetid, dataid, version, in_datasetid, in_dataid, in_version)
select datasetid, dataid, version, in_datasetid, in_dataid, in_version
from (select value ->> 0 as datasetid, value ->> 1 as dataid, value ->> 2 as version, value ->> 3 as in_datasetid, value ->> 4 as in_dataid, value ->> 5 as in_version from json_each(:marks)) k
where true
on conflict (datasetid, dataid, in_datasetid, in_dataid) do update set version = excluded.version, in_version = excluded.in_version

-- name: status_counts
select datasetid, status, count(*) as n from datastatus where locktype = 'OUT' group by datasetid, status order by datasetid, status

-- name: statuses_given
select s.datasetid, s.dataid, s.status, s.version, s.runid from (select value ->> 0 as datasetid, value ->> 1 as dataid from json_each(:chunks)) c
cross join datastatus s on s.datasetid = c.datasetid and s.dataid = c.dataid and s.locktype = 'OUT'

-- name: statuses_without_history
select d.datasetid || ' ' || d.dataid || ' is ' || d.status || ', and its history ends with ' || coalesce(c.after, 'none') as what
from datastatus d left join status_change c
  on c.eventid = (select max(s.eventid) from status_change s where s.datasetid = d.datasetid and s.dataid = d.dataid)
where d.locktype = 'OUT' and d.status is distinct from c.after order by d.datasetid, d.dataid

-- name: stints_between
select runid, jobid, dataid, epoch, status, pool, owner, started, ended, outcome,
       case when (select count(*) from run_input i where i.runid = r.runid) <= :most then inputs end as inputs
from run_facts r where runid > :floor and runid <= :last and started < :until and (ended is null or ended >= :since)
  and coalesce(outcome, '') <> 'GIVEN_BACK' order by runid desc limit :n

-- name: stints_running
select runid, jobid, dataid, epoch, status, pool, owner, started, ended, outcome,
       case when (select count(*) from run_input i where i.runid = r.runid) <= :most then inputs end as inputs
from run_facts r where status = 'RUNNING' order by runid + 0 desc limit :n

-- name: superseded_given
select f.datasetid, f.dataid, f.version, s.jobid, s.status, f.in_datasetid, f.in_dataid, f.in_version,
       coalesce(was.fingerprint = new.fingerprint, false) as is_same
from (select f.datasetid, f.dataid, f.version, f.in_datasetid, f.in_dataid, f.in_version
      from (select value ->> 0 as datasetid, value ->> 1 as dataid from json_each(:chunks)) c cross join made_from f on f.in_datasetid = c.datasetid and f.in_dataid = c.dataid
      union all
      select l.datasetid, l.dataid, l.version, l.in_datasetid, l.in_dataid, l.in_version
      from (select value ->> 0 as datasetid, value ->> 1 as dataid, value ->> 2 as version, value ->> 3 as in_datasetid, value ->> 4 as in_dataid, value ->> 5 as in_version from json_each(:links)) l) f
cross join datastatus n on n.datasetid = f.in_datasetid and n.dataid = f.in_dataid and n.locktype = 'OUT' and n.version <> f.in_version
cross join datastatus s on s.datasetid = f.datasetid and s.dataid = f.dataid and s.locktype = 'OUT' and s.version = f.version
left join data_manifest was on was.datasetid = f.in_datasetid and was.dataid = f.in_dataid and was.version = f.in_version
left join data_manifest new on new.datasetid = f.in_datasetid and new.dataid = f.in_dataid and new.version = n.version
where f.in_datasetid <> f.datasetid or f.in_dataid <> f.dataid
union all
select k.datasetid, k.dataid, k.version, '', '', k.in_datasetid, k.in_dataid, k.in_version, true
from (select value ->> 0 as datasetid, value ->> 1 as dataid from json_each(:chunks)) c cross join stale k on k.datasetid = c.datasetid and k.dataid = c.dataid
union all
select k.datasetid, k.dataid, k.version, '', '', k.in_datasetid, k.in_dataid, k.in_version, true
from (select value ->> 0 as datasetid, value ->> 1 as dataid from json_each(:chunks)) c cross join stale k on k.in_datasetid = c.datasetid and k.in_dataid = c.dataid

-- name: two_runs_at_a_time
select jobid || ' ' || dataid || ' is produced by ' || count(*) || ' runs at the same time' as what
from run where status = 'RUNNING' group by jobid, dataid having count(*) > 1 order by jobid, dataid

-- name: typed_given
select exists (select 1 from note n where n.locktype = 'OUT' and n.who is not null
               and (n.datasetid, n.dataid) in (select c.datasetid, c.dataid from (select value ->> 0 as datasetid, value ->> 1 as dataid from json_each(:chunks)) c)) as typed

-- name: unfinished_of_job
select exists (select 1 from candidate where jobid = :jobid and state <> 'WAITING')
    or exists (select 1 from run where jobid = :jobid and status = 'RUNNING')
    or exists (select 1 from job o
               cross join datastatus s on s.datasetid = o.datasetid and s.locktype = 'OUT' and s.status <> 'READY'
                                   and s.status in ('RUNNING', 'FAILED', 'RESUBMIT', 'HOLD', 'PENDING')
               where o.jobid = :jobid and o.itemtype = 'OUT') as unfinished

-- name: unfit_notes
select eventid, at, kind, datasetid, dataid, jobid, runid, epoch, before, after, who, why, receipt
from event where kind = 'unfit note' order by eventid desc limit :n

-- name: unread_count
select count(*) as n from (
    select 1 from job i
    cross join datastatus s on s.datasetid = i.datasetid and s.locktype = 'OUT' and s.status = 'READY'
    where i.jobid = :jobid and i.itemtype = 'IN' and (
        select r.jobid from datastatus r
        where r.datasetid = s.datasetid and r.dataid = s.dataid and r.jobid = i.jobid and r.locktype = 'IN') is null
    limit :most) unread

-- name: unsettled_between
select s.datasetid, s.dataid, s.status from (select value ->> 0 as datasetid, value ->> 1 as first, value ->> 2 as last from json_each(:spans)) v
cross join datastatus s on s.status = 'RUNNING' and s.status <> 'READY' and s.locktype = 'OUT' and s.datasetid = v.datasetid and s.sort_key >= v.first and s.sort_key <= v.last
union all
select s.datasetid, s.dataid, s.status from (select value ->> 0 as datasetid, value ->> 1 as first, value ->> 2 as last from json_each(:spans)) v
cross join datastatus s on s.status = 'FAILED' and s.status <> 'READY' and s.locktype = 'OUT' and s.datasetid = v.datasetid and s.sort_key >= v.first and s.sort_key <= v.last
union all
select s.datasetid, s.dataid, s.status from (select value ->> 0 as datasetid, value ->> 1 as first, value ->> 2 as last from json_each(:spans)) v
cross join datastatus s on s.status = 'RESUBMIT' and s.status <> 'READY' and s.locktype = 'OUT' and s.datasetid = v.datasetid and s.sort_key >= v.first and s.sort_key <= v.last
union all
select s.datasetid, s.dataid, s.status from (select value ->> 0 as datasetid, value ->> 1 as first, value ->> 2 as last from json_each(:spans)) v
cross join datastatus s on s.status = 'HOLD' and s.status <> 'READY' and s.locktype = 'OUT' and s.datasetid = v.datasetid and s.sort_key >= v.first and s.sort_key <= v.last
union all
select s.datasetid, s.dataid, s.status from (select value ->> 0 as datasetid, value ->> 1 as first, value ->> 2 as last from json_each(:spans)) v
cross join datastatus s on s.status = 'PENDING' and s.status <> 'READY' and s.locktype = 'OUT' and s.datasetid = v.datasetid and s.sort_key >= v.first and s.sort_key <= v.last
limit :most

-- name: unsettled_bounded
with recursive w (status) as (values ('RUNNING'), ('FAILED'), ('RESUBMIT'), ('HOLD'), ('PENDING')),
found (status, datasetid) as (
    select w.status, (select min(d.datasetid) from datastatus d where d.locktype = 'OUT' and d.status <> 'READY' and d.status = w.status) from w
    union all
    select f.status, (select min(d.datasetid) from datastatus d
                      where d.locktype = 'OUT' and d.status <> 'READY' and d.status = f.status and d.datasetid > f.datasetid)
    from found f where f.datasetid is not null
)
select f.datasetid, f.status, (select count(*) from (select 1 from datastatus d
                                                     where d.locktype = 'OUT' and d.status <> 'READY' and d.status = f.status
                                                       and d.datasetid = f.datasetid limit :most) c) as n
from found f where f.datasetid is not null

-- name: unsettled_counts
select datasetid, status, count(*) as n from datastatus where locktype = 'OUT' and status <> 'READY' group by datasetid, status

-- name: unsettled_page
select datasetid, dataid, jobid, status, modified, epoch, version, runid, tries, held, lowerbound as lower, upperbound as upper, sort_key
from datastatus
where datasetid = :datasetid and locktype = 'OUT' and status = :status and status <> 'READY' and (sort_key, dataid) > (:after_key, :after_dataid)
order by sort_key, dataid || '' limit :n

-- name: vacuumed_versions
select epoch as version from event where datasetid = :datasetid and dataid = :dataid and kind = 'vacuumed'

-- name: versions_given
select v.dataid, max(v.version) as version from (
    select m.dataid, m.version from (select value from json_each(:dataids)) c
    cross join data_manifest m on m.datasetid = :datasetid and m.dataid = c.value and typeof(m.version) = 'integer'
    union all
    select f.in_dataid, f.in_version from (select value from json_each(:dataids)) c cross join made_from f on f.in_datasetid = :datasetid and f.in_dataid = c.value
    union all
    select r.dataid, r.version from (select value from json_each(:dataids)) c cross join recalled r on r.datasetid = :datasetid and r.dataid = c.value) v
group by v.dataid

-- name: versions_made
select v.datasetid, v.dataid, v.version, coalesce(m.jobid, e.jobid) as jobid, coalesce(m.runid, e.runid) as runid, coalesce(m.published, e.at) as at, e.who
from (select value ->> 0 as datasetid, value ->> 1 as dataid, value ->> 2 as version from json_each(:versions)) v
left join data_manifest m on m.datasetid = v.datasetid and m.dataid = v.dataid and m.version = v.version
left join event e on e.eventid = (
    select p.eventid from event p where p.datasetid = v.datasetid and p.dataid = v.dataid and p.epoch = v.version
      and p.kind in ('published', 'announced') order by p.eventid limit 1)
where m.version is not null or e.eventid is not null

-- name: versions_that_went_back
select s.datasetid || ' ' || s.dataid || ' is READY with version ' || s.version || ', and ' || e.newest || ' was published' as what
from datastatus s join (
    select datasetid, dataid, max(epoch) as newest from event where kind in ('published', 'announced') group by datasetid, dataid) e
  on e.datasetid = s.datasetid and e.dataid = s.dataid
where s.locktype = 'OUT' and s.status = 'READY' and s.version < e.newest
  and not exists (select 1 from event b where b.datasetid = s.datasetid and b.dataid = s.dataid
                  and b.kind in ('rolled back', 'forgotten', 'sql'))
order by s.datasetid, s.dataid
