-- What people on call need: a job that starts nothing until somebody says so, and the last lines of a log where the log is not.

create table pause (
    jobid text primary key check (length(jobid) between 1 and 128),
    who   text not null default 'sql',
    why   text,
    since timestamptz not null default now()
);
create trigger note_pause after insert or update or delete on pause for each row execute function note_definition();

create table log_tail (
    runid bigint primary key,
    tail  text not null
);

-- By this two spellings of one address are told to be one store.
insert into meta (name, value) values ('identity', md5(random()::text || clock_timestamp()::text));
