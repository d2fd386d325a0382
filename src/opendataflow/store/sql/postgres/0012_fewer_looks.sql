-- What every run pays for, and few things need.

-- One rule for the key of a status row: the server prepares each rule anew for every statement that writes one.
alter table datastatus drop constraint datastatus_dataid_check, drop constraint datastatus_jobid_check,
    drop constraint datastatus_locktype_check;
alter table datastatus add constraint datastatus_key_check check (
    dataid || ' ' || jobid || ' ' || locktype ~ '^[A-Za-z0-9][A-Za-z0-9._=-]* [A-Za-z0-9][A-Za-z0-9._=-]* (IN|OUT)$'
    and length(dataid) <= 128 and length(jobid) <= 128);

-- The chunks of one dataid are found dataset by dataset, and most runs have no pool.
drop index chunks_of_dataid, running_in_pool;
create index running_in_pool on run (pool) where status = 'RUNNING' and pool <> '';

-- Of a table that it does not know yet, the planner believes that = leaves one row in 200, and <> nearly all of them. A chunk is
-- found by its key in either case, only if the other index does not look as small.
drop index one_out_row_per_chunk, chunks_in_order;
create index chunks_in_order on datastatus (datasetid, sort_key, dataid, status) where locktype <> 'IN';
create unique index one_out_row_per_chunk on datastatus (datasetid, dataid) where locktype <> 'IN';
