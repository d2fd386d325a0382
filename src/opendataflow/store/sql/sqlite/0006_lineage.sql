-- Lineage as rows: which version of which input went into which version. Stale, impact, recall and lineage read it from both ends.

create table made_from (
    in_datasetid text not null,
    in_dataid    text not null,
    in_version   integer not null,
    datasetid    text not null,
    dataid       text not null,
    version      integer not null,
    primary key (in_datasetid, in_dataid, datasetid, dataid, version)
) without rowid;
insert or ignore into made_from (in_datasetid, in_dataid, in_version, datasetid, dataid, version)
select i.value ->> 0, i.value ->> 1, i.value ->> 2, m.datasetid, m.dataid, m.version
from data_manifest m cross join json_each(case when json_valid(m.body) then m.body else '{}' end, '$.inputs') i
where i.type = 'array';

-- Chunks that are RESUBMIT only because what they were made from is newer, with the version that they had.
create table remake (
    datasetid text not null,
    dataid    text not null,
    version   integer not null,
    primary key (datasetid, dataid)
) without rowid;

-- Versions that somebody called back: no job reads them again.
create table recalled (
    datasetid text not null,
    dataid    text not null,
    version   integer not null,
    who       text not null default 'sql',
    why       text not null default '',
    at        text not null default current_timestamp,
    primary key (datasetid, dataid, version)
) without rowid;
