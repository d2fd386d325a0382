-- Brings a store of schema 16 over to schema 17. What differs from a new store is the name of a rule, a comment, and a rule that old rows
-- did not have to follow.
alter table pool rename constraint pool_places_check to pool_slots_check;
comment on column event.session is 'the role that was connected when the event was written; a trigger sets it';
do $$ begin
    alter table dataset validate constraint encryptedpass_is_encrypted;
exception when check_violation then
    null; -- a password in plain text from before: odf migrate names it, and its row cannot be changed before it is encrypted
end $$;
