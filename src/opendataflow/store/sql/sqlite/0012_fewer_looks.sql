-- What every run pays for, and few things need: the chunks of one dataid are found dataset by dataset, and most runs have no pool.

drop index chunks_of_dataid;
drop index running_in_pool;
create index running_in_pool on run (pool) where status = 'RUNNING' and pool <> '';
