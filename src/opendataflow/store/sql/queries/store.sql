-- The store itself: its catalogue, migrations, clock and values.

-- name: meta_get
-- One value about the store.
select value from meta where name = :name

-- name: meta_put
-- Set one value about the store.
insert into meta (name, value) values (:name, :value) on conflict (name) do update set value = excluded.value

-- name: lease_clock
-- The lease clock.
select lease_now() as now

-- name: migrations
-- The applied migrations, in order.
select number, name, checksum from migration order by number

-- name: migration_put
-- Record an applied migration.
insert into migration (number, name, checksum, applied) values (:number, :name, :checksum, now())

-- name: clear_for_import_dataset
-- Remove the default datasets of a new store.
delete from dataset

-- name: clear_for_import_note
-- Remove notes that triggers wrote during an import.
delete from note

-- name: clear_for_import_meta
-- Remove the values of a new store before an import, except its clock offset and revision.
delete from meta where name not in ('clock', 'revision')

-- name: is_in_use
-- Whether a store is not new.
select exists (select 1 from job) or exists (select 1 from datastatus) or exists (select 1 from run) or exists (select 1 from event) as is_in_use

-- name: transaction_status (postgres)
-- The status of a transaction: committed, aborted, or in progress; null if it is too old.
select pg_xact_status(:transaction::text::xid8)

-- name: lock_while_publishing (postgres)
-- Raise the idle timeout that this program set while files are published; a timeout of the owner stays.
select set_config('idle_in_transaction_session_timeout', '15min', true) where current_setting('idle_in_transaction_session_timeout') = '1min'

-- The clock of leases, in a file: a server has one that all processes share.

-- name: clock_offset (sqlite)
-- The offset of this boot's monotonic clock, shared by all processes.
select value from meta where name = 'clock'

-- name: clock_offset_put (sqlite)
-- Store the clock offset of this boot.
insert into meta (name, value) values ('clock', :value) on conflict (name) do update set value = excluded.value

-- name: counter
-- The value of a counter.
select n from counter where name = :name

-- name: counter_add
-- Add to a counter.
insert into counter (name, n) values (:name, :n) on conflict (name) do update set n = counter.n + excluded.n

-- name: counter_put
-- Set a counter.
insert into counter (name, n) values (:name, :n) on conflict (name) do update set n = excluded.n
