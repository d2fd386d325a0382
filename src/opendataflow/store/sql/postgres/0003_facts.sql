-- The store holds facts: history can neither be replaced nor emptied, who changed something is who was connected, and a
-- password is encrypted.

-- History -----------------------------------------------------------------------------------------------------------

create trigger event_is_never_emptied before truncate on event
    for each statement execute function event_is_append_only();

alter table event add column session text;
alter table event alter column session set default session_user;
create function session_of_writer() returns trigger language plpgsql set search_path = pg_catalog, pg_temp
    as $$ begin new.session := session_user; return new; end $$;
create trigger event_names_its_session before insert on event
    for each row when (new.session is distinct from session_user) execute function session_of_writer();
comment on column event.session is 'the role that was connected when the event was written; nobody can choose it';

create index unfit_notes on event (eventid) where kind = 'unfit note';

-- Notes -------------------------------------------------------------------------------------------------------------

create function note_by_session() returns trigger language plpgsql set search_path = pg_catalog, pg_temp
    as $$ begin new.who := session_user; return new; end $$;
create trigger note_names_its_session before insert or update on note
    for each row when (new.who is not null and new.who is distinct from session_user) execute function note_by_session();

-- Whoever may change a status or a definition needs no right on note and meta: the triggers write them as their owner.
-- Nobody else may hang them on a table of his own.
alter function note_chunk() security definer set search_path = pg_catalog, pg_temp;
alter function note_definition() security definer set search_path = pg_catalog, pg_temp;
revoke execute on function note_chunk(), note_definition() from public;

-- Passwords ---------------------------------------------------------------------------------------------------------

-- Not valid: what was there before does not stop the migration, which names it.
alter table dataset add constraint encryptedpass_is_encrypted check (
    coalesce(encryptedpass, '') = ''
    or (encryptedpass ~ '^odf[12]:[A-Za-z0-9_-]+={0,2}$' and length(encryptedpass) between 69 and 16384)
    or (encryptedpass ~ '^[A-Za-z0-9+/]+={0,2}$' and length(encryptedpass) between 40 and 16384
        and (length(encryptedpass) % 4 = 0 or encryptedpass !~ '='))) not valid;
