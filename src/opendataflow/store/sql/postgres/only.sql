-- Only for PostgreSQL: a schema of its own, the outcome of interrupted commits, and locks, because transactions write concurrently. A lock is
-- held until the transaction ends, and never on the row of a definition, which a worker has no right to change. In SQLite a
-- write transaction locks the file.

-- name: schema
-- Create the schema.
create schema if not exists dataflow

-- name: may_create_schema
-- Whether this role may create a schema; its name and that of the database.
select has_database_privilege(current_database(), 'CREATE'), current_user, current_database()

-- name: open_schemas
-- The schemas, of the store's and public, in which every role may create functions.
select nspname from pg_namespace where (oid = to_regnamespace('dataflow') or nspname = 'public') and has_schema_privilege('public', oid, 'CREATE') order by nspname

-- name: schema_mark
-- Mark a schema as scratch, so that it may be dropped.
comment on schema dataflow is 'scratch of odf chaos'

-- name: schema_marked
-- Whether a schema exists, and whether it is marked as scratch.
select n.oid is not null, coalesce(obj_description(n.oid, 'pg_namespace') = 'scratch of odf chaos', false)
from (select to_regnamespace('dataflow')::oid as oid) n

-- name: schema_drop
-- Drop a scratch schema; waits only briefly for locks.
drop schema if exists dataflow cascade

-- name: migration_lock
-- Only one process migrates at a time.
select pg_advisory_xact_lock(727101)

-- name: numbered_columns
-- The identity columns with their sequences.
select pg_get_serial_sequence('dataflow.' || c.relname, a.attname), a.attname, c.relname from pg_class c
join pg_attribute a on a.attrelid = c.oid and a.attidentity <> '' where c.relnamespace = 'dataflow'::regnamespace order by c.relname

-- name: lock_definitions
-- Block changes of definitions until this transaction ends.
select pg_advisory_xact_lock_shared(727102)

-- name: lock_dataset
-- Serialize announcements of one dataset, so that each sees the versions and contents of the others; claims do not wait.
select pg_advisory_xact_lock(hashtextextended(:datasetid, 727105))

-- name: lock_content
-- Serialize runs that publish the same content, so that the second one sees the first.
select pg_advisory_xact_lock(hashtextextended(:datasetid || ' ' || :fingerprint, 727103))

-- name: lock_consuming
-- Serialize publishes of these jobs' outputs with new versions of their inputs, also where no pair is locked.
select count(*) from (
    select pg_advisory_xact_lock_shared(hashtextextended(j, 727107)) from (select j from json_array_elements_text(:jobs::json) j order by 1) j offset 0) locked

-- name: lock_renewing
-- The counterpart of lock_consuming, for new versions of inputs.
select count(*) from (
    select pg_advisory_xact_lock(hashtextextended(j, 727107)) from (select j from json_array_elements_text(:jobs::json) j order by 1) j offset 0) locked

-- name: lock_folding
-- Serialize folds, to avoid deadlocks.
select pg_advisory_xact_lock(727108)

-- name: lock_notices
-- Serialize writing and taking of messages, so that each is sent once.
select pg_advisory_xact_lock(727118)

-- name: transaction_status
-- The status of a transaction: committed, aborted, or in progress; null if it is too old.
select pg_xact_status(:transaction::text::xid8)

-- name: lock_while_publishing
-- Raise the idle timeout that this program set while files are published; a timeout of the owner stays.
select set_config('idle_in_transaction_session_timeout', '15min', true) where current_setting('idle_in_transaction_session_timeout') = '1min'
