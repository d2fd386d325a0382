-- The catalogue of the database: which tables and columns are there. A server also has schemas, and rights in them.

-- name: other_tables (sqlite)
-- Tables of other programs, in a database without a store.
select name from sqlite_master where type in ('table', 'view') and name not like 'sqlite_%'
and not exists (select 1 from pragma_table_info('migration') where name = 'checksum')
order by name

-- name: other_tables (postgres)
-- Tables of other programs, in a database without a store.
select relname as name from pg_class where relnamespace = to_regnamespace('dataflow') and relkind in ('r', 'p', 'v', 'm', 'f')
and not exists (select 1 from pg_attribute where attrelid = to_regclass('dataflow.migration') and attname = 'checksum')
order by relname

-- name: has_schema
-- Whether the table of migrations exists and belongs to a store.
select exists (
    {sqlite: select 1 from pragma_table_info('migration') where name = 'checksum'}
    {postgres: select 1 from pg_attribute where attrelid = to_regclass('dataflow.migration') and attname = 'checksum'}) as has_schema

-- name: columns (sqlite)
-- Every column of every table, and every view.
-- The columns of a view are unavailable while a table is missing.
select t.name as relation, c.name as "column" from sqlite_master t join pragma_table_info(t.name) c
where t.type = 'table' and t.name not like 'sqlite_%'
union all
select name, '' from sqlite_master where type = 'view'

-- name: columns (postgres)
-- Every column of every table, and every view.
select t.relname as relation, c.attname as "column" from pg_class t
join pg_attribute c on c.attrelid = t.oid and c.attnum > 0 and not c.attisdropped
where t.relnamespace = to_regnamespace('dataflow') and t.relkind in ('r', 'p')
union all
select relname, '' from pg_class where relnamespace = to_regnamespace('dataflow') and relkind = 'v'

-- name: numbered_columns (postgres)
-- The identity columns with their sequences.
select pg_get_serial_sequence('dataflow.' || c.relname, a.attname), a.attname, c.relname from pg_class c
join pg_attribute a on a.attrelid = c.oid and a.attidentity <> '' where c.relnamespace = 'dataflow'::regnamespace order by c.relname

-- name: schema (postgres)
-- Create the schema.
create schema if not exists dataflow

-- name: schema_mark (postgres)
-- Mark a schema as scratch, so that it may be dropped.
comment on schema dataflow is 'scratch of odf chaos'

-- name: schema_marked (postgres)
-- Whether a schema exists, and whether it is marked as scratch.
select n.oid is not null, coalesce(obj_description(n.oid, 'pg_namespace') = 'scratch of odf chaos', false)
from (select to_regnamespace('dataflow')::oid as oid) n

-- name: schema_drop (postgres)
-- Drop a scratch schema; waits only briefly for locks.
drop schema if exists dataflow cascade

-- name: may_create_schema (postgres)
-- Whether this role may create a schema; its name and that of the database.
select has_database_privilege(current_database(), 'CREATE'), current_user, current_database()

-- name: open_schemas (postgres)
-- The schemas, of the store's and public, in which every role may create functions.
select nspname from pg_namespace where (oid = to_regnamespace('dataflow') or nspname = 'public') and has_schema_privilege('public', oid, 'CREATE') order by nspname

-- name: migration_lock (postgres)
-- Only one process migrates at a time.
select pg_advisory_xact_lock(727101)
