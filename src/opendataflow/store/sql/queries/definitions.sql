-- Definitions: datasets, jobs, pools and pauses, and their revision.

-- name: revision
-- The revision, which every change of a definition increments.
select value from meta where name = 'revision'

-- name: revision_next
-- Increment the revision, so that all processes reload the definitions.
update meta set value = cast(cast(value as bigint) + 1 as text) where name = 'revision'

-- name: datasets
-- All datasets.
select datasetid, kind, hostname, database, schemaname, tablename, username, encryptedpass, location, format, partition, checks, options
from dataset order by datasetid

-- name: job_items
-- All items of all jobs: inputs with their mappings, outputs, environment.
select jobid, itemtype, datasetid, itemvalue from job order by jobid, itemtype, datasetid

-- name: job_rules
-- All job rules.
select jobid, retries, backoff, backoff_max, retry_on, lease, timeout, pool, options from jobrule order by jobid

-- name: pools
-- All pools.
select poolid, slots, options from pool order by poolid

-- name: pauses
-- Paused jobs.
select jobid, who, why, since from pause order by jobid

-- name: pause_put
-- Pause a job.
insert into pause (jobid, who, why, since) values (:jobid, :who, :why, now())
on conflict (jobid) do update set who = excluded.who, why = excluded.why, since = excluded.since

-- name: pause_drop
-- Resume a job.
delete from pause where jobid = :jobid

-- name: dataset_put
-- Insert or update one dataset.
insert into dataset (datasetid, kind, hostname, database, schemaname, tablename, username, encryptedpass, location, format, partition, checks, options)
values (:datasetid, :kind, :hostname, :database, :schemaname, :tablename, :username, :encryptedpass, :location, :format, :partition, :checks, :options)
on conflict (datasetid) do update set
    kind = excluded.kind, hostname = excluded.hostname, database = excluded.database, schemaname = excluded.schemaname,
    tablename = excluded.tablename, username = excluded.username, encryptedpass = excluded.encryptedpass,
    location = excluded.location, format = excluded.format, partition = excluded.partition, checks = excluded.checks,
    options = excluded.options, modified = now()

-- name: readings_mark
-- Mark the IN rows of a removed dataset, so that the trigger writes no note.
update datastatus set seal = -1 where datasetid = :datasetid and locktype = 'IN'

-- name: readings_forget
-- Remove the marked rows; lineage stays in runs and manifests.
delete from datastatus where datasetid = :datasetid and locktype = 'IN' and seal = -1

-- name: dataset_drop
-- Remove one dataset.
delete from dataset where datasetid = :datasetid

-- name: pool_drop
-- Remove one pool.
delete from pool where poolid = :poolid

-- name: job_clear
-- Remove all items of one job.
delete from job where jobid = :jobid

-- name: job_item_put
-- Insert one item of a job.
insert into job (jobid, itemtype, datasetid, itemvalue, modified) values (:jobid, :itemtype, :datasetid, :itemvalue, now())

-- name: job_rule_put
-- Insert or update the rules of one job.
insert into jobrule (jobid, retries, backoff, backoff_max, retry_on, lease, timeout, pool, options)
values (:jobid, :retries, :backoff, :backoff_max, :retry_on, :lease, :timeout, :pool, :options)
on conflict (jobid) do update set
    retries = excluded.retries, backoff = excluded.backoff, backoff_max = excluded.backoff_max, retry_on = excluded.retry_on,
    lease = excluded.lease, timeout = excluded.timeout, pool = excluded.pool, options = excluded.options, modified = now()

-- name: job_rule_drop
-- Remove the rules of one job.
delete from jobrule where jobid = :jobid

-- name: pool_put
-- Insert or update one pool.
insert into pool (poolid, slots, options) values (:poolid, :slots, :options)
on conflict (poolid) do update set slots = excluded.slots, options = excluded.options, modified = now()

-- name: pool_row
-- The slots of a pool, its hours, and the time of day.
select slots, options, {sqlite: unixepoch('now', 'subsec')}{postgres: extract(epoch from clock_timestamp())::double precision} as now
from pool where poolid = :pool

-- name: datasets_not_encrypted (sqlite)
-- Datasets with a plain-text password, stored before the schema refused that.
-- SQLite has no regular expressions.
select datasetid from dataset where coalesce(encryptedpass, '') <> '' and (
    length(encryptedpass) - length(rtrim(encryptedpass, '=')) > 2 or length(encryptedpass) > 16384 or not (
        (encryptedpass glob 'odf[12]:*' and length(encryptedpass) >= 69 and not substr(rtrim(encryptedpass, '='), 6) glob '*[^A-Za-z0-9_-]*')
        or (length(encryptedpass) >= 40 and not rtrim(encryptedpass, '=') glob '*[^A-Za-z0-9+/]*'
            and (length(encryptedpass) % 4 = 0 or instr(encryptedpass, '=') = 0)))) order by datasetid

-- name: datasets_not_encrypted (postgres)
-- Datasets with a plain-text password, stored before the schema refused that.
select datasetid from dataset where coalesce(encryptedpass, '') <> '' and not (
    (encryptedpass ~ '^odf[12]:[A-Za-z0-9_-]+={0,2}$' and length(encryptedpass) between 69 and 16384)
    or (encryptedpass ~ '^[A-Za-z0-9+/]+={0,2}$' and length(encryptedpass) between 40 and 16384
        and (length(encryptedpass) % 4 = 0 or encryptedpass !~ '='))) order by datasetid

-- name: may_define
-- Whether the role may register datasets and jobs: a role may have the right to work without it. A writable file is writable as a whole.
select {sqlite: true}{postgres: has_table_privilege('dataset', 'INSERT') and has_table_privilege('job', 'INSERT')} as may

-- name: lock_definitions (postgres)
-- Block changes of definitions until this transaction ends.
select pg_advisory_xact_lock_shared(727102)

-- name: schema_pinned
-- The schema of the first version of a dataset.
select schema from pinned_schema where datasetid = :datasetid

-- name: schema_pin
-- Keep the schema of the first version of a dataset.
insert into pinned_schema (datasetid, schema) values (:datasetid, :schema) on conflict (datasetid) do nothing

-- name: schema_unpin
-- Forget that schema.
delete from pinned_schema where datasetid = :datasetid

-- name: broken_jobs
-- Jobs that are recorded as broken.
select jobid from broken_job

-- name: broken_job_put
-- Record a job as broken.
insert into broken_job (jobid) values (:jobid) on conflict (jobid) do nothing

-- name: broken_job_drop
-- Record a job as repaired.
delete from broken_job where jobid = :jobid

-- name: applied_jobs
-- The jobs that a project applied last.
select jobid from applied_job where project = :project

-- name: applied_job_put
-- Record that a project applied a job.
insert into applied_job (project, jobid) values (:project, :jobid)

-- name: applied_job_drop
-- Record that a project no longer applies a job.
delete from applied_job where project = :project and jobid = :jobid
