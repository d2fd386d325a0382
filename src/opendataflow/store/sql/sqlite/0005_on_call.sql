-- What people on call need: a job that starts nothing until somebody says so, and the last lines of a log where the log is not.

create table pause (
    jobid text primary key check (length(jobid) between 1 and 128),
    who   text not null default 'sql',
    why   text,
    since text not null default current_timestamp
);
create trigger note_pause_insert after insert on pause begin update meta set value = value + 1 where name = 'revision'; end;
create trigger note_pause_update after update on pause begin update meta set value = value + 1 where name = 'revision'; end;
create trigger note_pause_delete after delete on pause begin update meta set value = value + 1 where name = 'revision'; end;

create table log_tail (
    runid integer primary key,
    tail  text not null
);

-- By this two spellings of one address are told to be one store.
insert into meta (name, value) values ('identity', lower(hex(randomblob(8))));
