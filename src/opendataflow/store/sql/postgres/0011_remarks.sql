-- READY runs with a remark are rare: whoever looks for them need not look through all the others.

create index runs_remarked on run (runid) where status = 'READY' and detail is not null;
