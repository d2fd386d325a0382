-- The ids of a status row are checked whenever it is written. A pattern that counts to 127 is the dearest part of that: the same
-- rule in two halves costs a tenth of it.

alter table datastatus drop constraint datastatus_dataid_check, drop constraint datastatus_jobid_check;
alter table datastatus
    add constraint datastatus_dataid_check check (dataid ~ '^[A-Za-z0-9][A-Za-z0-9._=-]*$' and length(dataid) <= 128),
    add constraint datastatus_jobid_check check (jobid ~ '^[A-Za-z0-9][A-Za-z0-9._=-]*$' and length(jobid) <= 128);
