-- Brings a store of schema 16 over to schema 17. What differs from a new store is the name of a rule, a comment, a rule that old rows did
-- not have to follow, and triggers.
alter table pool rename constraint pool_places_check to pool_slots_check;
comment on column event.session is 'the role that was connected when the event was written; a trigger sets it';
do $$ begin
    alter table dataset validate constraint encryptedpass_is_encrypted;
exception when check_violation then
    null; -- a password in plain text from before: odf migrate names it, and its row cannot be changed before it is encrypted
end $$;
-- TRUNCATE fires no trigger of a row, so nothing of it would be in the history.
create function datastatus_is_never_truncated() returns trigger language plpgsql
    as $$ begin raise exception 'TRUNCATE bypasses the history of datastatus: use DELETE'; end $$;
create trigger datastatus_is_never_truncated before truncate on datastatus
    for each statement execute function datastatus_is_never_truncated();
create function refuse_seal() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    raise check_violation using message = 'a seal, an epoch and a version are at most 1000000000000000';
end $$;
revoke execute on function refuse_seal() from public;
create trigger seal_is_bounded_on_insert before insert on datastatus
    for each row when (greatest(new.seal, new.epoch / 2, new.version / 2) > 1000000000000000) execute function refuse_seal();
create trigger seal_is_bounded_on_update before update of seal, epoch, version on datastatus
    for each row when (greatest(new.seal, new.epoch / 2, new.version / 2) > 1000000000000000) execute function refuse_seal();
