-- Freshness: stale chunks, chunks to remake, recalled versions.

-- name: stale_count
-- The number of stale marks, counted up to :most.
select count(*) as n from (select 1 from stale limit :most) c
