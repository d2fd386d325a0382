-- What only PostgreSQL needs: a schema of its own, what became of a transaction whose answer was lost, and locks, because several transactions write at the same time. A lock is
-- held until the transaction ends, and never on the row of a definition: a worker has no right to change one. In SQLite a
-- writing transaction is alone.

-- name: schema
-- Where everything lives.
create schema if not exists dataflow

-- name: may_create_schema
-- Whether this role may make a schema here; its name and that of the database.
select has_database_privilege(current_database(), 'CREATE'), current_user, current_database()

-- name: open_schemas
-- The schemas, the store's and public, in which every role may create functions that others then call.
select nspname from pg_namespace where (oid = to_regnamespace('dataflow') or nspname = 'public') and has_schema_privilege('public', oid, 'CREATE') order by nspname

-- name: schema_mark
-- Says of a schema that it is a scratch, and may be dropped.
comment on schema dataflow is 'scratch of odf chaos'

-- name: schema_marked
-- Whether a schema is there, and whether it is marked so.
select n.oid is not null, coalesce(obj_description(n.oid, 'pg_namespace') = 'scratch of odf chaos', false)
from (select to_regnamespace('dataflow')::oid as oid) n

-- name: schema_drop
-- The end of a scratch; nobody is waited for longer than a moment.
drop schema if exists dataflow cascade

-- name: migration_lock
-- One migrating process at a time.
select pg_advisory_xact_lock(727101)

-- name: numbered_columns
-- The columns that number their rows, with what counts for them.
select pg_get_serial_sequence('dataflow.' || c.relname, a.attname), a.attname, c.relname from pg_class c
join pg_attribute a on a.attrelid = c.oid and a.attidentity <> '' where c.relnamespace = 'dataflow'::regnamespace order by c.relname

-- name: lock_definitions
-- The definitions stay as they are until this transaction ends.
select pg_advisory_xact_lock_shared(727102)

-- name: lock_dataset
-- Announcements of one dataset come one after the other, so that each sees the versions and contents of the others; claims do not wait.
select pg_advisory_xact_lock(hashtextextended(:datasetid, 727105))

-- name: lock_content
-- Two runs that publish the same content do it one after the other, so that the second one sees the first.
select pg_advisory_xact_lock(hashtextextended(:datasetid || ' ' || :fingerprint, 727103))

-- name: lock_pairs
-- Two transactions that decide about the same (job, dataid) do it one after the other, so that each sees what the other changed.
select count(*) from (
    select pg_advisory_xact_lock_shared(hashtext(p ->> 0), 0), pg_advisory_xact_lock(hashtext(p ->> 0), hashtext(p ->> 1))
    from (select p from json_array_elements(:pairs::json) p order by hashtext(p ->> 0), hashtext(p ->> 1)) p offset 0) locked

-- name: lock_jobs
-- The same for a bulk change: whole jobs, because single locks would not fit into the lock table.
select count(*) from (
    select pg_advisory_xact_lock(job, 0) from (select distinct hashtext(j) as job from json_array_elements_text(:jobs::json) j order by 1) j offset 0) locked

-- name: lock_candidates
-- Whoever takes one of given candidates right now is waited for; in one order, so that nobody waits in a circle.
select count(*) from (
    select 1 from (select p ->> 0 as jobid, p ->> 1 as dataid from json_array_elements(:pairs::json) p order by 1, 2 offset 0) p
    cross join lateral (select c.state from candidate c where c.jobid = p.jobid and c.dataid = p.dataid offset 0 for update) c) locked

-- name: lock_readers
-- Claims that read a dataset with a limit are counted one after the other; announcing its chunks waits for nobody.
select pg_advisory_xact_lock(hashtextextended(:datasetid, 727104))

-- name: lock_consuming
-- Whoever publishes what these jobs made, and whoever publishes anew what they read, do it one after the other, also where no pair is locked.
select count(*) from (
    select pg_advisory_xact_lock_shared(hashtextextended(j, 727107)) from (select j from json_array_elements_text(:jobs::json) j order by 1) j offset 0) locked

-- name: lock_renewing
-- The other side of it.
select count(*) from (
    select pg_advisory_xact_lock(hashtextextended(j, 727107)) from (select j from json_array_elements_text(:jobs::json) j order by 1) j offset 0) locked

-- name: lock_inputs
-- What a run is about to read stays as it is until the claim is committed: whoever recalls it then finds the run.
select count(*) from (
    select d.datasetid from (select i ->> 0 as datasetid, i ->> 1 as dataid from json_array_elements(:inputs::json) i order by 1, 2 offset 0) i
    cross join lateral (select d.datasetid from datastatus d where d.datasetid = i.datasetid and d.dataid = i.dataid and d.locktype = 'OUT' for share) d) locked

-- name: lock_runs
-- Whoever ends one of these runs right now is waited for.
select count(*) from (select r.runid from run r where r.runid = any (array(select json_array_elements_text(:runids::json)::bigint)) order by r.runid for update) locked

-- name: lock_folding
-- What was changed from outside is folded in by one transaction after the other, so that nobody waits in a circle.
select pg_advisory_xact_lock(727108)

-- name: lock_pool
-- Claims that share a pool are counted one after the other.
select pg_advisory_xact_lock(hashtextextended(:pool, 727106))

-- name: lock_notices
-- Whoever writes or takes messages does it alone, so that nothing is told twice.
select pg_advisory_xact_lock(727118)

-- name: transaction_status
-- How a transaction ended: committed, aborted, or in progress; null when it is too old.
select pg_xact_status(:transaction::text::xid8)

-- name: lock_while_settling
-- The locks stay while files are moved, which may take longer than the server lets a session of ours be silent; what its owner chose stays.
select set_config('idle_in_transaction_session_timeout', '15min', true) where current_setting('idle_in_transaction_session_timeout') = '1min'
