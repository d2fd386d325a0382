-- Which standing versions were made from an input that has another version by now, with other content. One hop only: what follows
-- from it further down is derived when somebody asks.

create table stale (
    datasetid    text not null,
    dataid       text not null,
    version      integer not null,
    in_datasetid text not null,
    in_dataid    text not null,
    in_version   integer not null,
    primary key (datasetid, dataid, in_datasetid, in_dataid)
) without rowid;
create index stale_by_input on stale (in_datasetid, in_dataid);
insert into stale (datasetid, dataid, version, in_datasetid, in_dataid, in_version)
select f.datasetid, f.dataid, f.version, f.in_datasetid, f.in_dataid, f.in_version
from made_from f
cross join datastatus s on s.datasetid = f.datasetid and s.dataid = f.dataid and s.locktype = 'OUT' and s.version = f.version
cross join datastatus n on n.datasetid = f.in_datasetid and n.dataid = f.in_dataid and n.locktype = 'OUT' and n.version <> f.in_version
left join data_manifest was on was.datasetid = f.in_datasetid and was.dataid = f.in_dataid and was.version = f.in_version
left join data_manifest new on new.datasetid = n.datasetid and new.dataid = n.dataid and new.version = n.version
where (f.in_datasetid, f.in_dataid) <> (f.datasetid, f.dataid) and coalesce(was.fingerprint <> new.fingerprint, true);
