-- The store holds facts: history can neither be replaced nor emptied, who changed something is who was connected, and a
-- password is encrypted. Whoever may write the file is one and the same writer: a change by SQL is by 'sql'.

-- History -----------------------------------------------------------------------------------------------------------

-- INSERT OR REPLACE removes a row without the triggers of a removal.
create trigger event_is_never_replaced before insert on event
    when exists (select 1 from event where eventid = new.eventid)
    begin select raise(abort, 'event is append-only: history is never changed'); end;
-- The number of a row that gets one by itself reads as -1 above: no row may have it.
create trigger event_is_numbered after insert on event when new.eventid < 1
    begin select raise(abort, 'event is append-only: its rows are numbered from 1'); end;

alter table event add column session text;

create index unfit_notes on event (eventid) where kind = 'unfit note';

-- Notes -------------------------------------------------------------------------------------------------------------

create trigger note_names_its_session after insert on note when new.who <> 'sql'
    begin update note set who = 'sql' where noteid = new.noteid; end;

-- Passwords ---------------------------------------------------------------------------------------------------------

create trigger encryptedpass_is_encrypted before insert on dataset when not (
    coalesce(new.encryptedpass, '') = ''
    or (typeof(new.encryptedpass) = 'text' and instr(new.encryptedpass, char(0)) = 0 and length(new.encryptedpass) <= 16384 and (
        (new.encryptedpass glob 'odf[12]:*' and length(new.encryptedpass) >= 69
            and not substr(rtrim(new.encryptedpass, '='), 6) glob '*[^A-Za-z0-9_-]*')
        or (length(new.encryptedpass) >= 40 and not rtrim(new.encryptedpass, '=') glob '*[^A-Za-z0-9+/]*'
            and (length(new.encryptedpass) % 4 = 0 or instr(new.encryptedpass, '=') = 0)))
        and length(new.encryptedpass) - length(rtrim(new.encryptedpass, '=')) <= 2))
    begin select raise(abort, 'encryptedpass_is_encrypted: this is no encrypted password'); end;
create trigger encryptedpass_stays_encrypted before update on dataset when not (
    coalesce(new.encryptedpass, '') = ''
    or (typeof(new.encryptedpass) = 'text' and instr(new.encryptedpass, char(0)) = 0 and length(new.encryptedpass) <= 16384 and (
        (new.encryptedpass glob 'odf[12]:*' and length(new.encryptedpass) >= 69
            and not substr(rtrim(new.encryptedpass, '='), 6) glob '*[^A-Za-z0-9_-]*')
        or (length(new.encryptedpass) >= 40 and not rtrim(new.encryptedpass, '=') glob '*[^A-Za-z0-9+/]*'
            and (length(new.encryptedpass) % 4 = 0 or instr(new.encryptedpass, '=') = 0)))
        and length(new.encryptedpass) - length(rtrim(new.encryptedpass, '=')) <= 2))
    begin select raise(abort, 'encryptedpass_is_encrypted: this is no encrypted password'); end;
