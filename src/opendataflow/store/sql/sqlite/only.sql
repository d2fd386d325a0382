-- What only SQLite needs: it has no server whose clock all processes share.

-- name: clock_offset
-- What this boot's monotonic clock has to be raised by, as agreed on by all processes.
select value from meta where name = 'clock'

-- name: clock_offset_put
-- Agree on the clock of this boot.
insert into meta (name, value) values ('clock', :value) on conflict (name) do update set value = excluded.value
