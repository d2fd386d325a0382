-- Lineage as rows: which version of which input went into which version. Stale, impact, recall and lineage read it from both ends.

create table made_from (
    in_datasetid text not null,
    in_dataid    text not null,
    in_version   bigint not null,
    datasetid    text not null,
    dataid       text not null,
    version      bigint not null,
    primary key (in_datasetid, in_dataid, datasetid, dataid, version)
);
-- One manifest that somebody wrote by hand must not stop the others.
do $$
declare m record;
begin
    begin
        insert into made_from (in_datasetid, in_dataid, in_version, datasetid, dataid, version)
        select i ->> 0, i ->> 1, (i ->> 2)::bigint, d.datasetid, d.dataid, d.version
        from data_manifest d cross join json_array_elements(d.body::json -> 'inputs') i on conflict do nothing;
    exception when others then
        for m in select * from data_manifest loop
            begin
                insert into made_from (in_datasetid, in_dataid, in_version, datasetid, dataid, version)
                select i ->> 0, i ->> 1, (i ->> 2)::bigint, m.datasetid, m.dataid, m.version
                from json_array_elements(m.body::json -> 'inputs') i on conflict do nothing;
            exception when others then
                null;
            end;
        end loop;
    end;
end $$;

-- Chunks that are RESUBMIT only because what they were made from is newer, with the version that they had.
create table remake (
    datasetid text not null,
    dataid    text not null,
    version   bigint not null,
    primary key (datasetid, dataid)
);

-- Versions that somebody called back: no job reads them again.
create table recalled (
    datasetid text not null,
    dataid    text not null,
    version   bigint not null,
    who       text not null default 'sql',
    why       text not null default '',
    at        timestamptz not null default now(),
    primary key (datasetid, dataid, version)
);
