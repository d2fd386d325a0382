-- One word, one meaning: data lies at a location, a pool has slots. And a receipt's verdict is the receipt's own:
-- the event of a claim says RUNNING, which is what the chunk became, not what the five questions answered.

drop view receipt;
alter table pool rename column places to slots;
alter table data_manifest rename column place to location;
drop index places;
create index running_in_pool on run (pool) where status = 'RUNNING';

create view receipt as
select eventid as receiptid, at, jobid, datasetid, dataid, runid,
       case when kind <> 'claimed' then after when why = 'forced' then 'NOT_ASKED' else 'YES' end as verdict, who, receipt
from event where receipt is not null;
