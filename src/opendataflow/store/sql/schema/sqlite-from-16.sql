-- Brings a store of schema 16 over to schema 17. What differs from a new store is the bound of the seal.
create trigger seal_is_bounded_on_insert before insert on datastatus
    when max(new.seal, new.epoch / 2, new.version / 2) > 1000000000000000
    begin select raise(abort, 'a seal, an epoch and a version are at most 1000000000000000'); end;
create trigger seal_is_bounded_on_update before update of seal, epoch, version on datastatus
    when max(new.seal, new.epoch / 2, new.version / 2) > 1000000000000000
    begin select raise(abort, 'a seal, an epoch and a version are at most 1000000000000000'); end;
