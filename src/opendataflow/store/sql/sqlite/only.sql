-- Only for SQLite, which has no server with a clock that all processes share.

-- name: clock_offset
-- The offset of this boot's monotonic clock, shared by all processes.
select value from meta where name = 'clock'

-- name: clock_offset_put
-- Store the clock offset of this boot.
insert into meta (name, value) values ('clock', :value) on conflict (name) do update set value = excluded.value
