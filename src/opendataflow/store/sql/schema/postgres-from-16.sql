-- Brings a store of schema 16 over to schema 17. What differs from a new store is the name of a rule, a comment, a rule that old rows
-- did not have to follow, and a trigger.
alter table pool rename constraint pool_places_check to pool_slots_check;
comment on column event.session is 'the role that was connected when the event was written; a trigger sets it';
do $$ begin
    alter table dataset validate constraint encryptedpass_is_encrypted;
exception when check_violation then
    null; -- a password in plain text from before: odf migrate names it, and its row cannot be changed before it is encrypted
end $$;
-- TRUNCATE fires no trigger of a row, so nothing of it would be in the history.
create function datastatus_is_never_truncated() returns trigger language plpgsql
    as $$ begin raise exception 'datastatus is not truncated, since its history would not say so: use DELETE'; end $$;
create trigger datastatus_is_never_truncated before truncate on datastatus
    for each statement execute function datastatus_is_never_truncated();
