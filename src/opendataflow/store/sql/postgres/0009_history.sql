-- What happens rarely is found by its kind, however long the history is. A claim and a commit tell none of it, so they pay nothing.

create index events_of_kind on event (kind, eventid) where kind <> 'claimed' and kind <> 'admitted' and kind <> 'published' and kind <> 'announced';
